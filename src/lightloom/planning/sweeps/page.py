"""The report of a sweep on one page: the winners, their margins, and the points that could not be computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from operator import attrgetter, itemgetter
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from lightloom.core.results import cells, in_groups
from lightloom.core.units import format_ratio, format_size, format_time
from lightloom.planning.sweeps.run import Swept
from lightloom.planning.sweeps.workers import DONE, FAILED, REFUSED, Row
from lightloom.reports.figures.canvas import (
    FAINT,
    INK,
    cyclic_colours,
    evenly_spaced,
    hide_spines,
    logarithmic_ticks,
    panel_grid,
    plain,
    single_panel,
    styled,
    to_svg,
)
from lightloom.reports.report import Picture, Report, Table, table_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Contests: rows that answer the same question (one collective or one model on one fabric), ranked by time.

_QUESTION: Mapping[str, tuple[str, ...]] = {
    "collective": ("collective", "cost_model", "site", "ranks", "settings", "nbytes"),
    "plan": ("model", "cost_model", "site", "ranks", "settings", "batch_per_rank", "sequence_length", "overlap"),
}
_ROUNDING = 1e-9
"""Relative difference below which two times count as equal."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One collective or one model on one fabric or cluster, with every algorithm that was tried."""

    ranking: tuple[Row, ...]
    """Rows by time, equal times by name; never empty."""

    @property
    def winner(self) -> Row:
        """Row with the shortest time; of times equal but for rounding (a relative 1e-9) the first by name, the
        algorithm's or ``STRATEGY with ALGORITHM``."""
        return self.ranking[0]

    @property
    def equals(self) -> int:
        """Number of other rows that are as fast as the winner, but for rounding (a relative 1e-9)."""
        return sum(_as_fast(row, self.winner["time_s"]) for row in self.ranking) - 1

    @property
    def next(self) -> Row | None:
        """The fastest row that is slower than the winner; None where all are as fast."""
        return next((row for row in self.ranking if not _as_fast(row, self.winner["time_s"])), None)

    @property
    def names(self) -> str:
        """Name of the winner, followed by the number of others that are as fast: ``ring and 2 as fast``."""
        return entrant(self.winner) + (f" and {self.equals} as fast" if self.equals else "")

    @property
    def second(self) -> str:
        """Name of the fastest slower row; a dash where there is none."""
        return "–" if self.next is None else entrant(self.next)

    @property
    def times_as_long(self) -> str:
        """Time of the fastest slower row over that of the winner as text, such as ``1.25×``; a dash where there is no
        such row or the winner takes no time."""
        best = self.winner["time_s"]
        return "–" if self.next is None else format_ratio(self.next["time_s"] / best if best else None)

    @property
    def exposed(self) -> float:
        """Seconds that the winning training step waits for communication and for circuits; only in contests of
        plans."""
        return float(self.winner["exposed_communication_s"] + self.winner["exposed_reconfiguration_s"])

    @property
    def memory(self) -> str:
        """Bytes of memory of the winning training step as text, followed by ", does not fit" or, where the size of the
        memory is unknown, ", of unknown"; only in contests of plans."""
        return format_size(self.winner["memory_bytes"]) + _FITS[self.winner["fits_memory"]]

    @property
    def place(self) -> str:
        """Fabric or cluster, number of ranks, settings and, of plans, batch of a rank, tokens of a sequence where they
        are stated, and "no overlap" where there is none, in words: ``pod, 64 ranks, batch 8, 2048 tokens``."""
        row = self.winner
        words = [f"{row['site']}, {row['ranks']} ranks", row["settings"]]
        if row["what"] == "plan":
            tokens = row["sequence_length"]
            words += [f"batch {row['batch_per_rank']}", "" if tokens is None else f"{tokens} tokens"]
            words += ["" if row["overlap"] else "no overlap"]
        return ", ".join(filter(None, words))


def contests(rows: Iterable[Row], what: str) -> list[Contest]:
    """Return the contests among finished rows of a kind (``what`` is "collective" or "plan"), in the order of their
    first rows: rows with equal columns but strategy, algorithm and results are rivals. Rows of the other kind, and
    refused and failed ones, are left out."""
    finished = (row for row in rows if row["what"] == what and row["status"] == DONE)

    def ranked(rivals: list[Row]) -> Contest:
        """Return the contest of some rows: those as fast as the fastest first, by name, then the others by time."""
        best = min(row["time_s"] for row in rivals)
        return Contest(tuple(sorted(rivals, key=lambda row: (not _as_fast(row, best) and row["time_s"], entrant(row)))))

    return [ranked(rivals) for rivals in in_groups(finished, itemgetter(*_QUESTION[what])).values()]


def _as_fast(row: Row, best: float) -> bool:
    """Return True where a row's time is at most ``best`` seconds, but for rounding (a relative 1e-9)."""
    return bool(row["time_s"] <= best * (1 + _ROUNDING))


def entrant(row: Row) -> str:
    """Return the name of what was tried: the algorithm of a collective, or of a plan ``STRATEGY with ALGORITHM``."""
    return f"{row['strategy']} with {row['algorithm']}" if row["what"] == "plan" else str(row["algorithm"])


def fastest(contests: Iterable[Contest]) -> Counter[str]:
    """Return the number of contests in which each entrant is fastest, by name; equally fast ones all count."""
    return Counter(entrant(row) for contest in contests for row in contest.ranking[: contest.equals + 1])


def grouped(contests: Iterable[Contest], *names: str) -> list[tuple[tuple[Any, ...], list[Contest]]]:
    """Return the groups of contests whose winners have equal values in the columns ``names``, as (values, contests), in
    the order of their first contests."""
    return list(in_groups(contests, lambda contest: tuple(contest.winner[name] for name in names)).items())


# The tables of a sweep's page.

_FITS = {True: "", False: ", does not fit", None: ", of unknown"}
_TABLE_ROWS = 200
"""Rows of a table on the page; results.parquet holds all rows."""


def wins(group: Sequence[Contest], title: str) -> Table:
    """Return a table with a row for each entrant that is fastest in some contest, the most frequent first. Its columns
    are algorithm (of plans with the strategy), times fastest, with equally fast ones, and alone."""
    alone = Counter(entrant(contest.winner) for contest in group if not contest.equals)
    rows = tuple((name, f"{count:,}", f"{alone[name]:,}") for name, count in fastest(group).most_common())
    return Table(title=title, columns=("algorithm", "times fastest", "alone"), rows=rows)


def collective_tables(collectives: Sequence[Contest]) -> list[Table]:
    """Return a table of winners for each kind of collective and cost model, one row a contest, the first 200. Its
    columns are where, bytes, fastest, time, vs bound (time over the lower bound), next (the fastest slower one) and
    times as long (as the fastest)."""
    columns = "where: {place} | bytes: {winner[nbytes]:size} | fastest: {names} | time: {winner[time_s]:time} | "
    columns += "vs bound: {winner[ratio]:ratio} | next: {second} | times as long: {times_as_long}"
    groups = grouped(collectives, "collective", "cost_model")
    return [_contests_table(f"Fastest {kind}, {model} cost", columns, group) for (kind, model), group in groups]


def plan_table(plans: Sequence[Contest]) -> Table:
    """Return the table of the fastest training steps, one row a contest, the first 200; there must be at least one
    contest. Its columns are model, where, fastest, step, computation, exposed, memory, next (the fastest slower one)
    and times as long (as the fastest)."""
    columns = "model: {winner[model]} | where: {place} | fastest: {names} | step: {winner[time_s]:time} | "
    columns += "computation: {winner[compute_s]:time} | exposed: {exposed:time} | memory: {memory} | "
    columns += "next: {second} | times as long: {times_as_long}"
    return _contests_table("Fastest training steps", columns, plans)


def _contests_table(title: str, columns: str, contests: Sequence[Contest]) -> Table:
    """Return a table with a row for each contest, the first 200. ``columns`` is "heading: format | ...", where a format
    names attributes of :class:`Contest`, as in ``time: {winner[time_s]:time}``."""
    return table_of(title, cells(columns, contests[:_TABLE_ROWS]), _rows_left_out(contests))


def reasons(rows: Iterable[Row]) -> Table:
    """Return the table of statuses and reasons of those rows that could not be computed, with the number of rows of
    each, the most frequent first; at most 200. Its columns are points (that number), status and why."""
    counts = Counter((row["status"], row["why"]) for row in rows if row["status"] != DONE).most_common()
    shown = tuple((f"{count:,}", *reason) for reason, count in counts[:_TABLE_ROWS])
    return Table(title="Not computed", columns=("points", "status", "why"), rows=shown, caption=_rows_left_out(counts))


def _rows_left_out(rows: Sequence[object]) -> str:
    """Return the caption "The first 200 of N; results.parquet holds all." of a table of more than 200 rows; empty for
    others."""
    return f"The first {_TABLE_ROWS} of {len(rows):,}; results.parquet holds all." if len(rows) > _TABLE_ROWS else ""


# A figure of the winners: a cell for each contest, coloured by the fastest entrant.

Colours = Mapping[str, Any]
"""Colour of each name."""
_CELL, _ROW, _LABEL = 1.05, 0.36, 0.068
"""Width and height of a cell with words, and width of a letter of a row's label, in inches."""
_NARROW, _LOW = 0.2, 0.13
"""Least width and height of a cell, of which only the colour tells the winner."""
_WORDY_ROWS, _WORDY_COLUMNS = 32, 10
"""Largest numbers of rows and columns of a grid whose cells have words."""
_SHADE = 0.38
"""Opacity of a cell: ink stays readable on light and on dark ground."""


class Cell(NamedTuple):
    """The cell of one contest."""

    row: str
    column: str
    winner: str
    text: str
    """Text of the cell, one or two lines."""


def colours_of(names: Sequence[str]) -> dict[str, Any]:
    """Return a colour (sRGB values, 0 to 1) for each different name, by name: equally light hues at even distances
    around the circle, in the order in which names first occur."""
    ordered = list(dict.fromkeys(names))
    return dict(zip(ordered, cyclic_colours(len(ordered)).tolist(), strict=True))


@styled
def winners_figure(cells: Sequence[Cell], colours: Colours) -> Figure:
    """Return a figure of all cells as a grid, each in the colour of its winner and with its text; rows (downwards) and
    columns (left to right) keep the order in which they first occur. Cells of grids of more than 32 rows or 10 columns
    are small and have no text. A legend names the winners."""
    from matplotlib.patches import Patch, Rectangle

    rows = {row: place for place, row in enumerate(dict.fromkeys(cell.row for cell in cells))}
    columns = {column: place for place, column in enumerate(dict.fromkeys(cell.column for cell in cells))}
    width = max(_CELL * min(len(columns), _WORDY_COLUMNS), _NARROW * len(columns))
    height = max(_ROW * min(len(rows), _WORDY_ROWS), _LOW * len(rows))
    wordy = len(columns) <= _WORDY_COLUMNS and len(rows) <= _WORDY_ROWS
    label = _LABEL * max(map(len, rows)) + 0.2
    figure, axes = single_panel(max(label + width, 7.0), 0.9 + height)
    for cell in cells:
        x, y = columns[cell.column], rows[cell.row]
        axes.add_patch(Rectangle((x, y), 0.97, 0.94, color=colours[cell.winner], alpha=_SHADE, linewidth=0))
        if wordy:
            axes.text(x + 0.485, y + 0.47, plain(cell.text), ha="center", va="center", fontsize=7.2, linespacing=1.15)
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    turned: dict[str, Any] = {} if wordy else {"rotation": 90, "fontsize": 6}
    axes.set_xticks([x + 0.485 for x in range(len(columns))], [plain(tick) for tick in columns], **turned)
    axes.set_yticks([y + 0.47 for y in range(len(rows))], [plain(tick) for tick in rows], fontsize=None if wordy else 6)
    axes.tick_params(length=0, color=FAINT)
    axes.xaxis.tick_top()
    axes.spines[:].set_visible(False)
    won = [name for name in colours if any(cell.winner == name for cell in cells)]
    handles = [Patch(color=colours[name], alpha=_SHADE, linewidth=0, label=plain(name)) for name in won]
    figure.legend(handles=handles, loc="outside lower left", ncols=min(4, len(won)))
    return figure


# A figure of time over bytes: a curve for each algorithm, above the lower bound.

_ACROSS, _WIDTH, _HEIGHT = 3, 3.0, 2.4
_LETTERS = 40
"""Letters in a line of a panel's title."""
_TICKS = 4
"""Largest number of ticks on an axis."""


@styled
def curves_figure(places: Sequence[Sequence[Contest]], colours: Colours) -> Figure:
    """Return a figure with a panel for each place, time (upwards) over bytes (to the right), both logarithmic, a curve
    for each algorithm above the lower bound; algorithms without an entry in ``colours`` never win and are thin and
    grey. ``places`` has the contests of each place, of one place or more; panels are titled by it."""
    from matplotlib.lines import Line2D

    across = min(_ACROSS, len(places))
    down = -(-len(places) // across)
    figure, grid = panel_grid(_WIDTH * across, _HEIGHT * down + 0.5, down, across)
    panels = grid.flatten()
    for axes, contests in zip(panels, places, strict=False):
        _draw_panel(axes, contests, colours)
    for axes in panels[len(places) :]:
        axes.set_axis_off()
    named = {entrant(row) for contests in places for contest in contests for row in contest.ranking}
    handles = [Line2D([], [], color=colours[name], label=plain(name)) for name in colours if name in named]
    if named - set(colours):
        handles.append(Line2D([], [], color=FAINT, linewidth=0.6, label="never fastest"))
    handles.append(Line2D([], [], color=INK, linewidth=1, linestyle=":", label="lower bound"))
    figure.legend(handles=handles, loc="outside lower left", ncols=4)
    return figure


def _draw_panel(axes: Any, contests: Sequence[Contest], colours: Colours) -> None:
    """Draw on ``axes`` the time over bytes at one place, both logarithmic: a curve for each entrant, thin and grey
    without an entry in ``colours``, and the lower bound dotted."""
    ordered = sorted(contests, key=lambda entry: entry.winner["nbytes"])
    for name, rows in in_groups((row for contest in ordered for row in contest.ranking), entrant).items():
        ours, points = name in colours, [(row["nbytes"], row["time_s"]) for row in rows]
        look = {"color": colours[name], "linewidth": 1.4, "zorder": 2} if ours else {"color": FAINT, "linewidth": 0.5}
        axes.plot(*zip(*points, strict=True), marker="o", markersize=2.6 if ours else 0, **look)
    bound = [(entry.winner["nbytes"], entry.winner["lower_bound_s"]) for entry in ordered]
    axes.plot(*zip(*bound, strict=True), color=INK, linewidth=1, linestyle=":", zorder=3)
    axes.set(xscale="log", yscale="log")
    axes.set_title(plain(fill(ordered[0].place, _LETTERS)), fontsize=7.6)
    sizes = [entry.winner["nbytes"] for entry in ordered]
    shown = sizes[:: -(-len(sizes) // _TICKS)]
    axes.set_xticks(shown, [format_size(size) for size in shown])
    axes.set_xticks([], minor=True)
    logarithmic_ticks(axes.yaxis, format_time, numticks=_TICKS + 1)
    axes.tick_params(labelsize=7)
    axes.grid(color=FAINT, linewidth=0.3, alpha=0.6)
    hide_spines(axes)


_PANELS = 6
"""Largest number of panels of a picture of curves; results.parquet holds everything."""


def sweep_report(result: Swept, description: str) -> Report:
    """Return the page of a finished sweep: pictures and tables of the winners, and the points that could not be
    computed. ``description`` is the sweep's, shown below the headline."""
    collectives, plans = contests(result.rows, "collective"), contests(result.rows, "plan")
    statuses = result.statuses
    pictures = (*_collective_pictures(collectives), *_plan_pictures(plans))
    won = wins(collectives, "Collectives won"), wins(plans, "Training steps won")
    tables = (*won, *collective_tables(collectives), *([plan_table(plans)] if plans else []), reasons(result.rows))
    return Report(
        title=f"sweep {result.name}",
        headline=headline(result.rows) or "nothing could be computed",
        explanation=description,
        facts=(
            ("points", f"{len(result.rows):,}"),
            *((name, f"{statuses[name]:,}") for name in (DONE, REFUSED, FAILED)),
            ("collectives compared", f"{len(collectives):,}"),
            ("training steps compared", f"{len(plans):,}"),
        ),
        notes=("Every schedule was replayed by the verifier; no time lies below its lower bound.",) if pictures else (),
        pictures=pictures,
        tables=tuple(table for table in tables if table.rows),
        provenance=result.provenance,
    )


def headline(rows: Collection[Row]) -> str:
    """Return in words who is fastest most often, of collectives and of training steps: ``ring is fastest in 3 of 8
    collectives; ...``; empty where nothing is finished."""
    groups = {"collectives": contests(rows, "collective"), "training steps": contests(rows, "plan")}
    best = ((*first, len(group), what) for what, group in groups.items() for first in fastest(group).most_common(1))
    return "; ".join(f"{name} is fastest in {count} of {total} {what}" for name, count, total, what in best)


# Scatters: each entrant by two objectives that trade off; filled where no other one at the same place beats it.


class Point(NamedTuple):
    """An entrant by two objectives, of which less is better."""

    place: str
    """Entrants of the same place are rivals."""
    name: str
    x: float
    y: float


def on_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Return for each point (x, y), of which less is better, True where no other point is less in one coordinate and no
    more in the other; equal points are alike."""
    front, least = set[tuple[float, float]](), inf
    for x, y in sorted(points):
        if y < least:
            front.add((x, y))
            least = y
    return [point in front for point in points]


@styled
def scatter_figure(points: Sequence[Point], colours: Colours, labels: tuple[str, str]) -> Figure:
    """Return a figure of points by both objectives, both logarithmic; filled are those that no rival at the same place
    beats, and names without an entry in ``colours`` are grey. ``labels`` are those of the x and y axes."""
    from matplotlib.lines import Line2D

    figure, axes = single_panel(7.0, 4.6)
    for group in in_groups(points, attrgetter("place")).values():
        for point, best in zip(group, on_front([(point.x, point.y) for point in group]), strict=True):
            colour = colours.get(point.name, FAINT)
            look = {"color": colour, "markerfacecolor": colour if best else "none", "zorder": 2 + best}
            axes.plot(point.x, point.y, "o", markersize=4.5, **look)
    axes.set(xscale="log", yscale="log", xlabel=labels[0], ylabel=labels[1])
    for axis, values in ((axes.xaxis, [point.x for point in points]), (axes.yaxis, [point.y for point in points])):
        low, high = min(values), max(values)
        ticks = sorted({low, sqrt(low * high), high})
        axis.set_ticks(ticks, [f"{tick:.3g}" for tick in ticks])
        axis.set_ticks([], minor=True)
    axes.grid(color=FAINT, linewidth=0.3, alpha=0.6)
    hide_spines(axes)
    names = [name for name in colours if any(point.name == name for point in points)]
    handles = [Line2D([], [], marker="o", linestyle="none", color=colours[name], label=plain(name)) for name in names]
    handles.append(Line2D([], [], marker="o", linestyle="none", color=FAINT, label="never fastest"))
    figure.legend(handles=handles, loc="outside lower left", ncols=3)
    return figure


def _scatter(
    title: str, points: Sequence[Point], colours: Colours, labels: tuple[str, str], caption: str
) -> Iterator[Picture]:
    """Yield one picture of the points, a sentence on what filled ones mean added to ``caption``; nothing without
    points. ``labels`` are those of the x and y axes."""
    caption += " Filled: no other one at its place is better in one and as good in the other."
    if points:
        yield Picture(title=title, svg=to_svg(scatter_figure(points, colours, labels)), caption=caption)


def _collective_scatter(group: Sequence[Contest], colours: Colours, title: str) -> Iterator[Picture]:
    """Yield one picture of the algorithms by the ratios of their times to the lower bound for the smallest message (to
    the right) and for the largest (upwards) of each place; nothing where no place has several sizes. Algorithms without
    one of the two ratios are left out. ``group`` has the contests of one kind and cost model, ``title`` begins that of
    the picture."""
    points = []
    for _, place in grouped(group, "site", "ranks", "settings"):
        sizes = sorted(place, key=lambda contest: contest.winner["nbytes"])
        small, large = ({entrant(row): row["ratio"] for row in each.ranking} for each in (sizes[0], sizes[-1]))
        names = [name for name in small if len(sizes) > 1 and small[name] and large.get(name)]
        points += [Point(sizes[0].place, name, small[name], large[name]) for name in names]
    labels = "times the bound, smallest message", "times the bound, largest message"
    caption = "A point for each algorithm at each place, by its smallest and its largest message."
    return _scatter(f"{title}: small against large messages", points, colours, labels, caption)


def _plan_scatters(group: Sequence[Contest], colours: Colours, title: str) -> Iterator[Picture]:
    """Yield, for each model, a picture of the plans by the seconds of a sample and by another objective: the dollars of
    a sample where these are known of any plan, else its joules, else the bytes of memory. Plans of which the objective
    is unknown are left out; the caption says how many are shown. All plans of a model count as rivals, on whichever
    cluster."""
    for (model,), contested in grouped(group, "model"):
        rows = [row for contest in contested for row in contest.ranking]
        column, words = next(each for each in _OBJECTIVES.items() if any(row.get(each[0]) for row in rows))
        known = [row for row in rows if row.get(column)]
        points = []
        for row in known:
            taken = row[column] if column == "memory_bytes" else 1 / row[column]
            points.append(Point(model, entrant(row), row["time_s"] / (row["batch_per_rank"] * row["ranks"]), taken))
        caption = (
            f"A point for each plan on each cluster, {len(known)} of {len(rows)}: the others' {words} are unknown."
        )
        head = f"{title}, {model}: time against {words}"
        yield from _scatter(head, points, colours, ("seconds a sample", words), caption)


_OBJECTIVES = {
    "samples_per_dollar": "dollars a sample",
    "samples_per_joule": "joules a sample",
    "memory_bytes": "bytes of memory",
}


def _collective_pictures(collectives: Sequence[Contest]) -> Iterator[Picture]:
    """Yield, for each kind of collective and cost model, the picture of the winners, then a scatter and curves over
    bytes where some place has several sizes."""
    colours = colours_of([entrant(contest.winner) for contest in collectives])
    caption = "Colour: the fastest, of equals the first by name; its time, and that over the lower bound."
    for (kind, model), group in grouped(collectives, "collective", "cost_model"):
        title = f"{kind[0].upper()}{kind[1:]}, {model} cost"
        drawn = winners_figure([*_size_cells(group)], colours)
        yield Picture(title=title, svg=to_svg(drawn), caption=caption)
        yield from (*_collective_scatter(group, colours, title), *_curves(group, colours, title))


def _size_cells(group: Sequence[Contest]) -> Iterator[Cell]:
    """Yield the cells of a grid of winners with a row for each place; columns are sizes, ascending, in bytes per rank
    where that makes fewer columns, else in total bytes. A cell's text is the time, and that over the lower bound."""
    totals, shares = ({_message_size(contest, of_rank) for contest in group} for of_rank in (False, True))
    of_rank = len(shares) < len(totals)
    places = list(dict.fromkeys(contest.place for contest in group))
    for contest in sorted(group, key=lambda each: (_message_size(each, of_rank), places.index(each.place))):
        row, size = contest.winner, format_size(_message_size(contest, of_rank))
        text = f"{format_time(row['time_s'])}\n{format_ratio(row['ratio'])}"
        yield Cell(contest.place, size + (" a rank" if of_rank else ""), entrant(row), text)


def _message_size(contest: Contest, of_rank: bool) -> float:
    """Return the bytes of a contest's collective, divided by its ranks with ``of_rank``."""
    row = contest.winner
    return float(row["nbytes"] / (row["ranks"] if of_rank else 1))


def _curves(group: Sequence[Contest], colours: Colours, title: str) -> Iterator[Picture]:
    """Yield one picture of time over bytes, from contests of one kind and cost model, at those places that have several
    sizes, of more than six at six evenly spaced ones; nothing where no place has."""
    by_place = [place for _, place in grouped(group, "site", "ranks", "settings") if len(place) > 1]
    shown = evenly_spaced(by_place, _PANELS)
    caption = "What every rank holds in the end (all-gather) or at the start (all others)."
    if len(shown) < len(by_place):
        caption += f" {len(shown)} of {len(by_place)} places."
    if shown:
        yield Picture(title=f"{title}: time over bytes", svg=to_svg(curves_figure(shown, colours)), caption=caption)


def _plan_pictures(plans: Sequence[Contest]) -> Iterator[Picture]:
    """Yield, for each cost model, the picture of the fastest training steps, then scatters of all plans by time and
    another objective."""
    colours = colours_of([entrant(contest.winner) for contest in plans])
    caption = "Colour: the fastest strategy and algorithm, of equals the first by name; time of a step."
    for (model,), group in grouped(plans, "cost_model"):
        title, drawn = f"Training steps, {model} cost", winners_figure([_plan_cell(each) for each in group], colours)
        yield Picture(title=title, svg=to_svg(drawn), caption=caption)
        yield from _plan_scatters(group, colours, title)


def _plan_cell(contest: Contest) -> Cell:
    """Return the cell of a training step in a grid of places (rows) and models (columns), with its time and the part of
    it that is exposed."""
    row = contest.winner
    text = f"{format_time(row['time_s'])}\n{format_time(contest.exposed)} exposed"
    return Cell(contest.place, row["model"], entrant(row), text)
