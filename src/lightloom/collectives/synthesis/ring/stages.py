"""Stages that set circuits anew: exchanges inside parts of the ring, parts cut into parts, one set of circuits a stage.

    stage 1    equal positions of the parts exchange around the ring
    stage 2    inside a part, equal positions of its parts exchange all that they have
    ...        until a part is one rank

OpTree gives every share a wavelength for one step (*side by side*), so that a stage takes many steps, each with other
circuits. A stage may instead join its pairs once and send shares *in a row*. Radices and the way of each stage are
found by a programme over the sizes of parts: what a stage costs depends on the size that it cuts alone. OpTree and WRHT
are points of the search, so that nothing found is slower than they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import prod
from typing import NamedTuple

from lightloom.collectives.algorithms.optree import exchange_stages
from lightloom.collectives.algorithms.optree_radices import best_radices
from lightloom.collectives.algorithms.wrht import wrht
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.build import fit
from lightloom.collectives.schedule.bundles import bundled
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.schedule.wavelengths import line_all_to_all_wavelengths, ring_all_to_all_wavelengths
from lightloom.collectives.spec import FROM_ALL_GATHER, Collective
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric

MOST_RANKS = 1024
"""Rows grow with the square of the ranks."""
_BUILT = 3
"""Best estimates that are built and timed, of all and of those that cut evenly: the others are estimated too low."""
_TAILS = 6
"""Ways to finish parts of a size that are kept."""


class Cut(NamedTuple):
    """One stage of exchanges inside parts of the ring."""

    radix: int
    in_a_row: bool


class Plan(NamedTuple):
    """Stages with their estimated time."""

    seconds: float
    cuts: tuple[Cut, ...]


def stages(collective: Collective, fabric: Fabric) -> Schedule:
    """The fastest of the best estimates, of OpTree and of WRHT, not yet verified.

    Steps that set circuits twice take both set-ups besides what the joint bound asks for: there is no need to ask where
    circuits that stand are as fast as that.

    Raises:
        UnsupportedError: another kind of collective, no ring of wavelengths, or more than 1,024 ranks.
    """
    if collective.kind not in FROM_ALL_GATHER or not fabric.wavelength_routed:
        raise UnsupportedError(f"stages around a ring serve {', '.join(FROM_ALL_GATHER)}, not {collective.kind}")
    if fabric.ranks > MOST_RANKS:
        raise UnsupportedError(f"stages around a ring of {fabric.ranks} ranks: expected at most {MOST_RANKS}")
    estimates = [plan.cuts for plan in plans(collective.nbytes_per_rank, fabric)]
    even = [cuts for cuts in estimates if prod(cut.radix for cut in cuts) == fabric.ranks]
    optree = tuple(Cut(radix, in_a_row=False) for radix in best_radices(fabric.ranks, fabric.usable_channels))
    tried = dict.fromkeys([*estimates[:_BUILT], *even[:_BUILT], optree])
    schedules = [_staged(collective, fabric, cuts) for cuts in tried]
    if collective.kind == "all-reduce":
        note = "groups add up in their middle, as WRHT's do"
        schedules.append(replace(wrht(collective, fabric, striped=True), algorithm="synthesized", notes=(note,)))
    return min(schedules, key=lambda schedule: cost(schedule, fabric).time)


def plans(share: float, fabric: Fabric) -> list[Plan]:
    """Ways to cut the ring, for all-gathers of ``share`` bytes a rank, best estimate first."""
    n = fabric.ranks

    @cache
    def rest(size: int) -> tuple[Plan, ...]:
        """Ways to finish parts of so many ranks along lines."""
        if size == 1:
            return (Plan(0.0, ()),)
        ranked: list[Plan] = []
        for radix in range(2, size + 1):
            inner = -(-size // radix)
            if inner * (radix - 1) >= size:
                continue
            pairs, items = inner * line_all_to_all_wavelengths(radix), -(-n // size)
            ranked += _with(_ways(fabric, pairs, items, share), radix, rest(inner))
        return tuple(sorted(ranked)[:_TAILS])

    ranked: list[Plan] = []
    for radix in range(2, n + 1):
        inner = -(-n // radix)
        if inner * (radix - 1) < n:
            pairs = inner * ring_all_to_all_wavelengths(radix)
            ranked += _with(_ways(fabric, pairs, 1, share), radix, rest(inner))
    return sorted(ranked)


def _with(ways: dict[bool, float], radix: int, tails: tuple[Plan, ...]) -> Iterator[Plan]:
    for in_a_row, seconds in ways.items():
        for tail in tails:
            yield Plan(seconds + tail.seconds, (Cut(radix, in_a_row), *tail.cuts))


def _ways(fabric: Fabric, pairs: int, items: int, share: float) -> dict[bool, float]:
    """Seconds of a stage in which so many pairs of ranks pass the busiest link, each with so many shares."""
    in_a_row = _seconds(fabric, pairs, items * share)
    return {True: in_a_row} if items == 1 else {True: in_a_row, False: _seconds(fabric, pairs * items, share)}


def _seconds(fabric: Fabric, colours: int, nbytes: float) -> float:
    width, _, steps = fit(fabric, colours, striped=True)
    fixed = fabric.setup_time + fabric.step_overhead + fabric.neighbour_latency()
    return steps * (fixed + nbytes / (width * fabric.channel_bandwidth))


def _staged(collective: Collective, fabric: Fabric, cuts: tuple[Cut, ...]) -> Schedule:
    n = fabric.ranks

    def all_gather(gather: Collective) -> Schedule:
        stages, held = exchange_stages(n, [cut.radix for cut in cuts], [cut.in_a_row for cut in cuts])
        orders = ", ".join(f"{cut.radix} {'in a row' if cut.in_a_row else 'side by side'}" for cut in cuts)
        note = f"circuits are set anew for each stage; parts of the ring, and how shares follow: {orders}"
        return bundled("synthesized", gather, fabric, stages, held, chunks=n, striped=True, notes=(note,))

    return from_all_gather(collective, fabric, all_gather)
