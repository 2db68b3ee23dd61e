"""One-stage all-to-all: every rank sends its share straight to every other.

    On a ring of N nodes it needs ceil(floor(N²/4)/2) wavelengths each way; with w of them, ceil(that / w) steps.

A share is the same for every destination in an all-gather; in an all-to-all it is a block for each. In a gather, a
scatter and a permute only some pairs exchange a part, on wavelengths assigned to just these.

Source: OpTree, section III-C, and Lemma 1 (which prints ceil(N²/8); equal for even N).
"""

from functools import partial

import numpy as np

from lightloom.collectives.algorithm import Algorithm, links_to_neighbours, longest_links, rows_by_pair, rows_by_rank
from lightloom.collectives.bounds.link_use import ring_all_to_all_wavelengths
from lightloom.collectives.collective import FROM_ALL_GATHER, TO_OR_FROM_ROOT, Collective
from lightloom.collectives.schedule import build
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Ints
from lightloom.machines.fabrics.fabric import CLOCKWISE, Fabric

_SOME_PAIRS = (*TO_OR_FROM_ROOT, "permute")


def one_stage_steps(ranks: int, channels: int) -> int:
    """Return the steps of the one-stage all-gather on a ring with w = ``channels`` wavelengths each way:
    ceil(ceil(floor(N²/4)/2) / w) (OpTree, Table I, by its formula)."""
    return -(-ring_all_to_all_wavelengths(ranks) // channels)


def one_stage(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Return the schedule in which every rank sends straight to every other, in as few steps as the wavelengths (or
    switch planes) allow; on packet fabrics in one step. It is not yet verified.

    A gather, scatter or permute sends only between the pairs of ranks that exchange something. A reduce-scatter is the
    all-gather run backwards, an all-reduce that and then the all-gather. With ``striped`` transfers bundle the channels
    that are left over.
    """
    name, n = "one-stage", collective.ranks

    def straight(gather: Collective) -> Schedule:
        """Return an all-gather or all-to-all from every rank to every other."""
        senders = _straight_senders(fabric)
        if fabric.wavelength_routed:
            source, destination, route, colour = build.ring_all_to_all(n)
            colours = ring_all_to_all_wavelengths(n)
        else:
            # Planes are permutations: shift k of the ranks is one, so D shifts a step fill a switch of D planes.
            colour, source = (axis.ravel() for axis in np.indices((n - 1, senders)))
            destination, route, colours = (source + 1 + colour) % n, np.zeros_like(source), n - 1
        chunks, chunk = (n * n, source * n + destination) if gather.kind == "all-to-all" else (n, source)
        if not fabric.exclusive:
            sends = [build.moves(source, destination, chunk)]
            return build.repeating(build.assign_wavelengths(name, gather, fabric, chunks, sends), senders)
        stage = build.Stage(source, destination, route, chunk, colour, colours)
        return build.staged(name, gather, fabric, [stage], chunks=chunks, striped=striped)

    if collective.kind in _SOME_PAIRS:
        part = np.arange(collective.parts)
        source, destination = collective.begins_at(part), collective.ends_at(part)
        part = part[source != destination]
        straight_moves = [build.moves(source[part], destination[part], part)]
        return build.assign_wavelengths(name, collective, fabric, collective.parts, straight_moves, striped=striped)
    if collective.kind == "all-to-all":
        return straight(collective)
    return build.from_all_gather(collective, fabric, straight)


def _straight_senders(fabric: Fabric) -> int:
    """Return the number of ranks whose sends are written out: one on packet fabrics with one route between two ranks,
    whose sends, shifted, are those of every other rank; else all."""
    return 1 if fabric.routes == 1 and not fabric.exclusive else fabric.ranks


def _one_stage_links(kind: str, fabric: Fabric) -> int:
    """Return the links of the longest lightpath: to the root in a gather or scatter, else between the farthest ranks.

    For a permute, whose pairs are not known here, that between neighbours of the ring order.
    """
    if kind == "permute":
        return links_to_neighbours(kind, fabric)
    others = np.arange(1, fabric.ranks)
    return longest_links(fabric, others, np.zeros_like(others)) if kind in TO_OR_FROM_ROOT else fabric.diameter()


ONE_STAGE = Algorithm(
    name="one-stage",
    build=one_stage,
    by_structure=True,
    longest_lightpath=_one_stage_links,
    ends=lambda n: ((np.arange(n), (np.arange(n) + ahead) % n) for ahead in range(1, n)),
    straight=True,
    kinds=(*FROM_ALL_GATHER, "all-to-all", *_SOME_PAIRS),
    rows=lambda kind, fabric: fabric.ranks if kind in _SOME_PAIRS else rows_by_pair(kind, fabric),
    summary="every rank straight to every other",
)


# In-network averaging: every rank's light meets in the averager, and every rank receives the average.
#
# rank 0 ──▶ ┐          ┌ ──▶ rank 0
# rank 1 ──▶ ┤ averager ├ ──▶ rank 1        one step; nothing is forwarded twice
# rank 2 ──▶ ┘          └ ──▶ rank 2
#
# Source: OptINC, sections II and III (the quantisation that the averager needs belongs to ``photonics``).


def in_network(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Return the schedule, not yet verified, of an all-reduce or a reduce in one step, on one chunk: all ranks send to
    the switch, which adds and sends the sum to the root of a reduce, or by multicast to all ranks. ``striped`` has no
    effect."""
    n, switch = collective.ranks, fabric.switch_rank
    rank, down = np.arange(n), np.arange(1 if collective.kind == "reduce" else n)
    zeros = np.zeros(n + len(down), np.int64)
    path = np.concatenate([rank, np.full_like(down, n)])
    source = np.concatenate([rank, np.full_like(down, switch)])
    destination = np.concatenate([np.full_like(rank, switch), down])
    adds = np.repeat([True, False], [n, len(down)])
    rows = build.Rows(zeros, path, source, destination, zeros, zeros, zeros, chunk=zeros, reduces=adds)
    return build.assemble("in-network", collective, fabric, rows, chunks=1, steps=1)


IN_NETWORK = Algorithm(
    name="in-network",
    build=in_network,
    kinds=("all-reduce", "reduce"),
    needs="in-network",
    rows=rows_by_rank,
    summary="one step through the reducing switch",
)


# Single-write-multi-read broadcast: a waveguide winds past all ranks, and each writes on wavelengths of its own.
#
# 0 ──●──►●──►●──►●      rank 0 writes once; every rank behind it taps the light
# 1    ●──►●──►●──►●     rank 1 does the same on another wavelength, around the ring
#
# One step where there are as many wavelengths as ranks and light can be tapped by all of them; with fewer wavelengths
# as many ranks as these write in a step. Sums cannot be tapped, so that it serves what only copies.
#
# Source: optical DaDianNao (the serpentine waveguide through all chips).


def serpentine(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Return the schedule in which every rank, or the root of a broadcast, sends to all others on one lightpath.

    It leads clockwise and is tapped by each rank on its way. Each sender has one chunk and a wavelength of its own, in
    one step, or in several where there are fewer wavelengths than senders. With ``striped`` lightpaths bundle the
    wavelengths that are left over. The schedule is not yet verified.
    """
    ranks = collective.ranks
    writers = 1 if collective.kind == "broadcast" else ranks
    writer, ahead = np.indices((writers, ranks - 1)).reshape(2, -1)
    ends, route = (writer, (writer + ahead + 1) % ranks), np.full(len(writer), CLOCKWISE)
    stage = build.Stage(*ends, route, chunk=writer, colour=writer, colours=writers, lightpath=writer)
    return build.staged("serpentine", collective, fabric, [stage], chunks=writers, striped=striped)


def _declines_serpentine(kind: str, fabric: Fabric) -> str | None:  # noqa: ARG001 - both kinds alike
    """Return a sentence if the fabric's light cannot be tapped by all ranks but its sender, which the serpentine needs;
    None if it can."""
    readers = fabric.ranks - 1
    why = f"serpentine needs light that {readers} ranks can tap, and this fabric's serves {fabric.taps}"
    return None if fabric.taps >= readers else why


SERPENTINE = Algorithm(
    name="serpentine",
    build=serpentine,
    by_structure=True,
    kinds=("all-gather", "broadcast"),
    needs="wdm-ring",
    longest_lightpath=lambda kind, fabric: fabric.ranks - 1,  # noqa: ARG005 - both kinds alike
    declines=_declines_serpentine,
    summary="each rank writes once, all others tap its light",
)


# Broadcasts on a mesh, all at once: along the rows, then along the columns (Eq. 3 of optical DaDianNao).
#
# row phase        0 → 1 → 2      every rank passes on, both ways, what it received in the step before:
# 0 ← 1 ← 2      columns − 1 steps of one share
# column phase     the same with whole rows: rows − 1 steps of ``columns`` shares
#
# On rows × columns ranks that is (rows + columns − 2) latencies and rows · columns − 1 shares over a link: Eq. 3 on a
# square mesh. While one axis sends the other is idle; with every share halved, and one half sent along the columns
# first, both are busy and the bandwidth term is half as long, which the corner ranks' two links do not allow to
# undercut.
#
# Source: optical DaDianNao, Eq. 3; both axes at once are ours.


def _both_axes(fabric: Fabric) -> list[build.Moves]:
    """Return the moves of each step of an all-gather on a square grid in which half of every share goes along the rows
    first, the other half along the columns; chunks are 2 · rank for the first, 2 · rank + 1 for the other half."""
    grid = _ranks(fabric)
    return [_join_moves(a, b) for a, b in zip(_phases(grid, 2, 0), _phases(grid.T, 2, 1), strict=True)]


def _ranks(fabric: Fabric) -> Ints:
    """Return the ranks of a fabric's grid, numbered row after row: [row, column]. The fabric must have a grid."""
    assert fabric.grid is not None
    return np.arange(fabric.ranks, dtype=np.int64).reshape(fabric.grid.rows, fabric.grid.columns)


def declines_mesh_broadcast(kind: str, fabric: Fabric) -> str | None:  # noqa: ARG001 - all kinds alike
    """Return a sentence if the fabric's ranks form no grid of two dimensions, which the mesh broadcast needs; None if
    they do."""
    return None if fabric.grid else f"mesh-broadcast needs a grid of ranks, and a {fabric.kind_name} has none"


def declines_oblong(kind: str, fabric: Fabric) -> str | None:
    """Return a sentence if the fabric's ranks form no square grid, which sending along both axes at once needs; None if
    they do."""
    grid = fabric.grid
    if grid is None or grid.rows == grid.columns:
        return declines_mesh_broadcast(kind, fabric)
    return f"a mesh of {grid.rows} x {grid.columns}: both axes at once need a square one"


def _phases(grid: Ints, halves: int, half: int) -> list[build.Moves]:
    """Return the steps of an all-gather on a grid of ranks [row, column], each of one hop: first along the rows until
    each rank has its row's shares, then these along the columns. Shares are cut into ``halves`` chunks each, of which
    number ``half`` goes here: chunk owner · ``halves`` + ``half``."""
    alone, whole_rows = grid[:, :, None], np.broadcast_to(grid[:, None, :], (*grid.shape, grid.shape[1]))
    return _along(grid, alone, halves, half) + _along(grid.T, whole_rows.swapaxes(0, 1), halves, half)


def _along(lines: Ints, held: Ints, halves: int, half: int) -> list[build.Moves]:
    """Return the steps in which each line of ranks spreads what its ranks hold, place by place, to all of the line.

    Lines have two ends, so there is a step less than places. In the first step each rank sends its own shares to its
    neighbours both ways, later what it has just received onward in the same direction. A share's chunk has the number
    share · ``halves`` + ``half``.

    Args:
        lines: ranks: [line, place].
        held: shares that the rank at a place holds: [line, place, share].
        halves: chunks into which each share is cut.
        half: which of them these steps carry.
    """
    length = lines.shape[1]
    logical = []
    for passed in range(length - 1):
        parts = []
        for heading in (1, -1):
            place = np.arange(length)
            origin, to = place - heading * passed, place + heading
            sends = (origin >= 0) & (origin < length) & (to >= 0) & (to < length)
            source, destination = lines[:, place[sends], None], lines[:, to[sends], None]
            parts.append(build.moves(source, destination, held[:, origin[sends]] * halves + half))
        logical.append(_join_moves(*parts))
    return logical


def _join_moves(one: build.Moves, other: build.Moves) -> build.Moves:
    """Return the moves of two steps as one step, those of ``one`` first, then those of ``other``; all of them store at
    the receiver, also those that reduced before."""
    names = ("source", "destination", "chunk")
    return build.moves(*(np.append(getattr(one, name), getattr(other, name)) for name in names))


MESH_BROADCAST = Algorithm(
    name="mesh-broadcast",
    build=partial(build.all_gather_by_moves, "mesh-broadcast", lambda fabric: _phases(_ranks(fabric), 1, 0)),
    by_structure=True,
    declines=declines_mesh_broadcast,
    summary="along the rows of a mesh, then along its columns",
)

BOTH_AXES = Algorithm(
    name="mesh-broadcast-both-axes",
    build=partial(build.all_gather_by_moves, "mesh-broadcast-both-axes", _both_axes, pieces=2),
    by_structure=True,
    declines=declines_oblong,
    summary="along rows and columns of a square mesh at once, half of every share each",
)
