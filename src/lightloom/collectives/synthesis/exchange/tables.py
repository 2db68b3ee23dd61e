"""Columns that the compiled loops of all-to-alls read and fill."""

from __future__ import annotations

from typing import NamedTuple

from lightloom.core.arrays import (
    Column,
    Floats,
    Int32s,
    Ints,
)


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
