"""Error rate against noise: curves with their cliffs, the limit of each, and what no network can pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.photonics.averaging.proved.noise import TARGET
from lightloom.reports.figures.base import hide_spines, plain, single_panel, styled
from lightloom.reports.figures.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_COLOURS = ("#3b62ad", "#e0892b", "#5ba8a0", "#c2449a", "#7d6bc4", "#c9603a")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseCurve:
    """Error rates of one network."""

    name: str
    sigmas: NDArray[np.float64]
    """Noise on every signal, relative to its full scale; rising."""
    error_rates: NDArray[np.float64]
    """Share of inputs averaged wrongly at each."""
    evaluations: int
    """Behind each rate: what errs less often than once in so many shows as nothing."""
    limit: float | None = None
    """Where accuracy falls below 99.99 %."""


def noise_steps(limit: float, bound: float, points: int = 33) -> NDArray[np.float64]:
    """Noise at which a curve is worth drawing: from below the limit to above the bound, both on the way."""
    low = max(min(limit, bound) / 3, 1e-12)
    high = min(max(10 * limit, 3 * bound if np.isfinite(bound) else 0.1), 0.5)
    return np.geomspace(low, max(high, 2 * low), points)


@styled
def noise_figure(curves: Sequence[NoiseCurve], bound: float, title: str = "") -> Figure:
    """Draw curves on logarithmic axes; ``bound`` is `averaging.noise.input_bound`, infinite where there is none."""
    figure, axes = single_panel(8.0, 4.4)
    floor = min(0.3 / max(curve.evaluations for curve in curves), (1 - TARGET) / 10)
    for index, curve in enumerate(curves):
        _draw(axes, curve, _COLOURS[index % len(_COLOURS)], floor)
    axes.axhline(1 - TARGET, color=FAINT, lw=0.8)
    note: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "color": INK, "fontsize": 7.5}
    rate = f"1 in {1 / (1 - TARGET):,.0f}"
    axes.annotate(rate, (1, 1 - TARGET), xycoords=("axes fraction", "data"), xytext=(-2, 3), **note)
    if np.isfinite(bound):
        axes.axvspan(bound, 1.0, color=FAINT, alpha=0.18, lw=0)
        limit = f"no network passes {bound:.2g} at 99.99 %"
        note |= {"xycoords": ("data", "axes fraction"), "rotation": 90, "va": "center"}
        axes.annotate(limit, (bound, 0.5), xytext=(-4, 0), **note)
    sigmas = np.concatenate([curve.sigmas for curve in curves])
    axes.set(xscale="log", yscale="log", xlim=(sigmas.min(), sigmas.max()), ylim=(floor, 1.3))
    axes.set_xlabel("noise on every signal, relative to its full scale")
    axes.set_ylabel("share of inputs averaged wrongly")
    axes.text(0.0, -0.16, "hollow: none wrong", transform=axes.transAxes, fontsize=7.5, color=INK)
    hide_spines(axes)
    axes.legend(loc="upper left")
    if title:
        axes.set_title(plain(title))
    return figure


def _draw(axes: Axes, curve: NoiseCurve, colour: str, floor: float) -> None:
    """Draw one curve; rates of zero are hollow dots at ``floor``."""
    wrong = curve.error_rates > 0
    label = plain(curve.name) if curve.limit is None else f"{plain(curve.name)}: limit {curve.limit:.2g}"
    axes.plot(curve.sigmas[wrong], curve.error_rates[wrong], "o-", color=colour, markersize=2.6, lw=1.4, label=label)
    zeros = np.full((~wrong).sum(), floor)
    (dots,) = axes.plot(curve.sigmas[~wrong], zeros, "o", color=colour, markersize=3.2, clip_on=False)
    dots.set(markerfacecolor="white", markeredgewidth=0.8)
    if curve.limit:
        axes.plot([curve.limit] * 2, [floor, 1 - TARGET], color=colour, lw=0.9, ls=":")
