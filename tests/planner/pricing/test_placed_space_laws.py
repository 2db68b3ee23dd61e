"""Columns of placed plans: what they hold is what they were made of, and how rows are divided."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.plan import RECOMPUTATIONS
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.placed_space import (
    PlacedChoice,
    PlacedRows,
    _power_of_two,
    blocks,
    shared_state_bytes,
    smaller,
    state_bytes,
)
from lightloom.planning.search.request import Pins

CHOICES = st.builds(
    PlacedChoice,
    k=st.integers(1, 4),
    l=st.integers(1, 4),
    quantum=st.sampled_from([1e-6, 1e-5]),
    global_batch=st.integers(1, 99),
    most_exchanging=st.integers(1, 3),
    ratio=st.sampled_from([1.0, 2.5]),
    micro_batches=st.integers(1, 4),
    recomputation=st.sampled_from(RECOMPUTATIONS),
)


@given(st.lists(CHOICES, max_size=4), st.randoms(use_true_random=False))
def test_columns_hold_the_choices_that_they_were_made_of(choices: list[PlacedChoice], random: Any) -> None:
    rows = PlacedRows.of(choices)
    assert [rows[row] for row in range(len(rows))] == choices
    assert rows.samples.tolist() == [choice.samples for choice in choices]
    assert all(choice.samples * choice.l * choice.micro_batches <= choice.global_batch for choice in choices)
    order = random.sample(range(len(choices)), len(choices))
    taken = rows.rows(np.array(order, np.int64))
    assert [taken[row] for row in range(len(taken))] == [choices[row] for row in order]


@pytest.mark.parametrize("count", [None, 1, 6])
@pytest.mark.parametrize("samples", [None, 1, 7])
@pytest.mark.parametrize("recomputation", [None, "none", "full"])
@pytest.mark.parametrize(("groups", "batch"), [(1, 1), (3, 42), (2, 192)])
def test_rows_are_divided_in_every_way_that_pins_allow(
    groups: int, batch: int, count: int | None, samples: int | None, recomputation: str | None
) -> None:
    """By powers of two up to 64 where nothing is pinned; the row itself is there only if something is."""
    row = PlacedChoice(2, groups, 1e-6, groups * batch, 1, 1.0)
    pins = dict(Pins(micro_batches=count, micro_batch=samples, recomputation=recomputation))
    found = smaller(PlacedRows.of([row]), pins)
    free = count is None and samples is None and recomputation is None
    wanted = {
        row._replace(micro_batches=parts, recomputation=kind)
        for parts in range(1, batch + 1)
        if batch % parts == 0
        and count in (None, parts)
        and samples in (None, batch // parts)
        and (count is not None or samples is not None or parts in (1, 2, 4, 8, 16, 32, 64))
        for kind in ("none", "full")
        if recomputation in (None, kind)
    } - ({row} if free else set())
    made = [found[place] for place in range(len(found))]
    assert set(made) == wanted and len(made) == len(wanted)


@given(st.lists(st.integers(0, 1 << 40), max_size=5).map([0, 1, 2, 3].__add__))
def test_counts_are_rounded_down_to_powers_of_two(counts: list[int]) -> None:
    wanted = [1 << (count.bit_length() - 1) if count else 0 for count in counts]
    assert _power_of_two(np.array(counts, np.int64)).tolist() == wanted


@given(st.integers(0, 40), st.integers(1, 9))
def test_blocks_hold_every_row_once_in_order(count: int, size: int) -> None:
    made = blocks(count, size)
    assert [row for block in made for row in block.tolist()] == list(range(count))
    assert all(len(block) == size for block in made[:-1]) and all(1 <= len(block) <= size for block in made)


@given(*[st.integers(1, 9)] * 2, st.integers(1, 5))
def test_state_that_is_divided_is_held_once_altogether(gradient: int, optimizer: int, groups: int) -> None:
    same = TrainingSettings(gradient_bytes=gradient, optimizer_state_bytes=optimizer)
    copy, owned = shared_state_bytes(same, groups)
    assert owned * groups == pytest.approx(state_bytes(same) - gradient)
    assert copy == same.sharded_parameter_bytes + gradient


def test_groups_are_of_neighbours_unless_a_stride_is_given() -> None:
    on = load_cluster("terarack-64", set={"ranks": 8})
    prices: Any = GroupPrices(on.fabric, on.training)
    assert prices.price("ring", 2, 0) is prices.price("ring", 2, 0, 1) is not prices.price("ring", 2, 0, 2)
    asked: list[int] = []

    def part(ranks: int, stride: int) -> None:
        asked.append(stride)

    def candidates(algorithm: str, ranks: int, exchange: int, stride: int, kind: str) -> tuple[()]:
        asked.append(stride)
        return ()

    def price(algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Any:
        asked.append(stride)
        return lambda kind, nbytes: SimpleNamespace(algorithm=algorithm)

    prices._part, prices._candidates, prices.price = part, candidates, price
    for given_stride, apart in (((), ""), ((1,), ""), ((3,), " that lie 3 apart")):
        assert prices.refusal("all-gather", "ring", 2, 0, *given_stride) == f"the fabric has no part of 2 ranks{apart}"
        assert prices.price("ring", 2, 0, *given_stride)("all-gather", 1e6).algorithm == "ring"
        assert prices.lines("all-gather", "ring", 2, 0, *given_stride, hidden_setup=False) == []
        assert asked == [*(given_stride or (1,))] * 3
        asked.clear()
