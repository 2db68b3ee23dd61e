"""What a queued schedule costs: every row as soon as its lightpath is free and its data is there.

A chunk holds its lightpath for its bytes over the bundled bandwidth, and the fabric's overhead of a piece; it arrives a
conversion and the propagation later, while the lightpath serves the next one. Ranks that tap the lightpath receive it
from one transmission. Circuits are set up once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Ints
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
    seconds = play(schedule, fabric)[0]
    conversion = min(fabric.step_overhead, seconds)
    return Cost(
        steps=1,
        time=fabric.setup_time + seconds,
        transmission=seconds - conversion,
        conversion=conversion,
        reconfiguration=fabric.setup_time,
        setup=fabric.setup_time,
        static=True,
        energy=None if fabric.energy_per_bit is None else fabric.energy_per_bit * _sent_bits(schedule),
    )


def _sent_bits(schedule: Schedule) -> float:
    """Bits of all transmissions of all copies, each counted once however many ranks tap it."""
    copies = 1 if schedule.folding is None else schedule.folding.copies
    transmissions = len(schedule) - int(follows(schedule, _queue_order(schedule)).sum())
    return 8.0 * copies * transmissions * schedule.chunk_nbytes


def play(schedule: Schedule, fabric: Fabric) -> tuple[float, Floats]:
    """Seconds until the last arrival, circuits in place, and when each row begins: [row]."""
    from lightloom.collectives.cost import _queue_kernels as kernels

    begin, (busy, delay) = np.zeros(len(schedule)), busy_and_delay(schedule, fabric)
    order = _queue_order(schedule)
    origin, target, held = _cells(schedule)
    rows = kernels.PlayedRows(
        order, schedule.lightpath, follows(schedule, order), origin, target, schedule.reduces, busy, delay
    )
    seconds = kernels.play(rows, held, begin)
    return float(seconds), begin


def busy_and_delay(schedule: Schedule, fabric: Fabric) -> tuple[Floats, Floats]:
    """Seconds that each row holds its lightpath, and after which it arrives: [row] each."""
    busy = schedule.chunk_nbytes / (schedule.wavelength_count * fabric.channel_bandwidth) + fabric.piece_overhead
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


def _cells(schedule: Schedule) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Where each row reads and where it writes, [row] each, and whether data lies there from the start: [cell].

    A cell is a chunk in a rank of the first period. Blocks of an all-to-all only take the cells that rows name.
    """
    ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
    period = ranks if schedule.folding is None else schedule.folding.period
    source, destination, chunk = (
        column.astype(np.int64) for column in (schedule.source, schedule.destination, schedule.chunk)
    )
    to = destination % period
    # Chunks of a root have no owner to rotate with; their schedules are never folded.
    share = max(chunks // ranks, 1)
    rotated_chunk = chunk if period == ranks else schedule.rotated(chunk, to - destination)
    origin, target = source * chunks + chunk, to * chunks + rotated_chunk
    if kind == "all-to-all":
        cells, number = np.unique(np.concatenate([origin, target]), return_inverse=True)
        held = cells // chunks == cells % chunks // share
        return number[: len(origin)], number[len(origin) :], held
    cells = np.arange(period * chunks)
    rank = cells // chunks
    return origin, target, rank == (0 if kind in ("broadcast", "reduce") else cells % chunks // share)
