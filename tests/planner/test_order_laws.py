"""Orders of plans, and of what they exchange."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.pricing.strategy_step import ExchangeUse, largest_uses
from lightloom.planning.search.plans import order, pareto_front
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search
from tests.planner.test_search import graph


def test_equal_steps_are_ranked_by_the_time_that_the_network_is_busy() -> None:
    """Where computation hides all communication, the network that is busy for less time comes first."""
    layers = [replace(layer, forward_flops=10**12, backward_flops=2 * 10**12) for layer in graph(1_000_000).operators]
    layers[0] = replace(layers[0], parameters=0, parameter_bytes=0)
    hidden = replace(graph(), operators=tuple(layers))
    request = SearchRequest(strategies=("ddp",), global_batches=(512,), pins=Pins(recomputation="none"))
    ranking = search(hidden, load_cluster("terarack-64", set={"ranks": 16}), request).ranking
    busy = [plan.communication_time or 0.0 for plan in ranking]
    assert len({plan.step_time for plan in ranking}) == 1
    assert busy == sorted(busy) and len(set(busy)) > 5
    names = [plan.algorithm for plan in ranking]
    assert names != sorted(names), "names alone would give the same order, and the test would show nothing"
    for plan, after in pairwise(ranking):
        if plan.communication_time == after.communication_time:
            assert plan.algorithm < after.algorithm


WHOLE = Strategy(8, 1, 1, 1, 8, "none", "none", "ring", 0)
PLACED = PlacedChoice(2, 4, 1e-6, 8, 0, 1.0)
CRITERIA: list[tuple[str, list[Any]]] = [
    ("fits", [None, False]),
    ("fits", [True, False]),
    ("runnable", [True, False]),
    ("sample_time", [1.0, 2.0]),
    ("communication_time", [None, 0.5, 1.0]),
    ("choice", [PLACED, PLACED._replace(recomputation="full")]),
    ("choice", [WHOLE, WHOLE._replace(recomputation="selective")]),
    ("algorithm", ["ring", "tree"]),
    ("strategy", ["ddp", "fsdp"]),
    ("gradient_exchange", [None, "int8"]),
    ("label", ["a", "b"]),
]
"""Fields of plans in the order in which they count, and what comes first of each."""


def made(**fields: object) -> Any:
    """A plan of which only these fields are asked for."""
    return SimpleNamespace(**fields)


@pytest.mark.parametrize("place", range(len(CRITERIA)))
def test_what_counts_more_decides_whatever_counts_less(place: int) -> None:
    name, values = CRITERIA[place]
    after = [each for each in CRITERIA[place + 1 :] if each[0] != name]
    before = {other: options[0] for other, options in CRITERIA if other not in (name, *(each for each, _ in after))}
    best, worst = ({other: options[end] for other, options in after} for end in (0, -1))
    for value, later in pairwise(values):
        first, second = (made(**before, **{name: each}, **rest) for each, rest in ((value, worst), (later, best)))
        assert order(first) < order(second)
    if name == "communication_time":
        silent, unknown = (made(**before, communication_time=each, **best) for each in (0.0, None))
        assert order(silent) == order(unknown)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=9))
def test_the_front_has_one_of_each_kind_that_nothing_beats(costs: list[tuple[int, int]]) -> None:
    plans: list[Any] = [made(sample_time=time, energy_per_sample=joules) for time, joules in costs]
    front = pareto_front(plans)
    best = {
        (time, joules)
        for time, joules in costs
        if not any(a <= time and b <= joules and (a, b) != (time, joules) for a, b in costs)
    }
    assert [(plan.sample_time, plan.energy_per_sample) for plan in front] == sorted(best)
    for plan in front:
        time, joules = plan.sample_time, plan.energy_per_sample
        assert plan is plans[costs.index((int(time), int(joules)))]


@given(
    st.lists(
        st.builds(
            ExchangeUse,
            st.sampled_from(["all-gather", "all-reduce"]),
            st.integers(2, 3),
            st.integers(1, 2),
            st.integers(1, 4).map(float),
            st.sampled_from(["ring", "tree"]),
        ),
        max_size=9,
    )
)
def test_the_largest_use_of_each_group_is_listed_the_largest_first(uses: list[ExchangeUse]) -> None:
    groups = {(use.kind, use.ranks, use.stride, use.algorithm) for use in uses}
    largest = [
        max((use for use in uses if (use.kind, use.ranks, use.stride, use.algorithm) == group), key=lambda u: u.nbytes)
        for group in groups
    ]
    assert list(largest_uses(uses)) == sorted(sorted(largest), key=lambda use: use.nbytes, reverse=True)
