"""Prices of collectives within groups of ranks, and lines that stay below them.

A verified schedule's cost is a sum over steps (or along a chain of steps) of maxima of linear functions of the bytes:
convex. The line through two sizes lies below a convex function outside of the two. So two lines, through sizes below
and above all that occur, bound every size between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from lightloom.clusters.settings import TrainingSettings
from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.registry import Algorithm, find
from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric
from lightloom.planner.pricing.compression import Compression, gradient_bytes
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.simulation.lower import Price

_SMALL, _LARGE = 2.0**12, 2.0**37
"""Bytes; smaller sizes are bounded by the price of nothing, larger ones by the first line alone."""


class Pricing(Protocol):
    """What collectives of a group cost."""

    def refusal(self, kind: Kind, algorithm: str, ranks: int, ratio: float, stride: int = 1) -> str | None:
        """Why this collective cannot be had; None when it can."""

    def price(self, algorithm: str, ranks: int, ratio: float, stride: int = 1) -> Price:
        """Prices of a group of ``ranks`` that lie so far ``apart``, whose gradients are sent ``ratio`` times
        smaller."""


class GroupPrices:
    """Prices of verified schedules on the part of a fabric that a group of ranks has to itself.

    The part is the same kind of fabric with as many ranks (:meth:`Fabric.group`): a ring's part is taken to close.
    Where an algorithm cannot carry an all-to-all, the blocks go straight from rank to rank instead.
    """

    def __init__(
        self,
        fabric: Fabric,
        training: TrainingSettings,
        model: CostModel = "physical",
        compressions: Sequence[Compression] = (),
    ) -> None:
        self._fabric = fabric
        self._training = training
        self._model = model
        self._compressions = {each.ratio: each for each in compressions}
        self._parts: dict[tuple[int, int], Fabric | None] = {}
        self._plain: dict[tuple[str, str], SchedulePrices] = {}
        self._prices: dict[tuple[str, int, float, int], Price] = {}

    def refusal(self, kind: Kind, algorithm: str, ranks: int, ratio: float, stride: int = 1) -> str | None:
        """Why this collective cannot be had; None when it can."""
        part = self._part(ranks, stride)
        if part is None:
            return f"the fabric has no part of {ranks} ranks" + (f" that lie {stride} apart" if stride > 1 else "")
        if ratio != 1 and part.in_network_reduction:
            return "a fabric that adds up light in the network cannot add up compressed streams"
        if find(algorithm).by_size:
            return f"{algorithm} has another schedule for every size, whose prices cannot be bounded from a few sizes"
        return _carrier(kind, algorithm, part).refusal(kind, part)

    def price(self, algorithm: str, ranks: int, ratio: float, stride: int = 1) -> Price:
        """Builds on first use; a ratio other than 1 must be that of one of the compressions."""
        key = algorithm, ranks, ratio, stride
        if key not in self._prices:
            part = self._part(ranks, stride)
            assert part is not None
            sums = self._schedules(find(algorithm), part)
            if ratio != 1:
                sums = sums.compressed(self._compressions[ratio], gradient_bytes(self._training))
            blocks = self._schedules(_carrier("all-to-all", algorithm, part), part)
            self._prices[key] = lambda kind, nbytes: (blocks if kind == "all-to-all" else sums)(kind, nbytes)
        return self._prices[key]

    def _schedules(self, algorithm: Algorithm, part: Fabric) -> SchedulePrices:
        key = algorithm.name, part.model_dump_json()
        if key not in self._plain:
            self._plain[key] = SchedulePrices(algorithm, part, self._model)
        return self._plain[key]

    def _part(self, ranks: int, stride: int) -> Fabric | None:
        if ranks == self._fabric.ranks:
            return self._fabric
        if (ranks, stride) not in self._parts:
            self._parts[ranks, stride] = self._fabric.group(ranks, stride)
        return self._parts[ranks, stride]


def _carrier(kind: Kind, algorithm: str, part: Fabric) -> Algorithm:
    found = find(algorithm)
    if kind == "all-to-all" and found.refusal(kind, part) is not None:
        straight = [find(name) for name in ("one-stage-striped", "one-stage")]
        found = next((each for each in straight if each.refusal(kind, part) is None), straight[-1])
    return found


class PriceLines:
    """Lower bounds of prices, for columns of sizes; four prices a kind, algorithm, group and ratio.

    With ``hidden_setup`` all circuits of the first step are set up before the data exists, otherwise only those that
    can stay in place (``Cost.repeated_time``).
    """

    def __init__(self, pricing: Pricing, algorithms: Sequence[str], *, hidden_setup: bool) -> None:
        self._pricing = pricing
        self._algorithms = algorithms
        self._hidden_setup = hidden_setup
        self._fitted: dict[tuple[Kind, int, int, int, float], tuple[float, float, float, float]] = {}

    def __call__(self, kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, ratio: Floats, nbytes: Floats) -> Floats:
        """Seconds: 0 where nothing is sent or there is one rank; arguments broadcast.

        ``nbytes`` may have a last dimension more than the others.
        """
        keys, row = unique_groups(algorithm, ranks, stride, ratio)
        base, slope, far, far_slope = (
            part.reshape(row.shape + (1,) * (nbytes.ndim - row.ndim)) for part in self._columns(kind, keys, row)
        )
        near = base + np.where(nbytes >= _SMALL, slope * nbytes, 0.0)
        beyond = np.where(nbytes <= _LARGE, far - far_slope * (_LARGE - nbytes), 0.0)
        alone = (ranks == 1).reshape(base.shape)
        return np.where((nbytes > 0) & ~alone, np.maximum(near, beyond), 0.0)

    def _columns(self, kind: Kind, keys: list[tuple[int, int, int, float]], row: Ints) -> list[Floats]:
        table = np.array([self._fit(kind, *key) for key in keys]).reshape(-1, 4)
        return list(table[row].T)

    def _fit(
        self, kind: Kind, algorithm: int, ranks: int, stride: int, ratio: float
    ) -> tuple[float, float, float, float]:
        key = kind, algorithm, ranks, stride, ratio
        if ranks == 1:
            return 0.0, 0.0, 0.0, 0.0
        if key not in self._fitted:
            price = self._pricing.price(self._algorithms[algorithm], ranks, ratio, stride)
            costs = (price(kind, nbytes).cost for nbytes in (0.0, _SMALL, _LARGE, 2 * _LARGE))
            nothing, small, large, twice = (
                cost.time - cost.setup if self._hidden_setup else cost.repeated_time for cost in costs
            )
            # Far from its two sizes the second line is a difference of large numbers.
            far = large - 16 * np.finfo(np.float64).eps * twice
            self._fitted[key] = nothing, (small - nothing) / _SMALL, far, (twice - large) / _LARGE
        return self._fitted[key]


def unique_groups(
    algorithm: Ints, ranks: Ints, stride: Ints, ratio: Floats
) -> tuple[list[tuple[int, int, int, float]], Ints]:
    """The different groups of ranks, (algorithm, ranks, apart, ratio), and where each row finds its own."""
    code = algorithm
    for column in (ranks, stride, np.unique(ratio, return_inverse=True)[1]):
        code = code * (int(column.max(initial=0)) + 1) + column
    _, first, row = np.unique(code, return_index=True, return_inverse=True)
    columns = (each[first].tolist() for each in np.broadcast_arrays(algorithm, ranks, stride, ratio))
    return list(zip(*columns, strict=True)), row
