"""Latencies in bounds on graphs: links one way, relays that are nearer than direct routes, leaves with a narrow way
in."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import KINDS, OF_SIZE, Collective
from lightloom.collectives.registry import admitted, evaluate
from lightloom.machines.fabrics import graph as graph_module
from lightloom.machines.fabrics.graph import Edge, Graph, Vertex
from tests.collectives.optimum import BANDWIDTH, SLOT, held_against_the_optimum, problem
from tests.collectives.strategies import collective_of

SEEDS = st.integers(0, 2**32 - 1)
_RELAYED = ((0, 1, 1e-6), (1, 3, 1e-6), (0, 3, 1e-5), (1, 2, 2e-6), (0, 4, 3e-6))
"""Rank 3 is nearer to the root over rank 1 than over the link that joins them."""
_ONE_WAY = ((0, 1, 1e-6), (0, 2, 1e-6), (1, 0, 1e-5), (2, 0, 1e-5))
"""Away from the root signals take 1 µs, and towards it 10."""


def drawn_graph(seed: int, *, most_ranks: int = 4, rates: int = 3) -> Graph:
    """Ranks and switches with links of 0 to 3 slots of latency and so many rates, all one way or all both ways."""
    random = np.random.default_rng(seed)
    ranks, one_way = int(random.integers(2, most_ranks + 1)), bool(random.integers(2))
    names: list[int | str] = [*range(ranks), *(f"switch {i}" for i in range(random.integers(0, 3)))]
    order = random.permutation(len(names)).tolist()
    ends = list(pairwise([*order, order[0]] if one_way else order))
    ends += [tuple(random.choice(len(names), 2, replace=False).tolist()) for _ in range(random.integers(0, 7))]
    rate, lag = random.integers(1, rates + 1, len(ends)), random.integers(0, 4, len(ends))
    edges = tuple(
        Edge(names[a], names[b], BANDWIDTH * int(rate[i]), SLOT * int(lag[i])) for i, (a, b) in enumerate(ends)
    )
    return Graph(ranks=ranks, edges=edges, one_way=one_way)


def relayed(graph: Graph) -> dict[tuple[int, int], float]:
    """Seconds of the quickest of all chains of transfers from one rank to another, every chain tried."""
    seconds = {}
    for source, destination in permutations(range(graph.ranks), 2):
        between = [rank for rank in range(graph.ranks) if rank not in (source, destination)]
        chains = [
            [source, *chain, destination]
            for length in range(len(between) + 1)
            for chain in permutations(between, length)
        ]
        seconds[source, destination] = min(
            float(graph.latency(np.array(chain[:-1]), np.array(chain[1:]), np.zeros(len(chain) - 1, np.int64)).sum())
            for chain in chains
        )
    return seconds


def hears(kind: str, ranks: int) -> list[tuple[int, int]]:
    """Pairs of which the second must hear of the first."""
    pairs = list(permutations(range(ranks), 2))
    if kind in ("broadcast", "scatter"):
        return [(0, b) for a, b in pairs if a == 0]
    if kind in ("reduce", "gather"):
        return [(a, 0) for a, b in pairs if b == 0]
    return [(a, (a + 1) % ranks) for a in range(ranks)] if kind == "permute" else pairs


def check_distances(seed: int) -> None:
    """Without bytes no kind is bounded by more than the farthest pair needs, and those with a root by that."""
    graph = drawn_graph(seed, most_ranks=5)
    seconds = relayed(graph)
    for kind in OF_SIZE:
        farthest = max(seconds[pair] for pair in hears(kind, graph.ranks))
        bound = lower_bound(Collective(kind, graph.ranks, 0.0), graph).time
        assert bound <= farthest * (1 + 1e-9)
        if kind in ("broadcast", "scatter", "reduce", "gather"):
            assert bound == pytest.approx(farthest, rel=1e-9)


def check_optimum(seed: int) -> None:
    """No schedule of whole slots is faster than the bound, whatever it relays."""
    kind = OF_SIZE[seed % len(OF_SIZE)]
    held_against_the_optimum(problem(kind, drawn_graph(seed, most_ranks=3 if kind == "all-reduce" else 4)))


def check_prices(seed: int) -> None:
    """No schedule of any algorithm costs less than its bound, of little data as of much."""
    graph = drawn_graph(seed, most_ranks=6, rates=50)
    kind = KINDS[seed % len(KINDS)]
    wanted = collective_of(kind, graph.ranks, (1.0, 1e3, 1e6, 1e9)[seed // 16 % 4])
    for algorithm in admitted(kind, graph):
        evaluate(algorithm, wanted, graph)


@pytest.mark.parametrize(
    ("edges", "one_way", "expected"),
    [
        (_RELAYED, False, {"broadcast": 3e-6, "scatter": 3e-6, "reduce": 3e-6, "gather": 3e-6}),
        (_ONE_WAY, True, {"broadcast": 1e-6, "scatter": 1e-6, "reduce": 1e-5, "gather": 1e-5}),
    ],
    ids=["a relay is nearer", "one way"],
)
def test_roots_are_as_far_as_relays_and_directions_say(
    edges: tuple[tuple[int, int, float], ...],
    one_way: bool,
    expected: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On large graphs, whose pairs are not all looked at, too."""
    links = tuple(Edge(a, b, 5e10, seconds) for a, b, seconds in edges)
    graph = Graph(ranks=1 + max(b for _, b, _ in edges), edges=links, one_way=one_way)
    for most_exact in (512, 0):
        monkeypatch.setattr(graph_module, "_EXACT", most_exact)
        for kind, seconds in expected.items():
            bound = lower_bound(Collective(kind, graph.ranks, 0.0), graph)  # type: ignore[arg-type]
            assert bound.time == pytest.approx(seconds)


def test_what_leaves_a_group_does_not_need_the_narrow_way_in() -> None:
    """A switch lets out eight times what it takes in; a broadcast from one of its two ranks only leaves it."""
    out, into = 8e9, 1e9
    fast: list[tuple[Vertex, Vertex]] = [
        (0, "leaf"),
        (1, "leaf"),
        ("leaf", 0),
        ("leaf", 1),
        ("leaf", 2),
        (2, 3),
        (3, 2),
    ]
    edges = (*(Edge(a, b, out, 0.0) for a, b in fast), Edge(3, "leaf", into, 0.0))
    graph = Graph(ranks=4, edges=edges, one_way=True)
    for algorithm in admitted("broadcast", graph):
        evaluate(algorithm, Collective("broadcast", 4, 1e9), graph)


LAWS = (check_distances, check_optimum, check_prices)


@pytest.mark.parametrize("law", LAWS)
@given(seed=SEEDS)
@settings(max_examples=60)
def test_bounds_hold_on_any_graph(law: Any, seed: int) -> None:
    law(seed)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_bounds_hold_on_ten_thousand_graphs(law: Any) -> None:
    for seed in range(10_000):
        law(seed)
