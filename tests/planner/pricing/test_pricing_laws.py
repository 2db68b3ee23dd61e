"""What all prices of groups have in common, and what coding, counting and choosing add up to."""

from __future__ import annotations

import inspect
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.load import load_fabric
from lightloom.planning.gradients import LINE_RATE
from lightloom.planning.pricing.group_prices import GroupPrices, Pricing, _ScaledPrices
from lightloom.planning.pricing.library_prices import LibraryPricing
from lightloom.planning.search import search as search_module
from lightloom.planning.search.plans import Counts
from lightloom.planning.simulation.engine import Price
from lightloom.planning.traffic import together
from lightloom.planning.traffic.jobs import DATA, PASSES, SlowedPrices
from tests.planner.gradients.exchanges import by_name
from tests.simulation.prices import linear


@pytest.mark.parametrize("made", [GroupPrices, _ScaledPrices, LibraryPricing, SlowedPrices])
def test_all_prices_are_asked_alike_and_neighbours_unless_told_otherwise(made: type) -> None:
    for name in ("refusal", "price"):
        asked, told = (inspect.signature(getattr(owner, name)).parameters for owner in (made, Pricing))
        assert [(each.name, each.default) for each in asked.values()] == [
            (each.name, each.default) for each in told.values()
        ]
        assert told["stride"].default == 1


class _Noting:
    """Notes what it is asked; prices are those of ``linear``."""

    def __init__(self, channels: int = 1, refused: str | None = None) -> None:
        self.fabric = SimpleNamespace(usable_channels=channels)
        self.asked: list[tuple[Any, ...]] = []
        self._refused = refused

    def refusal(self, *asked: Any) -> str | None:
        self.asked.append(("refusal", *asked))
        return self._refused

    def price(self, *asked: Any) -> Price:
        self.asked.append(("price", *asked))
        return linear(1e9, latency=1e-3, setup=5e-3)


STRATEGY: Any = SimpleNamespace(tp=4)
SLOWER = {PASSES: 2.0, DATA: 3.0}
QUESTIONS: list[tuple[str, tuple[Any, ...]]] = [
    ("refusal", ("all-reduce", "ring", 4, 2)),
    ("price", ("ring", 4, 2)),
]


@pytest.mark.parametrize("stride", [(), (1,), (5,)])
@pytest.mark.parametrize(("question", "about"), QUESTIONS)
def test_prices_made_of_others_ask_them_what_they_are_asked_of_neighbours_unless_told_otherwise(
    question: str, about: tuple[Any, ...], stride: tuple[int, ...]
) -> None:
    whole: Any = _Noting(4)
    part: Any = _Noting(1)
    alone: Any = _Noting()
    for made, inner in (
        (_ScaledPrices(whole, part), part if question == "refusal" else whole),
        (SlowedPrices(alone, STRATEGY, SLOWER), alone),
    ):
        getattr(made, question)(*about, *stride)
        assert inner.asked == [(question, *about, *(stride or (1,)))]
        inner.asked.clear()
    assert not part.asked and not whole.asked


@pytest.mark.parametrize(("everything", "own"), [(8, 8), (8, 2), (12, 5)])
def test_bytes_alone_take_longer_by_as_much_as_an_axis_has_fewer_channels(everything: int, own: int) -> None:
    whole: Any = _Noting(everything)
    part: Any = _Noting(own)
    for nbytes in (0.0, 1e6, 5e8):
        found = _ScaledPrices(whole, part).price("ring", 4, 0)("all-reduce", nbytes).cost
        assert found.time == pytest.approx(1e-3 + 5e-3 + nbytes / 1e9 * everything / own)
    assert set(part.asked) == {("refusal", "all-reduce", "ring", 4, 0, 1)}
    refused: Any = _Noting(own, "no such ring")
    with pytest.raises(UnsupportedError, match="no such ring"):
        _ScaledPrices(whole, refused).price("ring", 4, 0)("all-reduce", 1.0)


@pytest.mark.parametrize(("kind", "ranks", "stride"), [*product(["all-reduce", "all-to-all"], [2, 4], [1, 3])])
def test_other_jobs_slow_down_all_of_a_price_by_its_sort(kind: Any, ranks: int, stride: int) -> None:
    alone: Any = _Noting()
    found = SlowedPrices(alone, STRATEGY, SLOWER).price("ring", ranks, 0, stride)(kind, 1e6).cost.time
    longer = 2.0 if kind == "all-to-all" or (ranks, stride) == (4, 1) else 3.0
    assert found == pytest.approx(longer * (1e-3 + 5e-3 + 1e-3))
    unhurt = SlowedPrices(alone, STRATEGY, {}).price("ring", ranks, 0, stride)(kind, 1e6).cost.time
    assert unhurt == pytest.approx(1e-3 + 5e-3 + 1e-3)


@pytest.mark.parametrize("method", ["int4", "topk:share=0.01", "powersgd:rank=4"])
def test_messages_are_paid_for_beside_bytes(method: str) -> None:
    """Each that is encoded, each call and each that is decoded."""
    at, message = (by_name(method, rate=1e9, message=seconds) for seconds in (0.0, 1e-3))
    values = float(at.gradient.values)
    work = at.method.work(at.gradient, 4)
    free, paid = (each.coding("all-reduce", values, 4) for each in (at, message))
    engine = message.coder
    assert paid[0] - free[0] == pytest.approx((work.encoded_messages + work.calls) * engine.encode_message)
    assert paid[1] - free[1] == pytest.approx(work.decoded_messages * engine.decode_message)
    assert engine.encode_message > 0 and free[0] >= 4 * work.encoded_values / 1e9 > 0


def test_engines_of_a_port_take_256_bits_at_100_mhz() -> None:
    assert LINE_RATE * 8 == 256 * 100e6


def test_nothing_is_counted_before_it_happens() -> None:
    some = Counts(**{name: number for number, name in enumerate(Counts.__dataclass_fields__, start=1)})
    assert Counts() + some == some and not any(getattr(Counts(), name) for name in Counts.__dataclass_fields__)


@given(st.lists(st.integers(1, 9), max_size=9, unique=True).map(sorted), st.integers(0, 9), st.integers(1, 10))
def test_the_latency_at_which_the_winner_changes_is_the_first_of_all(tried: list[int], own: int, change: int) -> None:
    """As found by trying all of them."""
    ranked: Any = SimpleNamespace(
        winner=SimpleNamespace(cluster=SimpleNamespace(fabric=SimpleNamespace(hop_latency=own)))
    )
    first = next((each for each in tried if each > own and each >= change), None)
    for slower in (None, 2.0):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(search_module, "_winner_at", lambda _, at, s=slower: ("winner", s if at >= change else 1.0))
            found = search_module.latency_sensitivity(ranked, tried)
        assert (found.own, found.latency, found.slower) == (own, first, None if first is None else slower)


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("abcd")), min_size=1, max_size=5, unique=True))
def test_a_collective_of_a_job_takes_the_fastest_algorithm_the_first_of_equal_ones(
    candidates: list[tuple[int, str]],
) -> None:
    evaluations = [
        SimpleNamespace(
            cost=SimpleNamespace(repeated_time=seconds), algorithm=SimpleNamespace(name=name), schedule=(seconds, name)
        )
        for seconds, name in candidates
    ]
    request: Any = SimpleNamespace(job=SimpleNamespace(what="all-reduce"), nbytes=1e6, algorithm=None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(together, "evaluate_all", lambda *_, **__: (evaluations, []))
        work = together._collective(request, load_fabric("terarack", 4), 2)
    assert (work.seconds, work.label) == min(candidates)
    assert work.slowed({"data": 3.0}) == 3 * work.seconds and work.slowed({}) == work.seconds
    assert [getattr(part, "schedule", None) for part in work.parts] == [min(candidates)]
