"""What a queued schedule costs: every row as soon as its lightpath is free and its data is there.

A chunk holds its lightpath for its bytes over the bundled bandwidth, and the fabric's overhead of a piece; it arrives a
conversion and the propagation later, while the lightpath serves the next one. Ranks that tap the lightpath receive it
from one transmission. Circuits are set up once.

On packet fabrics links take the place of lightpaths, and a row that crosses several is a transmission on each
(:mod:`lightloom.collectives.cost.packet_queues`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.cost.packet_queues import hops_of
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import ONE_TO_ONE
from lightloom.core.arrays import Floats, Ints, read_only
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric


def queued_cost(schedule: Schedule, fabric: Fabric, model: CostModel = "physical") -> Cost:
    """Time and energy of one run from dark circuits, the schedule being verified.

    Raises:
        UnsupportedError: the paper model, which charges steps.
    """
    if model == "paper":
        raise UnsupportedError(
            f"{schedule.algorithm} has no steps that the paper cost model could charge: use physical"
        )
    return _cost_of(schedule, fabric, play(schedule, fabric).seconds)


def queued_line(schedule: Schedule, fabric: Fabric) -> tuple[Cost, float]:
    """The cost of a queued schedule of rows that cross one packet link each, and the seconds that a byte of the
    collective adds to it at least, at any size: whatever the size, links serve the rows in the same order.
    """
    played = play(schedule, fabric)
    linear = not fabric.exclusive and fabric.piece_overhead == 0 and schedule.collective.nbytes > 0
    slope = played.sending / schedule.collective.nbytes if linear else 0.0
    return _cost_of(schedule, fabric, played.seconds), slope


def _cost_of(schedule: Schedule, fabric: Fabric, seconds: float) -> Cost:
    conversion = min(fabric.step_overhead, seconds)
    return Cost(
        steps=1,
        time=fabric.setup_time + seconds,
        transmission=seconds - conversion,
        conversion=conversion,
        reconfiguration=fabric.setup_time,
        setup=fabric.setup_time,
        static=True,
        energy=None if fabric.energy_per_bit is None else fabric.energy_per_bit * _sent_bits(schedule, fabric),
    )


def _sent_bits(schedule: Schedule, fabric: Fabric) -> float:
    """Bits of all transmissions of all copies, each counted once however many ranks tap it, or for every link that
    packets cross."""
    if (weights := schedule.weights) is not None:
        return _sent_unevenly(schedule, fabric, weights)
    copies = 1 if schedule.folding is None else schedule.folding.copies
    if not fabric.exclusive:
        crossings = int(fabric.hops(*schedule.ends(slice(None))).sum())
        return 8.0 * copies * crossings * fabric.wire_bytes(schedule.chunk_nbytes)
    transmissions = len(schedule) - int(follows(schedule, _queue_order(schedule)).sum())
    return 8.0 * copies * transmissions * schedule.chunk_nbytes


def _sent_unevenly(schedule: Schedule, fabric: Fabric, weights: Floats) -> float:
    """The same of chunks that differ in size, each row a transmission of its own."""
    if fabric.exclusive:
        return 8.0 * float(weights.sum()) * schedule.chunk_nbytes
    crossings = float(weights @ fabric.hops(*schedule.ends(slice(None))))
    return 8.0 * crossings * fabric.wire_bytes(schedule.chunk_nbytes)


class Played(NamedTuple):
    """What became of the rows of a queued schedule, circuits in place."""

    seconds: float
    """Until the last arrival."""
    sending: float
    """Of these, seconds in which the rows that the last arrival waited for held their lightpaths."""
    begin: Floats
    """Seconds at which each row begins: [row]."""


def play(schedule: Schedule, fabric: Fabric) -> Played:
    """Send every row as soon as its lightpath is free and its data is there.

    The schedule is verified: its rows are all sent in the end.
    """
    from lightloom.collectives.cost import _queue_kernels as kernels

    if not fabric.exclusive:
        return _play_packets(schedule, fabric)
    begin, (busy, delay) = np.zeros(len(schedule)), busy_and_delay(schedule, fabric)
    order = _queue_order(schedule)
    origin, target, held = cells_of(schedule)
    rows = kernels.PlayedRows(
        order, schedule.lightpath, follows(schedule, order), origin, target, schedule.reduces, busy, delay
    )
    seconds, sending = kernels.play(rows, held, begin)
    return Played(float(seconds), float(sending), begin)


def _play_packets(schedule: Schedule, fabric: Fabric) -> Played:
    """Play every hop as a transmission over its link, from the cell before it to one of its own; of groups of ranks,
    those of all siblings, the last of which say when a row begins."""
    from lightloom.collectives.cost import _queue_kernels as kernels

    groups = len(fabric.siblings()[1])
    schedule = schedule.unfolded(1) if groups > 1 else schedule
    hops, (origin, target, held) = hops_of(schedule, fabric), cells_of(schedule)
    of_group = len(held) * np.arange(groups)
    origin, target = ((cell[:, None] + of_group).ravel() for cell in (origin, target))
    reduces, held = np.repeat(schedule.reduces, groups), np.tile(held, groups)
    if len(hops.row) > len(origin):
        # A row that crosses several links lies in a cell of its own between two of them.
        between = len(held) + np.arange(len(hops.row))
        origin = np.where(hops.first, origin[hops.row], between - 1)
        target = np.where(hops.last, target[hops.row], between)
        reduces = reduces[hops.row]
        held = np.concatenate([held, np.zeros(len(hops.row), np.bool_)])
    rows = kernels.PlayedRows(
        hops.order,
        read_only(hops.link.astype(np.int32)),
        np.zeros(len(hops.row), np.bool_),
        origin,
        target,
        read_only(reduces),
        hops.busy,
        hops.delay,
    )
    begin = np.zeros(len(hops.row))
    seconds, sending = kernels.play(rows, held, begin)
    return Played(float(seconds), float(sending), begin[hops.first].reshape(-1, groups).max(axis=1))


def busy_and_delay(schedule: Schedule, fabric: Fabric) -> tuple[Floats, Floats]:
    """Seconds that each row holds its lightpath, and after which it arrives: [row] each."""
    busy = schedule.row_nbytes / (schedule.wavelength_count * fabric.channel_bandwidth) + fabric.piece_overhead
    return busy, busy + fabric.step_overhead + fabric.latency(*schedule.ends(slice(None)))


def _queue_order(schedule: Schedule) -> Ints:
    """Rows by lightpath, each lightpath's in the order in which it sends them."""
    path, step = schedule.lightpath, schedule.step
    if np.all((path[1:] > path[:-1]) | ((path[1:] == path[:-1]) & (step[1:] >= step[:-1]))):
        return np.arange(len(step))
    return np.lexsort((step, path))


def follows(schedule: Schedule, order: Ints) -> NDArray[np.bool_]:
    """Whether a row is of the same transmission as the one before it in the order: [place in the order]."""
    same = np.zeros(len(order), np.bool_)
    same[1:] = True
    for column in (schedule.lightpath, schedule.step, schedule.chunk):
        same[1:] &= column[order[1:]] == column[order[:-1]]
    return same


def cells_of(schedule: Schedule) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Where each row reads and where it writes, [row] each, and whether data lies there from the start: [cell].

    A cell is a chunk in a rank of the first period. Parts that go from one rank to one rank only take the cells that
    rows name.
    """
    ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
    period = ranks if schedule.folding is None else schedule.folding.period
    source, destination, chunk = (
        column.astype(np.int64) for column in (schedule.source, schedule.destination, schedule.chunk)
    )
    first_chunk = chunk if schedule.folding is None else schedule.moved_chunk(chunk, destination // period, back=True)
    origin, target = source * chunks + chunk, destination % period * chunks + first_chunk
    if kind in ONE_TO_ONE:
        cells, number = np.unique(np.concatenate([origin, target]), return_inverse=True)
        held = cells // chunks == schedule.collective.begins_at(cells % chunks // (chunks // schedule.collective.parts))
        return number[: len(origin)], number[len(origin) :], held
    held = np.ones(period * chunks, np.bool_)
    held[target[~schedule.reduces]] = False
    return origin, target, held
