"""Schedules as JSON, Arrow and Parquet files: a header, and columns of whole numbers.

    header     schema, algorithm, collective, chunks, steps, queued, dependencies, folding, pipeline, lists,
               notes, fabric
    columns    step, lightpath, source, ... as in ``collectives.schedule.columns.COLUMNS``, one entry a row

Errors name the file, the field, and the row or entry.
"""

import io
import json
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

import numpy as np
from pydantic import Field, create_model, field_validator

from lightloom.collectives.collective import OF_PARTS, Collective, Kind, Sizes
from lightloom.collectives.schedule.columns import COLUMNS, ChunkLists, Folding, Pipeline, Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.core.arrays import Column
from lightloom.core.configfile import validate
from lightloom.core.documents import load_json, parse_json
from lightloom.core.errors import ConfigError, UnsupportedError, VerificationError, needing
from lightloom.core.fields import Config, Ranks
from lightloom.core.files import cannot_read, write_atomically
from lightloom.core.results import attributes
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import kinds, recorded_fabric

SCHEMA: Literal["lightloom.schedule/1"] = "lightloom.schedule/1"
_MOST_STEPS_IN_ORDER = 20_000
"""Largest number of steps with dependencies, which are checked in a square table."""
_MOST_PIECES = 1 << 16
"""Largest number of pieces of a pipeline, whose steps are priced one by one."""

_MOST_AT_REST = 64
"""Largest number of chunks of a part, where parts need not move."""

Natural = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]
Positive = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
Truth = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
M = TypeVar("M", bound=Config)


class CollectiveEntry(Config):
    """The collective that a schedule completes."""

    kind: Kind
    ranks: Ranks
    nbytes: Annotated[float, Field(strict=True, ge=0)]
    destinations: list[Natural] | None = None
    """The rank to which each rank sends, of a permute; absent of other kinds."""
    sizes: list[Share] | list[list[Share]] | None = None
    """Part of all bytes that each rank's part has, or each pair's, of kinds whose parts differ in size; absent of
    others."""

    def collective(self) -> Collective:
        """Return the collective of the entry.

        Raises:
            ConfigError: numbers that do not fit each other.
        """
        lines = self.sizes or []
        if any(isinstance(line, list) and len(line) != len(lines) for line in lines):
            raise ConfigError("sizes of pairs of ranks: expected as many in each line as there are lines")
        destinations = None if self.destinations is None else tuple(self.destinations)
        sizes = None if self.sizes is None else Sizes(np.array(self.sizes))
        return Collective(self.kind, self.ranks, self.nbytes, destinations, sizes)


class FoldingEntry(Config):
    """How the rows of a folded schedule repeat around the ring (``collectives.schedule.columns.Folding``)."""

    period: Positive
    channel: Annotated[list[list[Natural]], Field(min_length=1)]
    """First channel of every lightpath, a list for each copy; empty lists where packets are switched."""
    axes: tuple[Positive, ...] = ()
    """Copies along each axis; empty, and absent from older documents, where they lie on one."""

    @field_validator("channel")
    @classmethod
    def _rectangular(cls, channel: list[list[int]]) -> list[list[int]]:
        """Return the channels unchanged; ValueError where copies list different numbers of channels."""
        for copy, line in enumerate(channel):
            if len(line) != len(channel[0]):
                raise ValueError(f"copy {copy} has {len(line)} channels: expected {len(channel[0])}")
        return channel


class PipelineEntry(Config):
    """How the rows of a pipeline repeat for every piece (``collectives.schedule.columns.Pipeline``)."""

    pieces: Annotated[Positive, Field(le=_MOST_PIECES)]
    interval: Positive


class ListsEntry(Config):
    """The lists of chunks that rows carry (``collectives.schedule.columns.ChunkLists``)."""

    chunks: list[Natural]
    first: list[Natural]
    """Place of each list's first chunk in ``chunks``."""
    count: list[Positive]
    """Chunks of each list."""

    def lists(self, where: str) -> ChunkLists:
        """Return the lists of the entry as int32 columns; ``where`` names the file in messages.

        Raises:
            ConfigError: not as many places as counts.
        """
        first, count = len(self.first), len(self.count)
        if first != count:
            raise ConfigError(f"{where}: field lists.first has {first} entries: lists.count has {count}")
        return ChunkLists(*(np.array(column, np.int32) for column in (self.chunks, self.first, self.count)))


class Header(Config):
    """Everything about a schedule but its columns."""

    schema_name: Literal["lightloom.schedule/1"] = Field(alias="schema")
    algorithm: str
    collective: CollectiveEntry
    chunks: Positive
    steps: Natural
    queued: Truth
    dependencies: list[tuple[Natural, Natural]] | None
    """Pairs of a step and a step that must end before it; null where steps follow each other."""
    folding: FoldingEntry | None
    pipeline: PipelineEntry | None = None
    """Null, and absent from older documents, where rows are those of all pieces."""
    lists: ListsEntry | None = None
    """Null, and absent from older documents, where each row carries one chunk; else rows name lists."""
    notes: list[str]
    fabric: dict[str, Any] | None


def _entry_type(kind: type[np.generic]) -> object:
    """Return the type of the entries of a column: true or false, or a whole number within the limits of a dtype, never
    a text or a floating number in its place."""
    if kind is np.bool_:
        return Truth
    limits = np.iinfo(kind)  # type: ignore[type-var]
    return Annotated[int, Field(strict=True, ge=int(limits.min), le=int(limits.max))]


Columns: Any = create_model(
    "Columns",
    __base__=Config,
    **{name: (list[_entry_type(kind)], ...) for name, kind in COLUMNS.items()},  # type: ignore
)


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``lightloom.schedule/1``; ``fabric`` is any kind, plug-ins included, or
    null.

    It does not check that columns are equally long or that the schedule is correct: ``lightloom schedule`` does.
    """
    fabric: Any = Union[(*kinds().values(), None)]
    document: type[Config] = create_model(
        "lightloom schedule", __base__=Header, fabric=(fabric, ...), columns=(Columns, ...)
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document.model_json_schema()}


def header_of(schedule: Schedule, fabric: Fabric | None) -> dict[str, Any]:
    """Return everything about a schedule but its columns, as JSON values.

    They are ``schema``, ``algorithm``, ``collective``, ``chunks``, ``steps``, ``queued``, ``dependencies``,
    ``folding``, ``pipeline``, ``lists``, ``notes`` and ``fabric``, each as a field of :class:`Header` (``dependencies``
    as pairs of a step and one that it waits for); those that the schedule does not have, and a fabric that is not
    given, are None.
    """
    collective, folding, pipeline, lists = schedule.collective, schedule.folding, schedule.pipeline, schedule.lists
    dependencies = None if schedule.dependencies is None else np.asarray(schedule.dependencies).reshape(-1, 2).tolist()
    return {
        "schema": SCHEMA,
        "algorithm": schedule.algorithm,
        "collective": attributes(collective, "kind ranks nbytes") | collective.stated_parts(),
        "chunks": int(schedule.chunks),
        "steps": int(schedule.steps),
        "queued": bool(schedule.queued),
        "dependencies": dependencies,
        "folding": folding
        and {"period": int(folding.period), "channel": folding.channel.tolist(), "axes": list(folding.axes)},
        "pipeline": pipeline and {"pieces": int(pipeline.pieces), "interval": int(pipeline.interval)},
        "lists": None if lists is None else {name: getattr(lists, name).tolist() for name in ListsEntry.model_fields},
        "notes": list(schedule.notes),
        "fabric": None if fabric is None else fabric.model_dump(mode="json"),
    }


def schedule_from(header: object, columns: Mapping[str, Column], where: str) -> tuple[Schedule, Fabric | None]:
    """Return the schedule that a header and columns describe, not yet verified, and its fabric, or None where the
    header names none.

    Args:
        header: value of the fields of :class:`Header` as JSON has them, not checked yet.
        columns: columns by name, of equal length.
        where: name of the file, for messages.

    Raises:
        ConfigError: a field is missing, unknown, of another type or out of range, such as more chunks or steps than the
            rows can move, or a row names a list of chunks that does not exist.
    """
    fields = _validated(Header, header, where)
    rows, entry = len(columns["step"]), fields.folding
    folding = None if entry is None else Folding(entry.period, np.array(entry.channel, np.int32), entry.axes)
    pipeline = None if fields.pipeline is None else Pipeline(fields.pipeline.pieces, fields.pipeline.interval)
    pieces = 1 if pipeline is None else pipeline.pieces
    repeated = pieces * (1 if folding is None else folding.copies)
    try:
        collective = fields.collective.collective()
    except ConfigError as error:
        raise ConfigError(f"{where}: field 'collective': {error}") from error
    lists = None if fields.lists is None else fields.lists.lists(where)
    carried = rows if lists is None else _carried(lists, columns["chunk"], where)
    # Where not all ranks, or not all pairs, exchange something, parts need not move.
    at_rest = _MOST_AT_REST * collective.parts if collective.kind in OF_PARTS else 1
    # Every step moves something, and so does every chunk that is not local: larger numbers would only fill memory.
    for name, value, most in (
        ("chunks", fields.chunks, max(2 * carried * repeated, at_rest)),
        ("steps", fields.steps, rows * pieces),
    ):
        if value > most:
            raise ConfigError(f"{where}: field {name!r}: {value}: expected at most {most} with {rows} rows")
    dependencies = None
    if fields.dependencies is not None:
        if fields.steps > _MOST_STEPS_IN_ORDER:
            raise ConfigError(
                f"{where}: field 'dependencies': {fields.steps} steps: expected at most {_MOST_STEPS_IN_ORDER} for "
                "steps with dependencies"
            )
        dependencies = np.array(fields.dependencies, dtype=np.int64).reshape(-1, 2)
    schedule = Schedule(
        **attributes(fields, "algorithm chunks steps queued") | dict(columns),
        collective=collective,
        dependencies=dependencies,
        folding=folding,
        pipeline=pipeline,
        lists=lists,
        notes=tuple(fields.notes),
    )
    return schedule, None if fields.fabric is None else recorded_fabric(fields.fabric, where=f"{where}: fabric")


def _carried(lists: ChunkLists, number: Column, where: str) -> int:
    """Return the number of chunks that all rows carry; ``number`` is the list of each row: [row].

    Raises:
        ConfigError: a row names a list that does not exist.
    """
    outside = (number < 0) | (number >= len(lists))
    if outside.any():
        row = int(np.argmax(outside))
        raise ConfigError(
            f"{where}: columns.chunk, row {row}: list {number[row]} of chunks: expected 0 to {len(lists) - 1}"
        )
    return int(lists.count[number].sum(dtype=np.int64))


def columns_from(entries: object, where: str) -> dict[str, Column]:
    """Return the columns of a schedule, by name, from lists of whole numbers (``reduces``: true or false).

    Args:
        entries: the lists by name, as JSON has them, not checked yet.
        where: name of the file, for messages.

    Raises:
        ConfigError: a column is missing, unknown or of another length, or an entry of another type or out of range;
            names the column and the row.
    """
    lists = _validated(Columns, entries, f"{where}: columns")
    columns = {name: np.array(getattr(lists, name), dtype=kind) for name, kind in COLUMNS.items()}
    for name, column in columns.items():
        if len(column) != len(columns["step"]):
            raise ConfigError(
                f"{where}: columns.{name} has {len(column)} rows: columns.step has {len(columns['step'])}"
            )
    return columns


def _validated(kind: type[M], entry: object, where: str) -> M:
    """Return an instance of a model from a mapping of its fields; ``where`` names the mapping in messages.

    Raises:
        ConfigError: no mapping, or a field that is missing, unknown or wrong; names the field.
    """
    if not isinstance(entry, Mapping):
        names = ", ".join(field.alias or name for name, field in kind.model_fields.items())
        raise ConfigError(f"{where}: expected a mapping with fields {names}, got {str(entry)[:60]!r}")
    model: M = validate(kind, entry, where)
    return model


# A schedule as one JSON document, one line per field and per column.


def to_json(schedule: Schedule, fabric: Fabric | None) -> str:
    """Return the schedule and its fabric (None: none is named) as one JSON document, with a line for each field of the
    header and then for each column; it ends with a newline."""
    columns = {name: column.tolist() for name, column in schedule.columns().items()}
    lines = [f"{json.dumps(name)}: {_compact_json(value)}" for name, value in header_of(schedule, fabric).items()]
    table = ",\n".join(f"  {json.dumps(name)}: {_compact_json(values)}" for name, values in columns.items())
    return "{\n" + ",\n".join(lines) + ',\n"columns": {\n' + table + "\n}\n}\n"


def _compact_json(value: object) -> str:
    """Return a value as JSON on one line, without blanks between entries and with non-ASCII characters as they are; NaN
    and infinity raise ValueError."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def from_json(path: Path) -> tuple[Schedule, Fabric | None]:
    """Return the schedule in a JSON file, not yet verified, and its fabric or None.

    Raises:
        ConfigError: unreadable, not JSON (names line and column), or not a schedule (names field and row).
    """
    document = load_json(path)
    if not isinstance(document, dict) or "columns" not in document:
        raise ConfigError(f"{path}: expected an object with the header of a schedule and columns")
    return schedule_from(document, columns_from(document.pop("columns"), str(path)), str(path))


# A schedule as an Arrow table, in a Parquet or an Arrow IPC file; the header is JSON in the schema's metadata.
#
# Where pyarrow is not installed, everything here raises ``UnsupportedError``.

KEY = b"lightloom.schedule"
"""Metadata key of the header."""


def to_parquet(schedule: Schedule, fabric: Fabric | None) -> bytes:
    """Return the content of a Parquet file (zstd) with the columns as a table and the header in its metadata;
    ``fabric`` None names none.

    Raises:
        UnsupportedError: pyarrow is not installed.
    """
    table, buffer = _table_of(schedule, fabric), io.BytesIO()
    import_module("pyarrow.parquet").write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def to_arrow(schedule: Schedule, fabric: Fabric | None) -> bytes:
    """Return the content of an Arrow IPC file with the columns as a table and the header in its metadata; ``fabric``
    None names none.

    Raises:
        UnsupportedError: pyarrow is not installed.
    """
    arrow, table, buffer = _pyarrow(), _table_of(schedule, fabric), io.BytesIO()
    with arrow.ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def from_arrow(path: Path) -> tuple[Schedule, Fabric | None]:
    """Return the schedule in a Parquet (``.parquet``) or Arrow IPC file, not yet verified, and its fabric or None.

    Raises:
        ConfigError: unreadable, damaged, or not a schedule (names the column, and the row where one is at fault).
        UnsupportedError: pyarrow is not installed.
    """
    arrow = _pyarrow()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    try:
        if path.suffix == ".parquet":
            table = import_module("pyarrow.parquet").read_table(io.BytesIO(content))
        else:
            table = arrow.ipc.open_file(io.BytesIO(content)).read_all()
        # pyarrow checks values only when they are used.
        table.validate(full=True)
    except (arrow.ArrowException, OSError, ValueError, KeyError) as error:
        reason = (str(error).splitlines() or ["no reason given"])[0]
        kind = "a Parquet" if path.suffix == ".parquet" else "an Arrow IPC"
        raise ConfigError(f"{path}: not {kind} file, or a damaged one: {reason}") from error
    text, where = (table.schema.metadata or {}).get(KEY), f"{path}: metadata {KEY.decode()!r}"
    if text is None:
        raise ConfigError(f"{where} is missing: not a schedule")
    return schedule_from(parse_json(text.decode(errors="replace"), where), _table_columns(table, path), str(path))


def _table_of(schedule: Schedule, fabric: Fabric | None) -> Any:
    """Return the columns of a schedule as an Arrow table, with its header as JSON in the metadata under :data:`KEY`;
    UnsupportedError where pyarrow is not installed."""
    header = json.dumps(header_of(schedule, fabric), separators=(",", ":"), allow_nan=False)
    arrow = _pyarrow()
    columns = {name: arrow.array(column) for name, column in schedule.columns().items()}
    return arrow.table(columns).replace_schema_metadata({KEY: header.encode()})


def _table_columns(table: Any, path: Path) -> dict[str, Column]:
    """Return the columns of an Arrow table by name; raise ConfigError where one is missing, unknown, there twice, of
    another type than :data:`COLUMNS` says, or has a null. ``path`` names the file in messages."""
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
            raise ConfigError(f"{path}: column {name!r}, row {column.is_null().to_numpy().argmax()}: null")
        columns[name] = np.asarray(column.to_numpy(), dtype=kind)
    return columns


def _pyarrow() -> Any:
    """Return the module pyarrow; raise UnsupportedError where it is not installed."""
    with needing("Arrow and Parquet files need pyarrow", "'lightloom[arrow]'"):
        import_module("pyarrow.ipc")
        return import_module("pyarrow")


# Read and write schedules by the suffix of the file; what is read is verified.

SUFFIXES: dict[str, Callable[[Schedule, Fabric | None], str | bytes]] = {
    ".json": to_json,
    ".parquet": to_parquet,
    ".arrow": to_arrow,
}


def write_schedule(path: Path, schedule: Schedule, fabric: Fabric | None) -> Path:
    """Write a schedule and its fabric (None: none is named) in the format of the suffix, .json, .parquet or .arrow, and
    return the path; a file that is there is replaced.

    Raises:
        UnsupportedError: another suffix, or pyarrow is needed and missing.
        ConfigError: the place cannot be written to.
    """
    return write_atomically(path, SUFFIXES[checked_suffix(path, SUFFIXES)](schedule, fabric))


def read_schedule(path: Path, fabric: Fabric | None = None) -> tuple[Schedule, Fabric]:
    """Return the verified schedule in a file, and the fabric of its verification: the given one, else the file's.

    Raises:
        UnsupportedError: another suffix, or pyarrow is needed and missing.
        ConfigError: malformed (names the file and the line, field or row), without a fabric, or wrong: the schedule
            does not complete its collective on this fabric.
    """
    schedule, own = (from_json if checked_suffix(path, SUFFIXES) == ".json" else from_arrow)(path)
    return schedule, verified(schedule, fabric or own, str(path))


def verified(schedule: Schedule, fabric: Fabric | None, where: str) -> Fabric:
    """Return the fabric, unchanged, if the schedule passes the verifier on it; ``where`` names the file in messages.

    Raises:
        ConfigError: there is no fabric, or the first violation: the content of the file is wrong.
    """
    if fabric is None:
        raise ConfigError(f"{where}: names no fabric: give the fabric on which to verify the schedule")
    try:
        verify(schedule, fabric)
    except VerificationError as error:
        raise ConfigError(f"{where}: {error}") from error
    return fabric


def checked_suffix(path: Path, known: Iterable[str]) -> str:
    """Return the suffix of a path, dot included, if it is one of those that are known; case counts.

    Raises:
        UnsupportedError: another suffix.
    """
    if path.suffix not in known:
        raise UnsupportedError(f"{str(path)!r}: unknown suffix {path.suffix!r}: expected one of {', '.join(known)}")
    return path.suffix
