"""From a factory to a module on the meta device with example inputs, and on to its graph."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lightloom.core.errors import InputError, WorkloadError
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.torch.frame import tensors_in
from lightloom.workloads.torch.samples import sample_axis, with_length
from lightloom.workloads.torch.trace import trace
from lightloom.workloads.torch.values import Values

_EXPECTED = "expected a torch.nn.Module, or a pair (module, example_inputs)"
_FIRST_AXES = (0, 1)
"""Axes that may hold the samples."""


def trace_factory(
    factory: Any,
    *,
    name: str,
    batch: int,
    sequence_length: int | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> ComputeGraph:
    """Call the factory under the meta device and trace what it returns.

    Args:
        factory: called with ``arguments``; a module itself is taken as it is. name: of the graph, and in
        messages. batch: samples wanted. Where the factory brings its own example inputs, their size along the axis of
        samples is the traced batch. sequence_length: passed on to the factory or the module's ``example_inputs``, if
        one takes it; else tokens of the example inputs get that length. arguments: keyword arguments of the factory.

    Raises:
        WorkloadError: the factory or its module fails, or gives no inputs; one line that names the cause.
    """
    # What a model prints must not mix with what the program writes to stdout.
    values = Values()
    with contextlib.redirect_stdout(sys.stderr):
        options = dict(arguments or {})
        chosen = sequence_length is not None and not isinstance(factory, nn.Module) and takes_length(factory)
        if chosen:
            options["sequence_length"] = sequence_length
        built = factory if isinstance(factory, nn.Module) else _call(factory, name, options, values)
        module, inputs, axis = module_and_inputs(built, name)
        if inputs is None:
            inputs = _ask_for_inputs(module, name, batch, None if chosen else sequence_length, values)
            return trace(module, inputs, batch=batch, name=name, values=values)
        if axis is None:
            axis = sample_axis(module, inputs, name, values)
        if sequence_length is not None and not chosen:
            inputs = with_length(inputs, axis, sequence_length, name)
        return trace(module, inputs, batch=_samples(inputs, axis, name), name=name, values=values).with_batch(batch)


def takes_length(factory: Any) -> bool:
    try:
        return "sequence_length" in inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return False


def _call(factory: Any, name: str, arguments: Mapping[str, Any], values: Values) -> Any:
    if not callable(factory):
        raise WorkloadError(f"{name}: is a {type(factory).__name__}; {_EXPECTED}, or a function that returns one")
    return _guarded(lambda: _on_meta(factory, arguments, values), f"{name}: the factory fails")


def _on_meta(factory: Callable[..., Any], arguments: Mapping[str, Any], values: Values) -> Any:
    try:
        with torch.device("meta"), values.following():
            return factory(**arguments)
    except (RuntimeError, NotImplementedError) as error:
        if "meta" not in str(error):
            raise
        # The factory looks at values (say, a drop rate from linspace): let it have them.
        return factory(**arguments)


def _guarded(action: Callable[[], Any], context: str) -> Any:
    """Run user code; whatever it raises becomes one line."""
    try:
        return action()
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        text = (str(error).strip() or "no message").splitlines()[0]
        raise WorkloadError(f"{context}: {type(error).__name__}: {text}") from error


def module_and_inputs(built: Any, name: str) -> tuple[nn.Module, Any, int | None]:
    """Return the module that a factory built, its example inputs and their axis of samples, or None for either.

    Raises:
        WorkloadError: the factory returned something else.
    """
    if isinstance(built, nn.Module):
        return built, None, None
    if isinstance(built, tuple) and len(built) in (2, 3) and isinstance(built[0], nn.Module):
        axis = built[2] if len(built) == 3 else None
        if axis is not None and axis not in _FIRST_AXES:
            raise WorkloadError(f"{name}: batch_axis is {axis!r}, expected 0 or 1")
        return built[0], built[1], axis
    raise WorkloadError(f"{name}: returned a {type(built).__name__}; {_EXPECTED}")


def _ask_for_inputs(module: nn.Module, name: str, batch: int, sequence_length: int | None, values: Values) -> Any:
    method = getattr(module, "example_inputs", None)
    if not callable(method):
        raise WorkloadError(
            f"{name}: {type(module).__name__} has no example inputs; give it a method example_inputs(batch) "
            f"that returns the tensors for forward, or return (module, example_inputs) from the factory"
        )
    options: dict[str, int] = {}
    if sequence_length is not None:
        if "sequence_length" not in inspect.signature(method).parameters:
            raise WorkloadError(f"{name}: takes no sequence length (example_inputs has no argument sequence_length)")
        options["sequence_length"] = sequence_length

    def call() -> Any:
        with torch.device("meta"), values.following():
            return method(batch, **options)

    return _guarded(call, f"{name}: example_inputs fails")


def _samples(inputs: object, axis: int, name: str) -> int:
    first = next(tensors_in([inputs]), None)
    if not isinstance(first, Tensor) or first.dim() <= axis or first.shape[axis] == 0:
        raise WorkloadError(f"{name}: the first example input must be a tensor with samples along axis {axis}")
    return int(first.shape[axis])
