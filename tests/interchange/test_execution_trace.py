"""Execution traces that PyTorch writes here and now: the graph agrees with what tracing the module says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import InputError, WorkloadError
from lightloom.models.graph import TENSOR_KINDS, ComputeGraph
from lightloom.models.traces.calls import argument_names
from lightloom.models.traces.execution_trace import LOSS_LEFT_OUT, read_execution_trace

torch: Any = pytest.importorskip("torch")
profiler: Any = pytest.importorskip("torch.profiler")


class Residual(torch.nn.Module):  # type: ignore[misc]
    """A little ResNet: strided convolution, a branch, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.one = torch.nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.pool = torch.nn.AdaptiveAvgPool2d(1)
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.norm(self.stem(x)))
        return self.head(self.pool(torch.relu(x + self.one(x))).flatten(1))


class Transformer(torch.nn.Module):  # type: ignore[misc]
    """A block with a table, learned positions, attention, and a head without bias."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.table = torch.nn.Embedding(50, width)
        self.position = torch.nn.Parameter(torch.zeros(16, width))
        self.before, self.after = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.head = torch.nn.Linear(width, 50, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens) + self.position
        samples, length, width = x.shape
        q, k, v = (
            part.view(samples, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(samples, length, width))
        x = x + self.down(torch.nn.functional.gelu(self.up(self.after(x))))
        return self.head(x).flatten(0, 1)


def module(name: str) -> tuple[Any, Any]:
    """A module, and five samples for it."""
    torch.manual_seed(0)
    if name == "residual":
        return Residual(), torch.randn(5, 3, 16, 16)
    return Transformer(), torch.randint(0, 50, (5, 16))


def recorded(folder: Path, name: str, *, backward: bool = True, optimiser: bool = False) -> Path:
    """The trace of one step, as a user records it."""
    net, samples = module(name)
    path = folder / f"{name}.json"
    observer = profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    descent = torch.optim.SGD(net.parameters(), lr=0.1)
    observer.start()
    out = net(samples)
    if backward:
        torch.nn.functional.cross_entropy(out, torch.zeros(len(out), dtype=torch.long)).backward()
    if optimiser:
        descent.step()
    observer.stop()
    observer.unregister_callback()
    return path


def traced(name: str) -> ComputeGraph:
    """The graph that lightloom makes of the module itself."""
    from lightloom.models.torch.trace import trace

    net, samples = module(name)
    return trace(net, (samples,), batch=5, name=name)


def products(graph: ComputeGraph) -> list[tuple[int, int]]:
    """Forward and backward FLOPs of what multiplies matrices."""
    return [(op.forward_flops, op.backward_flops) for op in graph.operators if op.kind in TENSOR_KINDS]


@pytest.mark.parametrize("name", ["residual", "transformer"])
def test_a_trace_says_what_the_module_says(tmp_path: Path, name: str) -> None:
    read, own = read_execution_trace(recorded(tmp_path, name)), traced(name)
    assert read.graph.batch == 5
    assert read.graph.parameters == own.parameters
    assert read.graph.parameter_bytes == own.parameter_bytes
    assert products(read.graph) == products(own)
    kinds = [op.kind for op in read.graph.operators if op.kind in TENSOR_KINDS]
    assert kinds == [op.kind for op in own.operators if op.kind in TENSOR_KINDS]
    assert read.unrecorded == ("module names: operators are named by what they call, and numbered", LOSS_LEFT_OUT)


@pytest.mark.parametrize("name", ["residual", "transformer"])
def test_dimensions_of_products_are_those_of_the_module(tmp_path: Path, name: str) -> None:
    read, own = read_execution_trace(recorded(tmp_path, name)).graph, traced(name)
    for ours, theirs in zip(
        (op for op in read.operators if op.kind in TENSOR_KINDS),
        (op for op in own.operators if op.kind in TENSOR_KINDS),
        strict=True,
    ):
        assert dict(ours.dimensions) == dict(theirs.dimensions), ours.name
        assert ours.activation_bytes == theirs.activation_bytes
        assert ours.forward_bytes == theirs.forward_bytes
        assert ours.shared_bytes == theirs.shared_bytes


def test_the_graph_is_one_that_plans_take(tmp_path: Path) -> None:
    graph = read_execution_trace(recorded(tmp_path, "transformer")).graph
    assert ComputeGraph.from_json(json.loads(json.dumps(graph.to_json()))) == graph
    assert graph.with_batch(10).forward_flops == 2 * graph.forward_flops
    readers = graph.consumers()
    assert [op for op in graph.operators if not readers[op.name]] == [graph.operators[-1]]
    assert graph.operators[-1].dimensions["channel"] == 50  # the head: a plan adds the loss of its outputs


def test_what_is_lost_is_said(tmp_path: Path) -> None:
    forward = read_execution_trace(recorded(tmp_path, "residual", backward=False))
    assert any("no backward pass" in line for line in forward.unrecorded)
    assert [backward for _, backward in products(forward.graph)] == [2 * f for f, _ in products(forward.graph)]
    whole = read_execution_trace(recorded(tmp_path, "residual", optimiser=True))
    assert any("optimiser" in line for line in whole.unrecorded)
    assert products(whole.graph) == products(traced("residual"))


def test_the_batch_may_be_said(tmp_path: Path) -> None:
    path = recorded(tmp_path, "residual")
    assert read_execution_trace(path, batch=1).graph.batch == 1


def test_arguments_of_a_schema() -> None:
    schema = 'aten::f.x(Tensor(a!) self, int[2] size=[1, 2], *, Tensor? bias=None, str mode="a") -> (Tensor, Tensor)'
    assert argument_names(schema) == ["self", "size", "bias", "mode"]
    assert argument_names("") == []


def node(document: Any, name: str) -> Any:
    return next(each for each in document["nodes"] if each["name"] == name)


def change(name: str, key: str, value: Any) -> Callable[[Any], None]:
    def apply(document: Any) -> None:
        node(document, name)[key] = value

    return apply


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda d: d.pop("nodes"), "expected an execution trace"),
        (lambda d: d.update(schema="2.0"), "schema '2.0': expected 1.x.x-chakra"),
        (lambda d: d.update(schema=None), "schema None"),
        (lambda d: d["nodes"].append(7), "of nodes: expected an object"),
        (lambda d: d["nodes"].append(dict(d["nodes"][3])), "its id occurs twice"),
        (lambda d: d.update(nodes=[]), "holds no operator"),
        (change("aten::relu", "ctrl_deps", 10**9), "made by node 1000000000, which does not exist"),
        (change("aten::relu", "ctrl_deps", "x"), "ctrl_deps is 'x'"),
        (change("aten::relu", "inputs", []), "inputs: expected values, shapes and types"),
        (change("aten::relu", "attrs", {}), "attrs: expected a list"),
        (lambda d: node(d, "aten::relu")["inputs"]["shapes"].append([]), "lists of one length"),
        (lambda d: node(d, "aten::relu")["inputs"]["shapes"].__setitem__(0, [-1]), "('aten::relu'): a tensor"),
        (lambda d: node(d, "aten::relu")["inputs"]["values"].__setitem__(0, [1]), "expected 6 entries"),
        (lambda d: node(d, "aten::relu")["inputs"]["types"].__setitem__(0, 5), "type 5: expected text"),
    ],
)
def test_a_malformed_trace_is_refused_by_node(
    tmp_path_factory: pytest.TempPathFactory, edit: Callable[[Any], object], complaint: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "kept" / "residual.json"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        recorded(path.parent, "residual")
    document = json.loads(path.read_text())
    edit(document)
    changed = path.with_name("changed.json")
    changed.write_text(json.dumps(document))
    with pytest.raises(InputError) as refused:
        read_execution_trace(changed)
    assert complaint in str(refused.value)
    assert str(changed) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_call_cannot_make_itself(tmp_path: Path) -> None:
    path = recorded(tmp_path, "residual")
    document = json.loads(path.read_text())
    made = node(document, "aten::relu")
    later = max(each["id"] for each in document["nodes"])
    made["ctrl_deps"] = later
    path.write_text(json.dumps(document))
    with pytest.raises(WorkloadError, match="which begins later"):
        read_execution_trace(path)


def test_a_trace_cut_short_is_refused_with_its_line(tmp_path: Path) -> None:
    path = recorded(tmp_path, "residual")
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    with pytest.raises(InputError, match=r"line \d+, column \d+: not JSON"):
        read_execution_trace(path)
