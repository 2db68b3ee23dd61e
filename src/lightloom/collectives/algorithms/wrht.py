"""WRHT: hierarchical tree all-reduce that reuses wavelengths on disjoint arcs.

    up      groups of m = 2w + 1 neighbours send whole vectors to their middle, w from either side, one wavelength each
    across  once the r representatives fit into one all-to-all (ceil(floor(r²/4)/2) <= w), they exchange and add
    down    the middle sends the sum back to its group

         0 ─▶ 1 ─▶ ② ◀─ 3 ◀─ 4   5 ─▶ 6 ─▶ ⑦ ◀─ 8 ◀─ 9        w = 2: m = 5, ② and ⑦ represent

2 · levels steps, and one more if the representatives exchange; every step carries the whole vector.

Source: Dai et al., "WRHT: efficient all-reduce for distributed DNN training in optical interconnect systems",
arXiv 2207.10982, as OpTree recounts it; group size and the closing all-to-all are derived, not quoted.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lightloom.collectives.algorithm import Algorithm, rows_by_rank
from lightloom.collectives.algorithms.wrht_gather import wrht_gather
from lightloom.collectives.schedule.build import Stage, staged
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.wavelengths import ring_all_to_all, ring_all_to_all_wavelengths, ring_links
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE, Fabric


def wrht_steps(ranks: int, channels: int) -> int:
    """All-reduce steps: twice the levels of (2w+1)-ary grouping, plus one if the last representatives exchange."""
    levels, members = 0, ranks
    while members > 1 and ring_all_to_all_wavelengths(members) > channels:
        members = -(-members // (2 * channels + 1))
        levels += 1
    return 2 * levels + (1 if members > 1 else 0)


def wrht_all_gather_steps(ranks: int, wavelengths: int, *, padded: bool) -> int:
    """WRHT used as an all-gather, by formula only (OpTree, Table I and the text above it).

    Literally, 1 + ceil((N−p)/(p−1)) + ceil((θ−1)N/p) with p = 2w + 1 and θ = ceil(log_p N). ``padded`` takes N as
    p^θ, which is what the printed 259 needs. The count presumes multicast; schedules of it
    (:mod:`lightloom.collectives.algorithms.wrht_gather`) count their own steps.
    """
    p = 2 * wavelengths + 1
    theta, reach = 1, p
    while reach < ranks:
        theta, reach = theta + 1, reach * p
    n = reach if padded else ranks
    return 1 - (p - n) // (p - 1) - (-(theta - 1) * n) // p


def wrht(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """WRHT all-reduce, or all-gather by multicasts. Assumes a WDM ring; one wavelength a transfer, or an equal share of
    them when striped."""
    name = "wrht-striped" if striped else "wrht"
    if collective.kind == "all-gather":
        return wrht_gather(name, collective, fabric, striped=striped)
    up, across = _stages(collective.ranks, fabric.usable_channels)
    down = [
        stage._replace(source=stage.destination, destination=stage.source, route=1 - stage.route, reduces=False)
        for stage in reversed(up)
    ]
    return staged(name, collective, fabric, up + across + down, chunks=1, striped=striped)


@lru_cache(maxsize=64)
def _longest_links(ranks: int, channels: int) -> int:
    """Links of the longest lightpath on a ring."""
    up, across = _stages(ranks, channels)
    return max(ring_links(ranks, stage.source, stage.destination, stage.route) for stage in up + across)


def _stages(ranks: int, channels: int) -> tuple[list[Stage], list[Stage]]:
    """Stages towards the representatives, and their exchange where more than one is left."""
    up: list[Stage] = []
    members = np.arange(ranks, dtype=np.int64)
    while len(members) > 1 and ring_all_to_all_wavelengths(len(members)) > channels:
        stage, members = _collect(members, 2 * channels + 1)
        up.append(stage)
    if len(members) == 1:
        return up, []
    source, destination, route, colour = ring_all_to_all(len(members))
    return up, [_adding(members[source], members[destination], route, colour)]


def _collect(members: Ints, size: int) -> tuple[Stage, Ints]:
    """Every group of ``size`` neighbours sends to its middle: the stage, and the middles."""
    position = np.arange(len(members))
    group = position // size
    first = group * size
    middle = (first + np.minimum(first + size, len(members)) - 1) // 2
    sends = position != middle
    before = position < middle
    route = np.where(before, CLOCKWISE, COUNTERCLOCKWISE)
    colour = np.abs(middle - position) - 1
    stage = _adding(members[sends], members[middle[sends]], route[sends], colour[sends])
    return stage, members[np.unique(middle)]


def _adding(source: Ints, destination: Ints, route: Ints, colour: Ints) -> Stage:
    return Stage(source, destination, np.zeros_like(source), route, colour, int(colour.max()) + 1, reduces=True)


def _refused(kind: str, fabric: Fabric) -> str | None:
    """Why there is no all-gather, whose steps are few only if a lightpath serves many."""
    if kind != "all-gather" or fabric.taps > 1:
        return None
    return "wrht serves all-gather where lightpaths can be tapped (multicast_taps), not on this fabric"


def _rows(kind: str, fabric: Fabric) -> int:
    """About as many rows as its schedules have."""
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
    rows=_rows,
    summary="groups of 2w+1 to their middle, representatives exchange, and back",
)
