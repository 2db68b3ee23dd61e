"""Which device holds what: a placed plan as a matrix of devices and operators, with the load of each device.

device 0  ██ ██ ░░ ░░          │ ███████
device 1        ▒▒ ▒▒ ██ ██    │ ██████       busy for so long in a step
          operators in order
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.reports.figures.base import plain, styled
from lightloom.reports.figures.palette import FAINT, TASKS, ramp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lightloom.parallelism.hybrid import HybridPlan

_MOST_NAMES = 22
"""Along the operators; more would overlap."""
_LETTERS = 22


def shares(plan: HybridPlan) -> Floats:
    """Share of each operator's time that each device computes, shape [device, operator]; of parts where no part takes
    any time."""
    balanced = plan.balanced
    seconds = balanced.forward + balanced.backward
    operator = balanced.operator.astype(np.int64)
    whole = np.bincount(operator, seconds, len(balanced.operators))
    weight = np.where(whole[operator] > 0, seconds, 1.0)
    cells = np.zeros((plan.k, len(balanced.operators)))
    np.add.at(cells, (plan.placement.device, operator), weight)
    share: Floats = cells / cells.sum(axis=0)
    return share


@styled
def placement_figure(plan: HybridPlan) -> Figure:
    """Draw one group; all groups are alike."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    share = shares(plan)
    devices, operators = share.shape
    row = max(0.03, min(0.3, 4.6 / devices))
    figure = Figure(figsize=(9.0, 1.9 + max(0.5, row * devices)), layout="constrained")
    axes, load = figure.subplots(1, 2, sharey=True, width_ratios=(7, 1.3))
    image = ramp(TASKS["backward"][1], 0.22)(share)
    image[share == 0] = 0.0
    axes.imshow(
        image, aspect="auto", interpolation="nearest", extent=(-0.5, operators - 0.5, devices - 0.5, -0.5), zorder=2
    )
    axes.set_xticks(*_names(plan.balanced.operators))
    axes.tick_params(axis="x", labelrotation=55, labelsize=7)
    for label in axes.get_xticklabels():
        label.set_horizontalalignment("right")
        label.set_rotation_mode("anchor")
    axes.yaxis.set_major_locator(MaxNLocator(min(devices, 12), integer=True, min_n_ticks=1))
    axes.set_ylabel("device of a group")
    axes.set_title(f"{operators} operators in order; full colour is the whole operator")
    _load(load, plan)
    return figure


def _load(axes: Axes, plan: HybridPlan) -> None:
    """Seconds of a step that each device computes."""
    from matplotlib.ticker import MaxNLocator

    balanced, device = plan.balanced, plan.placement.device
    left = np.zeros(plan.k)
    longest = np.bincount(device, balanced.forward + balanced.backward, plan.k).max() * 1e3
    for name, seconds in (("forward", balanced.forward), ("backward", balanced.backward)):
        width = np.bincount(device, seconds, plan.k) * 1e3
        axes.barh(np.arange(plan.k), width, left=left, height=0.8, color=TASKS[name][1], label=name, linewidth=0)
        left += width
    axes.set_xlim(0, longest * 1.05 or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.set_xlabel("milliseconds busy")
    axes.grid(axis="x", color=FAINT, linewidth=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.05, 1.0), handlelength=0.8, borderpad=0, labelspacing=0.2)


def _names(operators: tuple[str, ...]) -> tuple[list[int], list[str]]:
    """Where names stand, and the names: all operators of a few, else blocks where they begin, as many as fit."""
    if len(operators) <= _MOST_NAMES:
        return list(range(len(operators))), [plain(_short(name)) for name in operators]
    blocks = [_block(name) for name in operators]
    stride = len(operators) / _MOST_NAMES
    kept: list[int] = []
    for place, block in enumerate(blocks):
        first = place == 0 or block != blocks[place - 1]
        if first and (not kept or place - kept[-1] >= stride):
            kept.append(place)
    return kept, [plain(_short(blocks[place])) for place in kept]


def _block(name: str) -> str:
    """The path up to its first number, that included: ``layer2.1`` of ``layer2.1.conv1``."""
    parts = name.split(".")
    numbers = [place for place, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[0] + 1]) if numbers else parts[0]


def _short(name: str) -> str:
    return name if len(name) <= _LETTERS else f"…{name[-_LETTERS + 1 :]}"
