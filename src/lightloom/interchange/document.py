"""A schedule as plain values: a header, and columns of whole numbers. What JSON, Arrow and Parquet files hold.

    header     schema, algorithm, collective, chunks, steps, queued, dependencies, folding, notes, fabric
    columns    step, lightpath, source, ... as in ``collectives.schedule.columns.COLUMNS``, one entry a row

Errors name the file, the field, and the row or entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lightloom.collectives.schedule.columns import COLUMNS, Schedule
from lightloom.collectives.schedule.folding import Folding
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Column
from lightloom.core.errors import ConfigError, InputError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.load import fabric_from

SCHEMA = "lightloom.schedule/1"
HEADER = (
    "schema",
    "algorithm",
    "collective",
    "chunks",
    "steps",
    "queued",
    "dependencies",
    "folding",
    "notes",
    "fabric",
)
_MOST_STEPS_IN_ORDER = 20_000
"""Largest number of steps with dependencies, which are checked in a square table."""


def header_of(schedule: Schedule, fabric: Fabric | None) -> dict[str, Any]:
    """Return everything but the columns."""
    collective, folding = schedule.collective, schedule.folding
    dependencies = None if schedule.dependencies is None else np.asarray(schedule.dependencies).reshape(-1, 2).tolist()
    return {
        "schema": SCHEMA,
        "algorithm": schedule.algorithm,
        "collective": {"kind": collective.kind, "ranks": collective.ranks, "nbytes": collective.nbytes},
        "chunks": int(schedule.chunks),
        "steps": int(schedule.steps),
        "queued": bool(schedule.queued),
        "dependencies": dependencies,
        "folding": None if folding is None else {"period": int(folding.period), "channel": folding.channel.tolist()},
        "notes": list(schedule.notes),
        "fabric": None if fabric is None else fabric.model_dump(mode="json"),
    }


def schedule_from(header: object, columns: Mapping[str, Column], where: str) -> tuple[Schedule, Fabric | None]:
    """Return the schedule that a header and columns describe, not yet verified, and its fabric or None.

    Raises:
        ConfigError: a field is missing, unknown, of another type or out of range.
    """
    fields = _fields(header, HEADER, where)
    if fields["schema"] != SCHEMA:
        raise ConfigError(f"{where}: schema {fields['schema']!r}: expected {SCHEMA!r}")
    rows = len(columns["step"])
    collective = _collective(fields["collective"], where)
    folding = _folding(fields["folding"], where)
    copies = 1 if folding is None else folding.copies
    # Every step moves something, and so does every chunk that is not local: larger numbers would only fill memory.
    chunks = whole(fields["chunks"], f"{where}: chunks", 1, max(2 * rows * copies, 1))
    steps = whole(fields["steps"], f"{where}: steps", 0, rows)
    dependencies = _pairs(fields["dependencies"], steps, where)
    notes = _list(fields["notes"], f"{where}: notes")
    schedule = Schedule(
        algorithm=_text(fields["algorithm"], f"{where}: algorithm"),
        collective=collective,
        chunks=chunks,
        steps=steps,
        **columns,
        dependencies=dependencies,
        queued=_truth(fields["queued"], f"{where}: queued"),
        folding=folding,
        notes=tuple(_text(note, f"{where}: notes, entry {i}") for i, note in enumerate(notes)),
    )
    return schedule, fabric_of(fields["fabric"], where)


def columns_from(entries: object, where: str) -> dict[str, Column]:
    """Return lists of whole numbers (``reduces``: true or false) as the columns of a schedule.

    Raises:
        ConfigError: names the column and the row.
    """
    lists = _fields(entries, tuple(COLUMNS), f"{where}: columns")
    columns: dict[str, Column] = {}
    for name, kind in COLUMNS.items():
        values = _list(lists[name], f"{where}: columns.{name}")
        if len(values) != len(lists["step"]):
            raise ConfigError(f"{where}: columns.{name} has {len(values)} rows: columns.step has {len(lists['step'])}")
        _check_column(values, name, kind, where)
        columns[name] = np.array(values, dtype=kind)
    return columns


def _check_column(values: Sequence[object], name: str, kind: type[np.generic], where: str) -> None:
    truth = kind is np.bool_
    least, most = (0, 1) if truth else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))  # type: ignore[type-var]
    expected, typed = ("true or false", bool) if truth else (f"a whole number from {least} to {most}", int)
    for row, value in enumerate(values):
        if type(value) is not typed or not least <= value <= most:
            raise ConfigError(f"{where}: columns.{name}, row {row}: {_shown(value)}: expected {expected}")


def fabric_of(entry: object, where: str) -> Fabric | None:
    """Return the fabric that a header names, or None."""
    if entry is None:
        return None
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where}: fabric: {_shown(entry)}: expected a mapping of its fields, or null")
    return fabric_from(entry, None, where=f"{where}: fabric")


def whole(value: object, what: str, least: int, most: int) -> int:
    """Return the value if it is a whole number in range.

    Raises:
        ConfigError: it is not.
    """
    if type(value) is not int or not least <= value <= most:
        raise ConfigError(f"{what}: {_shown(value)}: expected a whole number from {least} to {most}")
    return value


def _fields(entry: object, names: Sequence[str], where: str) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where}: expected a mapping with fields {', '.join(names)}, got {_shown(entry)}")
    for name in names:
        if name not in entry:
            raise ConfigError(f"{where}: field {name!r} is missing")
    for name in entry:
        if name not in names:
            raise ConfigError(f"{where}: unknown field {name!r}: expected one of {', '.join(names)}")
    return entry


def _collective(entry: object, where: str) -> Collective:
    fields = _fields(entry, ("kind", "ranks", "nbytes"), f"{where}: collective")
    ranks = whole(fields["ranks"], f"{where}: collective.ranks", 2, 1 << 31)
    if type(fields["nbytes"]) not in (int, float):
        raise ConfigError(f"{where}: collective.nbytes: {_shown(fields['nbytes'])}: expected a number of bytes")
    try:
        return Collective(_text(fields["kind"], f"{where}: collective.kind"), ranks, float(fields["nbytes"]))  # type: ignore[arg-type]
    except (InputError, OverflowError) as error:
        raise ConfigError(f"{where}: collective: {error}") from error


def _folding(entry: object, where: str) -> Folding | None:
    if entry is None:
        return None
    what = f"{where}: folding"
    fields = _fields(entry, ("period", "channel"), what)
    period = whole(fields["period"], f"{what}.period", 1, 1 << 31)
    table = _list(fields["channel"], f"{what}.channel")
    width = len(table[0]) if table and isinstance(table[0], list) else 0
    for copy, line in enumerate(table):
        if not isinstance(line, list) or len(line) != width:
            raise ConfigError(f"{what}.channel, copy {copy}: expected a list of {width} channels")
        for path, value in enumerate(line):
            whole(value, f"{what}.channel, copy {copy}, lightpath {path}", 0, (1 << 31) - 1)
    if not table or not width:
        raise ConfigError(f"{what}.channel: expected a list of channels for every copy")
    return Folding(period, np.array(table, dtype=np.int32))


def _pairs(entry: object, steps: int, where: str) -> Column | None:
    if entry is None:
        return None
    what = f"{where}: dependencies"
    pairs = _list(entry, what)
    if steps > _MOST_STEPS_IN_ORDER:
        raise ConfigError(f"{what}: {steps} steps: expected at most {_MOST_STEPS_IN_ORDER} for steps with dependencies")
    for i, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2:
            raise ConfigError(f"{what}, entry {i}: {_shown(pair)}: expected [step, step that must end before]")
        for step in pair:
            whole(step, f"{what}, entry {i}", 0, steps - 1)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"{what}: {_shown(value)}: expected a list")
    return value


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{what}: {_shown(value)}: expected text")
    return value


def _truth(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{what}: {_shown(value)}: expected true or false")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
