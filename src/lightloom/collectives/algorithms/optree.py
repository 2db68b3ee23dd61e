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
searched (optree_radices.py). The closed forms are in optree_forms.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms.optree_radices import best_radices, cut
from lightloom.collectives.schedule.build import fit
from lightloom.collectives.schedule.bundles import Bundles, along_the_line, bundled
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.schedule.wavelengths import ring_all_to_all, ring_all_to_all_wavelengths, ring_links
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Column, Int32s, Ints
from lightloom.core.errors import ConfigError
from lightloom.core.keys import packed
from lightloom.fabrics.base import Fabric


def optree(
    collective: Collective, fabric: Fabric, *, striped: bool = False, radices: Sequence[int] | None = None
) -> Schedule:
    """OpTree on a WDM ring; ``radices`` fixes the parts of each stage, else the search takes the fewest steps.

    As reduce-scatter it runs backwards. Rows carry all that a pair of ranks exchanges in a step, at most as many shares
    as a link has channels.
    """
    name = "optree-striped" if striped else "optree"
    n = collective.ranks
    chosen = tuple(radices) if radices is not None else best_radices(n, fabric.usable_channels)

    def all_gather(gather: Collective) -> Schedule:
        stages, held = exchange_stages(n, chosen)
        steps = "+".join(str(fit(fabric, stage.colours, striped=striped)[2]) for stage in stages)
        note = f"radices {'·'.join(map(str, chosen))}, steps {steps}"
        return bundled(name, gather, fabric, stages, held, chunks=n, striped=striped, notes=(note,))

    return from_all_gather(collective, fabric, all_gather)


def exchange_stages(
    n: int, radices: Sequence[int], in_a_row: Sequence[bool] | None = None
) -> tuple[list[Bundles], Int32s]:
    """Who sends which shares where in each stage, and the shares to which the stages refer.

    Args:
        n: ranks.
        radices: parts into which parts are cut, a number a stage.
        in_a_row: of each stage whether the shares of a pair follow each other on one colour; else, as in the paper,
            each takes one of its own, that is one wavelength in one step.

    Raises:
        ConfigError: radices that leave parts of more than one rank.
    """
    parts, stages, pool, entries = _Parts.whole(n), list[Bundles](), list[Int32s](), 0
    for number, radix in enumerate(radices):
        inner, parent = parts.cut(radix)
        lists = parts.held()
        pool.append(lists.chunks)
        follow = in_a_row is not None and in_a_row[number]
        if number == 0:
            stages.append(_around_the_ring(inner.start, inner.size))
        else:
            one, other = _siblings(parent)
            part = np.repeat(np.arange(len(one)), inner.size[one])
            position = np.arange(len(part)) - np.repeat(np.cumsum(inner.size[one]) - inner.size[one], inner.size[one])
            source = inner.start[one][part] + position
            receiver = inner.start[other][part] + np.minimum(position, inner.size[other][part] - 1)
            outer = parent[one][part]
            which = parts.kind[outer], source - parts.start[outer]
            ends = source, receiver, entries + lists.first[which], lists.shares[which]
            stages.append(along_the_line(*ends, n, in_a_row=follow))
        entries += len(lists.chunks)
        parts = inner
    if len(parts.start) != n:
        raise ConfigError(f"radices {tuple(radices)} cut {n} ranks into {len(parts.start)} parts: expected {n}")
    return [stage for stage in stages if len(stage.source)], np.concatenate(pool)


class _Held(NamedTuple):
    """What each rank of a part holds, by the kind of part."""

    chunks: Int32s
    """Of all ranks of all kinds."""
    first: Ints
    """Place in ``chunks``: [kind, position]."""
    shares: Ints
    """Number of shares: [kind, position]."""


class _Parts(NamedTuple):
    """Parts of the ring, each of which holds every share once. Those of one kind have the same size, and hold a share
    at the same position: what a rank receives depends on sizes alone, and of each stage's parts there are two sizes."""

    start: Ints
    """First rank: [part]."""
    size: Ints
    """Ranks: [part]."""
    kind: Ints
    """[part]."""
    position: Column
    """Position in its part of the rank that holds a share: [kind, share]."""

    @classmethod
    def whole(cls, n: int) -> _Parts:
        zero = np.zeros(1, np.int64)
        return cls(zero, np.full(1, n, np.int64), zero, np.arange(n, dtype=np.int32)[None])

    def held(self) -> _Held:
        """The shares at each position."""
        kinds, n = self.position.shape
        order = np.argsort(self.position, axis=1, kind="stable").astype(np.int32)
        most = int(self.size.max())
        count = np.bincount((self.position + np.arange(kinds)[:, None] * most).ravel(), minlength=kinds * most)
        count = count.reshape(kinds, most)
        first = np.cumsum(count, axis=1) - count + np.arange(kinds)[:, None] * n
        return _Held(order.ravel(), first, count)

    def cut(self, radix: int) -> tuple[_Parts, Ints]:
        """Each part cut into so many, after these have exchanged what they hold; and which part each came from."""
        start, size, parent = cut(self.start, self.size, radix)
        _, first, kind = np.unique(packed((self.kind[parent], size)), return_index=True, return_inverse=True)
        position = np.empty((len(first), self.position.shape[1]), np.int32)
        for number, part in enumerate(first):
            outer = parent[part]
            begins = start[parent == outer] - self.start[outer]
            place = self.position[self.kind[outer]]
            inside = place - begins[np.searchsorted(begins, place, side="right") - 1]
            position[number] = np.minimum(inside, size[part] - 1)
        return _Parts(start, size, kind, position), parent


def _siblings(parent: Ints) -> tuple[Ints, Ints]:
    """Ordered pairs of parts that came from the same part."""
    number = np.bincount(parent)[parent]
    one = np.repeat(np.arange(len(parent)), number)
    other = np.searchsorted(parent, parent)[one] + np.arange(len(one)) - np.repeat(np.cumsum(number) - number, number)
    apart = one != other
    return one[apart], other[apart]


@lru_cache(maxsize=64)
def _longest_links(ranks: int, channels: int) -> int:
    """Links of the longest lightpath on a ring; parts are contiguous, so it is one of the first stage."""
    start, size, _ = cut(np.zeros(1, np.int64), np.full(1, ranks, np.int64), best_radices(ranks, channels)[0])
    stage = _around_the_ring(start, size)
    return ring_links(ranks, stage.source, stage.destination, stage.route)


def _around_the_ring(start: Ints, size: Ints) -> Bundles:
    """Stage 1: the i-th ranks of all parts run an optimal one-stage all-to-all, each position on colours of its own."""
    parts, positions = len(start), int(size.max())
    colours = ring_all_to_all_wavelengths(parts)
    one, other, route, colour = ring_all_to_all(parts)
    position = np.arange(positions)[:, None]
    sends = position < size[one][None, :]
    source = (start[one] + position)[sends]
    destination = (start[other] + np.minimum(position, size[other] - 1))[sends]
    # The last position of unequal parts has fewer senders and leaves some of its colours unused.
    used, colour = np.unique((colour + colours * position)[sends], return_inverse=True)
    route = np.broadcast_to(route, sends.shape)[sends]
    return Bundles(source, destination, route, source, np.ones_like(source), colour, len(used))


def _rows(kind: str, fabric: Fabric) -> int:
    """At most as many rows as its schedules have."""
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
    rows=_rows,
    summary="exchange between parts of the ring, then between parts of the parts, ...",
)
