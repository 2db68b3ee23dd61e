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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import inf
from typing import NamedTuple

import numpy as np

from lightloom.collectives.bounds.lower_bound import bandwidth_bound
from lightloom.collectives.spec import Collective, Kind
from lightloom.core.arrays import Mask
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.shares import AxisShare
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.pricing.stage_exchanges import Axis


class AxisGroups(NamedTuple):
    """Groups of one axis of parallelism."""

    name: Axis
    ranks: int
    stride: int
    """Distance between neighbouring ranks of a group; of the pipeline, from a stage to the next."""

    def unit(self, fabric: Fabric) -> int:
        """The number of channels of which every share is a multiple; 0 where channels cannot be shared."""
        if self.name == "pipeline":
            return fabric.shift_unit(self.stride)
        return fabric.share_unit(self.ranks, self.stride)


def live_axes(strategy: Strategy) -> tuple[AxisGroups, ...]:
    """The axes along which a strategy exchanges anything."""
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
    """Channels of a link without which the axes' circuits cannot stand at once; None where channels cannot be
    shared."""
    units = [axis.unit(fabric) for axis in axes]
    return sum(units) if units and all(units) else None


def divides(fabric: Fabric) -> bool:
    """Whether axes can divide the channels of a fabric."""
    return fabric.exclusive and fabric.shift_unit(1) > 0


def seconds_a_byte(fabric: Fabric, kind: Kind, ranks: int, stride: int) -> float:
    """Seconds for each byte of a collective that no schedule beats, were all channels the axis' own; 0 where nothing
    is divided."""
    if not divides(fabric) or ranks == 1:
        return 0.0
    unit = fabric.share_unit(ranks, stride)
    part = fabric.share(ranks, stride, fabric.shared_channels // unit * unit)
    return inf if part is None else bandwidth_bound(Collective(kind, ranks, 1.0), part)


def undivided_pair(fabric: Fabric, stride: int) -> tuple[float, float]:
    """Bytes per second and seconds of latency from each stage to the next, were all channels the pipeline's own."""
    if not divides(fabric) or stride % fabric.ranks == 0:
        return fabric.message(stride)
    shift = fabric.shift(stride, fabric.shared_channels)
    return shift.rate, shift.latency


def circuits_stand(fabric: Fabric, rows: Strategies) -> Mask:
    """Whether there are channels enough for the circuits of all axes of a strategy at once, or channels cannot be
    shared: [rows]."""
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
    """Of each axis: [axis]."""

    def by_axis(self) -> dict[str, int]:
        """Channels by the name of the axis."""
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
        """Place of an axis among those that are alive; None where it exchanges nothing."""
        names = [each.name for each in self.axes]
        return names.index(axis) if axis in names else None

    def part(self, number: int) -> Fabric | None:
        """A group of an axis as a fabric of the channels that reach it."""
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
        """Of what each axis' channels are a multiple: [axis]."""
        return tuple(axis.unit(self.fabric) for axis in self.axes)

    @cached_property
    def counts(self) -> int:
        """Parts of the channels."""
        return min(self.fabric.shared_channels, self.PARTS)

    def channels(self, parts: Sequence[int]) -> tuple[int, ...] | None:
        """Channels of each axis that has so many parts, whole units of it, one at least; None where that is too
        many."""
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
        """Parts of each axis, as many of each as of others but one."""
        count, more = divmod(self.counts, len(self.axes))
        return tuple(count + (number < more) for number in range(len(self.axes)))

    def neighbours(self, parts: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The divisions in which one part belongs to another axis."""
        ways = [(giver, taker) for giver in range(len(parts)) for taker in range(len(parts)) if giver != taker]
        return [
            tuple(count - (number == giver) + (number == taker) for number, count in enumerate(parts))
            for giver, taker in ways
            if parts[giver] > 0
        ]
