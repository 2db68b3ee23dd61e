"""Stored results of long measurements: JSON files of the package, or of a folder of the user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from lightloom.core.errors import ConfigError

COMMANDS: Mapping[str, str] = {
    "training, language": "lightloom reproduce optinc --work DIR --data DIR",
    "noise": "python -m lightloom.photonics.onn compare FILE",
}


def measured(name: str, folder: Path | None = None) -> Any:
    """Return the measurement of that name, or None if there is none.

    Args:
        name: ``training`` (MNIST), ``language`` or ``images`` (CIFAR-100).
        folder: where to look instead of among the measurements that come with the package.

    Raises:
        ConfigError: the file in ``folder`` is not JSON.
    """
    place = folder if folder is not None else files(__package__) / "measured"
    path = place / f"{name}.json"
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error}") from error


def noise_comparison() -> Any:
    """Return the comparison of trained and constructed networks of scenario 1 under noise, or None."""
    # The package that holds it would bring PyTorch along.
    path = files("lightloom.photonics") / "onn" / "trained" / "noise.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
