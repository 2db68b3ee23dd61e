"""From moves to a schedule: give every transfer a route and wavelengths, and split steps that need too many.

An algorithm states *moves*: in logical step s, source sends these chunks to destination.
:func:`assign_wavelengths` turns them into *stages*, whose transfers have routes and colours, and :func:`staged` a
sequence of stages into rows on a fabric. On circuits the transfers of a stage that overlap take different colours; when
there are more colours than channels the stage takes several steps; when there are fewer, ``striped`` lets each transfer
bundle several channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


class Stage(NamedTuple):
    """Transfers that happen at once where there are channels enough: arrays [transfer]."""

    source: Column
    destination: Column
    chunk: Column
    route: Column
    colour: Column
    """Transfers of different colours never share a channel in the same step."""
    colours: int
    lightpath: Column | None = None
    """Lightpath of each transfer, from 0 on; None where each has its own."""
    reduces: bool = False


def fit(fabric: Fabric, colours: int, *, striped: bool) -> tuple[int, int, int]:
    """Channels of each transfer, transfers side by side in a step, and the steps of a stage with so many colours."""
    channels = max(fabric.usable_channels, 1)
    width = max(channels // colours, 1) if striped else 1
    slots = channels // width
    return width, slots, -(-colours // slots)


def staged(
    name: str,
    collective: Collective,
    fabric: Fabric,
    stages: Iterable[Stage],
    *,
    chunks: int,
    striped: bool,
    notes: tuple[str, ...] = (),
) -> Schedule:
    """A schedule of one stage after the other."""
    parts, step, lightpath = [], 0, 0
    for stage in stages:
        width, slots, steps = fit(fabric, stage.colours, striped=striped)
        substep, slot = np.divmod(stage.colour.astype(np.int32), np.int32(slots))
        if stage.lightpath is None:
            # Sorting 16-bit integers takes linear time.
            order = np.argsort(substep.astype(np.uint16) if steps <= 1 << 16 else substep, kind="stable")
            path = np.arange(len(order), dtype=np.int32)
        else:
            order = np.lexsort((stage.lightpath, substep))
            path = stage.lightpath[order]
        columns = (step + substep, stage.source, stage.destination, stage.route, slot * width, stage.chunk)
        now, source, destination, route, channel, chunk = (column[order].astype(np.int32) for column in columns)
        count = np.full(len(order), width if fabric.exclusive else 0, np.int16)
        reduces = np.full(len(order), stage.reduces)
        parts.append(Rows(now, lightpath + path, source, destination, route, channel, count, chunk, reduces))
        step, lightpath = step + steps, lightpath + int(path.max(initial=-1)) + 1
    return assemble(name, collective, fabric, joined(parts), chunks=chunks, steps=step, notes=notes)


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
    assigned: dict[bytes, tuple[Ints, Ints, Ints, int]] = {}

    def stages() -> Iterator[Stage]:
        for transfers in logical:
            code = transfers.source * fabric.ranks + transfers.destination
            key = code.tobytes()
            if key not in assigned:
                pair, path = np.unique(code, return_inverse=True)
                route, colour, colours = _coloured(*np.divmod(pair, fabric.ranks), fabric)
                assigned[key] = path, route[path], colour[path], colours
            path, route, colour, colours = assigned[key]
            ends = transfers.source, transfers.destination
            yield Stage(*ends, transfers.chunk, route, colour, colours, path, transfers.reduces)

    return staged(name, collective, fabric, stages(), chunks=chunks, striped=striped, notes=notes)


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


def _coloured(source: Ints, destination: Ints, fabric: Fabric) -> tuple[Ints, Ints, int]:
    """Route and colour of each of some distinct transfers, and the number of colours."""
    route, colour, colours = fabric.route(source, destination), np.zeros_like(source), 1
    if fabric.wavelength_routed:
        for direction in np.unique(route):
            pairs = np.flatnonzero(route == direction)
            start, end = (source, destination) if direction == CLOCKWISE else (destination, source)
            colour[pairs], used = colour_arcs(start[pairs], (end - start)[pairs] % fabric.ranks, fabric.ranks)
            colours = max(colours, used)
    elif fabric.exclusive:
        colour, colours = colour_planes(source, destination, fabric.ranks)
    return route, colour, colours
