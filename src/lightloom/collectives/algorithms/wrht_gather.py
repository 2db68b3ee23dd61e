"""WRHT as an all-gather, whose way down multicasts: a lightpath is tapped by many ranks on its way.

    up      groups of m = 2w + 1 neighbours send all that they hold to their middle, w from either side
    across  once the r representatives fit into one all-to-all (ceil(floor(r²/4)/2) <= w), they exchange what they hold
    down    the middle sends every share to those of its group who lack it, each side over light of its own

         0 ─▶ 1 ─▶ ② ◀─ 3 ◀─ 4          0 ◀─ 1 ◀─ ② ─▶ 3 ─▶ 4      one lightpath serves 3 and 4, of as many taps

What a rank holds on the way up are the shares of neighbours in a row. Steps are those of the wavelengths that the
transfers of a level take, one for each share in flight.

Source: OpTree, section III-D and Table I, which counts 1 + ceil((N−p)/(p−1)) steps up, with p = 2w + 1, and
(θ−1)·N/p down and across. Here a middle feeds its two sides at once, w shares a step each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.build import fit
from lightloom.collectives.schedule.bundles import Bundles, bundled
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.wavelengths import ring_all_to_all, ring_all_to_all_wavelengths
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE, Fabric


def wrht_gather(name: str, collective: Collective, fabric: Fabric, *, striped: bool) -> Schedule:
    """WRHT's all-gather on a WDM ring, whose lightpaths have up to ``fabric.taps`` taps."""
    n, channels = collective.ranks, fabric.usable_channels
    members = _Members(np.arange(n), np.arange(n), np.arange(1, n + 1))
    up, down = list[Bundles](), list[Bundles]()
    while len(members.rank) > 1 and ring_all_to_all_wavelengths(len(members.rank)) > channels:
        groups = list(_groups(members, 2 * channels + 1))
        up.append(_collected(groups))
        down.append(_spread(groups, n, fabric.taps))
        members = _Members(*(np.array(column) for column in zip(*map(_middle, groups), strict=True)))
    across = [_exchanged(members)] if len(members.rank) > 1 else []
    stages = [*up, *across, *reversed(down)]
    steps = "+".join(str(fit(fabric, stage.colours, striped=striped)[2]) for stage in stages)
    note = f"groups of {2 * channels + 1}, {len(up)} levels, up to {fabric.taps} taps, steps {steps}"
    # Ranges of shares may lead around the ring.
    entries = np.tile(np.arange(n, dtype=np.int32), 2)
    return bundled(name, collective, fabric, stages, entries, chunks=n, striped=striped, notes=(note,))


class _Members(NamedTuple):
    """Ranks in order around the ring, and the shares that each holds: arrays [member]."""

    rank: Ints
    first: Ints
    """First share."""
    end: Ints
    """The share behind the last one."""


class _Group(NamedTuple):
    """Neighbouring members, and the place of their middle."""

    members: _Members
    middle: int


def _groups(members: _Members, size: int) -> Iterator[_Group]:
    for begin in range(0, len(members.rank), size):
        part = _Members(*(column[begin : begin + size] for column in members))
        yield _Group(part, (len(part.rank) - 1) // 2)


def _middle(group: _Group) -> tuple[int, int, int]:
    """The middle, and what it holds when its group has sent."""
    members = group.members
    return int(members.rank[group.middle]), int(members.first[0]), int(members.end[-1])


def _sides(group: _Group) -> Iterator[tuple[int, _Members]]:
    """The members to either side of the middle, nearest first, with the direction in which they lie."""
    members, middle = group
    yield CLOCKWISE, _Members(*(column[middle + 1 :] for column in members))
    yield COUNTERCLOCKWISE, _Members(*(column[:middle][::-1] for column in members))


def _collected(groups: list[_Group]) -> Bundles:
    """All that members hold goes to the middle; who lies as far from it takes the same colours."""
    most = max(int((group.members.end - group.members.first).max()) for group in groups)
    parts = []
    for group in groups:
        for direction, side in _sides(group):
            away = np.arange(len(side.rank))
            middle = np.full(len(away), group.members.rank[group.middle])
            route = np.full(len(away), 1 - direction)
            parts.append((side.rank, middle, route, side.first, side.end - side.first, away * most))
    source, destination, route, entry, carried, colour = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Bundles(source, destination, route, entry, carried, colour, int((colour + carried).max()))


def _exchanged(members: _Members) -> Bundles:
    """The representatives send each other all that they hold."""
    one, other, route, colour = ring_all_to_all(len(members.rank))
    carried = members.end - members.first
    first = colour * int(carried.max())
    ends = members.rank[one], members.rank[other]
    return Bundles(*ends, route, members.first[one], carried[one], first, int((first + carried[one]).max()))


def _spread(groups: list[_Group], n: int, taps: int) -> Bundles:
    """Every share goes to those members who lack it; the lightpaths of one side all begin at the middle."""
    parts, colours, path = list[tuple[Ints, ...]](), 0, 0
    for group in groups:
        for direction, side in _sides(group):
            rows, used, paths = _multicasts(side, n, taps)
            if used:
                parts.append(
                    (
                        np.full(len(rows.member), group.members.rank[group.middle]),
                        side.rank[rows.member],
                        np.full(len(rows.member), direction),
                        rows.entry,
                        rows.carried,
                        rows.colour,
                        rows.path + path,
                    )
                )
                colours, path = max(colours, used), path + paths
    source, destination, route, entry, carried, colour, number = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    return Bundles(source, destination, route, entry, carried, colour, colours, lightpath=number)


class _Multicasts(NamedTuple):
    """What the members of a side receive: arrays [row], a row for each member of each multicast."""

    member: Ints
    entry: Ints
    carried: Ints
    colour: Ints
    path: Ints
    """Multicast."""


def _multicasts(side: _Members, n: int, taps: int) -> tuple[_Multicasts, int, int]:
    """The multicasts to a side, with their colours and their number.

    What no member of the side holds goes to all of them; what one holds, to all others.
    """
    members = len(side.rank)
    if not members:
        return _Multicasts(*np.zeros((5, 0), np.int64)), 0, 0
    begin, end = int(side.first.min()), int(side.end.max())
    # Lists of shares, and by whom each is held already, −1: nobody.
    entry, carried = np.append(side.first, end), np.append(side.end - side.first, n - (end - begin))
    holder = np.append(np.arange(members), -1)
    wanted = (holder[:, None] != np.arange(members)) & (carried > 0)[:, None]
    which, member = np.nonzero(wanted)
    place = (np.cumsum(wanted, axis=1) - 1)[which, member]
    # A lightpath serves neighbours, so that most end early.
    number, first, path = np.unique(which * members + place // taps, return_index=True, return_inverse=True)
    size = carried[which[first]]
    colour = np.cumsum(size) - size
    rows = _Multicasts(member, entry[which], carried[which], colour[path], path)
    return rows, int(size.sum()), len(number)
