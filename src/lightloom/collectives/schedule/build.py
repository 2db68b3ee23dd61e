"""From moves to a schedule: give every transfer a route and wavelengths, and split steps that need too many.

An algorithm states *moves*: in logical step s, source sends these chunks to destination.
:func:`assign_wavelengths` turns them into rows on a fabric. On circuits the transfers of a logical step that overlap
take different channels; when there are too few channels the step becomes several; when there are enough, ``striped``
lets each transfer bundle several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.wavelengths import colour_arcs, colour_planes
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import CLOCKWISE, Fabric


@dataclass(frozen=True, slots=True)
class Moves:
    """Transfers of one logical step: ``chunk[i]`` goes from ``source[i]`` to ``destination[i]``."""

    source: Ints
    destination: Ints
    chunk: Ints
    reduces: bool = False


def moves(source: Any, destination: Any, chunk: Any, *, reduces: bool = False) -> Moves:
    """Moves from anything that broadcasts to one entry a chunk."""
    columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(c, dtype=np.int64)) for c in (source, destination, chunk)))
    a, b, c = (np.ascontiguousarray(column.ravel()) for column in columns)
    return Moves(a, b, c, reduces)


@dataclass(frozen=True, slots=True)
class _Circuits:
    """Where the distinct transfers of one logical step run."""

    pair: Ints
    route: Ints
    colour: Ints
    colours: int


def assign_wavelengths(
    name: str,
    collective: Collective,
    fabric: Fabric,
    chunks: int,
    logical: list[Moves],
    *,
    striped: bool = False,
    notes: tuple[str, ...] = (),
) -> Schedule:
    """Lay moves onto a fabric, one logical step after the other.

    Linear in the number of moves; steps with the same transfers share one assignment.
    """
    assigned: dict[bytes, tuple[Ints, _Circuits]] = {}
    parts: list[tuple[NDArray[Any], ...]] = []
    step, lightpath = 0, 0
    for each in logical:
        code = each.source * fabric.ranks + each.destination
        key = code.tobytes()
        if key not in assigned:
            pair, inverse = np.unique(code, return_inverse=True)
            assigned[key] = inverse, _assign(pair, fabric)
        inverse, circuits = assigned[key]
        channels = max(fabric.usable_channels, 1)
        substeps = -(-circuits.colours // channels)
        width = max(channels // circuits.colours, 1) if striped else 1
        slot = circuits.colour % channels * width
        order = np.lexsort((inverse, circuits.colour[inverse] // channels))
        row = inverse[order]
        parts.append(
            (
                step + circuits.colour[row] // channels,
                lightpath + row,
                each.source[order],
                each.destination[order],
                circuits.route[row],
                slot[row],
                np.full(len(row), width if fabric.exclusive else 0),
                each.chunk[order],
                np.full(len(row), each.reduces),
            )
        )
        step += substeps
        lightpath += len(circuits.pair)
    columns = [np.concatenate([part[i] for part in parts]) for i in range(9)]
    return assemble(name, collective, fabric, chunks, step, *columns, notes=notes)


def assemble(
    name: str,
    collective: Collective,
    fabric: Fabric,
    chunks: int,
    steps: int,
    step: Any,
    lightpath: Any,
    source: Any,
    destination: Any,
    route: Any,
    channel: Any,
    count: Any,
    chunk: Any,
    reduces: Any,
    *,
    notes: tuple[str, ...] = (),
) -> Schedule:
    """A schedule from columns whose channels number the wavelengths of all fibres in a row."""
    wavelengths = fabric.fibre_channels
    channel = np.asarray(channel)
    return Schedule(
        algorithm=name,
        collective=collective,
        chunks=chunks,
        steps=int(steps),
        step=step,
        lightpath=lightpath,
        source=source,
        destination=destination,
        route=route,
        fibre=channel // wavelengths,
        first_wavelength=channel % wavelengths,
        wavelength_count=count,
        chunk=chunk,
        reduces=reduces,
        notes=notes,
    )


def _assign(pair: Ints, fabric: Fabric) -> _Circuits:
    source, destination = np.divmod(pair, fabric.ranks)
    route = fabric.route(source, destination)
    if not fabric.exclusive:
        return _Circuits(pair, route, np.zeros_like(pair), 1)
    if not fabric.wavelength_routed:
        colour, colours = colour_planes(source, destination, fabric.ranks)
        return _Circuits(pair, route, colour, colours)
    n, colour, colours = fabric.ranks, np.zeros_like(pair), 1
    for way in np.unique(route):
        of = np.flatnonzero(route == way)
        start = source[of] if way == CLOCKWISE else destination[of]
        end = destination[of] if way == CLOCKWISE else source[of]
        colour[of], used = colour_arcs(start, (end - start) % n, n)
        colours = max(colours, used)
    return _Circuits(pair, route, colour, colours)
