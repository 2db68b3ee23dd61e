"""Run a sweep: compute the points that are missing from its folder, and write all results."""

from __future__ import annotations

import fcntl
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import write_atomically
from lightloom.core.results import provenance
from lightloom.planning.sweeps.experiment import Point, code_version
from lightloom.planning.sweeps.workers import Row as WorkersRow
from lightloom.planning.sweeps.workers import Workers, batches

# The journal of a sweep: one line with a checksum for each finished row, on the disk before it is counted as done.
#
# A killed process can leave a torn last line. Lines without a valid checksum are dropped, and their rows are computed
# again. One process at a time may write; the kernel holds its lock, so a killed process frees it.

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


# Write the results as one Parquet file; equal rows give equal bytes.

COLUMNS: Mapping[str, str] = {
    "what": "string",
    "site": "string",
    "ranks": "int64",
    "settings": "string",
    "collective": "string",
    "nbytes": "float64",
    "model": "string",
    "batch_per_rank": "int64",
    "sequence_length": "int64",
    "strategy": "string",
    "algorithm": "string",
    "overlap": "bool",
    "cost_model": "string",
    "status": "string",
    "why": "string",
    "time_s": "float64",
    "energy_j": "float64",
    "watts_per_rank": "float64",
    "dollars_per_step": "float64",
    "samples_per_dollar": "float64",
    "samples_per_joule": "float64",
    "goodput": "float64",
    "lower_bound_s": "float64",
    "bound_by": "string",
    "ratio": "float64",
    "steps": "int64",
    "transmission_s": "float64",
    "conversion_s": "float64",
    "reconfiguration_s": "float64",
    "static_circuits": "bool",
    "compute_s": "float64",
    "exposed_communication_s": "float64",
    "exposed_reconfiguration_s": "float64",
    "idle_s": "float64",
    "communication_s": "float64",
    "memory_bytes": "float64",
    "fits_memory": "bool",
}
"""Name and type of each column, in SI units; null where a column does not apply to a row."""
KEY = b"lightloom.sweep"
"""Metadata key of the provenance."""


def check_installed() -> None:
    """Check before the work that results can be written.

    Raises:
        UnsupportedError: pyarrow is not installed.
    """
    try:
        import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise UnsupportedError("sweeps need pyarrow, which is not installed: pip install 'lightloom[sweep]'") from error


def write_table(rows: Sequence[Mapping[str, Any]], path: Path, origin: Mapping[str, Any]) -> Path:
    """Write rows in their order; the file is complete or absent.

    Raises:
        ConfigError: the place cannot be written to.
    """
    arrow = import_module("pyarrow")
    fields = [arrow.field(name, getattr(arrow, kind.replace("bool", "bool_"))()) for name, kind in COLUMNS.items()]
    schema = arrow.schema(fields, metadata={KEY: json.dumps(dict(origin), sort_keys=True).encode()})
    table = arrow.Table.from_pylist([dict(row) for row in rows], schema=schema)
    buffer = io.BytesIO()
    import_module("pyarrow.parquet").write_table(table, buffer, compression="zstd")
    return write_atomically(path, buffer.getvalue())


RESULTS = "results.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A finished sweep."""

    name: str
    rows: tuple[WorkersRow, ...]
    """Rows in the order of the experiment."""
    computed: int
    """Number of rows computed by this run; the others were in the folder."""
    unused: int
    """Number of rows in the folder that belong to other points or to another version of the code."""
    results: Path
    provenance: Mapping[str, Any]

    @property
    def statuses(self) -> Counter[str]:
        """Number of rows with each status."""
        return Counter(row["status"] for row in self.rows)


def sweep(
    name: str,
    points: Mapping[str, Point],
    folder: Path,
    workers: Workers,
    advance: Callable[[int], None] = lambda count: None,  # noqa: ARG005 - progress is not shown
) -> Swept:
    """Compute the rows that the folder lacks, and write all results as one Parquet file.

    Args:
        points: by key, as :func:`lightloom.planning.sweeps.experiment.points_of` gives them.
        advance: called with the number of finished rows, first those of an earlier run.

    Raises:
        ConfigError: the folder cannot be written to, is another's, or is in use; no such cluster, or it is lost.
        UnsupportedError: pyarrow, joblib, Dask or Ray is needed and missing.
    """
    check_installed()
    with opened(folder, name) as journal:
        missing = [(key, point) for key, point in points.items() if key not in journal.rows]
        advance(len(points) - len(missing))
        if missing:
            with closing(workers.rows(batches(missing))) as finished:
                for rows in finished:
                    journal.append(rows)
                    advance(len(rows))
        results = tuple(journal.rows[key] for key in points)
        origin = provenance([name, list(points)]) | {"code": code_version()}
        return Swept(
            name=name,
            rows=results,
            computed=len(missing),
            unused=len(journal.rows) - len(points),
            results=write_table(results, folder / RESULTS, origin),
            provenance=origin,
        )
