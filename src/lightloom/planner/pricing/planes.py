"""Switch planes shared out among the groups of a strategy, and how long setting one anew takes.

    8 planes    tensor tensor tensor tensor tensor data pipeline pipeline       5, 1 and 2

A group's collectives run on its own planes alone: a schedule of the same kind of fabric with as many planes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import combinations

from lightloom.core.errors import UnsupportedError
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.pricing.divided_prices import DividedChannels
from lightloom.planner.pricing.division import Division, live_axes
from lightloom.planner.pricing.group_prices import GroupPrices
from lightloom.planner.pricing.stage_exchanges import Axis

Planes = Mapping[Axis, int]
"""Switch planes of each axis; their sum is at most the planes of the fabric."""


class PlanePrices:
    """Prices of collectives on some of the planes of a circuit switch."""

    def __init__(self, prices: GroupPrices, reconfiguration_time: float | None = None) -> None:
        """
        Args:
            prices: those on all planes.
            reconfiguration_time: seconds in which a plane is set anew, where others than those of the fabric are asked
                for: right for collectives whose own circuits stand.

        Raises:
            UnsupportedError: the fabric has no switch planes.
        """
        fabric = prices.fabric
        if not fabric.switch_planes or not fabric.share_unit(fabric.ranks, 1):
            raise UnsupportedError(
                f"circuits set anew within a step (--reconfigure-in-step) on {fabric.kind_name}: expected switch "
                "planes that groups share (circuit-switch), or for placed plans wavelengths around a ring (wdm-ring)"
            )
        self.fabric = fabric
        self.planes = fabric.shared_channels
        """Planes of the switch."""
        self.reconfiguration_time = fabric.setup_time if reconfiguration_time is None else reconfiguration_time
        """Seconds in which a plane is set anew."""
        self.prices = prices

    def shared(self, strategy: Strategy, planes: Planes) -> DividedChannels:
        """Return the part of the fabric that every axis of a strategy has; axes that are left out have all planes."""
        axes = live_axes(strategy)
        return DividedChannels(
            self.prices, Division(self.fabric, axes, tuple(planes.get(axis.name, self.planes) for axis in axes))
        )


@cache
def divisions(planes: int, axes: int) -> list[tuple[int, ...]]:
    """Return every way to share out all planes among so many axes, none of them without: compositions of ``planes``."""
    edges = combinations(range(1, planes), axes - 1)
    return [tuple(b - a for a, b in zip((0, *cut), (*cut, planes), strict=True)) for cut in edges]
