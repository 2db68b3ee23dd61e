"""A schedule as an Arrow table, in a Parquet or an Arrow IPC file; the header is JSON in the schema's metadata.

Where pyarrow is not installed, everything here raises ``UnsupportedError``.
"""

from __future__ import annotations

import io
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.collectives.schedule.columns import COLUMNS, Schedule
from lightloom.core.arrays import Column
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import cannot_read
from lightloom.fabrics.base import Fabric
from lightloom.interchange.document import header_of, schedule_from

KEY = b"lightloom.schedule"
"""Metadata key of the header."""


def to_parquet(schedule: Schedule, fabric: Fabric | None) -> bytes:
    """Return the content of a Parquet file."""
    table, buffer = _table(schedule, fabric), io.BytesIO()
    import_module("pyarrow.parquet").write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def to_arrow(schedule: Schedule, fabric: Fabric | None) -> bytes:
    """Return the content of an Arrow IPC file."""
    arrow, table, buffer = _pyarrow(), _table(schedule, fabric), io.BytesIO()
    with arrow.ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def from_arrow(path: Path) -> tuple[Schedule, Fabric | None]:
    """Return the schedule in a Parquet (``.parquet``) or Arrow IPC file, not yet verified, and its fabric or None.

    Raises:
        ConfigError: unreadable, damaged, or not a schedule (names the column, and the row where one is at fault).
    """
    arrow = _pyarrow()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    try:
        table = _read(arrow, content, path.suffix == ".parquet")
        # pyarrow checks values only when they are used.
        table.validate(full=True)
    except (arrow.ArrowException, OSError, ValueError, KeyError) as error:
        reason = (str(error).splitlines() or ["no reason given"])[0]
        kind = "a Parquet" if path.suffix == ".parquet" else "an Arrow IPC"
        raise ConfigError(f"{path}: not {kind} file, or a damaged one: {reason}") from error
    return schedule_from(_header(table, path), _columns(table, path), str(path))


def _read(arrow: Any, content: bytes, parquet: bool) -> Any:
    if parquet:
        return import_module("pyarrow.parquet").read_table(io.BytesIO(content))
    with arrow.ipc.open_file(io.BytesIO(content)) as reader:
        return reader.read_all()


def _table(schedule: Schedule, fabric: Fabric | None) -> Any:
    header = json.dumps(header_of(schedule, fabric), separators=(",", ":"), allow_nan=False)
    arrow = _pyarrow()
    columns = {name: arrow.array(column) for name, column in schedule.columns().items()}
    return arrow.table(columns).replace_schema_metadata({KEY: header.encode()})


def _header(table: Any, path: Path) -> object:
    text = (table.schema.metadata or {}).get(KEY)
    if text is None:
        raise ConfigError(f"{path}: metadata {KEY.decode()!r} is missing: not a schedule")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: metadata {KEY.decode()!r} is not JSON: {error}") from error


def _columns(table: Any, path: Path) -> dict[str, Column]:
    arrow, columns = _pyarrow(), {}
    for name in table.column_names:
        if name not in COLUMNS or table.column_names.count(name) > 1:
            raise ConfigError(f"{path}: column {name!r}: expected {', '.join(COLUMNS)}, each once")
    for name, kind in COLUMNS.items():
        if name not in table.column_names:
            raise ConfigError(f"{path}: column {name!r} is missing")
        column, expected = table.column(name), arrow.from_numpy_dtype(kind)
        if column.type != expected:
            raise ConfigError(f"{path}: column {name!r} has type {column.type}: expected {expected}")
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise ConfigError(f"{path}: column {name!r}, row {row}: null")
        columns[name] = np.asarray(column.to_numpy(), dtype=kind)
    return columns


def _pyarrow() -> Any:
    try:
        arrow = import_module("pyarrow")
        import_module("pyarrow.ipc")
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            "Arrow and Parquet files need pyarrow, which is not installed: pip install 'lightloom[arrow]'"
        ) from error
    return arrow
