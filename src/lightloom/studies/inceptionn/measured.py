"""Stored results of measurements that take long or need root: JSON files of the package.

Each says which command made it. ``training.json`` may be taken from a folder of the user's own.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lightloom.core.errors import ConfigError

COMMANDS = {
    "training": "lightloom reproduce inceptionn --work DIR --data DIR",
    "exchange": "python -m benchmarks.exchange --json FILE",
    "software": "python -m benchmarks.software_codecs --json FILE",
    "links": "python -m benchmarks.links --json FILE",
    "codec": "python -m benchmarks.codec --gradients EARLY MIDDLE LATE --json FILE",
    "nic": "python -m benchmarks.nic --gradients MIDDLE --json FILE",
}


@cache
def measured(name: str, folder: Path | None = None) -> Any:
    """Return the measurement of that name.

    Args:
        folder: where to look instead of among the measurements that come with the package.

    Raises:
        ConfigError: the file in ``folder`` is not JSON.
    """
    if folder is None:
        return json.loads((files(__package__) / "measured" / f"{name}.json").read_text(encoding="utf-8"))
    path = folder / f"{name}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error}") from error
