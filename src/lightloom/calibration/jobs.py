"""Measured rows as columns of jobs: one for each row, or several where a row does not say everything.

Where the micro-batch or the virtual stages were not published, every usual choice is a job of its own, and the fastest
stands for the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from lightloom.accelerators.base import Accelerator
from lightloom.calibration.rows import MeasuredStep
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import ConfigError

Cell = TypeVar("Cell", bound=np.generic)
_MICRO_BATCHES = (1, 2, 4, 8, 16)
_VIRTUAL_STAGES = (1, 2, 3, 4, 5, 6, 8)


@dataclass(frozen=True)
class Jobs:
    """Columns of shape [jobs]; the fields of :class:`MeasuredStep` under their own names."""

    steps: tuple[MeasuredStep, ...]
    """The step of each job, nothing left open."""
    row: Ints
    """Which row a job stands for: [jobs]."""
    rows: int
    accelerator: Accelerator
    """What all rows were measured on; its memory bandwidth is stated by each row."""

    @cached_property
    def _columns(self) -> dict[tuple[str, type], NDArray[np.generic]]:
        """Columns that were read before: a fit reads each of them thousands of times."""
        return {}

    def _column(self, name: str, kind: type[Cell]) -> NDArray[Cell]:
        if (name, kind) not in self._columns:
            self._columns[name, kind] = np.array([getattr(step, name) for step in self.steps], kind)
        return cast("NDArray[Cell]", self._columns[name, kind])

    def column(self, name: str) -> Floats:
        """Return a column of numbers as floats."""
        return self._column(name, np.float64)

    def where(self, name: str, *values: str) -> Mask:
        """Return the jobs of which a column has one of these values."""
        return np.isin(self._column(name, np.str_), values)

    @cached_property
    def peak(self) -> Floats:
        """FLOP/s of each job's precision on the data sheet."""
        return np.array([self.accelerator.peak_rate(step.precision) for step in self.steps])

    @cached_property
    def share(self) -> Floats:
        """Sequences of a step that one data-parallel rank works on."""
        return self.column("global_batch") / self.column("dp")

    @cached_property
    def measured(self) -> Floats:
        """Seconds as measured, of each row: [rows]."""
        seconds = np.zeros(self.rows)
        seconds[self.row] = self.column("step_s")
        return seconds

    def fastest(self, seconds: Floats) -> tuple[Floats, Ints]:
        """Return the least seconds of each row, and the job that takes them: both [rows]."""
        order = np.lexsort((seconds, self.row))
        first = np.searchsorted(self.row[order], np.arange(self.rows))
        return seconds[order][first], order[first]

    def only(self, jobs: Ints) -> Jobs:
        """Return one job of each row: ``jobs``, of shape [rows], in the order of the rows."""
        return replace(self, steps=tuple(self.steps[job] for job in jobs), row=np.arange(self.rows))

    def subset(self, keep: Mask) -> Jobs:
        """Return the jobs of the rows for which ``keep``, of shape [rows], is set, rows renumbered."""
        jobs = np.flatnonzero(keep[self.row])
        number = np.cumsum(keep) - 1
        return replace(
            self, steps=tuple(self.steps[job] for job in jobs), row=number[self.row[jobs]], rows=int(keep.sum())
        )


def jobs_of(steps: Sequence[MeasuredStep], accelerator: Accelerator) -> Jobs:
    """Return the jobs of rows that were measured on one accelerator.

    Raises:
        ConfigError: no usual micro-batch divides what a rank works on.
    """
    made = [(index, job) for index, step in enumerate(steps) for job in _choices(step)]
    return Jobs(
        steps=tuple(job for _, job in made),
        row=np.array([index for index, _ in made], np.int64),
        rows=len(steps),
        accelerator=accelerator,
    )


def _choices(step: MeasuredStep) -> list[MeasuredStep]:
    """Return the step with every usual choice of what it leaves open."""
    if step.micro_batch is not None and step.virtual_stages is not None:
        return [step]
    choices = [
        step.model_copy(update={"micro_batch": micro, "virtual_stages": virtual})
        for micro in ([step.micro_batch] if step.micro_batch else _MICRO_BATCHES)
        for virtual in _virtual_stages(step, micro)
        if step.micro_batch or step.global_batch % (step.dp * micro) == 0
    ]
    if not choices:
        raise ConfigError(f"row {step.row}: column 'micro_batch': not published, and dp does not divide global_batch")
    return choices


def _virtual_stages(step: MeasuredStep, micro: int) -> Iterator[int]:
    if step.virtual_stages is not None:
        yield step.virtual_stages
        return
    for virtual in _VIRTUAL_STAGES if step.pp > 1 else (1,):
        divides = step.layers % (step.pp * virtual) == 0
        # Interleaved stages take as many micro-batches at a time as there are stages.
        in_turns = virtual == 1 or step.global_batch % (step.dp * micro * step.pp) == 0
        if virtual == 1 or (divides and in_turns):
            yield virtual
