"""What the commands share: fields set on the command line, sizes, and JSON on stdout."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from typing import Any

from lightloom.core.errors import ConfigError


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout; numbers that JSON lacks become null."""
    json.dump(_plain(document), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """``field=value`` pairs; values are read as YAML scalars, so ``8`` is a number and ``50GiB/s`` a text.

    Raises:
        ConfigError: no ``=``, or a value that is no scalar.
    """
    import yaml

    found: dict[str, Any] = {}
    for assignment in assignments:
        field, equals, text = assignment.partition("=")
        if not equals or not field.strip():
            raise ConfigError(f"--set {assignment!r}: expected field=value, e.g. hop_latency=0.5us")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            value = text
        if isinstance(value, (dict, list)):
            raise ConfigError(f"--set {assignment!r}: expected a single value, not {type(value).__name__}")
        found[field.strip()] = value
    return found


def read_count(text: str, option: str) -> int:
    """A whole number given to an option.

    Raises:
        ConfigError: not a whole number.
    """
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r}: expected a whole number") from error
