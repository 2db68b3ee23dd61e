"""Laws of the graph: round trips, linearity in the batch, and that nothing invalid can be made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.app.api.planning import trace
from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.models.graph import ComputeGraph, Operator, has_samples

from .strategies import graphs


@given(graphs())
def test_json_round_trip(graph: ComputeGraph) -> None:
    assert ComputeGraph.from_json(json.loads(json.dumps(graph.to_json()))) == graph


@given(graphs(), st.integers(1, 50))
def test_batch_round_trip(graph: ComputeGraph, batch: int) -> None:
    assert graph.with_batch(batch).with_batch(graph.batch) == graph


@given(graphs(), st.integers(1, 20))
def test_samples_scale_linearly_and_the_rest_stays(graph: ComputeGraph, factor: int) -> None:
    larger = graph.with_batch(factor * graph.batch)
    assert (larger.parameters, larger.parameter_bytes) == (graph.parameters, graph.parameter_bytes)
    for before, after in zip(graph.operators, larger.operators, strict=True):
        if "sample" not in before.dimensions:
            assert after == before
            continue
        assert after.forward_flops == factor * before.forward_flops
        assert after.backward_flops == factor * before.backward_flops
        assert after.activation_bytes == factor * before.activation_bytes
        assert after.forward_bytes - after.shared_bytes == factor * (before.forward_bytes - before.shared_bytes)
        assert after.shared_bytes == before.shared_bytes


@given(graphs(), st.integers(1, 16))
def test_precision_scales_bytes_only(graph: ComputeGraph, element_bytes: int) -> None:
    other = graph.with_element_bytes(element_bytes)
    assert other.with_element_bytes(graph.element_bytes) == graph
    assert other.activation_bytes * graph.element_bytes == graph.activation_bytes * element_bytes
    assert other.parameter_bytes * graph.element_bytes == graph.parameter_bytes * element_bytes
    assert (other.forward_flops, other.parameters) == (graph.forward_flops, graph.parameters)


@given(graphs())
def test_consumers_invert_inputs(graph: ComputeGraph) -> None:
    edges = {(source, op.name) for op in graph.operators for source in op.inputs}
    assert {(name, reader) for name, readers in graph.consumers().items() for reader in readers} == edges
    assert all(graph.operator(op.name) is op for op in graph.operators)


A = Operator(name="a", kind="input", dimensions={"sample": 2}, activation_bytes=8)
B = Operator(name="b", kind="activation", inputs=("a",), dimensions={"sample": 2})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"operators": ()}, "has no operators"),
        ({"operators": (A, A)}, "occurs twice"),
        ({"operators": (B, A)}, "'b' reads 'a', no earlier operator"),
        ({"operators": (B,)}, "no earlier operator"),
        ({"batch": 3}, "has 2 samples, expected the batch, 3"),
        ({"batch": 0}, "batch is 0"),
        ({"batch": True}, "batch is True"),
        ({"element_bytes": 0}, "element_bytes is 0"),
    ],
)
def test_invalid_graphs_are_refused(change: dict[str, Any], words: str) -> None:
    graph = ComputeGraph(name="g", batch=2, operators=(A, B))
    with pytest.raises(WorkloadError, match=words):
        replace(graph, **change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "needs a name"),
        ({"kind": "magic"}, "'magic' is none of"),
        ({"forward_flops": -1}, "forward_flops is -1"),
        ({"activation_bytes": 1.5}, "activation_bytes is 1.5"),
        ({"dimensions": {"channel": 0}}, "dimension channel is 0"),
        ({"shared_bytes": 9}, "exceed forward_bytes"),
    ],
)
def test_invalid_operators_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        replace(A, **change)


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        {"schema": "other"},
        {"schema": "lightloom.graph/1"},
        {"schema": "lightloom.graph/1", "name": "g", "batch": 1, "operators": [{"name": "a"}]},
        {"schema": "lightloom.graph/1", "name": "g", "batch": 1, "operators": ["a"]},
        {"schema": "lightloom.graph/1", "name": "g", "batch": 1, "operators": [], "more": 1},
    ],
)
def test_other_documents_are_refused(document: Any) -> None:
    with pytest.raises(WorkloadError):
        ComputeGraph.from_json(document)


@given(graphs())
def test_rows_are_the_counts_of_operators_and_add_up(graph: ComputeGraph) -> None:
    rows = graph.rows()
    assert [row["name"] for row in rows] == [operator.name for operator in graph.operators]
    for count in ("forward_flops", "backward_flops", "activation_bytes"):
        assert sum(row[count] for row in rows) == getattr(graph, count)
    by_region: dict[str, int] = {}
    for operator in graph.operators:
        by_region[operator.checkpoint] = by_region.get(operator.checkpoint, 0) + operator.recomputed_bytes
    assert graph.recomputed_bytes == max(by_region.values())
    assert graph.saved_bytes == graph.recomputed_bytes + sum(operator.kept_bytes for operator in graph.operators)


def test_graphs_are_kept_as_json_alone(tmp_path: Path) -> None:
    graph = ComputeGraph(name="g", batch=2, operators=(A, B), uncounted=("one", "two"))
    path = graph.save(tmp_path / "g.json")
    assert path.read_text().endswith("}\n") and ComputeGraph.from_json(json.loads(path.read_text())) == graph
    with pytest.raises(ConfigError, match=r"expected a path that ends in \.json"):
        graph.save(tmp_path / "g.yaml")
    assert not (tmp_path / "g.yaml").exists()


@pytest.mark.parametrize("batch", [0, -1, 2.0, True, None])
def test_a_graph_has_a_whole_number_of_samples(batch: Any) -> None:
    with pytest.raises(WorkloadError, match=f"'g': batch is {batch}, expected a whole number of at least 1"):
        ComputeGraph(name="g", batch=2, operators=(A,)).with_batch(batch)


@pytest.mark.parametrize(
    ("kind", "elements", "batch", "grows"),
    [("loss", 1, 1, False), ("loss", 2, 2, True), ("loss", 2, 1, True), ("activation", 1, 1, True)],
)
def test_a_loss_of_one_element_has_no_samples(kind: str, elements: int, batch: int, grows: bool) -> None:
    assert has_samples(kind, elements, batch) is grows
    assert not has_samples(kind, batch + 2, batch + 1)


def test_unknown_operator() -> None:
    with pytest.raises(WorkloadError, match="no operator 'z'"):
        ComputeGraph(name="g", batch=2, operators=(A,)).operator("z")


def test_a_kept_graph_is_read_back_as_a_model(tmp_path: Path) -> None:
    graph = ComputeGraph(name="g", batch=2, operators=(Operator(name="a", kind="linear", dimensions={"sample": 2}),))
    path = graph.save(tmp_path / "graph.json")
    assert trace(path, batch=2) == graph
    assert trace(path, batch=8) == graph.with_batch(8)
    with pytest.raises(ConfigError, match=r"ends in \.json"):
        graph.save(tmp_path / "graph.txt")
    with pytest.raises(ConfigError, match="keeps the length"):
        trace(path, sequence_length=4)
    path.write_text('{"schema": "lightloom.graph/1"}')
    with pytest.raises(WorkloadError, match=r"graph\.json: not a compute graph"):
        trace(path)
