"""One-stage all-to-all: every rank sends its share straight to every other.

    On a ring of N nodes it needs ceil(floor(N²/4)/2) wavelengths each way; with w of them, ceil(that / w) steps.

A share is the same for every destination in an all-gather; in an all-to-all it is a block for each. In a gather, a
scatter and a permute only some pairs exchange a part, on wavelengths assigned to just these.

Source: OpTree, section III-C, and Lemma 1 (which prints ceil(N²/8); equal for even N).
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm, links_to_neighbours, longest_links, rows_by_pair
from lightloom.collectives.schedule.build import Stage, assign_wavelengths, moves, staged
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.schedule.wavelengths import ring_all_to_all, ring_all_to_all_wavelengths
from lightloom.collectives.spec import FROM_ALL_GATHER, TO_OR_FROM_ROOT, Collective
from lightloom.fabrics.base import Fabric

_SOME_PAIRS = (*TO_OR_FROM_ROOT, "permute")


def one_stage_steps(ranks: int, channels: int) -> int:
    """All-gather steps on a ring: ceil(ceil(floor(N²/4)/2) / w) (OpTree, Table I, by its formula)."""
    return -(-ring_all_to_all_wavelengths(ranks) // channels)


def one_stage(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """All ordered pairs at once, in as few steps as the wavelengths (or switch planes) allow."""
    name = "one-stage-striped" if striped else "one-stage"
    n = collective.ranks

    def straight(gather: Collective) -> Schedule:
        if fabric.wavelength_routed:
            source, destination, route, colour = ring_all_to_all(n)
            colours = ring_all_to_all_wavelengths(n)
        else:
            # Planes are permutations: shift k of the ranks is one, so D shifts a step fill a switch of D planes.
            colour, source = (axis.ravel() for axis in np.indices((n - 1, n)))
            destination, route, colours = (source + 1 + colour) % n, np.zeros_like(source), n - 1
        chunks, chunk = (n * n, source * n + destination) if gather.kind == "all-to-all" else (n, source)
        if not fabric.exclusive:
            return assign_wavelengths(name, gather, fabric, chunks, [moves(source, destination, chunk)])
        stage = Stage(source, destination, chunk, route, colour, colours)
        return staged(name, gather, fabric, [stage], chunks=chunks, striped=striped)

    if collective.kind in _SOME_PAIRS:
        part = np.arange(collective.parts)
        source, destination = collective.begins_at(part), collective.ends_at(part)
        part = part[source != destination]
        straight_moves = [moves(source[part], destination[part], part)]
        return assign_wavelengths(name, collective, fabric, collective.parts, straight_moves, striped=striped)
    if collective.kind == "all-to-all":
        return straight(collective)
    return from_all_gather(collective, fabric, straight)


def _rows(kind: str, fabric: Fabric) -> int:
    return fabric.ranks if kind in _SOME_PAIRS else rows_by_pair(kind, fabric)


def _longest(kind: str, fabric: Fabric) -> int:
    """Links of the longest lightpath; for a permute, whose pairs are not known here, that of neighbours."""
    if kind == "permute":
        return links_to_neighbours(kind, fabric)
    others = np.arange(1, fabric.ranks)
    to_root = longest_links(fabric, others, np.zeros_like(others))
    return to_root if kind in TO_OR_FROM_ROOT else fabric.diameter()


ONE_STAGE = Algorithm(
    name="one-stage",
    build=one_stage,
    by_structure=True,
    longest_lightpath=_longest,
    kinds=(*FROM_ALL_GATHER, "all-to-all", *_SOME_PAIRS),
    rows=_rows,
    summary="every rank straight to every other",
)
