"""Execution traces of several steps, on one thread and on two: the graph of one step, whichever is asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.models.graph import TENSOR_KINDS
from lightloom.models.traces.execution_trace import read_execution_trace
from lightloom.models.traces.operators import TraceReading

from .test_execution_trace import Residual

torch: Any = pytest.importorskip("torch")
profiler: Any = pytest.importorskip("torch.profiler")


def recorded(path: Path, steps: int, *, marked: bool, threads: bool, passes: int = 1) -> Path:
    """A trace of ``steps`` steps; with ``threads`` the backward pass runs on another one, as autograd of GPUs does."""
    torch.manual_seed(0)
    net, samples = Residual(), torch.randn(5, 3, 16, 16)
    descent = torch.optim.SGD(net.parameters(), lr=0.1)
    observer = profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    for number in range(4, 4 + steps):
        with profiler.record_function(f"ProfilerStep#{number}") if marked else nullcontext():
            for _ in range(passes):
                loss = torch.nn.functional.cross_entropy(net(samples), torch.zeros(5, dtype=torch.long))
                if threads:
                    worker = threading.Thread(target=loss.backward)
                    worker.start()
                    worker.join()
                else:
                    loss.backward()
            descent.step()
            descent.zero_grad()
    observer.stop()
    observer.unregister_callback()
    return path


def costs(reading: TraceReading) -> list[tuple[str, int, int, int]]:
    return [(op.name, op.forward_flops, op.backward_flops, op.parameters) for op in reading.graph.operators]


@pytest.mark.parametrize(
    ("marked", "threads"),
    [
        (True, True),
        *(
            pytest.param(marked, threads, marks=pytest.mark.slow)
            for marked, threads in ((False, False), (True, False), (False, True))
        ),
    ],
)
def test_any_step_of_three_is_the_step_of_one(tmp_path: Path, marked: bool, threads: bool) -> None:
    one = read_execution_trace(recorded(tmp_path / "one.json", 1, marked=False, threads=False))
    path = recorded(tmp_path / "three.json", 3, marked=marked, threads=threads)
    first = 4 if marked else 0
    for step in (None, first, first + 1, first + 2):
        reading = read_execution_trace(path, step=step)
        assert costs(reading) == costs(one)
        assert "2 other steps of the trace are left out" in reading.unrecorded
    with pytest.raises(WorkloadError, match=f"has no step 9, but {first}, {first + 1}, {first + 2}"):
        read_execution_trace(path, step=9)


def test_accumulated_passes_of_a_step_are_one_pass(tmp_path: Path) -> None:
    one = read_execution_trace(recorded(tmp_path / "one.json", 1, marked=False, threads=False))
    many = read_execution_trace(recorded(tmp_path / "many.json", 2, marked=True, threads=True, passes=3))
    assert costs(many) == costs(one)
    assert any("2 further passes of the step are left out" in line for line in many.unrecorded)


def test_products_that_write_into_a_given_tensor_are_products(tmp_path: Path) -> None:
    """Inductor calls ``aten::mm.out`` and ``aten::addmm.out``; parameters are leaves that got no gradient here."""
    observer = profiler.ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "out.json"))
    a, b = torch.ones(5, 8), torch.ones(8, 4)
    bias, first, second = torch.ones(4), torch.empty(5, 4), torch.empty(5, 4)
    observer.start()
    torch.mm(a, b, out=first)
    torch.addmm(bias, a, b, out=second)
    torch.add(first, second)
    observer.stop()
    observer.unregister_callback()
    graph = read_execution_trace(tmp_path / "out.json", batch=5).graph
    products = [(op.kind, op.forward_flops) for op in graph.operators if op.kind in TENSOR_KINDS]
    assert products == [("matmul", 2 * 5 * 8 * 4)] * 2
    assert graph.operators[-1].inputs == ("mm", "addmm")
    assert graph.operators[0].activation_bytes == 4 * 5 * 4


class Scaled(torch.nn.Module):  # type: ignore[misc]
    """A batch norm, and a parameter of its shape that no argument names."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3, affine=False)
        self.gain = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        return self.norm(x).mean((2, 3)) * self.gain


def test_running_statistics_are_no_parameters(tmp_path: Path) -> None:
    net = Scaled()
    observer = profiler.ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "scaled.json"))
    observer.start()
    net(torch.randn(5, 3, 4, 4)).sum().backward()
    observer.stop()
    observer.unregister_callback()
    graph = read_execution_trace(tmp_path / "scaled.json").graph
    assert {op.name: op.parameters for op in graph.operators if op.parameters} == {"mul": 3}


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda node: node.update(id="x"), "expected an object with a whole id"),
        (lambda node: node.update(ctrl_deps=10**9), "made by node 1000000000, which does not exist"),
        (lambda node: node["inputs"].update(shapes=[]), "lists of one length"),
    ],
)
def test_a_bad_node_of_a_later_step_is_refused_in_one_line(
    tmp_path: Path, edit: Callable[[Any], None], complaint: str
) -> None:
    path = recorded(tmp_path / "three.json", 2, marked=True, threads=True)
    document = json.loads(path.read_text())
    edit([node for node in document["nodes"] if node["name"] == "aten::relu"][-1])
    path.write_text(json.dumps(document))
    with pytest.raises(WorkloadError) as refused:
        read_execution_trace(path)
    assert complaint in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_only_execution_traces_have_steps() -> None:
    import lightloom as ll

    with pytest.raises(ConfigError, match="--step 2: resnet50 is no execution trace"):
        ll.trace("resnet50", step=2)
