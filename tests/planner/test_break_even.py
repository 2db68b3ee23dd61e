"""When a method pays: at which speed of links, and over which set-ups."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import simulate
from lightloom.planning.search.break_even import Trial, break_even_bandwidth, set_ups
from tests.planner.gradients.exchanges import by_name, coded
from tests.planner.jobs import transformer


def trial(name: str, *bytes_and_coding: tuple[float, float]) -> Any:
    """Steps that send so many bytes and take so many seconds to code them, the first of them as they are."""
    return SimpleNamespace(
        graph=SimpleNamespace(name=name),
        exchanges=[SimpleNamespace(name=f"method {number}") for number in range(1, len(bytes_and_coding))],
        seconds=lambda on: [coding + sent * on.ranks / on.bandwidth for sent, coding in bytes_and_coding],
    )


def cluster(ranks: int, bandwidth: float) -> Any:
    return SimpleNamespace(ranks=ranks, bandwidth=bandwidth)


@given(st.floats(1e6, 1e12))
def test_a_method_pays_up_to_the_speed_at_which_it_saves_what_it_takes(even: float) -> None:
    """It spares 1 byte a rank, of 8 ranks, and takes as long as these do at that speed."""
    found = break_even_bandwidth(trial("model", (2.0, 0.0), (1.0, 8 / even)), 8, cluster, (1e7, 1e11))
    if even <= 1e7:
        assert found is None
    elif even > 1e11:
        assert found == 1e11
    else:
        assert found == pytest.approx(even, rel=1e-3)


def test_every_model_is_tried_on_all_ranks_at_all_speeds() -> None:
    trials = [trial("a", (2.0, 0.0), (1.0, 1.0)), trial("b", (3.0, 1.0), (2.0, 0.0), (1.0, 0.5))]
    told: list[int] = []
    found = set_ups(trials, (2, 4), (1.0, 8.0), cluster, lambda: told.append(0))
    assert [(each.model, each.ranks, each.bandwidth) for each in found] == [*product("ab", (2, 4), (1.0, 8.0))]
    assert len(told) == len(found)
    for each in found:
        plain, *others = trials["ab".index(each.model)].seconds(each)
        names = [f"method {number + 1}" for number in range(len(others))]
        assert (each.plain, each.methods) == (plain, tuple(zip(names, others, strict=True)))
        ratios = {name: plain / other for name, other in zip(names, others, strict=True)}
        assert {name: each.speedup(name) for name in names} == ratios
        assert each.best(names) == (max(ratios, key=lambda name: ratios[name]), max(ratios.values()))


def test_steps_are_those_of_the_simulator_and_refused_methods_are_named() -> None:
    """The simulator's pay for circuits that are not in place, of which packet switches have none."""
    on, exchanges = load_cluster("h100-512-two-tier", set={"ranks": 4}), (by_name("int4"), coded(3.0))
    tried = Trial(transformer(1), exchanges[:1], 2)
    prices = GroupPrices(on.fabric, on.training, exchanges=exchanges[:1])
    of = Job.of(tried.graph, on.accelerator, on.fabric, on.training, prices, exchanges=exchanges[:1])
    steps = [Strategy(4, 1, 1, 1, 8, "none", "none", AUTO, number) for number in range(2)]
    assert on.fabric.library
    assert tried.seconds(on) == pytest.approx([simulate(of, step).step_time for step in steps])
    with pytest.raises(UnsupportedError, match=f"^{re.escape(exchanges[1].name)} on 4 ranks: .* library has no codec"):
        replace(tried, exchanges=exchanges).seconds(on)
