"""Models: a zoo name, a user's factory, a module, a file or a graph, made into a compute graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.core.forms import looks_like_file
from lightloom.model_files.base import FileRequest, ModelReading
from lightloom.model_files.megatron.read import LINE, is_shell_line, read_megatron_line
from lightloom.model_files.read import read_model_file
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.load import is_model_name, load_workload
from lightloom.workloads.resolve import INSTALL_TORCH

if TYPE_CHECKING:
    from torch import Tensor, nn

ModelLike: TypeAlias = "str | Path | ComputeGraph | nn.Module"
"""A zoo name, ``package.module:factory``, ``file.py:factory``, a file of a known form, a shell line of Megatron-LM, a
module, or a graph."""


def trace(
    model: ModelLike,
    *,
    batch: int = 1,
    inputs: Tensor | tuple[Tensor, ...] | Mapping[str, Tensor] | None = None,
    sequence_length: int | None = None,
    step: int | None = None,
    define: Mapping[str, object] | None = None,
    name: str | None = None,
) -> ComputeGraph:
    """Return the operators of a model with their FLOPs and bytes, for ``batch`` samples.

    >>> trace("resnet50", batch=32)
    >>> trace(torch.nn.Linear(16, 4), inputs=torch.zeros(8, 16), batch=32)

    Args:
        model: a zoo name, ``package.module:factory``, ``file.py:factory``, a file of a form that describes a model (a
            message about an unknown file lists them), a shell line with arguments of Megatron-LM, a graph, or an
            ``nn.Module``, whose parameters are moved to the meta device.
        batch: samples in one forward pass.
        inputs: example inputs of a module; without them its method ``example_inputs(batch)`` gives them.
        sequence_length: tokens in a sample, for models that take tokens.
        step: which step of an execution trace, as the profiler counts; its first whole one without it.
        define: values that a file leaves open, by their names there: variables of a script, dimensions of a graph.
        name: the graph's name, for a module; its class without it.

    Raises:
        UnknownNameError: no such model.
        WorkloadError: the model cannot be imported, built or traced, or PyTorch is missing.
        ConfigError: an unreadable trace, or arguments that do not go with this kind of model.
    """
    return read_model(
        model, batch=batch, inputs=inputs, sequence_length=sequence_length, step=step, define=define, name=name
    ).graph


def read_model(
    model: ModelLike,
    *,
    batch: int,
    inputs: Tensor | tuple[Tensor, ...] | Mapping[str, Tensor] | None = None,
    sequence_length: int | None = None,
    step: int | None = None,
    define: Mapping[str, object] | None = None,
    name: str | None = None,
) -> ModelReading:
    """Return the graph as :func:`trace` does, with what a file does not say and what it pins; nothing for others."""
    if isinstance(model, str | Path):
        if inputs is not None:
            raise ConfigError(f"{model}: brings its own example inputs: expected no inputs")
        definitions = {key: str(value) for key, value in (define or {}).items()}
        request = FileRequest(batch=batch, sequence_length=sequence_length, step=step, definitions=definitions)
        if isinstance(model, str) and is_shell_line(model):
            _refuse_step(LINE, step)
            return read_megatron_line(model, request)
        if not is_model_name(str(model)) and (isinstance(model, Path) or looks_like_file(model)):
            return read_model_file(Path(model), request)
        _refuse_step(model, step)
        _refuse_definitions(model, define)
        return ModelReading(graph=load_workload(str(model), batch=batch, sequence_length=sequence_length))
    _refuse_step(model, step)
    _refuse_definitions(model, define)
    if isinstance(model, ComputeGraph):
        if inputs is not None or sequence_length is not None:
            raise ConfigError(f"{model.name}: a graph is traced already: expected neither inputs nor sequence_length")
        return ModelReading(graph=model.with_batch(batch))
    return ModelReading(graph=_from_module(model, batch, inputs, sequence_length, name))


def _refuse_step(model: ModelLike, step: int | None) -> None:
    if step is not None:
        raise ConfigError(f"--step {step}: {model} is no execution trace (.json), which alone has steps")


def _refuse_definitions(model: ModelLike, define: Mapping[str, object] | None) -> None:
    if define:
        raise ConfigError(f"--define {next(iter(define))}: {model} is no file that leaves values open")


def _from_module(
    module: nn.Module,
    batch: int,
    inputs: Tensor | tuple[Tensor, ...] | Mapping[str, Tensor] | None,
    sequence_length: int | None,
    name: str | None,
) -> ComputeGraph:
    title = name or type(module).__name__
    try:
        from torch import nn

        from lightloom.workloads.torch.build import trace_factory
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise WorkloadError(f"{title}: {INSTALL_TORCH}") from error
    if not isinstance(module, nn.Module):
        raise WorkloadError(f"{title}: expected a model's name, a file, a graph or a torch.nn.Module")
    if inputs is None:
        return trace_factory(module, name=title, batch=batch, sequence_length=sequence_length)
    return trace_factory(lambda: (module, inputs), name=title, batch=batch, sequence_length=sequence_length)
