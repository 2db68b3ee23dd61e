"""Which constants turn a verdict: each alone from its least to its greatest value, and where two rivals break even."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lightloom.photonics.reducers.constants import Constant, Values, nominal

Saving = Callable[[Values], float]
"""The share of energy that one rival saves against another; below 0 it takes more, minus infinity if no light does."""

_STEPS = 40
_GRID = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one constant alone does to a saving."""

    constant: Constant
    at_low: float
    """Saving at the least value."""
    at_high: float
    """Saving at the greatest value."""
    break_even: float | None
    """Value nearest to the constant's own at which both rivals need the same, in its unit; None if none is in range."""

    @property
    def swing(self) -> float:
        """Distance between the two savings; infinite where no light suffices at one end."""
        return abs(self.at_high - self.at_low)

    @property
    def turns(self) -> bool:
        """Whether the verdict differs within the range."""
        return self.break_even is not None


def tornado(saving: Saving, constants: Mapping[str, Constant], least: float = 1e-4) -> list[Turn]:
    """Return what each constant does that changes the saving by at least ``least``, the largest change first."""
    values = nominal(constants)
    turns = []
    for name, constant in constants.items():
        if constant.low == constant.high:
            continue

        def at(share: float, name: str = name, constant: Constant = constant) -> float:
            return saving({**values, name: constant.draw(share)})

        turn = Turn(constant=constant, at_low=at(0.0), at_high=at(1.0), break_even=_break_even(at, constant))
        if turn.swing >= least or turn.turns:
            turns.append(turn)
    return sorted(turns, key=lambda turn: -turn.swing)


def _break_even(at: Callable[[float], float], constant: Constant) -> float | None:
    """Return the value in the range nearest to the constant's own at which the saving changes sign."""
    shares = [index / _GRID for index in range(_GRID + 1)]
    signs = [at(share) > 0 for share in shares]
    crossings = []
    for low, high, first, second in zip(shares, shares[1:], signs, signs[1:], strict=False):
        if first == second:
            continue
        while high - low > 0.5**_STEPS:
            middle = (low + high) / 2
            low, high = (middle, high) if (at(middle) > 0) == first else (low, middle)
        crossings.append(constant.draw(high) / (constant.si(1.0)))
    own = constant.value
    return min(crossings, key=lambda value: abs(value - own), default=None)
