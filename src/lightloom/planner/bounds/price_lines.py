"""Lower bounds of the prices of collectives, for columns of groups and sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.planner.pricing.group_prices import Pricing
from lightloom.planner.pricing.price_line import LowerPrice, PriceLine, undominated

_Group = tuple[int, int, int, float]
"""Algorithm (an index), ranks, stride, ratio."""


class PriceLines:
    """Lower bounds of prices, for columns of sizes; a few prices for each kind, algorithm, group and ratio.

    Where an exchange chooses its algorithm, the bound is the least of the algorithms'. With ``hidden_setup`` all
    circuits of the first step are set up before the data exists, otherwise only those that can stay in place
    (``Cost.repeated_time``).
    """

    def __init__(self, pricing: Pricing, algorithms: Sequence[str], *, hidden_setup: bool) -> None:
        self._pricing = pricing
        self._algorithms = algorithms
        self._hidden_setup = hidden_setup
        self._lines: dict[tuple[Kind, _Group], list[LowerPrice]] = {}

    def __call__(self, kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, ratio: Floats, nbytes: Floats) -> Floats:
        """Seconds: 0 where nothing is sent or there is one rank, infinite where no algorithm serves.

        Arguments broadcast; ``nbytes`` may have a last dimension more than the others.
        """
        groups, row = unique_groups(algorithm, ranks, stride, ratio)
        lines = [self._of_group(kind, group) for group in groups]
        shape = row.shape + (1,) * (nbytes.ndim - row.ndim)
        bound = np.full(np.broadcast_shapes(shape, nbytes.shape), np.inf)
        for place in range(max(map(len, lines), default=0)):
            table = [each[place] if place < len(each) else None for each in lines]
            np.minimum(bound, _columns(table, row, nbytes, shape), out=bound)
        alone = (ranks == 1).reshape(np.shape(ranks) + (1,) * (nbytes.ndim - np.ndim(ranks)))
        return np.where((nbytes > 0) & ~alone, bound, 0.0)

    def _of_group(self, kind: Kind, group: _Group) -> list[LowerPrice]:
        if group[1] == 1:
            return []
        if (kind, group) not in self._lines:
            algorithm, ranks, stride, ratio = group
            name = self._algorithms[algorithm]
            lines = self._pricing.lines(kind, name, ranks, ratio, stride, hidden_setup=self._hidden_setup)
            self._lines[kind, group] = undominated(lines)
        return self._lines[kind, group]


def _columns(table: Sequence[LowerPrice | None], row: Ints, nbytes: Floats, shape: tuple[int, ...]) -> Floats:
    """Bounds of one algorithm of each group, infinite where a group has none."""
    missing = PriceLine(np.inf, 0.0, np.inf, 0.0)
    lines = np.array([each if isinstance(each, PriceLine) else missing for each in table])
    bound = PriceLine(*(part.reshape(shape) for part in lines[row].T)).column(nbytes)
    for place, line in enumerate(table):
        if line is not None and not isinstance(line, PriceLine):
            bound = np.where((row == place).reshape(shape), line.column(nbytes), bound)
    return bound


def unique_groups(algorithm: Ints, ranks: Ints, stride: Ints, ratio: Floats) -> tuple[list[_Group], Ints]:
    """The different groups of ranks, (algorithm, ranks, stride, ratio), and the group of each row."""
    code = algorithm
    for column in (ranks, stride, np.unique(ratio, return_inverse=True)[1]):
        code = code * (int(column.max(initial=0)) + 1) + column
    _, first, row = np.unique(code, return_index=True, return_inverse=True)
    columns = (each[first].tolist() for each in np.broadcast_arrays(algorithm, ranks, stride, ratio))
    return list(zip(*columns, strict=True)), row
