"""Content of a report as plain data that knows nothing of its display; SI units throughout."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.cost.price import Cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.claims import Claim, Status
from lightloom.core.files import write_atomically
from lightloom.core.results import Document, in_groups
from lightloom.core.timeline import Counter, Timeline
from lightloom.core.units import format_energy
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.reports.figures.canvas import SHARES, TASKS, cyclic_colours
from lightloom.reports.figures.links import in_steps, lightpaths
from lightloom.reports.figures.timelines import busiest, stretches, task_kind

# What a reader of a page may look at plan by plan: the timeline, what takes the time, the memory; and the light of a
# schedule step by step. Plain data that the page's script draws.

LANES = 16
"""Resources of a timeline, the busiest."""
_STRETCHES = 1_500
"""Stretches of a timeline; of more, narrow neighbours are joined."""
_TASKS = 40
"""Rows of the table of what takes the time."""
_LIGHTPATHS = 15_000
"""Lightpaths of a map; of a schedule with more, some of its steps are left out."""
_RESOLUTION = 10**7
"""Parts of a step in which the page's times are counted."""
_PASS = re.compile(r" (forward|backward)$")
_PART = re.compile(r"/\d+(?= |$)")


def explored_plan(
    timeline: Timeline,
    label: str,
    memory: Mapping[str, float],
    capacity: float | None,
    exchanges: Sequence[tuple[str, ...]] = (),
) -> Document:
    """Return what the page shows of one plan when its row is picked, as a JSON document.

    Its keys are ``label``, ``step`` (seconds), ``lanes`` (names, at most 16), ``resources`` (number of all),
    ``stretches``, ``joined``, ``tasks`` (at most 40), ``exchanges``, ``memory`` and ``capacity``. A stretch is [number
    of its lane, kind (`task_kind`), start, duration, name, how many intervals it joins], times in 10^-7 parts of the
    step; a task is [name, kind, times, seconds on all resources, seconds of the longest]. Neighbours are joined until
    there are at most 1,500 stretches; ``joined`` is the length in seconds below which they are, 0 where there are few
    enough at once. ``memory`` is a list of pairs (what for, bytes).

    Args:
        timeline: of the plan's step; its resources that :func:`busiest` chooses get a lane each.
        label: the plan in a few words.
        memory: bytes of the fullest rank by what they are for.
        capacity: bytes of the accelerator's memory; None when unknown.
        exchanges: a row for each collective of the step: kind, ranks, stride, size, algorithm; texts as shown.
    """
    busy, below = busiest(timeline, LANES), 0.0
    while True:
        lanes = [stretches(intervals, below, join_compute=False) for intervals in busy.values()]
        if sum(map(len, lanes)) <= _STRETCHES or below >= timeline.step_time:
            break
        below = below * 2 or timeline.step_time / 4_096
    whole = timeline.step_time or 1.0
    return {
        "label": label,
        "step": timeline.step_time,
        "lanes": list(busy),
        "resources": len(timeline.resources),
        "joined": below,
        "stretches": [
            [lane, each.key, *(round(time / whole * _RESOLUTION) for time in times), each.name, each.count]
            for lane, lane_stretches in enumerate(lanes)
            for each in lane_stretches
            for times in [(each.start, each.end - each.start)]
        ],
        "tasks": _tasks(timeline),
        "exchanges": [list(row) for row in exchanges],
        "memory": list(memory.items()),
        "capacity": capacity,
    }


def _tasks(timeline: Timeline) -> list[tuple[str, str, int, float, float]]:
    """Return (name, kind, number of intervals, seconds on all resources, seconds of the longest) for each operator and
    kind (:func:`task_kind`); most seconds first, at most 40.

    Numbers of an operator's parts (``/3``), and the words ``forward`` and ``backward`` at the end, are left out of
    names, so that intervals of one kind that differ in nothing else count together.
    """
    alike = in_groups(timeline.intervals, lambda each: (_PART.sub("", _PASS.sub("", each.name)), task_kind(each)))
    seconds = {key: [interval.duration for interval in intervals] for key, intervals in alike.items()}
    tasks = [(*key, len(took), sum(took), max(took)) for key, took in seconds.items()]
    return sorted(tasks, key=lambda task: -task[3])[:_TASKS]


def light_map(schedule: Schedule, fabric: Fabric) -> Document | None:
    """Return the lightpaths of a schedule step by step, as the page shows them, as a JSON document; None on a fabric
    without wavelengths on links.

    Its keys are ``title``, ``ranks``, ``channels`` (of a link in one direction), ``steps``, ``shown`` (numbers of the
    steps that are shown, from 0), ``rows`` and ``colours`` (one a rank). A row is [place of the step in ``shown``,
    source, destination, way (0 clockwise, 1 counter-clockwise), first channel (counted through all fibres), number of
    channels, number of links]; a colour is ``#rrggbb``. At most 15,000 // (lightpaths of the fullest step) steps are
    shown, at least one; where the schedule has more, they are evenly spaced. It may be of any kind (:func:`in_steps`).
    """
    if not (fabric.exclusive and fabric.wavelength_routed):
        return None
    schedule = in_steps(schedule, fabric)
    paths = lightpaths(schedule, fabric)
    per_step = np.bincount(paths.step, minlength=schedule.steps)
    most = int(max(1, _LIGHTPATHS // max(per_step.max(initial=1), 1)))
    shown = np.unique(np.linspace(0, schedule.steps - 1, min(schedule.steps, most)).astype(np.int64))
    kept = np.isin(paths.step, shown)
    columns = (paths.source, paths.destination, paths.route, paths.channel, paths.count, paths.hops)
    rows = np.column_stack([np.searchsorted(shown, paths.step[kept]), *(column[kept] for column in columns)])
    colours = np.rint(cyclic_colours(fabric.ranks) * 255).astype(int).tolist()
    return {
        "title": f"{schedule.algorithm}: {schedule.collective.kind} among {fabric.ranks} ranks",
        "ranks": fabric.ranks,
        "channels": fabric.channels,
        "steps": schedule.steps,
        "shown": shown.tolist(),
        "rows": rows.tolist(),
        "colours": [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in colours],
    }


def page_data(plans: Mapping[int, Document], light: Document | None) -> str:
    """Return the JSON text that the page's script reads, safe inside a ``script`` element (``<`` and ``&`` are escaped
    as JSON does); names of stretches are replaced by their places, from 0, in one list for all plans (``names``).

    Its other keys are ``resolution`` (parts of a step in which times are counted, 10^7), ``kinds`` ([words, colour] by
    kind of task), ``plans`` (by place in the ranking, as text) and ``light``.

    Args:
        plans: what :func:`explored_plan` returned, by places in the ranking.
        light: what :func:`light_map` returned; None leaves the key out.
    """
    rows = [row for plan in plans.values() for row in plan["stretches"]]
    names = {name: number for number, name in enumerate(dict.fromkeys(row[4] for row in rows))}
    data: Document = {"resolution": _RESOLUTION, "kinds": {key: list(value) for key, value in TASKS.items()}}
    data["plans"] = {
        str(place): plan | {"stretches": [[*row[:4], names[row[4]], row[5]] for row in plan["stretches"]]}
        for place, plan in plans.items()
    }
    data["names"] = list(names)
    if light is not None:
        data["light"] = light
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")


PAGE_WIDTH = 110
"""Columns of the lines of an answer on a page and in a notebook."""
FRONT = "◆"
"""Marks what no other plan beats in time and energy both."""
ALIKE = "≈"
"""Marks rows whose time the 90 % interval of the difference does not tell apart from the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingRow:
    """One way to run the job.

    Raises:
        ValueError: the breakdown has an unknown part, or does not add up to the step time.
    """

    strategy: str
    label: str
    """The plan in a few words, which may hold its strategy."""
    step_time: float
    """Duration of the step, in seconds."""
    breakdown: Mapping[str, float]
    """Seconds by what the step waits for, as ``Timeline.breakdown()`` gives them."""
    place: int = 0
    """Place in the ranking, from 1 on; 0 outside of a ranking."""
    exchange: str | None = None
    """Method by which replicas exchange gradients, in a few words; None for as they are."""
    exchange_effect: str = ""
    """Time that the method saves or loses against the same plan with gradients as they are, in a few words."""
    exchange_accuracy: str = ""
    """Known effect of the method on the loss: ``not measured``, or ``measured: `` and by which runs."""
    energy: float | None = None
    """Joules of a step over all ranks; None when some part has no source."""
    verified: bool = False
    """True when every schedule in it passed the verifier; else a closed form of a collective library stands for
    them."""
    lower_bound_ratio: float | None = None
    """Communication time over its proved lower bound."""
    fits: bool | None = None
    """True when a rank's memory holds it; None when the memory's size is unknown."""
    site: str = ""
    """Name of the cluster with its number of ranks."""
    global_batch: int = 1
    """Samples of a step."""
    memory: float | None = None
    """Bytes of the fullest rank."""
    known_energy: float | None = None
    """Joules of a step of the parts that have a source."""
    energy_mark: str = ""
    """Mark that says how the joules compare to the true ones: one of ``planning.economics.ledger.MARKS``."""
    on_front: bool = False
    """True when no other plan is better in time and energy both."""
    interval: str = ""
    """The 90 % interval of the step time, with :data:`ALIKE` where the row is not told apart from the first."""
    runnable: bool = True
    """True when a training framework can run the plan."""

    def __post_init__(self) -> None:
        unknown = set(self.breakdown) - set(SHARES)
        if unknown:
            raise ValueError(f"breakdown of {self.label}: unknown {sorted(unknown)}, expected {', '.join(SHARES)}")
        total = sum(self.breakdown.values())
        if not math.isclose(total, self.step_time, rel_tol=1e-6, abs_tol=1e-12):
            wanted = f"the step time of {self.step_time} s"
            raise ValueError(f"breakdown of {self.label} adds up to {total} s, not to {wanted}")

    @property
    def samples_per_second(self) -> float:
        """Samples that all ranks together train in a second; infinite for a step that takes no time."""
        return self.global_batch / self.step_time if self.step_time else float("inf")

    @property
    def sample_time(self) -> float:
        """Seconds of a step divided by the samples that all ranks together train in it."""
        return self.step_time / self.global_batch

    @property
    def joules_per_sample(self) -> float | None:
        """Joules of a sample over all ranks: all of them where they are known, else those of the parts with a source;
        None where no part has one."""
        joules = self.energy if self.energy is not None else self.known_energy
        return None if joules is None else joules / self.global_batch

    @property
    def energy_per_sample(self) -> str:
        """Joules of a sample over all ranks as text with four significant digits and a unit from µJ to MJ, behind
        ``energy_mark`` (``≥ ``, ``≤ ``, ``~ `` or nothing, by how they compare to the true ones); ``not sourced``,
        without a mark, where no part has a source."""
        known = self.joules_per_sample
        return f"{'' if known is None else self.energy_mark}{format_energy(known)}"

    def per_sample(self) -> dict[str, float]:
        """Return the seconds of a step by what it waits for (those of ``compute_s``, ``exposed_communication_s``,
        ``exposed_reconfiguration_s`` and ``idle_s`` that the row has), divided by the samples of the step over all
        ranks."""
        return {key: seconds / self.global_batch for key, seconds in self.breakdown.items()}


class CollectiveRow(NamedTuple):
    """A verified schedule of one algorithm, with its cost and what no algorithm can beat."""

    algorithm: str
    cost: Cost
    bound: Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure as SVG, from :func:`lightloom.reports.figures.canvas.to_svg`."""

    title: str
    svg: str
    caption: str = ""
    explored: bool = False
    """True when the part of the page that scripts draw shows the same picture, and hides this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Any other table; cells are text as shown. Columns of numbers only are set flush right.

    Raises:
        ValueError: a row has another number of cells than there are columns.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.title!r}: a row has {len(row)} cells for {len(self.columns)} columns")


def table_of(title: str, rows: Sequence[Mapping[str, object]], caption: str = "") -> Table:
    """Return a table of rows, of which there must be at least one; the keys of the first are the columns, and cells are
    text by ``str``, taken by their place, whatever the keys of later rows. An empty ``caption`` means none.

    Raises:
        ValueError: a row has another number of cells than the first.
    """
    texts = tuple(tuple(map(str, row.values())) for row in rows)
    return Table(title=title, columns=tuple(rows[0]), rows=texts, caption=caption)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One page: of a plan, a collective, or a study. Sections without content are left out."""

    title: str
    headline: str
    """The result in a few words."""
    answer: tuple[str, ...] = ()
    """Lines that follow the headline, as the terminal has them; empty where there are none."""
    explanation: str = ""
    """Why, in one sentence."""
    facts: tuple[tuple[str, str], ...] = ()
    """(name, value): model, cluster, batch, precision, ..."""
    ranking: tuple[RankingRow, ...] = ()
    """Rows of the ranking, the fastest first."""
    reference: tuple[RankingRow, ...] = ()
    """Rows of the job on the fabric that is compared with."""
    reference_name: str = "Reference fabric"
    not_sourced: tuple[str, ...] = ()
    """Values that no publication gives, hence left out or assumed."""
    notes: tuple[str, ...] = ()
    """Assumptions, and what the algorithms say about their choices."""
    pictures: tuple[Picture, ...] = ()
    collectives: tuple[CollectiveRow, ...] = ()
    collectives_title: str = "Collectives"
    memory: Mapping[str, float] = field(default_factory=dict)
    """Bytes of the fullest rank's memory by what they are for."""
    memory_capacity: float | None = None
    """Bytes of the accelerator's memory; None when unknown."""
    claims: tuple[Claim, ...] = ()
    """Published figures beside ours."""
    counts: Mapping[Status, int] = field(default_factory=dict)
    """Printed numbers by status."""
    tables: tuple[Table, ...] = ()
    explored: Mapping[int, Document] = field(default_factory=dict)
    """Plans of the ranking that a reader may look into, from :func:`explored_plan`, by their places."""
    light: Document | None = None
    """The schedule whose wavelengths a reader may look at step by step, from :func:`light_map`."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Version, configuration hash and seed, from :func:`lightloom.core.results.provenance`."""


# A timeline as a Chrome trace, which https://ui.perfetto.dev opens.
#
# Format: "Trace Event Format" (Chromium project): complete events ``X`` with begin and duration in
# microseconds, metadata events ``M`` that name process and threads, counters ``C``, and flows from ``s`` to ``f`` for
# every dependency between two resources: from computing to the collective that waits for it, and back.

MICROSECONDS = 1e6


def write_perfetto_trace(
    path: Path, timeline: Timeline, *, title: str, provenance: Mapping[str, Any], counters: Sequence[Counter] = ()
) -> Path:
    """Write a timeline as a JSON trace for Chrome's and Perfetto's viewers, whole or not at all, and return its path.

    The trace has one process, a thread for each resource and a track for each counter. Times are in microseconds;
    dependencies between resources are arrows.

    Args:
        path: where it is written; missing folders are made.
        timeline: intervals of a step; their details become the arguments of the events.
        title: name of the process.
        provenance: put into the trace's metadata.
        counters: values over time, each with the moments, in seconds, from which on they hold.

    Raises:
        ConfigError: the place cannot be written to.
        ValueError: a value or a detail is infinite or NaN.
    """
    threads = {resource: number for number, resource in enumerate(timeline.resources, start=1)}
    named: list[tuple[str, int, Document]] = [("process_name", 0, {"name": title})]
    for resource, number in threads.items():
        named += [("thread_name", number, {"name": resource}), ("thread_sort_index", number, {"sort_index": number})]
    intervals = [
        {
            "ph": "X",
            "name": interval.name,
            "cat": interval.category,
            "pid": 1,
            "tid": threads[interval.resource],
            "ts": interval.start * MICROSECONDS,
            "dur": interval.duration * MICROSECONDS,
            "args": dict(interval.details),
        }
        for interval in timeline.intervals
    ]
    values = [
        {"ph": "C", "name": counter.name, "pid": 1, "ts": moment * MICROSECONDS, "args": {"value": value}}
        for counter in counters
        for moment, value in zip(counter.moments, counter.values, strict=True)
    ]
    metadata = [{"ph": "M", "name": kind, "pid": 1, "tid": thread, "args": facts} for kind, thread, facts in named]
    events = [*metadata, *intervals, *_flows(timeline, threads), *values]
    document = {"traceEvents": events, "displayTimeUnit": "ns", "metadata": {"provenance": dict(provenance)}}
    return write_atomically(path, json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n")


def _flows(timeline: Timeline, threads: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield both ends, as trace events ``s`` and ``f``, of an arrow for each dependency between intervals of two
    resources, in the order of the later intervals.

    The first end lies in the middle of the earlier interval, where no other one can be meant; viewers draw the arrow
    from that interval's end.

    Args:
        timeline: intervals of a step; a dependency is a number in ``after`` that another one has as its ``task``.
        threads: number of the thread of each resource, by its name.
    """
    of_task = {interval.task: interval for interval in timeline.intervals if interval.task is not None}
    count = 0
    for interval in timeline.intervals:
        for earlier in (of_task[number] for number in interval.after):
            if earlier.resource != interval.resource:
                count += 1
                common = {"bp": "e", "name": "waits for", "cat": "dependency", "id": count, "pid": 1}
                middle = earlier.start + earlier.duration / 2
                for phase, end, moment in (("s", earlier, middle), ("f", interval, interval.start)):
                    yield {"ph": phase, **common, "tid": threads[end.resource], "ts": moment * MICROSECONDS}
