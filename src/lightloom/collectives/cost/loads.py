"""What the steps of a schedule carry on a fabric, in chunks: all that its cost takes from its rows, whatever its size.

Schedules among a thousand ranks have millions of rows. Their loads have a few entries for each step, so that one pass
over the rows prices every size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.price import (
    BLOCK,
    CostModel,
    blocks,
    distinct_ends,
    ends_in_copies,
    rows_by_step,
)
from lightloom.collectives.schedule.columns import Folding, Pipeline, Schedule, repeated_steps
from lightloom.core.arrays import (
    Column,
    Effort,
    Floats,
    Int32s,
    Ints,
    Mask,
    packed,
)
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.memory import require_memory
from lightloom.machines.fabrics.derived import CellOrder, links_of
from lightloom.machines.fabrics.fabric import Fabric

# What steps load whose chunks differ in size: sums of their sizes in place of counts of chunks.


class UnevenLoads(NamedTuple):
    """Loads of the steps of a schedule on packet links: arrays [step]."""

    seconds_per_byte: Floats
    """Seconds for which the busiest link is busy, a byte of a mean chunk."""
    latency: Floats
    """Seconds of the longest way."""

    def seconds(self, chunk_nbytes: float) -> Floats:
        """Seconds of the busiest link of each step and of the longest way: [step]."""
        total: Floats = self.seconds_per_byte * chunk_nbytes + self.latency
        return total


def uneven_loads(schedule: Schedule, fabric: Fabric, weights: Floats) -> UnevenLoads:
    """The loads of a schedule of steps in order, with a row for every rank, on a packet fabric.

    Args:
        weights: what each row sends relative to the mean chunk: [row].

    Raises:
        UnsupportedError: steps that depend on each other.
    """
    if schedule.dependencies is not None:
        raise UnsupportedError(
            f"{schedule.algorithm}: steps with dependencies share packet links, which is costed for chunks of one "
            f"size: expected a {schedule.collective.kind} of steps in order, or a queued one"
        )
    links, steps = fabric.links, schedule.steps
    load, latency = np.zeros(steps * links), np.zeros(steps)
    for rows in blocks(np.arange(len(schedule))):
        ends = schedule.ends(rows)
        row, link = links_of(fabric.footprint(*ends))
        cell = schedule.step[rows][row] * np.int64(links) + link
        load += np.bincount(cell, weights=weights[rows][row], minlength=len(load))
        np.maximum.at(latency, schedule.step[rows], fabric.latency(*ends))
    return UnevenLoads((load.reshape(steps, links) / fabric.link_bandwidth()).max(axis=1), latency)


def uneven_sends(schedule: Schedule, weights: Floats, latency: Floats) -> tuple[Int32s, Floats, Ints, Floats]:
    """Step, mean chunks, channels and longest latency of what each lightpath sends: columns of ``CircuitLoads``.

    Args:
        weights: what each row sends relative to the mean chunk: [row].
        latency: seconds of each row's way: [row].
    """
    _, first, path = np.unique(schedule.lightpath, return_index=True, return_inverse=True)
    # What several ranks tap is sent once.
    once = schedule.destination == schedule.destination[first][path]
    longest = np.zeros(len(first))
    np.maximum.at(longest, path, latency)
    sent = np.bincount(path, weights=weights * once).astype(np.float64)
    width = schedule.wavelength_count[first].astype(np.int64)
    return schedule.step[first].astype(np.int32), sent, width, longest


# Which circuits a schedule changes, and which it uses, whatever its size.


@dataclass(frozen=True, slots=True)
class CircuitChanges:
    """Which steps of a schedule change circuits, whatever its size."""

    changed: Mask
    """Shape [steps]."""
    static: bool
    """Whether one set of circuits serves every step, so that only the first changes them."""
    rows: Ints | None = None
    """Rows whose circuits are set up, of a static schedule all that it uses; None: any row may be the only one."""


def circuit_changes(schedule: Schedule, fabric: Fabric) -> CircuitChanges:
    """Follow the circuits through the steps: each stays until another needs one of its channels."""
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
        cells = fabric.links * fabric.channels
        require_memory(8 * cells, f"a fabric of {fabric.links:,} links with {fabric.channels} channels each")
        self.fabric = fabric
        self.tuned = np.zeros(cells, np.int64)
        self._order: CellOrder | None = None

    def tune(self, schedule: Schedule, rows: Ints, changed: Mask, new: Mask) -> bool:
        """Set up what these rows need, in their order; True if some channel has to serve a second circuit.

        Args:
            changed: out, steps that change circuits: [step].
            new: out, rows whose circuits are set up: [row].
        """
        from lightloom.collectives.cost import kernels

        fabric, overwritten = self.fabric, False
        channel = schedule.fibre.astype(np.int32) * np.int32(fabric.fibre_channels) + schedule.first_wavelength
        used = kernels.Channels(schedule.step, channel, schedule.wavelength_count, new)
        for block in blocks(rows):
            source, destination, route = schedule.ends(block)
            runs = fabric.footprint(source, destination, route)
            key = ((source * (fabric.ranks + 1) + destination) * 2 + route) * fabric.channels + channel[block]
            key = key * (fabric.channels + 1) + schedule.wavelength_count[block] + 1
            self._order = self._order or CellOrder.of(
                fabric.links, fabric.channels, runs, schedule.wavelength_count[block]
            )
            overwritten |= kernels.changes(block, key, used, runs, self._order, self.tuned, changed)
        return overwritten

    def digest(self) -> bytes:
        """A name of these circuits."""
        return blake2b(self.tuned.data).digest()


class _Change(NamedTuple):
    """What a step does to circuits."""

    after: bytes
    """The circuits that stand then."""
    changed: bool
    overwritten: bool


def _changed_in_copies(schedule: Schedule, fabric: Fabric, changed: Mask) -> tuple[Ints, bool]:
    """Mark the steps of a folded schedule that change circuits; rows that name all circuits, and whether some channel
    serves a second one.

    A step that finds the same circuits as one before that is like it does the same to them, and is not followed again.
    """
    first, rows = repeated_steps(schedule)
    circuits, followed = _Circuits(fabric), dict[tuple[bytes, int], _Change]()
    stands = now = circuits.digest()
    skipped: list[tuple[bytes, int]] = []
    for step, alike in enumerate(first.tolist()):
        if (now, alike) in followed:
            skipped.append((now, alike))
        else:
            if now != stands:
                # Catch up from the last time that the circuits were those that stand here.
                last = max(place for place, (state, _) in enumerate(skipped) if state == stands)
                for _, other in skipped[last:]:
                    _follow(circuits, schedule, rows, other)
            skipped.clear()
            followed[now, alike] = _follow(circuits, schedule, rows, alike)
            stands = followed[now, alike].after
        change = followed[now, alike]
        now, changed[step] = change.after, change.changed
    return rows, any(change.overwritten for change in followed.values())


def _follow(circuits: _Circuits, schedule: Schedule, rows: Ints, step: int) -> _Change:
    """Set up what all copies of a step need."""
    copies = schedule.with_rows(rows[schedule.step[rows] == step]).unfolded(circuits.fabric.fibre_channels)
    changed, new = np.zeros(schedule.steps, np.bool_), np.zeros(len(copies), np.bool_)
    overwritten = circuits.tune(copies, np.arange(len(copies)), changed, new)
    return _Change(circuits.digest(), bool(changed.any()), overwritten)


def circuits_key(schedule: Schedule, fabric: Fabric, rows: Ints | None = None) -> str:
    """Names the set of circuits that a schedule ever uses: equal keys, equal circuits.

    ``rows`` may leave out rows whose circuits others have, as ``CircuitChanges.rows`` does.
    """
    if schedule.queued:
        schedule = schedule.standing(fabric.fibre_channels)
    elif schedule.folding is not None:
        rows = repeated_steps(schedule).rows if rows is None else rows
        schedule, rows = schedule.with_rows(rows).unfolded(fabric.fibre_channels), None
    names = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")
    columns = [getattr(schedule, name) if rows is None else getattr(schedule, name)[rows] for name in names]
    _, first = np.unique(packed(columns), return_index=True)
    digest = sha256(b"".join(column[first].astype(np.int64).tobytes() for column in columns))
    return digest.hexdigest()[:16]


# What folded schedules and pipelines load on the links of a packet fabric, step by step, whatever the size.
#
# A step of a pipeline holds steps t, t + interval, t + 2 · interval, ... of the first piece, each of another piece:
# those from some first to some last of these *places*, all of them once enough pieces are under way. Seconds are
# found once for every residue t and every run of places; then any number of pieces and any size cost a few additions.
#
# pieces 3, interval 1, rows of 4 steps          places in a step
# a  b  c  d                                     0 | 0 1 | 0 1 2 | 1 2 3 | 2 3 | 3
# a  b  c  d
# a  b  c  d
#
# Pieces may follow each other at the interval that the schedule states, or at once: the first has fewer steps under
# way, so that fewer pieces do, the second leaves no link idle that any step could use.

_BLOCK: Effort = 1 << 18
PIECES = tuple(sorted({1 << k for k in range(11)} | {3 << k for k in range(9)}))
"""Numbers of pieces that are compared: 1, 2, 3, 4, 6, 8, 12, ... 1024."""
_MOST_CHUNKS = 1 << 31
_PIPELINED_MOST_KEPT: Effort = 1 << 26
"""Bytes of the loads of steps that are kept."""
_MOST_AT_ONCE = 64
"""Most steps of a piece that all may be under way at once."""


class PipelinedLoads(NamedTuple):
    """Loads of a schedule, for each interval at which its pieces may follow each other."""

    options: tuple[IntervalLoads, ...]
    crossings: float
    """Links that chunks cross, of all ranks and of one piece."""

    def seconds(self, steps: int, chunk_nbytes: float, pipeline: Pipeline | None) -> Floats:
        """Seconds of each of so many steps, those of all pieces: [step]."""
        pieces, interval = (1, self.options[0].interval) if pipeline is None else (pipeline.pieces, pipeline.interval)
        loads = next(option for option in self.options if option.interval == interval)
        places = loads.latency.shape[1]
        turn = np.arange(places + pieces - 1)
        first, last = np.maximum(turn - pieces + 1, 0), np.minimum(turn, places - 1)
        slots: Floats = loads.seconds_per_byte[:, first, last] * chunk_nbytes + loads.latency[:, first, last]
        return slots.T.ravel()[:steps]

    def pipelines(self, chunks: int) -> list[Pipeline]:
        """The pipelines that are compared, of a schedule with so many chunks in a piece."""
        pieces = [pieces for pieces in PIECES if chunks * pieces < _MOST_CHUNKS]
        return [Pipeline(number, option.interval) for option in self.options for number in pieces]


class IntervalLoads(NamedTuple):
    """Seconds of steps that hold places ``first`` to ``last``: arrays [residue, first, last]."""

    interval: int
    seconds_per_byte: Floats
    """Seconds for which the busiest link is busy, a byte of a chunk."""
    latency: Floats
    """Seconds of the longest delay."""


class _PipelinedTransfers(NamedTuple):
    """Distinct transfers of the rows, by step: arrays [transfer]."""

    step: Ints
    source: Ints
    destination: Ints
    route: Ints
    chunks: Ints


_pipelined_kept: OrderedDict[bytes, _Load] = OrderedDict()
"""What steps load, by their transfers, copies and fabric: several kinds and sizes share their steps."""


def _pipelined_keep(key: bytes, load: _Load) -> None:
    _pipelined_kept[key] = load
    while (
        len(_pipelined_kept) > 1 and sum(load.chunks.nbytes for load in _pipelined_kept.values()) > _PIPELINED_MOST_KEPT
    ):
        _pipelined_kept.popitem(last=False)


def pipelined_loads(schedule: Schedule, fabric: Fabric) -> PipelinedLoads:
    """The loads of a schedule of steps in order on a packet fabric, folded or not."""
    piece = schedule.first_piece()
    transfers = _pipelined_transfers(piece)
    begins = np.searchsorted(transfers.step, np.arange(piece.steps + 1))
    folding = piece.folding or Folding.alike(fabric.ranks, fabric.ranks)
    of_fabric = (fabric.model_dump_json(exclude={"sources"}), *fabric.implementation, folding.period, folding.axes)
    loads = []
    for begin, end in pairwise(begins.tolist()):
        own = _PipelinedTransfers(*(column[begin:end] for column in transfers))
        digest = blake2b(repr(of_fabric).encode(), digest_size=16)
        for column in own[1:]:
            digest.update(np.ascontiguousarray(column).data)
        if digest.digest() not in _pipelined_kept:
            _pipelined_keep(digest.digest(), _load(own, piece, fabric))
        _pipelined_kept.move_to_end(digest.digest())
        loads.append(_pipelined_kept[digest.digest()])
    intervals = {piece.steps} if schedule.pipeline is None else {schedule.pipeline.interval}
    if schedule.pipeline is not None and piece.steps <= _MOST_AT_ONCE:
        intervals.add(1)
    options = tuple(_with_interval(loads, interval, fabric.link_bandwidth()) for interval in sorted(intervals))
    return PipelinedLoads(options, float(sum(load.crossings for load in loads)))


def _with_interval(loads: Sequence[_Load], interval: int, bandwidth: Floats) -> IntervalLoads:
    places = -(-len(loads) // interval)
    nothing = np.zeros(len(bandwidth))
    runs = []
    for residue in range(interval):
        own = loads[residue::interval]
        chunks, delays = [load.chunks for load in own], np.zeros(places)
        delays[: len(own)] = [load.delay for load in own]
        runs.append(_runs(np.array([*chunks, nothing][:places]), delays, bandwidth))
    seconds, latency = (np.array(part) for part in zip(*runs, strict=True))
    return IntervalLoads(interval, seconds, latency)


def _pipelined_transfers(piece: Schedule) -> _PipelinedTransfers:
    """Rows of one step with the same ends and route are one transfer of several chunks."""
    key = packed((piece.step, piece.source, piece.destination, piece.route))
    _, first, chunks = np.unique(key, return_index=True, return_counts=True)
    return _PipelinedTransfers(piece.step[first].astype(np.int64), *piece.ends(first), chunks)


def _copies(transfers: _PipelinedTransfers, piece: Schedule) -> tuple[Ints, Ints, Ints, Ints]:
    """Source, destination, route and chunks of these transfers in all copies."""
    folding = piece.folding
    if folding is None:
        return transfers.source, transfers.destination, transfers.route, transfers.chunks
    copy = np.arange(folding.copies)[:, None]
    source, destination = (folding.moved(rank, copy).ravel() for rank in (transfers.source, transfers.destination))
    return source, destination, np.tile(transfers.route, len(copy)), np.tile(transfers.chunks, len(copy))


class _Load(NamedTuple):
    """What the transfers of one step load."""

    chunks: Floats
    """Chunks that cross each link: [link]."""
    delay: float
    """Seconds of the longest delay."""
    crossings: int
    """Links that all chunks cross."""


def _load(transfers: _PipelinedTransfers, piece: Schedule, fabric: Fabric) -> _Load:
    from lightloom.collectives.cost import kernels

    *ends, chunks = _copies(transfers, piece)
    load, delay, crossings = np.zeros(fabric.links), 0.0, 0
    block = max(_BLOCK // len(fabric.siblings()[1]), 1)
    for begin in range(0, len(chunks), block):
        part = slice(begin, begin + block)
        source, destination, route = (column[part] for column in ends)
        runs = fabric.footprint(source, destination, route)
        crossings += kernels.add_loads(runs, chunks[part], load)
        delay = max(delay, float(fabric.latency(source, destination, route).max()))
    # Where a switch adds, data runs up and down within one step, so the two delays follow each other.
    through = fabric.in_network_reduction and len(chunks) > 0
    return _Load(load, fabric.diameter_latency() if through else delay, crossings)


def _runs(loads: Floats, delays: Floats, bandwidth: Floats) -> tuple[Floats, Floats]:
    """Seconds a byte and latency of every run of places, of one residue: [first, last] each."""
    places = len(delays)
    seconds, latency = np.zeros((2, places, places))
    used = np.flatnonzero(loads.any(axis=0))
    per_chunk = loads[:, used] / bandwidth[used]
    for first in range(places):
        together = np.zeros(len(used))
        for last in range(first, places):
            together = together + per_chunk[last]
            seconds[first, last] = together.max(initial=0.0)
            latency[first, last] = delays[first : last + 1].max()
    return seconds, latency


# The busiest links of the steps of a schedule on a packet fabric.
#
# Steps repeat: all steps of a ring send from every rank to the same neighbour, and the exchange of all pairs is the
# same step of a gather, of a scatter and of an all-to-all. So the links of equal steps are counted once, and what was
# counted is kept for later schedules on the same fabric. A transfer along a line of a grid adds to the two ends of
# its run instead of to every link of it.

_BUSIEST_MOST_KEPT: Effort = 1 << 16
"""Steps that are kept."""
_DENSE: Effort = 8
"""Steps with more rows than ranks² over this are counted pair by pair."""


class StepLoad(NamedTuple):
    """What one step loads."""

    chunks: Ints
    """Most chunks on a link of each class: [class]."""
    latency: float
    """Seconds of the longest way."""


class _BusiestTransfers(NamedTuple):
    """Transfers of one step: arrays [transfer]."""

    source: Ints
    destination: Ints
    route: Ints
    chunks: Ints


_busiest_kept: OrderedDict[tuple[str, bytes], StepLoad] = OrderedDict()


def busiest_links(schedule: Schedule, fabric: Fabric, link_class: Ints) -> tuple[Ints, Floats]:
    """Most chunks that a link of each class carries in each step, and seconds of the longest way.

    Args:
        schedule: one of steps, folded or not.
        fabric: a packet fabric.
        link_class: class of each link: [link].

    Returns:
        Arrays of shape [class, step] and [step].
    """
    classes = int(link_class.max()) + 1
    most, latency = np.zeros((classes, schedule.steps), np.int64), np.zeros(schedule.steps)
    # Bandwidths are fields of the fabric, so that its classes of links are too.
    of_fabric = "/".join((*fabric.implementation, fabric.model_dump_json(exclude={"sources"})))
    folding = schedule.folding or Folding.alike(fabric.ranks, fabric.ranks)
    of_fabric += f"/{folding.period}/{folding.axes}"
    order = np.argsort(schedule.step, kind="stable") if np.any(schedule.step[1:] < schedule.step[:-1]) else None
    columns = [
        column if order is None else column[order] for column in (schedule.source, schedule.destination, schedule.route)
    ]
    step = schedule.step if order is None else schedule.step[order]
    begins = np.searchsorted(step, np.arange(schedule.steps + 1))
    for number, (begin, end) in enumerate(pairwise(begins.tolist())):
        if begin < end:
            load = _step_load([column[begin:end] for column in columns], folding, fabric, link_class, of_fabric)
            most[:, number], latency[number] = load
    return most, latency


def _step_load(columns: list[Ints], folding: Folding, fabric: Fabric, link_class: Ints, of_fabric: str) -> StepLoad:
    """The load of the rows of a step, whose columns are source, destination and route, in all copies."""
    key = of_fabric, _digest(columns)
    if key not in _busiest_kept:
        transfers = _distinct(columns, fabric.ranks)
        same = of_fabric, _digest(list(transfers), b"distinct")
        if same not in _busiest_kept:
            _busiest_keep(same, _count(_in_all_copies(transfers, folding), fabric, link_class))
        _busiest_keep(key, _busiest_kept[same])
    _busiest_kept.move_to_end(key)
    return _busiest_kept[key]


def _digest(columns: list[Ints], what: bytes = b"rows") -> bytes:
    digest = blake2b(what, digest_size=16)
    for column in columns:
        digest.update(np.ascontiguousarray(column).data)
    return digest.digest()


def _busiest_keep(key: tuple[str, bytes], load: StepLoad) -> None:
    _busiest_kept[key] = load
    if len(_busiest_kept) > _BUSIEST_MOST_KEPT:
        _busiest_kept.popitem(last=False)


def _distinct(columns: list[Ints], ranks: int) -> _BusiestTransfers:
    """Rows with the same ends and route as one transfer, in the same order for every order of the rows.

    Rows of few transfers that do not follow each other stay apart.
    """
    source, destination, route = (column.astype(np.int64) for column in columns)
    if len(source) * _DENSE > ranks * ranks and not route.any():
        # An in-network reducer is one rank more.
        chunks = np.bincount(source * (ranks + 1) + destination)
        pairs = np.flatnonzero(chunks)
        source, destination = np.divmod(pairs, ranks + 1)
        return _BusiestTransfers(source, destination, np.zeros_like(source), chunks[pairs])
    differs = (np.diff(source) != 0) | (np.diff(destination) != 0) | (np.diff(route) != 0)
    first = np.flatnonzero(np.concatenate([[True], differs]))
    return _BusiestTransfers(source[first], destination[first], route[first], np.diff(first, append=len(source)))


def _in_all_copies(transfers: _BusiestTransfers, folding: Folding) -> _BusiestTransfers:
    if folding.copies == 1:
        return transfers
    copy = np.arange(folding.copies)[:, None]
    source, destination = (folding.moved(rank, copy).ravel() for rank in (transfers.source, transfers.destination))
    route, chunks = (np.tile(column, folding.copies) for column in (transfers.route, transfers.chunks))
    return _BusiestTransfers(source, destination, route, chunks)


def _count(transfers: _BusiestTransfers, fabric: Fabric, link_class: Ints) -> StepLoad:
    from lightloom.collectives.cost import kernels

    on_link, change = np.zeros(fabric.links, np.int64), np.zeros(fabric.links + 1, np.int64)
    latencies: list[float] = []
    # A transfer of a group of ranks occupies the links of all sibling groups.
    block = max(BLOCK // len(fabric.siblings()[1]), 1)
    for begin in range(0, len(transfers.chunks), block):
        *ends, chunks = (column[begin : begin + block] for column in transfers)
        kernels.count_chunks(fabric.footprint(*ends), chunks, on_link, change)
        latencies.append(float(fabric.latency(*ends).max()))
    # In a switch that reduces, light runs up and down within one step, so the two delays follow each other.
    latency = fabric.diameter_latency() if fabric.in_network_reduction else max(latencies)
    most = np.zeros(int(link_class.max()) + 1, np.int64)
    kernels.most_chunks(on_link, change, link_class, most)
    return StepLoad(most, latency)


@dataclass(frozen=True, slots=True)
class CircuitLoads:
    """Sends over circuits that may be the slowest of their steps: arrays [send]."""

    step: Int32s
    chunks: Ints | Floats
    """Chunks on the lightpath, in mean chunks where they differ in size."""
    width: Ints
    """Channels of the lightpath."""
    latency: Floats
    """Seconds of the longest way of such a send; 0 where the model leaves propagation out."""

    def seconds(self, steps: int, chunk_nbytes: float, fabric: Fabric) -> Floats:
        """Seconds of the slowest lightpath of each step: [steps]."""
        slowest = np.zeros(steps)
        per_chunk = chunk_nbytes / fabric.channel_bandwidth
        np.maximum.at(slowest, self.step, self.chunks * per_chunk / self.width + self.latency)
        return slowest


class LinkLoads(NamedTuple):
    """Chunks that steps load on links, by step: arrays [use]."""

    step: Ints
    link: Ints
    chunks: Ints


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
    by_link: LinkLoads | None = None
    """All links that steps load, where some steps run at once and share them; else None."""

    def seconds(self, steps: int, chunk_nbytes: float, fabric: Fabric) -> Floats:
        """Seconds of the busiest link of each step and of the longest way: [steps].

        Raises:
            ConfigError: links that were of equal bandwidth are not when packets are smaller.
        """
        bandwidth = fabric.link_bandwidth()
        if (bandwidth != bandwidth[self.first_link][self.link_class]).any():
            raise ConfigError(f"{fabric.kind_name}: with_smaller_packets tells links of equal bandwidth apart")
        busiest = np.zeros(steps)
        for most, per_chunk in zip(self.chunks, chunk_nbytes / bandwidth[self.first_link], strict=True):
            # Chunk after chunk, as links add them up: products would be rounded in another way.
            seconds = np.zeros(int(most.max(initial=0)) + 1)
            np.cumsum(np.full(len(seconds) - 1, per_chunk), out=seconds[1:])
            np.maximum(busiest, seconds[most], out=busiest)
        return busiest + self.latency


Transfers = CircuitLoads | PacketLoads | PipelinedLoads | UnevenLoads


@dataclass(frozen=True, slots=True)
class StepLoads:
    """What the steps of a schedule carry on a fabric, and what orders them."""

    model: CostModel
    collective: Collective
    chunks: int
    steps: int
    dependencies: Column | None
    """As a schedule has them."""
    pipeline: Pipeline | None
    """As a schedule has it."""
    transfers: Transfers
    changes: CircuitChanges | None
    """Steps that change circuits; None where the model or the fabric charges none of them, or all."""
    crossings: float
    """Chunks of one piece that are sent, each once for every lightpath, on packet fabrics for every link that it
    crosses."""

    @property
    def chunk_nbytes(self) -> float:
        """Bytes of one chunk."""
        return self.collective.distinct_nbytes / self.chunks

    @property
    def pieces(self) -> int:
        """Pieces of a pipeline that follow each other; 1 of every other schedule."""
        return 1 if self.pipeline is None else self.pipeline.pieces

    def transmission(self, fabric: Fabric) -> Floats:
        """Seconds of bits on links and of propagation in each step, on this fabric or on it with smaller packets."""
        if isinstance(self.transfers, PipelinedLoads):
            return self.transfers.seconds(self.steps, self.chunk_nbytes, self.pipeline)
        if isinstance(self.transfers, UnevenLoads):
            return self.transfers.seconds(self.chunk_nbytes)
        return self.transfers.seconds(self.steps, self.chunk_nbytes, fabric)

    def at_size(self, nbytes: float, fabric: Fabric) -> StepLoads:
        """The same movement of ``nbytes``, a pipeline in the pieces and at the interval that take the least time."""
        sized = replace(self, collective=self.collective.resized(nbytes))
        if not isinstance(self.transfers, PipelinedLoads) or self.pipeline is None:
            return sized
        options = [sized._as(pipeline) for pipeline in self.transfers.pipelines(self.chunks // self.pieces)]
        return min(options, key=lambda option: float(option.transmission(fabric).sum()))

    def _as(self, pipeline: Pipeline) -> StepLoads:
        assert self.pipeline is not None
        return replace(
            self,
            chunks=self.chunks // self.pieces * pipeline.pieces,
            steps=self.steps - self.pipeline.delay + pipeline.delay,
            pipeline=pipeline,
        )


def at_size(schedule: Schedule, nbytes: float, loads: StepLoads, fabric: Fabric) -> Schedule:
    """The schedule of these loads with ``nbytes``, a pipeline as :meth:`StepLoads.at_size` has it."""
    schedule, pipeline = schedule.resized(nbytes), loads.at_size(nbytes, fabric).pipeline
    return schedule if pipeline is None else schedule.in_pieces(pipeline.pieces, pipeline.interval)


def step_loads(schedule: Schedule, fabric: Fabric, model: CostModel = "physical") -> StepLoads:
    """The loads of a schedule of steps."""
    if not fabric.exclusive:
        schedule = schedule.of_single_chunks()
    transfers, changes, crossings = _loads_transfers(schedule, fabric, model), None, 0.0
    if fabric.exclusive and model == "physical":
        changes = circuit_changes(schedule, fabric)
    if fabric.energy_per_bit is not None:
        crossings = _crossings(schedule, fabric, transfers)
    return StepLoads(
        model=model,
        collective=schedule.collective,
        chunks=schedule.chunks,
        steps=schedule.steps,
        dependencies=schedule.dependencies,
        pipeline=schedule.pipeline,
        transfers=transfers,
        changes=changes,
        crossings=crossings,
    )


def _loads_transfers(schedule: Schedule, fabric: Fabric, model: CostModel) -> Transfers:
    if fabric.exclusive:
        return _circuit_loads(schedule, fabric, model)
    if (weights := schedule.weights) is not None:
        return uneven_loads(schedule, fabric, weights)
    if schedule.pipeline is not None:
        return pipelined_loads(schedule, fabric)
    return _packet_loads(schedule, fabric)


def _crossings(schedule: Schedule, fabric: Fabric, transfers: Transfers) -> float:
    if isinstance(transfers, PipelinedLoads):
        return transfers.crossings
    weights = schedule.weights
    if isinstance(transfers, CircuitLoads):
        if weights is not None:
            return float(weights.sum())
        return float(_chunks(schedule).sum()) * (1 if schedule.folding is None else schedule.folding.copies)
    if weights is not None:
        return float(weights @ fabric.hops(*schedule.ends(slice(None))))
    rows, number = distinct_ends(schedule)
    like = np.bincount(number, minlength=len(rows))
    return float(sum((fabric.hops(*ends) * like[place]).sum() for place, ends in ends_in_copies(schedule, rows)))


def _circuit_loads(schedule: Schedule, fabric: Fabric, model: CostModel) -> CircuitLoads:
    from lightloom.collectives.cost import kernels

    rows, number = distinct_ends(schedule)
    latency = np.zeros(len(rows))
    if model == "physical" and fabric.diameter_latency() > 0:
        for place, ends in ends_in_copies(schedule, rows):
            np.maximum.at(latency, place, fabric.latency(*ends))
    latency = latency[number]
    if (weights := schedule.weights) is not None:
        return CircuitLoads(*uneven_sends(schedule, weights, latency))
    sent = kernels.SentRows(schedule.step, schedule.lightpath, schedule.wavelength_count, latency)
    return CircuitLoads(*kernels.distinct_sends(sent, _chunks(schedule), schedule.steps))


def _packet_loads(schedule: Schedule, fabric: Fabric) -> PacketLoads:
    _, first_link, link_class = np.unique(fabric.link_bandwidth(), return_index=True, return_inverse=True)
    most, latency = busiest_links(schedule, fabric, link_class)
    by_link = None if schedule.dependencies is None else _link_loads(schedule, fabric)
    return PacketLoads(link_class, first_link, most, latency, by_link)


def _link_loads(schedule: Schedule, fabric: Fabric) -> LinkLoads:
    """Chunks of each step on each link that it uses."""
    cells = []
    for rows in blocks(np.arange(len(schedule)), max(BLOCK // len(fabric.siblings()[1]), 1)):
        row, link = links_of(fabric.footprint(*schedule.ends(rows)))
        cells.append(np.stack(np.unique(schedule.step[rows][row] * np.int64(fabric.links) + link, return_counts=True)))
    cell, chunks = np.concatenate(cells, axis=1)
    used, place = np.unique(cell, return_inverse=True)
    step, link = np.divmod(used, fabric.links)
    return LinkLoads(step, link, np.bincount(place, weights=chunks).astype(np.int64))


def _chunks(schedule: Schedule) -> Ints:
    """Chunks on each lightpath."""
    from lightloom.collectives.cost import kernels

    paths = int(schedule.lightpath.max()) + 1
    chunks, first_row = np.zeros(paths, np.int64), np.full(paths, -1, np.int64)
    kernels.lightpath_chunks(schedule.lightpath, schedule.destination, schedule.carried, chunks, first_row)
    return chunks
