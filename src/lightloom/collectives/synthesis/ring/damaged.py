"""Synthesis around failures: circuits of a sound ring's design, without what has died, and trees over what is left.

    design for as many ranks and wavelengths ──► its chords, less those that died ──► unit links on all that is free
    ──► trees without symmetry ──► the fastest

A ring that is broken one way or both is a line that way: data goes as far along it as halfway around a ring of
twice as many ranks, so that the design for such a ring is tried too; and beside them a few plain families of
chords.
"""

from collections.abc import Iterator

import numpy as np

from lightloom.collectives.collective import ROOTED, Collective, Kind
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.cache import scaled
from lightloom.collectives.synthesis.engine.standing import StandingCircuits, busy_and_delay, forest, gather_over
from lightloom.collectives.synthesis.engine.trees import Forest, HubCircuits, Level, RingTask, hub_ranks
from lightloom.collectives.synthesis.grid_links import join_all
from lightloom.collectives.synthesis.ring.search import RingSearch
from lightloom.core.arrays import Ints, Mask
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric

_EFFORT = 1_000
"""Transfers a rank that the search for a sound ring's design may schedule; less than a CPU second for 256 ranks."""
_PIECES = (1, 8, 16)
_FIRST_PIECES, _MORE_PIECES = 2, 4
"""Pieces with which all circuits are compared, and then the best of them."""
_LEADERS, _NEAR = 2, 1.15
"""Circuits that are compared again: how many, and how much slower than the best they may be."""
_THIN = 4
"""Times that a circuit may be wider than another one beside it."""
_TRANSFERS = 1 << 19
"""Transfers of one try; fewer pieces are tried where there would be more."""


def around_damage(collective: Collective, fabric: Fabric) -> Schedule:
    """Return the fastest queued schedule found on a damaged ring that uses nothing that has failed, not yet verified.

    It serves all-gather, reduce-scatter, all-reduce, broadcast and reduce. Several sets of standing circuits are
    compared, the best of them with the share of a rank in 1 to 16 pieces, each on a tree of its own.

    Raises:
        UnsupportedError: circuits cannot join all ranks.
    """
    if collective.kind in ROOTED:
        # The collective in which every rank is a root, with as many bytes each, of which the root's rows are taken.
        kind: Kind = "all-gather" if collective.kind == "broadcast" else "reduce-scatter"
        whole = Collective(kind, collective.ranks, collective.nbytes * collective.ranks)
        return _of_root(around_damage(whole, fabric), collective, fabric)
    most = max(1, _TRANSFERS // fabric.ranks**2)
    first = min(_FIRST_PIECES, most)
    # What is good for one half of an all-reduce is good for the other.
    half = collective.of_kind("all-gather") if collective.kind == "all-reduce" else collective
    tried = [_grow_trees(half, fabric, circuits, first) for circuits in _circuits_to_try(half, fabric)]
    if not tried:
        raise UnsupportedError(f"what is left of the ring does not join all of its {fabric.ranks} ranks")
    tried.sort(key=lambda grown: grown[1].time)
    leaders = [grown for grown in tried[:_LEADERS] if grown[1].time <= _NEAR * tried[0][1].time]
    best = min(
        [tried[0], *(_grow_trees(half, fabric, circuits, min(_MORE_PIECES, most)) for circuits, _ in leaders)],
        key=lambda grown: grown[1].time,
    )
    finer = [_grow_trees(half, fabric, best[0], pieces) for pieces in _PIECES if pieces <= most]
    circuits, trees = min([best, *finer], key=lambda grown: grown[1].time)
    around = fabric.failures_text or "nothing"
    note = f"around {around}: {len(circuits)} circuits; every share travels in {trees.pieces} pieces"
    return gather_over(collective, fabric, circuits, trees.pieces, grown=trees, note=note)


def _of_root(schedule: Schedule, collective: Collective, fabric: Fabric) -> Schedule:
    """Return the rows of an all-gather or reduce-scatter that carry the share of rank 0, the root, as the schedule of
    ``collective``, a broadcast or a reduce, not yet verified.

    A folded schedule is unfolded for it.
    """
    schedule = schedule.unfolded(fabric.fibre_channels)
    pieces = schedule.chunks // fabric.ranks
    own = schedule.with_rows(np.flatnonzero(schedule.chunk < pieces))
    return own.with_columns({}, collective=collective, chunks=pieces)


def _grow_trees(
    half: Collective, fabric: Fabric, circuits: StandingCircuits, pieces: int
) -> tuple[StandingCircuits, Forest]:
    """Return ``circuits`` as they are, and the trees over them of ``half``, an all-gather or a reduce-scatter, with
    every rank's share in ``pieces`` pieces, each on a tree of its own."""
    timing = busy_and_delay(fabric, circuits, max(half.nbytes_per_rank, 1.0) / pieces)
    return circuits, forest(circuits, *timing, pieces, backward=half.kind == "reduce-scatter")


def _circuits_to_try(collective: Collective, fabric: Fabric) -> Iterator[StandingCircuits]:
    """Yield the circuits that failures leave of several designs, where they join all ranks: of unit links (from each
    rank to its neighbours) alone, of the best design for a sound ring, of that for a sound ring of twice as many ranks
    if some link carries no light, and of plain families of chords. Equal designs are tried once."""
    broken = bool(_blocked(fabric).all(axis=1).any())
    designs = [_design(collective, fabric, times) for times in ((1, 2) if broken else (1,))]
    for chords in dict.fromkeys([(), *designs, *_simple(fabric)]):
        if (circuits := standing_circuits(fabric, chords)) is not None:
            yield circuits


def _design(collective: Collective, fabric: Fabric, times: int) -> tuple[Level, ...]:
    """Return the chords of the best design found for a sound ring of ``times`` as many ranks, neighbours as far apart
    as here, for use on the ring of the fabric's ranks: the number of hubs of each level is divided by ``times``,
    rounded up."""
    task = RingTask.of(fabric, max(collective.nbytes_per_rank, 1.0), times)
    design, _ = RingSearch(task).run(scaled(_EFFORT * fabric.ranks))
    return tuple(chord._replace(hubs=-(-chord.hubs // times)) for chord in design.chords)


def _simple(fabric: Fabric) -> Iterator[tuple[Level, ...]]:
    """Yield families of chords from every rank, the shortest chords first: of 2, of 4, of 8, of 3 and 9, of 4 and 12,
    and of 3, 9 and 27 ranks; unit links are not among them.

    The longest chords take about half of the wavelengths: at the ends of a line no chord leads back from beyond, so
    that the last ranks lean on few long lightpaths, which must be wide. Families whose longest chords have no
    wavelength or pass half the ring or more are left out.
    """
    ranks, channels = fabric.ranks, fabric.usable_channels
    for *below, top in ((2,), (4,), (8,), (3, 9), (4, 12), (3, 9, 27)):
        chords = [Level(ranks, skip, max(1, channels // (4 * len(below) * skip))) for skip in below]
        chords.append(Level(ranks, top, 4 * channels // (7 * top)))
        if chords[-1].width >= 1 and 2 * top < ranks:
            yield tuple(chords)


def standing_circuits(fabric: Fabric, chords: tuple[Level, ...]) -> StandingCircuits | None:
    """Return all circuits of chords that failures and the reach of light leave, the longest chords first, and unit
    links on all channels that they leave free.

    A circuit bundles a run of neighbouring channels that are usable all along it and at both ends; a chord that is
    broken into several runs has several circuits, those less than a quarter as wide as its widest left out, and so has
    a unit link. None where the chords do not fit the channels, or where what is left does not lead from every rank to
    every other. Hubs are counted from the first link without any light on, so that few chords pass it.

    Args:
        chords: levels without the unit links, the shortest chords first.
    """
    lit = np.flatnonzero(~_blocked(fabric).all(axis=0))[: fabric.usable_channels]
    plan = HubCircuits.of(fabric.ranks, len(lit), chords)
    if plan is None:
        return None
    blocked, ends = _blocked(fabric), fabric.blocked_ends()
    broken = np.flatnonzero(blocked.all(axis=1))
    shift = int(broken[0] + 1) % fabric.ranks if len(broken) else 0
    free = ~blocked
    free[:, np.setdiff1d(np.arange(fabric.channels), lit)] = False
    parts = []
    for level in range(len(plan.chords) - 1, -1, -1):
        for direction in (0, 1):
            source, destination, planned = _planned_circuits(plan, level, direction, shift, lit, fabric.channels)
            # Channels that are free on every link of each circuit.
            first, last = (source, destination) if direction == 0 else (destination, source)
            taken = np.tile(~free[direction * fabric.ranks :][: fabric.ranks], (2, 1)).cumsum(axis=0)
            before = np.where((first > 0)[:, None], taken[first - 1], 0)
            usable = planned & (taken[first + (last - first) % fabric.ranks - 1] == before)
            if ends is not None:
                usable &= ~ends[source, direction] & ~ends[destination, direction]
            if fabric.reach is not None:
                usable &= (fabric.hops(source, destination, direction + 0 * source) <= fabric.reach)[:, None]
            which, first, width = _runs(usable)
            route = direction + 0 * which
            parts.append(StandingCircuits(fabric.ranks, source[which], destination[which], route, first, width))
            _take(free, parts[-1], fabric)
    columns = zip(*(part.columns for part in parts), strict=True)
    circuits = StandingCircuits(fabric.ranks, *map(np.concatenate, columns))
    return circuits if join_all(fabric.ranks, circuits.source, circuits.destination) else None


def _planned_circuits(
    plan: HubCircuits, level: int, direction: int, shift: int, lit: Ints, channels: int
) -> tuple[Ints, Ints, Mask]:
    """Return source and destination [circuit] of a level's circuits in one direction, and True for the channels that
    each plans to use: [circuit, channel].

    Unit links (level 0) plan all channels.

    Args:
        level: index into ``plan.chords``.
        direction: 0 clockwise, 1 counter-clockwise.
        shift: number that is added, around the ring, to the ranks at which all circuits of the plan begin and end.
        lit: numbers of the channels that are not dead on all links, ascending; channel k of the plan is ``lit[k]``.
        channels: channels of each link, dead ones among them.
    """
    chords = plan.chords[level]
    hub = hub_ranks(plan.ranks, chords.hubs)
    source, destination = hub, np.roll(hub, (2 * direction - 1) * chords.skip)
    planned = np.ones((len(hub), channels), np.bool_)
    if level:
        first = np.roll(plan.chords[level].channel, direction * chords.skip)
        planned[:] = False
        np.put_along_axis(planned, lit[first[:, None] + np.arange(chords.width)], True, axis=1)
    return (source + shift) % plan.ranks, (destination + shift) % plan.ranks, planned


def _take(free: Mask, circuits: StandingCircuits, fabric: Fabric) -> None:
    """Set the channels of circuits to False on every link that they pass in ``free``, in place: [link, channel]."""
    runs = fabric.footprint(circuits.source, circuits.destination, circuits.route)
    for i in range(len(circuits)):
        links = runs.base[i, 0] + (runs.start[i, 0] + np.arange(runs.length[i, 0])) % runs.period[i, 0]
        free[links, circuits.channel[i] : circuits.channel[i] + circuits.width[i]] = False


def _runs(usable: Mask) -> tuple[Ints, Ints, Ints]:
    """Return the runs of neighbouring usable channels in a mask [row, channel], by row and then by channel: the row,
    the first channel and the number of channels of each, [run].

    Runs less than a quarter as wide as the widest of their row are left out: pieces that take them arrive long after
    the others.
    """
    edges = np.diff(usable.astype(np.int8), axis=1, prepend=0, append=0)
    which, first = np.nonzero(edges == 1)
    width = np.nonzero(edges == -1)[1] - first
    widest = np.zeros(len(usable), np.int64)
    np.maximum.at(widest, which, width)
    wide = width * _THIN >= widest[which]
    return which[wide].astype(np.int64), first[wide].astype(np.int64), width[wide].astype(np.int64)


def _blocked(fabric: Fabric) -> Mask:
    """Return True for channels of links that no light passes, all False where nothing has failed: [link, channel]."""
    blocked = fabric.blocked()
    return np.zeros((fabric.links, fabric.channels), np.bool_) if blocked is None else blocked
