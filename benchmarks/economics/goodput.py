"""Where the closed form of goodput breaks: ``python -m benchmarks.economics.goodput``.

Writes the tables of ``docs/economics/goodput.md`` and its picture: two jobs as ``lightloom goodput`` describes them,
played event by event as the closed form assumes and otherwise. The mean rate of a node's failures stays the same.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.support.measure import exit_clearly
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance, provenance_line
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.economics.estimate import MONTH, estimate_cluster
from lightloom.planning.economics.job import Job, Played, World, simulate
from lightloom.reports.figures.canvas import INK, PARALLELISM, save, single_panel, styled
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = Path("docs/economics/goodput.md")
PICTURE = Path("docs/pictures/economics/goodput.png")
CLUSTER = "h100-1024-no-nvlink-400g"
JOBS = ((1024, 1200.0), (16384, 120.0))
"""Ranks, and months of each run."""
RUNS = 16
_HEADING = "## Where the assumptions break\n"
_INTRODUCTION = """The simulation plays the same inputs event by event and shares no formula with the closed form. Under
its assumptions both agree to 1 % on 200 random settings (a slow test). `python -m benchmarks.economics.goodput` writes
this section: what is kept where lifetimes, repairs or racks are otherwise, the mean rate of a node's failures being the
same, with twice the standard error."""
_REMARKS = """New nodes begin at age 0 together, so that shapes below 1 show the early failures of a young cluster and
shapes above 1 its first years without; after a repair a node is as new. A rack that fails as a whole interrupts once
where single nodes interrupt several times, but takes more spares at once: large jobs gain by the first, small ones lose
by the second. Spares were chosen by the closed form: where repairs queue or racks fail as a whole, more of them pay."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is played in the place of an assumption."""

    name: str
    world: World
    rack_share: float = 0.0
    """Share of a node's failures that come with its rack."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One setting beside the closed form."""

    setting: Setting
    closed: float
    played: Played

    @property
    def deviation(self) -> float:
        """Share of the time that is kept beyond what the closed form says."""
        return self.played.goodput - self.closed


def settings(job: Job) -> list[Setting]:
    """Return the settings for a job; crews as nodes that are broken at once in the mean, and multiples."""
    broken = (job.nodes + job.spares) * job.node_rate * job.repair
    crews = sorted({max(math.ceil(factor * broken), 1) for factor in (1.1, 1.5, 2.0, 4.0)})
    shapes = (0.5, 0.7, 1.5, 3.0)
    return [
        Setting("as assumed", World()),
        *(Setting(f"Weibull lifetimes of shape {shape:g}", World(shape=shape)) for shape in shapes),
        *(Setting(f"{count} repair{'s' if count > 1 else ''} at once", World(crews=count)) for count in crews),
        *(
            Setting(f"{share:.0%} of failures take a rack of {rack} nodes", World(rack=rack), share)
            for rack, share in ((4, 0.1), (4, 0.5), (8, 0.1), (8, 0.5))
        ),
    ]


def outcome(job: Job, setting: Setting, months: float) -> Outcome:
    """Play one setting."""
    world = replace(setting.world, rack_rate=setting.rack_share * job.node_rate)
    alone = replace(job, node_rate=(1 - setting.rack_share) * job.node_rate, fixed_interval=job.interval)
    return Outcome(setting, job.goodput, simulate(alone, months * MONTH, runs=RUNS, world=world))


@styled
def figure(jobs: Sequence[tuple[int, Sequence[Outcome]]]) -> Figure:
    """Draw how much more or less is kept than the closed form says, in points of per cent."""
    drawn, axes = single_panel(7.2, 6.4)
    place = 0
    labels: list[str] = []
    for (ranks, outcomes), colour in zip(jobs, PARALLELISM, strict=True):
        places = np.arange(place, place + len(outcomes))
        axes.barh(
            places,
            [100 * each.deviation for each in outcomes],
            xerr=[200 * each.played.error for each in outcomes],
            height=0.7,
            color=colour,
            ecolor=INK,
            label=f"{ranks:,} ranks, closed form {outcomes[0].closed:.1%}",
        )
        labels += [each.setting.name for each in outcomes]
        place += len(outcomes)
    axes.set_yticks(np.arange(place), labels)
    axes.invert_yaxis()
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel("simulation less closed form, points of per cent (lines: two standard errors)")
    axes.set_xscale("symlog", linthresh=0.1)
    ticks = (-10, -1, -0.1, 0, 0.1, 1)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)
    return drawn


def section(jobs: Sequence[tuple[int, Job, Sequence[Outcome]]]) -> Iterator[str]:
    """Yield the lines of the page's section."""
    yield _HEADING.rstrip()
    yield ""
    yield _INTRODUCTION
    yield ""
    yield "![How much more or less is kept than the closed form says](../pictures/economics/goodput.png)"
    for ranks, job, outcomes in jobs:
        yield ""
        yield (
            f"{ranks:,} ranks of `{CLUSTER}`: {job.nodes:,} nodes and {job.spares} spares, an interruption every "
            f"{job.mtbf / 3600:.1f} h; {RUNS} runs of {outcomes[0].played.seconds / MONTH:,.0f} months."
        )
        yield ""
        yield "| played | kept | closed form | difference, points | waiting for repairs |"
        yield "| --- | ---: | ---: | ---: | ---: |"
        for each in outcomes:
            yield (
                f"| {each.setting.name} | {each.played.goodput:.2%} | {each.closed:.2%} | "
                f"{100 * each.deviation:+.2f} ± {200 * each.played.error:.2f} | {each.played.shares.waiting:.2%} |"
            )
    yield ""
    yield _REMARKS


def main() -> int:
    """Play all settings and write the section and its picture."""
    return exit_clearly(_run)


def _run() -> None:
    parser = argparse.ArgumentParser(description="Deviations of goodput's closed form.")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    for path in (options.page, options.picture):
        check_writable(path)
    cluster = load_cluster(CLUSTER)
    jobs = []
    for ranks, months in JOBS:
        job = estimate_cluster(cluster, ranks=ranks).job
        chosen = settings(job)
        with progress(f"{ranks} ranks", len(chosen)) as advance:
            outcomes = []
            for setting in chosen:
                outcomes.append(outcome(job, setting, months))
                advance(1)
        jobs.append((ranks, job, outcomes))
    origin = provenance([CLUSTER, JOBS, RUNS], 0)
    save(figure([(ranks, outcomes) for ranks, _, outcomes in jobs]), options.picture, provenance_line(origin))
    text = options.page.read_text(encoding="utf-8")
    before, _, after = text.partition(_HEADING)
    rest = after.partition("\n## ")
    kept = f"\n## {rest[2]}" if rest[1] else ""
    write_atomically(options.page, before.rstrip() + "\n\n" + "\n".join(section(jobs)) + "\n" + kept)


if __name__ == "__main__":
    raise SystemExit(main())
