"""Pictures of a schedule where there are no wavelengths: link loads of packets, circuits of a circuit switch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.collectives.cost.price import play
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Ints
from lightloom.core.units import format_size
from lightloom.machines.fabrics.derived import Footprint
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.reports.figures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


# What a schedule occupies: link by link, step by step, wavelength by wavelength.
#
# Every count is a difference array: +1 where a lightpath enters, −1 where it leaves, one running sum at the end; so
# the work is linear in lightpaths plus cells.

_BLOCK = 1 << 19
_MAXIMUM_CELLS = 1 << 22


@dataclass(frozen=True, slots=True)
class Lightpaths:
    """One entry a lightpath of a circuit-switched fabric; of a multicast, its farthest destination."""

    step: Ints
    source: Ints
    destination: Ints
    route: Ints
    channel: Ints
    """First channel, counted through all fibres (or the switch plane)."""
    count: Ints
    """Number of consecutive channels that the lightpath holds."""
    hops: Ints
    """Number of links that the lightpath crosses."""

    @property
    def cells(self) -> int:
        """Number of (link, channel) cells held: channels times links, summed over lightpaths."""
        return int((self.hops * self.count).sum())

    def of_step(self, step: int) -> Lightpaths:
        """Return those of the lightpaths that are lit in step number ``step``, from 0, in the same order."""
        chosen = self.step == step
        return Lightpaths(*(getattr(self, name)[chosen] for name in self.__slots__))


PARTS = 24
"""Equal parts of the time into which queued schedules of packets are drawn."""


def in_steps(schedule: Schedule, fabric: Fabric) -> Schedule:
    """Return a schedule whose rows lie in steps: the schedule itself, unfolded to all ranks, or what stands for the
    steps of a queued one.

    On a fabric of circuits a queued schedule becomes its circuits, which all stand in one step. On one of packets it is
    unfolded and played, and the step of a row, 0 to 23, is that of 24 equal parts of the whole time in which its
    transfer begins.

    Raises:
        UnsupportedError: the unfolded rows do not fit in the memory that is free.
    """
    if not schedule.queued:
        return schedule.unfolded(fabric.fibre_channels)
    if fabric.exclusive:
        return schedule.standing(fabric.fibre_channels)
    rows = schedule.unfolded(fabric.fibre_channels)
    seconds, _, begin = play(rows, fabric)
    part = np.minimum((begin / max(seconds, 1e-300) * PARTS).astype(np.int64), PARTS - 1)
    return rows.with_columns({"step": part}, steps=PARTS, queued=False)


def lightpaths(schedule: Schedule, fabric: Fabric) -> Lightpaths:
    """Return one entry for each lightpath of a schedule on a circuit-switched fabric, that of a multicast to its
    farthest destination, by rising number of the lightpath.

    Several rows of one lightpath are the destinations of a multicast; the farthest has the most hops. The schedule must
    be unfolded to all ranks (:func:`in_steps`).
    """
    hops = np.concatenate(
        [np.zeros(0, np.int64), *(fabric.hops(*schedule.ends(rows)) for rows in _row_blocks(len(schedule)))]
    )
    order = np.lexsort((hops, schedule.lightpath))
    path = schedule.lightpath[order]
    last = order[np.flatnonzero(np.append(path[1:] != path[:-1], True))] if len(order) else order
    column = {name: values[last].astype(np.int64) for name, values in schedule.columns().items()}
    step, source, destination, route = (column[name] for name in ("step", "source", "destination", "route"))
    channel = column["fibre"] * fabric.fibre_channels + column["first_wavelength"]
    return Lightpaths(step, source, destination, route, channel, column["wavelength_count"], hops[last])


def link_use(schedule: Schedule, fabric: Fabric, bins: int = 512) -> tuple[Floats, int]:
    """Return (use, steps of a bin): the use of each link in each bin of consecutive steps, shape [bins, links], added
    up over a bin's steps.

    Use is lit channels on circuit-switched fabrics, bytes on others. A bin holds ceil(steps / ``bins``) steps, or more
    where bins times links would exceed 2^22; the last one may hold fewer. The schedule must lie in steps, unfolded to
    all ranks (:func:`in_steps`).
    """
    bins = max(min(bins, schedule.steps, _MAXIMUM_CELLS // (fabric.links + 1)), 1)
    per_bin = -(-schedule.steps // bins)
    change = np.zeros((-(-schedule.steps // per_bin), fabric.links + 1))
    if fabric.exclusive:
        paths = lightpaths(schedule, fabric)
        footprint = fabric.footprint(paths.source, paths.destination, paths.route)
        _enter_and_leave(change, footprint, paths.step // per_bin, paths.count)
    else:
        weights = schedule.weights
        for rows in _row_blocks(len(schedule)):
            sent = 1 if weights is None else weights[rows]
            _enter_and_leave(change, fabric.footprint(*schedule.ends(rows)), schedule.step[rows] // per_bin, sent)
    # Channels and chunks are whole numbers, so that the running sum is exact; bytes come after. Chunks that differ in
    # size are not.
    carried = np.maximum(np.cumsum(change, axis=1)[:, :-1], 0.0)
    return carried if fabric.exclusive else carried * schedule.chunk_nbytes, per_bin


def downsampled(amount: Floats, links: int) -> Floats:
    """Return the mean of ``amount`` [bins, links of the fabric] over runs of neighbouring links, each of ceil(links of
    the fabric / ``links``) but the last, which may be shorter: [bins, runs], with at most ``links`` runs."""
    edges = np.arange(0, amount.shape[1], -(-amount.shape[1] // links))
    mean: Floats = np.add.reduceat(amount, edges, axis=1) / np.diff(np.append(edges, amount.shape[1]))
    return mean


def channel_map(paths: Lightpaths, fabric: Fabric, step: int) -> Ints:
    """Return the rank whose light is on each channel of each link in one step, −1 where dark: int64 [links of the
    fabric, channels].

    Args:
        paths: lightpaths of all steps; no two in the step may hold the same channel of a link.
        fabric: the fabric, circuit-switched.
        step: number of the step, from 0.
    """
    now = paths.of_step(step)
    change = np.zeros((fabric.links + 1, fabric.channels + 1), np.int64)
    for _, first, end in _link_runs(fabric.footprint(now.source, now.destination, now.route)):
        for links, sign in ((first, 1), (end, -1)):
            np.add.at(change, (links, now.channel), sign * (now.source + 1))
            np.add.at(change, (links, now.channel + now.count), -sign * (now.source + 1))
    lit: Ints = change.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] - 1
    return lit


def utilisation(paths: Lightpaths, steps: int, fabric: Fabric) -> float:
    """Return the share (0 to 1) of all channels of all links of a circuit-switched fabric that carry light, averaged
    over the ``steps`` steps to which the lightpaths ``paths`` belong; 0 where there is none."""
    return paths.cells / (fabric.links * fabric.channels * max(steps, 1))


def _enter_and_leave(change: Floats, print_: Footprint, bin_: Ints, weight: Ints | Floats | int) -> None:
    """Add to ``change``, in place, a weight at the first link of each run of a footprint and take it away behind the
    last.

    A running sum along the links then gives the load of each.

    Args:
        change: [bins, links + 1]; the last column takes what ends at the last link.
        print_: links that each transfer occupies, as runs of neighbouring ones that may wrap around.
        bin_: number of each transfer's bin, from 0: [transfers].
        weight: what each transfer adds to every link that it occupies, [transfers], or one number for all.
    """
    width = change.shape[1]
    weights = np.broadcast_to(np.asarray(weight, np.float64), len(print_.start))
    for _, first, end in _link_runs(print_):
        for links, sign in ((first, 1.0), (end, -1.0)):
            flat = bin_.astype(np.int64) * width + links
            change += sign * np.bincount(flat, weights, minlength=change.size).reshape(change.shape)


def _link_runs(print_: Footprint) -> Iterator[tuple[int, Ints, Ints]]:
    """Yield the runs of links of footprints as (number of the run within a footprint, from 0; first link; link behind
    the last), each run twice: up to the end of its track (the ring of links in which it may wrap), and what wraps
    around to the track's beginning.

    The first link and the end are arrays over the transfers; the second piece is empty (end = first) for those that do
    not wrap.
    """
    for run in range(print_.base.shape[1]):
        base, start, length, period = (
            part[:, run] for part in (print_.base, print_.start, print_.length, print_.period)
        )
        start = start % period
        reach = start + length
        yield run, base + start, base + np.minimum(reach, period)
        yield run, base, base + np.maximum(reach - period, 0)


def _row_blocks(rows: int) -> list[slice]:
    """Return slices that cover rows 0 to ``rows`` in order, each of at most 2^19 rows."""
    return [slice(begin, begin + _BLOCK) for begin in range(0, rows, _BLOCK)]


_WIDTH = 9.0
_MAXIMUM_COLUMNS = 2048


def steps_shown(steps: int) -> list[int]:
    """Return the numbers, from 0, of the steps to draw: all if there are at most four, else the first, the middle and
    the last."""
    return list(range(steps)) if steps <= 4 else [0, steps // 2, steps - 1]


@canvas.styled
def link_load_map(schedule: Schedule, fabric: Fabric, time: str = "step") -> Figure:
    """Draw the bytes on each link (across) in each step (downwards), as a share of the largest load that is drawn, and
    return the figure; the title tells the mean load, as a share of it.

    Neighbouring links are averaged where there are more than 2048, and neighbouring steps added up where there are more
    than 512 (:func:`link_use`). The schedule must lie in steps, unfolded to all ranks (:func:`in_steps`); ``time``
    names what a step is, beside the axis.
    """
    load = downsampled(link_use(schedule, fabric)[0], _MAXIMUM_COLUMNS)
    most = float(load.max(initial=0.0)) or 1.0
    figure, axes = canvas.single_panel(_WIDTH, float(np.clip(1.4 + 0.22 * len(load), 1.8, 4.2)))
    image = canvas.share_image(axes, load / most, 1.0, fabric.links, schedule.steps)
    title = f"{schedule.algorithm}: {schedule.collective.kind} among {fabric.ranks} ranks, "
    title += f"mean load {load.mean() / most:.0%} of the largest"
    canvas.headline(figure, title)
    last = fabric.links - 1
    names = canvas.plain(f"link (0: {fabric.link_name(0)}, {last}: {fabric.link_name(last)})")
    axes.set(xlabel=names, ylabel=time)
    canvas.integer_ticks(axes.yaxis, 5)
    canvas.integer_ticks(axes.xaxis, 8)
    canvas.share_bar(figure, image, axes, "load", 20)
    return figure


@canvas.styled
def circuit_map(schedule: Schedule, fabric: Fabric) -> Figure:
    """Draw a panel for each step, or for the first, the middle and the last of more than four, with a square for each
    circuit of a circuit switch, destination rank across and source rank downwards, and return the figure.

    Colour is the circuit's first switch plane; a panel's title says which share of the ports (one a rank and plane) is
    in use. The schedule must lie in steps, unfolded to all ranks (:func:`in_steps`).
    """
    paths, n = lightpaths(schedule, fabric), fabric.ranks
    shown = steps_shown(schedule.steps)
    colours = canvas.cyclic_colours(fabric.channels)
    figure, grid = canvas.panel_grid(_WIDTH, 3.5, 1, len(shown), sharey=True)
    panels = grid[0]
    among = f"{schedule.collective.kind} among {n} ranks on {fabric.channels} switch planes"
    canvas.headline(figure, f"{schedule.algorithm}: {among}")
    for axes, step in zip(panels, shown, strict=True):
        now = paths.of_step(step)
        side, many = float(np.clip(150 / n, 1.2, 10)), len(now.source) > 2000
        # Many thousand squares are smaller and faster as one picture.
        style: dict[str, Any] = {"marker": "s", "linewidths": 0, "rasterized": many}
        axes.scatter(now.destination, now.source, s=side**2, c=colours[now.channel], **style)
        title = f"step {step + 1} of {schedule.steps}: {now.count.sum() / (n * fabric.channels):.0%} of ports"
        axes.set(xlim=(-0.7, n - 0.3), ylim=(n - 0.3, -0.7), box_aspect=1, title=title, xlabel="destination rank")
        for axis in (axes.xaxis, axes.yaxis):
            canvas.integer_ticks(axis, 5)
    panels[0].set_ylabel("source rank")
    canvas.number_bar(figure, colours, panels, "switch plane", 20)
    return figure


# The wavelength map: which rank's light is on which wavelength of which link, step by step.
#
# a few steps, one panel a direction         all steps, how full each link is
# wavelength │▓▓▓░░░▒▒▒                      step │███▓▓░
# │░░░▒▒▒▓▓▓                           │▓▓▓███
# └────────── link                     └────── link
#
# Colour is the source rank, around a circle of hues as the ranks are around the ring.

_WAYS = ("clockwise", "counter-clockwise")


def wavelength_map(schedule: Schedule, fabric: Fabric) -> Figure:
    """Return a figure of what a schedule, of any kind, occupies: source ranks by wavelength and link on a WDM ring,
    circuits on a circuit switch, loads of links elsewhere.

    Of a queued schedule, the circuits that stand throughout are drawn, and on packet links 24 equal parts of the time.
    Of more than four steps on circuits, the first, the middle and the last are drawn; below them, on a ring, the share
    of wavelengths lit in each step.

    Raises:
        UnsupportedError: Matplotlib is not installed, or the schedule's rows for all ranks do not fit in the memory
            that is free.
    """
    if not fabric.exclusive:
        return link_load_map(in_steps(schedule, fabric), fabric, "part of the time" if schedule.queued else "step")
    schedule = in_steps(schedule, fabric)
    return _ring_map(schedule, fabric) if fabric.wavelength_routed else circuit_map(schedule, fabric)


def wavelength_caption(schedule: Schedule, fabric: Fabric) -> str:
    """Return the sentences below the picture of :func:`wavelength_map`, as one text: which algorithm runs which
    collective, of how many bytes, among how many ranks and in how many steps; then by the fabric.

    On a ring: the share of all wavelengths on all links that carry light, averaged over the steps, directions that stay
    dark, and what colour means; on a circuit switch: the share of all ports that hold a circuit; on packet links: only
    what colour means. The schedule may be of any kind; it is put into steps here (:func:`in_steps`).
    """
    collective = schedule.collective
    steps = f"in {schedule.steps} {'step' if schedule.steps == 1 else 'steps'}"
    if schedule.queued:
        steps = "on circuits that stand throughout" if fabric.exclusive else "without barriers"
    what = (
        f"{schedule.algorithm} runs {collective.kind} of {format_size(collective.nbytes)} among {fabric.ranks} ranks "
        f"{steps}."
    )
    if not fabric.exclusive:
        when = f"{PARTS} equal parts of the time" if schedule.queued else "each step"
        return f"{what} Colour: bytes on each link in {when}, as a share of the most on any."
    schedule = in_steps(schedule, fabric)
    paths = lightpaths(schedule, fabric)
    if not fabric.wavelength_routed:
        share = paths.count.sum() / (fabric.ranks * fabric.channels * max(schedule.steps, 1))
        return f"{what} {share:.0%} of the ports on all {fabric.channels} switch planes hold a circuit."
    dark = [way for number, way in enumerate(_WAYS) if not np.any(paths.route == number)]
    return (
        f"{what} {utilisation(paths, schedule.steps, fabric):.0%} of all wavelengths on all links carry light, "
        "averaged over the steps."
        + "".join(f" The {way} fibres stay dark." for way in dark)
        + " Colour is the rank that sends."
    )


@canvas.styled
def _ring_map(schedule: Schedule, fabric: Fabric) -> Figure:
    """Draw the wavelengths of each step on a WDM ring, or of the first, the middle and the last of more than four, a
    row of panels for each direction in use and a column for each step, and return the figure.

    Where steps are left out, the share of wavelengths lit on each link in each step is drawn below. The title tells the
    share of the wavelengths of both directions lit over all steps. The schedule must lie in steps, unfolded to all
    ranks (:func:`in_steps`).
    """
    from matplotlib.figure import Figure

    paths = lightpaths(schedule, fabric)
    ways = [number for number in range(len(_WAYS)) if np.any(paths.route == number)] or [0]
    shown = steps_shown(schedule.steps)
    rest = 2.1 if len(shown) < schedule.steps else 0.0
    height = float(np.clip(fabric.channels * 0.16, 1.1, 2.1)) * len(ways)
    figure = Figure(figsize=(_WIDTH, 0.95 + height + rest), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[0.7 + height, rest]) if rest else [figure]
    title = f"{schedule.algorithm}: {schedule.collective.kind} among {fabric.ranks} ranks, "
    canvas.headline(parts[0], title + f"{utilisation(paths, schedule.steps, fabric):.0%} of the wavelengths lit")
    _panels(parts[0], paths, fabric, ways, shown, schedule.steps)
    if rest:
        _heat(parts[1], schedule, fabric, ways)
    return figure


def _panels(
    figure: Figure | SubFigure, paths: Lightpaths, fabric: Fabric, ways: list[int], shown: list[int], steps: int
) -> None:
    """Draw a panel for each direction (rows) and each shown step (columns), links across and wavelengths upwards.

    Colour is the rank whose light a wavelength of a link carries; dark ones stay empty.

    Args:
        figure: figure to draw in.
        paths: lightpaths of all steps.
        fabric: a WDM ring.
        ways: directions, 0 clockwise and 1 counter-clockwise.
        shown: numbers of the steps, from 0.
        steps: number of all steps.
    """
    n = fabric.ranks
    colours = canvas.cyclic_colours(n)
    axes = figure.subplots(len(ways), len(shown), squeeze=False, sharex=True, sharey=True)
    for column, step in enumerate(shown):
        sources = channel_map(paths, fabric, step)
        for row, way in enumerate(ways):
            _paint(axes[row][column], sources[way * n : (way + 1) * n].T, colours, fabric)
        axes[0][column].set_title(f"step {step + 1} of {steps}")
        axes[-1][column].set_xlabel("link")
        canvas.integer_ticks(axes[-1][column].xaxis, 5)
    fibres = fabric.channels // fabric.fibre_channels
    for row, way in enumerate(ways):
        axes[row][0].set_ylabel(f"{_WAYS[way]}\nwavelength" + ("" if fibres == 1 else f", {fibres} fibres"))
        canvas.integer_ticks(axes[row][0].yaxis, 4)
    canvas.number_bar(figure, colours, axes.ravel().tolist(), "source rank", 25)


def _paint(axes: Axes, sources: Ints, colours: Floats, fabric: Fabric) -> None:
    """Draw one direction of a ring in one step, links across and channels upwards.

    Lines part the fibres; pictures of at most 16 links and 8 channels get a grid and the numbers of the ranks.

    Args:
        axes: panel to draw in.
        sources: rank whose light each channel of each link of the direction carries, −1 where dark: [channels, links].
        colours: RGB of each rank, 0 to 1: [ranks, 3].
        fabric: the ring.
    """
    channels, links = sources.shape
    picture = np.zeros((channels, links, 4))
    lit = sources >= 0
    picture[lit] = np.concatenate([colours[sources[lit]], np.ones((np.count_nonzero(lit), 1))], axis=-1)
    axes.imshow(
        picture, origin="lower", aspect="auto", interpolation="none", extent=(-0.5, links - 0.5, -0.5, channels - 0.5)
    )
    for edge in range(fabric.fibre_channels, channels, fabric.fibre_channels):
        axes.axhline(edge - 0.5, color=canvas.INK, linewidth=0.8)
    if links <= 16 and channels <= 8:
        axes.hlines(np.arange(1, channels) - 0.5, -0.5, links - 0.5, color=canvas.FAINT, linewidth=0.4)
        axes.vlines(np.arange(1, links) - 0.5, -0.5, channels - 0.5, color=canvas.FAINT, linewidth=0.4)
        for channel, link in np.argwhere(lit):
            axes.text(link, channel, str(sources[channel, link]), ha="center", va="center", fontsize=7, color="#10151d")


def _heat(figure: Figure | SubFigure, schedule: Schedule, fabric: Fabric, ways: list[int]) -> None:
    """Draw a panel for each direction of a ring in ``ways`` (0 clockwise, 1 counter-clockwise): the share of the
    wavelengths lit, links across, steps (or bins of steps, averaged) downwards.

    Colour reaches from 0 to the largest share that occurs in any direction; a panel's title tells the mean share. The
    schedule must lie in steps, unfolded to all ranks (:func:`in_steps`).
    """
    n = fabric.ranks
    amount, per_bin = link_use(schedule, fabric)
    steps = np.full((len(amount), 1), per_bin)
    steps[-1] = schedule.steps - per_bin * (len(amount) - 1)
    share = amount / (fabric.channels * steps)
    most = float(share.max()) or 1.0
    panels = figure.subplots(1, len(ways), squeeze=False, sharey=True)[0]
    for axes, way in zip(panels, ways, strict=True):
        picture = share[:, way * n : (way + 1) * n]
        image = canvas.share_image(axes, picture, most, n, schedule.steps)
        axes.set(title=f"{_WAYS[way]}: {picture.mean():.0%} lit", xlabel="link")
        for axis in (axes.xaxis, axes.yaxis):
            canvas.integer_ticks(axis, 5)
    panels[0].set_ylabel("step")
    canvas.share_bar(figure, image, panels, "wavelengths lit", 25)


# Which job loads which links, or holds which part of their channels: a bar a link, stacked by job.

_MOST_LINKS = 48


@canvas.styled
def shared_links_figure(title: str, jobs: Sequence[str], loads: Floats, links: Sequence[str], unit: str) -> Figure:
    """Draw a bar in percent for each of the links that carry most, at most 48, stacked by job, and return the figure.

    Links of several jobs are taken first, by falling sum of their loads, then the others by theirs; bars stand in the
    order of the links, and links without load are left out. A dashed line marks 100 %.

    Args:
        title: above the figure; the number of loaded links that are not drawn is added to it.
        jobs: name of each job, in the order of ``loads``, for the legend.
        loads: share of each link that each job takes, 0 to 1; their sum may be above 1: [job, link].
        links: names of the links, which label the bars: [link].
        unit: what the share is of, on the vertical axis.
    """
    total = loads.sum(axis=0)
    several = (loads > 0).sum(axis=0) > 1
    order = np.lexsort((-total, ~several))
    shown = np.sort(order[: min(_MOST_LINKS, int((total > 0).sum()))])
    figure, axes = canvas.single_panel(9.0, 3.6)
    place, below = np.arange(len(shown)), np.zeros(len(shown))
    for job, load, colour in zip(jobs, loads, canvas.cyclic_colours(max(len(jobs), 2)), strict=False):
        axes.bar(place, 100 * load[shown], bottom=100 * below, color=colour, width=0.86, label=canvas.plain(job))
        below = below + load[shown]
    axes.axhline(100, color=canvas.FAINT, linewidth=0.8, linestyle="--")
    axes.set(xlim=(-0.6, max(len(shown), 1) - 0.4), ylim=(0, max(108.0, 104 * float(below.max(initial=0.0)))))
    axes.set_ylabel(unit)
    axes.set_xticks(place, [canvas.plain(links[link]) for link in shown], rotation=90, fontsize=5.5)
    canvas.hide_spines(axes)
    axes.legend(loc="upper left", ncols=max(len(jobs), 1), frameon=False, bbox_to_anchor=(0, 1.12), fontsize=7)
    left = int((total > 0).sum()) - len(shown)
    canvas.headline(figure, title + (f"; {left} more links carry as much or less, not drawn" if left > 0 else ""))
    return figure
