"""Channels that axes divide: the search for the division, and what circuits between stages are worth."""

from __future__ import annotations

from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.planning.pricing import group_prices as divided_prices
from lightloom.planning.pricing.group_prices import DividedChannels, Divisions, ScaledChannels, slope
from lightloom.planning.pricing.strategy_step import _DivisionSearch, on_divided_channels
from tests.planner.test_division import RING, job, strategy

Found = tuple[str, tuple[int, ...]]


class _Tabled(_DivisionSearch):
    """Its jobs are the channels alone."""

    def _divided(self, channels_of: type[DividedChannels], channels: tuple[int, ...]) -> Any:
        return ("scaled" if channels_of is ScaledChannels else "own", channels)


@settings(max_examples=60)
@given(st.integers(0, 8), st.lists(st.integers(1, 2), min_size=2, max_size=3), st.integers(0, 1 << 32).map(Random))
def test_no_division_that_differs_by_a_part_is_faster_by_more_than_a_hundredth(
    spare: int, units: list[int], random: Random
) -> None:
    """As far as estimates say, which are right or too short; those without a step are never taken."""
    fabric: Any = SimpleNamespace(shared_channels=sum(units) + spare)
    axes: Any = tuple(SimpleNamespace(unit=lambda _, unit=unit: unit) for unit in units)
    space = Divisions(fabric, axes)
    table: dict[Found, float] = {}
    asked: list[Found] = []

    def step_time(of: Any) -> float:
        asked.append(of)
        if of not in table:
            table["scaled", of[1]] = random.choice([*range(900, 1000), *[inf] * 50])
            table["own", of[1]] = table["scaled", of[1]] * random.choice([1.0, 1.005, 1.02, 1.1, inf])
        if table[of] == inf:
            raise UnsupportedError(f"{of} has no algorithm")
        return table[of]

    found: Any = None
    nothing: Any = None
    try:
        found = _Tabled(nothing, nothing, space, step_time).best()
    except UnsupportedError as error:
        assert "no algorithm" in str(error)
    looked = {of[1] for of in asked if of[0] == "scaled"}
    priced = {of[1] for of in asked if of[0] == "own"}
    estimates = {channels: table["scaled", channels] for channels in looked if table["scaled", channels] < inf}
    assert sum(table[of] < inf for of in asked) == sum(table[of] < inf for of in set(asked))
    assert near(space, space.equal()) <= looked and priced <= set(estimates)
    last = {parts for parts in reached(space) if near(space, parts) <= looked}
    assert not estimates or min(estimates.values()) in {estimates.get(space.channels(parts) or ()) for parts in last}
    for channels in priced:
        sooner = [table["own", each] for each in priced if estimates[each] < estimates[channels]]
        assert estimates[channels] <= 0.99 * min(sooner, default=inf)
    if found is None:
        assert priced == set(estimates) and all(table["own", channels] == inf for channels in priced)
        return
    assert found[0] == "own" and found[1] in priced
    for channels, estimate in estimates.items():
        assert table[found] <= table["own", channels] if channels in priced else estimate > 0.99 * table[found]


def near(space: Divisions, parts: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Channels of these parts, and of those that differ by one."""
    found = {space.channels(each) for each in [parts, *space.neighbours(parts)]}
    return {channels for channels in found if channels is not None}


def reached(space: Divisions) -> set[tuple[int, ...]]:
    """All parts to which steps from equal ones lead."""
    seen, pending = {space.equal()}, [space.equal()]
    while pending:
        fresh = set(space.neighbours(pending.pop())) - seen
        seen |= fresh
        pending += fresh
    return seen


def test_one_axis_has_all_channels() -> None:
    fabric: Any = SimpleNamespace(shared_channels=5)
    axes: Any = (SimpleNamespace(unit=lambda _: 1),)
    asked: list[object] = []
    best: Any = _Tabled(None, None, Divisions(fabric, axes), asked.append).best()  # type: ignore[arg-type]
    assert best == ("own", (5,)) and not asked


@given(st.integers(2, 9), st.integers(1, 4), st.integers(1, 60))
def test_stages_send_the_shorter_way_round_over_the_stages_between(ranks: int, apart: int, stages: int) -> None:
    channels = DividedChannels(
        None,  # type: ignore[arg-type]
        SimpleNamespace(  # type: ignore[arg-type]
            axes=[None, SimpleNamespace(stride=apart, ranks=ranks)],
            channels=[7, 3],
            number={"pipeline": 1}.get,
            fabric=SimpleNamespace(
                shift=lambda stride, own: SimpleNamespace(rate=1e9 * own, latency=1e-6 * stride),
            ),
        ),
    )
    hops = min(abs(stages + turns * ranks) for turns in range(-stages, 1))
    rate, latency = channels.shift(stages * apart)
    assert rate == pytest.approx(3e9 / max(hops, 1)) and latency == pytest.approx(1e-6 * apart * max(hops, 1))
    assert channels.shift(stages * apart) == (rate, latency)


def test_an_axis_has_its_part_of_the_fabric_and_prices_of_it_once() -> None:
    parts = {0: "part", 1: "stages", 2: None}
    division: Any = SimpleNamespace(
        fabric="whole", number={"tensor": 0, "pipeline": 1, "data": 2}.get, part=parts.__getitem__
    )
    prices: Any = SimpleNamespace(on=lambda fabric: [fabric])
    channels: Any = DividedChannels(prices, division)
    for axis, fabric in {"tensor": "part", "pipeline": "whole", "data": "whole", "expert": "whole"}.items():
        assert channels.fabric(axis) == fabric and channels.pricing(axis) == [fabric]
        assert channels.pricing(axis) is channels.pricing(axis)


def test_methods_in_a_schedule_send_no_more_than_their_share_and_others_may_send_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(divided_prices, "seconds_a_byte", lambda fabric, kind, ranks, stride: ranks + 10.0 * stride)
    methods = {1: (True, 0.25), 2: (False, 0.25)}
    prices: Any = SimpleNamespace(
        fabric=None,
        element_bytes={"all-reduce": 2},
        exchange=lambda number: SimpleNamespace(in_schedule=methods[number][0], least_share=lambda: methods[number][1]),
    )
    assert slope(prices, "all-reduce", 4, 1, 0) == 14 and slope(prices, "all-reduce", 4, 3, 0) == 34
    assert slope(prices, "all-gather", 4, 1, 1) == 14
    assert slope(prices, "all-reduce", 4, 1, 1) == 14 * 4 / 2 * 0.25
    assert slope(prices, "all-reduce", 4, 1, 2) == 0


def test_too_few_wavelengths_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"need \d+ wavelengths of every link; the fabric has 2"):
        on_divided_channels(job(16, RING | {"wavelengths": 2}), strategy(2, 4, 2))
