"""Run a sweep: compute the points that are missing from its folder, and write all results."""

import io
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from lightloom.core.errors import needing
from lightloom.core.files import write_atomically
from lightloom.core.journal import open_journal
from lightloom.core.results import provenance
from lightloom.planning.sweeps.experiment import Point, code_version
from lightloom.planning.sweeps.workers import Row, SearchStopped, Workers, batches, compute

# Write the results as one Parquet file; equal rows give equal bytes.

_COLUMN_TYPES = """
    what:string site:string ranks:int64 settings:string collective:string nbytes:float64 model:string
    batch_per_rank:int64 sequence_length:int64 strategy:string algorithm:string overlap:bool cost_model:string
    status:string why:string time_s:float64 energy_j:float64 watts_per_rank:float64 dollars_per_step:float64
    samples_per_dollar:float64 samples_per_joule:float64 goodput:float64 lower_bound_s:float64 bound_by:string
    ratio:float64 steps:int64 transmission_s:float64 conversion_s:float64 reconfiguration_s:float64
    static_circuits:bool compute_s:float64 exposed_communication_s:float64 exposed_reconfiguration_s:float64
    idle_s:float64 communication_s:float64 memory_bytes:float64 fits_memory:bool
"""
COLUMNS: Mapping[str, str] = dict(column.split(":") for column in _COLUMN_TYPES.split())
"""Name and type of each column, in SI units; null where a column does not apply to a row."""
KEY = b"lightloom.sweep"
"""Metadata key of the provenance."""


def write_table(rows: Sequence[Mapping[str, Any]], path: Path, origin: Mapping[str, Any]) -> Path:
    """Write rows in their order as Parquet with :data:`COLUMNS`, and return the path; the file is complete or left as
    it was. ``origin`` is written as JSON into the file's metadata; columns that a row lacks are null, and keys that are
    no column are left out.

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
    """Results of a finished sweep, in the order of the experiment."""

    name: str
    rows: tuple[Row, ...]
    """Rows in the order of the experiment."""
    computed: int
    """Number of rows computed by this run; the others were in the folder."""
    unused: int
    """Number of rows in the folder that belong to other points or to another version of the code."""
    results: Path
    provenance: Mapping[str, Any]
    left: int = 0
    """Number of points that were not computed before Ctrl-C; nothing is written then."""

    @property
    def statuses(self) -> Counter[str]:
        """Number of rows with each status, by "done", "refused" and "failed"."""
        return Counter(row["status"] for row in self.rows)


def sweep(
    name: str,
    points: Mapping[str, Point],
    folder: Path,
    workers: Workers,
    advance: Callable[[int], None] = lambda _: None,
    tell: Callable[[Collection[Row]], None] = lambda _: None,
) -> Swept:
    """Compute the rows that the folder lacks, store them there as they come, write all results as one Parquet file,
    ``results.parquet`` in the folder, and return them in the order of the points.

    Args:
        name: of the sweep; the folder is of this one alone.
        points: by key, as :func:`lightloom.planning.sweeps.experiment.points_of` gives them.
        folder: where rows and results lie; made where there is none.
        workers: that compute.
        advance: called with the number of rows that are finished since the last call, first those of an earlier run.
            Refused and failed rows are finished too, and not computed again.
        tell: called with all finished rows of the folder whenever there are more.

    Raises:
        SearchStopped: Ctrl-C, with the rows that are finished; the folder keeps them, and no Parquet file is written.
        KeyboardInterrupt: Ctrl-C before any row is finished.
        ConfigError: the folder cannot be written to, holds other files or another run, or is in use; no such cluster,
            or it is lost.
        UnsupportedError: pyarrow, joblib, Dask or Ray is needed and missing.
    """
    with needing("sweeps need pyarrow", "'lightloom[sweep]'"):
        import_module("pyarrow.parquet")
    with open_journal(folder, name) as journal:
        missing = [(key, point) for key, point in points.items() if key not in journal.rows]
        advance(len(points) - len(missing))
        try:
            if missing:
                with closing(workers.results(compute, batches(missing))) as finished:
                    for rows in finished:
                        journal.append(rows)
                        advance(len(rows))
                        tell(journal.rows.values())
        except KeyboardInterrupt:
            if all(key not in journal.rows for key in points):
                raise
        left = sum(key not in journal.rows for key, _ in missing)
        results = tuple(journal.rows[key] for key in points if key in journal.rows)
        origin = provenance([name, list(points)]) | {"code": code_version()}
        counts = {"computed": len(missing) - left, "unused": len(journal.rows) - len(results), "left": left}
        path = folder / RESULTS if left else write_table(results, folder / RESULTS, origin)
        swept = Swept(name=name, rows=results, results=path, provenance=origin, **counts)
    if left:
        raise SearchStopped(swept)
    return swept
