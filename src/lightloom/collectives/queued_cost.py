"""What a queued schedule costs: every row as soon as its lightpath is free and its data is there.

A chunk holds its lightpath for its bytes over the bundled bandwidth, and the fabric's overhead of a piece; it arrives a
conversion and the propagation later, while the lightpath serves the next one. Circuits are set up once.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.price import Cost, CostModel
from lightloom.collectives.schedule import Schedule
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric, Floats


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
    copies = 1 if schedule.folding is None else schedule.folding.copies
    bits = 8.0 * copies * len(schedule) * schedule.chunk_nbytes
    return Cost(
        steps=1,
        time=fabric.setup_time + seconds,
        transmission=seconds - conversion,
        conversion=conversion,
        reconfiguration=fabric.setup_time,
        setup=fabric.setup_time,
        static=True,
        energy=None if fabric.energy_per_bit is None else fabric.energy_per_bit * bits,
    )


def play(schedule: Schedule, fabric: Fabric) -> tuple[float, Floats]:
    """Seconds until the last arrival, circuits in place, and when each row begins: [row]."""
    from lightloom.collectives import _queue_kernels as kernels

    begin = np.zeros(len(schedule))
    busy = schedule.chunk_nbytes / (schedule.wavelength_count * fabric.channel_bandwidth) + fabric.piece_overhead
    delay = busy + fabric.step_overhead + fabric.latency(*schedule.ends(slice(None)))
    ranks = schedule.collective.ranks
    seconds = kernels.play(
        np.lexsort((schedule.step, schedule.lightpath)), schedule.lightpath, schedule.source, schedule.destination,
        schedule.chunk, schedule.reduces, ranks, ranks if schedule.folding is None else schedule.folding.period,
        schedule.chunks // ranks, busy, delay, begin,
    )  # fmt: skip
    return float(seconds), begin
