"""Columns that the compiled loops of all-to-alls read and fill."""

from __future__ import annotations

from typing import NamedTuple

from lightloom.core.arrays import Column, Floats, Int32s, Ints


class Routes(NamedTuple):
    """Paths of the blocks of some sources of the first period, as trees to choose from."""

    trees: Int32s
    """Circuit by which a path enters a rank, −1 at the source: [tree, source, rank]."""
    chosen: Column
    """Tree of each block, int8, −1 where none is chosen yet: [source, rank]."""
    sources: Ints
    """[source]."""
    length: Ints
    """Ranks that a circuit passes, less than zero counter-clockwise: [circuit]."""


class Prices(NamedTuple):
    """What a path costs: its delay, and a toll that rises with its load."""

    busy: Floats
    """Share of the available time for which a block holds a circuit: [circuit]."""
    delay: Floats
    """Seconds after which a block arrives: [circuit]."""
    toll: float
    """Seconds that a circuit costs besides which is busy all the time."""
    weight: float
    """Blocks for which a block stands."""


class Hops(NamedTuple):
    """Paths of the blocks of one period of sources, hop by hop."""

    ranks: int
    begin: Ints
    """First hop of block source · ranks + rank: [block + 1]."""
    path: Int32s
    """Circuits of the paths, in order: [hop]."""
    start: Ints
    """Rank at which a circuit starts: [circuit]."""
    length: Ints
    """Ranks that a circuit passes, less than zero counter-clockwise: [circuit]."""


class HopRows(NamedTuple):
    """Columns of a schedule, [hop] each."""

    step: Int32s
    lightpath: Int32s
    destination: Int32s
    chunk: Int32s
