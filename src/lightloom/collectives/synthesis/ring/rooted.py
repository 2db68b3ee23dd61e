"""Broadcast and reduce on rings of wavelengths: trees along the fibres, pieces following each other down the trees.

    around     half of the data clockwise past all ranks, the other half counter-clockwise
    halves     everything both ways, to hubs up to the far side; from hubs back to the ranks behind, on the other fibre

Trees along a line are as shallow as so many lightpaths over each link allow (:func:`line_tree`). One lightpath over
each link makes a chain, and two chains around the ring are as fast as links allow; with more, each lightpath has the
g-th part of the wavelengths.

Around the ring in chains, what leaves the root last may go both ways instead, half as far: the last pieces arrive when
those that went around do.

Trees to hubs of several depths stand side by side on wavelengths of their own, each for a part of the data
(:func:`share_wavelengths`). A reduce is a broadcast run backwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice, product
from math import comb
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.build import from_broadcast
from lightloom.collectives.schedule.columns import Schedule, grouped
from lightloom.collectives.synthesis.engine.queues import Queues, Rows, queued_schedule
from lightloom.collectives.synthesis.ring.search import least_fitting
from lightloom.core.arrays import Effort, Floats, Ints
from lightloom.machines.fabrics.fabric import CLOCKWISE, COUNTERCLOCKWISE, Fabric

# Trees along a line of ranks that are as shallow as so many lightpaths over each link allow.
#
# 0 ─────► 1 ─► 2      3 ─► 4      5 ─► 6        two lightpaths over every link: 6 ranks within 2 hops
# └──────────────────► 3
# ...
#
# On a line with g lightpaths over each link, a tree k hops deep serves C(k + g, g) − 1 ranks: the i-th lightpath that
# a rank sends leaves room for i others up to where the next one ends, so that G(k, g) = g + G(k − 1, 1) + ... + G(k −
# 1, g) for the ranks served.
#
# A hub d hops from the root has k − d hops left for the ranks behind it, so that hubs lie the closer the later they
# are reached. With g lightpaths over each link towards the hubs and b back, all hubs with what lies behind them are
# C(k + g + b, g + b) − C(k + b, b) ranks of either side.


Edges = tuple[Ints, Ints, Ints]
"""Lightpaths of a tree along one fibre: parents and children, places counted from where the line begins, and slots."""


def served(hops: int, load: int) -> int:
    """Return the most ranks of a line with the root at its end, root left out, that a tree ``hops`` deep serves with
    ``load`` lightpaths over each link: C(hops + load, load) − 1."""
    return comb(hops + load, load) - 1


@lru_cache(maxsize=1 << 16)
def depth(ranks: int, load: int) -> int:
    """Return the fewest hops in which a tree with ``load`` lightpaths over each link serves ``ranks`` ranks of a line,
    root left out."""
    return ranks if load == 1 else next(hops for hops in count() if served(hops, load) >= ranks)


@lru_cache(maxsize=1 << 16)
def side_depth(ranks: int, outward: int, backward: int) -> int:
    """Return the fewest hops, at least 1, in which the root reaches all of ``ranks`` ranks on one side of it, over hubs
    that serve the ranks behind them, those between a hub and the one before it.

    Args:
        ranks: ranks of the side, hubs among them.
        outward: lightpaths over each link from the root towards hubs.
        backward: lightpaths over each link back from hubs to the ranks behind them.
    """
    both = outward + backward
    return next(hops for hops in count(1) if comb(hops + both, both) - comb(hops + backward, backward) >= ranks)


def hub_tree(ranks: int, hops: int, outward: int, backward: int, spacing: int) -> tuple[Edges, Ints]:
    """Return a tree from the root to hubs on one side of it, and the places of root and hubs in ranks from the root,
    the last at ``ranks``: [hub + 1].

    The tree is the parent, the child and the slot of each lightpath to a hub, [lightpath] each; parents and children
    are numbers of hubs, from 1, the root as 0. The ranks between two hubs are served by the farther one, in the hops
    that it has left; their lightpaths are not listed.

    Args:
        ranks: ranks on this side of the root.
        hops: most lightpaths in a row, those back from hubs included: at least :func:`side_depth` of the other
            arguments or, with a ``spacing`` that binds, as many as reach hubs ``spacing`` apart and the ranks between.
        outward, backward: lightpaths over each link to hubs, and back from hubs.
        spacing: most ranks from a hub to the next.
    """
    parent, place = [], [0]
    # Lightpaths still to send: from which hub, with how many hops left behind it, in the room of which number.
    waiting = [(0, hops - 1, room) for room in range(outward, 0, -1)]
    while place[-1] < ranks:
        at, left, room = waiting.pop()
        behind = min(served(left, backward), spacing - 1, ranks - 1 - place[-1])
        parent.append(at)
        place.append(place[-1] + behind + 1)
        if left:
            waiting += [(len(place) - 1, left - 1, number) for number in range(room, 0, -1)]
    return _edges(parent, list(range(1, len(place)))), np.array(place, np.int64)


def line_tree(ranks: int, load: int) -> Edges:
    """Return a tree from place 0 to places 1 ... ``ranks`` of a line, as shallow as ``load`` lightpaths over each link
    allow.

    The tree is the parent and the child (places) of each lightpath, and the slot of a link that it takes, 0 to
    ``load`` − 1: [lightpath] each, sorted by parent, then by child.
    """
    parent, child = [], []
    waiting = [(0, ranks, depth(ranks, load), load)]
    while waiting:
        at, left, hops, room = waiting.pop()
        place = at + 1
        children = min(room, left)
        for number in range(1, children + 1):
            beyond = sum(1 + served(hops - 1, more) for more in range(number + 1, children + 1))
            served_below = max(1, left - beyond) if number < children else left
            parent.append(at)
            child.append(place)
            # Where fewer are sent than there is room for, the last ones have it.
            if served_below > 1:
                waiting.append((place, served_below - 1, hops - 1, room - children + number))
            place, left = place + served_below, left - served_below
    return _edges(parent, child)


def _edges(parent: list[int], child: list[int]) -> Edges:
    """Return parents, children and slots of the lightpaths of a tree along a line, sorted by parent, then by child:
    [lightpath] each.

    Each lightpath takes the lowest slot that is free from its parent on, so that those that overlap have different
    slots.
    """
    edges = np.array([parent, child], np.int64)
    edges = edges[:, np.lexsort((edges[1], edges[0]))]
    slot = np.zeros(len(parent), np.int64)
    free_from: list[int] = []
    for i, (begin, end) in enumerate(edges.T.tolist()):
        lowest = next((s for s, free in enumerate(free_from) if free <= begin), len(free_from))
        free_from[lowest : lowest + 1] = [end]
        slot[i] = lowest
    return edges[0], edges[1], slot


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


def share_wavelengths(
    kinds: Sequence[HubTree], channels: int, hop: float, channel_seconds: float
) -> dict[HubTree, int]:
    """Return the kinds of trees that side by side carry all data in the least time, each with the wavelengths of one of
    its lightpaths.

    Time is estimated as if data flowed without being cut into pieces. Kinds that get no wavelength are left out. More
    than 64 channels are shared out in at most 64 equal bundles, and a rest that fills none is not used.

    Args:
        kinds: trees to choose from, by their lightpaths over a link and their hops.
        channels: wavelengths of each link, each way.
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
        filling = sum(kind.hops * hop * width for kind, width in chosen.items())
        least = (channel_seconds + filling) / sum(chosen.values())
        if least >= seconds * (1 - _LEAST_GAIN):
            return found or chosen
        seconds, found = least, chosen


def _fullest(loads: Sequence[tuple[int, int]], channels: int, values: Sequence[float]) -> Ints:
    """Return how many of each kind, any number of each, together have the largest total value within ``channels``
    channels either way: [kind].

    Args:
        loads: channels that one of each kind takes, one way and the other.
        values: value of one of each kind.
    """
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


def cut_into_pieces(
    widths: dict[HubTree, int], hop: float, channel_seconds: float, piece_overhead: float, pieces: Ints
) -> tuple[Floats, Ints]:
    """Return, for several numbers of equal pieces into which data is cut, the seconds until the last one arrives, and
    the pieces that each tree carries, shared out so that the last one arrives as early as possible.

    Args:
        widths: trees side by side, with the wavelengths of a lightpath of each.
        hop: seconds of a hop besides those for which a piece is sent.
        channel_seconds: seconds in which one channel carries all data.
        piece_overhead: seconds that each piece takes on a lightpath besides.
        pieces: pieces in all: [cut].

    Returns:
        Seconds, [cut], and numbers of pieces, [cut, tree].
    """
    busy = channel_seconds / pieces[:, None] / np.array(list(widths.values())) + piece_overhead
    fill = np.array([tree.hops for tree in widths]) * (hop + busy)

    def carried(seconds: Floats) -> Ints:
        """Return the pieces that each tree delivers within these seconds: [cut, tree]."""
        return np.asarray(np.maximum(0, np.floor((seconds[:, None] - fill) / busy + 1 + 1e-9)), np.int64)

    enough = (fill + pieces[:, None] * busy).max(axis=1)
    least = least_fitting(lambda s: np.asarray(carried(s).sum(axis=1) >= pieces), 0 * enough, enough, _HALVINGS)
    counts = carried(least)
    # Those that finish at the same moment may have taken one too many.
    over = counts.cumsum(axis=1) - pieces[:, None]
    counts = np.maximum(0, counts - np.maximum(0, np.minimum(over, counts)))
    return np.where(counts > 0, fill + (counts - 1) * busy, 0.0).max(axis=1), counts


def place_trees(widths: dict[HubTree, int], counts: Sequence[int]) -> tuple[HubTree, ...]:
    """Return the trees that carry pieces, side by side on wavelengths of their own, each with its widths, pieces, first
    piece and first channel of either way set.

    A tree takes ``outward`` times its width in channels one way and ``backward`` times its width the other way, and the
    next tree's channels and pieces begin behind these; the first tree's begin at 0. Trees without pieces are left out.

    Args:
        widths: wavelengths of a lightpath of each tree, as many to its hubs as from them.
        counts: number of pieces of each tree, in the order of ``widths``.
    """
    trees = []
    first, one, other = 0, 0, 0
    for (tree, width), pieces in zip(widths.items(), counts, strict=True):
        if pieces:
            trees.append(tree._replace(widths=(width, width), channels=(one, other), first=first, pieces=pieces))
            first, one, other = first + pieces, one + tree.outward * width, other + tree.backward * width
    return tuple(trees)


_PIECES = sorted({round(2 ** (k / 3)) for k in range(37)})
_ROWS = 1_000_000
"""Rows above which pieces are not cut smaller."""
_WORTH = 1.005
"""Times the least estimate that fewer pieces may take."""
_WORTH_OF_TREES = 1.002
"""Times the least estimate that fewer pieces may take on trees side by side, whose lightpaths fill slowly."""
_GAIN = 0.99
"""Times the least estimate that trees side by side may take."""
_MOST_LOAD: Effort = 8
"""Most lightpaths over a link, each way, of trees that stand side by side."""
_BUILT = 4
"""Best estimates that are built and timed."""


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """Shape of a tree, or of trees side by side, with its estimated time."""

    seconds: float
    loads: tuple[int, ...]
    """Lightpaths over a link: around the ring, or to hubs and from hubs."""
    spacing: int
    """Most ranks from hub to hub; 0 around the ring."""
    hops: int
    """Lightpaths in a row, at most."""
    pieces: int
    """Pieces of the data that goes in one direction."""
    late: int = 0
    """Pieces that go both ways to the far side, behind those that go around the ring."""
    trees: tuple[HubTree, ...] = ()
    """Trees side by side, if there are several."""


def rooted(collective: Collective, fabric: Fabric) -> Schedule:
    """Return a queued broadcast or reduce on a sound ring of wavelengths, not yet verified: the fastest of the
    schedules over the four shapes of trees with the best estimates whose lightpaths light reaches. Trees side by side
    are among the shapes only where their estimate is at least 1 % below all others."""
    nbytes = max(collective.nbytes, 1.0)
    estimates = sorted(_shapes(nbytes, fabric))
    estimates[:0] = _trees_side_by_side(fabric, nbytes, _GAIN * estimates[0].seconds)
    shapes = list(islice((shape for shape in estimates if _reaches(fabric, shape)), _BUILT))

    def broadcast(spread: Collective) -> Schedule:
        """Return the fastest of the broadcasts over these shapes."""
        schedules = [_build_tree(spread, fabric, shape) for shape in shapes]
        return min(schedules, key=lambda schedule: cost(schedule, fabric).time)

    return from_broadcast(collective, fabric, broadcast)


def _shapes(nbytes: float, fabric: Fabric) -> Iterator[Shape]:
    """Yield the shapes to choose from for a broadcast of ``nbytes``, each with its estimated seconds: trees around the
    ring, chains around it with late pieces behind, and trees to hubs. Light need not reach the ends of the lightpaths
    of each of them."""
    n, channels, half = fabric.ranks, fabric.usable_channels, fabric.ranks // 2
    for load in _loads(min(channels, n - 1)):
        yield _estimated(fabric, nbytes / 2, (load,), 0, depth(n - 1, load), n - 1, 2)
    yield from _both_ways_late(fabric, nbytes)
    # Where light reaches all ranks hubs may lie as far from each other as hops allow.
    far = fabric.reach is None or fabric.reach >= half
    for spacing in [half] if far else sorted({-(-half // hubs) for hubs in range(1, half + 1)}):
        hubs = half if far else -(-half // spacing)
        for pair in product(_loads(min(channels, hubs)), _loads(min(channels, max(1, spacing - 1)))):
            hops = side_depth(half, *pair) if far else depth(hubs, pair[0]) + depth(spacing - 1, pair[1])
            yield _estimated(fabric, nbytes, pair, spacing, hops, half if far else half + spacing - 1, 1)


def _loads(most: int) -> list[int]:
    """Return numbers of lightpaths over a link, 1 to ``most``, ascending, which differ in the whole number of
    wavelengths that each lightpath gets of ``most``.

    Where several numbers give each as many wavelengths, only the largest of them is returned: 1, 2, 3, 5 and 10 of 10.
    """
    return [load for load in range(1, most + 1) if load == most or most // load > most // (load + 1)]


def _estimated(
    fabric: Fabric, data: float, loads: tuple[int, ...], spacing: int, hops: int, links: int, directions: int
) -> Shape:
    """Return the shape with its estimated seconds, the sum of those of hops, of pieces that follow the first, and of
    propagation. Data is cut into the fewest pieces that take at most 0.5 % longer, propagation aside, than the best
    number of those tried, up to 4,096 and up to 1,000,000 rows.

    Args:
        data: bytes that one direction carries.
        loads: lightpaths over a link, around the ring, or to hubs and from hubs.
        spacing: most ranks from hub to hub; 0 around the ring.
        hops: lightpaths on the longest way.
        links: links on the longest way.
        directions: number of directions that carry pieces of their own.
    """
    width = fabric.usable_channels // max(loads)
    pieces = np.array([count for count in _PIECES if directions * count * fabric.ranks <= _ROWS])
    busy = data / pieces / (width * fabric.channel_bandwidth) + fabric.piece_overhead
    seconds = hops * (fabric.step_overhead + busy) + (pieces - 1) * busy
    best = int(np.argmax(seconds <= _WORTH * seconds.min()))
    return Shape(float(seconds[best]) + links * fabric.hop_latency, loads, spacing, hops, int(pieces[best]))


def _both_ways_late(fabric: Fabric, nbytes: float) -> Iterator[Shape]:
    """Yield the shape, for a broadcast of ``nbytes``, of two chains around the ring, one each way, with late pieces
    behind those that go all the way around.

    Each chain carries half of the other pieces to all ranks. Late pieces go both ways at once, only to the far side of
    the ring, and there are as many as arrive there no later than the others arrive around. At most one shape is
    yielded: of those nearly as fast as the fastest, the one cut into the fewest pieces. None is yielded where no number
    of pieces leaves some of them late.
    """
    n, half = fabric.ranks, fabric.ranks // 2
    shapes: list[Shape] = []
    for pieces in _PIECES:
        busy = nbytes / pieces / (fabric.usable_channels * fabric.channel_bandwidth) + fabric.piece_overhead
        hop = fabric.step_overhead + fabric.hop_latency + busy
        late = int((n - 1 - half) * hop / busy) if busy > 0 else pieces
        around = (pieces - late) // 2
        late = pieces - 2 * around
        if n > 2 and around > 0 and late > 0 and pieces * n <= _ROWS:
            seconds = max((n - 1) * hop + (around - 1) * busy, half * hop + (around + late - 1) * busy)
            shapes.append(Shape(seconds, (1,), 0, n - 1, around, late))
    least = min(shapes, default=None)
    yield from [shape for shape in shapes if least and shape.seconds <= _WORTH * least.seconds][:1]


def _trees_side_by_side(fabric: Fabric, nbytes: float, most: float) -> Iterator[Shape]:
    """Yield the shape of several trees to hubs, each on wavelengths of its own, if together they take less than
    ``most`` seconds, by estimate, for a broadcast of ``nbytes``.

    At most one shape is yielded, and none where light does not reach the far side of the ring or a single kind of tree
    is best.
    """
    half, channels = fabric.ranks // 2, fabric.usable_channels
    if fabric.reach is not None and fabric.reach < half:
        return
    loads = range(1, min(channels, half, _MOST_LOAD) + 1)
    kinds = [HubTree(*pair, side_depth(half, *pair)) for pair in product(loads, loads)]
    # Fewer lightpaths over a link are worth the same depth.
    least = {(kind.outward, kind.hops): kind for kind in reversed(kinds)}
    least = {(kind.backward, kind.hops): kind for kind in sorted(least.values(), reverse=True)}
    seconds = nbytes / fabric.channel_bandwidth
    widths = share_wavelengths(sorted(least.values()), channels, fabric.step_overhead, seconds)
    if len(widths) < 2:
        return
    pieces = np.array([count for count in _PIECES if count * fabric.ranks <= _ROWS])
    taken, counts = cut_into_pieces(widths, fabric.step_overhead, seconds, fabric.piece_overhead, pieces)
    best = int(np.argmax(taken <= _WORTH_OF_TREES * taken.min()))
    trees = place_trees(widths, counts[best].tolist())
    time = float(taken[best]) + half * fabric.hop_latency
    if time < most:
        yield Shape(time, (), half, max(tree.hops for tree in trees), int(pieces[best]), trees=trees)


_Lightpaths = tuple[Ints, Ints, int, Ints, int, int, int]
"""Source and destination of each, their direction, the first channel of each, channels of each, and the first of the
chunks that they carry and their number: arrays [lightpath], or one number for all."""


def _around(fabric: Fabric, shape: Shape) -> Iterator[_Lightpaths]:
    """Yield the lightpaths of a tree from rank 0 around the ring, once clockwise and once counter-clockwise, each with
    ``shape.pieces`` chunks of its own.

    Each item has source and destination, direction, first channel, channels of a lightpath, and first chunk and number
    of the chunks that they carry: arrays [lightpath], or one number for all.
    """
    n, width = fabric.ranks, fabric.usable_channels // shape.loads[0]
    parent, child, slot = line_tree(n - 1, shape.loads[0])
    for direction, ahead in ((CLOCKWISE, 1), (COUNTERCLOCKWISE, -1)):
        first = direction * shape.pieces
        yield parent * ahead % n, child * ahead % n, direction, slot * width, width, first, shape.pieces


def _halves(ranks: int, spacing: int, hubs: HubTree) -> Iterator[_Lightpaths]:
    """Yield the lightpaths to hubs on both sides of rank 0, and back from every hub to the ranks behind it; the ranks
    1 to ⌊ranks / 2⌋ are the clockwise side.

    Each item has source and destination, direction, first channel, channels of a lightpath, and first chunk and number
    of the chunks that they carry: arrays [lightpath], or one number for all.

    Args:
        spacing: most ranks from hub to hub.
        hubs: the tree, with its widths, channels and pieces.
    """
    n, (width, narrow), (one, other) = ranks, hubs.widths, hubs.channels
    for direction, ahead, half in ((CLOCKWISE, 1, n // 2), (COUNTERCLOCKWISE, -1, (n - 1) // 2)):
        if not half:
            continue
        (parent, child, slot), place = hub_tree(half, hubs.hops, hubs.outward, hubs.backward, spacing)
        ends = place[parent] * ahead % n, place[child] * ahead % n
        yield *ends, direction, one + slot * width, width, hubs.first, hubs.pieces
        for hub, behind in zip(place[1:].tolist(), (np.diff(place) - 1).tolist(), strict=True):
            if behind:
                parent, child, slot = line_tree(behind, hubs.backward)
                ends = (hub - parent) * ahead % n, (hub - child) * ahead % n
                yield *ends, 1 - direction, other + slot * narrow, narrow, hubs.first, hubs.pieces


def _lightpaths(fabric: Fabric, shape: Shape) -> list[_Lightpaths]:
    """Return the lightpaths of all trees of a shape, in groups of one direction and width.

    Each group has source and destination, direction, first channel, channels of a lightpath, and first chunk and number
    of the chunks that they carry, late pieces not counted: arrays [lightpath], or one number for all.
    """
    if not shape.spacing:
        return list(_around(fabric, shape))
    trees = shape.trees
    if not trees:
        outward, backward = shape.loads
        widths = fabric.usable_channels // outward, fabric.usable_channels // backward
        trees = (HubTree(outward, backward, shape.hops, widths, pieces=shape.pieces),)
    return [part for tree in trees for part in _halves(fabric.ranks, shape.spacing, tree)]


def _reaches(fabric: Fabric, shape: Shape) -> bool:
    """Return True when light reaches the ends of all lightpaths of a shape."""
    return fabric.reach is None or all(
        fabric.hops(source, destination, 0 * source + direction).max() <= fabric.reach
        for source, destination, direction, *_ in _lightpaths(fabric, shape)
    )


def _build_tree(collective: Collective, fabric: Fabric, shape: Shape) -> Schedule:
    """Return the queued schedule of a broadcast from rank 0 over the trees of a shape, not yet verified; late pieces of
    the shape are the last chunks."""
    parts = [np.broadcast_arrays(*part) for part in _lightpaths(fabric, shape)]
    source, destination, route, channel, width, first, pieces = map(np.concatenate, zip(*parts, strict=True))
    queue, piece = grouped(pieces)
    n, chunks = fabric.ranks, shape.pieces * (1 if shape.spacing else 2) + shape.late
    # Late pieces take the lightpaths of either chain up to the far side.
    place = np.where(route == CLOCKWISE, destination, n - destination)
    near = np.flatnonzero(place <= np.where(route == CLOCKWISE, n // 2, (n - 1) // 2))
    late_queue, late = (axis.ravel() for axis in np.meshgrid(near, np.arange(shape.late), indexing="ij"))
    rows = [
        Rows(queue, source[queue], destination[queue], chunk, np.zeros(len(queue), np.bool_), when.astype(np.float64))
        for queue, chunk, when in ((queue, first[queue] + piece, piece), (late_queue, chunks - shape.late + late, late))
    ]
    queues = Queues(channel[None], width, route)
    return queued_schedule(collective, fabric, queues, rows, chunks=chunks, note=_tree_note(shape))


def _tree_note(shape: Shape) -> str:
    """Return a description of a shape for the note of a schedule: its way around or to hubs, lightpaths over a link,
    and pieces, as in "half of the data goes around the ring each way, 2 lightpaths over a link, 8 pieces"; of trees
    side by side those of each; where there are late pieces, how many go which way."""
    if shape.trees:
        trees = "; ".join(
            f"{tree.pieces} within {tree.hops} hops, {tree.outward} and {tree.backward} lightpaths over a link to hubs "
            f"and back"
            for tree in shape.trees
        )
        return f"{shape.pieces} pieces over trees side by side: {trees}"
    loads = " and ".join(str(load) for load in shape.loads)
    if shape.late:
        return (
            f"{2 * shape.pieces} pieces go around the ring, half of them each way, and {shape.late} pieces behind them "
            f"go both ways to the far side"
        )
    if not shape.spacing:
        return f"half of the data goes around the ring each way, {loads} lightpaths over a link, {shape.pieces} pieces"
    return (
        f"hubs reach all ranks within {shape.hops} hops, {loads} lightpaths over a link to them and back to the ranks "
        f"between, {shape.pieces} pieces"
    )
