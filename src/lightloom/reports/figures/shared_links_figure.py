"""Which job loads which links, or holds which part of their channels: a bar a link, stacked by job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.reports.figures.base import headline, hide_spines, single_panel, styled
from lightloom.reports.figures.palette import FAINT, cyclic_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINKS = 48


@styled
def shared_links_figure(title: str, jobs: Sequence[str], loads: Floats, links: Sequence[str], unit: str) -> Figure:
    """Draw the links that carry most.

    Args:
        title: above the figure.
        jobs: a name each.
        loads: share of each link that each job takes: [job, link], 0 to 1 a job.
        links: names: [link].
        unit: what the share is of.
    """
    total = loads.sum(axis=0)
    several = (loads > 0).sum(axis=0) > 1
    order = np.lexsort((np.arange(len(total)), -total, ~several))
    shown = np.sort(order[: min(_MOST_LINKS, int((total > 0).sum()))])
    figure, axes = single_panel(9.0, 3.6)
    place, below = np.arange(len(shown)), np.zeros(len(shown))
    for job, load, colour in zip(jobs, loads, cyclic_colours(max(len(jobs), 2)), strict=False):
        axes.bar(place, 100 * load[shown], bottom=100 * below, color=colour, width=0.86, label=job)
        below = below + load[shown]
    axes.axhline(100, color=FAINT, linewidth=0.8, linestyle="--")
    axes.set_ylabel(unit)
    axes.set_xlim(-0.6, max(len(shown), 1) - 0.4)
    axes.set_ylim(0, max(108.0, 104 * float(below.max(initial=0.0))))
    axes.set_xticks(place, [links[link] for link in shown], rotation=90, fontsize=5.5)
    hide_spines(axes)
    axes.legend(loc="upper left", ncols=max(len(jobs), 1), frameon=False, bbox_to_anchor=(0, 1.12), fontsize=7)
    left = int((total > 0).sum()) - len(shown)
    headline(figure, title + (f"; {left} more links carry as much or less, not drawn" if left > 0 else ""))
    return figure
