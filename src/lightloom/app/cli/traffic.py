"""``lightloom traffic``: several jobs on one cluster, each alone and beside the others."""

from typing import Annotated

from lightloom.app.api.traffic import TrafficResult
from lightloom.app.api.traffic import traffic as compare
from lightloom.app.cli.options import FigureFile, Shown, draw, read_settings
from lightloom.core.units import format_time
from lightloom.reports.console import Parts, screen


def traffic(
    *,
    jobs: Annotated[list[str] | None, "--job"] = None,
    cluster: str = "dgx-h100-64",
    set: list[str] | None = None,
    figure: FigureFile = None,
) -> Shown:
    """Place several jobs on one cluster: each one's step alone, and while the others use the same links.

    For example: lightloom traffic --job all-reduce@0-31:nbytes=64MiB --job all-to-all@32-63:nbytes=16MiB

    Args:
        jobs (JOB): A job: MODEL@RANKS:tp=4,global-batch=64 or KIND@RANKS:nbytes=64MiB; RANKS is first-last or
            first-last/step. Repeatable, at least two.
        cluster: A cluster of the catalog, or a YAML file.
        set: field=value of the cluster; repeatable.
        figure: Draw what of each link every job takes (.svg, .png, .pdf).

    Returns:
        The result to print: times of each job alone and together.

    Raises:
        InputError: fewer than two jobs, or one that cannot be read or has no plan.
    """
    result = compare(jobs or (), cluster, set=read_settings(set))
    document = result.to_json()
    return Shown(document, _answer(result), {"drawn": draw(figure, result.figure, document)})


def _answer(result: TrafficResult) -> Parts:
    """Return what the terminal shows: the job that the others slow most and its exchange that they slow most, a row for
    each job, and how the fabric is shared. Slowdowns are times together over times alone; up to 1.0005 nothing counts
    as slowed, and neither the exchange nor the job is named."""
    slowest = max(result.jobs, key=lambda each: each.slowdown)
    best = [f"{slowest.alone.job.label} is slowed most: {slowest.slowdown:.3f} times as long as alone"]
    if slowest.slowdown <= 1.0005:
        best = ["no job slows another: each takes as long as alone"]
    slowed = {name: times for name, times in slowest.slowdowns.items() if times > 1.0005}
    if slowed:
        name = max(slowed, key=lambda name: slowed[name])
        busy = next(each.busy for each in slowest.alone.exchanges if each.sort == name)
        best.append(f"its {name}, {format_time(busy)} of a step alone, take {slowed[name]:.3f} times as long")
    return screen(
        result.title,
        best,
        result.display_rows(),
        all=True,
        legend="slowdown: times as long together as alone",
        limit=result.shared,
        more=["--figure FILE.png draws what of each link every job takes"],
    )
