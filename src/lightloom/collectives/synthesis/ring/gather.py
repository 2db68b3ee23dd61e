"""All-gather, reduce-scatter and all-reduce on rings of light: circuits and trees found for this ring and this size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from functools import cache
from math import prod
from typing import NamedTuple

import numpy as np

from lightloom.collectives.algorithms.direct import one_stage
from lightloom.collectives.algorithms.optree import best_radices, exchange_stages
from lightloom.collectives.algorithms.wrht import wrht
from lightloom.collectives.bounds.link_use import joint_seconds
from lightloom.collectives.collective import FROM_ALL_GATHER, Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.build import (
    bundled,
    fit,
    from_all_gather,
    line_all_to_all_wavelengths,
    ring_all_to_all,
    ring_all_to_all_wavelengths,
)
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.cache import read_design, write_design
from lightloom.collectives.synthesis.engine.effort import effort
from lightloom.collectives.synthesis.engine.queues import ring_schedule, tree_schedule
from lightloom.collectives.synthesis.engine.standing import StandingCircuits, gather_over
from lightloom.collectives.synthesis.engine.trees import (
    Design,
    RingTrees,
    Timing,
    chord_text,
    make_trees,
)
from lightloom.collectives.synthesis.ring.circulant import (
    SHARE,
    Circulant,
    CirculantCircuits,
    CirculantSearch,
)
from lightloom.collectives.synthesis.ring.search import NEAR, RingSearch
from lightloom.core.arrays import Effort, Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric

_AT_HUBS = 0.06
"""Of the effort of the search for all-gathers, what that for sums completed at hubs may add."""
_FEW_HOPS = 20
"""Hops' time of an all-gather above which a hop less counts for little."""
_FEW = 64
"""Ranks up to which sums by groups are tried; they move whole vectors."""
_STRAIGHT_PIECES = (1, 4, 16)
"""Of every share that goes straight to all ranks as soon as it is summed up."""
_STRAIGHT_ROWS = 1 << 20
"""Rows above which sums that go straight to their ranks are not cut smaller."""


def gather(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Queued schedules on standing circuits, not yet verified; the three kinds share the designs of the all-gather.

    Cached designs are used where there are any.
    """
    ranks, channels = fabric.ranks, fabric.usable_channels
    nbytes = max(collective.nbytes_per_rank, 1.0)
    timing = Timing(fabric.channel_bandwidth, fabric.step_overhead, fabric.hop_latency, fabric.piece_overhead)
    hop = fabric.step_overhead + fabric.neighbour_latency()
    bound = joint_seconds(ranks, hop, nbytes / (2 * channels * timing.bandwidth))
    most = effort(ranks)
    reach = ranks if fabric.reach is None else fabric.reach
    request = [ranks, channels, reach, nbytes, *astuple(timing), most]
    design, cached = read_design(request) or (None, None)
    trees = make_trees(design, ranks, channels, nbytes, timing, bound) if design else None
    circulant = Circulant(*cached) if cached else None
    search = CirculantSearch(ranks, channels, nbytes, timing, bound, reach)
    if design is None or trees is None:
        design, trees = RingSearch(ranks, channels, nbytes, timing, bound, reach).run(most)
        found = search.run(SHARE * most) if trees.time > NEAR * bound else None
        circulant = found[0] if found and found[1] < trees.time else None
        write_design(request, design, circulant)
    forest = search.forest(circulant) if circulant else None
    circuits = CirculantCircuits.of(ranks, channels, circulant.skips) if circulant else None
    faster = circulant is not None and forest is not None and circuits is not None and forest.time < trees.time
    # What is faster one way need not be where both ways overlap.
    if not faster or collective.kind == "all-reduce":
        yield ring_schedule(collective, fabric, trees, _note(design, trees, fabric))
    least = forest.time if faster and forest else trees.time
    if collective.kind == "all-reduce" and NEAR * bound < least <= _FEW_HOPS * hop:
        # Sums may be completed at any rank, so that hubs save the hops between them and the ranks around.
        at_hubs = RingSearch(ranks, channels, nbytes, timing, bound, reach, known=design).run(int(_AT_HUBS * most))
        if at_hubs[1].time < least:
            yield ring_schedule(
                collective, fabric, at_hubs[1], f"sums are completed at hubs; {_note(*at_hubs, fabric)}"
            )
    if circulant is None or forest is None or circuits is None or not faster:
        return
    lengths = " and ".join(map(str, circulant.skips))
    yield tree_schedule(
        collective,
        fabric,
        circuits.queues(ranks),
        lambda backward: forest,  # noqa: ARG005 - circuits are the same both ways
        lambda queue, _: queue ^ 1,
        pieces=circulant.pieces,
        note=f"chords of {lengths} ranks start at every rank and share wavelengths, {circuits.width[0]} wide; every "
        f"share travels in {circulant.pieces} pieces",
    )


def in_few_steps(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Where few ranks share many wavelengths: circuits for all pairs at once, and sums by groups."""
    if fabric.reach is not None and fabric.reach < fabric.diameter():
        return
    if ring_all_to_all_wavelengths(fabric.ranks) <= fabric.usable_channels:
        straight = one_stage(collective, fabric, striped=True)
        yield replace(straight, algorithm="synthesized", notes=("every rank sends straight to every other",))
        if collective.kind == "all-reduce":
            yield from _straight_sums(collective, fabric)
    if collective.kind == "all-reduce" and fabric.ranks <= _FEW:
        groups = wrht(collective, fabric, striped=True)
        yield replace(groups, algorithm="synthesized", notes=("groups add up in their middle, as WRHT's do",))


def _straight_sums(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Circuits between all pairs that carry sums to the rest while contributions still arrive, nothing set anew."""
    ranks = fabric.ranks
    source, destination, route, colour = ring_all_to_all(ranks)
    width = fabric.usable_channels // ring_all_to_all_wavelengths(ranks)
    circuits = StandingCircuits(ranks, source, destination, route, colour * width, np.full(len(colour), width))
    for pieces in _STRAIGHT_PIECES:
        if pieces == 1 or 2 * pieces * ranks * (ranks - 1) <= _STRAIGHT_ROWS:
            note = f"every rank sends straight to every other, contributions and sums in {pieces} pieces a share"
            yield gather_over(collective, fabric, circuits, pieces, note=note)


def _note(design: Design, trees: RingTrees, fabric: Fabric) -> str:
    chords = [chord_text(level.hubs, level.skips, level.width, fabric.ranks) for level in trees.circuits.levels]
    return f"{'; '.join(chords)}; every share travels in {design.pieces} pieces"


# Trees of several depths side by side, each on wavelengths of its own and with a part of the data.
#
# A tree with g lightpaths over each link to its hubs, b over each link back and w wavelengths for each lightpath
# fills g w wavelengths one way and b w the other way. It carries w (X − k) in time X if it is k hops deep, time
# counted in hops and data in what a wavelength carries in one. Shallow trees have many lightpaths over a link; trees
# with more of them to hubs fill up what those with more of them back leave. Which of them carry the most within X is
# a knapsack of two sides, and the least X in which they carry all data follows by Dinkelbach's iteration.

_UNITS: Effort = 64
"""Most bundles of wavelengths that are shared out one by one."""
_HALVINGS: Effort = 50
_LEAST_GAIN = 1e-9
"""Part by which an iteration must shorten the time to be followed by another."""


class HubTree(NamedTuple):
    """Lightpaths to hubs of both sides, and from hubs to the ranks behind them."""

    outward: int
    """Lightpaths over a link to hubs."""
    backward: int
    """Lightpaths over a link from hubs."""
    hops: int
    """Lightpaths in a row, at most."""
    widths: tuple[int, int] = (0, 0)
    """Wavelengths of a lightpath to hubs, and from hubs."""
    channels: tuple[int, int] = (0, 0)
    """First channel that it uses, one way and the other."""
    first: int = 0
    """First piece that it carries."""
    pieces: int = 0


def shares(kinds: Sequence[HubTree], channels: int, hop: float, channel_seconds: float) -> dict[HubTree, int]:
    """Wavelengths of a lightpath of each kind of tree that together carry all data in the least time.

    Args:
        hop: seconds of a hop.
        channel_seconds: seconds in which one channel carries all data.
    """
    unit = -(-channels // _UNITS)
    seconds = min(kind.hops * hop + channel_seconds * max(kind[:2]) / channels for kind in kinds)
    found: dict[HubTree, int] = {}
    while True:
        widths = _fullest([kind[:2] for kind in kinds], channels // unit, [seconds - kind.hops * hop for kind in kinds])
        chosen = {kind: int(width) * unit for kind, width in zip(kinds, widths, strict=True) if width}
        if not chosen:
            return found
        carried = sum(chosen.values())
        least = (channel_seconds + sum(kind.hops * hop * width for kind, width in chosen.items())) / carried
        if least >= seconds * (1 - _LEAST_GAIN):
            return found or chosen
        seconds, found = least, chosen


def _fullest(loads: Sequence[tuple[int, int]], channels: int, values: Sequence[float]) -> Ints:
    """How many of each kind have the largest total value within so many channels either way: [kind]."""
    outward, backward = (np.array(side, np.int64) for side in zip(*loads, strict=True))
    most = int(max(outward.max(), backward.max()))
    # Rows and columns before ``most`` are those with less than no channels.
    best = np.full((most + channels + 1, most + channels + 1), -np.inf)
    best[most, most:] = 0.0
    choice = np.full((channels + 1, channels + 1), -1)
    columns = most + np.arange(channels + 1) - backward[:, None]
    for used in range(1, channels + 1):
        totals = best[(most + used - outward)[:, None], columns] + np.array(values)[:, None]
        kind = totals.argmax(axis=0)
        total, before = totals.max(axis=0), best[most + used - 1, most:]
        choice[used] = np.where(total > before, kind, -1)
        best[most + used, most:] = np.maximum(total, before)
    counts = np.zeros(len(loads), np.int64)
    one, other = channels, channels
    while one > 0:
        kind = int(choice[one, other])
        if kind < 0:
            one -= 1
        else:
            counts[kind] += 1
            one, other = one - int(outward[kind]), other - int(backward[kind])
    return counts


def cut(
    widths: dict[HubTree, int], hop: float, channel_seconds: float, piece_overhead: float, pieces: Ints
) -> tuple[Floats, Ints]:
    """Seconds until the last piece arrives, and the pieces of each tree, if data is cut in so many equal pieces.

    Args:
        pieces: pieces in all: [cut].

    Returns:
        Arrays [cut] and [cut, tree].
    """
    depth = np.array([tree.hops for tree in widths])
    busy = channel_seconds / pieces[:, None] / np.array(list(widths.values())) + piece_overhead
    fill = depth * (hop + busy)

    def carried(seconds: Floats) -> Ints:
        sent: Ints = np.maximum(0, np.floor((seconds[:, None] - fill) / busy + 1 + 1e-9)).astype(np.int64)
        return sent

    short, enough = np.zeros(len(pieces)), (fill + pieces[:, None] * busy).max(axis=1)
    for _ in range(_HALVINGS):
        middle = (short + enough) / 2
        fits = carried(middle).sum(axis=1) >= pieces
        short, enough = np.where(fits, short, middle), np.where(fits, middle, enough)
    counts = carried(enough)
    # Those that finish at the same moment may have taken one too many.
    over = counts.cumsum(axis=1) - pieces[:, None]
    counts = np.maximum(0, counts - np.maximum(0, np.minimum(over, counts)))
    return np.where(counts > 0, fill + (counts - 1) * busy, 0.0).max(axis=1), counts


def placed(widths: dict[HubTree, int], counts: Sequence[int]) -> tuple[HubTree, ...]:
    """The trees that carry pieces, on channels and with pieces behind those of the tree before."""
    trees = []
    first, one, other = 0, 0, 0
    for (tree, width), count in zip(widths.items(), counts, strict=True):
        if count:
            trees.append(tree._replace(widths=(width, width), channels=(one, other), first=first, pieces=int(count)))
            first, one, other = first + int(count), one + tree.outward * width, other + tree.backward * width
    return tuple(trees)


# Stages that set circuits anew: exchanges inside parts of the ring, parts cut into parts, one set of circuits a
# stage.
#
# stage 1    equal positions of the parts exchange around the ring
# stage 2    inside a part, equal positions of its parts exchange all that they have
# ...        until a part is one rank
#
# OpTree gives every share a wavelength for one step (*side by side*), so that a stage takes many steps, each with
# other circuits. A stage may instead join its pairs once and send shares *in a row*. Radices and the way of each
# stage are found by a programme over the sizes of parts: what a stage costs depends on the size that it cuts alone.
# OpTree and WRHT are points of the search, so that nothing found is slower than they are.

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
