"""WRHT: hierarchical tree all-reduce that reuses wavelengths on disjoint arcs.

    up      groups of m = 2w + 1 neighbours send whole vectors to their middle, w from either side, one wavelength each
    across  once the r representatives fit into one all-to-all (ceil(floor(r²/4)/2) <= w), they exchange and add
    down    the middle sends the sum back to its group

         0 ─▶ 1 ─▶ ② ◀─ 3 ◀─ 4   5 ─▶ 6 ─▶ ⑦ ◀─ 8 ◀─ 9        w = 2: m = 5, ② and ⑦ represent

2 · levels steps, and one more if the representatives exchange; every step carries the whole vector.

Source: Dai et al., "WRHT: efficient all-reduce for distributed DNN training in optical interconnect systems",
arXiv 2207.10982, as OpTree recounts it; group size and the closing all-to-all are derived, not quoted.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lightloom.collectives.algorithm import Algorithm, rows_by_rank
from lightloom.collectives.bounds.link_use import ring_all_to_all_wavelengths
from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule.build import Stage, fit, ring_all_to_all, ring_links, staged
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Ints
from lightloom.machines.fabrics.fabric import CLOCKWISE, COUNTERCLOCKWISE, Fabric

# WRHT as an all-gather, whose way down multicasts: a lightpath is tapped by many ranks on its way.
#
# up      groups of m = 2w + 1 neighbours send all that they hold to their middle, w from either side
# across  once the r representatives fit into one all-to-all (ceil(floor(r²/4)/2) <= w), they exchange what they hold
# down    the middle sends every share to those of its group who lack it, each side over light of its own
#
# 0 ─▶ 1 ─▶ ② ◀─ 3 ◀─ 4          0 ◀─ 1 ◀─ ② ─▶ 3 ─▶ 4      one lightpath serves 3 and 4, of as many taps
#
# What a rank holds on the way up are the shares of neighbours in a row. Steps are those of the wavelengths that the
# transfers of a level take, one for each share in flight.
#
# Source: OpTree, section III-D and Table I, which counts 1 + ceil((N−p)/(p−1)) steps up, with p = 2w + 1, and
# (θ−1)·N/p down and across. Here a middle feeds its two sides at once, w shares a step each.


def wrht_gather(collective: Collective, fabric: Fabric, *, striped: bool) -> Schedule:
    """Return the all-gather of WRHT (a hierarchical tree that reuses wavelengths) on a WDM ring, not yet verified.

    Its lightpaths have up to ``fabric.taps`` taps; with ``striped`` they bundle the wavelengths that their stage leaves
    free. Its note names the size of groups, levels, taps, and the steps of each stage.
    """
    n, channels = collective.ranks, fabric.usable_channels
    levels, members = _grouped(_Members(np.arange(n), np.arange(n), np.arange(1, n + 1)), channels)
    up, down = [_collected(groups) for groups in levels], [_spread(groups, n, fabric.taps) for groups in levels]
    across = [_exchanged(members)] if len(members.rank) > 1 else []
    stages = [*up, *across, *reversed(down)]
    steps = "+".join(str(fit(fabric, stage.colours, striped=striped)[2]) for stage in stages)
    note = f"groups of {2 * channels + 1}, {len(up)} levels, up to {fabric.taps} taps, steps {steps}"
    # Ranges of shares may lead around the ring.
    entries = np.tile(np.arange(n, dtype=np.int32), 2)
    return staged("wrht", collective, fabric, stages, chunks=n, striped=striped, entries=entries, notes=(note,))


class _Members(NamedTuple):
    """Ranks in order around the ring, and the shares that each holds: arrays [member]."""

    rank: Ints
    first: Ints
    """First share that the member holds."""
    end: Ints
    """One more than the last share that the member holds."""

    @property
    def middle(self) -> int:
        """Index of the member in the middle, the first of two where they are even in number."""
        return (len(self.rank) - 1) // 2


def _grouped(members: _Members, channels: int) -> tuple[list[list[_Members]], _Members]:
    """Return the groups of neighbours of each level, lowest level first, and the representatives who are left: one, or
    so few that ``channels`` wavelengths each way suffice for an all-to-all of them around the ring in one step.

    A group has up to 2 · ``channels`` + 1 members; its middle represents it on the next level, with the shares of all
    of them.
    """
    levels, size = list[list[_Members]](), 2 * channels + 1
    while len(members.rank) > 1 and ring_all_to_all_wavelengths(len(members.rank)) > channels:
        parts = (slice(begin, begin + size) for begin in range(0, len(members.rank), size))
        levels.append([_Members(*(column[part] for column in members)) for part in parts])
        middles = [(group.rank[group.middle], group.first[0], group.end[-1]) for group in levels[-1]]
        members = _Members(*np.array(middles, np.int64).T)
    return levels, members


def _sides(group: _Members) -> Iterator[tuple[int, _Members]]:
    """Yield, for either side of a group's middle, the direction in which it lies and its members, the nearest first.

    Those after the middle lie clockwise, and come first; a side may be empty.
    """
    yield CLOCKWISE, _Members(*(column[group.middle + 1 :] for column in group))
    yield COUNTERCLOCKWISE, _Members(*(column[: group.middle][::-1] for column in group))


def _collected(groups: list[_Members]) -> Stage:
    """Return the stage in which all that the members of each of ``groups``, those of one level, hold goes to the
    group's middle.

    Members who lie as far from their middle take the same colours, one for each share.
    """
    most = max(int((group.end - group.first).max()) for group in groups)
    parts = []
    for group in groups:
        for direction, side in _sides(group):
            ends, colour = (side.rank, group.rank[group.middle]), np.arange(len(side.rank)) * most
            parts.append(np.broadcast_arrays(*ends, 1 - direction, side.first, side.end - side.first, colour))
    source, destination, route, entry, carried, colour = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Stage(source, destination, route, entry, colour, int((colour + carried).max()), carried)


def _exchanged(members: _Members) -> Stage:
    """Return the stage in which the representatives, ``members``, send each other all that they hold in a one-stage
    all-to-all around the ring, a colour for each share."""
    one, other, route, colour = ring_all_to_all(len(members.rank))
    held = members.end - members.first
    carried, first = held[one], colour * int(held.max())
    ends = members.rank[one], members.rank[other]
    return Stage(*ends, route, members.first[one], first, int((first + carried).max()), carried)


def _spread(groups: list[_Members], n: int, taps: int) -> Stage:
    """Return the stage in which every share goes from the middle of each group to those members who lack it.

    Args:
        groups: groups of one level.
        n: number of all ranks, and of shares.
        taps: most members that a lightpath serves.
    """
    parts, colours, path = list[tuple[Ints, ...]](), 0, 0
    for group in groups:
        for direction, side in _sides(group):
            if not len(side.rank):
                continue
            member, entry, carried, colour, number, used, paths = _multicasts(side, n, taps)
            if used:
                middle, route = np.full((2, len(member)), [[group.rank[group.middle]], [direction]])
                parts.append((middle, side.rank[member], route, entry, carried, colour, number + path))
                colours, path = max(colours, used), path + paths
    source, destination, route, entry, carried, colour, number = map(np.concatenate, zip(*parts, strict=True))
    return Stage(source, destination, route, entry, colour, colours, carried, lightpath=number)


def _multicasts(side: _Members, n: int, taps: int) -> tuple[Ints, Ints, Ints, Ints, Ints, int, int]:
    """Return the multicasts from a group's middle to one side of it, a row for each member of each of them.

    Shares that no member of the side holds go to all of its members, and those that one member holds go to all others.

    Args:
        side: members of the side, the nearest first.
        n: number of all shares.
        taps: most members that a multicast serves.

    Returns:
        Index in ``side`` of the member that receives, first share, number of shares, first colour and number of the
        multicast: [row] each; then how many colours there are, and how many multicasts. The colours and the multicasts
        of each side are numbered from 0; a multicast takes a colour for each of its shares, which no other one takes.
        First shares are 0 to 2 n − 1, where k and k + n are the same share, so that a range may lead around the ring.
    """
    members = len(side.rank)
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
    return member, entry[which], carried[which], colour[path], path, int(size.sum()), len(number)


def wrht(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Return the all-reduce of WRHT (a hierarchical tree that reuses wavelengths), or its all-gather by multicasts, on
    a WDM ring, not yet verified.

    In the all-reduce whole vectors are added up towards the middles of groups, level by level, and the sum goes back
    the same ways. A transfer takes one wavelength or, with ``striped``, as many as all transfers of its stage at once
    leave it.
    """
    if collective.kind == "all-gather":
        return wrht_gather(collective, fabric, striped=striped)
    up, across = _stages(collective.ranks, fabric.usable_channels)
    down = [
        stage._replace(source=stage.destination, destination=stage.source, route=1 - stage.route, reduces=False)
        for stage in reversed(up)
    ]
    return staged("wrht", collective, fabric, up + across + down, chunks=1, striped=striped)


@lru_cache(maxsize=64)
def _longest_links(ranks: int, channels: int) -> int:
    """Return the links of the longest lightpath of the all-reduce on a ring with ``channels`` wavelengths each way.

    It leads to a middle, or from one representative to another.
    """
    up, across = _stages(ranks, channels)
    return max(ring_links(ranks, stage.source, stage.destination, stage.route) for stage in up + across)


def _stages(ranks: int, channels: int) -> tuple[list[Stage], list[Stage]]:
    """Return two lists of stages of WRHT's all-reduce with ``channels`` wavelengths each way: those that add towards
    the representatives, a level each, and their exchange, which is empty where only one is left."""
    # All members hold a part of the one sum.
    zeros = np.zeros(ranks, np.int64)
    levels, members = _grouped(_Members(np.arange(ranks), zeros, zeros + 1), channels)
    across = [_adding(_exchanged(members))] if len(members.rank) > 1 else []
    return [_adding(stage, np.argsort(stage.source)) for stage in map(_collected, levels)], across


def _adding(stage: Stage, order: Ints | slice = slice(None)) -> Stage:
    """Return the transfers of a stage, in the order of the indices ``order``, as transfers of whole vectors that are
    added where they arrive."""
    source, destination, route, colour = (
        column[order] for column in (stage.source, stage.destination, stage.route, stage.colour)
    )
    return Stage(source, destination, route, np.zeros_like(source), colour, stage.colours, reduces=True)


def _refused(kind: str, fabric: Fabric) -> str | None:
    """Return a sentence that refuses an all-gather where a lightpath serves one rank only, so that it takes many steps;
    None for an all-reduce, and where light can be tapped."""
    if kind != "all-gather" or fabric.taps > 1:
        return None
    return "wrht serves all-gather where lightpaths can be tapped (multicast_taps), not on this fabric"


def _wrht_rows(kind: str, fabric: Fabric) -> int:
    """Return an estimate of the rows of WRHT's schedules: 2 n (n / w + 2 w + 4) in an all-gather of n ranks on w
    channels, otherwise that of :func:`rows_by_rank`."""
    n, w = fabric.ranks, max(fabric.usable_channels, 1)
    return 2 * n * (n // w + 2 * w + 4) if kind == "all-gather" else rows_by_rank(kind, fabric)


WRHT = Algorithm(
    name="wrht",
    build=wrht,
    by_structure=True,
    longest_lightpath=lambda kind, fabric: _longest_links(fabric.ranks, fabric.usable_channels),  # noqa: ARG005 - both kinds alike
    kinds=("all-reduce", "all-gather"),
    needs="wdm-ring",
    declines=_refused,
    rows=_wrht_rows,
    summary="groups of 2w+1 to their middle, representatives exchange, and back",
)
