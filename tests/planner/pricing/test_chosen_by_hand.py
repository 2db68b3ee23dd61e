"""Which of several steps, or of several algorithms, is taken where times are made up."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.core.errors import UnsupportedError
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing import strategy_step
from lightloom.planning.pricing.collective_prices import CheapestPrices
from lightloom.planning.pricing.group_prices import DividedChannels, ScaledChannels
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.pricing.strategy_step import ExchangeUse
from lightloom.planning.traffic import together


class Sized(SchedulePrices):
    """Schedules of their own size, or all of one size."""

    def __init__(self, size: float | None, *, by_size: bool = True) -> None:
        self.size, self.algorithm = size, SimpleNamespace(name="sized", by_size=by_size)  # type: ignore[assignment]

    def built_for(self, kind: Any, nbytes: float) -> float:
        return 2 * nbytes if kind == "all-gather" else nbytes

    def at(self, size: float) -> Any:
        return Sized(size)


class Cheapest(CheapestPrices):
    """Prices that always choose the same schedules."""

    def __init__(self, first: Sized) -> None:
        self.first, self.asked = first, list[object]()

    def choice(self, kind: Any, nbytes: float) -> Any:
        self.asked.append((kind, nbytes))
        return self.first

    def __call__(self, kind: Any, nbytes: float) -> Any:
        return SimpleNamespace(algorithm=f"{kind} of {nbytes:g}")


DP = Strategy(4, 1, 1, 1, 8, "none", "none", "sized", 3)


@pytest.mark.parametrize(
    ("name", "by_size", "exchanges", "times", "taken"),
    [
        # Seconds of a step, and of communication, by the one size of all schedules; None for sizes of their own.
        ("sized", True, [("all-gather", 3), ("all-reduce", 5)], {None: (2, 5), 5: (2, 4), 6: (2, 3)}, 6),
        ("sized", True, [("all-gather", 3), ("all-reduce", 5)], {None: (2, 2), 5: (2, 4), 6: (2, 3)}, None),
        ("sized", True, [("all-gather", 3), ("all-reduce", 5)], {None: (3, 2), 5: (2, 4), 6: (3, 1)}, 5),
        # One size is the schedules' own; chosen, unsized or no exchanges have no other steps.
        ("sized", True, [("all-gather", 3), ("all-reduce", 6)], {None: (3, 2)}, None),
        ("auto", True, [("all-gather", 3), ("all-reduce", 5)], {"chosen": (3, 2)}, "chosen"),
        ("sized", False, [("all-gather", 3), ("all-reduce", 5)], {"chosen": (3, 2)}, "chosen"),
        ("sized", True, [], {"chosen": (3, 2)}, "chosen"),
    ],
)
def test_replicas_take_the_fastest_sizes_and_of_equal_steps_the_quietest(
    name: str,
    by_size: bool,
    exchanges: list[tuple[str, int]],
    times: dict[Any, tuple[float, float]],
    taken: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prices = Cheapest(Sized(None, by_size=by_size))
    plan = SimpleNamespace(exchanges=[SimpleNamespace(kind=kind, nbytes=nbytes) for kind, nbytes in exchanges])
    tried: list[object] = []

    def simulated(of: object, chip: str, fabric: str, price: Any, *, overlap: str, computing: str) -> Any:
        assert (of, chip, fabric, overlap, computing) == (plan, "chip", "fabric", "overlap", "computing")
        tried.append(price.size if isinstance(price, Sized) else "chosen")
        seconds, busy = times[tried[-1]]
        return SimpleNamespace(step_time=seconds, communication_time=busy, breakdown={"of": tried[-1]})

    monkeypatch.setattr(strategy_step, "simulate_step", simulated)
    asked: Any = []
    job: Any = SimpleNamespace(
        data_parallel_plan=lambda _: plan,
        pricing=SimpleNamespace(price=lambda *of: asked.append(of) or prices),
        computing=lambda _: "computing",
        accelerator="chip",
        fabric="fabric",
        overlap="overlap",
    )
    found = strategy_step._data_parallel(job, DP._replace(algorithm=name))
    assert asked == [(name, 4, 3)] and prices.asked == exchanges[:1]
    assert tried == list(times) and found.breakdown == {"of": taken}
    assert (found.step_time, found.communication_time) == times[taken]
    assert getattr(found.prices, "size", "chosen") == taken and found.result is not None
    largest = sorted(exchanges, key=lambda each: -each[1])
    assert found.exchanges == tuple(ExchangeUse(kind, 4, 1, size, f"{kind} of {size}") for kind, size in largest)  # type: ignore[arg-type]


def test_one_rank_exchanges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    step = SimpleNamespace(step_time=1.0, communication_time=0.0, breakdown={})
    monkeypatch.setattr(strategy_step, "simulate_step", lambda *_, **__: step)
    plan = SimpleNamespace(exchanges=[SimpleNamespace(kind="all-reduce", nbytes=8)])
    job: Any = SimpleNamespace(
        data_parallel_plan=lambda _: plan, computing=lambda _: None, accelerator=None, fabric=None, overlap=True
    )
    found = strategy_step._data_parallel(job, DP._replace(dp=1))
    assert found.exchanges == () and found.prices is strategy_step._free
    free = strategy_step._free("all-reduce", 8.0).cost
    assert (free.steps, free.time, free.energy, free.static, free.repeated_time) == (0, 0.0, 0.0, True, 0.0)


@pytest.mark.parametrize(
    ("times", "best"),
    [
        ({"ring": 3.0, "tree": 2.0, "mesh": 4.0}, "tree"),
        ({"tree": 2.0, "ring": 2.0, "mesh": 4.0}, "ring"),
        ({"a": 5.0, "z": 1.0}, "z"),
    ],
)
@pytest.mark.parametrize("held", [None, 4])
def test_a_job_repeats_the_collective_of_the_fastest_algorithm(
    times: dict[str, float], best: str, held: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of equally fast ones the first by name; its exchanges matter on packets, its schedule on circuits."""
    evaluations = [
        SimpleNamespace(
            algorithm=SimpleNamespace(name=name), cost=SimpleNamespace(repeated_time=seconds), schedule=f"of {name}"
        )
        for name, seconds in times.items()
    ]
    asked: list[Any] = []

    def evaluated(collective: Any, part: Any, *, candidates: Any) -> Any:
        asked.append((collective.kind, collective.ranks, collective.nbytes, candidates))
        return evaluations, []

    monkeypatch.setattr(together, "evaluate_all", evaluated)
    monkeypatch.setattr(together, "collective_exchange", lambda of, part, seconds: (of.algorithm.name, seconds))
    request: Any = SimpleNamespace(job=SimpleNamespace(what="all-reduce", label="job"), nbytes=8.0, algorithm=None)
    part: Any = SimpleNamespace(ranks=4, shared_channels=6)
    work: Any = together._collective(request, part, held)
    assert asked == [("all-reduce", 4, 8.0, None)] and work.label == best and work.seconds == times[best]
    assert work.channels == held and work.exchanges == ([] if held else [(best, times[best])])
    assert [each.schedule for each in work.parts] == ([f"of {best}"] if held else [])
    if held:
        share = work.parts[0].axis
        assert (share.ranks, share.stride, share.first, share.channels) == (4, 1, 0, 6)
    assert work.slowed({"data": 1.5}) == 1.5 * times[best] and work.slowed({"tensor": 9.0}) == times[best]


def test_a_job_without_an_algorithm_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = [SimpleNamespace(why="too few"), SimpleNamespace(why="another")]
    monkeypatch.setattr(together, "evaluate_all", lambda *_, candidates: ([], refused))
    request: Any = SimpleNamespace(job=SimpleNamespace(what="all-reduce", label="mine"), nbytes=8.0, algorithm="ring")
    with pytest.raises(UnsupportedError, match=r"^job mine: too few$"):
        together._collective(request, SimpleNamespace(ranks=4), None)  # type: ignore[arg-type]


class Space:
    """Four parts for two axes, or all of them for one; as many channels as parts."""

    def __init__(self, *equal: int) -> None:
        self.equal = lambda: equal

    def neighbours(self, parts: tuple[int, int]) -> list[tuple[int, int]]:
        first, second = parts
        moved = [(first - 1, second + 1), (first + 1, second - 1)]
        return [each for each in moved if min(each) >= 0]

    def channels(self, parts: tuple[int, ...]) -> tuple[int, ...]:
        return parts


Parts = dict[tuple[int, int], float]
FIRST: Parts = {(2, 2): 5.0, (3, 1): 4.0, (1, 3): 6.0, (4, 0): 4.5, (0, 4): 1.0}
"""Seconds at scaled prices: from equal parts down to three and one, no further."""


@pytest.mark.parametrize(
    ("scaled", "exact", "priced", "best"),
    [
        # In the order of the estimates, until one is not below 99 % of the best.
        (FIRST, {(3, 1): 7.0, (4, 0): 6.0, (2, 2): 4.0}, [(3, 1), (4, 0), (2, 2)], (2, 2)),
        (FIRST, {(3, 1): 4.0}, [(3, 1)], (3, 1)),
        # What no algorithm serves is left out; of equally fast ones the first is taken.
        (FIRST, {(4, 0): 7.0, (2, 2): 7.0, (1, 3): 8.0}, [(3, 1), (4, 0), (2, 2), (1, 3)], (4, 0)),
        ({(2, 2): 98.0, (3, 1): 98.5, (1, 3): 99.5}, {(2, 2): 100.0, (3, 1): 101.0}, [(2, 2), (3, 1)], (2, 2)),
        # Nothing at scaled prices, or nothing at all.
        ({(1, 3): 2.0, (0, 4): 3.0}, {(1, 3): 2.0}, [(1, 3)], (1, 3)),
        (FIRST, {}, [(3, 1), (4, 0), (2, 2), (1, 3)], "divided (1, 3)"),
        ({}, {}, [], "no algorithm serves the axes on any division"),
    ],
)
def test_channels_are_divided_by_scaled_prices_and_then_by_schedules(
    scaled: Parts, exact: Parts, priced: list[tuple[int, int]], best: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def seconds(of: Any) -> float:
        kind, channels = of
        known = scaled if kind is ScaledChannels else exact
        if kind is DividedChannels:
            asked.append(channels)
        if channels not in known:
            raise UnsupportedError(f"{'divided' if known is exact else 'scaled'} {channels}")
        return known[channels]

    monkeypatch.setattr(strategy_step._DivisionSearch, "_divided", lambda _, kind, channels: (kind, channels))
    search: Any = strategy_step._DivisionSearch(None, None, Space(2, 2), seconds)  # type: ignore[arg-type]
    if isinstance(best, str):
        with pytest.raises(UnsupportedError, match=f"^{re.escape(best)}"):
            search.best()
    else:
        assert search.best() == (DividedChannels, best)
    assert asked == priced
    alone: Any = strategy_step._DivisionSearch(None, None, Space(8), seconds)  # type: ignore[arg-type]
    assert alone.best() == (DividedChannels, (8,)) and asked == priced
