"""What became of the plans of a search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Plans of a search, by what became of them."""

    rows: int = 0
    """Plans altogether."""
    refused: int = 0
    """Plans whose groups have no such collectives or circuits."""
    too_fine: int = 0
    """Placed plans with more sub-operators than are searched."""
    too_large: int = 0
    """Plans that do not fit the memory."""
    bounded: int = 0
    """Plans whose step time was bounded."""
    partitioned: int = 0
    """Partitions made, each for all plans that share it."""
    placed: int = 0
    """Placements made."""
    simulated: int = 0
    """Plans simulated."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.__dataclass_fields__})
