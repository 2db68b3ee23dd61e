"""Recursive doubling: partners at distance 1, 2, 4, ... exchange all that they hold.

    0 ⇄ 1   2 ⇄ 3   4 ⇄ 5   6 ⇄ 7        1 share
    0 ⇄ 2   1 ⇄ 3   4 ⇄ 6   5 ⇄ 7        2 shares
    0 ⇄ 4   1 ⇄ 5   2 ⇄ 6   3 ⇄ 7        4 shares          log2 N exchanges

As all-reduce the partners exchange and add whole vectors. When N is no power of two, N − 2^p ranks first hand their
data to a neighbour and receive the result from it at the end (MPICH's way).

Halving-doubling: recursive halving (a reduce-scatter), then recursive doubling (an all-gather).

    halves of the vector to partners at distance N/2, quarters at N/4, ...; then the sums back the same way

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005;
Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from lightloom.collectives.algorithm import Algorithm, Sends, rows_by_pair, rows_by_rank
from lightloom.collectives.algorithms.direct import ONE_STAGE
from lightloom.collectives.algorithms.ring import RING_TWO_WAY
from lightloom.collectives.algorithms.trees import BINOMIAL_TREE, powers_below
from lightloom.collectives.collective import CLASSIC, ROOTED, Collective, Kind
from lightloom.collectives.composition import Phase, lower
from lightloom.collectives.schedule.build import (
    Moves,
    all_gather_by_moves,
    assign_wavelengths,
    from_all_gather,
    moves,
    repeating,
)
from lightloom.collectives.schedule.columns import Folding, Schedule, grouped
from lightloom.core.arrays import Ints
from lightloom.machines.fabrics.fabric import Axis, Fabric


def recursive_doubling(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Return the schedule of recursive doubling of an all-gather, an all-reduce or a reduce-scatter, which is the
    all-gather run backwards (recursive halving).

    In an all-reduce, which has one chunk, partners send each other whole vectors and add. Where the number of ranks is
    not a power of two, ranks 1, 3, 5, ..., as many as are too many, first hand their data to the rank before them, and
    get the result from it in the end. With ``striped`` transfers bundle the channels that their step leaves free. The
    schedule is not yet verified.
    """
    name, n = "recursive-doubling", collective.ranks
    if collective.kind == "all-reduce":
        logical = [moves(source, partner, 0, reduces=True) for source, partner in _partners(n)]
        folded = _members(n)[1]
        if len(folded):
            logical.append(moves(folded - 1, folded, 0))
        return assign_wavelengths(name, collective, fabric, 1, logical, striped=striped)
    return all_gather_by_moves(name, _gather_moves, collective, fabric, repeats=_repeated_doubling, striped=striped)


def _partners(ranks: int) -> list[tuple[Ints, Ints]]:
    """Return sources and destinations, [transfer] each, of the steps of doubling, one pair of arrays a step.

    First ranks 1, 3, 5, ..., as many as there are above a power of two, each send to the rank before, a step that is
    left out for a power of two. Then all other ranks send at once, each to its partner 1, 2, 4, ... of them away.
    Results are not handed back here.
    """
    folded = _members(ranks)[1]
    return [*([(folded, folded - 1)] if len(folded) else []), *_exchanges(ranks)]


def _exchanges(ranks: int) -> list[tuple[Ints, Ints]]:
    """Return sources and destinations of the steps in which all ranks that are left, a power of two, exchange."""
    members = _members(ranks)[0]
    position = np.arange(len(members))
    return [(members, members[position ^ distance]) for distance in powers_below(len(members))]


def _members(n: int) -> tuple[Ints, Ints]:
    """Return the ranks that take part in doubling, a power of two of them, and the ranks that hand their data to the
    one before them first.

    The latter are every other rank at the front, 1, 3, 5, ..., none where ``n`` is a power of two.
    """
    extra = n - (1 << (n.bit_length() - 1))
    folded = 2 * np.arange(extra, dtype=np.int64) + 1
    return np.setdiff1d(np.arange(n, dtype=np.int64), folded), folded


def _gather_moves(fabric: Fabric) -> list[Moves]:
    """Return the moves of each step of an all-gather by doubling, a chunk for each rank, those that rank 0 sends where
    they stand for all (:func:`_repeated_doubling`).

    Where the number of ranks is not a power of two, ranks 1, 3, 5, ..., as many as are too many, first hand their share
    to the one before. Then the other ranks, in pairs 1, 2, 4, ... of them apart, send each other all shares that they
    hold, and in the end each rank left out gets from the one before it all shares but its own. Chunks have the number
    of the rank that owns the share; no move reduces.
    """
    n = fabric.ranks
    members, folded = _members(n)
    bounds = np.append(members, n)
    logical = [moves(folded, folded - 1, folded)] if len(folded) else []
    position = np.arange(len(members) if _repeated_doubling(fabric) is None else 1)
    for distance in powers_below(len(members)):
        partner = position ^ distance
        low = position & ~(distance - 1)
        member, offset = grouped(bounds[low + distance] - bounds[low])
        logical.append(moves(members[member], members[partner][member], bounds[low][member] + offset))
    if len(folded):
        source, chunk = np.repeat(folded - 1, n), np.tile(np.arange(n), len(folded))
        missing = chunk != source + 1
        logical.append(moves(source[missing], source[missing] + 1, chunk[missing]))
    return logical


def _repeated_doubling(fabric: Fabric) -> Folding | None:
    """Return how what rank 0 sends in an all-gather by doubling stands for what all ranks send, each bit of their
    numbers an axis of two; None where it does not, as ranks are no power of two, or sends differ in more than their
    ends: on circuits, or with several routes between two ranks."""
    if fabric.exclusive or fabric.routes > 1 or len(_members(fabric.ranks)[1]):
        return None
    return Folding.along(1, (2,) * len(powers_below(fabric.ranks)))


def _doubling(fabric: Fabric) -> list[Sends]:
    """Return the steps of an all-gather by doubling: partners send each other at least the shares of as many ranks as
    they are apart."""
    n, folded = fabric.ranks, _members(fabric.ranks)[1]
    exchanges = zip(_exchanges(n), powers_below(n + 1), strict=False)
    between = [Sends(distance / n, *ends) for ends, distance in exchanges]
    return [Sends(1 / n, folded, folded - 1), *between, Sends(1 - 1 / n, folded - 1, folded)]


RECURSIVE_DOUBLING = Algorithm(
    name="recursive-doubling",
    build=recursive_doubling,
    by_structure=True,
    ends=_partners,
    sends=_doubling,
    sums=lambda fabric: [Sends(1.0, *ends) for ends in _partners(fabric.ranks)],
    rows=rows_by_rank,
    summary="exchange everything with partners at distance 1, 2, 4, ...",
)

HALVING_DOUBLING = Algorithm(
    name="halving-doubling",
    build=partial(all_gather_by_moves, "halving-doubling", _gather_moves, repeats=_repeated_doubling),
    by_structure=True,
    ends=_partners,
    sends=_doubling,
    kinds=("all-reduce",),
    summary="recursive halving, then recursive doubling (Rabenseifner)",
)


# Bruck's doubling: every rank passes on all that it holds to the rank 1, 2, 4, ... further on.
#
# step 1    0 → 1   1 → 2   2 → 3   3 → 4   4 → 0        1 share
# step 2    0 → 2   1 → 3   2 → 4   3 → 0   4 → 1        2 shares
# step 3    0 → 4   1 → 0   2 → 1   3 → 2   4 → 3        1 share, the only one that is still missing
#
# ceil(log2 N) steps for any number of ranks, in which every rank receives every share once. Unlike the partners of
# recursive doubling all ranks do the same, so that the rows of rank 0 stand for all where they also go the same way.
#
# Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
# message-passing systems", IEEE TPDS 1997, section on concatenation.


def bruck(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Return Bruck's doubling, for any number of ranks, not yet verified; as reduce-scatter it runs backwards
    (recursive halving), and as all-reduce first so and then as the all-gather.

    Where all ranks send the same way (no wavelengths, same route) only the rows of rank 0 are written out, which stand
    for every rank's, shifted. With ``striped`` transfers bundle the channels that their step leaves free.
    """
    n, senders = collective.ranks, _senders(fabric)

    def all_gather(gather: Collective) -> Schedule:
        """Return the all-gather, folded to the rows of rank 0 where all ranks send the same way."""
        logical = []
        for distance in powers_below(n):
            # These ranks send the shares of those up to so many ranks before them that are missing.
            source, before = np.indices((senders, min(distance, n - distance))).reshape(2, -1)
            logical.append(moves(source, (source + distance) % n, (source - before) % n))
        return repeating(assign_wavelengths("bruck", gather, fabric, n, logical, striped=striped), senders)

    # Mirrored, both halves of an all-reduce take the same circuits.
    return from_all_gather(collective, fabric, all_gather, mirrored=fabric.exclusive)


def _senders(fabric: Fabric) -> int:
    """Return the number of ranks whose sends are written out: 1 where those of all others go the same way, else all.

    That is all on a fabric with wavelengths, which differ from rank to rank, and where the fabric's routes to the rank
    1, 2, 4, ... further on do not have the same number for every rank, as that to the opposite rank of a ring.
    """
    if fabric.wavelength_routed:
        return fabric.ranks
    rank = np.arange(fabric.ranks)
    ways = (fabric.route(rank, (rank + distance) % fabric.ranks) for distance in powers_below(fabric.ranks))
    return 1 if all((way == way[0]).all() for way in ways) else fabric.ranks


def _further_on(ranks: int) -> list[tuple[Ints, Ints]]:
    """Return sources and destinations of the steps of Bruck's doubling: every rank and that 1, 2, 4, ... further on."""
    return [(np.arange(ranks), (np.arange(ranks) + distance) % ranks) for distance in powers_below(ranks)]


BRUCK = Algorithm(
    name="bruck",
    build=bruck,
    ends=_further_on,
    sends=lambda fabric: [
        Sends(min(d, fabric.ranks - d) / fabric.ranks, *ends)
        for ends, d in zip(_further_on(fabric.ranks), powers_below(fabric.ranks), strict=True)
    ],
    rows=lambda kind, fabric: rows_by_pair(kind, fabric) * _senders(fabric) // fabric.ranks,
    by_structure=True,
    summary="pass everything on to the rank 1, 2, 4, ... further on (Bruck's doubling)",
)


# Hierarchical collectives: inside the domains, along the rails that join ranks in the same place, and inside again.
#
# all-reduce       reduce-scatter in the domain, all-reduce along the rails, all-gather in the domain
# all-gather       along the rails, then in the domain
# reduce-scatter   in the domain, then along the rails
# all-to-all       in the domain to the rail of the destination, then along it
# broadcast        along the root's rail, then in every domain; a reduce the other way
#
# Where links join neighbours along several axes (a torus), each axis begins with a part of the data of its own.
#
# Every rank sends 1/g of the data of a domain of g ranks over its own port, and pieces of the data follow each other,
# so that domains and rails work at the same time.
#
# Sources: NCCL (rail-optimised collectives); Cho et al., "BlueConnect: decomposing all-reduce for deep learning on
# heterogeneous network hierarchy", MLSys 2019.

_ROUNDING = 1e-9


def hierarchical_phases(kind: Kind, flats: Sequence[Algorithm], first: int = 0) -> list[Phase]:
    """Return the phases of a kind of collective along several axes, in order: (kind, index of the axis, its algorithm).

    The axes are taken from ``first`` on, and after the last the ones before ``first``. An all-reduce is a
    reduce-scatter along each but the last of these, an all-reduce along the last, and all-gathers along the others in
    the opposite order. Every other kind is itself along each axis: an all-gather and a broadcast in the opposite order,
    others in this one.

    Args:
        flats: flat algorithm for each axis, innermost first.
        first: index of the axis that is taken first.
    """
    axes = [(first + place) % len(flats) for place in range(len(flats))]
    if kind == "all-reduce":
        scatters = [Phase("reduce-scatter", axis, flats[axis]) for axis in axes[:-1]]
        gathers = [Phase("all-gather", axis, flats[axis]) for axis in axes[-2::-1]]
        return [*scatters, Phase("all-reduce", axes[-1], flats[axes[-1]]), *gathers]
    order = axes[::-1] if kind in ("all-gather", "broadcast") else axes
    return [Phase(kind, axis, flats[axis]) for axis in order]


def hierarchical(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Return a schedule that is a pipeline of phases along each axis of a packet fabric, not yet verified.

    Phases are straight exchanges where switches join the ranks of an axis, rings where links join neighbours, and
    binomial trees for kinds with a root. Where all axes are rings, as many lanes carry equal parts of the data at once,
    each beginning with another axis. ``striped`` has no effect.
    """
    axes = _useful_axes(fabric)
    if collective.kind in ROOTED:
        flats = [BINOMIAL_TREE] * len(axes)
    else:
        flats = [RING_TWO_WAY.bundled() if forwards else ONE_STAGE for _, forwards in axes]
    firsts = range(len(axes) if all(forwards for _, forwards in axes) else 1)
    lanes = [hierarchical_phases(collective.kind, flats, first) for first in firsts]
    return lower("hierarchical", collective, fabric, [axis.size for axis, _ in axes], *lanes)


def _useful_axes(fabric: Fabric) -> list[tuple[Axis, bool]]:
    """Return the axes along which phases run, innermost first, each with True if ranks along it forward for each other,
    as links join only neighbours.

    Axes of switches that follow each other, but for the innermost, are joined into one, with the inner one's stride and
    the product of the sizes, where a rank receives as many bytes per second along the outer one as along the inner one:
    the capacity of the fabric's cut around a group of the axis's stride, over the ranks of that group.
    """
    entering = {cut.ranks: cut.capacity / cut.ranks for cut in fabric.cuts()}
    axes: list[tuple[Axis, bool]] = []
    for axis in fabric.axes:
        # Ranks forward for each other where some along the axis are farther away than others.
        ends = np.array([axis.stride, axis.stride * (axis.size // 2)])
        near, far = fabric.hops(np.zeros_like(ends), ends, fabric.route(np.zeros_like(ends), ends))
        forwards = bool(far > near)
        last, last_forwards = axes[-1] if axes else (axis, True)
        whole = entering.get(axis.stride, 0.0) >= entering.get(last.stride, np.inf) * (1 - _ROUNDING)
        if last.stride > 1 and not last_forwards and not forwards and whole:
            axes[-1] = last._replace(size=last.size * axis.size), False
        else:
            axes.append((axis, forwards))
    return axes


def declines(kind: str, fabric: Fabric) -> str | None:  # noqa: ARG001 - all kinds alike
    """Return a sentence if hierarchical schedules do not run on a fabric, as it is circuit-switched or its ranks lie
    along fewer than two axes (neither in domains nor on a grid); None if they do."""
    if fabric.exclusive:
        return "hierarchical composes packets, and this fabric is circuit-switched"
    if len(fabric.axes) < 2:
        return f"hierarchical needs ranks in domains or on a grid (axes), and a {fabric.kind_name} joins all alike"
    return None


HIERARCHICAL = Algorithm(
    name="hierarchical",
    build=hierarchical,
    kinds=CLASSIC,
    pipelined=True,
    declines=declines,
    rows=lambda kind, fabric: 0,  # noqa: ARG005 - it folds, and asks for memory where it has to unfold
    summary="inside domains, along rails between them, and inside again; pieces follow each other",
)
