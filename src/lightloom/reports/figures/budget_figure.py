"""Power of a wavelength along a lightpath: what is left after every node, and what receivers need.

dBm ┤▔▔╲___
    │      ╲___╷
    │          ╰╴●╲___╷        ● a tap takes its part, the rest goes on
    │┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄╰╴●┄    what the farthest needs
    └──────────────────────
      nodes passed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightloom.photonics.link_budget import LinkBudget, dbm
from lightloom.reports.figures.base import integer_ticks, single_panel, styled
from lightloom.reports.figures.palette import FAINT, SHARES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINKS = 256


@styled
def budget_figure(budget: LinkBudget, taps: int) -> Figure:
    """Draw the longest lightpath with so many destinations, one link more in grey, and what a receiver needs.

    Where there is no limit, or a very far one, a lightpath of 256 links.
    """
    reach = budget.reach(taps)
    links = _MOST_LINKS if reach is None else min(max(reach, 1), _MOST_LINKS)
    figure, axes = single_panel(7.2, 3.4)
    light, need = SHARES["compute_s"][1], SHARES["exposed_communication_s"][1]
    for length, colour, name in ((links + 1, FAINT, "one link more"), (links, light, "light in the fibre")):
        served = min(taps, length)
        level = budget.levels(length, served)
        axes.plot(np.arange(1, length + 1), level, color=colour, marker=".", label=name, zorder=2)
        tapped = np.arange(length - served + 1, length + 1)
        if colour == light:
            axes.plot(tapped, level[tapped - 1], "o", color=light, label="served here", zorder=3)
    floor = dbm(budget.sensitivity) + budget.receiving_loss
    axes.axhline(floor, color=need, lw=1, ls="--", label="least that a receiver needs there")
    axes.axhline(floor + budget.margin, color=need, lw=0.6, ls=":", label="the same with margin")
    axes.set_xlabel("links from the sender")
    axes.set_ylabel("dBm of one wavelength")
    integer_ticks(axes.xaxis, 10)
    destinations = "one destination" if taps == 1 else f"up to {taps} destinations"
    far = "no limit" if reach is None else f"{reach} links"
    axes.set_title(f"Light of {budget.laser_dbm:.1f} dBm from the laser, {destinations}: {far}")
    axes.legend(loc="upper right")
    return figure
