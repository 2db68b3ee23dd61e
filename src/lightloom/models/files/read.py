"""Read a file that describes a model, by its form."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lightloom.core.documents import MOST_TRACE_BYTES, load_json
from lightloom.core.errors import ConfigError, WorkloadError, about, needing_torch
from lightloom.core.forms import recognise
from lightloom.models.decoder import MOST_LAYERS
from lightloom.models.files.megatron import read_megatron
from lightloom.models.files.model_file import FileRequest, ModelReading
from lightloom.models.files.torchtitan import read_torchtitan
from lightloom.models.graph import ComputeGraph
from lightloom.models.onnx import read_onnx
from lightloom.models.traces.chakra import read_chakra_workload
from lightloom.models.traces.execution_trace import read_execution_trace
from lightloom.models.traces.kineto import read_kineto_workload
from lightloom.models.traces.layer_file import read_layer_file
from lightloom.models.traces.operators import TraceReading, check_step

# ``config.json`` of ``transformers``: the model is built on the meta device by that library, and traced.


def read_transformers(path: Path, request: FileRequest) -> ModelReading:
    """Return the model of a ``config.json`` of ``transformers``, for samples of as many tokens as the request asks for,
    by default as many as the configuration allows, at most 4,096, or 512 where it sets no limit. It states no strategy
    and no batch.

    Raises:
        ConfigError: unreadable, no JSON object, or more than 10,000 layers or experts.
        WorkloadError: PyTorch or ``transformers`` is missing, or cannot build or trace this architecture.
    """
    if not isinstance(fields := load_json(path), dict):
        raise ConfigError(f"{path}: expected an object with the fields of a configuration")
    _check_counts(fields, path)
    with needing_torch(f"{path}:", error=WorkloadError):
        from lightloom.models.torch.pretrained import trace_configuration
    graph, assumptions, unknown = trace_configuration(
        fields, name=str(path), batch=request.batch, sequence_length=request.sequence_length
    )
    lines, unused = ["loss and optimizer: a configuration has none"], graph.unused_parameters
    lines += [f"{unused:,} parameters that its forward pass does not use are counted"] if unused else []
    return ModelReading(graph=graph, unrecorded=(*assumptions, *lines), unused=unknown)


def _check_counts(fields: Mapping[str, Any], path: Path) -> None:
    """Raise ConfigError for a whole number above 10,000 under a name that holds layers or experts, or is ``n_layer``,
    at any depth of a configuration: building so many would take minutes and gigabytes."""
    for name, value in fields.items():
        counts = "layers" in name or "experts" in name or name == "n_layer"
        if isinstance(value, dict):
            _check_counts(value, path)
        elif counts and type(value) is int and value > MOST_LAYERS:
            raise ConfigError(f"{path}: {name} {value:,}: expected at most {MOST_LAYERS:,}")


def read_model_file(path: Path, request: FileRequest) -> ModelReading:
    """Return the model that a file describes, or the ``config.json`` of a folder, with the batch of the request; the
    form is told by the file's content and name.

    Traces, graphs, layer files and ONNX files, which hold one batch, are rescaled to it, and state no strategy.

    Raises:
        ConfigError: unreadable, of no form that describes a model (the message lists them), a length in tokens for a
            trace, graph or layer file, or a step for what is no trace.
        WorkloadError: the model cannot be built from the file, or no training step can be planned from the trace.
    """
    if path.is_dir():
        path /= "config.json"
    form = recognise(path, "model").name
    if request.sequence_length is not None and form in (*_TRACES, "graph", "layers"):
        raise ConfigError(
            f"--sequence-length {request.sequence_length}: {path} keeps the length with which it was made"
        )
    if request.step is not None and form not in _TRACES:
        raise ConfigError(f"--step {request.step}: {path} is no trace of PyTorch (.json, .et), which alone has steps")
    if (reader := _MODELS.get(form)) is not None:
        return reader(path, request)
    reading = _GRAPHS[form](path, request)
    return ModelReading(graph=reading.graph.with_batch(request.batch), unrecorded=reading.unrecorded)


def _read_graph(path: Path) -> TraceReading:
    """Return the graph that lightloom wrote as JSON, at its own batch; WorkloadError, with the file's name, if it is
    none."""
    with about(path):
        return TraceReading(ComputeGraph.from_json(load_json(path, MOST_TRACE_BYTES)), ())


def _read_chakra(path: Path, request: FileRequest) -> TraceReading:
    """Return the step in a Chakra trace (that of the request, by default the first with a backward pass), at its own
    batch, which is the request's where the trace holds no calls of PyTorch; WorkloadError if no step can be planned
    from it."""
    return check_step(read_chakra_workload(path, batch=request.batch, step=request.step), path)


_TRACES = ("profile", "execution-trace", "chakra", "chakra-json")
"""Forms that hold steps of training."""
_MODELS: Mapping[str, Callable[[Path, FileRequest], ModelReading]] = {
    "transformers": read_transformers,
    "megatron": read_megatron,
    "torchtitan": read_torchtitan,
}
"""Readers of files that describe a model for any batch, by form (:data:`lightloom.core.forms.FORMS`)."""
_GRAPHS: Mapping[str, Callable[[Path, FileRequest], TraceReading]] = {
    "profile": lambda path, request: check_step(read_kineto_workload(path, step=request.step), path),
    "execution-trace": lambda path, request: check_step(read_execution_trace(path, step=request.step), path),
    "chakra": _read_chakra,
    "chakra-json": _read_chakra,
    "graph": lambda path, _request: _read_graph(path),
    "onnx": lambda path, request: read_onnx(
        path, sequence_length=request.sequence_length, definitions=request.definitions
    ),
    "layers": lambda path, request: read_layer_file(path, batch=request.batch),
}
"""Readers of files that hold a graph for one batch, by form."""
