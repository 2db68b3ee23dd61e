"""Lower bounds of prices: lines below convex prices, chords below concave ones, steps below all others.

A verified schedule's cost is a sum over steps (or along a chain of steps) of maxima of linear functions of the bytes:
convex. The line through two sizes lies below a convex function outside of the two. So two lines, through sizes below
and above all that occur, bound every size between them. A pipeline takes the number of pieces that suits the size: the
least of linear functions, which is concave, so that chords lie below it; so is the closed form of a collective library,
the least of concave ways. Schedules that are built anew for each size have no such law; the proved lower bounds of the
collective, at sizes a quarter of an octave apart, stay below their prices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from lightloom.collectives.bounds.lower_bound import bandwidth_bound, lower_bound
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.price import CostModel
from lightloom.core.arrays import Effort, Floats
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.pricing.library_prices import LibraryPrices
from lightloom.planning.pricing.schedule_prices import LARGE, LINE_SIZES, SMALL, SchedulePrices
from lightloom.planning.simulation.engine import Price

_OCTAVES: Effort = 44
"""Octaves of the sizes at which bounds are tabled; larger sizes are bounded by the last."""
_PARTS: Effort = 4
"""Sizes in an octave."""
_CHORD_SIZES = (0.0, *(4.0**power for power in range(5, 21)))
"""Bytes of the pipelines between whose prices chords are drawn."""
_DENSE_SIZES = (0.0, *(2.0 ** (part / _PARTS) for part in range(_PARTS * _OCTAVES)))
_BELOW_ROUNDING = 1 - 1e-12
"""Factor that keeps lower bounds below prices whose sums are rounded otherwise."""


class LowerPrice(Protocol):
    """A lower bound of the prices of one algorithm."""

    def __call__(self, nbytes: Floats, /) -> Floats:
        """Return the seconds that collectives of so many bytes take at least, in the shape of ``nbytes``."""


class PriceLine(NamedTuple):
    """Two lines below a convex price, in seconds by bytes of the collective."""

    nothing: float
    """Seconds of a collective of no bytes."""
    slope: float
    """Seconds per byte from there to small sizes."""
    far: float
    """Seconds of a large collective."""
    far_slope: float
    """Seconds per byte beyond it."""

    def __call__(self, nbytes: Floats) -> Floats:
        """Return the lower bound in seconds at each size (bytes), in the shape of ``nbytes``: the larger of both lines,
        the first without its slope below 4 KiB, the second only up to 128 GiB."""
        near = self.nothing + np.where(nbytes >= SMALL, self.slope * nbytes, 0.0)
        return np.maximum(near, np.where(nbytes <= LARGE, self.far - self.far_slope * (LARGE - nbytes), 0.0))


def price_line(price: Price, kind: Kind, *, hidden_setup: bool) -> PriceLine:
    """Return two lines below the prices of one algorithm, a convex function of the bytes: the first through the prices
    of no bytes and of 4 KiB, the second through those of 128 and of 256 GiB; as seconds of no bytes and seconds for
    each byte, then seconds of 128 GiB (less round-off) and seconds for each byte. The bound that they give is the
    larger of both, the first without its slope below 4 KiB, the second up to 128 GiB only.

    With ``hidden_setup`` prices are taken without the first set-up of circuits, which is done before the data exists;
    otherwise without it only where the circuits can stay in place (``Cost.repeated_time``).
    """
    costs = (price(kind, nbytes).cost for nbytes in LINE_SIZES)
    nothing, small, large, twice = (cost.time - cost.setup if hidden_setup else cost.repeated_time for cost in costs)
    # Far from its two sizes the second line is a difference of large numbers.
    far = large - 16 * np.finfo(np.float64).eps * twice
    return PriceLine(nothing, (small - nothing) / SMALL, far, (twice - large) / LARGE)


def chords(sizes: Sequence[float] | Floats, seconds: Sequence[float] | Floats) -> LowerPrice:
    """Return the lower bound of a concave price that takes ``seconds`` at ``sizes`` (bytes, ascending): linear between
    two sizes, constant below the first and beyond the last, and smaller by 1e-12 of itself for rounding."""
    known = np.array(seconds) * _BELOW_ROUNDING

    def bound(nbytes: Floats) -> Floats:
        """Return the seconds on the chord at each size, in the shape of ``nbytes``."""
        return np.interp(nbytes, sizes, known)

    return bound


def steps_between(seconds: Callable[[float], float]) -> LowerPrice:
    """Return a lower bound that is constant from one size to the next, for prices of schedules that are built for each
    size. The sizes are 0 and four an octave from 1 byte on, over 44 octaves; a size takes the bound of the largest of
    these that is not above it.

    ``seconds`` gives the bound in seconds of a size in bytes; it is called once for each of these sizes, when it is
    first needed.
    """
    known = np.full(len(_DENSE_SIZES), np.nan)

    def bound(nbytes: Floats) -> Floats:
        """Return the seconds of the step that each size lies on, in the shape of ``nbytes``."""
        place = np.floor(_PARTS * np.log2(np.maximum(nbytes, 0.5)) + 1e-9).astype(np.int64) + 1
        place = np.clip(place, 0, len(known) - 1)
        for step in np.unique(place[np.isnan(known[place])]):
            known[step] = seconds(_DENSE_SIZES[step])
        return known[place]

    return bound


def exchange_line(
    phases: Sequence[tuple[Sequence[LowerPrice], float]], coding: tuple[float, float], every: int
) -> LowerPrice:
    """Return a lower bound of a step's share of the price of an exchange: the sum of its phases' lower bounds, in each
    phase the least among its algorithms, and the coding, all divided by ``every``.

    Args:
        phases: for each phase, lower bounds of the algorithms that may carry it, and its bytes for each byte of the
            collective that the exchange stands for.
        coding: seconds of coding an exchange of no bytes, and seconds for each byte of the collective that the exchange
            stands for.
        every: number of steps that share one exchange.
    """

    def bound(nbytes: Floats) -> Floats:
        """Return a step's least seconds for ``nbytes`` of the collective that the exchange stands for, in its shape."""
        seconds = coding[0] + coding[1] * nbytes
        for lines, share in phases:
            seconds = seconds + np.minimum.reduce([line(nbytes * share) for line in lines])
        return seconds / every

    return bound


def sized_line(kind: Kind, fabric: Fabric, model: CostModel) -> LowerPrice:
    """Return a lower bound of the prices of schedules that are built for each size, constant between the sizes of
    :func:`steps_between`: the proved lower bound of the collective among all ranks of the fabric less the fabric's
    set-up time, as if circuits were set up beforehand; never below 0."""

    def seconds(nbytes: float) -> float:
        """Return the least seconds of a size with circuits in place."""
        return max(lower_bound(Collective(kind, fabric.ranks, nbytes), fabric, model).time - fabric.setup_time, 0.0)

    return steps_between(seconds)


def proved_line(kind: Kind, fabric: Fabric, model: CostModel) -> PriceLine:
    """Return a lower bound of a collective among all ranks of a fabric that holds for every schedule and needs none:
    the larger of the proved seconds for no bytes, less the set-up of circuits (at least 0), and of the bytes at the
    fabric's bandwidth, which counts up to 128 GiB only; beyond, the bound is that for no bytes."""
    nothing = lower_bound(Collective(kind, fabric.ranks, 0.0), fabric, model).time - fabric.setup_time
    slope = bandwidth_bound(Collective(kind, fabric.ranks, 1.0), fabric) * _BELOW_ROUNDING
    return PriceLine(max(nothing, 0.0) * _BELOW_ROUNDING, 0.0, slope * LARGE, slope)


CollectivePrices: TypeAlias = SchedulePrices | LibraryPrices
"""Prices of one algorithm's schedules, or of a fabric's collective library."""


def line_below(prices: CollectivePrices, kind: Kind, *, hidden_setup: bool) -> LowerPrice:
    """Return a lower bound of the prices of one algorithm for one kind of collective: steps for schedules built by size
    (:func:`sized_line`), chords for the library and for pipelines (:func:`chords`), else two lines
    (:func:`price_line`). ``hidden_setup``, used by the two lines alone, leaves the first set-up of circuits out of
    every price, not only where circuits can stay."""
    if prices.algorithm.by_size:
        return sized_line(kind, prices.fabric, prices.model)
    if isinstance(prices, LibraryPrices):
        return chords(_DENSE_SIZES, prices.seconds(kind, np.array(_DENSE_SIZES)).tolist())
    if prices.algorithm.pipelined:
        # A pipeline on a packet fabric sets up no circuits.
        return chords(_CHORD_SIZES, [prices(kind, nbytes).cost.time for nbytes in _CHORD_SIZES])
    return price_line(prices, kind, hidden_setup=hidden_setup)
