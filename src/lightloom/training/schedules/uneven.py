"""One rank's part of a schedule whose parts differ in size: all its chunks one after the other in one flat tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError
from lightloom.training.schedules.program import Movement, Program


@dataclass(frozen=True, slots=True, eq=False)
class UnevenMemory:
    """Where the values of a rank's chunks lie.

    Every part has as many values as its bytes hold, rounded; it is cut into equal chunks, the last one padded.
    """

    program: Program
    """Cells named by the places of their values."""
    brought: Ints
    """Places of the input's values, in its order."""
    kept: Ints
    """Places of the output's values, in its order."""
    values: int
    """Of all chunks that the rank ever holds, padding included."""

    @property
    def padding(self) -> int:
        """Zeros added to what the rank brings."""
        held = self.program.held
        return int(held.stop) - int(held.start) - len(self.brought)

    def check(self, values: int) -> None:
        """Check the number of values that a rank brings.

        Raises:
            ConfigError: not as many as its parts have.
        """
        if values != len(self.brought):
            raise ConfigError(
                f"{values} values of rank {self.program.rank}: expected {len(self.brought)}, by the sizes"
            )


def values_of_parts(movement: Movement, itemsize: int) -> Ints:
    """Values of each part of a collective with sizes, of so many bytes each: [part]."""
    wanted = movement.collective
    assert wanted.sizes is not None
    values: Ints = np.rint(wanted.sizes.share.ravel() * (wanted.distinct_nbytes / itemsize)).astype(np.int64)
    return values


def uneven_memory(movement: Movement, program: Program, itemsize: int) -> UnevenMemory:
    """Lay out a rank's chunks, values having so many bytes."""
    weights = movement.collective.weights
    assert weights is not None
    values = values_of_parts(movement, itemsize)
    # What has bytes is sent, even where they are less than a value.
    chunk = np.maximum(-(-values // movement.pieces), weights > 0)
    part, piece = np.divmod(program.chunks, movement.pieces)
    sizes = chunk[part]
    begins = np.cumsum(sizes) - sizes
    filled = np.clip(values[part] - piece * sizes, 0, sizes)

    def places(chunks: Ints) -> Ints:
        cells = np.searchsorted(program.chunks, chunks)
        parts = [np.arange(begins[cell], begins[cell] + filled[cell]) for cell in cells]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    rank = program.rank
    brought, kept = places(movement.held(rank)), places(movement.wanted(rank))
    return UnevenMemory(program.in_values(sizes), brought, kept, int(sizes.sum()))
