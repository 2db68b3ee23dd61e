"""The order of plans where computation hides all communication: the network that is busy for less time comes first."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from lightloom.clusters.load import load_cluster
from lightloom.planner.search.request import Pins, SearchRequest
from lightloom.planner.search.search import search
from tests.planner.test_search import graph


def test_equal_steps_are_ranked_by_the_time_that_the_network_is_busy() -> None:
    layers = [replace(layer, forward_flops=10**12, backward_flops=2 * 10**12) for layer in graph(1_000_000).operators]
    layers[0] = replace(layers[0], parameters=0, parameter_bytes=0)
    hidden = replace(graph(), operators=tuple(layers))
    request = SearchRequest(strategies=("ddp",), global_batches=(512,), pins=Pins(recomputation="none"))
    ranking = search(hidden, load_cluster("terarack-64", {"ranks": 16}), request).ranking
    busy = [plan.communication_time or 0.0 for plan in ranking]
    assert len({plan.step_time for plan in ranking}) == 1
    assert busy == sorted(busy) and len(set(busy)) > 5
    names = [plan.algorithm for plan in ranking]
    assert names != sorted(names), "names alone would give the same order, and the test would show nothing"
    for plan, after in pairwise(ranking):
        if plan.communication_time == after.communication_time:
            assert plan.algorithm < after.algorithm
