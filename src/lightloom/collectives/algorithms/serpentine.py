"""Single-write-multi-read broadcast: a waveguide winds past all ranks, and each writes on wavelengths of its own.

    0 ──●──►●──►●──►●      rank 0 writes once; every rank behind it taps the light
    1    ●──►●──►●──►●     rank 1 does the same on another wavelength, around the ring

One step where there are as many wavelengths as ranks and light can be tapped by all of them; with fewer wavelengths as
many ranks as these write in a step. Sums cannot be tapped, so that it serves what only copies.

Source: optical DaDianNao (the serpentine waveguide through all chips).
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.schedule.build import Stage, staged
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.fabrics.base import CLOCKWISE, Fabric


def serpentine(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Every rank, or the root, to all others on one lightpath."""
    ranks = collective.ranks
    writers = 1 if collective.kind == "broadcast" else ranks
    writer, ahead = np.indices((writers, ranks - 1)).reshape(2, -1)
    stage = Stage(
        source=writer,
        destination=(writer + ahead + 1) % ranks,
        chunk=writer,
        route=np.full(len(writer), CLOCKWISE),
        colour=writer,
        colours=writers,
        lightpath=writer,
    )
    name = "serpentine-striped" if striped else "serpentine"
    return staged(name, collective, fabric, [stage], chunks=writers, striped=striped)


def declines(kind: str, fabric: Fabric) -> str | None:  # noqa: ARG001 - both kinds alike
    """Why light cannot be read by all; None where it can."""
    if fabric.taps >= fabric.ranks - 1:
        return None
    return f"serpentine needs light that {fabric.ranks - 1} ranks can tap, and this fabric's serves {fabric.taps}"


SERPENTINE = Algorithm(
    name="serpentine",
    build=serpentine,
    by_structure=True,
    kinds=("all-gather", "broadcast"),
    needs="wdm-ring",
    longest_lightpath=lambda kind, fabric: fabric.ranks - 1,  # noqa: ARG005 - both kinds alike
    declines=declines,
    summary="each rank writes once, all others tap its light",
)
