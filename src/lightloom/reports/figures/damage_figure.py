"""What failures cost: the time of each case beside the bound of what is left.

nothing       ████████┃
wavelength:3  █████████┃
cable:17      ██████████████ ┃        ┃ the lower bound
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.reports.figures.base import plain, single_panel, styled
from lightloom.reports.figures.palette import INK, TASKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def damage_figure(rows: Sequence[Mapping[str, Any]], kind: str) -> Figure:
    """Draw rows of ``failures``, ``time_s`` and ``lower_bound_s``, the sound ring first."""
    figure, axes = single_panel(7.2, 1.2 + 0.36 * len(rows))
    place = np.arange(len(rows))
    times = [row["time_s"] * 1e6 for row in rows]
    bounds = [row["lower_bound_s"] * 1e6 for row in rows]
    axes.barh(place, times, height=0.6, color=TASKS[kind][1], label="time")
    axes.plot(bounds, place, "|", color=INK, markersize=14, markeredgewidth=2, label="lower bound of what is left")
    axes.set_yticks(place, [plain(_case(row["failures"])) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("µs from dark circuits")
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)
    return figure


def _case(failures: Sequence[str]) -> str:
    return f"all {len(failures)} together" if len(failures) > 1 else "".join(failures) or "nothing failed"
