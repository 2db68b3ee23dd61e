"""What the commands share: fields set on the command line, counts, files to write, and JSON on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable
from lightloom.core.results import Document, plain
from lightloom.reports.figures.base import check_format


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on stdout; numbers that JSON lacks become null."""
    json.dump(plain(document), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def check_outputs(figures: Iterable[Path | None] = (), files: Iterable[Path | None] = ()) -> None:
    """Check before the work that every figure has a form that can be drawn, and that every file can be written.

    Raises:
        ConfigError: another form, or a place that cannot be written to.
    """
    drawn = [path for path in figures if path is not None]
    for path in drawn:
        check_format(path)
    for path in [*(path for path in files if path is not None), *drawn]:
        check_writable(path)


def read_settings(assignments: Iterable[str] | None, wavelengths: str | None = None) -> Document:
    """Return ``field=value`` pairs; values are read as YAML scalars, so ``8`` is a number and ``50GiB/s`` a text.

    Raises:
        ConfigError: no ``=``, a value that is no scalar, or ``wavelengths`` that are no whole number.
    """
    settings: Document = {}
    for assignment in assignments or ():
        field, equals, text = assignment.partition("=")
        if not equals or not field.strip():
            raise ConfigError(f"--set {assignment!r}: expected field=value, e.g. hop_latency=0.5us")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            value = text
        if isinstance(value, (dict, list)):
            raise ConfigError(f"--set {assignment!r}: expected a single value, not {type(value).__name__}")
        settings[field.strip()] = value
    if wavelengths is not None:
        settings["wavelengths"] = read_count(wavelengths, "--wavelengths")
    return settings


def read_count(text: str, option: str, least: int | None = None) -> int:
    """Return a whole number given to an option.

    Raises:
        ConfigError: not a whole number, or less than ``least``.
    """
    try:
        number = int(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r}: expected a whole number") from error
    if least is not None and number < least:
        raise ConfigError(f"{option} {number}: expected at least {least}")
    return number


def read_optional_count(text: str | None, option: str) -> int | None:
    """Return a whole number given to an option, or None where the option is not given."""
    return None if text is None else read_count(text, option)
