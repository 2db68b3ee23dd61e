"""Loads: the chunks that the steps of a schedule carry on a fabric, all that its cost takes from its rows.

Schedules among a thousand ranks have millions of rows. Their loads have a few entries for each step, so that one pass
over the rows prices every size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from graphlib import TopologicalSorter
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.cost import kernels
from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.schedule.columns import (
    Folding,
    Pipeline,
    Schedule,
    distinct,
    repeated_steps,
    run_begins,
)
from lightloom.core.arrays import Column, Effort, Floats, Int32s, Ints, Mask, first_rows, packed
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.memory import require_memory
from lightloom.core.results import attributes
from lightloom.machines.fabrics.derived import CellOrder, links_of
from lightloom.machines.fabrics.fabric import Fabric

# The order of a schedule's rows and steps, for what follows them in time.

BLOCK: Effort = 1 << 19
"""Rows whose links are looked up at once."""


def blocks(rows: Ints, size: int = BLOCK) -> list[Ints]:
    """Return rows split into blocks of at most ``size`` rows (2^19 by default), in order, none where there are no rows;
    this bounds the memory of arrays over their links."""
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def distinct_ends(schedule: Schedule) -> tuple[Ints, Ints]:
    """Return rows that stand for all others with the same source, destination and route, and the place of each row's
    representative among them: [distinct], [row].

    Rows are joined in a folded schedule only; in any other every row stands for itself.
    """
    if schedule.folding is None:
        every = np.arange(len(schedule))
        return every, every
    source, destination, route = schedule.ends(slice(None))
    return first_rows((source, destination, route))


def ends_in_copies(schedule: Schedule, rows: Ints) -> Iterator[tuple[Ints, tuple[Ints, Ints, Ints]]]:
    """Yield the source, destination and route of these rows in all copies of a folded schedule, copy after copy, in
    blocks.

    A schedule that is not folded has one copy.

    Args:
        rows: row numbers.

    Yields:
        The index in ``rows`` of each entry of the block, and a tuple of its source, destination and route: [entry]
        each.
    """
    folding = schedule.folding
    source, destination, route = schedule.ends(rows)
    for entries in blocks(np.arange(len(rows) * (1 if folding is None else folding.copies))):
        copy, place = np.divmod(entries, len(rows))
        begin, end = source[place], destination[place]
        if folding is not None:
            begin, end = folding.moved(begin, copy), folding.moved(end, copy)
        yield place, (begin, end, route[place])


def rows_by_step(schedule: Schedule) -> Ints:
    """Return row numbers in an order in which the steps can run.

    They are sorted by step, or with dependencies by the place of their step in a topological order; rows of a step stay
    in the order in which they are listed.
    """
    step = schedule.step if schedule.dependencies is None else step_positions(schedule)[schedule.step]
    if np.any(step[1:] < step[:-1]):
        return np.argsort(step, kind="stable")
    return np.arange(len(schedule))


def step_positions(schedule: Schedule) -> Ints:
    """Return the position of every step in an order that keeps all dependencies: [step]; without any, the step's own
    number."""
    if schedule.dependencies is None:
        return np.arange(schedule.steps)
    sorter = TopologicalSorter[int](dict.fromkeys(range(schedule.steps), ()))
    for after, before in np.asarray(schedule.dependencies).reshape(-1, 2).tolist():
        sorter.add(after, before)
    return np.argsort(list(sorter.static_order()))


def steps_before(steps: int, dependencies: Column | None) -> list[list[int]]:
    """Return, for each step, the list of the steps that must end before it begins.

    ``dependencies`` are pairs, flattened: a step, then one that it waits for. With None each step waits for the one
    before it, and step 0 for none.
    """
    if dependencies is None:
        return [[step - 1] if step else [] for step in range(steps)]
    before: list[list[int]] = [[] for _ in range(steps)]
    for after, earlier in np.asarray(dependencies, dtype=np.int64).reshape(-1, 2).tolist():
        before[after].append(earlier)
    return before


# Loads of steps whose chunks differ in size: sums of their sizes in place of counts of chunks.


def uneven_loads(schedule: Schedule, fabric: Fabric, weights: Floats) -> StepSeconds:
    """Return the loads of a schedule of steps in order, with a row for every rank, on a packet fabric.

    Of each step they are the seconds for which its busiest link is busy for every byte of the mean chunk (the sum of
    weights over bandwidth), and the longest latency of its rows; 0 where a step has no rows.

    Args:
        weights: bytes that each row sends relative to the mean chunk: [row].

    Raises:
        UnsupportedError: steps that depend on each other.
    """
    if schedule.dependencies is not None:
        raise UnsupportedError(
            f"{schedule.algorithm}: steps with dependencies share packet links, which is costed for chunks of one "
            f"size: expected a {schedule.collective.kind} of steps in order, or a queued one"
        )
    step, link, load = _link_loads(schedule, fabric, weights)
    busiest, latency = np.zeros((2, schedule.steps))
    np.maximum.at(busiest, step, load / fabric.link_bandwidth()[link])
    np.maximum.at(latency, schedule.step, fabric.latency(*schedule.ends(slice(None))))
    return StepSeconds(busiest, latency)


def lightpath_chunks(schedule: Schedule) -> tuple[Ints, Ints, Floats]:
    """Return the lightpath of each row, numbered anew from 0, [row], and the first row and the number of chunks of each
    lightpath: [lightpath] each.

    Chunks are in mean chunks where they differ in size; what several ranks tap from one lightpath is counted once. Of a
    folded schedule the rows are those of its first copy.
    """
    every, sizes = np.arange(len(schedule)), schedule.carried if schedule.weights is None else schedule.weights
    if np.array_equal(schedule.lightpath, every):
        return every, every, sizes.astype(np.float64)
    number, path = distinct(schedule.lightpath, int(schedule.lightpath.max()) + 1)
    first = np.empty(len(number), np.int64)
    first[path[::-1]] = every[::-1]
    once = schedule.destination == schedule.destination[first][path]
    return path, first, np.bincount(path, weights=once * sizes).astype(np.float64)


def circuit_sends(schedule: Schedule, latency: Floats) -> CircuitLoads:
    """Return what lightpaths send: arrays of step, chunks, channels and latency, with an entry for each send.

    Where chunks are equal, lightpaths of one step with as many chunks on as many channels have one entry, with the
    chunks of one of them and the longest latency among them; where chunks differ in size every lightpath has an entry.

    Args:
        latency: seconds from source to destination of each row: [row].
    """
    path, first, chunks = lightpath_chunks(schedule)
    if schedule.weights is None:
        alike = packed((schedule.step[first], schedule.wavelength_count[first], chunks.astype(np.int64)))
        number, send = distinct(alike, int(alike.max(initial=0)) + 1)
        one = np.empty(len(number), np.int64)
        one[send] = np.arange(len(send))
        path, first, chunks = send[path], first[one], chunks[one]
    longest = np.zeros(len(first))
    if latency.any():
        np.maximum.at(longest, path, latency)
    return CircuitLoads(schedule.step[first], chunks, schedule.wavelength_count[first].astype(np.int64), longest)


# Changes of circuits, and the circuits that a schedule uses, whatever its size.


@dataclass(frozen=True, slots=True)
class CircuitChanges:
    """Which steps of a schedule change circuits, whatever its size."""

    changed: Mask
    """True for steps that change circuits: [step]."""
    static: bool
    """True where one set of circuits serves every step, so that only the first changes them."""
    rows: Ints | None = None
    """Rows whose circuits are set up, of a static schedule all that it uses; None: any row may be the only one."""


def circuit_changes(schedule: Schedule, fabric: Fabric) -> CircuitChanges:
    """Return which steps of a schedule on circuits change circuits; each circuit (source, destination, route and
    channels) stays until another needs one of its channels.

    Where no channel ever serves a second circuit all are set up at first: ``static`` holds, only the lowest-numbered
    step that has rows is marked, and ``rows`` are those whose circuits are set up. Otherwise ``rows`` is None.

    Raises:
        UnsupportedError: the table of channels does not fit in the memory that is free.
    """
    changed = np.zeros(schedule.steps, np.bool_)
    if schedule.folding is not None:
        used, overwritten = _changed_in_copies(schedule, fabric, changed)
    else:
        new = np.zeros(len(schedule), np.bool_)
        overwritten = _Circuits(fabric).tune(schedule, rows_by_step(schedule), changed, new)
        used = np.flatnonzero(new)
    if not overwritten:
        # Everything can be set up before the first step: later circuits never take a channel from earlier ones.
        changed[:] = False
        changed[int(schedule.step.min())] = True
    return CircuitChanges(changed, not overwritten, None if overwritten else used)


class _Circuits:
    """The circuit that each channel of each link serves."""

    def __init__(self, fabric: Fabric) -> None:
        """Begin without circuits: every channel of every link is dark.

        Raises:
            UnsupportedError: the table of channels does not fit in the memory that is free.
        """
        cells = fabric.links * fabric.channels
        require_memory(8 * cells, f"a fabric of {fabric.links:,} links with {fabric.channels} channels each")
        self.fabric = fabric
        self.tuned = np.zeros(cells, np.int64)
        self._order: CellOrder | None = None

    def tune(self, schedule: Schedule, rows: Ints, changed: Mask, new: Mask) -> bool:
        """Set up the circuits that these rows need, in the order of ``rows``, and return True if some channel that
        served a circuit had to serve another one.

        Circuits differ that differ in source, destination, route, first channel or number of channels. The table of
        circuits is changed in place.

        Args:
            rows: row numbers.
            changed: out, set to True for steps that change circuits: [step].
            new: out, set to True for rows whose circuits are set up: [row].
        """
        fabric, overwritten = self.fabric, False
        channel = schedule.fibre.astype(np.int32) * np.int32(fabric.fibre_channels) + schedule.first_wavelength
        used = kernels.Channels(schedule.step, channel, schedule.wavelength_count, new)
        for block in blocks(rows):
            source, destination, route = schedule.ends(block)
            runs = fabric.footprint(source, destination, route)
            width = schedule.wavelength_count[block]
            key = ((source * (fabric.ranks + 1) + destination) * 2 + route) * fabric.channels + channel[block]
            key = key * (fabric.channels + 1) + width + 1
            self._order = self._order or CellOrder.of(fabric.links, fabric.channels, runs, width)
            overwritten |= kernels.changes(block, key, used, runs, self._order, self.tuned, changed)
        return overwritten

    def follow(self, schedule: Schedule, rows: Ints, step: int) -> tuple[Ints, bytes, bool, bool]:
        """Set up the circuits that the rows of one step need in all copies of a folded schedule, in a new table of
        channels that takes the place of the old one.

        Args:
            rows: row numbers, of which those of step number ``step`` are taken.

        Returns:
            The table, the circuit of each channel of each link after the step; a digest of it; True if the step changed
            any; and True if it took a channel from another circuit.
        """
        self.tuned = self.tuned.copy()
        copies = schedule.with_rows(rows[schedule.step[rows] == step]).unfolded(self.fabric.fibre_channels)
        changed, new = np.zeros(schedule.steps, np.bool_), np.zeros(len(copies), np.bool_)
        overwritten = self.tune(copies, np.arange(len(copies)), changed, new)
        return self.tuned, blake2b(self.tuned.data).digest(), bool(changed.any()), overwritten


def _changed_in_copies(schedule: Schedule, fabric: Fabric, changed: Mask) -> tuple[Ints, bool]:
    """Mark the steps of a folded schedule that change circuits, in ``changed`` [step], and return the numbers of rows
    that, in all copies, name all circuits (rows of steps like an earlier one left out), and True if some channel serves
    a second circuit.

    A step that finds the same circuits as one before that is like it does the same to them, and is not followed again.

    Raises:
        UnsupportedError: the table of channels or the rows of all copies do not fit in the memory that is free.
    """
    first, rows = repeated_steps(schedule)
    circuits, followed = _Circuits(fabric), dict[tuple[bytes, int], tuple[Ints, bytes, bool, bool]]()
    stands = b"nothing"
    for step, alike in enumerate(first.tolist()):
        found = stands, alike
        if found not in followed:
            followed[found] = circuits.follow(schedule, rows, alike)
        circuits.tuned, stands, changed[step], _ = followed[found]
    return rows, any(overwritten for *_, overwritten in followed.values())


# Chunks that the steps of a schedule load on the links of a packet fabric, whatever the size.
#
# Steps repeat: all steps of a ring send from every rank to the same neighbour, and the exchange of all pairs is the
# same step of a gather, of a scatter and of an all-to-all. So the links of equal steps are counted once, and what was
# counted is kept for later schedules on the same fabric. A transfer along a line of a grid adds to the two ends of
# its run instead of to every link of it.

_DENSE: Effort = 8
"""Steps with more rows than ranks² over this are counted pair by pair."""


class _Transfers(NamedTuple):
    """Transfers of one step, each of several chunks: arrays [transfer]."""

    source: Ints
    destination: Ints
    route: Ints
    chunks: Ints

    def in_all_copies(self, folding: Folding, most: int) -> Iterator[_Transfers]:
        """Yield the transfers of all copies of a folded schedule in parts of at most ``most`` transfers."""
        for rows in blocks(np.arange(len(self.source)), most):
            source, destination, *others = (column[rows] for column in self)
            if folding.copies == 1:
                # A switch that reduces is an end as well, and no rank of any copy.
                yield _Transfers(source, destination, *others)
                continue
            for copies in blocks(np.arange(folding.copies)[:, None], most // len(rows)):
                ends = (folding.moved(end, copies).ravel() for end in (source, destination))
                yield _Transfers(*ends, *(np.tile(column, len(copies)) for column in others))


class _StepChunks(NamedTuple):
    """Chunks that one step loads on links."""

    chunks: Ints
    """Chunks that cross each link, or at most one of each class: [link] or [class]."""
    latency: float
    """Seconds of the longest way."""


class _LatestLoads:
    """The loads of steps that were asked for last, as many as fit: kinds and sizes share their steps."""

    def __init__(self, most_nbytes: int) -> None:
        """Keep loads of at most so many bytes; the last one even if it is larger."""
        self._most, self._nbytes = most_nbytes, 0
        self._loads: OrderedDict[bytes, _StepChunks] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of loads that are kept."""
        return len(self._loads)

    def load(self, key: bytes, count: Callable[[], _StepChunks]) -> _StepChunks:
        """Return the load of this key; where it is not kept it is what ``count()`` returns, which is then kept.

        Then those that were asked for longest ago are dropped until the rest take no more bytes than this store may
        hold; the new one always stays.
        """
        if key not in self._loads:
            load = count()
            self._loads[key] = load
            self._nbytes += load.chunks.nbytes
            while self._nbytes > self._most and len(self._loads) > 1:
                self._nbytes -= self._loads.popitem(last=False)[1].chunks.nbytes
        self._loads.move_to_end(key)
        return self._loads[key]


_latest = _LatestLoads(1 << 27)


def _loads_by_step(schedule: Schedule, fabric: Fabric, classes: int, link_class: Ints | None) -> list[_StepChunks]:
    """Return, for each step, the chunks that each link carries, of all copies of a folded schedule, and the longest
    latency in seconds; zeros for a step without rows.

    Steps that are equal are counted once, and remembered between calls.

    Args:
        classes: number of classes of links; number of links where ``link_class`` is None.
        link_class: class of each link [link], which must follow from the fields of the fabric, since it is no part of
            the key of what is remembered: the chunks are then the most that a link of each class carries [class]. None:
            those of each link [link].
    """
    folding = schedule.folding or Folding.alike(fabric.ranks, fabric.ranks)
    name = blake2b(repr((fabric_key(fabric), folding.period, folding.axes, link_class is None)).encode()).digest()

    def count(transfers: _Transfers) -> _StepChunks:
        """Return the load of these transfers in all copies, by class of links where there are classes."""
        load = _count_chunks(transfers, folding, fabric)
        if link_class is None:
            return load
        return load._replace(chunks=np.array([load.chunks[link_class == number].max() for number in range(classes)]))

    def load_of_transfers(rows: Sequence[Column]) -> _StepChunks:
        """Return the load of a step's rows, kept by the transfers to which they join."""
        transfers = _distinct_transfers(rows, fabric.ranks)
        return _latest.load(digest(("transfers", name), transfers), lambda: count(transfers))

    nothing = _StepChunks(np.zeros(classes, np.int64), 0.0)
    return [
        _latest.load(digest(("rows", name), rows), partial(load_of_transfers, rows)) if len(rows[0]) else nothing
        for rows in _rows_by_step(schedule)
    ]


def fabric_key(fabric: Fabric) -> tuple[object, ...]:
    """Return a key of a fabric: on fabrics with equal keys a schedule costs the same.

    It has the fabric's implementation and its fields as JSON, sources left out.
    """
    return (*fabric.implementation, fabric.model_dump_json(exclude={"sources"}))


def digest(name: object, columns: Iterable[Column]) -> bytes:
    """Return a 16-byte hash of the bytes of columns and of the ``repr`` of ``name``, which is anything else that has to
    be equal."""
    hashed = blake2b(repr(name).encode(), digest_size=16)
    for column in columns:
        hashed.update(np.ascontiguousarray(column).data)
    return hashed.digest()


def _rows_by_step(schedule: Schedule) -> list[list[Column]]:
    """Return, for each step, the list of source, destination and route of its rows, [row] each."""
    step, columns = schedule.step, [schedule.source, schedule.destination, schedule.route]
    if np.any(step[1:] < step[:-1]):
        order = np.argsort(step, kind="stable")
        step, columns = step[order], [column[order] for column in columns]
    begins = np.searchsorted(step, np.arange(schedule.steps + 1)).tolist()
    return [[column[begin:end] for column in columns] for begin, end in pairwise(begins)]


def _distinct_transfers(rows: Sequence[Column], ranks: int) -> _Transfers:
    """Return the transfers of one step, rows with the same ends and route joined, and the number of rows of each as its
    chunks.

    Where the rows exceed ranks² / 8 and all take route 0, all like rows are joined, and transfers come by source and
    then destination; else only rows that follow each other with equal ends and routes are joined, in their order.

    Args:
        rows: source, destination and route: [row] each.
    """
    source, destination, route = (column.astype(np.int64) for column in rows)
    if len(source) * _DENSE > ranks * ranks and not route.any():
        # An in-network reducer is one rank more.
        chunks = np.bincount(source * (ranks + 1) + destination)
        pairs = np.flatnonzero(chunks)
        source, destination = np.divmod(pairs, ranks + 1)
        return _Transfers(source, destination, np.zeros_like(source), chunks[pairs])
    first = np.flatnonzero(run_begins(source, destination, route))
    return _Transfers(source[first], destination[first], route[first], np.diff(first, append=len(source)))


def _count_chunks(transfers: _Transfers, folding: Folding, fabric: Fabric) -> _StepChunks:
    """Return the chunks that the transfers of a step, at least one, load in all copies on each link [link], and the
    step's latency.

    On the fabric of a group of ranks, the same transfers of all sibling groups load the links too. The latency is that
    of the slowest transfer; on a fabric that reduces in the network that of its diameter.
    """
    on_link, change = np.zeros(fabric.links, np.int64), np.zeros(fabric.links + 1, np.int64)
    latency = 0.0
    for *ends, chunks in transfers.in_all_copies(folding, max(BLOCK // len(fabric.siblings()[1]), 1)):
        kernels.count_chunks(fabric.footprint(*ends), chunks, on_link, change)
        latency = max(latency, float(fabric.latency(*ends).max()))
    # In a switch that reduces, light runs up and down within one step, so the two delays follow each other.
    return _StepChunks(
        on_link + np.cumsum(change)[:-1], fabric.diameter_latency() if fabric.in_network_reduction else latency
    )


def busiest_links(schedule: Schedule, fabric: Fabric, link_class: Ints) -> tuple[Ints, Floats]:
    """Return the most chunks that a link of each class carries in each step [class, step], and the longest latency of
    each step's transfers in seconds [step].

    Args:
        schedule: one of steps, folded or not.
        fabric: a packet fabric.
        link_class: class of each link, which follows from the fields of the fabric: [link].
    """
    loads = _loads_by_step(schedule, fabric, int(link_class.max()) + 1, link_class)
    return np.stack([load.chunks for load in loads], axis=1), np.array([load.latency for load in loads])


# Pipelines: a step holds steps t, t + interval, t + 2 · interval, ... of the first piece, each of another piece: those
# from some first to some last of these *places*, all of them once enough pieces are under way. Seconds are found once
# for every residue t and every run of places; then any number of pieces and any size cost a few additions.
#
# pieces 3, interval 1, rows of 4 steps          places in a step
# a  b  c  d                                     0 | 0 1 | 0 1 2 | 1 2 3 | 2 3 | 3
#    a  b  c  d
#       a  b  c  d
#
# Pieces may follow each other at the interval that the schedule states, or at once: the first has fewer steps under
# way, so that fewer pieces do, the second leaves no link idle that any step could use.

PIECES = tuple(sorted({1 << k for k in range(11)} | {3 << k for k in range(9)}))
"""Numbers of pieces that are compared: 1, 2, 3, 4, 6, 8, 12, ... 1024."""
_MOST_CHUNKS = 1 << 31
_MOST_AT_ONCE = 64
"""Most steps of a piece that all may be under way at once."""


class StepSeconds(NamedTuple):
    """Seconds of steps whatever the size, in parts that grow with it and that do not: [step].

    Of a pipeline they are those of the steps that hold places ``first`` to ``last``: [residue, first, last].
    """

    per_byte: Floats
    """Seconds for which the busiest link is busy, a byte of a mean chunk."""
    latency: Floats
    """Seconds of the longest way."""

    def seconds(self, loads: StepLoads, fabric: Fabric) -> Floats:
        """Return the seconds of each step's busiest link for chunks as large as those of ``loads``, plus its latency:
        [step].

        ``fabric`` is not used.
        """
        return np.asarray(self.per_byte * loads.chunk_nbytes + self.latency)


class PipelinedLoads(NamedTuple):
    """Loads of a schedule, for each interval at which its pieces may follow each other."""

    options: dict[int, StepSeconds]
    """By interval, seconds [residue, first, last]."""
    crossings: float
    """Links that chunks cross, of all ranks and of one piece."""

    def seconds(self, loads: StepLoads, fabric: Fabric) -> Floats:
        """Return the seconds of each step of the whole pipeline, for the size, pieces and interval of ``loads``:
        [step].

        A step takes the seconds of its busiest link under all pieces then under way, plus their longest latency. The
        interval must be one of ``options`` (KeyError otherwise), and ``loads`` those of a pipeline. ``fabric`` is not
        used.
        """
        assert loads.pipeline is not None
        per_byte, latency = self.options[loads.pipeline.interval]
        places = latency.shape[1]
        turn = np.arange(places + loads.pieces - 1)
        first, last = np.maximum(turn - loads.pieces + 1, 0), np.minimum(turn, places - 1)
        slots: Floats = per_byte[:, first, last] * loads.chunk_nbytes + latency[:, first, last]
        return slots.T.ravel()[: loads.steps]


def pipelined_loads(schedule: Schedule, pipeline: Pipeline, fabric: Fabric) -> PipelinedLoads:
    """Return the loads of a schedule that is this pipeline, folded or not, on a packet fabric.

    They are, by interval, the seconds of all runs of places (:func:`_interval_loads`), and the number of crossings of a
    link by a chunk, of all chunks of one piece and all ranks. They hold for the interval of ``pipeline`` and, where a
    piece has at most 64 steps, for interval 1.
    """
    piece = schedule.first_piece()
    loads = _loads_by_step(piece, fabric, fabric.links, None)
    intervals = {pipeline.interval, 1} if piece.steps <= _MOST_AT_ONCE else {pipeline.interval}
    options = {interval: _interval_loads(loads, interval, fabric.link_bandwidth()) for interval in sorted(intervals)}
    return PipelinedLoads(options, float(sum(int(load.chunks.sum()) for load in loads)))


def _interval_loads(loads: Sequence[_StepChunks], interval: int, bandwidth: Floats) -> StepSeconds:
    """Return the seconds that each run of consecutive places takes in a pipeline whose pieces follow at ``interval``
    steps.

    Place p of residue r is step r + p · ``interval`` of the first piece; the steps of a run are under way at once.

    Args:
        loads: chunks on each link and the latency, of each step of the first piece.
        bandwidth: bytes per second: [link].

    Returns:
        Seconds of the busiest link for each byte of a chunk, and latency: [residue, first place, last place] each.
    """
    places = -(-len(loads) // interval)
    chunks, delays = np.zeros((interval, places, len(bandwidth))), np.zeros((interval, places))
    for step, load in enumerate(loads):
        chunks[step % interval, step // interval], delays[step % interval, step // interval] = load
    runs = [_seconds_of_runs(*of_residue, bandwidth) for of_residue in zip(chunks, delays, strict=True)]
    return StepSeconds(*map(np.array, zip(*runs, strict=True)))


def _seconds_of_runs(loads: Floats, delays: Floats, bandwidth: Floats) -> tuple[Floats, Floats]:
    """Return, for every run of places of one residue, the seconds of the busiest link for each byte of a chunk, and the
    longest delay: [first, last] each; 0 where ``last`` is before ``first``.

    Args:
        loads: chunks: [place, link].
        delays: seconds: [place].
        bandwidth: bytes per second: [link].
    """
    places = len(delays)
    seconds, latency = np.zeros((2, places, places))
    used = np.flatnonzero(loads.any(axis=0))
    per_chunk = loads[:, used] / bandwidth[used]
    for first in range(places):
        seconds[first, first:] = np.cumsum(per_chunk[first:], axis=0).max(axis=1, initial=0.0)
        latency[first, first:] = np.maximum.accumulate(delays[first:])
    return seconds, latency


@dataclass(frozen=True, slots=True)
class CircuitLoads:
    """Sends over circuits that may be the slowest of their steps: arrays [send]."""

    step: Int32s
    chunks: Floats
    """Chunks on the lightpath, in mean chunks where they differ in size."""
    width: Ints
    """Channels of the lightpath."""
    latency: Floats
    """Seconds of the longest way of such a send; 0 where the model leaves propagation out."""

    def seconds(self, loads: StepLoads, fabric: Fabric) -> Floats:
        """Return the seconds of the slowest lightpath of each step; 0 where a step sends nothing: [step].

        A lightpath takes its chunks, each of the bytes of ``loads``, at the bandwidth of its channels on ``fabric``,
        plus the latency that is stored here. ``loads`` gives the number of steps too.
        """
        slowest = np.zeros(loads.steps)
        per_chunk = loads.chunk_nbytes / fabric.channel_bandwidth
        np.maximum.at(slowest, self.step, self.chunks * per_chunk / self.width + self.latency)
        return slowest


@dataclass(frozen=True, slots=True)
class PacketLoads:
    """Chunks on the busiest links of each step, of links of equal bandwidth."""

    link_class: Ints
    """Class of each link, by its bandwidth: [link]."""
    first_link: Ints
    """A link of each class: [class]."""
    chunks: Ints
    """Most chunks that a link of a class carries in a step: [class, step]."""
    latency: Floats
    """Seconds of the longest way in each step: [step]."""
    by_link: tuple[Ints, Ints, Floats] | None = None
    """Steps, links and chunks of all that steps load, [use] each, where steps run at once and share links; or None."""

    def seconds(self, loads: StepLoads, fabric: Fabric) -> Floats:
        """Return the seconds of the busiest link of each step plus those of the longest way: [step].

        The bytes of a chunk and the number of steps are those of ``loads``, the bandwidth of links is that of
        ``fabric``, and the latency of the longest way is the one stored here.

        Raises:
            ConfigError: links that were of equal bandwidth are not on ``fabric``, as where packets are smaller.
        """
        bandwidth = fabric.link_bandwidth()
        if (bandwidth != bandwidth[self.first_link][self.link_class]).any():
            raise ConfigError(f"{fabric.kind_name}: with_smaller_packets tells links of equal bandwidth apart")
        busiest = np.zeros(loads.steps)
        for most, per_chunk in zip(self.chunks, loads.chunk_nbytes / bandwidth[self.first_link], strict=True):
            # Chunk after chunk, as links add them up: products would be rounded in another way.
            seconds = np.zeros(int(most.max(initial=0)) + 1)
            np.cumsum(np.full(len(seconds) - 1, per_chunk), out=seconds[1:])
            np.maximum(busiest, seconds[most], out=busiest)
        return busiest + self.latency


TransferLoads = CircuitLoads | PacketLoads | PipelinedLoads | StepSeconds


@dataclass(frozen=True, slots=True)
class StepLoads:
    """The chunks that the steps of a schedule carry on a fabric, and the order of the steps."""

    model: CostModel
    collective: Collective
    chunks: int
    steps: int
    dependencies: Column | None
    """Pairs of steps as in :attr:`Schedule.dependencies`."""
    pipeline: Pipeline | None
    """Pieces of the data as in :attr:`Schedule.pipeline`."""
    transfers: TransferLoads
    changes: CircuitChanges | None
    """Steps that change circuits; None where the model or the fabric charges none of them, or all."""
    crossings: float
    """Chunks of one piece that are sent, each once for every lightpath, on packet fabrics for every link that it
    crosses."""

    @property
    def chunk_nbytes(self) -> float:
        """Bytes of one chunk, the mean one where parts differ in size: the distinct bytes of the collective over all
        chunks, those of all pieces together."""
        return self.collective.distinct_nbytes / self.chunks

    @property
    def pieces(self) -> int:
        """Pieces of a pipeline that follow each other; 1 of every other schedule."""
        return 1 if self.pipeline is None else self.pipeline.pieces

    def transmission(self, fabric: Fabric) -> Floats:
        """Return the seconds that each step takes for bits on links and for propagation, as if no other step ran beside
        it: [step].

        Start-up and set-up of circuits are left out. ``fabric`` gives the bandwidth where a step's chunks are stored
        (on circuits, and on packets of equal chunks outside pipelines); latencies, and seconds per byte where these are
        stored, were counted before.
        """
        return self.transfers.seconds(self, fabric)

    def at_size(self, nbytes: float, fabric: Fabric) -> StepLoads:
        """Return the loads for a collective of ``nbytes``, as its kind counts them; those of a pipeline in the pieces
        and at the interval that take the least time on ``fabric``, all others with the size alone changed.

        The pieces are chosen among 1, 2, 3, 4, 6, 8, 12, ... 1024 pieces (fewer than 2^31 chunks in all), the interval
        among those that were counted, for the least sum of :meth:`transmission`.
        """
        sized = replace(self, collective=self.collective.resized(nbytes))
        if not isinstance(self.transfers, PipelinedLoads) or self.pipeline is None:
            return sized
        chunks, steps = self.chunks // self.pieces, self.steps - self.pipeline.delay
        intervals, numbers = self.transfers.options, [pieces for pieces in PIECES if chunks * pieces < _MOST_CHUNKS]
        options = [
            replace(sized, chunks=chunks * option.pieces, steps=steps + option.delay, pipeline=option)
            for option in (Pipeline(pieces, interval) for interval in intervals for pieces in numbers)
        ]
        return min(options, key=lambda option: float(option.transmission(fabric).sum()))


def at_size(schedule: Schedule, nbytes: float, loads: StepLoads, fabric: Fabric) -> Schedule:
    """Return the schedule for a collective of ``nbytes``, as its kind counts them; a pipeline in the pieces and at the
    interval that :meth:`StepLoads.at_size` chooses.

    Args:
        loads: loads of the schedule on ``fabric``, at any size.
    """
    schedule, pipeline = schedule.resized(nbytes), loads.at_size(nbytes, fabric).pipeline
    return schedule if pipeline is None else schedule.in_pieces(pipeline.pieces, pipeline.interval)


def step_loads(schedule: Schedule, fabric: Fabric, model: CostModel = "physical") -> StepLoads:
    """Return the loads of a schedule of steps, from which its cost at any size follows: chunks, steps and their order,
    what the steps carry (:func:`_transfer_loads`), which change circuits, and the crossings that take energy.

    Changes of circuits are counted in the physical model only, crossings only where the fabric states its energy per
    bit (0 otherwise).

    Raises:
        UnsupportedError: chunks of different sizes in steps that depend on each other on packets, or rows or tables
            that do not fit in the memory that is free.
    """
    if not fabric.exclusive:
        schedule = schedule.of_single_chunks()
    transfers = _transfer_loads(schedule, fabric, model)
    changes = circuit_changes(schedule, fabric) if fabric.exclusive and model == "physical" else None
    return StepLoads(
        model=model,
        **attributes(schedule, "collective chunks steps dependencies pipeline"),
        transfers=transfers,
        changes=changes,
        crossings=0.0 if fabric.energy_per_bit is None else _crossings(schedule, fabric, transfers),
    )


def _transfer_loads(schedule: Schedule, fabric: Fabric, model: CostModel) -> TransferLoads:
    """Return what the steps carry: circuits by lightpath, packets by their busiest links.

    On circuits ``CircuitLoads``; on packets ``StepSeconds`` where chunks differ in size (else all below),
    ``PipelinedLoads`` of a pipeline, else ``PacketLoads`` by classes of links of equal bandwidth, whose ``by_link`` is
    there only where steps have dependencies.

    ``model`` makes a difference on circuits alone, where "paper" leaves latency out.
    """
    if fabric.exclusive:
        return _circuit_loads(schedule, fabric, model)
    if (weights := schedule.weights) is not None:
        return uneven_loads(schedule, fabric, weights)
    if schedule.pipeline is not None:
        return pipelined_loads(schedule, schedule.pipeline, fabric)
    _, first_link, link_class = np.unique(fabric.link_bandwidth(), return_index=True, return_inverse=True)
    by_link = None if schedule.dependencies is None else _link_loads(schedule, fabric, np.ones(len(schedule)))
    return PacketLoads(link_class, first_link, *busiest_links(schedule, fabric, link_class), by_link)


def _crossings(schedule: Schedule, fabric: Fabric, transfers: TransferLoads) -> float:
    """Return the number of chunks sent (in mean chunks where they differ), on packet fabrics times the links that each
    crosses.

    On circuits equal chunks count once for each lightpath, however many ranks tap it, in all copies; where chunks
    differ in size every row counts. Only one piece of a pipeline is counted. ``transfers`` are what
    :func:`_transfer_loads` returns for the schedule.
    """
    if isinstance(transfers, PipelinedLoads):
        return transfers.crossings
    weights = schedule.weights
    if isinstance(transfers, CircuitLoads):
        if weights is not None:
            return float(weights.sum())
        return float(lightpath_chunks(schedule)[2].sum()) * (1 if schedule.folding is None else schedule.folding.copies)
    if weights is not None:
        return float(weights @ fabric.hops(*schedule.ends(slice(None))))
    rows, number = distinct_ends(schedule)
    like = np.bincount(number, minlength=len(rows))
    return float(sum((fabric.hops(*ends) * like[place]).sum() for place, ends in ends_in_copies(schedule, rows)))


def _circuit_loads(schedule: Schedule, fabric: Fabric, model: CostModel) -> CircuitLoads:
    """Return the sends over circuits, lightpaths that take equally long joined as in :func:`circuit_sends`, each with
    its longest latency in all copies of a folded schedule.

    Latency is 0 in the paper model; with sizes of parts every lightpath has an entry.
    """
    rows, number = distinct_ends(schedule)
    latency = np.zeros(len(rows))
    if model == "physical" and fabric.diameter_latency() > 0:
        for place, ends in ends_in_copies(schedule, rows):
            np.maximum.at(latency, place, fabric.latency(*ends))
    return circuit_sends(schedule, latency[number])


def _link_loads(schedule: Schedule, fabric: Fabric, weights: Floats) -> tuple[Ints, Ints, Floats]:
    """Return the steps and links that rows use, and the sum of the ``weights`` [row] of each step's rows on each link:
    [use] each.

    On the fabric of a group of ranks the links of the sibling groups are loaded too. Only links with a row have an
    entry, sorted by step and then by link.
    """
    cells, loads = list[Ints](), list[Floats]()
    for rows in blocks(np.arange(len(schedule)), max(BLOCK // len(fabric.siblings()[1]), 1)):
        row, link = links_of(fabric.footprint(*schedule.ends(rows)))
        cell, place = np.unique(schedule.step[rows][row] * np.int64(fabric.links) + link, return_inverse=True)
        cells.append(cell)
        loads.append(np.bincount(place, weights[rows][row]).astype(np.float64))
    used, place = np.unique(np.concatenate(cells), return_inverse=True)
    return *np.divmod(used, fabric.links), np.bincount(place, np.concatenate(loads)).astype(np.float64)
