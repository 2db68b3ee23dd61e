"""What is believed of a parameter before any measurement."""

from __future__ import annotations

from math import inf
from typing import NamedTuple


class Prior(NamedTuple):
    """Belief in a positive number, whose logarithm is normally distributed."""

    value: float
    """Median."""
    spread: float
    """Standard deviation of the parameter's logarithm."""
    source: str
    """Where the value comes from, or ``assumption: ...``."""
    meaning: str
    unit: str = ""
    """Unit, empty for a fraction or a factor."""
    most: float = inf
    """The largest value that it can have: 1 for fractions."""
