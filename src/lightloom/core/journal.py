"""Stores of finished work, from which interrupted runs resume: journals of rows, files of one job each, documents.

A journal has one line with a checksum for each finished row, on the disk before it is counted as done. A killed process
can leave a torn last line: lines without a valid checksum are dropped, and their rows are computed again. One process
at a time may write; the kernel holds its lock, so that a killed process frees it.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from lightloom.core.documents import read_text
from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically

JOURNAL, _HEAD, _LOCK = "journal.jsonl", "sweep.json", "lock"
_SCHEMA = "lightloom.sweep-folder/1"


class Journal:
    """The finished rows of one folder, by key; :func:`open_journal` makes it."""

    def __init__(self, file: BinaryIO, rows: dict[str, dict[str, Any]]) -> None:
        """Keep the open file to append to, and the rows that it holds already, by key."""
        self._file = file
        self.rows = rows

    def append(self, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Append ``rows``, each a key and a row of JSON values, to the file, one line each, and put them into this
        journal's ``rows``; the last one of a key counts, in the argument and over all calls. All are on the disk when
        this returns.

        Raises:
            ValueError: a value is NaN or infinite; the rows before it may be in the file already.
        """
        new = dict(rows)
        for entry in new.items():
            body = json.dumps(entry, separators=(",", ":"), allow_nan=False).encode()
            self._file.write(_checksum(body) + b" " + body + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows |= new


@contextmanager
def open_journal(folder: Path, name: str) -> Iterator[Journal]:
    """Return a context with the journal of the run ``name`` in a folder, which is created if it is missing and locked
    while the context lasts. The journal's ``rows`` are those that are there already, by key; lines that are damaged or
    incomplete are left out.

    Raises:
        ConfigError: the folder cannot be written to (also where the block itself raises an OSError), holds other files
            or another run, or another process has it locked (which is not waited for).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / _HEAD).exists() and any(entry.name != _LOCK for entry in folder.iterdir()):
            raise ConfigError(f"folder {str(folder)!r} holds other files: expected a new one, or that of this sweep")
        with (folder / _LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(f"folder {str(folder)!r}: another process is computing there") from error
            _check_head(folder, name)
            with (folder / JOURNAL).open("a+b") as file:
                yield Journal(file, _rows(file))
    except OSError as error:
        raise ConfigError(f"cannot write in folder {str(folder)!r}: {error.strerror}") from error


def _check_head(folder: Path, name: str) -> None:
    """Write the head, a JSON file with ``schema`` and ``name``, the run's name, into a folder without one; raise
    ConfigError where the head that is there is damaged, of another schema, or not that of the run ``name``."""
    path = folder / _HEAD
    if not path.exists():
        write_atomically(path, json.dumps({"schema": _SCHEMA, "name": name}) + "\n")
        return
    try:
        head = json.loads(path.read_bytes())
        kind, other = head["schema"], head["name"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not a sweep's: expected {{'schema': {_SCHEMA!r}, 'name': ...}}") from error
    if kind != _SCHEMA:
        raise ConfigError(f"{path}: schema {kind!r}: expected {_SCHEMA!r}")
    if other != name:
        raise ConfigError(f"folder {str(folder)!r} holds sweep {other!r}, not {name!r}: expected another folder")


def _rows(file: BinaryIO) -> dict[str, dict[str, Any]]:
    """Return the rows of a journal, open for reading and writing, by key, the last one of a key. Lines whose checksum
    is not that of their JSON (a list of key and row) are left out and stay; an incomplete last line, without a line
    feed, is cut off the file."""
    file.seek(0)
    content = file.read()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        file.truncate(end)
    rows = {}
    for line in content[:end].splitlines():
        checksum, _, body = line.partition(b" ")
        if checksum == _checksum(body):
            key, row = json.loads(body)
            rows[key] = row
    return rows


def _checksum(body: bytes) -> bytes:
    """Return the first 16 hex digits of the SHA-256 of a line's JSON, without its checksum and line feed, as ASCII
    bytes."""
    return sha256(body).hexdigest()[:16].encode()


def stored_record(path: Path, compute: Callable[[], Any]) -> Any:
    """Return the value that a JSON file holds; without the file, write what ``compute`` returns to it first, and return
    it as it is read back (tuples as lists, keys as texts). A file that is there counts, whatever it is from.

    Raises:
        ConfigError: the file cannot be written or read, or is not JSON.
    """
    if not path.exists():
        write_atomically(path, json.dumps(compute()))
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} is not JSON ({error}): remove it to have it computed again") from None


def stored_entries(path: Path, name: str, head: Mapping[str, Any], complaint: str) -> list[dict[str, Any]] | None:
    """Return the list that a JSON document has in its field ``name``; an empty list where there is no file, None where
    fields of the document differ from ``head``.

    Args:
        path: the document, which may not exist.
        name: field of the document that holds the list.
        head: fields of the document, and the values that they must have.
        complaint: whole message of the error.

    Raises:
        ConfigError: the file cannot be read, is not JSON, or lacks ``name`` or a field of ``head``.
    """
    if not path.exists():
        return []
    try:
        document = json.loads(path.read_text())
        entries: list[dict[str, Any]] = document[name]
        return entries if all(document[field] == value for field, value in head.items()) else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(complaint) from error
