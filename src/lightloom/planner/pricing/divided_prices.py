"""Prices where axes divide the channels of circuits, and the search for the division."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.gradients.engine import VALUE_BYTES
from lightloom.planner.pricing.division import Division, Divisions, divides, live_axes, seconds_a_byte
from lightloom.planner.pricing.group_prices import GroupPrices, Pricing
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.price_line import LowerPrice
from lightloom.planner.pricing.stage_exchanges import Axis
from lightloom.simulation.lower import Price, Priced


class DividedChannels:
    """The channels that each axis of a strategy has, and prices on them."""

    def __init__(self, prices: GroupPrices, division: Division) -> None:
        self._prices = prices
        self.division = division
        self._of_axis: dict[Axis, GroupPrices] = {}

    def pricing(self, axis: Axis) -> Pricing:
        """Prices of the collectives of an axis."""
        return self._on(axis)

    def fabric(self, axis: Axis) -> Fabric:
        """A group of an axis as a fabric; the whole fabric for an axis that has no groups of its own."""
        number = self.division.number(axis)
        part = None if number is None or axis == "pipeline" else self.division.part(number)
        return self.division.fabric if part is None else part

    def shift(self, stride: int) -> tuple[float, float]:
        """Bytes per second and seconds of latency each way between stages whose ranks lie ``stride`` apart: over the
        circuits from each stage to the next, several times where they are not neighbours."""
        number = self.division.number("pipeline")
        assert number is not None
        axis = self.division.axes[number]
        shift = self.division.fabric.shift(axis.stride, self.division.channels[number])
        stages = stride // axis.stride % axis.ranks
        times = max(min(stages, axis.ranks - stages), 1)
        return shift.rate / times, shift.latency * times

    def tied(self, stride: int) -> tuple[float, float]:
        """The same between stages that hold copies of a table."""
        return self.shift(stride)

    def _on(self, axis: Axis) -> GroupPrices:
        if axis not in self._of_axis:
            self._of_axis[axis] = self._prices.on(self.fabric(axis))
        return self._of_axis[axis]


class ScaledChannels(DividedChannels):
    """Prices on all channels, what bytes take longer by as much as an axis has fewer: what a division is chosen by,
    before schedules are built for it."""

    def pricing(self, axis: Axis) -> Pricing:
        return _ScaledPrices(self._prices, self._on(axis))


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
            cost, nothing = whole(kind, nbytes).cost, whole(kind, 0.0).cost
            more = longer * (cost.repeated_time - nothing.repeated_time)
            return Priced(cost=replace(cost, time=cost.time + more))

        return priced

    def algorithm(self, kind: Kind, nbytes: float, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str:
        return self._whole.algorithm(kind, nbytes, algorithm, ranks, exchange, stride)

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        return self._whole.lines(kind, algorithm, ranks, exchange, stride, hidden_setup=hidden_setup)


def slope(prices: GroupPrices, kind: Kind, ranks: int, exchange: int, stride: int = 1) -> float:
    """Seconds for each byte of a collective at least, were all channels the axis' own; 0 where nothing is divided."""
    seconds, sizes = seconds_a_byte(prices.fabric, kind, ranks, stride), prices.element_bytes
    if exchange == 0 or kind not in sizes:
        return seconds
    method = prices.exchange(exchange)
    return seconds * VALUE_BYTES / sizes[kind] * method.least_share() if method.in_schedule else 0.0


_CLOSE = 0.99
"""Divisions are not priced by schedules that would be faster by less than this."""


def divided(job: Job, strategy: Strategy, step_time: Callable[[Job], float]) -> Job:
    """The job on channels that the strategy's axes divide as is best for it; the job itself where nothing is divided.

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
        """The job on the best division; on one part where no algorithm serves any.

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
        """Seconds of the step at scaled prices; infinite where no algorithm serves the axes."""
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
