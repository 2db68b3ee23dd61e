"""What a balanced graph conserves, and that every part is given all it reads."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.models.graph import (
    KINDS,
    ComputeGraph,
    Operator,
)
from lightloom.planning.parallelism.placement import place
from lightloom.planning.parallelism.placement.cuts import (
    SPLITS,
    Cut,
    Cuts,
    Layout,
    Need,
    PartitionRules,
    Split,
    axis_of,
    bounds,
    exchange,
    layout,
    need,
    region,
    split_size,
)
from lightloom.planning.parallelism.placement.place import Partitions, partition
from lightloom.planning.parallelism.placement.placement import BalancedGraph

LINEAR = {"sample": 8, "sequence": 6, "channel": 24, "in_channel": 24}


def network(*kinds: str, parameters: int = 1000, elements: int = 1152, **dimensions: int) -> ComputeGraph:
    """An input and operators one after another, sizes of a small transformer."""
    operators = [Operator(name="x", kind="input", dimensions={"sample": 8, "sequence": 6}, activation_bytes=4 * 48)]
    for kind in kinds:
        operators.append(
            Operator(
                name=f"{len(operators)}.{kind}",
                kind=kind,
                inputs=(operators[-1].name,),
                dimensions={**LINEAR, **dimensions} if kind in ("linear", "conv") else {**LINEAR, "in_channel": 1},
                forward_flops=1000,
                backward_flops=2000,
                parameters=parameters if kind in ("linear", "norm", "embedding") else 0,
                parameter_bytes=4 * parameters if kind in ("linear", "norm", "embedding") else 0,
                activation_bytes=4 * elements,
            )
        )
    return ComputeGraph(name="network", batch=8, operators=tuple(operators))


def seconds(graph: ComputeGraph) -> Any:
    return np.array(
        [(0.0, 0.0) if op.kind == "input" else (8e-6 + 1e-7 * i, 2e-5) for i, op in enumerate(graph.operators)]
    )


def sums(balanced: BalancedGraph, column: Any) -> Any:
    return np.add.reduceat(column, balanced.first[:-1])


networks = st.lists(
    st.sampled_from(["linear", "norm", "activation", "add", "dropout", "copy", "embedding", "softmax", "reduce"]),
    min_size=1,
    max_size=8,
).map(lambda kinds: network(*kinds))
rules = st.builds(PartitionRules, most_exchanging=st.sampled_from([None, 1, 2, 3]))


@given(graph=networks, k=st.integers(1, 17), quantum=st.sampled_from([0.0, 1e-6, 3e-6, 1.0]), rules=rules)
def test_time_and_parameters_are_shared_out_whole(
    graph: ComputeGraph, k: int, quantum: float, rules: PartitionRules
) -> None:
    balanced = partition(graph, seconds(graph), k, quantum, rules)
    operators = graph.operators[1:]
    assert balanced.operators == tuple(op.name for op in operators)
    assert np.allclose(sums(balanced, balanced.forward), seconds(graph)[1:, 0], rtol=1e-12)
    assert np.allclose(sums(balanced, balanced.backward), seconds(graph)[1:, 1], rtol=1e-12)
    assert sums(balanced, balanced.parameters).tolist() == [op.parameters for op in operators]
    parts = np.diff(balanced.first)
    assert parts.max() <= k
    assert np.all(parts <= np.maximum(1, seconds(graph)[1:, 0] / max(quantum, 1e-12) + 1e-6))
    least = np.array([op.parameters * rules.state_bytes + op.activation_bytes for op in operators])
    assert np.all(sums(balanced, balanced.memory) >= least * (1 - 1e-12))


@pytest.mark.parametrize(("kind", "split"), [(kind, split) for kind in SPLITS for split in SPLITS[kind]])
def test_a_split_has_as_many_parts_as_its_dimension_is_long(kind: str, split: Split) -> None:
    """None where an operator has no such dimension, or in groups, each of which reads channels of its own."""
    sizes = {split.dimension: 6}
    whole, grouped = (Operator(name="x", kind=kind, dimensions=sizes | {"groups": n}) for n in (1, 2))
    assert split_size(whole, split) == 6
    assert split_size(grouped, split) == (0 if split.dimension == "in_channel" else 6)
    assert split_size(Operator(name="x", kind=kind, dimensions={}), split) == 0


@given(graph=networks, k=st.integers(1, 17), rules=rules, groups=st.integers(1, 8))
def test_copies_that_share_state_hold_no_more(graph: ComputeGraph, k: int, rules: PartitionRules, groups: int) -> None:
    sharing = replace(rules, shared_state_bytes=(6.0, 12 / groups))
    whole, shared = (partition(graph, seconds(graph), k, 0.0, each) for each in (rules, sharing))
    assert (shared.memory <= whole.memory).all()
    least = min(rules.state_bytes, 6 + 12 / groups) * graph.parameters
    assert shared.memory.sum() >= least * (1 - 1e-12)


@given(graph=networks, k=st.integers(1, 17), rules=rules)
def test_every_part_receives_at_least_what_the_producers_hold_of_its_share(
    graph: ComputeGraph, k: int, rules: PartitionRules
) -> None:
    balanced = partition(graph, seconds(graph), k, 0.0, rules)
    reader = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
    assert np.all(balanced.parent < reader)
    received = np.bincount(reader, balanced.nbytes, balanced.size)
    outputs = {op.name: op.activation_bytes for op in graph.operators}
    by_name = {op.name: op for op in graph.operators}
    for o, name in enumerate(balanced.operators):
        expected = sum(outputs[source] for source in by_name[name].inputs if by_name[source].kind != "input")
        assert received[balanced.first[o] : balanced.first[o + 1]].sum() >= expected * (1 - 1e-12)


@example(kernel=7, stride=4, padding=0, size=22, parts=4)
@given(
    kernel=st.integers(1, 7),
    stride=st.integers(1, 4),
    padding=st.integers(0, 3),
    size=st.integers(4, 60),
    parts=st.integers(1, 9),
)
def test_halos_cover_the_receptive_field(kernel: int, stride: int, padding: int, size: int, parts: int) -> None:
    padding = min(padding, kernel // 2)
    output = (size + 2 * padding - kernel) // stride + 1
    if size + 2 * padding < kernel or not 1 <= parts <= output:
        return
    low, high = region(Need("halo", "height", parts, output, 1, kernel), size)
    edges = bounds(output, parts)
    for part, (begin, end) in enumerate(pairwise(edges.tolist())):
        for row in range(begin, end):
            rows = [r for r in range(row * stride - padding, row * stride - padding + kernel) if 0 <= r < size]
            assert all(low[part] <= r < high[part] for r in rows)


@given(
    kernel=st.integers(1, 7),
    stride=st.integers(2, 4),
    padding=st.integers(0, 3),
    size=st.integers(2, 40),
    data=st.data(),
)
def test_halos_cover_what_a_transposed_convolution_reads(
    kernel: int, stride: int, padding: int, size: int, data: st.DataObject
) -> None:
    padding = min(padding, kernel // 2)
    output = (size - 1) * stride + kernel - 2 * padding
    parts = data.draw(st.integers(1, min(output, 9)))
    low, high = region(Need("halo", "height", parts, output, 1, kernel), size)
    for part, (begin, end) in enumerate(pairwise(bounds(output, parts).tolist())):
        # Row i of the input adds to rows i · stride − padding + 0..kernel − 1 of the output.
        rows = [i for i in range(size) if begin - kernel < i * stride - padding < end]
        assert all(low[part] <= row < high[part] for row in rows)


def test_a_halo_of_a_plain_convolution_is_one_row_on_each_side() -> None:
    low, high = region(Need("halo", "height", 4, 56, 1, 3), 56)
    assert (low.tolist(), high.tolist()) == ([0, 13, 27, 41], [15, 29, 43, 56])


@given(made=st.integers(1, 12), wanted=st.integers(1, 12), size=st.integers(12, 40), partial=st.booleans())
def test_slices_are_covered_once_and_partial_sums_by_every_part(
    made: int, wanted: int, size: int, partial: bool
) -> None:
    for axis, reads in product(("channel", "sample"), ("own", "whole")):
        layout = Layout("" if partial else "channel", made, 1 if partial else size, 1, partial)
        sent = exchange(layout, Need(reads, axis, wanted, size, 1, 1), size)  # type: ignore[arg-type]
        share = np.diff(bounds(size, wanted)) / size if reads == "own" else np.ones(wanted)
        received = np.bincount(sent.destination, sent.fraction, wanted)
        assert np.allclose(received, share * (made if partial else 1), rtol=1e-12)
        assert len(set(zip(sent.source, sent.destination, strict=True))) == len(sent.source)


def test_the_table_covers_every_kind_and_prefers_what_exchanges_least() -> None:
    assert set(SPLITS) == set(KINDS)
    # Outputs have 1152 elements: small parameters are copied, large ones split.
    kinds = ("activation", "linear", "linear")
    few, many = (partition(g := network(*kinds, parameters=p), seconds(g), 8, 0.0) for p in (10, 1_000_000))
    assert few.dimensions == ("sample",) * 3
    assert few.synchronised.tolist() == [0.0] * 8 + ([0.0] + [40.0] * 7) * 2
    assert many.dimensions[0] == "sample"
    assert set(many.dimensions[1:]) <= {"channel", "in_channel"}
    assert not many.synchronised.any()


def test_parameters_are_copied_unless_they_are_cut_along_one_of_their_own_axes() -> None:
    """Weights have input and output channels, and the heads of a packed projection; nothing else is theirs."""
    for kind in ("conv", "linear", "experts", "batch_norm", "embedding", "recurrent", "norm"):
        for split in SPLITS[kind]:
            assert split.copied == (split.dimension not in ("channel", "in_channel")), (kind, split)
            assert split.partial == (split.dimension == "in_channel"), (kind, split)


def test_aligned_slices_stay_and_broadcasts_go_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network("linear", "activation", parameters=10)
    balanced = partition(graph, seconds(graph), 4, 0.0)
    assert balanced.parent.tolist() == [0, 1, 2, 3]
    graph = network("activation", "linear")
    columns = [split for split in SPLITS["linear"] if split.dimension == "channel"]
    monkeypatch.setattr(place, "SPLITS", {**SPLITS, "linear": tuple(columns)})
    balanced = partition(graph, seconds(graph), 4, 0.0)
    assert np.diff(balanced.parent_start)[4:].tolist() == [4, 4, 4, 4]
    assert len(set(balanced.content.tolist())) == 1


def test_equal_wishes_give_the_same_graph() -> None:
    graph = network("linear", "norm")
    partitions = Partitions(graph, seconds(graph))
    assert partitions(4, 0.0) is partitions(4, 1e-9)
    assert partitions(4, 0.0) is not partitions(2, 0.0)


def test_equal_cuts_under_different_limits_give_the_same_graph() -> None:
    graph = network("norm", "activation", "linear", parameters=1_000_000)
    partitions = Partitions(graph, seconds(graph))
    assert partitions(4, 0.0, 8) is partitions(4, 0.0)
    limited, rules = partitions(4, 0.0, 1), PartitionRules(most_exchanging=1)
    assert (partitions(4, 0.0).dimensions[2], limited.dimensions[2]) == ("channel", "sample")
    assert limited.memory.tolist() == partition(graph, seconds(graph), 4, 0.0, rules).memory.tolist()


@given(kinds=st.lists(st.sampled_from(["linear", "norm", "activation", "copy"]), min_size=1, max_size=4), rules=rules)
def test_equal_layers_are_cut_as_a_graph_without_equals_is(kinds: list[str], rules: PartitionRules) -> None:
    """Operators of one sort are computed once: naming each sort apart gives the same columns."""
    graph = network(*kinds, *kinds)
    apart = replace(
        graph,
        operators=tuple(
            replace(operator, dimensions={**operator.dimensions, f"axis_{index}": 1})
            for index, operator in enumerate(graph.operators)
        ),
    )
    same = np.tile([[1e-5, 2e-5]], (len(graph.operators), 1))
    for k, quantum in ((3, 0.0), (8, 2e-6)):
        one, other = (partition(each, same, k, quantum, rules) for each in (graph, apart))
        for column in ("first", "part", "forward", "backward", "parameters", "memory", "synchronised", "parent"):
            assert getattr(one, column).tolist() == getattr(other, column).tolist(), column
        assert (one.nbytes.tolist(), one.content.tolist()) == (other.nbytes.tolist(), other.content.tolist())


def test_numbers_out_of_range() -> None:
    graph = network("linear")
    with pytest.raises(ConfigError, match="expected at least 1 device"):
        partition(graph, seconds(graph), 0, 1e-6)
    with pytest.raises(ConfigError, match=r"expected seconds of at least 0 of shape \(2, 2\)"):
        partition(graph, np.zeros((3, 2)), 2, 1e-6)


def test_rows_have_equal_content_where_they_carry_the_same_elements() -> None:
    """Content is the axis with the first element and the one after the last, whatever is read and however."""
    produced = Layout("sample", 4, 8, 1, partial=False)
    elements: dict[int, tuple[str, int, int]] = {}
    for axis, parts, kernel, size in product(("sample", "channel", "height"), range(1, 5), (1, 3, 7), (8, 9, 24)):
        consumed = Need("halo" if kernel > 1 else "own", axis, parts, 8, 1, kernel)
        sent = exchange(produced, consumed, size)
        low, high = region(consumed, size)
        for content, to in zip(sent.content.tolist(), sent.destination.tolist(), strict=True):
            carried = axis, int(low[to]), int(high[to])
            assert elements.setdefault(content, carried) == carried
    assert len(set(elements.values())) == len(elements) > 40
    whole = (
        exchange(produced, Need("whole", "channel", 3, 8, 1, 1), 24),
        exchange(produced, Need("own", "width", 2, 8, 1, 1), 1),
    )
    assert len(set(np.concatenate([sent.content for sent in whole]).tolist()) - elements.keys()) == 1


@given(parts=st.integers(2, 5), split=st.sampled_from(SPLITS["add"][:2]))
def test_a_tensor_that_is_read_twice_is_sent_once(parts: int, split: Split) -> None:
    once, twice = (
        ComputeGraph(
            name="sum",
            batch=8,
            operators=(
                *network("linear").operators,
                replace(network("linear", "add").operators[2], inputs=("1.linear",) * times),
            ),
        )
        for times in (1, 2)
    )
    produced = next(way for way in SPLITS["linear"] if way.dimension == "sample")
    cuts = Cut(produced, 4), Cut(split, parts)
    one, both = (Cuts(graph, seconds(graph), PartitionRules()).balanced(cuts) for graph in (once, twice))
    assert both.parent_start.tolist() == one.parent_start.tolist()
    assert both.parent.tolist() == one.parent.tolist()
    assert both.nbytes.tolist() == one.nbytes.tolist()


def test_parts_hold_copies_of_parameters_unless_these_are_cut_and_partial_sums_where_inputs_are() -> None:
    """Of kinds with parameters: samples, positions and pixels share them, channels and heads each have their own."""
    for kind in ("conv", "linear", "experts", "batch_norm", "norm", "recurrent", "embedding"):
        for split in SPLITS[kind]:
            assert split.copied == (axis_of(split.dimension) != "channel"), (kind, split.dimension)
    for kind, splits in SPLITS.items():
        assert {split.dimension for split in splits if split.partial} <= {"in_channel"}, kind
        assert all(split.partial for split in splits if split.dimension == "in_channel"), kind


def test_one_part_is_the_whole_whatever_would_be_cut() -> None:
    operator = Operator(name="linear", kind="linear", dimensions=LINEAR)
    whole = layout(operator, None, 1)
    assert whole == Layout("", 1, 1, 1, False)
    for split in SPLITS["linear"]:
        assert layout(operator, split, 1) == whole != layout(operator, split, 2)
        assert need(operator, split, 1, 0) == need(operator, None, 1, 0) != need(operator, split, 2, 0)
    assert need(operator, None, 3, 0).reads == "whole"


def test_what_a_part_reads_is_listed_by_its_producers_in_their_order() -> None:
    """Whatever the order in which an operator names its inputs."""
    graph = network("linear", "linear", "linear")
    first, second, third = (each.name for each in graph.operators[1:])
    added = replace(network("add").operators[1], name="sum", inputs=(third, first, second))
    graph = replace(graph, operators=(*graph.operators, added))
    balanced = partition(graph, seconds(graph), 4, 0.0)
    read = np.split(balanced.parent, balanced.parent_start[1:-1])
    assert any(len(set(parents.tolist())) > 2 for parents in read)
    assert all((np.diff(parents) >= 0).all() for parents in read)
