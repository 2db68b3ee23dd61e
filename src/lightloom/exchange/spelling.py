"""How methods are written: ``name:key=value,flag``; a value in parentheses may hold commas itself.

diloco:every=50,inner=(int4:block=64,feedback)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lightloom.core.errors import ConfigError, InputError


def split(text: str) -> tuple[str, dict[str, str]]:
    """Return the name and the options in ``text``; a flag stands for ``flag=yes``.

    Raises:
        ConfigError: parentheses do not match, an option is empty or given twice.
    """
    name, colon, rest = text.strip().partition(":")
    options: dict[str, str] = {}
    for part in _parts(rest, text) if colon else ():
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if not key or (equals and not value):
            raise ConfigError(f"exchange {text!r}: empty option in {rest!r}: expected key=value or a flag")
        if key in options:
            raise ConfigError(f"exchange {text!r}: option {key!r} is given twice")
        options[key] = value.removeprefix("(").removesuffix(")") if value.startswith("(") else value or "yes"
    return name.strip(), options


def read(text: str, options: Mapping[str, str], readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """Return the values of all options, each read by its reader.

    Raises:
        ConfigError: there is no such option, or its value cannot be read.
    """
    values = {}
    for key, value in options.items():
        if key not in readers:
            known = ", ".join(readers) or "none"
            raise ConfigError(f"exchange {text!r}: no option {key!r}: expected one of {known}")
        try:
            values[key] = readers[key](value)
        except InputError:
            raise
        except ValueError as error:
            raise ConfigError(f"exchange {text!r}: option {key}={value}: {error}") from error
    return values


def flag(text: str) -> bool:
    """Read ``yes`` or ``no``.

    Raises:
        ValueError: it is neither.
    """
    if text not in ("yes", "no"):
        raise ValueError("expected yes or no")
    return text == "yes"


def whole(least: int, largest: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` to ``largest``."""

    def read_whole(text: str) -> int:
        if not text.lstrip("-").isdigit() or not least <= int(text) <= largest:
            raise ValueError(f"expected a whole number from {least} to {largest}")
        return int(text)

    return read_whole


def real(least: float, largest: float) -> Callable[[str], float]:
    """Return a reader of numbers from ``least`` to ``largest``."""

    def read_real(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= largest:
            raise ValueError(f"expected a number from {least:g} to {largest:g}")
        return value

    return read_real


def _parts(rest: str, text: str) -> list[str]:
    """Split at commas outside parentheses."""
    parts, depth, part = [], 0, ""
    for character in rest:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    if depth != 0:
        raise ConfigError(f"exchange {text!r}: parentheses do not match in {rest!r}")
    return [*parts, part]
