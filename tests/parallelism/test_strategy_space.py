"""Every row is a strategy that can be set up, none is there twice, and Megatron's split exchanges what it says."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lightloom.planning.parallelism.strategy_space import Strategies, strategy_space
from lightloom.planning.parallelism.tensor_parallel import tensor_split
from tests.parallelism.strategies import chain
from tests.planner.jobs import HEADS, SEQUENCE, transformer


@given(st.integers(1, 48), st.integers(1, 16), st.integers(1, 6), st.lists(st.integers(1, 96), min_size=1, unique=True))
def test_rows_keep_every_rule_and_differ(ranks: int, degree: int, blocks: int, batches: list[int]) -> None:
    space = strategy_space(
        ranks,
        batches,
        tensor_degree=degree,
        blocks=blocks,
        algorithms=("ring", "optree"),
        exchanges=(0, 1),
        sequence_degree=6,
        expert_degree=4,
    )
    rows = [space[index] for index in range(len(space))]
    different = set(rows)
    assert len(different) == len(rows)
    assert all(Strategies.of(row)[0] == row for row in rows[:: 1 + len(rows) // 20])
    for row in rows:
        assert row.dp * row.tp * row.pp == ranks
        assert degree % row.tp == 0 and row.pp * row.virtual_stages <= blocks
        assert row.virtual_stages == 1 or (row.pp > 1 and row.micro_batches % row.pp == 0)
        assert row.samples * row.dp * row.micro_batches == row.global_batch in batches
        assert 4 % row.ep == 0 and row.dp % row.ep == 0
        other = row._replace(sequence_parallel=not row.sequence_parallel)
        assert (other in different) == (row.tp > 1 and 6 % row.tp == 0)
    whole = {(row.dp, row.tp, row.pp) for row in rows if row.micro_batches == 1}
    for tp, pp in {(tp, pp) for tp in range(1, degree + 1) for pp in range(1, blocks + 1) if degree % tp == 0}:
        dp, rest = divmod(ranks, tp * pp)
        possible = rest == 0 and any(batch % dp == 0 for batch in batches)
        assert ((dp, tp, pp) in whole) == possible


def test_a_block_exchanges_twice_in_each_direction() -> None:
    graph = transformer(3)
    split = tensor_split(graph)
    names = [each.name for each in graph.operators]
    forward = [name for name, here in zip(names, split.forward, strict=True) if here]
    backward = [name for name, here in zip(names, split.backward, strict=True) if here]
    assert forward == ["tokens", *(f"layers.{i}.{each}" for i in range(3) for each in ("out", "down"))]
    assert backward == [*(f"layers.{i}.{each}" for i in range(3) for each in ("qkv", "up")), "head"]
    whole = {name for name, divided in zip(names, split.divided, strict=True) if not divided}
    assert whole == {f"layers.{i}.{each}" for i in range(3) for each in ("add", "add2")}
    assert split.degree == HEADS


def test_slices_of_the_sequence_are_what_is_whole_otherwise() -> None:
    graph = transformer(2)
    split = tensor_split(graph)
    assert (split.sequenced ^ split.sliced).all() and split.sequence_degree == SEQUENCE
    mixed = replace(
        graph,
        operators=tuple(
            replace(each, kind="matmul") if each.name == "layers.1.add" else each for each in graph.operators
        ),
    )
    assert tensor_split(mixed).sequence_degree == 1
    assert tensor_split(chain([(10, 10, 10)] * 4)).sequence_degree == 1


def test_a_model_without_attention_is_not_split() -> None:
    assert tensor_split(chain([(10, 10, 10)] * 4)).degree == 1


def test_micro_batches_of_a_given_size_may_leave_a_rest() -> None:
    space = strategy_space(4, [40], tensor_degree=1, blocks=2, algorithms=("ring",), micro_batch=3)
    rows = [space[index] for index in range(len(space))]
    assert {(row.dp, row.pp, row.micro_batches, row.samples, row.last_samples) for row in rows} == {
        (4, 1, 4, 3, 1),
        (2, 2, 7, 3, 2),
    }
    assert all(row.virtual_stages == 1 and row.micro_batch == 3 for row in rows)
