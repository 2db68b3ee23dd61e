"""What a reader of a page may look at plan by plan: the timeline, what takes the time, the memory; and the light of a
schedule step by step. Plain data that the page's script draws."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.fabrics.base import Fabric
from lightloom.reports.figures.occupancy import in_steps, lightpaths
from lightloom.reports.figures.palette import TASKS, cyclic_colours
from lightloom.reports.figures.timeline_figure import Stretch, busiest, kind_of, stretches
from lightloom.simulation.timeline import Timeline

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


@dataclass(frozen=True, slots=True)
class Task:
    """What computes or sends under one name, on all resources of the simulated group together."""

    name: str
    kind: str
    """A key of ``palette.TASKS``."""
    times: int
    seconds: float
    longest: float
    """Seconds of the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredPlan:
    """One plan of the ranking, as the page shows it when its row is picked."""

    place: int
    label: str
    step_time: float
    """Seconds."""
    lanes: Mapping[str, Sequence[Stretch]]
    """Stretches of the busiest resources, by resource."""
    joined_below: float
    """Seconds below which neighbours of one kind are drawn as one; 0 where none are."""
    resources: int
    """All resources of the timeline."""
    tasks: Sequence[Task]
    """What takes the most time, the largest first."""
    exchanges: Sequence[tuple[str, ...]]
    """Collectives of the step: kind, ranks, stride, size, algorithm; text as shown."""
    memory: Mapping[str, float]
    """Bytes of the fullest rank by what they are for."""
    capacity: float | None
    """Bytes of the accelerator's memory; None when unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LightMap:
    """The lightpaths of a schedule on a WDM ring, step by step."""

    title: str
    ranks: int
    channels: int
    steps: int
    shown: Sequence[int]
    """Steps that are in ``rows``, from 0 on."""
    rows: Sequence[Sequence[int]]
    """A lightpath each: index in ``shown``, source, destination, way (0 clockwise), first channel, channels, links."""


def explored_plan(
    timeline: Timeline,
    place: int,
    label: str,
    memory: Mapping[str, float],
    capacity: float | None,
    exchanges: Sequence[tuple[str, ...]] = (),
) -> ExploredPlan:
    """What the page shows of one plan."""
    shown = busiest(timeline, LANES)
    below = 0.0
    lanes = {name: stretches(intervals, below, join_compute=False) for name, intervals in shown.items()}
    while sum(map(len, lanes.values())) > _STRETCHES and below < timeline.step_time:
        below = below * 2 or timeline.step_time / 4_096
        lanes = {name: stretches(intervals, below, join_compute=False) for name, intervals in shown.items()}
    return ExploredPlan(
        place=place,
        label=label,
        step_time=timeline.step_time,
        lanes=lanes,
        joined_below=below,
        resources=len(timeline.resources),
        tasks=_tasks(timeline),
        exchanges=exchanges,
        memory=memory,
        capacity=capacity,
    )


def _tasks(timeline: Timeline) -> list[Task]:
    """Intervals by operator, without the numbers of its parts and of devices, and by kind."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for interval in timeline.intervals:
        name = _PART.sub("", _PASS.sub("", interval.name))
        seconds.setdefault((name, kind_of(interval)), []).append(interval.duration)
    tasks = [Task(name, kind, len(took), sum(took), max(took)) for (name, kind), took in seconds.items()]
    return sorted(tasks, key=lambda task: -task.seconds)[:_TASKS]


def light_map(schedule: Schedule, fabric: Fabric) -> LightMap | None:
    """The lightpaths of a schedule; None on fabrics without wavelengths on links."""
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
    return LightMap(
        title=f"{schedule.algorithm}: {schedule.collective.kind} among {fabric.ranks} ranks",
        ranks=fabric.ranks,
        channels=fabric.channels,
        steps=schedule.steps,
        shown=shown.tolist(),
        rows=rows.tolist(),
    )


def page_data(plans: Iterable[ExploredPlan], light: LightMap | None) -> str:
    """The JSON that the page's script reads, safe inside a ``script`` element."""
    names: dict[str, int] = {}
    data: dict[str, Any] = {"resolution": _RESOLUTION, "kinds": {key: list(value) for key, value in TASKS.items()}}
    data["plans"] = {str(plan.place): _plan_data(plan, names) for plan in plans}
    data["names"] = list(names)
    if light is not None:
        colours = [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in _bytes(light.ranks)]
        data["light"] = {
            "title": light.title,
            "ranks": light.ranks,
            "channels": light.channels,
            "steps": light.steps,
            "shown": list(light.shown),
            "colours": colours,
            "rows": [list(row) for row in light.rows],
        }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")


def _bytes(ranks: int) -> list[list[int]]:
    colours: list[list[int]] = np.rint(cyclic_colours(ranks) * 255).astype(int).tolist()
    return colours


def _plan_data(plan: ExploredPlan, names: dict[str, int]) -> dict[str, Any]:
    """One plan; a stretch is [lane, kind, start, duration, name, how many it joins], times in parts of the step."""
    whole = plan.step_time or 1.0
    lanes = list(plan.lanes)
    rows = [
        [
            lane,
            stretch.key,
            round(stretch.start / whole * _RESOLUTION),
            round((stretch.end - stretch.start) / whole * _RESOLUTION),
            names.setdefault(stretch.name, len(names)),
            stretch.count,
        ]
        for lane, name in enumerate(lanes)
        for stretch in plan.lanes[name]
    ]
    return {
        "label": plan.label,
        "step": plan.step_time,
        "lanes": lanes,
        "resources": plan.resources,
        "joined": plan.joined_below,
        "stretches": rows,
        "tasks": [[task.name, task.kind, task.times, task.seconds, task.longest] for task in plan.tasks],
        "exchanges": [list(row) for row in plan.exchanges],
        "memory": list(plan.memory.items()),
        "capacity": plan.capacity,
    }
