"""Files of measurements: where they lie, and whether they are what their checksums say."""

from __future__ import annotations

import csv
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.fields import Config
from lightloom.core.files import cannot_read, is_file

FOLDER_VARIABLE = "LIGHTLOOM_MEASURED"
"""Environment variable that names the folder of measured tables."""
CHECKSUMS = "SHA256SUMS"

_ODD_NUMBER = re.compile(r"\s*[-+]?[\d_]+(\.[\d_]*)?([eE][-+]?[\d_]+)?\s*")
"""What Python would take for a number."""
_WORDS = {
    "Input should be a valid integer": "expected a whole number",
    "Input should be a valid number": "expected a number",
    "Input should be": "expected",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "expected greater than": "expected more than",
}
Line = TypeVar("Line", bound=Config)


def measured_file(name: Path | str) -> Path:
    """Return the path of a measured table: as given, else in the folder that ``LIGHTLOOM_MEASURED`` names.

    Raises:
        ConfigError: there is no such file in either place.
    """
    path = Path(name)
    if is_file(path):
        return path
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and is_file(Path(folder) / path):
        return Path(folder) / path
    place = f"nor in ${FOLDER_VARIABLE} ({folder})" if folder else f"and ${FOLDER_VARIABLE} is not set"
    if path.is_dir():
        raise ConfigError(f"{path}: it is a folder: expected a file")
    raise ConfigError(f"{path}: no such file, {place}")


def read_measured(path: Path) -> tuple[str, str]:
    """Return the text of a measured file and its SHA-256, compared with ``SHA256SUMS`` where that lists the file.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8, or differs from its checksum.
    """
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(path, error) from error
    digest = hashlib.sha256(content).hexdigest()
    expected = _listed_checksum(path)
    if expected is not None and digest != expected:
        raise ConfigError(f"{path}: SHA-256 {digest[:16]}... differs from {CHECKSUMS}, which lists {expected[:16]}...")
    return text, digest


def _listed_checksum(path: Path) -> str | None:
    """Return the checksum that the file's folder, or the one above, lists for it; None where neither does."""
    for folder in (path.resolve().parent, path.resolve().parent.parent):
        sums = folder / CHECKSUMS
        if not sums.is_file():
            continue
        for line in sums.read_text(encoding="utf-8").splitlines():
            digest, _, name = line.partition("  ")
            if name and folder / name.lstrip("*") == path.resolve():
                return digest
    return None


def read_table(text: str, kind: type[Line], path: Path, name: str = "") -> list[Line]:
    """Return the lines of a CSV text, one object of ``kind`` each; an empty cell is the field's default.

    Args:
        text: content of the file, with a heading.
        kind: a configuration whose fields are the columns.
        path: the file, for messages.
        name: column that names a row in messages.

    Raises:
        ConfigError: a column is missing or unknown, a cell cannot be read, or there is no row; the message names file,
            row and column.
    """
    reader = csv.DictReader(StringIO(text))
    _check_columns(reader.fieldnames or [], kind, path)
    lines = [_line(cells, kind, place) for cells, place in _cells(reader, path, name)]
    if not lines:
        raise ConfigError(f"{path}: no rows: expected at least one below the heading")
    return lines


def _check_columns(columns: Sequence[str], kind: type[Config], path: Path) -> None:
    fields = kind.model_fields
    if not columns:
        raise ConfigError(f"{path}: empty: expected a heading with the columns {', '.join(fields)}")
    if len(columns) != len(set(columns)):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise ConfigError(f"{path}: column {twice!r} occurs twice: expected it once")
    if unknown := [column for column in columns if column not in fields]:
        raise ConfigError(f"{path}: {UnknownNameError('column', unknown[0], fields)}")
    if missing := [column for column in fields if column not in columns]:
        raise ConfigError(f"{path}: column {missing[0]!r} is missing: expected {', '.join(fields)}")


def _cells(reader: csv.DictReader[str], path: Path, name: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the cells of each row, and the row's place for messages."""
    try:
        for number, cells in enumerate(reader, 1):
            place = f"{path}, row {number}" + (f" ({cells[name]})" if name and cells.get(name) else "")
            if None in cells:
                raise ConfigError(f"{place}: more cells than columns: expected {len(cells) - 1}")
            if absent := [column for column, cell in cells.items() if cell is None]:
                raise ConfigError(
                    f"{place}: column {absent[0]!r}: no cell, the row is too short: expected {len(cells)} cells"
                )
            for column, cell in cells.items():
                if _ODD_NUMBER.fullmatch(cell) and (not cell.isascii() or "_" in cell):
                    raise ConfigError(f"{place}: column {column!r}: {cell!r}: expected a number in plain digits")
            yield cells, place
    except csv.Error as error:
        raise ConfigError(f"{path}: not CSV: {error}") from error


def _expectation(message: str) -> str:
    """Return a complaint of pydantic in the words of ours: what was expected."""
    message = message.removeprefix("Value error, ").partition(", unable to parse")[0]
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return message


def _line(cells: Mapping[str, Any], kind: type[Line], place: str) -> Line:
    given = {column: cell for column, cell in cells.items() if cell != ""}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        column = str(first["loc"][0]) if first["loc"] else ""
        message = _expectation(str(first["msg"]))
        if not column:
            raise ConfigError(f"{place}: {message}") from error
        shown = "the cell is empty" if first["type"] == "missing" else f"{cells[column]!r}: {message}"
        raise ConfigError(f"{place}: column {column!r}: {shown}") from error
