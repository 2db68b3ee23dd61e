"""Norms that a library has written in parts are one operator in an execution trace, as they are in a traced module."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightloom.models.graph import ComputeGraph, Operator
from lightloom.models.norms import NormFinder
from lightloom.models.traces.calls import Call, cut_steps, read_calls
from lightloom.models.traces.execution_trace import read_execution_trace, with_whole_norms

torch: Any = pytest.importorskip("torch")
profiler: Any = pytest.importorskip("torch.profiler")

WIDTH, TOKENS, SAMPLES = 48, 16, 5


def llama(x: Any, weight: Any, _bias: Any) -> Any:
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def gemma(x: Any, weight: Any, _bias: Any) -> Any:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * (1.0 + weight.float())).type_as(x)


def plain(x: Any, _weight: Any, _bias: Any) -> Any:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True).clamp(min=1e-6))


def divided(x: Any, weight: Any, _bias: Any) -> Any:
    return x / torch.sqrt(torch.square(x).mean(-1, keepdim=True) + 1e-6) * weight


def centred(x: Any, weight: Any, bias: Any) -> Any:
    around = x - x.mean(-1, keepdim=True)
    return around / torch.sqrt(around.pow(2).mean(-1, keepdim=True) + 1e-6) * weight + bias


NORMS: list[Callable[[Any, Any, Any], Any]] = [llama, gemma, plain, divided, centred]


class Norm(torch.nn.Module):  # type: ignore[misc]
    """A norm in parts; with a name that the tracer knows as one."""

    def __init__(self, norm: Callable[[Any, Any, Any], Any], width: int) -> None:
        super().__init__()
        self.norm = norm
        self.weight, self.bias = (torch.nn.Parameter(torch.ones(width)) for _ in range(2))

    def forward(self, x: Any) -> Any:
        return self.norm(x, self.weight, self.bias)


class Network(torch.nn.Module):  # type: ignore[misc]
    """Norms of a residual stream, and of the heads of a projection, which are views."""

    def __init__(self, norm: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(50, WIDTH)
        self.before, self.heads, self.after = Norm(norm, WIDTH), Norm(norm, WIDTH // 4), Norm(norm, WIDTH)
        self.inner, self.head = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 50)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        inner = self.heads(self.inner(self.before(x)).view(*tokens.shape, 4, -1))
        return self.head(self.after(x + inner.flatten(-2)))


def recorded(folder: Path, network: Any) -> Path:
    path = folder / "step.json"
    observer = profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    network(torch.zeros(SAMPLES, TOKENS, dtype=torch.long)).sum().backward()
    observer.stop()
    observer.unregister_callback()
    return path


def norms(graph: ComputeGraph) -> list[Operator]:
    return [operator for operator in graph.operators if operator.kind == "norm"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_in_parts_is_one_operator(tmp_path: Path, norm: Callable[[Any, Any, Any], Any], dtype: Any) -> None:
    from lightloom.models.torch.trace import trace

    network = Network(norm).to(dtype)
    read = read_execution_trace(recorded(tmp_path, network)).graph
    own = trace(network, (torch.zeros(SAMPLES, TOKENS, dtype=torch.long),), batch=SAMPLES, name="network")
    assert len(norms(read)) == len(norms(own)) == 3
    for one, other in zip(norms(read), norms(own), strict=True):
        assert one.parameters == other.parameters
        assert one.activation_bytes * own.element_bytes == other.activation_bytes * read.element_bytes
        # A trace counts the least value as an element that is read.
        assert one.forward_bytes / read.element_bytes == pytest.approx(other.forward_bytes / own.element_bytes, abs=2)
    others = [operator.kind for operator in read.operators if operator.kind != "norm"]
    assert others == ["embedding", "linear", "add", "linear", "reduce"]


@pytest.mark.parametrize("norm", NORMS)
def test_no_call_is_lost(tmp_path: Path, norm: Callable[[Any, Any, Any], Any]) -> None:
    (step,) = cut_steps(read_calls(recorded(tmp_path, Network(norm))).roots)
    forward = [call for call in step.calls if call.schema]
    merged = with_whole_norms(forward)

    def parts(call: Call) -> list[Call]:
        return call.calls if call.name == "aten::rms_norm" else [call]

    assert sorted(part.id for call in merged for part in parts(call)) == [call.id for call in forward]


@pytest.mark.parametrize("norm", [llama, gemma])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_number_at_the_address_of_a_freed_tensor_reads_nothing_of_it(
    tmp_path: Path, norm: Callable[[Any, Any, Any], Any], dtype: Any
) -> None:
    path = recorded(tmp_path, Network(norm).to(dtype))
    trace = json.loads(path.read_text())
    operators = [node for node in trace["nodes"] if node["name"].startswith("aten::")]
    first = next(place for place, node in enumerate(operators) if node["name"] == "aten::rsqrt")
    freed = operators[first]["inputs"]["values"][0][1]
    before = read_execution_trace(path).graph
    for node in operators[first + 1 :]:
        inputs = node["inputs"]
        for value, shape, kind in zip(inputs["values"], inputs["shapes"], inputs["types"], strict=True):
            if kind == "Tensor(double)" and shape == []:
                value[1] = freed
    path.write_text(json.dumps(trace))
    graph = read_execution_trace(path).graph
    assert len(norms(graph)) == 3
    edges = [[operator.inputs for operator in each.operators] for each in (graph, before)]
    assert edges[0] == edges[1]


def scale_is_kept(x: Any, weight: Any, _bias: Any) -> Any:
    """A mean of squares that something else reads, too, is a result of its own."""
    mean = x.pow(2).mean(-1, keepdim=True)
    return x * torch.rsqrt(mean + 1e-6) * weight + mean


def of_another(x: Any, weight: Any, _bias: Any) -> Any:
    """A tensor that is scaled by the norm of another one."""
    return torch.relu(x) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


@pytest.mark.parametrize("norm", [scale_is_kept, of_another])
def test_what_is_no_norm_stays_in_parts(tmp_path: Path, norm: Callable[[Any, Any, Any], Any]) -> None:
    graph = read_execution_trace(recorded(tmp_path, Network(norm))).graph
    assert not norms(graph)
    assert sum(operator.name.partition("#")[0] == "rsqrt" for operator in graph.operators) == 3
    assert "copy" not in {operator.kind for operator in graph.operators}  # a sum with a scalar is arithmetic


Step = tuple[str, *tuple[int | str, ...]]


class Listed(NormFinder):
    """Nodes in a list: a word, then what it reads, the place of an earlier node or the name of a given tensor."""

    def __init__(self, *nodes: Step) -> None:
        self.words = {place: word for place, (word, *_) in enumerate(nodes)}
        self.reads = {place: read for place, (_, *read) in enumerate(nodes)}
        self.sources = {
            place: [each if isinstance(each, int) else None for each in read] for place, read in self.reads.items()
        }
        self.readers = {
            place: {reader for reader, read in self.reads.items() if place in read} or {-1} for place in self.words
        }

    def weighs(self, place: int, last: int) -> bool:
        return "weight" in self.reads[place] and last in self.reads[place]


SQUARE: tuple[Step, ...] = (("mul", "x", "x"), ("mean", 0), ("add", 1))


@pytest.mark.parametrize(
    ("nodes", "norms"),
    [
        ((*SQUARE, ("rsqrt", 2), ("mul", "x", 3)), [[0, 1, 2, 3, 4]]),
        ((*SQUARE, ("rsqrt", 2), ("mul", 3, "x")), [[0, 1, 2, 3, 4]]),
        ((*SQUARE, ("sqrt", 2), ("div", "x", 3)), [[0, 1, 2, 3, 4]]),
        ((*SQUARE, ("sqrt", 2), ("reciprocal", 3), ("mul", "x", 4)), [[0, 1, 2, 3, 4, 5]]),
        ((*SQUARE, ("rsqrt", 2), ("reciprocal", 3), ("div", "x", 4)), [[0, 1, 2, 3, 4, 5]]),
        ((("pow", "x"), ("mean", 0), ("rsqrt", 1), ("mul", "x", 2)), [[0, 1, 2, 3]]),
        ((("mul", "x", "x"), ("to", 0), ("mean", 1), ("rsqrt", 2), ("mul", "x", 3)), []),
        ((*SQUARE, ("rsqrt", 2), ("div", "x", 3)), []),
        ((*SQUARE, ("sqrt", 2), ("mul", "x", 3)), []),
        ((*SQUARE, ("rsqrt", 2), ("mul", "z", 3)), []),
        ((*SQUARE, ("exp", 2), ("mul", "x", 3)), []),
        ((("mul", "x", "z"), *SQUARE[1:], ("rsqrt", 2), ("mul", "x", 3)), []),
        ((("mul", "x"), *SQUARE[1:], ("rsqrt", 2), ("mul", "x", 3)), []),
        ((SQUARE[0], ("sum", 0), SQUARE[2], ("rsqrt", 2), ("mul", "x", 3)), []),
        ((SQUARE[0], SQUARE[1], ("exp", 1), ("rsqrt", 2), ("mul", "x", 3)), []),
        # Something else reads a part, or the root has two readers or none.
        ((*SQUARE, ("rsqrt", 2), ("mul", "x", 3), ("relu", 1)), []),
        ((*SQUARE, ("rsqrt", 2), ("mul", "x", 3), ("relu", 3)), []),
        ((*SQUARE, ("rsqrt", 2)), []),
        # Casts, weights and biases follow, and nothing else.
        (
            (*SQUARE, ("rsqrt", 2), ("mul", "x", 3), ("to", 4), ("mul", 5, "weight"), ("add", 6, "weight")),
            [[0, 1, 2, 3, 4, 5, 6, 7]],
        ),
        ((*SQUARE, ("rsqrt", 2), ("mul", "x", 3), ("mul", 4, "z")), [[0, 1, 2, 3, 4]]),
        ((*SQUARE, ("rsqrt", 2), ("mul", "x", 3), ("relu", 4, "weight")), [[0, 1, 2, 3, 4]]),
        ((*SQUARE, ("rsqrt", 2), ("mul", "x", 3), ("to", 4), ("relu", 4)), [[0, 1, 2, 3, 4]]),
        # A cast of the tensor, and the subtraction of its mean, are parts unless something else reads them.
        ((("to", "x"), ("mul", 0, 0), ("mean", 1), ("rsqrt", 2), ("mul", 0, 3)), [[0, 1, 2, 3, 4]]),
        ((("relu", "x"), ("mul", 0, 0), ("mean", 1), ("rsqrt", 2), ("mul", 0, 3)), [[1, 2, 3, 4]]),
        ((("to", "x"), ("mul", 0, 0), ("mean", 1), ("rsqrt", 2), ("mul", 0, 3), ("exp", 0)), [[1, 2, 3, 4]]),
        (
            (("mean", "x"), ("sub", "x", 0), ("pow", 1), ("mean", 2), ("rsqrt", 3), ("mul", 1, 4)),
            [[0, 1, 2, 3, 4, 5]],
        ),
        ((("exp", "x"), ("sub", "x", 0), ("pow", 1), ("mean", 2), ("rsqrt", 3), ("mul", 1, 4)), [[2, 3, 4, 5]]),
        # One norm after the other, the first with a weight.
        (
            (
                *SQUARE,
                ("rsqrt", 2),
                ("mul", "x", 3),
                ("mul", 4, "weight"),
                ("pow", 5),
                ("mean", 6),
                ("rsqrt", 7),
                ("mul", 5, 8),
            ),
            [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]],
        ),
    ],
)
def test_norms_are_told_by_their_arithmetic(nodes: tuple[Step, ...], norms: list[list[int]]) -> None:
    assert list(Listed(*nodes).norms()) == norms
