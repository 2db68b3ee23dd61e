"""Chakra traces of training steps as models: what compute nodes and collectives say comes through, the rest is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom.collectives.files.chakra_nodes import (
    COLLECTIVE,
    COMPUTE,
    SEND,
    Node,
    encode,
)
from lightloom.core.errors import InputError
from lightloom.models.traces.chakra import exchanges_of, rank_file, read_chakra_workload, recording_of_chakra
from lightloom.models.traces.operators import TracedExchange

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


def test_one_layer_with_gradients_is_enough_for_parameters(tmp_path: Path) -> None:
    told = {}
    for name, nodes in (("some", [*step(2)[:4], collective(9, 40, [3])]), ("none", step(2)[:4])):
        told[name] = read_chakra_workload(written(tmp_path, nodes), batch=1).unrecorded
    assert any("as many float32 as its backward pass adds up" in line for line in told["some"])
    assert any("adds nothing up over ranks" in line for line in told["none"])


def test_steps_that_repeat_count_once(tmp_path: Path) -> None:
    """Where they hold a backward pass and no node is left over."""
    nodes = [replace(node, name=f"{node.name} {node.id}") for node in step(2)[:4]]
    again = [replace(node, id=node.id + 10, data=tuple(each + 10 for each in node.data)) for node in nodes]
    sums = [collective(30, 40, [3]), collective(31, 40, [13])]
    found = read_chakra_workload(written(tmp_path, [*nodes, *again, *sums]), batch=1)
    assert len(found.graph.operators) == 2 and found.graph.parameters == 10
    assert any(line == "1 further steps with the same nodes are left out" for line in found.unrecorded)
    whole = read_chakra_workload(written(tmp_path, [*nodes, *again[:3], sums[0]]), batch=1)
    assert len(whole.graph.operators) == 4 and not any("further steps" in line for line in whole.unrecorded)
    forward = [replace(nodes[0], id=number, data=()) for number in (1, 2, 3)]
    assert len(read_chakra_workload(written(tmp_path, forward), batch=1).graph.operators) == 3


def test_names_of_passes_tell_layers_apart_and_durations_stand_for_work(tmp_path: Path) -> None:
    names = ["a_FWD", "b_FWD", "b_BWD_IG", "b_BWD_WG", "a_BWD_WG"]
    nodes = [
        Node(id=number, name=name, type=COMPUTE, duration=10**number, data=(number - 1,) if number else ())
        for number, name in enumerate(names)
    ]
    found = read_chakra_workload(written(tmp_path, nodes), batch=1)
    assert found.graph.measured is not None
    assert found.graph.measured.forward == pytest.approx((1e-6, 10e-6))
    assert found.graph.measured.backward == pytest.approx((10e-3, 1.1e-3))
    assert not any("mirrored" in line for line in found.unrecorded)
    assert any(line.startswith("FLOPs: durations alone") for line in found.unrecorded)
    alone = read_chakra_workload(written(tmp_path, nodes[:2]), batch=1).graph.measured
    assert alone is not None and alone.backward == pytest.approx((2e-6, 20e-6))
    assert read_chakra_workload(written(tmp_path, step(1)), batch=1).graph.measured is None


def test_schedules_of_one_collective_are_no_training_step(tmp_path: Path) -> None:
    """More sends and receives than compute nodes, and no collective."""
    sends = [Node(id=10 + i, name="send", type=SEND + i % 2, attributes={"comm_size": 4}) for i in range(5)]
    with pytest.raises(InputError, match="5 sends and receives, 4 compute nodes and no collective: the schedule of"):
        read_chakra_workload(written(tmp_path, [*step(2)[:4], *sends]), batch=1)
    for nodes in ([*step(2)[:4], *sends[:4]], [*step(2), *sends]):
        found = read_chakra_workload(written(tmp_path, nodes), batch=1)
        assert [each.kind for each in found.exchanges].count("receive") == 2
    with pytest.raises(InputError, match="--step 0: steps are marked in traces of PyTorch alone"):
        read_chakra_workload(written(tmp_path, step(1)), batch=1, step=0)


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        ({"comm_type": 10, "comm_size": 4}, "comm_type is 10: expected 0 all-reduce, 1 reduce"),
        ({"comm_type": 0, "comm_size": -1}, "comm_size is -1: expected a count of bytes"),
        ({"comm_type": 0, "comm_size": 1 << 53}, "comm_size is 9007199254740992"),
        ({"comm_type": 0, "comm_size": True}, "comm_size is True"),
    ],
)
def test_collectives_that_cannot_be_are_refused(tmp_path: Path, attributes: dict[str, int], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        list(exchanges_of(Node(id=1, name="x", type=COLLECTIVE, attributes=attributes), tmp_path))


def test_exchanges_of_a_node_are_what_it_states(tmp_path: Path) -> None:
    def found(kind: int, name: str = "x", **attributes: object) -> list[TracedExchange]:
        node = Node(id=1, name=name, type=kind, duration=3, attributes=attributes)  # type: ignore[arg-type]
        return list(exchanges_of(node, tmp_path))

    assert found(COMPUTE) == found(COLLECTIVE) == []
    assert found(COLLECTIVE, comm_size=0) == [TracedExchange("unknown", 0, "", 3e-6)]
    assert found(COLLECTIVE, "all_to_all", comm_size=5) == [TracedExchange("all-to-all", 5, "", 3e-6)]
    assert found(COLLECTIVE, comm_type=9, pg_name="tp") == [TracedExchange("barrier", None, "tp", 3e-6)]
    assert found(SEND, comm_size=(1 << 53) - 1)[0].nbytes == (1 << 53) - 1
    assert found(SEND + 1) == [TracedExchange("receive", None, "", 3e-6)]


def call(number: int, name: str, control: Sequence[int] = (), **attributes: object) -> Node:
    said = {"is_cpu_op": True, "op_schema": "s", **attributes}
    return Node(id=number, name=name, type=COMPUTE, control=tuple(control), duration=number, attributes=said)  # type: ignore[arg-type]


def test_calls_that_lost_their_callers_are_put_below_those_that_have_one(tmp_path: Path) -> None:
    """Node 90 is a thread, which is not in the trace; where no call has a caller, all are roots."""
    nodes = [call(1, "aten::linear", [90]), call(2, "aten::addmm"), call(3, "aten::relu", [90])]
    roots = recording_of_chakra(nodes, tmp_path).roots
    assert [(each.id, [inner.id for inner in each.calls]) for each in roots] == [(1, [2]), (3, [])]
    alone = recording_of_chakra([call(1, "aten::linear"), call(2, "aten::addmm")], tmp_path).roots
    assert [each.id for each in alone] == [1, 2] and not any(each.calls for each in alone)


def test_calls_in_pieces_are_one_call_and_work_is_of_the_latest_call_before_it(tmp_path: Path) -> None:
    pieces = [
        call(2, "aten::conv2d(0)", rf_id=5),
        call(4, "aten::conv2d(1)", rf_id=5),
        call(5, "aten::conv2d(0)", rf_id=6),
    ]
    work = [
        Node(id=number, name="kernel", type=COMPUTE, data=data, duration=10, attributes={"is_cpu_op": False})
        for number, data in ((3, (2, 5)), (6, (2, 5)), (7, (1,)), (8, ()))
    ]
    found = recording_of_chakra([*pieces, *work], tmp_path)
    assert [(each.id, each.name) for each in found.roots] == [(2, "aten::conv2d"), (5, "aten::conv2d")]
    assert [each.own_seconds for each in found.roots] == pytest.approx([6e-6, 5e-6])
    assert [each.device_seconds for each in found.roots] == pytest.approx([10e-6, 10e-6])


def test_files_of_other_ranks_are_told_where_a_name_stands_for_all(tmp_path: Path) -> None:
    written(tmp_path, step(2))
    assert "no file of rank 1" in read_chakra_workload(tmp_path / "step.et", batch=1).unrecorded[0]
    slow = [replace(node, duration=7) for node in step(2)]
    written(tmp_path, slow, "step.1.et")
    told = read_chakra_workload(tmp_path / "step.et", batch=1).unrecorded[0]
    assert "files of 2 ranks that of rank 0" in told and "0 ns to 28" in told and "collectives are the same" in told
    written(tmp_path, [*step(2), collective(50, 8, [3])], "step.2.et")
    assert "the collectives of 1 ranks are others" in read_chakra_workload(tmp_path / "step.et", batch=1).unrecorded[0]
    assert rank_file(tmp_path / "a.et.gz", 3).name == "a.3.et.gz" and rank_file(tmp_path / "a.et", 0).name == "a.0.et"


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
