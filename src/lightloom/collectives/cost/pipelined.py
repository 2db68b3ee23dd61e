"""What folded schedules and pipelines load on the links of a packet fabric, step by step, whatever the size.

A step of a pipeline holds steps t, t + interval, t + 2 · interval, ... of the first piece, each of another piece: those
from some first to some last of these *places*, all of them once enough pieces are under way. Seconds are found once for
every residue t and every run of places; then any number of pieces and any size cost a few additions.

    pieces 3, interval 1, rows of 4 steps          places in a step
    a  b  c  d                                     0 | 0 1 | 0 1 2 | 1 2 3 | 2 3 | 3
       a  b  c  d
          a  b  c  d

Pieces may follow each other at the interval that the schedule states, or at once: the first has fewer steps under way,
so that fewer pieces do, the second leaves no link idle that any step could use.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.columns import Folding, Pipeline, Schedule
from lightloom.core.arrays import Floats, Ints
from lightloom.core.effort import Effort
from lightloom.core.keys import packed
from lightloom.fabrics.base import Fabric

_BLOCK: Effort = 1 << 18
PIECES = tuple(sorted({1 << k for k in range(11)} | {3 << k for k in range(9)}))
"""Numbers of pieces that are compared: 1, 2, 3, 4, 6, 8, 12, ... 1024."""
_MOST_CHUNKS = 1 << 31
_MOST_KEPT: Effort = 1 << 26
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


class _Transfers(NamedTuple):
    """Distinct transfers of the rows, by step: arrays [transfer]."""

    step: Ints
    source: Ints
    destination: Ints
    route: Ints
    chunks: Ints


_kept: OrderedDict[bytes, _Load] = OrderedDict()
"""What steps load, by their transfers, copies and fabric: several kinds and sizes share their steps."""


def _keep(key: bytes, load: _Load) -> None:
    _kept[key] = load
    while len(_kept) > 1 and sum(load.chunks.nbytes for load in _kept.values()) > _MOST_KEPT:
        _kept.popitem(last=False)


def pipelined_loads(schedule: Schedule, fabric: Fabric) -> PipelinedLoads:
    """The loads of a schedule of steps in order on a packet fabric, folded or not."""
    piece = schedule.first_piece()
    transfers = _transfers(piece)
    begins = np.searchsorted(transfers.step, np.arange(piece.steps + 1))
    folding = piece.folding or Folding.alike(fabric.ranks, fabric.ranks)
    of_fabric = (fabric.model_dump_json(exclude={"sources"}), *fabric.implementation, folding.period, folding.axes)
    loads = []
    for begin, end in pairwise(begins.tolist()):
        own = _Transfers(*(column[begin:end] for column in transfers))
        digest = blake2b(repr(of_fabric).encode(), digest_size=16)
        for column in own[1:]:
            digest.update(np.ascontiguousarray(column).data)
        if digest.digest() not in _kept:
            _keep(digest.digest(), _load(own, piece, fabric))
        _kept.move_to_end(digest.digest())
        loads.append(_kept[digest.digest()])
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


def _transfers(piece: Schedule) -> _Transfers:
    """Rows of one step with the same ends and route are one transfer of several chunks."""
    key = packed((piece.step, piece.source, piece.destination, piece.route))
    _, first, chunks = np.unique(key, return_index=True, return_counts=True)
    return _Transfers(piece.step[first].astype(np.int64), *piece.ends(first), chunks)


def _copies(transfers: _Transfers, piece: Schedule) -> tuple[Ints, Ints, Ints, Ints]:
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


def _load(transfers: _Transfers, piece: Schedule, fabric: Fabric) -> _Load:
    from lightloom.collectives.cost import _cost_kernels as kernels

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
