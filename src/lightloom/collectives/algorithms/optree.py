"""OpTree: all-gather on a WDM ring in stages, the ring cut into m parts, each part cut again, and so on.

    stage 1   0 1 2 3 | 4 5 6 7 | 8 9 . . | . . . .    equal positions of the parts exchange around the ring
    stage 2   0 | 1 | 2 | 3                            inside a part (a line): all that was gathered so far is exchanged
    ...       until a part is one rank

After every stage the ranks of a part together hold everything, each share exactly once, so every rank receives every
share exactly once. Each share in flight holds one wavelength for one step; those of a pair of ranks lie side by side. A
part that does not divide is cut into unequal ones; the last position of the larger ones then sends to the last rank of
the smaller.

Source: Dai, Chen, Huang and Zhang, "OpTree: an efficient algorithm for all-gather operation in optical interconnect
systems", section III-D. The paper's radix N^(1/k) is rarely an integer; here the radices are integers, one a stage, and
searched (:func:`best_radices`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.link_use import line_all_to_all_wavelengths, ring_all_to_all_wavelengths
from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule import build
from lightloom.collectives.schedule.columns import Schedule, grouped
from lightloom.core.arrays import Column, Int32s, Ints, first_rows
from lightloom.core.errors import ConfigError
from lightloom.core.kernels import njit_cached
from lightloom.machines.fabrics.fabric import Fabric

# The compiled loop that counts what a stage of OpTree puts on every link.


@njit_cached
def exchange_parts(start: Ints, size: Ints, first: Ints, items: Ints, arriving: Ints, change: Ints) -> None:
    """Count the blocks that a stage of OpTree moves, into ``arriving`` and ``change``: every rank sends what it holds
    to its counterpart in each other part of what was one part before.

    The counterpart has the same position in its part, or the last one where that part is smaller.

    Args:
        start, size: first rank and ranks of each part: [parts].
        first: the number of the first part that each part before was cut into, and at last the number of parts:
            [parts before + 1].
        items: blocks that each rank holds, not changed: [ranks].
        arriving: out, zeros at first, the blocks that each rank receives: [ranks].
        change: out, zeros at first, the blocks on the link from rank i to i + 1 less those on the link before it, so
            that running sums are the loads of links of ranks in a row; in row 0 towards higher ranks, in row 1 towards
            lower ones: [2, ranks + 1]. Of shape (0, 0) where links do not matter.
    """
    for before in range(len(first) - 1):
        for part in range(first[before], first[before + 1]):
            for other in range(first[before], first[before + 1]):
                if other == part:
                    continue
                for position in range(size[part]):
                    source = start[part] + position
                    target = start[other] + min(position, size[other] - 1)
                    arriving[target] += items[source]
                    if len(change):
                        direction = 1 if target < source else 0
                        change[direction, min(source, target)] += items[source]
                        change[direction, max(source, target)] -= items[source]


# Which integer radices give OpTree the fewest steps: candidates by estimate, the best of them counted exactly.

_LARGEST_LATER_RADIX = 16
_COUNTED_EXACTLY = 48


def cut(start: Ints, size: Ints, radix: int) -> tuple[Ints, Ints, Ints]:
    """Return each part cut into ``radix`` near-equal ones, larger first: first rank, number of ranks, and the part that
    each came from, [piece] each.

    Pieces of one part follow each other; a part of fewer ranks than ``radix`` is cut into single ranks.

    Args:
        start, size: first rank and number of ranks of each part: [part].
    """
    pieces = np.minimum(size, radix)
    parent, index = grouped(pieces)
    small, larger = np.divmod(size, pieces)
    piece_size = small[parent] + (index < larger[parent])
    piece_start = start[parent] + index * small[parent] + np.minimum(index, larger[parent])
    return piece_start, piece_size, parent


def stage_steps(n: int, channels: int, radices: Sequence[int]) -> tuple[int, ...]:
    """Return the exact number of steps of each stage of OpTree's all-gather among ``n`` ranks, from the load of every
    link, without building the schedule.

    Args:
        channels: wavelengths of each link, each way.
        radices: for each stage in turn, the parts into which it cuts every part that the stage before made, at first
            the whole ring. Radices that leave parts of several ranks are not refused.

    Time: O(N · sum of radices).
    """
    return tuple(_steps(n, channels, radices))


def _steps(n: int, channels: int, radices: Sequence[int]) -> Iterator[int]:
    """Yield the number of steps of one stage of OpTree after the other, each counted when it is asked for.

    Steps are the wavelengths that the stage takes, over ``channels``, rounded up: of the first stage those of its
    all-to-alls around the ring, of later ones the blocks on the busiest link. ``radices`` are the numbers of parts into
    which each stage cuts every part.
    """
    start, size = np.zeros(1, np.int64), np.full(1, n, np.int64)
    items = np.ones(n, np.int64)
    for number, radix in enumerate(radices):
        start, size, parent = cut(start, size, radix)
        first = np.searchsorted(parent, np.arange(parent[-1] + 2))
        change, arriving = np.zeros((2, n + 1) if number else (0, 0), np.int64), np.zeros(n, np.int64)
        exchange_parts(start, size, first, items, arriving, change)
        colours = int(np.cumsum(change, axis=1).max()) if number else _first_stage_colours(size)
        yield -(-colours // channels)
        items += arriving


def _first_stage_colours(size: Ints) -> int:
    """Return the wavelengths of OpTree's first stage, each way. ``size`` has the ranks of each part, larger parts first
    and sizes that differ by at most one, as :func:`cut` makes them: [part].

    Each position of the parts takes an all-to-all of its own; the last one only what its senders use.
    """
    larger = int(np.count_nonzero(size == size.max()))
    full = int(size.min()) * ring_all_to_all_wavelengths(len(size))
    if larger == len(size):
        return full
    source, _, _, colour = build.ring_all_to_all(len(size))
    return full + len(np.unique(colour[source < larger]))


@lru_cache(maxsize=256)
def best_radices(n: int, channels: int) -> tuple[int, ...]:
    """Return the radices of OpTree's stages with the fewest steps among the most promising, for ``n`` ranks and
    ``channels`` wavelengths of each link each way: for each stage in turn, into how many it cuts every part.

    The 48 choices with the fewest estimated steps have their steps counted exactly; ties go to fewer stages, then to
    the lower estimate. A stage of radix m is estimated at ceil(N/m)·ceil(floor(m²/4)/2) wavelengths in the first stage,
    around the ring, and (N/m)·floor(m²/4) in later ones, along a line, each over the channels, rounded up.
    """
    candidates = _candidates(n, channels)
    best, fewest = candidates[0], (sys.maxsize, 0)
    for radices in candidates:
        # Each stage takes a step at least; the rest of those that cannot win is not counted.
        least = len(radices)
        for steps in _steps(n, channels, radices):
            least += steps - 1
            if (least, len(radices)) >= fewest:
                break
        else:
            best, fewest = radices, (least, len(radices))
    return best


def _candidates(n: int, channels: int) -> list[tuple[int, ...]]:
    """Return the radices of all stages that are most promising for ``n`` ranks and ``channels`` wavelengths of each
    link each way, the fewest estimated steps first; at most 48.

    First stages cut the ring into 2 to 64 parts or into single ranks, later ones every part into 2 to 16; of the ways
    to go on after a stage only the cheapest few are kept. Estimates are those of :func:`best_radices`.
    """

    @cache
    def rest(size: int) -> list[tuple[float, tuple[int, ...]]]:
        """Return the best ways to finish parts of ``size`` ranks along lines, (steps, radices), cheapest first."""
        if size == 1:
            return [(0.0, ())]
        candidates = []
        for radix in range(2, min(size, _LARGEST_LATER_RADIX) + 1):
            cost = float(np.ceil(n / radix * line_all_to_all_wavelengths(radix) / channels - 1e-9))
            candidates += [(cost + more, (radix, *tail)) for more, tail in rest(-(-size // radix))[:8]]
        return sorted(candidates)[:_COUNTED_EXACTLY]

    candidates = []
    for radix in sorted({*range(2, min(n, 64) + 1), n}):
        parts = -(-n // radix)
        cost = float(-(-parts * ring_all_to_all_wavelengths(radix) // channels))
        candidates += [(cost + more, (radix, *tail)) for more, tail in rest(parts)[:12]]
    return [radices for _, radices in sorted(candidates)[:_COUNTED_EXACTLY]]


def optree(
    collective: Collective, fabric: Fabric, *, striped: bool = False, radices: Sequence[int] | None = None
) -> Schedule:
    """Return OpTree's schedule of an all-gather on a WDM ring, not yet verified: every stage cuts each part of the ring
    further, and each rank sends what it holds to the rank at its place in every other new part of the same old part.

    As reduce-scatter it runs backwards, as all-reduce first so and then as the all-gather. Rows carry all that a pair
    of ranks exchanges in a step, at most as many shares as a link has channels. A note names radices and steps.

    Args:
        striped: transfers bundle channels that their stage leaves free.
        radices: for each stage in turn, the parts into which it cuts every part that the stage before made, at first
            the whole ring; None: those of :func:`best_radices`.

    Raises:
        ConfigError: radices that leave parts of more than one rank.
    """
    n = collective.ranks
    chosen = tuple(radices) if radices is not None else best_radices(n, fabric.usable_channels)

    def all_gather(gather: Collective) -> Schedule:
        """Return the all-gather of these radices, with its steps a stage in the note."""
        stages, held = exchange_stages(n, chosen)
        steps = "+".join(str(build.fit(fabric, stage.colours, striped=striped)[2]) for stage in stages)
        note = f"radices {'·'.join(map(str, chosen))}, steps {steps}"
        return build.staged("optree", gather, fabric, stages, chunks=n, striped=striped, entries=held, notes=(note,))

    return build.from_all_gather(collective, fabric, all_gather)


def exchange_stages(n: int, radices: Sequence[int]) -> tuple[list[build.Stage], Int32s]:
    """Return the stages of OpTree's all-gather, which say who sends which shares where, and the shares to which they
    refer, [entry]: a transfer carries so many of them from its first entry on.

    Each share of a pair takes a colour of its own, that is one wavelength in one step, as in the paper. Stages in which
    nobody sends are left out.

    Args:
        n: ranks.
        radices: for each stage in turn, the parts into which it cuts every part that the stage before made, at first
            the whole ring.

    Raises:
        ConfigError: radices that leave parts of more than one rank.
    """
    parts, stages, pool, entries = _Parts.whole(n), list[build.Stage](), list[Int32s](), 0
    for number, radix in enumerate(radices):
        inner, parent = parts.cut(radix)
        shares, first, count = parts.held()
        pool.append(shares)
        if number == 0:
            stages.append(_around_the_ring(inner.start, inner.size))
        else:
            one, other = _siblings(parent)
            part, position = grouped(inner.size[one])
            source = inner.start[one][part] + position
            receiver = inner.start[other][part] + np.minimum(position, inner.size[other][part] - 1)
            outer = parent[one][part]
            which = parts.kind[outer], source - parts.start[outer]
            stages.append(build.along_the_line(source, receiver, entries + first[which], count[which], n))
        entries += len(shares)
        parts = inner
    if len(parts.start) != n:
        raise ConfigError(f"radices {tuple(radices)} cut {n} ranks into {len(parts.start)} parts: expected {n}")
    return [stage for stage in stages if len(stage.source)], np.concatenate(pool)


class _Parts(NamedTuple):
    """Parts of the ring, each of which holds every share once. Those of one kind have the same size, and hold a share
    at the same position: what a rank receives depends on sizes alone, and of each stage's parts there are two sizes."""

    start: Ints
    """First rank of each part: [part]."""
    size: Ints
    """Number of ranks of each part: [part]."""
    kind: Ints
    """Kind of each part, a row of ``position``: [part]."""
    position: Column
    """Position in its part of the rank that holds a share: [kind, share]."""

    @classmethod
    def whole(cls, n: int) -> _Parts:
        """Return the ring of ``n`` ranks as one part, each rank with its own share."""
        zero = np.zeros(1, np.int64)
        return cls(zero, np.full(1, n, np.int64), zero, np.arange(n, dtype=np.int32)[None])

    def held(self) -> tuple[Int32s, Ints, Ints]:
        """Return the shares that the ranks of each kind of part hold, one rank's after the other's: [place]; and the
        first place and the number of the shares of each rank: [kind, position in the part] each, as many positions as
        the largest part has, with no shares at those that a smaller one lacks. Parts of one kind have the same size and
        hold a share at the same position."""
        kinds, n = self.position.shape
        order = np.argsort(self.position, axis=1, kind="stable").astype(np.int32)
        most = int(self.size.max())
        count = np.bincount((self.position + np.arange(kinds)[:, None] * most).ravel(), minlength=kinds * most)
        count = count.reshape(kinds, most)
        first = np.cumsum(count, axis=1) - count + np.arange(kinds)[:, None] * n
        return order.ravel(), first, count

    def cut(self, radix: int) -> tuple[_Parts, Ints]:
        """Return each part cut into ``radix`` near-equal ones, after these exchanged what they hold, and the number of
        the part that each came from: [part]."""
        start, size, parent = cut(self.start, self.size, radix)
        first, kind = first_rows((self.kind[parent], size))
        position = np.empty((len(first), self.position.shape[1]), np.int32)
        for number, part in enumerate(first):
            outer = parent[part]
            begins = start[parent == outer] - self.start[outer]
            place = self.position[self.kind[outer]]
            inside = place - begins[np.searchsorted(begins, place, side="right") - 1]
            position[number] = np.minimum(inside, size[part] - 1)
        return _Parts(start, size, kind, position), parent


def _siblings(parent: Ints) -> tuple[Ints, Ints]:
    """Return ordered pairs of different parts that came from the same part, by number: [pair] each.

    ``parent`` is the part that each part came from, ascending: [part].
    """
    one, place = grouped(np.bincount(parent)[parent])
    other = np.searchsorted(parent, parent)[one] + place
    apart = one != other
    return one[apart], other[apart]


@lru_cache(maxsize=64)
def _longest_links(ranks: int, channels: int) -> int:
    """Return the links of the longest lightpath of OpTree's schedule on a ring with ``channels`` wavelengths each way,
    which decide the radices; parts are contiguous, so it is one of the first stage."""
    start, size, _ = cut(np.zeros(1, np.int64), np.full(1, ranks, np.int64), best_radices(ranks, channels)[0])
    stage = _around_the_ring(start, size)
    return build.ring_links(ranks, stage.source, stage.destination, stage.route)


def _around_the_ring(start: Ints, size: Ints) -> build.Stage:
    """Return OpTree's first stage: the i-th ranks of all parts exchange their shares in an optimal one-stage all-to-all
    around the ring, for every i on colours of its own. Where a part has no i-th rank its last one receives, and nobody
    sends. Each transfer carries one share, that of its source. ``start`` and ``size`` are the first rank and the number
    of ranks of each part: [part]."""
    parts, positions = len(start), int(size.max())
    colours = ring_all_to_all_wavelengths(parts)
    one, other, route, colour = build.ring_all_to_all(parts)
    position = np.arange(positions)[:, None]
    sends = position < size[one][None, :]
    source = (start[one] + position)[sends]
    destination = (start[other] + np.minimum(position, size[other] - 1))[sends]
    # The last position of unequal parts has fewer senders and leaves some of its colours unused.
    used, colour = np.unique((colour + colours * position)[sends], return_inverse=True)
    route = np.broadcast_to(route, sends.shape)[sends]
    return build.Stage(source, destination, route, source, colour, len(used), np.ones_like(source))


def _optree_rows(kind: str, fabric: Fabric) -> int:
    """Return an upper bound on the rows of OpTree's schedules for a kind, with the best radices for the fabric: those
    of all stages, N (m − 1) (ceil(shares held / channels) + 2) in one of radix m, at most one for each ordered pair of
    ranks; of an all-reduce twice as many."""
    n, channels = fabric.ranks, max(fabric.usable_channels, 1)
    radices, rows, shares = best_radices(n, channels), 0, 1
    for radix in radices:
        rows += n * (radix - 1) * (-(-shares // channels) + 2)
        shares *= radix
    return min(rows, n * (n - 1)) * (2 if kind == "all-reduce" else 1)


OPTREE = Algorithm(
    name="optree",
    build=optree,
    by_structure=True,
    longest_lightpath=lambda kind, fabric: _longest_links(fabric.ranks, fabric.usable_channels),  # noqa: ARG005 - all kinds alike
    needs="wdm-ring",
    rows=_optree_rows,
    summary="exchange between parts of the ring, then between parts of the parts, ...",
)
