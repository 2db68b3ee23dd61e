"""Which device holds what: a placed plan as a matrix of devices and operators, with the load of each device.

device 0  ██ ██ ░░ ░░          │ ███████
device 1        ▒▒ ▒▒ ██ ██    │ ██████       busy for so long in a step
          operators in order
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.arrays import Floats, Mask
from lightloom.core.units import format_bandwidth, format_size
from lightloom.planning.parallelism.plan import numbered_block
from lightloom.reports.figures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lightloom.planning.parallelism.circuits.circuits import Assignment, GroupCircuits
    from lightloom.planning.parallelism.placement.placement import HybridPlan


_MOST_NAMES = 22
"""Along the operators; more would overlap."""
_LETTERS = 22


def shares(plan: HybridPlan) -> Floats:
    """Return the share of each operator's seconds, forward and backward, that each device of a group computes: [device,
    operator], columns add up to 1. Where an operator takes no time, the share of its parts (operators are cut into
    parts that devices are given) that the device has."""
    balanced = plan.balanced
    seconds = balanced.forward + balanced.backward
    operator = balanced.operator.astype(np.int64)
    whole = np.bincount(operator, seconds, len(balanced.operators))
    cells = np.zeros((plan.k, len(balanced.operators)))
    np.add.at(cells, (plan.placement.device, operator), np.where(whole[operator] > 0, seconds, 1.0))
    share: Floats = cells / cells.sum(axis=0)
    return share


@canvas.styled
def placement_figure(plan: HybridPlan) -> Figure:
    """Return a figure of which device of one group (downwards) computes what share of each operator (to the right, in
    order), in the deeper a colour the larger the share and in none where it is 0, beside bars of the milliseconds that
    each device is busy forward and backward for one micro-batch; all groups are alike."""
    from matplotlib.ticker import MaxNLocator

    share = shares(plan)
    devices, operators = share.shape
    row = max(0.03, min(0.3, 4.6 / devices))
    figure, ((axes, load),) = canvas.panel_grid(
        9.0, 1.9 + max(0.5, row * devices), 1, 2, sharey=True, width_ratios=(7, 1.3)
    )
    image = canvas.ramp(canvas.TASKS["backward"][1], 0.22)(share)
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
    """Draw on ``axes`` the time of both passes of a micro-batch, without the update, that each device of a group
    computes, in milliseconds: a horizontal bar each, of the forward pass first and the backward pass joined to its end;
    with a grid, a label and a legend. Sets the limits across."""
    from matplotlib.ticker import MaxNLocator

    balanced, device = plan.balanced, plan.placement.device
    left = np.zeros(plan.k)
    longest = np.bincount(device, balanced.forward + balanced.backward, plan.k).max() * 1e3
    for name, seconds in (("forward", balanced.forward), ("backward", balanced.backward)):
        width = np.bincount(device, seconds, plan.k) * 1e3
        axes.barh(np.arange(plan.k), width, left=left, height=0.8, color=canvas.TASKS[name][1], label=name, linewidth=0)
        left += width
    axes.set_xlim(0, longest * 1.05 or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.set_xlabel("milliseconds busy")
    axes.grid(axis="x", color=canvas.FAINT, linewidth=0.3)
    axes.set_axisbelow(True)
    canvas.hide_spines(axes)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.05, 1.0), handlelength=0.8, borderpad=0, labelspacing=0.2)


def _names(operators: tuple[str, ...]) -> tuple[list[int], list[str]]:
    """Return the places (operators' indices) of names along an axis, and the names: all of at most 22 operators; of
    more, those of the blocks at the operators where they begin, so far apart that they do not overlap. Names are
    shortened to 22 letters (:func:`_short`)."""
    if len(operators) <= _MOST_NAMES:
        return list(range(len(operators))), [canvas.plain(_short(name)) for name in operators]
    blocks = [numbered_block(name) or name.partition(".")[0] for name in operators]
    stride = len(operators) / _MOST_NAMES
    kept: list[int] = []
    for place, block in enumerate(blocks):
        if (place == 0 or block != blocks[place - 1]) and (not kept or place - kept[-1] >= stride):
            kept.append(place)
    return kept, [canvas.plain(_short(blocks[place])) for place in kept]


def _short(name: str) -> str:
    """Return the name as it is up to 22 letters; of a longer one its end of 21 letters behind an ellipsis."""
    return name if len(name) <= _LETTERS else f"…{name[-_LETTERS + 1 :]}"


# Who sends what to whom, beside the circuits that serve it: two matrices, rows send, columns receive.
#
# placed plans      this group │ next group          one row a device; what goes on to the next group is
# ■ ■ .      │ ■                   data parallelism's ring, the rest is model parallelism
# . ■ ■      │   ■

MOST_CELLS = 128
"""Rows of a whole matrix; of more ranks, neighbours are drawn as one."""
_MOST_GROUPED = 48
"""Rows of a placed plan, whole groups, one at least."""
_MOST_GROUPS = 4
_DECADES = 6
"""Below the largest value, less is drawn as this little."""
_PALEST = 0.2
"""Opacity of the least."""


@dataclass(frozen=True, slots=True)
class _Ground:
    """Cells, colours and edges that both panels of a figure share."""

    origins: tuple[str, str]
    """Labels of the vertical and of the horizontal axis."""
    second: Mask
    """[row, column] whether a cell is data parallelism's."""
    names: tuple[str, ...]
    """Labels of the colours: of the cells that are not ``second``, and of those that are."""
    edges: tuple[int, ...] = ()
    """Rows and columns at which groups begin, the first aside."""


@canvas.styled
def assignment_figure(assignment: Assignment, circuit_bandwidth: float) -> Figure:
    """Return a figure of the bytes of each pair of ranks beside the bytes per second of the circuits that the pair
    holds, on average over the holds of the cycle: rows send, columns receive, crosses mark pairs with traffic and no
    circuit. Colours grow deeper on a logarithmic scale. Where there are more than 128 ranks, a cell is of several
    neighbouring ones: their bytes are added up, and a cross means that any pair of the cell has none.
    ``circuit_bandwidth`` is bytes per second of one circuit."""
    traffic, ranks = assignment.traffic, assignment.traffic.ranks
    block = -(-ranks // MOST_CELLS)
    granted = assignment.circuits
    share = np.full(len(granted), circuit_bandwidth / granted.holds)
    sent = _summed(ranks, block, traffic.source, traffic.destination, traffic.nbytes)
    served = _summed(ranks, block, granted.source, granted.destination, share)
    bare = (granted.counts(traffic).sum(axis=0) == 0).astype(np.float64)
    without = _summed(ranks, block, traffic.source, traffic.destination, bare)
    each = "rank" if block == 1 else f"{block} ranks"
    ground = _Ground((f"sends, {each} a row", f"receives, {each} a column"), np.zeros_like(sent, np.bool_), ("",))
    return _draw(ground, sent, served, without > 0)


@canvas.styled
def group_figure(plan: HybridPlan, circuits: GroupCircuits) -> Figure:
    """Return a figure of the bytes of each pair of ranks beside the mean bytes per second of its circuits, of a placed
    plan's first groups (rows send, columns receive) and of what they send on to the next one; model parallelism (within
    a group) and data parallelism (to the next group) have a colour each, and crosses mark pairs with traffic and no
    circuit. Shown are at most four groups and at most 48 ranks, but one whole group at least."""
    k = plan.k
    groups = max(1, min(plan.groups, _MOST_GROUPED // k, _MOST_GROUPS))
    whole = groups == plan.groups
    columns = k * (groups + (not whole))
    sent = plan.traffic
    model = sent.model_parallel[: groups * k, :columns].toarray()
    data = sent.data_parallel[: groups * k, :columns].toarray()
    served = np.zeros_like(model)
    rates = circuits.mean_bandwidth
    for group in range(groups):
        # Destinations from k on are devices of the next group, the last one's the first.
        to = (group * k + circuits.destination) % (plan.groups * k)
        kept = to < columns
        np.add.at(served, (group * k + circuits.source[kept], to[kept]), rates[kept])
    rows, across = np.indices(model.shape)
    second, kinds, edges = rows // k != across // k, ("model parallel", "data parallel"), tuple(range(k, columns, k))
    ground = _Ground(("sends, rank a row", "receives, rank a column"), second, kinds, edges)
    return _draw(ground, model + data, served, (model + data > 0) & (served == 0))


def _summed(ranks: int, block: int, source: Any, destination: Any, value: Floats) -> Floats:
    """Return the values added up in square cells of ``block`` × ``block`` ranks by source and destination: [source
    block, destination block].

    Args:
        ranks: number of all ranks.
        block: neighbouring ranks in a cell.
        source: rank that sends each value: [values].
        destination: rank that receives it: [values].
        value: what is added up: [values].
    """
    size = -(-ranks // block)
    cells = np.zeros((size, size))
    np.add.at(cells, (source // block, destination // block), value)
    return cells


def _draw(ground: _Ground, sent: Floats, served: Floats, relayed: Mask) -> Figure:
    """Return the figure of two matrices [sender, receiver] of cells as ``ground`` has them: bytes ``sent`` on the left,
    bytes per second ``served`` on the right, there with crosses where ``relayed`` is True.

    Cells are coloured by kind of parallelism where ``ground`` names the kinds. A legend names the kinds that are drawn,
    and the crosses ("no circuit, relayed") where there are any.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    rows, columns = sent.shape
    figure, ((traffic, circuits),) = canvas.panel_grid(9.0, 1.1 + 3.3 * rows / columns, 1, 2)
    _matrix(traffic, "traffic of a step" if ground.edges else "traffic", sent, format_size, ground)
    _matrix(circuits, "circuits granted", served, format_bandwidth, ground)
    row, column = np.nonzero(relayed)
    size = max(2.0, min(36.0, (140.0 / max(relayed.shape)) ** 2))
    circuits.scatter(column, row, s=size, marker="x", color=canvas.RELAYED, linewidth=0.8, zorder=3)
    handles: list[Any] = [
        Patch(color=canvas.PARALLELISM[index], label=name)
        for index, name in enumerate(ground.names)
        if name and ((sent > 0) & (ground.second == (index == 1))).any()
    ]
    if relayed.any():
        cross: dict[str, Any] = {"marker": "x", "linestyle": "none", "color": canvas.RELAYED, "markersize": 4}
        handles.append(Line2D([], [], label="no circuit, relayed", **cross))
    if handles:
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return figure


def _matrix(axes: Axes, title: str, values: Floats, words: Callable[[float], str], ground: _Ground) -> None:
    """Draw ``values`` [row, column] on ``axes``, rows downwards, as opacity on a logarithmic scale, from the largest
    down to the smallest above 0, at least one decade and at most six (below, as pale as the smallest); nothing where 0.
    Colours are those of the kinds of parallelism; axes have ``title``, labels, lines where groups begin, and a colour
    scale beside them. ``words`` writes a value as text beside the colour scale."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FixedLocator, MaxNLocator

    largest = float(values.max()) or 1.0
    # At least a decade, lest small differences look large.
    least = min(max(float(values[values > 0].min(initial=largest)), largest / 10**_DECADES), largest / 10)
    norm = LogNorm(least, largest, clip=True)
    rows, columns = values.shape
    image = np.zeros((rows, columns, 4))
    for index in range(len(ground.names)):
        drawn = (values > 0) & (ground.second == (index == 1))
        image[drawn] = canvas.ramp(canvas.PARALLELISM[index], _PALEST)(norm(values[drawn]))
    axes.imshow(image, aspect="equal", interpolation="nearest", extent=(-0.5, columns - 0.5, rows - 0.5, -0.5))
    for edge in ground.edges:
        axes.axvline(edge - 0.5, color=canvas.FAINT, linewidth=0.6)
        if edge < rows:
            axes.axhline(edge - 0.5, color=canvas.FAINT, linewidth=0.6)
    axes.set(title=title, ylabel=ground.origins[0], xlabel=ground.origins[1])
    for axis in (axes.xaxis, axes.yaxis):
        few = FixedLocator([0, *ground.edges]) if 0 < len(ground.edges) < 10 else None
        axis.set_major_locator(few or MaxNLocator(8, integer=True, min_n_ticks=1))
    colour = canvas.PARALLELISM[0] if len(ground.names) == 1 else canvas.FAINT
    beside: Any = axes.inset_axes((1.03, 0.0, 0.045, 1.0))
    bar = beside.figure.colorbar(ScalarMappable(norm, canvas.ramp(colour, _PALEST)), cax=beside)
    bar.ax.minorticks_off()
    # At most four ticks, evenly apart on the logarithm, ends included.
    ticks = np.geomspace(largest, least, min(4, 2 + int(np.log10(largest / least)))).tolist()
    bar.set_ticks(ticks, labels=[words(value) for value in ticks])
    bar.outline.set_visible(False)
