"""One-stage all-to-all: every rank sends its share straight to every other.

    On a ring of N nodes it needs ceil(floor(N²/4)/2) wavelengths each way; with w of them, ceil(that / w) steps.

A share is the same for every destination in an all-gather; in an all-to-all it is a block for each.

Source: OpTree, section III-C, and Lemma 1 (which prints ceil(N²/8); equal for even N).
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.schedule.build import Rows, assemble, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.schedule.wavelengths import ring_all_to_all, ring_all_to_all_wavelengths
from lightloom.collectives.spec import FROM_ALL_GATHER, Collective
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric


def one_stage_steps(ranks: int, channels: int) -> int:
    """All-gather steps on a ring: ceil(ceil(floor(N²/4)/2) / w) (OpTree, Table I, by its formula)."""
    return -(-ring_all_to_all_wavelengths(ranks) // channels)


def one_stage(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """All ordered pairs at once, in as few steps as the wavelengths (or switch planes) allow."""
    name = "one-stage-striped" if striped else "one-stage"
    n = collective.ranks

    def straight(gather: Collective) -> Schedule:
        if fabric.wavelength_routed:
            return _on_ring(name, gather, fabric, striped)
        ahead, source = (axis.ravel() for axis in np.indices((n - 1, n)))
        destination = (source + 1 + ahead) % n
        chunks, chunk = _chunks(gather, source, destination)
        if not fabric.exclusive:
            return assign_wavelengths(name, gather, fabric, chunks, [moves(source, destination, chunk)])
        # Planes are permutations: shift k of the ranks is one, so D shifts a step fill a switch of D planes.
        width = max(fabric.usable_channels // (n - 1), 1) if striped else 1
        planes = max(fabric.usable_channels // width, 1)
        return assemble(
            name,
            gather,
            fabric,
            Rows(
                step=ahead // planes,
                lightpath=np.arange(len(source)),
                source=source,
                destination=destination,
                route=np.zeros_like(source),
                channel=ahead % planes * width,
                width=np.full(len(source), width),
                chunk=chunk,
                reduces=np.zeros(len(source), np.bool_),
            ),
            chunks=chunks,
            steps=-(-(n - 1) // planes),
        )

    if collective.kind == "all-to-all":
        return straight(collective)
    return from_all_gather(collective, fabric, straight)


def _chunks(collective: Collective, source: Ints, destination: Ints) -> tuple[int, Ints]:
    """How many chunks there are, and the one that goes from each source to each destination."""
    n = collective.ranks
    return (n * n, source * n + destination) if collective.kind == "all-to-all" else (n, source)


def _on_ring(name: str, collective: Collective, fabric: Fabric, striped: bool) -> Schedule:
    n = collective.ranks
    source, destination, route, colour = ring_all_to_all(n)
    colours = ring_all_to_all_wavelengths(n)
    width = max(fabric.usable_channels // colours, 1) if striped else 1
    slots = fabric.usable_channels // width
    chunks, chunk = _chunks(collective, source, destination)
    order = np.argsort(colour // slots, kind="stable")
    chunk = chunk[order]
    source, destination, route, colour = (column[order] for column in (source, destination, route, colour))
    return assemble(
        name,
        collective,
        fabric,
        Rows(
            step=colour // slots,
            lightpath=np.arange(len(source)),
            source=source,
            destination=destination,
            route=route,
            channel=colour % slots * width,
            width=np.full(len(source), width),
            chunk=chunk,
            reduces=np.zeros(len(source), np.bool_),
        ),
        chunks=chunks,
        steps=-(-colours // slots),
    )


ONE_STAGE = Algorithm(
    name="one-stage",
    build=one_stage,
    longest_lightpath=lambda kind, fabric: fabric.diameter(),  # noqa: ARG005 - all kinds alike
    kinds=(*FROM_ALL_GATHER, "all-to-all"),
    summary="every rank straight to every other",
)
