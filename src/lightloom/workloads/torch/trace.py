"""From any ``nn.Module`` to a :class:`ComputeGraph`, on meta tensors: no weight is ever allocated."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from lightloom.core.errors import WorkloadError
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.losses import without_loss
from lightloom.workloads.torch.checkpoints import checkpoints_followed
from lightloom.workloads.torch.frame import tensors_in
from lightloom.workloads.torch.listeners import AtenCalls, Functions
from lightloom.workloads.torch.recorder import Recorder
from lightloom.workloads.torch.refusals import refusal, steered_by
from lightloom.workloads.torch.saved import ELEMENT_BYTES
from lightloom.workloads.torch.stand_ins import fake_tensors, meta_copy, to_meta
from lightloom.workloads.torch.values import Values

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a forward pass."""


def trace(module: nn.Module, inputs: Any, *, batch: int, name: str, values: Values | None = None) -> ComputeGraph:
    """Run the forward pass once on meta tensors and write down its operators, without a loss of its last linear layer.

    Args:
        module: left in its mode (training or not); parameters and buffers are moved to the meta device.
        inputs: a tensor, a tuple of positional arguments or a mapping of keyword arguments.
        batch: samples in ``inputs``.
        name: of the graph, and of the model in messages.
        values: what is known of tensors on the meta device, from where they were made.

    Raises:
        WorkloadError: the forward pass fails, or takes no tensor.
    """
    values = values or Values()
    try:
        to_meta(module, values)
        arguments = _arguments(inputs)
        if next(tensors_in(arguments), None) is None:
            raise WorkloadError(f"{name}: the example inputs hold no tensor")
        meta_copy(arguments)
    except (RuntimeError, ValueError, TypeError) as error:
        text = (str(error).strip() or "no message").splitlines()[0]
        raise WorkloadError(f"{name}: cannot be moved to the meta device: {type(error).__name__}: {text}") from error
    try:
        recorder = _run(module, arguments, batch, values)
    except Exception as error:
        if steered_by(error) is None:
            raise refusal(name, module, error) from error
        recorder = _run_fake(name, module, arguments, batch, values)
    operators = without_loss(recorder.finished())
    total = sum(parameter.numel() for parameter in module.parameters())
    return ComputeGraph(
        name=name,
        batch=batch,
        operators=operators,
        element_bytes=ELEMENT_BYTES,
        unused_parameters=total - sum(operator.parameters for operator in operators),
        uncounted=tuple(recorder.uncounted),
    )


def _run_fake(name: str, module: nn.Module, arguments: Arguments, batch: int, values: Values) -> Recorder:
    """Run the forward pass on tensors by which code can tell that it is being traced."""
    try:
        with fake_tensors(module, values):
            return _run(module, arguments, batch, values)
    except Exception as error:
        raise refusal(name, module, error) from error


def _run(module: nn.Module, arguments: Arguments, batch: int, values: Values) -> Recorder:
    args, kwargs = meta_copy(arguments)
    for stand_in, example in zip(tensors_in([args, kwargs]), tensors_in(arguments), strict=True):
        values.enter(stand_in, example)
    recorder = Recorder(module, batch, values)
    for label, tensor in _named_inputs(module, args, kwargs):
        recorder.add_input(label, tensor)
    with (
        _paths_followed(module, recorder),
        checkpoints_followed(recorder),
        saved_tensors_hooks(recorder.pack, _never_unpacked),
        torch.device("meta"),
        torch.enable_grad(),
        Functions(recorder),
        AtenCalls(recorder),
    ):
        module(*args, **kwargs)
    return recorder


def _never_unpacked(_nothing: None) -> Tensor:
    raise AssertionError("a trace runs no backward pass")


def _arguments(inputs: Any) -> Arguments:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, (tuple, list)) else ((inputs,), {})


def _named_inputs(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    try:
        names = list(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):
        names = []
    named = [(names[i] if i < len(names) else f"input_{i}", value) for i, value in enumerate(args)]
    for label, value in [*named, *kwargs.items()]:
        for tensor in tensors_in(value):
            yield label, tensor


@contextmanager
def _paths_followed(module: nn.Module, recorder: Recorder) -> Iterator[None]:
    """Tell the recorder which module is running, for as long as the context lasts."""
    handles = []
    for path, part in module.named_modules():
        # Called even if forward raises, so that a model that catches errors does not confuse the path.
        handles += [
            part.register_forward_pre_hook(lambda part, _, path=path: recorder.enter(path, part)),
            part.register_forward_hook(lambda *call: recorder.leave(call[-1]), always_call=True),
        ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
