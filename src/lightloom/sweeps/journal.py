"""The journal of a sweep: one line with a checksum for each finished row, on the disk before it is counted as done.

A killed process can leave a torn last line. Lines without a valid checksum are dropped, and their rows are computed
again. One process at a time may write; the kernel holds its lock, so a killed process frees it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically

JOURNAL, _HEAD, _LOCK = "journal.jsonl", "sweep.json", "lock"
_SCHEMA = "lightloom.sweep-folder/1"
Row = dict[str, Any]


class Journal:
    """The finished rows of one folder, by key; :func:`opened` makes it."""

    def __init__(self, file: BinaryIO, rows: dict[str, Row]) -> None:
        self._file = file
        self.rows = rows

    def append(self, rows: Iterable[tuple[str, Row]]) -> None:
        """Append rows; they are on the disk when this returns."""
        new = dict(rows)
        self._file.write(b"".join(_line(key, row) for key, row in new.items()))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows |= new


@contextmanager
def opened(folder: Path, name: str) -> Iterator[Journal]:
    """Open the journal of the sweep ``name`` in a folder, which is created if it is missing.

    Raises:
        ConfigError: the folder cannot be written to, holds something else or another sweep, or another process is
            computing there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = not (folder / _HEAD).exists() and any(entry.name != _LOCK for entry in folder.iterdir())
        if strange:
            raise ConfigError(f"folder {str(folder)!r} holds other files: expected a new one, or that of this sweep")
        with (folder / _LOCK).open("ab") as lock:
            _take(lock, folder)
            _check_head(folder, name)
            with (folder / JOURNAL).open("a+b") as file:
                yield Journal(file, _rows(file))
    except OSError as error:
        raise ConfigError(f"cannot write in folder {str(folder)!r}: {error.strerror}") from error


def _take(lock: BinaryIO, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(f"folder {str(folder)!r}: another process is computing there") from error


def _check_head(folder: Path, name: str) -> None:
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


def _rows(file: BinaryIO) -> dict[str, Row]:
    """Return the rows of all lines with a valid checksum; an incomplete last line is cut off the file."""
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


def _line(key: str, row: Row) -> bytes:
    body = json.dumps([key, row], separators=(",", ":"), allow_nan=False).encode()
    return _checksum(body) + b" " + body + b"\n"


def _checksum(body: bytes) -> bytes:
    return sha256(body).hexdigest()[:16].encode()
