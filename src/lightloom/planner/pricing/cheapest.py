"""The cheapest of several algorithms for each collective of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.cost.price import Cost
from lightloom.collectives.evaluate import Refusal, attempt
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Kind
from lightloom.core.errors import UnsupportedError
from lightloom.planner.pricing.library import LibraryPrices
from lightloom.planner.pricing.price_line import LowerPrice, chords, price_line, sized_line
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.simulation.lower import Priced

_ROUNDING = 1 + 1e-9

CollectivePrices: TypeAlias = SchedulePrices | LibraryPrices
"""Prices of one algorithm's schedules, or of a fabric's collective library."""


def line_below(prices: CollectivePrices, kind: Kind, *, hidden_setup: bool) -> LowerPrice:
    """The lower bound of the prices of one algorithm."""
    if prices.algorithm.by_size:
        return sized_line(kind, prices.fabric, prices.model)
    if isinstance(prices, LibraryPrices):
        return prices.below(kind)
    if prices.algorithm.pipelined:
        return chords(prices, kind)
    return price_line(prices, kind, hidden_setup=hidden_setup)


class CheapestPrices:
    """Prices of the cheapest of several algorithms for each collective; calls as the simulator's ``Price``."""

    def __init__(self, candidates: Callable[[Kind], Sequence[tuple[CollectivePrices, LowerPrice]]]) -> None:
        """``candidates`` are the prices that may serve a kind of collective, each with a lower bound."""
        self._candidates = candidates
        self._choices: dict[tuple[Kind, float], CollectivePrices] = {}

    def choice(self, kind: Kind, nbytes: float) -> CollectivePrices:
        """Prices of the algorithm that carries this collective in the least time, its circuits in place."""
        if (kind, nbytes) not in self._choices:
            self._choices[kind, nbytes] = _cheapest(self._candidates(kind), kind, nbytes)
        return self._choices[kind, nbytes]

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        return self.choice(kind, nbytes)(kind, nbytes)

    def cost(self, kind: Kind, nbytes: float) -> tuple[Cost, Bound]:
        """The cost of one collective, and the bound it was held against."""
        return self.choice(kind, nbytes).cost(kind, nbytes)

    def schedule(self, kind: Kind, nbytes: float) -> Schedule:
        """The verified schedule of one collective."""
        return self.choice(kind, nbytes).schedule(kind, nbytes)


def _cheapest(candidates: Sequence[tuple[CollectivePrices, LowerPrice]], kind: Kind, nbytes: float) -> CollectivePrices:
    """The cheapest prices, of equal ones the first by name; those whose bounds are higher are not asked.

    Raises:
        UnsupportedError: every algorithm fails at this size; those whose schedules serve all sizes were tried before.
    """
    if len(candidates) == 1 and not candidates[0][0].algorithm.by_size:
        return candidates[0][0]
    size = np.array(nbytes)
    bounds = sorted(
        (float(line.column(size)), prices.algorithm.name, place) for place, (prices, line) in enumerate(candidates)
    )
    best: tuple[float, str, int] | None = None
    failures: list[str] = []
    for bound, name, place in bounds:
        if best is not None and bound > best[0] * _ROUNDING:
            break
        prices = candidates[place][0]
        outcome = attempt(prices.algorithm, partial(prices, kind, nbytes))
        if isinstance(outcome, Refusal):
            failures.append(outcome.why)
            continue
        rival = (outcome.cost.repeated_time, name, place)
        best = rival if best is None else min(best, rival)
    if best is None:
        raise UnsupportedError("; ".join(dict.fromkeys(failures)))
    return candidates[best[2]][0]
