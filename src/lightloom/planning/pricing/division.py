"""Channels of a circuit-switched fabric divided among the axes of a strategy whose circuits stand at the same time.

    axis           groups                                channels of every link
    tensor         tp neighbours                         0 ... 2
    data           replicas, tp apart                    3 ... 6        planes of a switch, wavelengths of a ring
    pipeline       every rank and that of the next stage 7

Circuits are set once, so every axis keeps its own from the first step on; a plane that carries circuits of tensor
groups carries none of data groups. Sends of the pipeline go both ways at once, and copies of tied tables use their
circuits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, combinations
from math import inf
from typing import NamedTuple

import numpy as np

from lightloom.collectives.bounds.lower_bound import bandwidth_bound
from lightloom.collectives.collective import Collective, Kind
from lightloom.core.arrays import Mask
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import AxisShare, Fabric
from lightloom.planning.gradients import VALUE_BYTES
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.collective_prices import LowerPrice
from lightloom.planning.pricing.group_prices import GroupPrices, Pricing
from lightloom.planning.pricing.job import Axis, Job
from lightloom.planning.simulation.engine import Price, Priced


class AxisGroups(NamedTuple):
    """Groups of one axis of parallelism."""

    name: Axis
    ranks: int
    stride: int
    """Distance between neighbouring ranks of a group; of the pipeline, from a stage to the next."""

    def unit(self, fabric: Fabric) -> int:
        """Return the number of channels of which every share is a multiple; 0 where channels cannot be shared."""
        if self.name == "pipeline":
            return fabric.shift_unit(self.stride)
        return fabric.share_unit(self.ranks, self.stride)


def live_axes(strategy: Strategy) -> tuple[AxisGroups, ...]:
    """Return the axes along which a strategy exchanges anything."""
    tp, replicas, ep = strategy.tp, strategy.replicas, strategy.ep
    axes = (
        AxisGroups("tensor", tp, 1),
        AxisGroups("context", strategy.cp, tp),
        AxisGroups("expert", ep, tp),
        AxisGroups("data", replicas, tp),
        AxisGroups("expert-data", replicas // ep if ep > 1 else 1, tp * ep),
        AxisGroups("pipeline", strategy.pp, replicas * tp),
    )
    return tuple(axis for axis in axes if axis.ranks > 1)


def least_channels(fabric: Fabric, axes: Sequence[AxisGroups]) -> int | None:
    """Return the channels of a link without which the axes' circuits cannot stand at once; None where channels cannot
    be shared."""
    units = [axis.unit(fabric) for axis in axes]
    return sum(units) if units and all(units) else None


def divides(fabric: Fabric) -> bool:
    """Return whether axes of parallelism can divide the channels of a fabric."""
    return fabric.exclusive and fabric.shift_unit(1) > 0


def seconds_a_byte(fabric: Fabric, kind: Kind, ranks: int, stride: int) -> float:
    """Return the seconds for each byte of a collective that no schedule beats, were all channels the axis' own; 0 where
    nothing is divided."""
    if not divides(fabric) or ranks == 1:
        return 0.0
    unit = fabric.share_unit(ranks, stride)
    part = fabric.share(ranks, stride, fabric.shared_channels // unit * unit)
    return inf if part is None else bandwidth_bound(Collective(kind, ranks, 1.0), part)


def undivided_pair(fabric: Fabric, stride: int) -> tuple[float, float]:
    """Return the bytes per second and seconds of latency from each stage to the next, were all channels the pipeline's
    own."""
    if not divides(fabric) or stride % fabric.ranks == 0:
        return fabric.message(stride)
    shift = fabric.shift(stride, fabric.shared_channels)
    return shift.rate, shift.latency


def circuits_stand(fabric: Fabric, rows: Strategies) -> Mask:
    """Return whether there are channels enough for the circuits of all axes of a strategy at once, or channels cannot
    be shared: [rows]."""
    if not fabric.exclusive:
        return np.ones(len(rows), np.bool_)
    degrees = np.stack([rows.dp, rows.tp, rows.pp, rows.ep, rows.cp])
    _, first, row = np.unique(degrees, axis=1, return_index=True, return_inverse=True)
    needed = [0 if rows[at].plain else least_channels(fabric, live_axes(rows[at])) or 0 for at in first.tolist()]
    return (np.array(needed, np.int64) <= fabric.shared_channels)[row]


@dataclass(frozen=True)
class Division:
    """Channels of every link that the groups of each axis hold."""

    fabric: Fabric
    axes: tuple[AxisGroups, ...]
    channels: tuple[int, ...]
    """Number of channels of each axis: [axis]."""

    def by_axis(self) -> dict[str, int]:
        """Return the channels by the name of the axis."""
        return {axis.name: count for axis, count in zip(self.axes, self.channels, strict=True)}

    def __str__(self) -> str:
        held = ", ".join(f"{name} {count}" for name, count in self.by_axis().items())
        what = "planes" if self.fabric.switch_planes else "wavelengths of every link"
        return f"of {self.fabric.shared_channels} {what}: {held}"

    def shares(self) -> list[tuple[AxisGroups, AxisShare]]:
        """Where the channels of each axis lie."""
        first = accumulate(self.channels, initial=0)
        return [
            (axis, AxisShare(axis.ranks, axis.stride, begin, count))
            for axis, begin, count in zip(self.axes, first, self.channels, strict=False)
        ]

    def number(self, axis: Axis) -> int | None:
        """Return the place of an axis among those that are alive; None where it exchanges nothing."""
        names = [each.name for each in self.axes]
        return names.index(axis) if axis in names else None

    def part(self, number: int) -> Fabric | None:
        """Return a group of an axis as a fabric of the channels that reach it."""
        axis = self.axes[number]
        return self.fabric.share(axis.ranks, axis.stride, self.channels[number])


@dataclass(frozen=True)
class Divisions:
    """All divisions of a fabric's channels among axes, in parts of which each holds a whole number."""

    fabric: Fabric
    axes: tuple[AxisGroups, ...]

    PARTS = 8
    """Parts of the channels that are divided, where there are more channels than that."""

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Unit of channels of which each axis holds a multiple: [axis]."""
        return tuple(axis.unit(self.fabric) for axis in self.axes)

    @cached_property
    def counts(self) -> int:
        """Parts of the channels."""
        return min(self.fabric.shared_channels, self.PARTS)

    def channels(self, parts: Sequence[int]) -> tuple[int, ...] | None:
        """Return the channels of each axis that has so many parts, whole units of it, one at least; None where that is
        too many."""
        total = self.fabric.shared_channels
        counts = [
            max(part * total // self.counts // unit, 1) * unit for part, unit in zip(parts, self.units, strict=True)
        ]
        for number in sorted(range(len(counts)), key=lambda axis: -counts[axis]):
            over = sum(counts) - total
            if over > 0:
                unit = self.units[number]
                counts[number] = max(counts[number] - -(-over // unit) * unit, unit)
        return tuple(counts) if sum(counts) <= total else None

    def equal(self) -> tuple[int, ...]:
        """Return the parts of each axis, as many of each as of others but one."""
        count, more = divmod(self.counts, len(self.axes))
        return tuple(count + (number < more) for number in range(len(self.axes)))

    def neighbours(self, parts: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the divisions in which one part belongs to another axis."""
        ways = [(giver, taker) for giver in range(len(parts)) for taker in range(len(parts)) if giver != taker]
        return [
            tuple(count - (number == giver) + (number == taker) for number, count in enumerate(parts))
            for giver, taker in ways
            if parts[giver] > 0
        ]


# Prices where axes divide the channels of circuits, and the search for the division.


class DividedChannels:
    """The channels that each axis of a strategy has, and prices on them."""

    def __init__(self, prices: GroupPrices, division: Division) -> None:
        self._prices = prices
        self.division = division
        self._of_axis: dict[Axis, GroupPrices] = {}

    def pricing(self, axis: Axis) -> Pricing:
        """Return the prices of the collectives of an axis."""
        if axis not in self._of_axis:
            self._of_axis[axis] = self._prices.on(self.fabric(axis))
        return self._of_axis[axis]

    def fabric(self, axis: Axis) -> Fabric:
        """Return a group of an axis as a fabric; the whole fabric for an axis that has no groups of its own."""
        number = self.division.number(axis)
        part = None if number is None or axis == "pipeline" else self.division.part(number)
        return self.division.fabric if part is None else part

    def shift(self, stride: int) -> tuple[float, float]:
        """Return the bytes per second and seconds of latency each way between stages whose ranks lie ``stride`` apart:
        over the circuits from each stage to the next, several times where they are not neighbours."""
        number = self.division.number("pipeline")
        assert number is not None
        axis = self.division.axes[number]
        shift = self.division.fabric.shift(axis.stride, self.division.channels[number])
        stages = stride // axis.stride % axis.ranks
        times = max(min(stages, axis.ranks - stages), 1)
        return shift.rate / times, shift.latency * times


class ScaledChannels(DividedChannels):
    """Prices on all channels, what bytes take longer by as much as an axis has fewer: what a division is chosen by,
    before schedules are built for it."""

    def pricing(self, axis: Axis) -> Pricing:
        part = super().pricing(axis)
        assert isinstance(part, GroupPrices)
        return _ScaledPrices(self._prices, part)


class _ScaledPrices(Pricing):
    def __init__(self, whole: GroupPrices, part: GroupPrices) -> None:
        self._whole, self._part = whole, part

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        return self._part.refusal(kind, algorithm, ranks, exchange, stride)

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Price:
        whole = self._whole.price(algorithm, ranks, exchange, stride)
        longer = self._whole.fabric.usable_channels / self._part.fabric.usable_channels - 1

        def priced(kind: Kind, nbytes: float) -> Priced:
            if (refusal := self.refusal(kind, algorithm, ranks, exchange, stride)) is not None:
                raise UnsupportedError(refusal)
            price, nothing = whole(kind, nbytes), whole(kind, 0.0)
            more = longer * (price.cost.repeated_time - nothing.cost.repeated_time)
            return Priced(cost=replace(price.cost, time=price.cost.time + more), algorithm=price.algorithm)

        return priced

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        return self._whole.lines(kind, algorithm, ranks, exchange, stride, hidden_setup=hidden_setup)


def slope(prices: GroupPrices, kind: Kind, ranks: int, exchange: int, stride: int = 1) -> float:
    """Return the seconds for each byte of a collective at least, were all channels the axis' own; 0 where nothing is
    divided."""
    seconds, sizes = seconds_a_byte(prices.fabric, kind, ranks, stride), prices.element_bytes
    if exchange == 0 or kind not in sizes:
        return seconds
    method = prices.exchange(exchange)
    return seconds * VALUE_BYTES / sizes[kind] * method.least_share() if method.in_schedule else 0.0


_CLOSE = 0.99
"""Divisions are not priced by schedules that would be faster by less than this."""


def divided(job: Job, strategy: Strategy, step_time: Callable[[Job], float]) -> Job:
    """Return the job on channels that the strategy's axes divide as is best for it; the job itself where nothing is
    divided.

    Args:
        job: at prices of groups on all channels.
        strategy: other than data parallelism alone.
        step_time: seconds of the strategy's step at a job's prices.

    Raises:
        UnsupportedError: there are fewer channels than the axes need.
    """
    axes, fabric = live_axes(strategy), job.fabric
    if not axes or job.shares is not None or not isinstance(job.pricing, GroupPrices) or not divides(fabric):
        return job
    if len(axes) == 1 and job.phased(np.array(strategy.exchange)):
        # Its collectives follow each other, with circuits of their own on all channels.
        return job
    needed = sum(axis.unit(fabric) for axis in axes)
    if needed > fabric.shared_channels:
        names, what = " and ".join(axis.name for axis in axes), "planes" if fabric.switch_planes else "wavelengths"
        raise UnsupportedError(
            f"circuits of {names} groups that stand at once need {needed} {what} of every link; the fabric has "
            f"{fabric.shared_channels}"
        )
    space = Divisions(fabric, axes)
    return _DivisionSearch(job, job.pricing, space, step_time).best()


class _DivisionSearch:
    """The search for the division of least step time.

    Divisions are taken in the order of the step at :class:`ScaledChannels`, from equal parts on, from each to those
    that differ by one part; each is priced by schedules of its own, until no other could be faster.
    """

    def __init__(self, job: Job, pricing: GroupPrices, space: Divisions, step_time: Callable[[Job], float]) -> None:
        self._job, self._pricing, self._space, self._step_time = job, pricing, space, step_time
        self._scaled: dict[tuple[int, ...], float] = {}

    def best(self) -> Job:
        """Return the job on the best division; on one part where no algorithm serves any.

        Raises:
            UnsupportedError: no algorithm serves the axes on any division.
        """
        parts = self._space.equal()
        if len(parts) == 1:
            return self._divided(DividedChannels, self._channels(parts))
        while (nearest := min([parts, *self._space.neighbours(parts)], key=self._estimate)) != parts:
            parts = nearest
        best: tuple[float, Job] | None = None
        failure: UnsupportedError | None = None
        for channels, estimate in sorted(self._scaled.items(), key=lambda entry: entry[1]):
            if best is not None and estimate > _CLOSE * best[0]:
                break
            job = self._divided(DividedChannels, channels)
            try:
                seconds = self._step_time(job)
            except UnsupportedError as error:
                failure = error
                continue
            best = (seconds, job) if best is None or seconds < best[0] else best
        if best is None:
            raise failure or UnsupportedError("no algorithm serves the axes on any division of the channels")
        return best[1]

    def _channels(self, parts: tuple[int, ...]) -> tuple[int, ...]:
        channels = self._space.channels(parts)
        assert channels is not None  # there are as many as the axes need at least
        return channels

    def _estimate(self, parts: tuple[int, ...]) -> float:
        """Return the seconds of the step at scaled prices; infinite where no algorithm serves the axes."""
        channels = self._channels(parts)
        if channels not in self._scaled:
            try:
                self._scaled[channels] = self._step_time(self._divided(ScaledChannels, channels))
            except UnsupportedError:
                return inf
        return self._scaled[channels]

    def _divided(self, channels_of: type[DividedChannels], channels: tuple[int, ...]) -> Job:
        division = Division(self._space.fabric, self._space.axes, channels)
        return replace(self._job, shares=channels_of(self._pricing, division))


# Switch planes shared out among the groups of a strategy, and how long setting one anew takes.
#
# 8 planes    tensor tensor tensor tensor tensor data pipeline pipeline       5, 1 and 2
#
# A group's collectives run on its own planes alone: a schedule of the same kind of fabric with as many planes.

Planes = Mapping[Axis, int]
"""Switch planes of each axis; their sum is at most the planes of the fabric."""


class PlanePrices:
    """Prices of collectives on some of the planes of a circuit switch."""

    def __init__(self, prices: GroupPrices, reconfiguration_time: float | None = None) -> None:
        """Set up the prices of groups that share the planes of one switch.

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
