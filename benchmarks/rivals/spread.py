"""All-gathers as other tools describe them, as verified schedules on our fabrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.rivals.fabrics import Case
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.build import assign_wavelengths, from_all_gather, moves, without_barriers
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.core.arrays import Ints

_PIECES = (1, 2, 4, 8, 16, 32)
_MOST_ROWS = 1 << 18


class Spread(NamedTuple):
    """Who sends what in an all-gather, and in which order: arrays [send]."""

    step: Ints
    source: Ints
    destination: Ints
    chunk: Ints
    """owner · pieces + piece"""
    pieces: int
    """Equal parts of every rank's share."""
    cpu_s: float
    """CPU seconds that making it took."""


def fastest(spread: Spread, wanted: Collective, case: Case) -> float:
    """Seconds of the fastest form of a spread: in steps, or each send when it can, in ever smaller pieces.

    A reduce-scatter is the spread backwards and an all-reduce the one after the other, as the tools' papers have it.
    """
    times = []
    for schedule in _forms(spread, wanted, case):
        verify(schedule, case.fabric)
        times.append(cost(schedule, case.fabric).time)
    return min(times)


def _forms(spread: Spread, wanted: Collective, case: Case) -> Iterator[Schedule]:
    pieces = [n for n in _PIECES if n == 1 or n * len(spread.step) <= _MOST_ROWS]
    if case.fabric.exclusive:
        yield from (_on_circuits(spread, wanted, case, n) for n in pieces)
        return
    steps = from_all_gather(wanted, case.fabric, lambda gather: _in_steps(spread, gather, case))
    yield steps
    yield from (without_barriers(steps, case.fabric, n, 1) for n in pieces)


def _in_steps(spread: Spread, wanted: Collective, case: Case) -> Schedule:
    order = np.argsort(spread.step, kind="stable")
    step, *sends = (column[order] for column in spread[:4])
    begins = np.flatnonzero(np.diff(step, prepend=-1))
    logical = [moves(*(column[rows] for column in sends)) for rows in np.split(np.arange(len(step)), begins[1:])]
    return assign_wavelengths("rival", wanted, case.fabric, wanted.ranks * spread.pieces, logical)


def _on_circuits(spread: Spread, wanted: Collective, case: Case, pieces: int) -> Schedule:
    """Circuits stand; each sends in the order of the steps, every piece one step after the one before."""
    links = case.links
    assert links is not None
    number = np.full((wanted.ranks, wanted.ranks), -1)
    number[links.source, links.destination] = np.arange(len(links.source))
    piece = np.repeat(np.arange(pieces), len(spread.step))
    step, source, destination, chunk = (np.tile(column, pieces) for column in spread[:4])
    circuit = number[source, destination]
    order = np.lexsort((piece, step + piece, circuit))
    circuit, source, destination = circuit[order], source[order], destination[order]
    place = np.arange(len(circuit)) - np.searchsorted(circuit, circuit)
    nothing = np.zeros(len(circuit), np.int64)
    return Schedule(
        algorithm="rival",
        collective=wanted,
        chunks=wanted.ranks * spread.pieces * pieces,
        steps=int(place.max()) + 1,
        step=place,
        lightpath=np.unique(circuit, return_inverse=True)[1],
        source=source,
        destination=destination,
        route=nothing,
        fibre=links.plane[circuit],
        first_wavelength=nothing,
        wavelength_count=nothing + 1,
        chunk=(chunk * pieces + piece)[order],
        reduces=nothing.astype(np.bool_),
        queued=True,
    )
