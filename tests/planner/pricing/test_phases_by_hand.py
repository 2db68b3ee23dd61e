"""The price of phases one after the other, and the cheapest of several, from prices that are made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.collectives.cost.price import Cost
from lightloom.core.errors import UnsupportedError
from lightloom.planning.pricing.collective_prices import Candidate, _cheapest, _together
from lightloom.planning.simulation.engine import Priced


def phase(
    circuits: str | None = None, setup: float = 0.0, later: float = 0.0, *, static: bool = True, energy: Any = 2.0
) -> Priced:
    """A phase of three steps that sends for 8 s, converts for 2 s and codes for 0.5 + 0.25 s."""
    times = {"transmission": 8.0, "conversion": 2.0, "reconfiguration": setup + later, "encode": 0.5, "decode": 0.25}
    cost = Cost(steps=3, time=sum(times.values()), setup=setup, static=static, energy=energy, **times)
    return Priced(cost=cost, circuits=circuits)


@pytest.mark.parametrize(
    ("phases", "places", "setup", "changing", "static", "circuits"),
    [
        # The same circuits are set up once, others at every change, and others on other links once each.
        ([phase("k", 1.0), phase("k", 1.0)], [0, 0], 1.0, 1.0, True, "k"),
        ([phase("k", 1.0), phase("l", 1.0)], [0, 0], 0.0, 2.0, False, None),
        ([phase("k", 1.0), phase("l", 4.0), phase("k", 1.0)], [0, 1, 0], 5.0, 5.0, True, "k l"),
        # Phases without circuits disturb none.
        ([phase(), phase()], [0, 0], 0.0, 0.0, True, None),
        ([phase("k", 1.0), phase(), phase("k", 1.0)], [0, 0, 0], 1.0, 1.0, True, "k"),
        # Circuits that have no name stay where one phase is all there is, and they do.
        ([phase(None, 1.0, 2.0)], [0], 1.0, 3.0, True, None),
        ([phase(None, 1.0, 2.0, static=False)], [0], 0.0, 3.0, False, None),
        ([phase(None, 1.0), phase(None, 1.0)], [0, 0], 0.0, 2.0, False, None),
        ([phase("k", 1.0), phase(None, 0.0, 2.0)], [0, 0], 0.0, 3.0, False, None),
        ([phase("k", 1.0), phase(None, 1.0)], [0, 1], 0.0, 2.0, False, None),
        ([phase("k", 1.0, static=False)], [0], 1.0, 1.0, True, "k"),
    ],
)
def test_phases_keep_the_circuits_that_all_of_a_place_share(
    phases: list[Priced], places: list[int], setup: float, changing: float, static: bool, circuits: str | None
) -> None:
    count = len(phases)
    found = _together(phases, 0.125, 0.0625, places, [1] * count)
    assert found.circuits == circuits and found.cost == Cost(
        steps=3 * count,
        time=10.75 * count + changing + 0.1875,
        transmission=8.0 * count,
        conversion=2.0 * count,
        reconfiguration=changing,
        setup=setup,
        static=static,
        energy=2.0 * count,
        encode=0.5 * count + 0.125,
        decode=0.25 * count + 0.0625,
    )


def test_joules_are_those_of_all_groups_where_all_are_known() -> None:
    phases = [phase(energy=2.0), phase(energy=3.0), phase(energy=0.0)]
    assert _together(phases, 0.0, 0.0, [0, 0, 0], [4, 5, 6]).cost.energy == 23.0
    assert _together([*phases, phase(energy=None)], 0.0, 0.0, [0] * 4, [4, 5, 6, 7]).cost.energy is None


class Price:
    """Seconds of any collective by an algorithm, or why there are none; counts how often it is asked."""

    def __init__(self, name: str, seconds: float | str, *, by_size: bool = False) -> None:
        self.algorithm, self.seconds, self.asked = SimpleNamespace(name=name, by_size=by_size), seconds, 0

    def __call__(self, kind: str, nbytes: float) -> Any:
        assert (kind, nbytes) == ("all-gather", 8.0)
        self.asked += 1
        if isinstance(self.seconds, str):
            raise UnsupportedError(self.seconds)
        return SimpleNamespace(cost=SimpleNamespace(repeated_time=self.seconds))

    def candidate(self, line: Any) -> Candidate:
        own: Any = self
        return Candidate(own.algorithm, None, False, lambda: None, lambda: own, lambda hidden: line)


@pytest.mark.parametrize(
    ("candidates", "best", "asked"),
    [
        # Name, lower bound and seconds of each.
        ([("c", 4.75, 4.75), ("a", 1.0, 5.0), ("b", 4.0, 4.5)], "b", "abc"),
        # Of equally fast ones the first by name, even if its bound is the price of another.
        ([("b", 1.0, 3.0), ("a", 2.0, 3.0)], "a", "ab"),
        ([("b", 1.0, 3.0), ("a", 3.0, 3.0)], "a", "ab"),
        ([("a", 1.0, 3.0), ("b", 2.0, 3.0)], "a", "ab"),
        ([("a", 1.0, 3.0), ("b", 3.5, 1.0)], "a", "a"),
        # What fails does not count.
        ([("a", 1.0, "too few"), ("b", 9.0, 9.0), ("c", 9.5, 1.0)], "b", "ab"),
    ],
)
def test_the_cheapest_is_found_without_pricing_what_cannot_be(
    candidates: list[tuple[str, float, float | str]], best: str, asked: str
) -> None:
    prices = [Price(name, seconds) for name, _, seconds in candidates]
    lines = [lambda size, bound=bound: bound if float(size) == 8.0 else 0.0 for _, bound, _ in candidates]
    found: Any = _cheapest([each.candidate(line) for each, line in zip(prices, lines, strict=True)], "all-gather", 8.0)
    assert found.algorithm.name == best
    assert "".join(sorted(each.algorithm.name for each in prices if each.asked == 1)) == asked


def test_one_schedule_for_all_sizes_is_taken_unpriced_and_what_fails_says_why() -> None:
    def chosen(*prices: Price) -> Any:
        return _cheapest([each.candidate(lambda _: 0.0) for each in prices], "all-gather", 8.0)

    alone, sized = Price("a", "never asked"), Price("a", 1.0, by_size=True)
    assert chosen(alone) is alone and alone.asked == 0
    assert chosen(sized) is sized and sized.asked == 1
    failing = [Price(name, why, by_size=True) for name, why in (("a", "few"), ("b", "many"), ("c", "few"))]
    with pytest.raises(UnsupportedError, match=r"^few; many$"):
        chosen(*failing)
    with pytest.raises(UnsupportedError, match=r"^few$"):
        chosen(failing[0])
