"""The OpTree study, with Figs. 4, 5 and 6 drawn anew.

Lines are the paper's formulas, points are trees that a ring can be cut into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.collectives.algorithms.optree import best_radices, stage_steps
from lightloom.papers.optree import PAPER, rows
from lightloom.papers.optree.rows import (
    BY_RANKS,
    BY_WAVELENGTHS,
    DEPTHS,
    FIGURE_4_RANKS,
    INSET,
    SIZES,
    Settings,
    constructed,
    curve,
    literal_steps,
    paper_steps,
    seconds,
)
from lightloom.papers.page import BLUE, GREEN, ORANGE, RED, SKY, canvas
from lightloom.papers.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {"OpTree": RED, "WRHT": SKY, "NE": GREEN, "Ring": "#AAAAAA"}
_BY_RANKS = dict(zip(FIGURE_4_RANKS, (BLUE, GREEN, ORANGE, RED), strict=True))
_MIB = 2**20


def study() -> Study:
    """Return the OpTree study with all rows and with Figs. 4, 5 and 6."""
    return PAPER.study(rows.claims(), depth_figure, nodes_figure, wavelengths_figure)


def depth_figure() -> Figure:
    """Draw Fig. 4: steps by Theorem 1 over the least of them at this number of ranks, against the depth k, a line for
    each number of ranks, with points for the best trees found of integer radices (:func:`constructed`); all depths on
    the left, the paper's inset (depths 5 to 9) on the right; the left y axis is logarithmic."""
    from matplotlib.lines import Line2D

    figure, (whole, inset) = canvas(2, size=(10, 4.5), grid="both")
    for axes, depths in ((whole, DEPTHS), (inset, INSET)):
        for place, n in enumerate(FIGURE_4_RANKS):
            steps, lowest, colour = curve(n), min(curve(n).values()), _BY_RANKS[n]
            ties = [k for k in DEPTHS if steps[k] == lowest]
            label = f"N = {n}, lowest at k = {' to '.join(str(k) for k in sorted({ties[0], ties[-1]}))}: {lowest} steps"
            axes.plot(depths, [steps[k] / lowest for k in depths], color=colour, label=label)
            # Side by side, so that equal values do not hide each other.
            aside = (place - 1.5) * 0.07 if axes is inset else 0.0
            points = [(k + aside, tree[1] / lowest) for k in depths if (tree := constructed(n, k))]
            axes.plot(*zip(*points, strict=True), "o", ms=5, mfc="white", mec=colour, zorder=3)
        axes.set(xticks=list(depths), xlabel="depth k (stages)")
    whole.set(yscale="log", ylabel="time / lowest time by Theorem 1", title="all depths")
    inset.set_title("the inset, depths 5 to 9")
    handles = [*whole.get_lines()[::2]]
    handles += [
        Line2D([], [], color="grey", label="Theorem 1"),
        Line2D([], [], ls="", marker="o", mfc="white", mec="grey", label="integer radices, the best found"),
    ]
    whole.legend(handles=handles, frameon=False, fontsize=9)
    return figure


def nodes_figure() -> Figure:
    """Draw Fig. 5: time against message size, as :func:`_draw_times` draws it, a panel each for 1,024 and 2,048 ranks
    at 64 wavelengths."""
    return _time_figure(BY_RANKS)


def wavelengths_figure() -> Figure:
    """Draw Fig. 6: time against message size, as :func:`_draw_times` draws it, a panel each for 96 and 128 wavelengths
    at 1,024 ranks."""
    return _time_figure(BY_WAVELENGTHS)


def _time_figure(settings: Settings) -> Figure:
    """Draw a panel of times against message sizes for each of two settings (ranks, wavelengths), as :func:`_draw_times`
    draws them, with a common y axis and one legend; titles are such as "N = 1024, w = 64"."""
    figure, panels = canvas(2, size=(10, 4.5), sharey=True, grid="both")
    for axes, (ranks, wavelengths) in zip(panels, settings, strict=True):
        _draw_times(axes, ranks, wavelengths)
        axes.set_title(f"N = {ranks}, w = {wavelengths}")
    panels[0].set_ylabel("time / OpTree's at 1 MiB")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _draw_times(axes: Axes, ranks: int, wavelengths: int) -> None:
    """Draw the times of Ring, NE (one share a step, and two), WRHT (N padded, and not) and OpTree (a line by Theorem 1,
    points for integer radices) by the paper's cost model over message sizes in MiB on logarithmic axes, relative to
    OpTree's (Theorem 1) at 1 MiB in this panel, with the numbers of steps written at the right ends of the lines."""
    steps = paper_steps(ranks, wavelengths)
    unit = seconds(steps["OpTree"], SIZES[0])
    mebibytes = [size / _MIB for size in SIZES]

    def draw(count: int, style: str, name: str, label: str, *, later_shares: int = 1, width: float = 1.5) -> None:
        """Plot one algorithm of ``count`` steps; every step but the first carries ``later_shares`` shares."""
        times = [seconds(count, size, later_shares=later_shares) / unit for size in SIZES]
        axes.plot(mebibytes, times, style, color=_COLOURS[name], label=label, lw=width, ms=5, mfc="white")

    built = sum(stage_steps(ranks, wavelengths, best_radices(ranks, wavelengths)))
    literal = literal_steps(ranks, wavelengths)["WRHT"]
    draw(steps["Ring"], "-", "Ring", "Ring", width=3.5)
    draw(steps["NE"], "--", "NE", "NE, 2d a step (text)", later_shares=2)
    draw(steps["WRHT"], "-", "WRHT", "WRHT, N padded to (2w+1)²", width=3.5)
    draw(steps["NE"], "-", "NE", "NE, d a step (averages)")
    draw(literal, ":", "WRHT", "WRHT, Table I's formula", width=2.2)
    draw(steps["OpTree"], "-", "OpTree", "OpTree, Theorem 1")
    draw(built, "o", "OpTree", "OpTree, integer radices")
    low, high = sorted(("NE", "WRHT"), key=lambda name: steps[name])
    ends = [(steps["Ring"], f"Ring {steps['Ring']}"), (steps["OpTree"], f"OpTree {steps['OpTree']} ({built})")]
    ends += [(literal, f"WRHT {literal}"), (steps[low], f"{low} {steps[low]}")]
    if steps[high] < 1.5 * steps[low]:  # two labels would cover each other
        ends[-1] = (steps[low], f"{low} {steps[low]}, {high} {steps[high]}")
    else:
        ends.append((steps[high], f"{high} {steps[high]}"))
    for count, text in ends:
        end = seconds(count, SIZES[-1]) / unit
        axes.annotate(text, (mebibytes[-1], end), (7, 0), textcoords="offset points", va="center", fontsize=8.5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(mebibytes, [f"{size:g}" for size in mebibytes])
    axes.set_xlabel("message size d per node (MiB)")
