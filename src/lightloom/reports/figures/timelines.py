"""A step over time: one lane a resource, and below what the step waits for.

compute      │ forward █████│ backward ████████│      │ update ██│
network      │        reconfigure ░│ all-reduce ▓▓▓▓▓▓│
waits for    │ compute                         │ com. │ compute  │
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.results import in_groups
from lightloom.core.timeline import SHARES as SHARE_OF
from lightloom.core.timeline import Interval, Timeline
from lightloom.core.units import format_time
from lightloom.reports.figures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 9.0
_DRAWN_WIDTH_POINTS = 540.0
_POINTS_PER_LETTER = 4.9
_NARROW = 0.004
"""Neighbours of one kind that are narrower than this share of the step are drawn as one."""
_PRECEDENCE = {
    "compute": "compute_s",
    "communication": "exposed_communication_s",
    "reconfiguration": "exposed_reconfiguration_s",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a lane in one colour; times in seconds."""

    key: str
    start: float
    end: float
    name: str = ""
    """Name of the interval, or of the first of those that are joined."""
    count: int = 1
    """Intervals that are joined in it."""


def task_kind(interval: Interval) -> str:
    """Return the kind of an interval by which it is coloured: the collective of a transmission (``all-reduce``, ...)
    where its details name one that has a colour in ``canvas.TASKS``, else the interval's category (``forward``,
    ``reconfiguration``, ...)."""
    collective = str(interval.details.get("collective", ""))
    return collective if interval.category == "transmission" and collective in canvas.TASKS else interval.category


def stretches(intervals: Sequence[Interval], least: float, *, join_compute: bool = True) -> list[Stretch]:
    """Return the stretches of one resource, in the order of its intervals, with neighbours joined that are too narrow
    to tell apart.

    Neighbours of one kind (:func:`task_kind`, the stretch's ``key``) are joined when the gap between them is under a
    quarter of ``least`` and one of them is shorter than ``least``. A joined stretch has the name of the first interval
    and the ``count`` of all. An interval without duration makes no stretch of its own.

    Args:
        intervals: intervals of the resource, in order of time.
        least: seconds; 0 joins nothing unless intervals overlap.
        join_compute: whether neighbours of one kind that compute are joined at such a gap however long they are.
    """
    joined: list[Stretch] = []
    for interval in intervals:
        key = task_kind(interval)
        before = joined[-1] if joined else None
        if before is not None and before.key == key and interval.start - before.end < least / 4:
            narrow = min(interval.duration, before.end - before.start) < least
            if narrow or (join_compute and SHARE_OF[interval.category] == "compute"):
                joined[-1] = Stretch(key, before.start, interval.end, before.name, before.count + 1)
                continue
        if interval.duration > 0:
            joined.append(Stretch(key, interval.start, interval.end, interval.name))
    return joined


def waits(timeline: Timeline) -> list[Stretch]:
    """Return what the step waits for as stretches that cover it without gaps from 0 to its end, in order and in
    seconds, no two neighbours with one key; the lengths of each key add up to ``timeline.breakdown()``.

    Keys are those of ``SHARES`` (``compute_s``, ``exposed_communication_s``, ``exposed_reconfiguration_s``,
    ``idle_s``): where several resources are busy at once, computing goes before communication, and communication before
    reconfiguration; where none is, the stretch is idle.
    """
    times = np.unique([0.0, *(t for interval in timeline.intervals for t in (interval.start, interval.end))])
    active = {share: np.zeros(len(times), np.int64) for share in _PRECEDENCE}
    for interval in timeline.intervals:
        change = active[SHARE_OF[interval.category]]
        change[np.searchsorted(times, interval.start)] += 1
        change[np.searchsorted(times, interval.end)] -= 1
    key = np.full(len(times), "idle_s", dtype=object)
    for share in reversed(_PRECEDENCE):
        key[np.cumsum(active[share]) > 0] = _PRECEDENCE[share]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    first = first[first < len(times) - 1]
    ends = [*times[first[1:]].tolist(), float(times[-1])]
    return [Stretch(key[at], float(times[at]), end) for at, end in zip(first, ends, strict=False)]


def busiest(timeline: Timeline, most: int) -> dict[str, list[Interval]]:
    """Return the intervals, by resource, of the at most ``most`` resources that get a lane in a drawing of the
    timeline.

    Resources that compute, the busiest first, get at least half of the lanes if they need them. The busiest of those
    that send get the rest, the busiest of those that only set circuits before all others. Lanes are ordered: computing
    ones first, names that are alike together in the order of first use, numbered ones by their numbers.
    """
    by_resource = in_groups(timeline.intervals, attrgetter("resource"))
    computing = {name: None for name, intervals in by_resource.items() if SHARE_OF[intervals[0].category] == "compute"}
    sending = [name for name in by_resource if name not in computing]
    load = {name: sum(interval.duration for interval in intervals) for name, intervals in by_resource.items()}
    chosen = sorted(computing, key=lambda name: -load[name])[: max(most - len(sending), most // 2)]
    turns = [name for name in sending if {each.category for each in by_resource[name]} == {"reconfiguration"}]
    turning = max(turns, key=lambda name: load[name], default=None)
    chosen += sorted(sending, key=lambda name: (name != turning, -load[name]))[: most - len(chosen)]
    prefixes = list(dict.fromkeys(_numbered(name)[0] for name in [*computing, *sending]))
    chosen.sort(key=lambda name: (name not in computing, prefixes.index(_numbered(name)[0]), _numbered(name)[1]))
    return {name: by_resource[name] for name in chosen}


def _numbered(name: str) -> tuple[str, tuple[int, ...]]:
    """Return (text before the first digit of a name, all numbers in it, in order), a key by which names are sorted."""
    return re.split(r"\d", name)[0], tuple(int(number) for number in re.findall(r"\d+", name))


@canvas.styled
def timeline_figure(timeline: Timeline, most: int = 16) -> Figure:
    """Draw the at most ``most`` resources that :func:`busiest` chooses of one step, a row each from the top, over
    milliseconds, and below them a row of what the whole step waits for; return the figure.

    Neighbours of one kind that are narrower than 0.4 % of the step are drawn as one. A legend names the colours of the
    resources' rows.
    """
    total = timeline.step_time or 1e-9
    shown = busiest(timeline, most)
    lanes = [(name, stretches(intervals, _NARROW * total), canvas.TASKS) for name, intervals in shown.items()]
    lanes.append(("waits for", waits(timeline), canvas.SHARES))
    figure, axes = canvas.single_panel(_WIDTH, 1.25 + (0.5 if len(lanes) <= 8 else 0.32) * len(lanes))
    for row, (_, lane_stretches, colours) in enumerate(lanes):
        for stretch in lane_stretches:
            _draw_stretch(axes, row, stretch, colours, total)
    axes.set(xlim=(0, total * 1e3), xlabel=f"milliseconds; the step takes {format_time(timeline.step_time)}")
    canvas.name_rows(axes, [name for name, _, _ in lanes])
    used = {stretch.key for _, lane_stretches, _ in lanes[:-1] for stretch in lane_stretches}
    canvas.colour_legend(figure, {words: colour for key, (words, colour) in canvas.TASKS.items() if key in used})
    return figure


def _draw_stretch(axes: Axes, row: int, stretch: Stretch, colours: Any, total: float) -> None:
    """Draw one stretch as a bar in a row, with the words of its key inside if they fit; an idle one has no words but a
    thin line along it. A stretch above 0.4 % of the step is set off from the one before by a white line.

    Args:
        axes: panel to draw in, in milliseconds.
        row: number of the row, from 0 at the top.
        stretch: the stretch, in seconds.
        colours: (words, colour) by key of stretches: ``canvas.TASKS``, or ``canvas.SHARES``, whose bars are half as
            high.
        total: seconds of the step.
    """
    words, colour = colours[stretch.key]
    width, height = stretch.end - stretch.start, 0.36 if colours is canvas.SHARES else 0.72
    axes.broken_barh([(stretch.start * 1e3, width * 1e3)], (row - height / 2, height), color=colour, linewidth=0)
    if width > _NARROW * total:
        axes.vlines([stretch.start * 1e3], row - height / 2, row + height / 2, color="white", linewidth=0.5)
    if stretch.key != "idle_s" and width / total * _DRAWN_WIDTH_POINTS > len(words) * _POINTS_PER_LETTER + 6:
        middle = (stretch.start + stretch.end) / 2 * 1e3
        axes.text(middle, row, words, ha="center", va="center", color="white", fontsize=8, fontweight="bold")
    elif stretch.key == "idle_s":
        axes.hlines(row, stretch.start * 1e3, stretch.end * 1e3, color=canvas.FAINT, linewidth=0.6)
