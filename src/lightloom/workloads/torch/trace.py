"""From any ``nn.Module`` to a :class:`ComputeGraph`, on meta tensors: no weight is ever allocated."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lightloom.core.errors import WorkloadError
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.torch.frame import tensors_in
from lightloom.workloads.torch.listeners import AtenCalls, Functions
from lightloom.workloads.torch.recorder import ELEMENT_BYTES, Recorder


def trace(module: nn.Module, inputs: Any, *, batch: int, name: str) -> ComputeGraph:
    """Run the forward pass once on meta tensors and write down its operators.

    Args:
        module: left in its mode (training or not); parameters and buffers are moved to the meta device.
        inputs: a tensor, a tuple of positional arguments or a mapping of keyword arguments.
        batch: samples in ``inputs``.
        name: of the graph, and of the model in messages.

    Raises:
        WorkloadError: the forward pass fails, or takes no tensor.
    """
    try:
        _to_meta(module)
        args, kwargs = _arguments(inputs)
        args, kwargs = _meta_copy(args), _meta_copy(kwargs)
        recorder = Recorder(module, batch)
        named = list(_named_inputs(module, args, kwargs))
        for label, tensor in named:
            recorder.add_input(label, tensor)
    except (RuntimeError, ValueError, TypeError) as error:
        raise WorkloadError(f"{name}: cannot be moved to the meta device: {_cause(error)}") from error
    if not named:
        raise WorkloadError(f"{name}: the example inputs hold no tensor")
    try:
        with (
            _paths_followed(module, recorder),
            torch.device("meta"),
            torch.enable_grad(),
            Functions(recorder),
            AtenCalls(recorder),
        ):
            module(*args, **kwargs)
    except Exception as error:
        raise WorkloadError(f"{name}: the forward pass fails on meta tensors: {_cause(error)}") from error
    operators = tuple(recorder.operators)
    total = sum(parameter.numel() for parameter in module.parameters())
    return ComputeGraph(
        name=name,
        batch=batch,
        operators=operators,
        element_bytes=ELEMENT_BYTES,
        unused_parameters=total - sum(operator.parameters for operator in operators),
    )


def _cause(error: Exception) -> str:
    text = (str(error).strip() or "no message").splitlines()[0]
    if any(word in text for word in (".item()", "nonzero", "_local_scalar_dense")):
        text = f"values cannot steer the forward pass, there are only shapes ({text})"
    return f"{type(error).__name__}: {text}"


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, (tuple, list)) else ((inputs,), {})


def _meta_copy(value: Any) -> Any:
    """Return the same nest with every tensor on the meta device, each with a storage of its own."""
    if isinstance(value, Tensor):
        return torch.empty_like(value, device="meta", requires_grad=value.requires_grad)
    if isinstance(value, Mapping):
        return {key: _meta_copy(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_meta_copy(item) for item in value)
    return value


def _named_inputs(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    try:
        names = list(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):
        names = []
    named = [(names[i] if i < len(names) else f"input_{i}", value) for i, value in enumerate(args)]
    for label, value in [*named, *kwargs.items()]:
        for tensor in tensors_in(value):
            yield label, tensor


def _to_meta(module: nn.Module) -> None:
    """Move parameters and buffers to the meta device; a tensor that is shared stays shared."""
    moved: dict[int, Any] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None and not parameter.is_meta:
                meta = nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
                part._parameters[name] = moved.setdefault(id(parameter), meta)
        for name, buffer in part._buffers.items():
            if buffer is not None and not buffer.is_meta:
                part._buffers[name] = moved.setdefault(id(buffer), torch.empty_like(buffer, device="meta"))


@contextmanager
def _paths_followed(module: nn.Module, recorder: Recorder) -> Iterator[None]:
    """Tell the recorder which module is running, for as long as the context lasts."""
    handles = []
    for path, part in module.named_modules():
        # Called even if forward raises, so that a model that catches errors does not confuse the path.
        handles += [
            part.register_forward_pre_hook(lambda part, _, path=path: recorder.enter(path, part)),
            part.register_forward_hook(lambda *_: recorder.leave(), always_call=True),
        ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
