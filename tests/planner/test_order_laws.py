"""The order of plans where computation hides all communication: the network that is busy for less time comes first."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from lightloom.clusters.load import load_cluster
from lightloom.planner.search.ranked import search
from tests.planner.test_search import graph


def test_equal_steps_are_ranked_by_the_time_that_the_network_is_busy() -> None:
    layers = [replace(layer, forward_flops=10**12, backward_flops=2 * 10**12) for layer in graph(1_000_000).operators]
    layers[0] = replace(layers[0], parameters=0, parameter_bytes=0)
    hidden = replace(graph(), operators=tuple(layers))
    ranking = search(hidden, load_cluster("terarack-64", {"ranks": 16}), strategies=("ddp",)).ranking
    busy = [plan.result.communication_time for plan in ranking]
    assert len({plan.result.step_time for plan in ranking}) == 1
    assert busy == sorted(busy) and len(set(busy)) > 5
    names = [plan.algorithm.name for plan in ranking]
    assert names != sorted(names), "names alone would give the same order, and the test would show nothing"
    for plan, after in pairwise(ranking):
        if plan.result.communication_time == after.result.communication_time:
            assert plan.algorithm.name < after.algorithm.name
