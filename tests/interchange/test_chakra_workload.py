"""Chakra traces of training steps as models: what compute nodes and collectives say comes through, the rest is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom.collectives.files.chakra_nodes import (
    COLLECTIVE,
    COMPUTE,
    Node,
    encode,
)
from lightloom.core.errors import InputError
from lightloom.models.traces.chakra import read_chakra_workload

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = 0, 7, 2


def compute(number: int, name: str, flops: int, after: Sequence[int] = (), nbytes: int = 0) -> Node:
    attributes = {"is_cpu_op": False, "num_ops": flops, "tensor_size": nbytes}
    return Node(id=number, name=name, type=COMPUTE, data=tuple(after), attributes=attributes)


def collective(number: int, nbytes: int, after: Sequence[int], kind: int = ALL_REDUCE) -> Node:
    attributes = {"is_cpu_op": False, "comm_type": kind, "comm_size": nbytes}
    return Node(id=number, name=f"collective {number}", type=COLLECTIVE, data=tuple(after), attributes=attributes)


def step(layers: int) -> list[Node]:
    """Equal layers forward, backward with an all-reduce behind each."""
    forward = [compute(i, "aten::mm", 100, [i - 1] if i else [], 64) for i in range(layers)]
    backward = [compute(layers + i, "aten::mm backward", 200, [layers + i - 1]) for i in range(layers)]
    reduced = [collective(2 * layers + i, 4 * (i + 1), [layers + i]) for i in range(layers)]
    return [*forward, *backward, *reduced]


def written(folder: Path, nodes: Sequence[Node], name: str = "step.0.et") -> Path:
    path = folder / name
    path.write_bytes(encode(nodes, {}))
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(layers=st.integers(1, 12), shuffled=st.randoms(use_true_random=False))
def test_flops_and_gradients_come_to_the_layer_they_belong_to(tmp_path: Path, layers: int, shuffled: object) -> None:
    nodes = step(layers)
    shuffled.shuffle(nodes)  # type: ignore[attr-defined]
    found = read_chakra_workload(written(tmp_path, nodes), batch=8)
    graph, lost = found.graph, found.unrecorded
    assert [each.forward_flops for each in graph.operators] == [100] * layers
    assert [each.backward_flops for each in graph.operators] == [200] * layers
    # The last layer's backward pass comes first, and its gradients with it.
    assert [each.parameters for each in graph.operators] == list(range(layers, 0, -1))
    assert {each.forward_bytes for each in graph.operators} == {64} and graph.batch == 8
    assert {each.kind for each in graph.operators} == {"matmul"}
    assert any("mirrored" in each for each in lost)


def test_a_name_stands_for_rank_0_and_a_trace_without_backward_takes_twice_the_forward(tmp_path: Path) -> None:
    written(tmp_path, [compute(0, "op", 10), collective(1, 400, [0]), compute(2, "free", 0)])
    found = read_chakra_workload(tmp_path / "step.et", batch=1)
    (operator,) = found.graph.operators
    assert (operator.backward_flops, operator.parameters) == (20, 0)
    assert any("1 compute nodes without FLOPs" in each for each in found.unrecorded)


def test_what_only_the_backward_pass_adds_up_is_taken_for_parameters(tmp_path: Path) -> None:
    nodes = [*step(2), collective(90, 4000, [0]), collective(91, 4000, [3], ALL_GATHER)]
    graph = read_chakra_workload(written(tmp_path, nodes), batch=1).graph
    assert graph.parameters == 1 + 2
    nodes = [*step(2)[:4], collective(92, 4000, [3], REDUCE_SCATTER)]
    assert read_chakra_workload(written(tmp_path, nodes), batch=1).graph.parameters == 1000


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        ([collective(0, 4, [])], "no compute node"),
        ([compute(0, "op", -5)], r"node 0 \('op'\): num_ops is -5"),
        (
            [Node(id=7, name="odd", type=COMPUTE, attributes={"num_ops": "many"})],
            r"node 7 \('odd'\): num_ops is 'many'",
        ),
        ([compute(0, "op", 5, nbytes=-1)], r"node 0 \('op'\): tensor_size is -1"),
        ([compute(0, "op", 5, [3])], r"node 0 \('op'\): depends on node 3"),
    ],
)
def test_what_is_wrong_is_refused_with_its_node(tmp_path: Path, nodes: list[Node], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_chakra_workload(written(tmp_path, nodes), batch=1)


def test_no_damage_to_a_file_makes_anything_but_a_reading_or_a_complaint(tmp_path: Path) -> None:
    whole = encode(step(2), {})
    for at in range(0, len(whole), 3):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            path = tmp_path / "damaged.et"
            path.write_bytes(damaged)
            try:
                assert read_chakra_workload(path, batch=2).graph.operators
            except InputError as error:
                assert str(path) in str(error)
