"""Traces from which no training step can be planned are refused, with what they lack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import WorkloadError
from lightloom.models.files.model_file import FileRequest
from lightloom.models.files.read import read_model_file

from .test_chakra_workload import compute
from .test_chakra_workload import written as written_chakra
from .test_execution_trace import Residual, profiler, torch
from .test_kineto_workload import events
from .test_kineto_workload import written as written_profile


def recorded(path: Path, net: Any, samples: Any) -> dict[str, Any]:
    """The execution trace of a training step."""
    observer = profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    net(samples).sum().backward()
    observer.stop()
    observer.unregister_callback()
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def test_a_step_of_a_network_is_read(tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    recorded(path, Residual(), torch.randn(5, 3, 64, 64))
    assert read_model_file(path, FileRequest(batch=5)).graph.parameters


class Experts(torch.nn.Module):  # type: ignore[misc]
    """Products whose weights are read through a view alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.weights = torch.nn.Parameter(torch.randn(4, 32, 64))

    def forward(self, samples: Any) -> Any:
        """Multiply by the weights of each expert, transposed."""
        return torch.bmm(self.first(samples).expand(4, -1, -1), self.weights.transpose(1, 2))


def test_parameters_that_are_read_through_views_alone_are_found(tmp_path: Path) -> None:
    path, net = tmp_path / "step.json", Experts()
    recorded(path, net, torch.randn(1, 8, 64))
    graph = read_model_file(path, FileRequest(batch=8)).graph
    assert graph.parameters == sum(each.numel() for each in net.parameters())


class Flat(torch.nn.Module):  # type: ignore[misc]
    """Products whose weights are parts of one storage, of which the trace's reader knows the first alone."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.randn(4, 64, 64).unbind())

    def forward(self, samples: Any) -> Any:
        """Multiply by one after the other."""
        for weight in self.weights:
            samples = samples @ weight
        return samples


def test_a_step_with_parameters_that_are_not_found_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    recorded(path, Flat(), torch.randn(8, 64))
    with pytest.raises(WorkloadError, match=r"lacks the calls that read 75 % of the parameters"):
        read_model_file(path, FileRequest(batch=8))


def test_a_tiny_step_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    recorded(path, torch.nn.Linear(3, 4), torch.randn(2, 3))
    with pytest.raises(
        WorkloadError, match=r"step.json: lacks work \(the shapes of its tensors make [1-9]\d{0,3} FLOP"
    ):
        read_model_file(path, FileRequest(batch=2))


def test_tensors_without_shapes_are_refused(tmp_path: Path) -> None:
    """As if every tensor had one element."""
    path = tmp_path / "step.json"
    document = recorded(path, Residual(), torch.randn(5, 3, 64, 64))

    def flat(shape: Any) -> Any:
        return [flat(inner) for inner in shape] if shape and isinstance(shape[0], list) else [1] * len(shape)

    for node in document["nodes"]:
        for side in ("inputs", "outputs"):
            node[side]["shapes"] = [flat(shape) for shape in node[side]["shapes"]]
    path.write_text(json.dumps(document))
    with pytest.raises(WorkloadError, match=r"lacks work .* with the shapes of all tensors"):
        read_model_file(path, FileRequest(batch=5))


def test_a_profile_of_a_tiny_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"lacks work \(the shapes of its tensors make 480 FLOP"):
        read_model_file(written_profile(tmp_path, events()), FileRequest(batch=6))


def test_a_profile_of_inference_is_refused(tmp_path: Path) -> None:
    """A product of two tensors, none of which is a weight."""
    entries = [{**events()[1], "name": "aten::bmm"}]
    entries[0]["args"] = {"Input Dims": [[6, 400, 50], [6, 50, 80]], "Input type": ["float"] * 2}
    with pytest.raises(WorkloadError, match=r"lacks parameters .no tensor is read as a weight"):
        read_model_file(written_profile(tmp_path, entries), FileRequest(batch=6))


@pytest.mark.parametrize(("flops", "lacking"), [(10, "lacks parameters .* and work"), (10**9, "lacks parameters")])
def test_work_without_parameters_is_refused(tmp_path: Path, flops: int, lacking: str) -> None:
    path = written_chakra(tmp_path, [compute(1, "layer", flops, nbytes=256)])
    with pytest.raises(WorkloadError, match=lacking):
        read_model_file(path, FileRequest(batch=1))
