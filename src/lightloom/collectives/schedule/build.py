"""From moves to a schedule: give every transfer a route and wavelengths, and split steps that need too many.

An algorithm states *moves*: in logical step s, source sends these chunks to destination.
:func:`assign_wavelengths` turns them into rows on a fabric. On circuits the transfers of a logical step that overlap
take different channels; when there are too few channels the step becomes several; when there are enough, ``striped``
lets each transfer bundle several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.wavelengths import colour_arcs, colour_planes
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Column, Ints
from lightloom.fabrics.base import CLOCKWISE, Fabric


@dataclass(frozen=True, slots=True)
class Moves:
    """Transfers of one logical step: ``chunk[i]`` goes from ``source[i]`` to ``destination[i]``."""

    source: Ints
    destination: Ints
    chunk: Ints
    reduces: bool = False


class Rows(NamedTuple):
    """Columns of a schedule, whose channels number the wavelengths of all fibres in a row: arrays [row]."""

    step: Column
    lightpath: Column
    source: Column
    destination: Column
    route: Column
    channel: Column
    """First channel of the lightpath."""
    width: Column
    """Channels of the lightpath; 0 on packet fabrics."""
    chunk: Column
    reduces: Column


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts, one part after the other."""
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def moves(source: ArrayLike, destination: ArrayLike, chunk: ArrayLike, *, reduces: bool = False) -> Moves:
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
    """A schedule of moves on a fabric, one logical step after the other.

    Linear in the number of moves; steps with the same transfers share one assignment.
    """
    assigned: dict[bytes, tuple[Ints, _Circuits]] = {}
    parts: list[Rows] = []
    step, lightpath = 0, 0
    for transfers in logical:
        code = transfers.source * fabric.ranks + transfers.destination
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
            Rows(
                step=step + circuits.colour[row] // channels,
                lightpath=lightpath + row,
                source=transfers.source[order],
                destination=transfers.destination[order],
                route=circuits.route[row],
                channel=slot[row],
                width=np.full(len(row), width if fabric.exclusive else 0),
                chunk=transfers.chunk[order],
                reduces=np.full(len(row), transfers.reduces),
            )
        )
        step += substeps
        lightpath += len(circuits.pair)
    return assemble(name, collective, fabric, joined(parts), chunks=chunks, steps=step, notes=notes)


def assemble(
    name: str,
    collective: Collective,
    fabric: Fabric,
    rows: Rows,
    *,
    chunks: int,
    steps: int,
    notes: tuple[str, ...] = (),
) -> Schedule:
    """A schedule from rows whose channels number the wavelengths of all fibres in a row."""
    columns = rows._asdict()
    fibre, wavelength = np.divmod(columns.pop("channel"), fabric.fibre_channels)
    return Schedule(
        algorithm=name,
        collective=collective,
        chunks=chunks,
        steps=int(steps),
        fibre=fibre,
        first_wavelength=wavelength,
        wavelength_count=columns.pop("width"),
        **columns,
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
    for direction in np.unique(route):
        pairs = np.flatnonzero(route == direction)
        start = source[pairs] if direction == CLOCKWISE else destination[pairs]
        end = destination[pairs] if direction == CLOCKWISE else source[pairs]
        colour[pairs], used = colour_arcs(start, (end - start) % n, n)
        colours = max(colours, used)
    return _Circuits(pair, route, colour, colours)
