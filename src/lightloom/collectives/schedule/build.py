"""From moves to a schedule: give every transfer a route and wavelengths, and split steps that need too many.

An algorithm states *moves*: in logical step s, source sends these chunks to destination.
:func:`assign_wavelengths` turns them into *stages*, whose transfers have routes and colours, and :func:`staged` a
sequence of stages into rows on a fabric. On circuits the transfers of a stage that overlap take different colours; when
there are more colours than channels the stage takes several steps; when there are fewer, ``striped`` lets each transfer
bundle several channels.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.schedule import kernels
from lightloom.collectives.schedule.columns import COLUMNS, ChunkLists, Folding, Schedule, distinct, grouped, sorted_by
from lightloom.core.arrays import Column, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import CLOCKWISE, COUNTERCLOCKWISE, Fabric

# Wavelength assignment on rings and lines, and planes on circuit switches.
#
# For all-to-all the assignments are optimal and written down:
#
# * line of n nodes: ``floor(n²/4)`` wavelengths each way (the load of the middle link; intervals colour perfectly);
# * ring of n nodes: ``ceil(floor(n²/4) / 2)`` each way (half the load of any pair of opposite links).


def ring_links(nodes: int, source: Ints, destination: Ints, route: Ints) -> int:
    """Return the number of links of the longest lightpath of those from ``source`` to ``destination`` [lightpath] on a
    ring of ``nodes`` nodes; ``route`` is CLOCKWISE, towards higher nodes, or else counter-clockwise."""
    ahead = np.where(np.asarray(route) == CLOCKWISE, destination - source, source - destination)
    return int((ahead % nodes).max())


@lru_cache(maxsize=64)
def ring_all_to_all(nodes: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return an optimal one-stage all-to-all on a ring: (source, destination, route, wavelength), [ordered pair] each,
    every pair of different nodes once, in no order to count on. Routes are CLOCKWISE or COUNTERCLOCKWISE; wavelengths
    count from 0 in either direction.

    Two opposite nodes X and Y are served at a time and then taken off the ring. For v on the one side of them and u on
    the other, one clockwise wavelength carries the closed tour X→v→Y→u→X, one counter-clockwise its reverse:

             v
          ↗     ↘
        X         Y        four demands a wavelength, every link used exactly once
          ↖     ↙
             u

    X→Y and Y→X take what is left: half a tour each way when the sides differ by one node, else a wavelength of their
    own, clockwise and counter-clockwise in turn.
    """
    parts, used = list[tuple[Any, ...]](), [0, 0]
    remaining = np.arange(nodes, dtype=np.int64)
    while len(remaining) >= 2:
        half = (len(remaining) + 1) // 2
        x, y = remaining[0], remaining[half]
        near, far = remaining[1:half], remaining[half + 1 :]
        for direction in (CLOCKWISE, COUNTERCLOCKWISE):
            for side, enter, leave in ((near, x, y), (far, y, x)):
                colour = used[direction] + np.arange(len(side))
                a, b = (enter, leave) if direction == CLOCKWISE else (leave, enter)
                parts += [(a, side, direction, colour), (side, b, direction, colour)]
        spare = used[CLOCKWISE] + len(far), used[COUNTERCLOCKWISE] + len(far)
        used = [number + len(near) for number in used]
        ways = (CLOCKWISE, COUNTERCLOCKWISE)
        if len(near) == len(far):
            direction = CLOCKWISE if used[CLOCKWISE] <= used[COUNTERCLOCKWISE] else COUNTERCLOCKWISE
            ways, spare = (direction, direction), (used[direction],) * 2
            used[direction] += 1
        ends = ((y, x), (x, y)) if len(near) > len(far) else ((x, y), (y, x))
        for (source, destination), direction, left in zip(ends, ways, spare, strict=True):
            parts.append((source, destination, direction, np.array([left])))
        remaining = np.concatenate([near, far])
    columns = (np.broadcast_arrays(*part) for part in parts)
    sources, destinations, routes, wavelengths = map(np.concatenate, zip(*columns, strict=True))
    return sources, destinations, routes, wavelengths


def colour_intervals(start: Ints, end: Ints, nodes: int) -> tuple[Ints, int]:
    """Return a colour, from 0, for each interval [start, end) of nodes of a line, so that overlapping intervals differ
    [interval], and the number of colours.

    That number is the fewest possible: the most intervals that overlap anywhere.

    Args:
        nodes: number of nodes of the line; ``start`` and ``end`` are 0 to ``nodes``, and each interval has a node.
    """
    colour = np.empty(len(start), np.int64)
    ends = (column.astype(np.int64, copy=False) for column in (start, end))
    return colour, int(kernels.colour_by_sweep(np.lexsort((end, start)), *ends, colour, nodes))


def colour_ranges(start: Ints, end: Ints, count: Ints, nodes: int) -> tuple[Ints, Ints, Ints, Ints, int]:
    """Return ranges of colours for intervals [start, end) of a line, of which interval i takes ``count[i]`` colours;
    overlapping ones share none.

    As few colours are used as the most that overlap anywhere. Memory is taken for ranges of colours that follow each
    other, not for each colour.

    Args:
        start, end: nodes, 0 to ``nodes``, start before end: [interval].
        count: number of colours: [interval].
        nodes: number of nodes of the line.

    Returns:
        The interval that each range belongs to, ascending, its first colour, its number of colours, and how many
            colours the interval has in ranges before: [range] each; and the number of all colours.
    """
    ends = (column.astype(np.int64, copy=False) for column in (start, end, count))
    interval, colour, given, used = kernels.sweep_ranges(np.lexsort((end, start)), *ends, nodes)
    order = np.argsort(interval, kind="stable")
    interval, colour, given = interval[order], colour[order], given[order]
    total = np.cumsum(given) - given
    before = total - total[np.searchsorted(interval, interval)] if len(interval) else total
    return interval, colour, given, before, int(used)


def colour_arcs(start: Ints, length: Ints, nodes: int) -> tuple[Ints, int]:
    """Return a colour, from 0, for each arc of a ring of ``nodes``, so that overlapping arcs differ [arc], and the
    number of colours.

    Arc i covers the links ``start[i] ... start[i] + length[i] − 1`` modulo ``nodes``. Colours are as few as possible if
    some link is in no arc; else they are given first-fit, longest arcs first.

    The colour of an arc depends on the set of arcs only, not on their order, so that a transfer and its reverse, which
    run over the same links, get the same one.
    """
    ends, twice = start + length, 2 * nodes + 1
    load = np.cumsum(np.bincount(start, minlength=twice) - np.bincount(ends, minlength=twice))
    load = load[:nodes] + load[nodes:-1]
    free = np.flatnonzero(load == 0)
    if len(free):
        shifted = (start - free[0]) % nodes
        return colour_intervals(shifted, shifted + length, nodes)
    colour = np.empty(len(start), np.int64)
    order = np.lexsort((start, -length))
    return colour, int(kernels.first_fit(order, *map(np.ascontiguousarray, (start, length)), nodes, colour))


def colour_planes(source: Ints, destination: Ints, nodes: int) -> tuple[Ints, int]:
    """Return a plane, from 0, for each of some circuits between ``nodes`` nodes [circuit], and the number of planes,
    the fewest that serve them.

    That is the largest number of circuits that begin or end at one node (König's theorem). No two circuits of a plane
    begin, or end, at the same node.

    Args:
        source, destination: nodes, at least one circuit: [circuit].
    """
    degree = int(max(np.bincount(source).max(), np.bincount(destination).max()))
    colour = np.full(len(source), -1, np.int64)
    kernels.alternate(*map(np.ascontiguousarray, (source, destination)), nodes, degree, colour)
    return colour, degree


@dataclass(frozen=True, slots=True)
class Moves:
    """Transfers of one logical step: ``chunk[i]`` goes from ``source[i]`` to ``destination[i]``."""

    source: Ints
    destination: Ints
    chunk: Ints
    reduces: bool = False


class Rows(NamedTuple):
    """Columns of a schedule, whose channels number the wavelengths of all fibres in a row: arrays [row]."""

    step: Column
    lightpath: Column
    source: Column
    destination: Column
    route: Column
    channel: Column
    """First channel of the lightpath."""
    width: Column
    """Channels of the lightpath; 0 on packet fabrics."""
    chunk: Column
    reduces: Column


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, one part after the other; nothing in them is numbered anew."""
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def moves(source: ArrayLike, destination: ArrayLike, chunk: ArrayLike, *, reduces: bool = False) -> Moves:
    """Return moves of chunks from sources to destinations, given as anything that broadcasts to one entry a chunk.

    Moves are in the order of the broadcast array's entries, read row by row. ``reduces`` makes all of them add where
    they arrive.
    """
    columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(c, dtype=np.int64)) for c in (source, destination, chunk)))
    a, b, c = (np.ascontiguousarray(column.ravel()) for column in columns)
    return Moves(a, b, c, reduces)


class Stage(NamedTuple):
    """Transfers that happen at once where there are channels enough: arrays [transfer]."""

    source: Column
    destination: Column
    route: Column
    chunk: Column
    """Chunk that it carries; in a schedule of lists the place of the first one in entries that all stages share, where
    the others follow."""
    colour: Column
    """First colour. Transfers of different colours never share a channel in the same step."""
    colours: int
    carried: Column | None = None
    """Number of chunks that it carries, of a schedule of lists."""
    lightpath: Column | None = None
    """Lightpath of each transfer; those of one have the same source, route and colours. None where each has its own."""
    reduces: bool = False


def fit(fabric: Fabric, colours: int, *, striped: bool) -> tuple[int, int, int]:
    """Return the channels of each transfer, the number of colours that fit into one step, and the steps that a stage
    needs for all its colours.

    The channels are the fabric's usable ones, of which a packet fabric counts as having one.

    Args:
        colours: colours of the stage, 1 or more.
        striped: give each transfer the channels over the colours, rounded down, at least 1; otherwise 1 each.
    """
    channels = max(fabric.usable_channels, 1)
    width = max(channels // colours, 1) if striped else 1
    slots = channels // width
    return width, slots, -(-colours // slots)


def staged(
    name: str,
    collective: Collective,
    fabric: Fabric,
    stages: Iterable[Stage],
    *,
    chunks: int,
    striped: bool,
    entries: Column | None = None,
    notes: tuple[str, ...] = (),
) -> Schedule:
    """Return a schedule of one stage after the other, not yet verified.

    Colours that do not fit into one step go on in further steps of their stage. With ``striped`` each transfer bundles
    channels that the stage leaves free (see :func:`fit`).

    Args:
        name: name of the algorithm.
        chunks: chunks of all the collective's data.
        entries: chunks of a schedule on circuits whose rows carry lists of them, to which the stages refer by place:
            [entry]; None where each row carries one chunk.
        notes: choices of the algorithm, a sentence each.
    """
    parts, counts, step, path = list[Rows](), list[Column](), 0, 0
    for stage in stages:
        width, slots, steps = fit(fabric, stage.colours, striped=striped)
        transfer, now, slot, taken, chunk = _in_steps(stage, slots)
        if stage.lightpath is None:
            # Sorting 16-bit integers takes linear time.
            order = np.argsort(now.astype(np.uint16) if steps <= 1 << 16 else now, kind="stable")
            number: Column = np.arange(len(order), dtype=np.int32)
        else:
            lightpath = stage.lightpath[transfer]
            order = np.lexsort((lightpath, now))
            number = distinct(lightpath * np.int64(steps) + now, (int(lightpath.max(initial=-1)) + 1) * steps)[1][order]
        at, wide = order if stage.carried is None else transfer[order], width if fabric.exclusive else 0
        now, slot, chunk = now[order], slot[order], np.asarray(chunk, np.int32)[order]
        source, destination, route = (
            np.asarray(column, np.int32)[at] for column in (stage.source, stage.destination, stage.route)
        )
        columns = (source, destination, route, slot * width, taken[order] * wide, chunk)
        parts.append(Rows(step + now, path + number, *columns, np.full(len(order), stage.reduces)))
        counts.append(taken[order])
        step, path = step + steps, path + int(number.max(initial=-1)) + 1
    rows, lists = joined(parts), None
    if entries is not None:
        lists, chunk = ChunkLists.of_ranges(entries, rows.chunk, np.concatenate(counts))
        rows = rows._replace(chunk=chunk)
    return assemble(name, collective, fabric, rows, chunks=chunks, steps=step, lists=lists, notes=notes)


def _in_steps(stage: Stage, slots: int) -> tuple[Column, ...]:
    """Return transfers of a stage cut where their colours go on in the next step, into pieces that lie in one step
    each. Step s of the stage has the colours from s · ``slots`` to (s + 1) · ``slots`` - 1.

    Returns:
        Transfer of each piece, its step, from 0 in the stage, the place of its first colour in the step, the colours
        that it takes, which are as many as its chunks, and its first chunk, or of a schedule of lists the place of that
        chunk in the entries: [piece] each.
    """
    colour = np.asarray(stage.colour, np.int32)
    if stage.carried is None:
        one = np.broadcast_to(np.int32(1), len(colour))
        return np.arange(len(colour)), *np.divmod(colour, np.int32(slots)), one, stage.chunk
    count = np.asarray(stage.carried, np.int64)
    last = colour + count - 1
    transfer, number = grouped(last // slots - colour // slots + 1)
    step = (colour // slots)[transfer] + number
    begin = np.maximum(colour[transfer], step * slots)
    taken = np.minimum(last[transfer] + 1, (step + 1) * slots) - begin
    entry = np.asarray(stage.chunk, np.int64)[transfer] + begin - colour[transfer]
    return transfer, *(column.astype(np.int32) for column in (step, begin - step * slots, taken, entry))


def assign_wavelengths(
    name: str,
    collective: Collective,
    fabric: Fabric,
    chunks: int,
    logical: list[Moves],
    *,
    striped: bool = False,
    notes: tuple[str, ...] = (),
) -> Schedule:
    """Return a schedule of moves on a fabric, one logical step after the other, not yet verified.

    A transfer takes the route that the fabric chooses; transfers of a step between the same two ranks share a
    lightpath. A logical step takes several steps where channels do not suffice.

    Args:
        name: name of the algorithm.
        chunks: chunks of all the collective's data.
        logical: moves of each logical step.
        striped: transfers bundle channels that their step leaves free (see :func:`fit`).
        notes: choices of the algorithm, a sentence each.

    Time: linear in the number of moves; steps with the same transfers share one assignment.
    """
    assigned: dict[bytes, tuple[Ints, Ints, Ints, int]] = {}

    def stages() -> Iterator[Stage]:
        """Yield the stage of each logical step; transfers between the same two ranks share a lightpath."""
        for transfers in logical:
            code = transfers.source * fabric.ranks + transfers.destination
            key = code.tobytes()
            if key not in assigned:
                pair, path = np.unique(code, return_inverse=True)
                route, colour, colours = _coloured(*np.divmod(pair, fabric.ranks), fabric)
                assigned[key] = path, route[path], colour[path], colours
            path, route, colour, colours = assigned[key]
            ends = transfers.source, transfers.destination
            yield Stage(*ends, route, transfers.chunk, colour, colours, lightpath=path, reduces=transfers.reduces)

    return staged(name, collective, fabric, stages(), chunks=chunks, striped=striped, notes=notes)


def assemble(
    name: str, collective: Collective, fabric: Fabric, rows: Rows, *, chunks: int, steps: int, **fields: Any
) -> Schedule:
    """Return a schedule, not yet verified, of rows whose channels number the wavelengths of all fibres in a row.

    Args:
        name: name of the algorithm.
        rows: as they are to be stored; channels become fibre and wavelength.
        chunks, steps: number of all chunks, and of all steps.
        fields: further fields of :class:`Schedule`, such as ``queued``, ``folding``, ``notes``.
    """
    columns = rows._asdict()
    fibre, wavelength = np.divmod(columns.pop("channel"), fabric.fibre_channels)
    columns |= {"fibre": fibre, "first_wavelength": wavelength, "wavelength_count": columns.pop("width")}
    return Schedule(algorithm=name, collective=collective, chunks=chunks, steps=int(steps), **columns, **fields)


def _coloured(source: Ints, destination: Ints, fabric: Fabric) -> tuple[Ints, Ints, int]:
    """Return route and colour of each of some distinct transfers, [transfer] each, and the number of colours.

    On rings of wavelengths overlapping transfers of one direction differ in colour, on circuit switches those that
    begin or end at one rank; on packet fabrics all have colour 0 of 1.
    """
    route, colour, colours = fabric.route(source, destination), np.zeros_like(source), 1
    if fabric.wavelength_routed:
        for direction in np.unique(route):
            pairs = np.flatnonzero(route == direction)
            start, end = (source, destination) if direction == CLOCKWISE else (destination, source)
            colour[pairs], used = colour_arcs(start[pairs], (end - start)[pairs] % fabric.ranks, fabric.ranks)
            colours = max(colours, used)
    elif fabric.exclusive:
        colour, colours = colour_planes(source, destination, fabric.ranks)
    return route, colour, colours


# Transfers of many chunks each as rows: whole lists of chunks share lightpaths that bundle a channel for each.
#
# chunks 4, 5, 6, 7, 8 on colours 3 to 7, with 4 channels a link
#
# step 0    channel 3            4          a lightpath of one channel carries a chunk
# step 1    channels 0 to 3      5 6 7 8    one of four channels carries four, one after the other, in the same time


def along_the_line(source: Ints, destination: Ints, entry: Ints, count: Ints, n: int) -> Stage:
    """Return transfers between ranks of a line of ``n``, with a colour for each chunk, on as many colours as the
    busiest link carries chunks.

    Transfers towards higher ranks go clockwise, others counter-clockwise, with colours of their own from 0. One whose
    colours do not follow each other comes in several parts.

    Args:
        source, destination: ranks: [transfer].
        entry: place of the first chunk among the entries that all stages share: [transfer].
        count: number of chunks: [transfer].
    """
    columns, colours = list[tuple[Column, ...]](), 0
    for direction in (CLOCKWISE, COUNTERCLOCKWISE):
        rows = np.flatnonzero((destination > source) == (direction == CLOCKWISE))
        low, high = (source, destination) if direction == CLOCKWISE else (destination, source)
        interval, colour, size, before, used = colour_ranges(low[rows], high[rows], count[rows], n)
        transfer = rows[interval]
        route = np.full(len(transfer), direction, np.int8)
        columns.append((source[transfer], destination[transfer], route, entry[transfer] + before, size, colour))
        colours = max(colours, used)
    start, end, route, first, carried, colour = (np.concatenate(pair) for pair in zip(*columns, strict=True))
    return Stage(start, end, route, first, colour, colours, carried)


# One all-gather makes three collectives: reversed in time it is a reduce-scatter, the two in sequence an all-reduce.
# In the same way a broadcast makes a reduce.
#
# Why it holds: in an all-gather every chunk spreads from its owner along a tree, each rank receiving it once. Run
# backwards, every rank sends its partial sum up the same tree exactly once, after having received those of its
# children, so the owner ends with each contribution exactly once. The lightpaths run the same way back, on the same
# wavelengths.

_BACKWARDS: dict[str, Kind] = {"all-gather": "reduce-scatter", "broadcast": "reduce"}


def reverse(schedule: Schedule, fabric: Fabric, *, mirrored: bool = False) -> Schedule:
    """Return the reduce-scatter that is this all-gather run backwards, or the reduce that is this broadcast.

    Every row swaps source and destination and adds instead of storing, on the reverse route; steps and dependencies run
    in the reverse order.

    Args:
        mirrored: also reflect the ring of ranks, and the owners of chunks with it, so that rows keep their routes: what
            moves one way round still moves that way, on the same circuits. Only schedules that look the same from every
            rank of the ring stay right under it.

    Raises:
        UnsupportedError: the schedule multicasts (light cannot be summed on the way back).
        KeyError: a schedule of another kind.
    """
    kind = _BACKWARDS[schedule.collective.kind]
    if fabric.taps > 1 and len(np.unique(np.stack([schedule.lightpath, schedule.destination]), axis=1)[0]) > len(
        np.unique(schedule.lightpath)
    ):
        raise UnsupportedError(f"{schedule.algorithm} multicasts, so it cannot be run backwards as a {kind}")
    backwards = {name: column[::-1] for name, column in schedule.columns().items()}
    source, destination, chunk = backwards["destination"], backwards["source"], backwards["chunk"]
    route = fabric.reverse_route(backwards["route"])
    if mirrored:
        n, pieces = schedule.collective.ranks, schedule.chunks // schedule.collective.ranks
        order = fabric.ring_order()
        image = np.empty(n, np.int64)
        image[order] = order[-np.arange(n)]
        source, destination = image[source], image[destination]
        chunk = image[chunk // pieces] * pieces + chunk % pieces
        route = fabric.reverse_route(route)
    dependencies = schedule.dependencies
    if dependencies is not None:
        dependencies = schedule.steps - 1 - np.asarray(dependencies)[:, ::-1]
    backwards |= {"step": schedule.steps - 1 - backwards["step"], "reduces": np.ones(len(schedule), np.bool_)}
    backwards |= {"source": source, "destination": destination, "route": route, "chunk": chunk}
    backward = schedule.with_columns(backwards, collective=schedule.collective.of_kind(kind), dependencies=dependencies)
    if backward.folding is None:
        return backward
    # Rows that stand for their copies, each as the one that a rank of the first period sends.
    return backward.moved(backward.source.astype(np.int64) // backward.folding.period, back=True)


def sequence(first: Schedule, second: Schedule, collective: Collective) -> Schedule:
    """Return the schedule of ``second`` after ``first``, which together serve ``collective``.

    Steps and lightpaths of the second are numbered on. All other fields (algorithm, chunks, folding, notes and so on)
    are those of ``second``, unchanged; those of ``first`` are not looked at.

    Raises:
        UnsupportedError: steps of one of them depend on each other.
    """
    if first.dependencies is not None or second.dependencies is not None:
        raise UnsupportedError(f"{second.algorithm}: expected steps in order")
    columns = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in COLUMNS}
    columns["step"][len(first) :] += first.steps
    columns["lightpath"][len(first) :] += int(first.lightpath.max(initial=-1)) + 1
    return second.with_columns(columns, collective=collective, steps=first.steps + second.steps)


def from_all_gather(
    collective: Collective, fabric: Fabric, all_gather: Callable[[Collective], Schedule], *, mirrored: bool = False
) -> Schedule:
    """Return a schedule, not yet verified, of an all-gather, a reduce-scatter or an all-reduce from an algorithm that
    knows all-gather only.

    A reduce-scatter is the all-gather run backwards, an all-reduce that and then the all-gather.

    Args:
        collective: what is to be served, of one of the three kinds.
        all_gather: builds the schedule of the all-gather of as many ranks and bytes that it is given.
        mirrored: also reflect the ring of ranks where the all-gather is run backwards, as :func:`reverse` does.

    Raises:
        UnsupportedError: the all-gather multicasts and another kind is asked for, or its steps depend on each other and
            an all-reduce is.
    """
    gather = all_gather(collective.of_kind("all-gather"))
    if collective.kind == "all-gather":
        return gather
    scatter = reverse(gather, fabric, mirrored=mirrored)
    return scatter if collective.kind == "reduce-scatter" else sequence(scatter, gather, collective)


def all_gather_by_moves(
    name: str,
    logical: Callable[[Fabric], list[Moves]],
    collective: Collective,
    fabric: Fabric,
    *,
    pieces: int = 1,
    repeats: Callable[[Fabric], Folding | None] = lambda fabric: None,  # noqa: ARG005 - most list all ranks' moves
    striped: bool = False,
) -> Schedule:
    """Return a schedule, not yet verified, of an all-gather, a reduce-scatter (the all-gather run backwards) or an
    all-reduce (that and then the all-gather) from the moves of an all-gather.

    Args:
        name: name of the algorithm.
        logical: function that returns the moves of each logical step of the all-gather on a fabric; rank r owns chunks
            ``pieces`` · r to ``pieces`` · (r + 1) − 1.
        pieces: chunks of every rank's share.
        repeats: function that returns how the moves of the ranks that ``logical`` lists on a fabric stand for those of
            all others; None where it lists the moves of all.
        striped: transfers bundle channels that their step leaves free (see :func:`fit`).
    """

    def all_gather(gather: Collective) -> Schedule:
        """Return the schedule of an all-gather, built from the moves of its logical steps."""
        schedule = assign_wavelengths(name, gather, fabric, pieces * fabric.ranks, logical(fabric), striped=striped)
        return schedule.with_columns({}, folding=repeats(fabric))

    return from_all_gather(collective, fabric, all_gather)


def repeating(schedule: Schedule, period: int) -> Schedule:
    """Return a schedule whose rows are those that the first ``period`` ranks send, as one that repeats them around all
    ranks on the same channels; the schedule itself where the rows are those of all ranks."""
    ranks = schedule.collective.ranks
    return schedule if period == ranks else schedule.with_columns({}, folding=Folding.alike(ranks, period))


def from_broadcast(collective: Collective, fabric: Fabric, broadcast: Callable[[Collective], Schedule]) -> Schedule:
    """Return a schedule, not yet verified, of a broadcast or a reduce from an algorithm that knows broadcast only.

    A reduce is the broadcast run backwards.

    Args:
        collective: what is to be served, of one of the two kinds.
        broadcast: builds the schedule of the broadcast of as many ranks and bytes that it is given.

    Raises:
        UnsupportedError: the broadcast multicasts and a reduce is asked for.
    """
    spread = broadcast(collective.of_kind("broadcast"))
    return spread if collective.kind == "broadcast" else reverse(spread, fabric)


# Schedules of steps without their barriers: queued, so that every row goes as soon as its data is there.
#
# steps          ████ ··  ████ ··  ████ ··        every step waits for the latency of the one before
# in 2 pieces    ████████████████████████··       the second half of a share leaves while the first one travels
#
# Links serve rows in the order of their steps, and of a step first those to the next rank, then those to the one
# after it, so that not all send to the same rank at first. What a schedule moves stays the same, so that it is a
# queued one if no rank sends a sum of which it still waits for a part, and none sends a sum twice: trees and rings do
# so, doubling does not.


def distinct_transfers(
    fabric: Fabric, source: Column, destination: Column, route: Column
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the distinct transfers of rows, and for each row the number of its transfer among them.

    That number is the lightpath of queued rows on packet links.

    Args:
        source, destination, route: of each row: [row].

    Returns:
        Source, destination and route of the distinct transfers, ascending in that order: [transfer] each; and the
            number of each row's transfer: [row].
    """
    pair = source.astype(np.int64) * fabric.ranks + destination
    transfers, number = distinct(pair * fabric.routes + route, fabric.ranks**2 * fabric.routes)
    pair, route = np.divmod(transfers, fabric.routes)
    return *np.divmod(pair, fabric.ranks), route, number


def without_barriers(schedule: Schedule, fabric: Fabric, pieces: int = 1, interval: int = 0) -> Schedule:
    """Return the rows of a schedule of steps on packet links as a queued one, not yet verified.

    Every row becomes a step of its own, and all rows between two ranks share a lightpath. Links serve rows in the order
    of their steps (which are ``interval`` later for each further piece), then of pieces, and of these first those to
    the next rank, then those to the one after it, and so on.

    Args:
        schedule: steps in order, folded or not; of a pipeline, its first piece.
        pieces: parts into which every chunk is cut.
        interval: steps after which links prefer the first step of a piece to further steps of the piece before; 0:
            links serve all pieces of a step before those of the next.

    Raises:
        UnsupportedError: circuits, which need set-ups between steps, a switch that reduces, steps that depend on each
            other, or a schedule that is queued already.
    """
    if fabric.exclusive or fabric.in_network_reduction:
        raise UnsupportedError(f"{schedule.algorithm}: only packets between ranks do without steps")
    if schedule.queued or schedule.dependencies is not None:
        raise UnsupportedError(f"{schedule.algorithm}: expected steps in order")
    first = schedule.first_piece()
    columns, piece = first.columns_of_pieces(pieces, interval)
    ahead = (columns["destination"].astype(np.int64) - columns["source"]) % fabric.ranks
    order = sorted_by(ahead, piece, columns["step"])
    columns = {name: column[order] for name, column in columns.items()}
    *_, path = distinct_transfers(fabric, columns["source"], columns["destination"], columns["route"])
    return first.with_columns(
        columns | {"lightpath": path, "step": np.arange(len(path))},
        collective=schedule.collective,
        chunks=first.chunks * pieces,
        steps=len(path),
        queued=True,
        notes=(*first.notes, "without barriers" + ("" if pieces == 1 else f", every chunk in {pieces} pieces")),
    )
