"""A schedule as one JSON document, one line per field and per column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.documents import MOST_TRACE_BYTES, load_json
from lightloom.core.errors import ConfigError
from lightloom.fabrics.base import Fabric
from lightloom.interchange.document import columns_from, header_of, schedule_from


def to_json(schedule: Schedule, fabric: Fabric | None) -> str:
    """Return the document as text."""
    columns = {name: column.tolist() for name, column in schedule.columns().items()}
    lines = [f"{json.dumps(name)}: {_line(value)}" for name, value in header_of(schedule, fabric).items()]
    table = ",\n".join(f"  {json.dumps(name)}: {_line(values)}" for name, values in columns.items())
    return "{\n" + ",\n".join(lines) + ',\n"columns": {\n' + table + "\n}\n}\n"


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def from_json(path: Path) -> tuple[Schedule, Fabric | None]:
    """Return the schedule in a JSON file, not yet verified, and its fabric or None.

    Raises:
        ConfigError: unreadable, not JSON (names line and column), or not a schedule (names field and row).
    """
    document = load_json(path)
    if not isinstance(document, dict) or "columns" not in document:
        raise ConfigError(f"{path}: expected an object with the header of a schedule and columns")
    columns = columns_from(document.pop("columns"), str(path))
    return schedule_from(document, columns, str(path))


def read_json(path: Path) -> Any:
    """Return the JSON document in a file, gzip or not; duplicate names in an object and NaN are refused.

    Raises:
        ConfigError: unreadable or not JSON.
    """

    return load_json(path, MOST_TRACE_BYTES)
