"""What the commands share: fields set on the command line, counts, files to write, and how a result is printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.table import Table
from rich.text import Text

from lightloom.core.documents import parse_yaml
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable
from lightloom.core.provenance import provenance_line
from lightloom.core.results import Document, plain
from lightloom.reports.console import make_console
from lightloom.reports.figures.base import check_format


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on stdout; numbers that JSON lacks become null."""
    json.dump(plain(document), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def print_result(
    document: Document,
    as_json: bool,
    parts: Iterable[str | Text | Table],
    written: Mapping[str, Path | None] | None = None,
) -> None:
    """Print a command's result: its document as JSON, or else its parts for people.

    Args:
        document: the result, with its ``provenance``.
        as_json: whether to print the document.
        parts: tables and lines, made only where they are printed; provenance and written files follow.
        written: files that were written, by what they hold; None for a file that was not requested.
    """
    if as_json:
        print_json(document)
        return
    console = make_console()
    for part in parts:
        if isinstance(part, Table) and not console.is_terminal:
            # A pipe has no edge: no word is broken there, and no column cut.
            console.width = max(
                console.width, console.measure(part, options=console.options.update(width=1 << 14)).minimum
            )
        console.print(part, soft_wrap=isinstance(part, str) and not console.is_terminal)
    console.print(provenance_line(document["provenance"]), style="dim")
    for name, path in (written or {}).items():
        if path is not None:
            console.print(f"{name}: {path}", soft_wrap=True)


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


def read_settings(assignments: Iterable[str] | None, wavelengths: int | None = None) -> Document:
    """Return ``field=value`` pairs; values are read as YAML scalars, so ``8`` is a number and ``50GiB/s`` a text.

    Raises:
        ConfigError: no ``=``, or a value that is no scalar.
    """
    settings: Document = {}
    for assignment in assignments or ():
        field, equals, text = assignment.partition("=")
        if not equals or not field.strip():
            raise ConfigError(f"--set {assignment!r}: expected field=value, e.g. hop_latency=0.5us")
        try:
            value = parse_yaml(text, f"--set {field}")
        except ConfigError:
            value = text
        if isinstance(value, (dict, list)):
            raise ConfigError(f"--set {assignment!r}: expected a single value, not {type(value).__name__}")
        settings[field.strip()] = value
    if wavelengths is not None:
        settings["wavelengths"] = wavelengths
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
