"""Measured collectives: tables of ours, and what nccl-tests prints, as text or as CSV.

nodes,gpus,collective,nbytes,time_us                           several collectives and numbers of GPUs
size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)   one of each; out of place, then in place
# size count type redop root time algbw busbw #wrong ...       what all_reduce_perf prints on a terminal
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from lightloom.calibration.measured import measured_file, read_measured, read_table
from lightloom.collectives.spec import Kind
from lightloom.core.documents import read_number
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Config

_PROGRAMS: dict[str, Kind] = {
    "all_reduce_perf": "all-reduce",
    "all_gather_perf": "all-gather",
    "reduce_scatter_perf": "reduce-scatter",
    "alltoall_perf": "all-to-all",
    "broadcast_perf": "broadcast",
    "reduce_perf": "reduce",
}
_RANK = re.compile(r"#\s+Rank\s+\d+.*\bon\s+(\S+)\s+device")
_SIZES_OF_CSV = "size(B),count,type,time(ns)"


class MeasuredCollective(Config):
    """A collective of one size among some GPUs, with the time that it took."""

    nodes: Annotated[int, Field(ge=1)]
    gpus: Annotated[int, Field(ge=2)]
    """GPUs altogether."""
    collective: Kind
    nbytes: Annotated[float, Field(gt=0)]
    """As nccl-tests counts: an all-gather's output, an all-to-all's buffer of one rank."""
    time_us: Annotated[float, Field(gt=0)]
    """Duration of the collective, in microseconds."""

    @model_validator(mode="after")
    def _nodes_have_gpus(self) -> Self:
        if self.gpus < self.nodes:
            raise ValueError(f"column 'nodes': {self.nodes}: expected at most gpus, {self.gpus}")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCollectives:
    """A file of timed collectives."""

    name: str
    sha256: str
    rows: tuple[MeasuredCollective, ...]


def read_collectives(
    name: Path | str, *, gpus: int | None = None, collective: Kind = "all-reduce"
) -> MeasuredCollectives:
    """Read a file of timed collectives in any of the three forms.

    Args:
        name: the file, also by its name in the folder ``LIGHTLOOM_MEASURED``.
        gpus: number of GPUs, where the file does not say it.
        collective: which collective, where the file does not say it.

    Raises:
        ConfigError: the file cannot be read, or a row; the message names file, row and column.
    """
    path = measured_file(name)
    text, digest = read_measured(path)
    if gpus is not None and gpus < 2:
        raise ConfigError(f"--gpus {gpus}: expected at least 2 for a collective")
    if text.startswith(_SIZES_OF_CSV):
        rows = list(_csv_of_sizes(text, path, gpus, collective))
    elif text.startswith("nodes,") or "," in text.split("\n", 1)[0]:
        if gpus is not None:
            raise ConfigError(f"--gpus {gpus}: {path} states the GPUs of each row in column 'gpus': expected no --gpus")
        rows = read_table(text, MeasuredCollective, path)
    else:
        rows = list(_printed(text, path, gpus, collective))
    if not rows:
        raise ConfigError(f"{path}: no rows of timed collectives")
    return MeasuredCollectives(name=path.stem, sha256=digest, rows=tuple(rows))


def _csv_of_sizes(text: str, path: Path, gpus: int | None, collective: Kind) -> Iterator[MeasuredCollective]:
    """Rows of nccl-tests as CSV, nanoseconds out of place and in place: their mean counts."""
    if gpus is None:
        raise ConfigError(f"{path}: the file does not say the number of GPUs: give it with --gpus")
    lines = list(csv.reader(StringIO(text)))
    for number, cells in enumerate(lines[1:], 1):
        place = f"{path}, row {number}"
        times = [_number(cells, column, place, lines[0]) for column in (3, 5) if column < len(lines[0])]
        nbytes = _number(cells, 0, place, lines[0])
        yield _row(1, gpus, collective, nbytes, sum(times) / len(times) / 1e3)


def _number(cells: list[str], column: int, place: str, names: list[str]) -> float:
    name = names[column]
    if column >= len(cells):
        raise ConfigError(f"{place}: column {name!r}: no cell, the row is too short")
    return _positive(cells[column], f"{place}: column {name!r}")


def _positive(cell: str, place: str) -> float:
    try:
        value = read_number(cell)
    except ValueError as error:
        raise ConfigError(f"{place}: {cell!r}: expected a number") from error
    if not (value > 0 and math.isfinite(value)):
        raise ConfigError(f"{place}: {cell!r}: expected a finite number above 0")
    return value


def _printed(text: str, path: Path, gpus: int | None, collective: Kind) -> Iterator[MeasuredCollective]:
    """Rows that a program of nccl-tests printed; its heading names ranks and hosts."""
    hosts = [match.group(1) for line in text.splitlines() if (match := _RANK.match(line))]
    ranks = len(hosts) or gpus
    if ranks is None:
        raise ConfigError(f"{path}: no '#  Rank' lines that say the number of GPUs: give it with --gpus")
    if ranks < 2 or gpus not in (None, ranks):
        expected = "at least 2" if gpus is None else f"the {gpus} of --gpus"
        raise ConfigError(f"{path}: {ranks} lines '# Rank', one for each GPU: expected {expected}")
    named = [kind for program, kind in _PROGRAMS.items() if re.search(rf"(?<![a-z_]){program}", text)]
    kind = named[0] if named else collective
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split()
        if not cells or not cells[0].isdigit():
            continue
        place = f"{path}, line {number}"
        # size count type [redop root] time algbw busbw #wrong time algbw busbw #wrong
        if len(cells) < 8 or (len(cells) - 3) % 4 not in (0, 1, 2):
            raise ConfigError(
                f"{place}: {len(cells)} columns: expected size, count, type, ..., time, algbw, busbw, #wrong"
            )
        count = 2 if len(cells) >= 11 else 1
        starts = [len(cells) - 4 * half for half in range(count, 0, -1)]
        times = [_positive(cells[start], f"{place}: column 'time'") for start in starts]
        if float(cells[0]) > 0:
            yield _row(len(set(hosts)) or 1, ranks, kind, float(cells[0]), sum(times) / len(times))


def _row(nodes: int, gpus: int, collective: Kind, nbytes: float, time_us: float) -> MeasuredCollective:
    return MeasuredCollective(nodes=nodes, gpus=gpus, collective=collective, nbytes=nbytes, time_us=time_us)
