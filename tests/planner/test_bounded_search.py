"""Pruning loses nothing: the winner is that of simulating everything."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from lightloom.core.errors import UnsupportedError
from lightloom.planner.bounded_search import bounded_search
from lightloom.planner.group_prices import GroupPrices
from lightloom.planner.stage_times import Job
from tests.planner.jobs import cluster, job, mixture, space, transformer
from tests.simulation.prices import linear

CASES = [
    *product((1, 3, 4), (4, 8), (1e8, 1e10, 1e12)),
    (2, 6, 1e9), (6, 12, 1e9),
]  # fmt: skip


@pytest.mark.parametrize(("blocks", "ranks", "bandwidth"), CASES)
def test_the_winner_is_that_of_a_search_without_pruning(blocks: int, ranks: int, bandwidth: float) -> None:
    of = job(blocks, ranks, linear(bandwidth, 1e-6, setup=25e-6), hidden=1024)
    rows = space(of, batches=(ranks, 4 * ranks))
    pruned, whole = bounded_search(of, rows), bounded_search(of, rows, prune=False)
    assert pruned.winner.sample_time == whole.winner.sample_time
    assert len(whole.ranking) == whole.bounded >= len(pruned.ranking)
    assert all(each.bound <= each.step_time for each in whole.ranking)


def test_there_are_twenty_cases() -> None:
    assert len(set(CASES)) == 20


@pytest.mark.parametrize(("blocks", "bandwidth"), [*product((1, 3), (1e8, 1e10, 1e12))])
def test_the_winner_of_a_mixture_is_that_of_a_search_without_pruning(blocks: int, bandwidth: float) -> None:
    of = job(blocks, 8, linear(bandwidth, 1e-6, setup=25e-6), hidden=256, model=mixture)
    rows = space(of, batches=(32,))
    pruned, whole = bounded_search(of, rows), bounded_search(of, rows, prune=False)
    assert pruned.winner.sample_time == whole.winner.sample_time
    assert any(each.strategy.ep > 1 for each in whole.ranking)


def test_groups_get_verified_schedules_or_are_refused() -> None:
    on = cluster(12)
    of = Job(transformer(3), on.accelerator, on.fabric, on.training, GroupPrices(on.fabric, on.training))
    rows = space(of, (24,), ("neighbour-exchange", "wrht-striped"))
    found = bounded_search(of, rows, prune=False)
    # WRHT only all-reduces, neighbour exchange needs an even group.
    for each in found.ranking:
        if each.strategy.algorithm == "wrht-striped":
            assert each.strategy.sharding == "ddp" or each.strategy.dp == 1
        else:
            assert each.strategy.dp % 2 == 0 or each.strategy.dp == 1
    assert found.refused and found.refused + found.bounded == found.rows


def test_a_model_too_large_is_refused_with_what_would_be_enough() -> None:
    of = job(4)
    small = replace(of, accelerator=of.accelerator.model_copy(update={"memory": 1e4}))
    with pytest.raises(UnsupportedError, match=r"memory is 1e[+]04 bytes, but the smallest strategy needs"):
        bounded_search(small, space(of))


def test_a_batch_that_divides_among_no_replicas_is_refused() -> None:
    of = job(1, ranks=6)
    with pytest.raises(UnsupportedError, match="no global batch divides evenly"):
        bounded_search(of, space(of, batches=(1,)))
