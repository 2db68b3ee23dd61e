"""Bars of steps: what computing takes and what steps wait for, algorithm by algorithm, a panel for each plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightloom.core.units import format_time
from lightloom.reports.figures.canvas import FAINT, SHARES, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CUT = 1.75
"""Times the first bar at which longer ones run off."""
_NAMES = {"ddp": "DDP", "fsdp": "FSDP"}


@styled
def plans_figure(rows: list[dict[str, Any]]) -> Figure:
    """Rows of :mod:`benchmarks.plans`: models side by side, strategies and ranks one below the other."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    algorithms = list(dict.fromkeys(row["algorithm"] for row in rows))
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines = list(dict.fromkeys((row["ranks"], row["strategy"]) for row in rows))
    lines.sort(key=lambda line: (line[0], line[1]))
    figure = Figure(figsize=(9.6, 0.6 + 1.55 * len(lines)), layout="constrained")
    grid = figure.subplots(len(lines), len(models), squeeze=False)
    for (ranks, strategy), across in zip(lines, grid, strict=True):
        for model, axes in zip(models, across, strict=True):
            shown = [r for r in rows if (r["model"], r["ranks"], r["strategy"]) == (model, ranks, strategy)]
            _panel(axes, {row["algorithm"]: row for row in shown}, algorithms)
            axes.set_yticks(range(len(algorithms)), algorithms if model == models[0] else [""] * len(algorithms))
            axes.set_title(f"{model}, {_NAMES[strategy]}, {ranks:,} ranks")
    keys = [key for key in SHARES if any(row["breakdown"].get(key) for row in rows)]
    figure.legend(
        handles=[Patch(color=SHARES[key][1], label=SHARES[key][0]) for key in keys],
        loc="outside upper left",
        ncols=len(keys),
    )
    return figure


def _panel(axes: Axes, rows: dict[str, dict[str, Any]], algorithms: list[str]) -> None:
    first = next(iter(rows.values()))["step_s"]
    for place, name in enumerate(algorithms):
        if name not in rows:
            axes.text(0.02 * first, place, "all-reduce only", va="center", ha="left", fontsize=7.5, color=FAINT)
            continue
        left, step = 0.0, rows[name]["step_s"]
        for key, (_, colour) in SHARES.items():
            width = min(rows[name]["breakdown"].get(key, 0.0), max(0.0, _CUT * first - left))
            axes.barh(place, width, left=left, height=0.7, color=colour, linewidth=0)
            left += width
        text = format_time(step) if place == 0 else _more(step / first - 1)
        away = "→ " if step > _CUT * first else ""
        axes.text(left + 0.02 * first, place, away + text, va="center", ha="left", fontsize=7.5)
    axes.set_xlim(0, first * (_CUT + 0.5))
    axes.set_ylim(len(algorithms) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xticks([])
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)


def _more(share: float) -> str:
    if share >= 9.995:
        return f"× {share + 1:.0f}"
    if share >= 0.9995:
        return f"× {share + 1:.1f}"
    return f"+{100 * share:.2g} %" if share >= 5e-5 else "the same"
