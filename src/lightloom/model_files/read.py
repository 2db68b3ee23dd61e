"""Read a file that describes a model, by its form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.core.forms import recognise
from lightloom.interchange.json_file import read_json
from lightloom.interchange.onnx.read import read_onnx
from lightloom.interchange.traces.chakra_workload import read_chakra_workload
from lightloom.interchange.traces.execution_trace import read_execution_trace
from lightloom.interchange.traces.kineto_workload import read_kineto_workload
from lightloom.interchange.traces.layer_file import read_layer_file
from lightloom.interchange.traces.reading import check_step
from lightloom.model_files.base import FileRequest, ModelReading
from lightloom.model_files.megatron.read import read_megatron
from lightloom.model_files.torchtitan.read import read_torchtitan
from lightloom.model_files.transformers import read_transformers
from lightloom.workloads.graph import ComputeGraph


def read_model_file(path: Path, request: FileRequest) -> ModelReading:
    """Return the model that a file describes, with the batch of the request.

    Raises:
        ConfigError: unreadable, of no form that describes a model (the message lists them), or a request that this form
            cannot serve.
        WorkloadError: the model cannot be built from the file.
    """
    return _READERS[recognise(path, "model").name](path, request)


def _read_chakra(path: Path, request: FileRequest) -> ModelReading:
    _keeps_length(path, request)
    record = check_step(read_chakra_workload(path, batch=request.batch, step=request.step), path)
    return ModelReading(graph=record.graph.with_batch(request.batch), unrecorded=record.unrecorded)


def _read_profile(path: Path, request: FileRequest) -> ModelReading:
    _keeps_length(path, request)
    record = check_step(read_kineto_workload(path, step=request.step), path)
    return ModelReading(graph=record.graph.with_batch(request.batch), unrecorded=record.unrecorded)


def _read_execution_trace(path: Path, request: FileRequest) -> ModelReading:
    _keeps_length(path, request)
    record = check_step(read_execution_trace(path, step=request.step), path)
    return ModelReading(graph=record.graph.with_batch(request.batch), unrecorded=record.unrecorded)


def _read_transformers(path: Path, request: FileRequest) -> ModelReading:
    _has_no_steps(path, request)
    return read_transformers(path, request)


def _has_no_steps(path: Path, request: FileRequest) -> None:
    if request.step is not None:
        raise ConfigError(f"--step {request.step}: {path} is no trace of PyTorch (.json, .et), which alone has steps")


def _read_megatron(path: Path, request: FileRequest) -> ModelReading:
    _has_no_steps(path, request)
    return read_megatron(path, request)


def _read_torchtitan(path: Path, request: FileRequest) -> ModelReading:
    _has_no_steps(path, request)
    return read_torchtitan(path, request)


def _read_onnx(path: Path, request: FileRequest) -> ModelReading:
    _has_no_steps(path, request)
    record = read_onnx(path, sequence_length=request.sequence_length, definitions=request.definitions)
    return ModelReading(graph=record.graph.with_batch(request.batch), unrecorded=record.unrecorded)


def _read_graph(path: Path, request: FileRequest) -> ModelReading:
    _keeps_length(path, request)
    _has_no_steps(path, request)
    try:
        graph = ComputeGraph.from_json(read_json(path))
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from error
    return ModelReading(graph=graph.with_batch(request.batch))


def _read_layers(path: Path, request: FileRequest) -> ModelReading:
    _keeps_length(path, request)
    _has_no_steps(path, request)
    record = read_layer_file(path, batch=request.batch)
    return ModelReading(graph=record.graph.with_batch(request.batch), unrecorded=record.unrecorded)


def _keeps_length(path: Path, request: FileRequest) -> None:
    if request.sequence_length is not None:
        raise ConfigError(
            f"--sequence-length {request.sequence_length}: {path} keeps the length with which it was made"
        )


_READERS: Mapping[str, Callable[[Path, FileRequest], ModelReading]] = {
    "profile": _read_profile,
    "execution-trace": _read_execution_trace,
    "chakra": _read_chakra,
    "chakra-json": _read_chakra,
    "graph": _read_graph,
    "transformers": _read_transformers,
    "megatron": _read_megatron,
    "torchtitan": _read_torchtitan,
    "onnx": _read_onnx,
    "layers": _read_layers,
}
"""Reader of each form of :data:`lightloom.core.forms.FORMS` that describes a model."""
