"""Switch planes shared out among the groups of a strategy, and what exchanges take on as many as each has.

    8 planes    tensor tensor tensor tensor tensor data data pipeline       5, 2 and 1

A group's collectives run on its own planes alone: a schedule of the same kind of fabric with as many planes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import combinations

from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.planner.pricing.group_prices import GroupPrices
from lightloom.planner.pricing.stage_exchanges import Axis

Division = Mapping[Axis, int]
"""Switch planes of each axis; their sum is at most the planes of the fabric."""


class PlanePrices:
    """Prices of collectives on some of the planes of a circuit switch."""

    def __init__(self, prices: GroupPrices) -> None:
        """``prices`` are those on all planes.

        Raises:
            UnsupportedError: the fabric has no switch planes.
        """
        fabric = prices.fabric
        if not fabric.switch_planes or fabric.share(fabric.ranks, 1, 1) is None:
            raise UnsupportedError(
                f"circuits set anew within a step on a {fabric.kind_name}: expected switch planes (circuit-switch)"
            )
        self._all = prices
        self._prices = {fabric.channels: prices}
        self._turn: float | None = None

    def turning_in(self, seconds: float) -> PlanePrices:
        """Return the same prices where a plane is set anew in other ``seconds``: right for collectives whose own
        circuits stand."""
        other = PlanePrices(self._all)
        other._prices, other._turn = self._prices, seconds
        return other

    @property
    def planes(self) -> int:
        """Planes of the switch."""
        return self._all.fabric.channels

    @property
    def reconfiguration_time(self) -> float:
        """Seconds in which a plane is set anew."""
        return self._all.fabric.setup_time if self._turn is None else self._turn

    def at(self, planes: int) -> GroupPrices:
        """Prices on so many planes."""
        if planes not in self._prices:
            part = self._all.fabric.share(self._all.fabric.ranks, 1, planes)
            assert part is not None
            self._prices[planes] = self._all.on(part)
        return self._prices[planes]

    def shift_unit(self, stride: int) -> int:
        """Planes that sending to the rank ``stride`` further on, and to the one as far before, takes at least."""
        return self._all.fabric.shift_unit(stride)

    def save(self) -> None:
        """Cache on disk what is new."""
        for prices in self._prices.values():
            prices.save()


class PlaneShares:
    """The part of the fabric that every axis of a strategy has to itself."""

    def __init__(self, prices: PlanePrices, division: Division) -> None:
        """``division`` may give every axis all planes, which bounds what any division costs."""
        self.division = dict(division)
        self._prices = prices

    def pricing(self, axis: Axis) -> GroupPrices:
        """Prices of the collectives of an axis."""
        return self._prices.at(self.division[axis])

    def fabric(self, axis: Axis) -> Fabric:
        """The fabric with the planes of an axis; all of it for axes that exchange nothing."""
        return self._prices.at(self.division.get(axis, self._prices.planes)).fabric

    def shift(self, stride: int) -> tuple[float, float]:
        """Bytes per second and seconds of latency each way between stages whose ranks lie ``stride`` apart."""
        planes = self.division["pipeline"]
        shift = self._prices.at(planes).fabric.shift(stride, planes)
        return shift.rate, shift.latency

    def tied(self, stride: int) -> tuple[float, float]:
        """The same between stages that hold copies of a table."""
        return self.fabric("tied").pair(stride)


@cache
def divisions(planes: int, axes: int) -> list[tuple[int, ...]]:
    """Return every way to share out all planes among so many axes, none of them without: compositions of ``planes``."""
    edges = combinations(range(1, planes), axes - 1)
    return [tuple(b - a for a, b in zip((0, *cut), (*cut, planes), strict=True)) for cut in edges]
