"""Trees of several depths side by side, each on wavelengths of its own and with a part of the data.

A tree with g lightpaths over each link to its hubs, b over each link back and w wavelengths for each lightpath fills
g w wavelengths one way and b w the other way. It carries w (X − k) in time X if it is k hops deep, time counted in hops
and data in what a wavelength carries in one. Shallow trees have many lightpaths over a link; trees with more of them to
hubs fill up what those with more of them back leave. Which of them carry the most within X is a knapsack of two sides,
and the least X in which they carry all data follows by Dinkelbach's iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.effort import Effort

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
