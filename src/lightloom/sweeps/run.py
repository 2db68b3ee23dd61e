"""Run a sweep: compute the points that are missing from its folder, and write all results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom.core.provenance import provenance
from lightloom.sweeps.code import code_version
from lightloom.sweeps.compute import Row, batches
from lightloom.sweeps.journal import opened
from lightloom.sweeps.points import Point
from lightloom.sweeps.table import check_installed, write_table
from lightloom.sweeps.workers import Workers

RESULTS = "results.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A finished sweep."""

    name: str
    rows: tuple[Row, ...]
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
        points: by key, as :func:`lightloom.sweeps.expand.points_of` gives them.
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
