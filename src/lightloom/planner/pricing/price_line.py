"""Lines that stay below the prices of collectives.

A verified schedule's cost is a sum over steps (or along a chain of steps) of maxima of linear functions of the bytes:
convex. The line through two sizes lies below a convex function outside of the two. So two lines, through sizes below
and above all that occur, bound every size between them. A pipeline takes the number of pieces that suits the size: the
least of linear functions, which is concave, so that chords lie below it; so is the closed form of a collective library,
the least of concave ways. Schedules that are built anew for each size
have no such law; the proved lower bounds of the collective, at sizes a quarter of an octave apart, stay below their
prices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from lightloom.collectives.bounds.lower_bound import bandwidth_bound, lower_bound
from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.spec import Collective, Kind
from lightloom.core.arrays import Floats
from lightloom.core.effort import Effort
from lightloom.fabrics.base import Fabric
from lightloom.simulation.lower import Price

_SMALL, _LARGE = 2.0**12, 2.0**37
"""Bytes; smaller sizes are bounded by the price of nothing, larger ones by the first line alone."""
LINE_SIZES = (0.0, _SMALL, _LARGE, 2 * _LARGE)
"""Bytes of the collectives whose prices lines are drawn through."""
_OCTAVES: Effort = 44
"""Octaves of the sizes at which bounds are tabled; larger sizes are bounded by the last."""
_PARTS: Effort = 4
"""Sizes in an octave."""
_CHORD_SIZES = (0.0, *(4.0**power for power in range(5, 21)))
"""Bytes of the pipelines between whose prices chords are drawn."""
_DENSE_SIZES = (0.0, *(2.0 ** (part / _PARTS) for part in range(_PARTS * _OCTAVES)))
_ROUNDING = 1 - 1e-12


class PriceLine(NamedTuple):
    """Two lines below a convex price."""

    nothing: float
    """Seconds of a collective of no bytes."""
    slope: float
    """Seconds a byte from there to small sizes."""
    far: float
    """Seconds of a large collective."""
    far_slope: float
    """Seconds a byte beyond."""

    def column(self, nbytes: Floats) -> Floats:
        """Seconds that collectives of so many bytes take at least, in the shape of ``nbytes``."""
        near = self.nothing + np.where(nbytes >= _SMALL, self.slope * nbytes, 0.0)
        beyond = np.where(nbytes <= _LARGE, self.far - self.far_slope * (_LARGE - nbytes), 0.0)
        bound: Floats = np.maximum(near, beyond)
        return bound

    def below(self, other: PriceLine) -> bool:
        """Whether this bound is nowhere above another one."""
        starts = self.far - self.far_slope * _LARGE, other.far - other.far_slope * _LARGE
        near = self.nothing <= other.nothing and self.slope <= other.slope
        return near and self.far <= other.far and starts[0] <= starts[1]


def price_line(price: Price, kind: Kind, *, hidden_setup: bool) -> PriceLine:
    """The lines below the prices of one algorithm.

    With ``hidden_setup`` all circuits of the first step are set up before the data exists, otherwise only those that
    can stay in place (``Cost.repeated_time``).
    """
    costs = (price(kind, nbytes).cost for nbytes in LINE_SIZES)
    nothing, small, large, twice = (cost.time - cost.setup if hidden_setup else cost.repeated_time for cost in costs)
    # Far from its two sizes the second line is a difference of large numbers.
    far = large - 16 * np.finfo(np.float64).eps * twice
    return PriceLine(nothing, (small - nothing) / _SMALL, far, (twice - large) / _LARGE)


class SizedLine(NamedTuple):
    """Steps below the prices of schedules that are built for each size."""

    seconds: tuple[float, ...]
    """At sizes of 0 bytes, and from 1 byte on a quarter of an octave apart."""

    def column(self, nbytes: Floats) -> Floats:
        """Seconds that collectives of so many bytes take at least, in the shape of ``nbytes``."""
        place = np.floor(_PARTS * np.log2(np.maximum(nbytes, 0.5)) + 1e-9).astype(np.int64) + 1
        bound: Floats = np.array(self.seconds)[np.clip(place, 0, len(self.seconds) - 1)]
        return bound


class Chords(NamedTuple):
    """Chords below a concave price."""

    sizes: tuple[float, ...]
    """Bytes of the collectives between whose prices chords are drawn; larger ones are bounded by the last."""
    seconds: tuple[float, ...]
    """At these sizes."""

    def column(self, nbytes: Floats) -> Floats:
        """Seconds that collectives of so many bytes take at least, in the shape of ``nbytes``."""
        bound: Floats = np.interp(nbytes, self.sizes, self.seconds)
        return bound


def chords(price: Price, kind: Kind) -> Chords:
    """The chords below the prices of a pipeline on a packet fabric, which sets up no circuits."""
    return Chords(_CHORD_SIZES, tuple(price(kind, nbytes).cost.time * _ROUNDING for nbytes in _CHORD_SIZES))


def dense_chords(seconds: Callable[[Floats], Floats]) -> Chords:
    """The chords below a concave closed form, a quarter of an octave apart."""
    return Chords(_DENSE_SIZES, tuple((seconds(np.array(_DENSE_SIZES)) * _ROUNDING).tolist()))


class ExchangeLine(NamedTuple):
    """A lower bound of the price of an exchange: the sum of its phases' lower bounds, and the coding."""

    parts: tuple[tuple[tuple[LowerPrice, ...], float], ...]
    """Of each phase: bounds of the algorithms that may carry it, and its bytes for each byte of the collective that the
    exchange stands for."""
    nothing: float
    """Seconds of coding nothing."""
    slope: float
    """Seconds of coding for each byte."""
    every: int

    def column(self, nbytes: Floats) -> Floats:
        """Seconds that exchanges of so many bytes take at least, in the shape of ``nbytes``."""
        seconds = self.nothing + self.slope * nbytes
        for lines, share in self.parts:
            seconds = seconds + np.minimum.reduce([line.column(nbytes * share) for line in lines])
        bound: Floats = seconds / self.every
        return bound


LowerPrice: TypeAlias = PriceLine | SizedLine | Chords | ExchangeLine
"""A lower bound of the price of one algorithm."""


def sized_line(kind: Kind, fabric: Fabric, model: CostModel) -> SizedLine:
    """The proved lower bounds of a collective, circuits set up beforehand."""
    proved = (lower_bound(Collective(kind, fabric.ranks, nbytes), fabric, model).time for nbytes in _DENSE_SIZES)
    return SizedLine(tuple(max(seconds - fabric.setup_time, 0.0) for seconds in proved))


def proved_line(kind: Kind, fabric: Fabric, model: CostModel) -> PriceLine:
    """The bytes and the latency of a collective that no schedule beats, circuits set up beforehand: a bound that needs
    no schedule."""
    nothing = lower_bound(Collective(kind, fabric.ranks, 0.0), fabric, model).time - fabric.setup_time
    slope = bandwidth_bound(Collective(kind, fabric.ranks, 1.0), fabric) * _ROUNDING
    return PriceLine(max(nothing, 0.0) * _ROUNDING, 0.0, slope * _LARGE, slope)


def undominated(lines: Sequence[LowerPrice]) -> list[LowerPrice]:
    """Lines without those that lie nowhere below another one."""
    least: list[LowerPrice] = []
    for line in lines:
        if isinstance(line, PriceLine):
            if any(isinstance(other, PriceLine) and other.below(line) for other in least):
                continue
            least = [other for other in least if not (isinstance(other, PriceLine) and line.below(other))]
        least.append(line)
    return least
