"""Seconds of a model's operators on an accelerator: of their kernels, of launching them, of whole passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.accelerators.base import Accelerator, Precision
from lightloom.core.arrays import Floats, Ints
from lightloom.parallelism.operator_kernels import stretched
from lightloom.parallelism.operator_parts import Parts, part_times
from lightloom.parallelism.operators import OperatorColumns
from lightloom.parallelism.recomputation import repetitions
from lightloom.parallelism.strategy_space import Strategies


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """Times forward and backward; backward passes include what recomputation repeats, by its index in
    ``RECOMPUTATIONS``."""

    sorts: OperatorColumns
    """One operator of each sort."""
    sort: Ints
    """The sort of every operator: [operators]."""
    accelerator: Accelerator
    precision: Precision

    def kernels(self, samples: Ints, recomputation: Ints) -> tuple[Floats, Floats]:
        """Seconds of every operator, however long launching it takes, each [rows, operators]."""
        times = self.sorts.times(self.accelerator, self.precision, samples, np.ones_like(samples))
        forward, backward = self.repeating(times, recomputation)
        return np.ascontiguousarray(forward[:, self.sort]), np.ascontiguousarray(backward[:, self.sort])

    def parts(self, parts: Parts) -> tuple[Floats, Floats]:
        """Seconds of parts of operators by their own shapes, however long launching takes, nothing repeated, each
        [parts]."""
        sorted_parts = parts._replace(operator=self.sort[parts.operator])
        return part_times(self.sorts, self.accelerator, self.precision, sorted_parts)

    def repeats(self, recomputation: Ints) -> Ints:
        """How often the backward pass repeats the forward pass of every operator: [rows, operators]."""
        return repetitions(self.sorts["in_block"], self.sorts["core"], recomputation)[:, self.sort]

    def launches(self, recomputation: Ints) -> tuple[Floats, Floats]:
        """Seconds in which a host launches every operator, each [rows, operators]."""
        forward, backward = self.repeating(self.launches_of_sorts, recomputation)
        backward = np.ascontiguousarray(backward[:, self.sort])
        return np.broadcast_to(forward[self.sort], backward.shape), backward

    def passes(self, samples: Ints, tp: Ints, recomputation: Ints) -> tuple[Floats, Floats]:
        """Seconds of every operator, each [rows, operators]; no pass is shorter than all its launches."""
        times = self.repeating(self.sorts.times(self.accelerator, self.precision, samples, tp), recomputation)
        launches = self.repeating(self.launches_of_sorts, recomputation)
        forward, backward = (
            stretched(seconds[:, self.sort], least[..., self.sort])
            for seconds, least in zip(times, launches, strict=True)
        )
        return forward, backward

    def of_sorts(self, rows: Strategies) -> tuple[Floats, Floats]:
        """Seconds of an operator of each sort without what is repeated, each [rows, sorts]."""
        return self.sorts.times(
            self.accelerator,
            self.precision,
            rows.samples,
            rows.tp,
            sequence_parallel=rows.sequence_parallel,
            ep=rows.ep,
            cp=rows.cp,
        )

    @property
    def launches_of_sorts(self) -> tuple[Floats, Floats]:
        """Seconds in which a host launches an operator of each sort, each [sorts]."""
        return self.sorts.dispatch(self.accelerator)

    def repeating(self, seconds: tuple[Floats, Floats], recomputation: Ints) -> tuple[Floats, Floats]:
        """Seconds of each sort forward, and backward with the repeated forward passes: [rows, sorts]."""
        forward, backward = seconds
        return forward, backward + repetitions(self.sorts["in_block"], self.sorts["core"], recomputation) * forward
