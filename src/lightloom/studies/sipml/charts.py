"""Figures of the comparison: time and speed-up against bandwidth, scaling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lightloom.reports.figures.palette import FAINT, INK
from lightloom.studies.base import StudyFigure
from lightloom.studies.canvas import BLUE, GREEN, ORANGE, RED, canvas
from lightloom.studies.sipml import PAPER
from lightloom.studies.sipml.comparison import Comparison
from lightloom.studies.sipml.paper import BANDWIDTHS, HEADLINE, JOBS, NAMES, SCALING
from lightloom.studies.sipml.systems import System

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class _Line(NamedTuple):
    label: str
    system: System
    most: float | None
    """Largest bandwidth of a port, in Gb/s; None without a limit."""
    colour: str
    style: str

    def port(self, gbps: float) -> float:
        return gbps if self.most is None else min(gbps, self.most)


_LINES = (
    _Line("electrical, 200 Gb/s", "electrical", 200, ORANGE, "-"),
    _Line("electrical, 400 Gb/s", "electrical", 400, RED, "-"),
    _Line("ideal electrical", "electrical", None, INK, "--"),
    _Line("SiP-OCS", "ocs", None, BLUE, "-o"),
    _Line("SiP-Ring", "ring", None, GREEN, "-s"),
)


def figures(measured: Comparison) -> tuple[StudyFigure, ...]:
    """Return the figures of the comparison."""
    return (
        PAPER.figure(partial(times_figure, measured)),
        PAPER.figure(partial(speedup_figure, measured)),
        PAPER.figure(partial(scaling_figure, measured)),
    )


def times_figure(measured: Comparison) -> Figure:
    """A panel for each model."""
    figure, panels = canvas(len(JOBS))
    for axes, model in zip(panels, JOBS, strict=True):
        for line in _LINES:
            hybrid = [_milliseconds(measured.best(model, line.system, line.port(gbps))) for gbps in BANDWIDTHS]
            alone = [1e3 * measured.seconds(model, line.system, line.port(gbps), 1) for gbps in BANDWIDTHS]
            axes.plot(BANDWIDTHS, hybrid, line.style, color=line.colour, label=line.label, ms=4)
            axes.plot(BANDWIDTHS, alone, color=line.colour, lw=0.6)
        winners = [1e3 * measured.rival(model, "electrical", gbps).get("step_s", float("nan")) for gbps in BANDWIDTHS]
        axes.plot(BANDWIDTHS, winners, color=FAINT, lw=3, alpha=0.6, zorder=0.5, label="search's winner, ideal")
        _log_axes(axes, BANDWIDTHS, "Gb/s of a GPU", NAMES[model])
    panels[0].set_ylabel("ms a step")
    _legend(figure, panels[0])
    return figure


def speedup_figure(measured: Comparison) -> Figure:
    """A panel for each model."""
    figure, panels = canvas(len(JOBS), sharey=True)
    for axes, model in zip(panels, JOBS, strict=True):
        axes.axhspan(*HEADLINE, color=FAINT, alpha=0.18, lw=0, label="paper, 1.3 to 9.1")
        for line in _LINES[3:]:
            for today, width in ((400.0, 1.8), (200.0, 0.8)):
                speedups = [measured.speedup(model, line.system, gbps, today) for gbps in BANDWIDTHS]
                axes.plot(
                    BANDWIDTHS,
                    speedups,
                    line.style,
                    color=line.colour,
                    lw=width,
                    ms=4,
                    label=f"{line.label} over {today:g} Gb/s",
                )
        for today, width in ((400.0, 1.8), (200.0, 0.8)):
            speedups = [measured.script_speedup(model, gbps, today) for gbps in BANDWIDTHS]
            axes.plot(BANDWIDTHS, speedups, ":", color=INK, lw=width, label=f"scripts' model over {today:g} Gb/s")
        _log_axes(axes, BANDWIDTHS, "Gb/s of a GPU", NAMES[model])
    panels[0].set_ylabel("times as fast as electrical")
    _legend(figure, panels[0])
    return figure


def scaling_figure(measured: Comparison) -> Figure:
    """A panel for each model."""
    figure, panels = canvas(len(JOBS))
    for axes, model in zip(panels, JOBS, strict=True):
        batch = JOBS[model].global_batch
        for line in _LINES:
            steps = [measured.best(model, line.system, line.port(BANDWIDTHS[-1]), ranks) for ranks in SCALING]
            rates = [batch / step.seconds / 1e3 if step else float("nan") for step in steps]
            axes.plot(SCALING, rates, line.style, color=line.colour, label=line.label, ms=4)
            if line.system == "ocs":
                axes.plot(SCALING, [rates[0] * ranks / SCALING[0] for ranks in SCALING], color=FAINT, lw=0.8)
        _log_axes(axes, SCALING, "GPUs", NAMES[model])
    panels[0].set_ylabel("thousand samples a second")
    _legend(figure, panels[0])
    return figure


def _milliseconds(choice: tuple[int, float] | None) -> float:
    return float("nan") if choice is None else 1e3 * choice[1]


def _log_axes(axes: Axes, ticks: Sequence[float], label: str, title: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(ticks, [f"{each:g}" for each in ticks], fontsize=8)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(label)
    axes.set_title(title)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
