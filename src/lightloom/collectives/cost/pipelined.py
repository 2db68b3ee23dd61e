"""What folded schedules and pipelines load on the links of a packet fabric, step by step, whatever the size.

A step of a pipeline holds steps t, t + interval, t + 2 · interval, ... of the first piece, each of another piece: those
from some first to some last of these *places*, all of them once enough pieces are under way. Seconds are found once for
every residue t and every run of places; then any number of pieces and any size cost a few additions.

    pieces 3, interval 1, rows of 4 steps          places in a step
    a  b  c  d                                     0 | 0 1 | 0 1 2 | 1 2 3 | 2 3 | 3
       a  b  c  d
          a  b  c  d
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric

_BLOCK = 1 << 18
PIECES = tuple(sorted({1 << k for k in range(11)} | {3 << k for k in range(9)}))
"""Numbers of pieces that are compared: 1, 2, 3, 4, 6, 8, 12, ... 1024."""
_MOST_CHUNKS = 1 << 31


class StepLoads(NamedTuple):
    """Seconds of steps that hold places ``first`` to ``last``: arrays [residue, first, last]."""

    interval: int
    steps: int
    """Steps of the first piece."""
    seconds_per_byte: Floats
    """Seconds for which the busiest link is busy, a byte of a chunk."""
    latency: Floats
    """Seconds of the longest delay."""
    crossings: float
    """Links that chunks cross, of all ranks and of one piece."""


class _Transfers(NamedTuple):
    """Distinct transfers of the rows, by step: arrays [transfer]."""

    step: Ints
    source: Ints
    destination: Ints
    route: Ints
    chunks: Ints


def step_loads(schedule: Schedule, fabric: Fabric) -> StepLoads:
    """The loads of a schedule of steps in order on a packet fabric, folded or not."""
    piece = schedule.first_piece()
    interval = piece.steps if schedule.pipeline is None else schedule.pipeline.interval
    transfers = _transfers(piece)
    places = -(-piece.steps // interval)
    shape = (interval, places, places)
    seconds, latency, crossings = np.zeros(shape), np.zeros(shape), 0.0
    bandwidth = fabric.link_bandwidth()
    begins = np.searchsorted(transfers.step, np.arange(piece.steps + 1))
    nothing = _Load(np.zeros(fabric.links), 0.0, 0)
    known: dict[bytes, _Load] = {b"": nothing}
    for residue in range(interval):
        loads = []
        for step in range(residue, piece.steps, interval):
            own = _Transfers(*(column[begins[step] : begins[step + 1]] for column in transfers))
            key = b"".join(column.tobytes() for column in own[1:])
            if key not in known:
                known[key] = _load(own, piece, fabric)
            loads.append(known[key])
        crossings += sum(load.crossings for load in loads)
        loads += [nothing] * (places - len(loads))
        seconds[residue], latency[residue] = _runs(
            np.array([load.chunks for load in loads]), np.array([load.delay for load in loads]), bandwidth
        )
    return StepLoads(interval, piece.steps, seconds, latency, crossings)


def _transfers(piece: Schedule) -> _Transfers:
    """Rows of one step with the same ends and route are one transfer of several chunks."""
    key = piece.step.astype(np.int64)
    for column, limit in ((piece.source, piece.collective.ranks), (piece.destination, piece.collective.ranks)):
        key = key * (limit + 1) + column
    key = key * (int(piece.route.max(initial=0)) + 1) + piece.route
    _, first, chunks = np.unique(key, return_index=True, return_counts=True)
    return _Transfers(piece.step[first].astype(np.int64), *piece.ends(first), chunks)


def _copies(transfers: _Transfers, piece: Schedule) -> tuple[Ints, Ints, Ints, Ints]:
    """Source, destination, route and chunks of these transfers in all copies."""
    folding, ranks = piece.folding, piece.collective.ranks
    if folding is None:
        return transfers.source, transfers.destination, transfers.route, transfers.chunks
    shift = np.arange(folding.copies)[:, None] * folding.period
    source, destination = (transfers.source + shift).ravel(), ((transfers.destination + shift) % ranks).ravel()
    return source, destination, np.tile(transfers.route, len(shift)), np.tile(transfers.chunks, len(shift))


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
    return _Load(load, fabric.diameter_latency() if fabric.in_network_reduction else delay, crossings)


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


def slot_seconds(loads: StepLoads, schedule: Schedule) -> Floats:
    """Seconds of each step of the schedule, of its size and in its pieces: [step]."""
    pieces = 1 if schedule.pipeline is None else schedule.pipeline.pieces
    seconds = np.zeros(schedule.steps)
    places = loads.latency.shape[1]
    turn = np.arange(places + pieces - 1)
    first, last = np.maximum(turn - pieces + 1, 0), np.minimum(turn, places - 1)
    for residue in range(loads.interval):
        slots = loads.seconds_per_byte[residue, first, last] * schedule.chunk_nbytes
        slots += loads.latency[residue, first, last]
        steps = residue + turn * loads.interval
        within = steps < schedule.steps
        seconds[steps[within]] = slots[within]
    return seconds


def in_best_pieces(schedule: Schedule, loads: StepLoads) -> Schedule:
    """The pipeline in the number of pieces that takes the least time at its size."""
    assert schedule.pipeline is not None
    chunks = schedule.chunks // schedule.pipeline.pieces
    options = [schedule.in_pieces(pieces) for pieces in PIECES if chunks * pieces < _MOST_CHUNKS]
    return min(options, key=lambda option: float(slot_seconds(loads, option).sum()))
