"""The DaDianNao study, with its figures drawn anew: ours throughout, as the paper's bars exist only as an image."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from lightloom.machines.clusters.cluster import Package
from lightloom.papers.dadiannao import BATCHES, HEADLINE, LINKS, PAPER, rows
from lightloom.papers.dadiannao.model import BOTH_DIRECTIONS, FITTED_TO_TIMES, MIXED, PEAK, links, mean, run, savings
from lightloom.papers.dadiannao.networks import printed
from lightloom.papers.dadiannao.rows import DOMINATED, FIGURE_2_BATCHES, chips, largest_ratio, share
from lightloom.papers.page import BLUE, GREEN, ORANGE, RED, SKY, canvas, stacked_bars
from lightloom.papers.study import Study
from lightloom.planning.pricing.broadcast_step import FITTED
from lightloom.reports.figures.canvas import FAINT, INK, SHARES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The package of Fig. 3, to scale.

_CHIP, _GUIDE, _GLASS = "#6f9be0", "#c9603a", "#eef1f6"


def floorplan(package: Package | None = None) -> Figure:
    """Draw a package to scale, in millimetres: the chips on the interposer and the waveguides between them and to the
    edges, and below them the length of an edge and the number of fibres; the package is the paper's (Fig. 3) unless
    given."""
    from matplotlib.patches import Rectangle

    package = package or Package()
    edge, chip, gap = (1e3 * each for each in (package.interposer_edge, package.chip_edge, package.gap))
    figure, (axes,) = canvas(size=(6, 6))
    axes.add_patch(Rectangle((0, 0), edge, edge, facecolor=_GLASS, edgecolor=INK))
    starts = [gap + place * (chip + gap) for place in range(package.side)]
    for x, y in product(starts, repeat=2):
        axes.add_patch(Rectangle((x, y), chip, chip, facecolor=_CHIP, edgecolor=INK))
        axes.text(x + chip / 2, y + chip / 2, f"DaDianNao\n{chip:g} mm", ha="center", va="center", fontsize=9)
    _waveguides(axes, package, starts)
    axes.annotate("", (0, -0.8), (edge, -0.8), arrowprops={"arrowstyle": "<->", "color": INK}, annotation_clip=False)
    name = f"silicon optical interposer, {edge:g} mm; {package.fibres} fibres leave it"
    axes.text(edge / 2, -1.2, name, ha="center", va="top", fontsize=9)
    axes.set(xlim=(-0.5, edge + 0.5), ylim=(-2.4, edge + 0.5), aspect="equal")
    axes.axis("off")
    return figure


def _waveguides(axes: Axes, package: Package, starts: list[float]) -> None:
    """Draw the waveguides of links across every gap between chips, and between chips and the interposer's edges, along
    both axes and centred on a chip's edge, those of one direction coloured and of the other (as many) faint; ``starts``
    are the chips' lower edges along either axis, in millimetres."""
    chip, gap, pitch = (1e3 * each for each in (package.chip_edge, package.gap, package.pitch))
    lines = 2 * package.waveguides
    crossings = [0.0, *(start + chip for start in starts)]
    for start in starts:
        middle = start + chip / 2
        for begin, line in product(crossings, range(lines)):
            aside = middle + (line - (lines - 1) / 2) * pitch
            colour = _GUIDE if line < package.waveguides else FAINT
            axes.plot([begin, begin + gap], [aside, aside], color=colour, lw=0.4)
            axes.plot([aside, aside], [begin, begin + gap], color=colour, lw=0.4)


COMPUTE, COMMUNICATION = SHARES["compute_s"][1], SHARES["exposed_communication_s"][1]
_SPEEDS = {"100": SKY, "400": BLUE}
"""Colour by speed: the faster, the darker."""
_NOTE: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8}
"""Style of texts beside points."""


def study() -> Study:
    """Return the DaDianNao study with all rows and figures."""
    draw = (breakdown, times, energy_delay, proof, faster_links, floorplan)
    return PAPER.study(rows.claims(), *draw, fitted=FITTED, times=FITTED_TO_TIMES)


def breakdown() -> Figure:
    """Draw Fig. 2: percent of computation and of communication in a step on electrical links, a bar for each network
    (AlexNet, both VGGs, three ResNets) and batch (1, 32); diamonds are the boundary with arithmetic at the peak rate
    (:data:`PEAK`), a dotted line is at 50 %, and the number of chips is in brackets."""
    figure, (axes,) = canvas(size=(10, 4.2))
    cases = [(name, batch) for name in ("AlexNet", *DOMINATED) for batch in FIGURE_2_BATCHES]
    part = [100 * share(*case) for case in cases]
    places = range(len(cases))
    parts = [
        ("computation, eDRAM", [100 - percent for percent in part], COMPUTE),
        ("communication", part, COMMUNICATION),
    ]
    _, bars = stacked_bars(axes, places, parts, width=0.7)
    axes.bar_label(bars, [f"{percent:.0f} %" for percent in part], label_type="center", fontsize=8)
    peak = [100 - 100 * share(*case, PEAK) for case in cases]
    axes.plot(places, peak, "D", color="white", mec=INK, ms=5, label="boundary with arithmetic at the peak rate")
    axes.axhline(50, color=INK, lw=0.8, ls=":")
    axes.set_xticks(places, [f"{name}\nB = {batch} ({chips(name, batch)})" for name, batch in cases], fontsize=7)
    axes.set_ylabel("% of a step on 25-E")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=3, frameon=False)
    return figure


def times() -> Figure:
    """Draw Figure 5's bars: computation and communication by link and batch, with the fitted constants, each over the
    network's electrical step at batch 1 with data parallelism, not per sample; a panel for each network. The steps use
    the parallelism of section 5; the number of chips is in brackets."""
    figure, panels = canvas(3, 3, size=(10, 9))
    for axes, network in zip(panels, printed().values(), strict=True):
        base = run(network, 1, links(MIXED)["25-E"], FITTED, parallel="data").time
        ticks = [group * 4 + place for group in range(3) for place in range(3)]
        steps = [run(network, batch, link, FITTED) for batch in BATCHES for link in links(MIXED).values()]
        parts = [
            ("computation", [step.computation / base for step in steps], COMPUTE),
            ("communication", [step.communication_time / base for step in steps], COMMUNICATION),
        ]
        stacked_bars(axes, ticks, parts, width=0.85)
        for group, batch in enumerate(BATCHES):
            place: dict[str, Any] = {"ha": "center", "va": "top", "transform": axes.get_xaxis_transform()}
            axes.text(group * 4 + 1, -0.13, f"B = {batch} ({chips(network.name, batch)})", fontsize=8, **place)
        axes.set_xticks(ticks, [name.split("-")[0] for name in LINKS] * 3, fontsize=7)
        axes.set_title(network.name, fontsize=10)
    panels[3].set_ylabel("time over 25-E's at batch 1")
    key = [("computation, eDRAM", COMPUTE), ("communication", COMMUNICATION)]
    legend(figure, key, "Gb/s: 25 electrical, 100 and 400 optical")
    return figure


def energy_delay() -> Figure:
    """Draw Figure 5's EDP over that of electrical links, by network and speed (100 and 400 Gb/s), with the fitted
    constants; a panel for each batch, with a dashed line at 1. Bars above 1 are red."""
    figure, panels = canvas(1, 3, size=(10, 7))
    edp = savings(FITTED)
    for axes, batch in zip(panels, BATCHES, strict=True):
        for side, (speed, colour) in zip((-0.2, 0.2), _SPEEDS.items(), strict=True):
            values = {name: 1 - edp["edp", speed][name, batch] / 100 for name in printed()}
            colours = [RED if value > 1 else colour for value in values.values()]
            bars = axes.bar([i + side for i in range(len(values))], list(values.values()), 0.38, color=colours)
            plate = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
            axes.bar_label(bars, [f"{value:.2f}" for value in values.values()], fontsize=7, padding=2, bbox=plate)
        axes.axhline(1, color=INK, lw=0.8, ls="--", zorder=0.5)
        axes.set_xticks(range(len(printed())), list(printed()), fontsize=8)
        axes.set(ylim=(0, 1.18), ylabel=f"EDP / 25-E's, B = {batch}")
    legend(figure, [*((f"{speed} Gb/s", colour) for speed, colour in _SPEEDS.items()), ("worse than 25-E", RED)])
    return figure


def proof() -> Figure:
    """Draw percent of time saved at 400 Gb/s against that at 100 Gb/s, a point for each case, and the lines that no
    case can pass, whose slopes are :func:`largest_ratio`; both for the bandwidths of Table 1 and for mixed ones, beside
    the paper's means, of all cases and at batch 256, as stars."""
    figure, (axes,) = canvas(size=(7, 5), grid="both")
    ends = (0.0, 65.0)
    lines = (("6.4, 25, 100 GB/s (Table 1)", BOTH_DIRECTIONS, RED), ("6.4, 12.5, 50 GB/s (mixed)", MIXED, INK))
    for label, bandwidths, colour in lines:
        bound = largest_ratio(bandwidths)
        axes.plot(ends, [bound * end for end in ends], color=colour, lw=1.5, label=f"at most {bound:.3f}: {label}")
        shape: dict[str, Any] = {"marker": "o", "s": 18, "facecolor": "none", "edgecolor": colour, "linewidth": 1}
        axes.scatter(*(list(savings(FITTED, bandwidths)["time", speed].values()) for speed in _SPEEDS), **shape)
    for what, label in (("time_average", "mean"), ("time_batch256", "mean, B = 256")):
        x, y = HEADLINE[f"{what}_100"], HEADLINE[f"{what}_400"]
        axes.plot(x, y, "*", color=ORANGE, mec=INK, ms=13, label="the paper's means" if label == "mean" else None)
        axes.annotate(label, (x, y), (-8, 6), ha="right", **_NOTE)
    axes.set(xlim=(0, 65), ylim=(0, 85))
    axes.set(xlabel="% of time saved at 100 Gb/s", ylabel="% of time saved at 400 Gb/s")
    axes.legend(frameon=False, loc="lower right", fontsize=8)
    return figure


def faster_links() -> Figure:
    """Draw mean percent of time saved over 25-E against the Gb/s of the links, for a mesh, an ideal tree and a ring; a
    panel over all cases, and one at batch 256. A dashed line is an infinitely fast mesh, a dotted one no
    communication."""
    figure, panels = canvas(2, size=(10, 4))
    styles = {"mesh": ("2D mesh", _SPEEDS["400"]), "tree": ("ideal tree (switched)", GREEN), "ring": ("ring", RED)}
    speeds = [int(name.split("-")[0]) for name in rows.SPEEDS]
    for axes, batch in zip(panels, (None, BATCHES[-1]), strict=True):
        for topology, (label, colour) in styles.items():
            saved = [mean(rows.time_saved(name, topology), batch) for name in rows.SPEEDS]
            axes.plot(speeds, saved, "o-", color=colour, label=label, ms=5)
        for name, label in (("infinite", "infinitely fast mesh"), ("ideal", "no communication")):
            level = mean(rows.time_saved(name), batch)
            axes.axhline(level, color=FAINT, lw=1, ls="--" if name == "infinite" else ":")
            place: dict[str, Any] = {"va": "center", "annotation_clip": False}
            axes.annotate(f"{level:.1f} % {label}", (speeds[-1], level), (14, 0), **place, **_NOTE)
        axes.set_xscale("log", base=2)
        axes.set_xticks(speeds, [str(each) for each in speeds])
        axes.minorticks_off()
        axes.set_xlabel("Gb/s of a link, each way")
        axes.set_title("all 27 cases" if batch is None else f"batch {batch}", fontsize=10)
    panels[0].set(ylim=(0, 44), ylabel="% of time saved against 25-E")
    panels[1].axhline(0, color=INK, lw=0.8)
    panels[0].legend(frameon=False, loc="lower right")
    return figure


def legend(figure: Figure, key: list[tuple[str, str]], note: str = "") -> None:
    """Add one key below all panels of a figure: pairs of label and colour, and then a ``note`` without a colour."""
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=label) for label, colour in key]
    handles += [Patch(alpha=0, label=note)] if note else []
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
