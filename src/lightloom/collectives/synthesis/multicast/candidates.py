"""Which multicast designs are worth growing trees for: a time for each in closed form.

Three levels at most: lightpaths from every rank to the next few, wider ones of the same kind from hubs, and long ones
with taps far apart. A piece climbs to a hub, takes a line of long lightpaths each way, and is spread from both ends of
the gaps between their taps:

    depth   climb + line/length + gap/2 and the tail beyond the line, in lightpaths of the levels below
    loads   transmissions of a tree each way · ranks between hubs · bytes / wavelength

Loads fall with the wavelengths of a level, so the least time at which all levels fit the fibre is found by bisection,
for all combinations at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine.trees import Timing
from lightloom.collectives.synthesis.multicast.trees import Arc, MulticastDesign
from lightloom.collectives.synthesis.ring.candidates import hub_counts
from lightloom.core.arrays import Floats, Ints, Mask

_NEAR = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32)
"""Taps of lightpaths that leave no rank out."""
_FAR = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""Taps of lightpaths that do."""
_GAPS = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512)
"""Ranks between those."""
_PARTS = (1.0, 0.75, 0.5, 0.35, 0.2, 0.1)
"""Of a half ring that the line of long lightpaths covers."""
_BISECTIONS = 14
_KEPT = 3000


class MulticastCandidate(NamedTuple):
    """A design with its estimate."""

    seconds: float
    design: MulticastDesign


def multicast_candidates(
    ranks: int, channels: int, taps: int, reach: int | None, nbytes: float, timing: Timing
) -> list[MulticastCandidate]:
    """Designs, best estimate first; of those that differ in the length of the line alone, the best."""
    farthest = ranks - 1 if reach is None else min(reach, ranks - 1)
    base, fill, top = _options(ranks, taps, farthest)
    grid = np.meshgrid(*(np.arange(len(options)) for options in (base, fill, top, _PARTS)), indexing="ij")
    which = np.stack([axis.ravel() for axis in grid], axis=1)
    b, f, t = base[which[:, 0]], fill[which[:, 1]], top[which[:, 2]]
    sound = (f[:, 0] == 0) | (f[:, 2] > b[:, 2])
    # Taps of long lightpaths must be hubs of the level below, and without any there is no line to be cut short.
    sound &= (t[:, 0] == 0) | (f[:, 0] == 0) | ((f[:, 0] % np.maximum(t[:, 0], 1) == 0) & _on_hubs(ranks, f, t))
    sound &= (t[:, 0] > 0) | (which[:, 3] == 0)
    which, b, f, t = which[sound], b[sound], f[sound], t[sound]
    depth, loads = _estimated(ranks, b, f, t, np.array(_PARTS)[which[:, 3]], nbytes / timing.bandwidth)
    colours = _colours(ranks, b, f, t)
    seconds, inside = _fitted(loads, colours, channels)
    hops = depth * timing.hop
    total = np.where(inside, np.maximum(seconds, hops) + 0.5 * np.minimum(seconds, hops), np.inf)
    order = np.argsort(total, kind="stable")
    order = order[np.isfinite(total[order])]
    _, first = np.unique(which[order, :3], axis=0, return_index=True)
    best = order[np.sort(first)][:_KEPT].tolist()
    return [
        MulticastCandidate(
            float(total[row]),
            _design(ranks, channels, (b[row], f[row], t[row]), loads[row], colours[row], _PARTS[which[row, 3]]),
        )
        for row in best
    ]


def _options(ranks: int, taps: int, farthest: int) -> tuple[Ints, Ints, Ints]:
    """Lightpaths of each level as (hubs, spacing, taps, taps between), none first in the two upper levels."""
    near = sorted({count for count in (*_NEAR, taps) if count <= min(taps, farthest)})
    far = sorted({count for count in (*_FAR, taps) if count <= taps})
    hubs = hub_counts(ranks)
    base = [(ranks, 1, count, 0) for count in near]
    fill = [(0, 1, 1, 0), *((start, 1, count, 0) for start in hubs if start < ranks for count in near if count > 1)]
    top = [
        (start, gap, count, min(taps // count, gap) - 1)
        for start in hubs
        for gap in _GAPS
        for count in far
        if gap * count <= min(farthest, ranks // 2 + gap) and 2 * gap * start >= ranks and gap * count * start >= ranks
    ]
    return tuple(np.array(level, np.int64) for level in (base, fill, [(0, 1, 1, 0), *top]))  # type: ignore[return-value]


def _on_hubs(ranks: int, fill: Ints, top: Ints) -> Mask:
    """Whether taps of the upper level are hubs of the lower, where hubs are evenly spread."""
    aligned: Mask = (top[:, 1] * fill[:, 0] % ranks == 0) | (ranks % np.maximum(fill[:, 0], 1) != 0)
    return aligned


def _colours(ranks: int, *levels: Ints) -> Ints:
    colours = []
    for level in levels:
        hubs = np.maximum(level[:, 0], 1)
        skip = -(-level[:, 1] * level[:, 2] * hubs // ranks)
        taken = np.where(skip <= 1, 1, -(-hubs // np.maximum(hubs // np.maximum(skip, 1), 1)))
        colours.append(np.where(level[:, 0] == 0, 0, taken))
    return np.stack(colours, axis=1)


def _estimated(ranks: int, base: Ints, fill: Ints, top: Ints, part: Floats, seconds: float) -> tuple[Floats, Floats]:
    """Receptions of the longest path, and seconds that a lightpath of each level is busy at width 1: [row, level]."""
    half = (ranks - 1) / 2
    has_fill, has_top = fill[:, 0] > 0, top[:, 0] > 0
    stride = [ranks / np.maximum(level[:, 0], 1) for level in (base, fill, top)]
    length = top[:, 1] * top[:, 2]
    lines = np.where(has_top, np.ceil(part * half / length), 0)
    line = np.minimum(half, lines * length)
    gaps = np.where(has_top, 2 * line / top[:, 1], 0)
    sides = np.where(top[:, 3] > 0, 4, 2)
    side = np.where(has_top, (top[:, 1] - 1 - top[:, 3]) / sides, 0)
    reach = np.where(has_fill, fill[:, 2], base[:, 2])
    steps = np.ceil(side / reach)
    tail = np.ceil(np.maximum(0.0, half - line) / reach)
    spread = gaps * sides * steps + 2 * tail
    hub = np.where(has_fill, stride[1], np.where(has_top, stride[2], 1))
    climb = np.ceil(hub / 2 / base[:, 2])
    depth = climb + lines + np.maximum(steps, tail)
    # Between taps only lightpaths from certain hubs are used, and half of them where lines all tap the same hubs.
    below, far = np.where(has_fill, ranks // np.maximum(fill[:, 0], 1), 1), np.maximum(stride[2], 1).astype(np.int64)
    hop = np.where(has_fill, fill[:, 2], base[:, 2])
    uneven = np.maximum(1, np.gcd(far, hop) // below) * np.clip(2 * stride[2] / top[:, 1], 1, 2)
    uneven = np.where(has_top, uneven, np.where(has_fill, np.maximum(1, hop // below), 1))
    loads = np.stack(
        [
            climb + np.where(has_fill, 0, spread / 2 * uneven),
            np.where(has_fill, spread / 2 * stride[1] * uneven, 0),
            lines * np.where(has_top, stride[2], 0),
        ],
        axis=1,
    )
    return depth, loads * seconds


def _fitted(loads: Floats, colours: Ints, channels: int) -> tuple[Floats, Mask]:
    """The least seconds at which every level has the wavelengths that it needs, and whether there are any."""

    def fits(limit: Floats) -> Mask:
        needed = np.maximum(1, np.ceil(loads / limit[:, None])) * colours
        return np.asarray(needed.sum(axis=1) <= channels)

    high = np.maximum(loads.max(axis=1), 1e-15)
    inside = fits(high)
    low = high / channels
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        enough = fits(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high, inside


def _design(
    ranks: int, channels: int, levels: tuple[Ints, ...], loads: Floats, colours: Ints, part: float
) -> MulticastDesign:
    """What is left of the wavelengths goes to the level that is busiest, one at a time."""
    width = np.where(colours > 0, 1, 0)
    while True:
        left = channels - int(colours @ width)
        pressing = np.where((colours > 0) & (colours <= left), loads / np.maximum(width, 1), -1.0)
        most = int(np.argmax(pressing))
        if pressing[most] < 0 or (pressing[most] == 0 and most):
            break
        width[most] += 1
    arcs = tuple(
        Arc(int(hubs), int(spacing), int(taps), int(wide), int(between))
        for (hubs, spacing, taps, between), wide in zip(levels, width, strict=True)
        if wide
    )
    longest = int(np.ceil(part * (ranks - 1) / 2 / arcs[-1].links))
    return MulticastDesign(arcs, longest=longest if part < 1 and len(arcs) > 1 else None)
