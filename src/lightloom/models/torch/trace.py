"""From any ``nn.Module`` to a :class:`ComputeGraph`, on meta tensors: no weight is ever allocated."""

import contextlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from lightloom.core.errors import InputError, WorkloadError
from lightloom.models.graph import ComputeGraph, without_loss
from lightloom.models.torch.frame import map_tensors, tensors_in
from lightloom.models.torch.recorder import AtenCalls, Functions, Recorder, checkpoints_followed
from lightloom.models.torch.values import ELEMENT_BYTES, Values, fake_tensors, meta_copy, to_meta

# Which axis of example inputs holds the samples, and the same inputs with sequences of another length.


class _Reached(Exception):
    """A layer that takes the sequence first has been called."""


def sample_axis(module: nn.Module, inputs: Any, name: str, values: Values) -> int:
    """Return the axis of the first example input that holds the samples: 0, or 1 where sequences come first.

    Layers with ``batch_first=False`` read (T, B, C): the size of their second axis is found again in the input. Where
    there are such layers, the module is moved to the meta device and its forward pass run up to the first of them.

    Args:
        module: the module.
        inputs: its example inputs: a tensor, a tuple of positional arguments or a mapping of keyword arguments.
        name: the model's name, for messages.
        values: what is known of tensors without values; buffers that are moved are noted there.

    Raises:
        WorkloadError: no input with a leading size, or both axes could be the samples.
    """
    first = next(tensors_in([inputs]), None)
    if not isinstance(first, Tensor) or first.dim() == 0 or first.shape[0] == 0:
        raise WorkloadError(f"{name}: the first example input must be a tensor whose leading size is the batch")
    samples = _samples_of_sequence_first(module, inputs, values)
    if samples is None or first.dim() < 2 or first.shape[1] != samples:
        return 0
    if first.shape[0] == samples:
        raise WorkloadError(
            f"{name}: its layers take the sequence first, and samples cannot be told from tokens in an input of "
            f"{' x '.join(map(str, first.shape))}: make the two differ, or return (module, example_inputs, batch_axis) "
            f"with a batch_axis of 0 or 1"
        )
    return 1


def _samples_of_sequence_first(module: nn.Module, inputs: Any, values: Values) -> int | None:
    """Return the second size of the (T, B, C) tensor that the first layer with ``batch_first=False`` to be called
    reads; None where none is called, or none with a tensor of three axes.

    Where there are such layers, the module is moved to the meta device, what its buffers hold is noted in ``values``,
    and the forward pass is run up to that layer; errors that it raises before are passed over.
    """
    layers = [part for part in module.modules() if getattr(part, "batch_first", None) is False]
    sizes: list[int] = []

    def look(_layer: nn.Module, args: Any, kwargs: Any) -> None:
        """Note the second size of a layer's first tensor if it has three axes, and end the forward pass."""
        tensor = next(tensors_in([list(args), kwargs]), None)
        if tensor is not None and tensor.dim() == 3:
            sizes.append(int(tensor.shape[1]))
            raise _Reached

    # Whatever else the forward pass raises, tracing raises again and explains.
    with contextlib.ExitStack() as stack, contextlib.suppress(Exception), torch.device("meta"), torch.no_grad():
        for layer in layers:
            stack.callback(layer.register_forward_pre_hook(look, with_kwargs=True).remove)
        if layers:
            to_meta(module, values)
            args, kwargs = _arguments(meta_copy(inputs))
            module(*args, **kwargs)
    return sizes[0] if sizes else None


def with_length(inputs: Any, axis: int, length: int, name: str) -> Any:
    """Return example inputs with sequences of ``length`` tokens, without values.

    The first input is tokens (B, T) or features (B, T, C). Axes of its length T change in all inputs: the one of its
    tokens, and the last two of a square mask.

    Args:
        inputs: tensors, nested in tuples, lists and mappings; the same nest of meta tensors is returned.
        axis: axis of the samples, 0 or 1; the tokens lie along the other one.
        length: tokens of a sample that are wanted.
        name: the model's name, for messages.

    Raises:
        WorkloadError: the first input holds no tokens: it has not two axes (integers) or three (floating).
    """
    first = next(tensors_in([inputs]))
    if first.dim() != (3 if first.is_floating_point() else 2):
        shape = " x ".join(map(str, first.shape))
        raise WorkloadError(f"{name}: takes no sequence length: its first example input, {shape}, holds no tokens")
    old = first.shape[1 - axis]

    def resized(tensor: Tensor) -> Tensor:
        """Return a meta tensor as the given one, its axis of tokens and the last two of a square mask of the new
        length."""
        shape = list(tensor.shape)
        if tensor.dim() > 1 and shape[1 - axis] == old:
            shape[1 - axis] = length
        if tensor.dim() > 1 and tuple(tensor.shape[-2:]) == (old, old) and (tensor.dim() != 2 or tensor is not first):
            shape[-2:] = [length, length]
        return torch.empty(shape, dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)

    return map_tensors(resized, inputs)


# Why a forward pass cannot be traced, in one line: the module, the line of code, the cause and a remedy.

_VALUE = (".item()", "_local_scalar_dense", "Boolean value of Tensor", "is_nonzero", "equal")
_SHAPE = ("nonzero", "masked_select", "unique", "repeat_interleave", "bincount", "dynamic")
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))
_REMEDIES = {
    "value": "trace in eval mode (module.eval()), leave out the input that it looks at, or take the branch under "
    "torch.compiler.is_compiling()",
    "shape": "choose a form whose shapes do not depend on values, such as experts_implementation='grouped_mm' for "
    "experts of transformers",
}


def steered_by(error: BaseException) -> str | None:
    """Return what depends on values where a forward pass failed: ``"value"`` for a branch or number, ``"shape"`` for a
    shape; None for another cause."""
    text = f"{type(error).__name__}: {error}"
    if any(word in text for word in _VALUE) or "DataDependent" in text:
        return "value"
    if isinstance(error, (RuntimeError, NotImplementedError)) and any(word in text for word in _SHAPE):
        return "shape" if "meta" in text.lower() or "DynamicOutputShape" in text else None
    return None


def refusal(name: str, module: nn.Module, error: Exception) -> WorkloadError:
    """Return, not raise, the error that says where the forward pass of a module fails on meta tensors, why, and what
    helps if the cause is that values steer it; ``name`` is the model's, ``error`` what the forward pass raised."""
    steered, cause = steered_by(error), _first_line(error)
    if steered is not None:
        cause = f"values cannot steer the forward pass, there are only shapes ({cause}): {_REMEDIES[steered]}"
    return WorkloadError(f"{name}: the forward pass fails on meta tensors{_place(module, error)}: {cause}")


def _first_line(error: BaseException) -> str:
    """Return ``Class: message``: the class of an error and the first line of its message, or ``no message``."""
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"


def _place(module: nn.Module, error: Exception) -> str:
    """Return `` in module 'a.b' (Class), file.py line 3`` for the innermost module and the last line outside PyTorch
    and lightloom, as far as the traceback tells; else an empty text."""
    paths = {id(part): path for path, part in module.named_modules()}
    inside, line = "", ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        frame, file = trace.tb_frame, trace.tb_frame.f_code.co_filename
        part = frame.f_locals.get("self")
        if isinstance(part, nn.Module) and id(part) in paths:
            inside = f" in module {paths[id(part)]!r} ({part._get_name()})" if paths[id(part)] else " in the model"  # type: ignore[no-untyped-call]
        if not file.startswith(_LIBRARIES) and not file.startswith("<"):
            line = f", {Path(file).name} line {trace.tb_lineno}"
        trace = trace.tb_next
    return inside + line


Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a forward pass."""


def trace(module: nn.Module, inputs: Any, *, batch: int, name: str, values: Values | None = None) -> ComputeGraph:
    """Run the forward pass once on meta tensors and return the graph of its operators; a loss, and what else follows
    the last linear layer, is left out where that layer makes the logits (:func:`lightloom.models.graph.without_loss`).

    Args:
        module: left in its mode (training or not); parameters and buffers are moved to the meta device.
        inputs: a tensor, a tuple of positional arguments or a mapping of keyword arguments, with values or on the meta
            device; they are not changed.
        batch: samples in ``inputs``, and of the graph.
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
        raise WorkloadError(f"{name}: cannot be moved to the meta device: {_first_line(error)}") from error
    try:
        try:
            recorder = _run(module, arguments, batch, values)
        except Exception as error:
            if steered_by(error) is None:
                raise
            # Once more on tensors by which code can tell that it is being traced.
            with fake_tensors(module, values):
                recorder = _run(module, arguments, batch, values)
    except Exception as error:
        raise refusal(name, module, error) from error
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


def _run(module: nn.Module, arguments: Arguments, batch: int, values: Values) -> Recorder:
    """Run the forward pass on meta copies of the arguments and return the recorder that has written down its operators.

    The inputs' values are noted in ``values``; the module runs with gradients enabled, no backward pass is run.
    """
    args, kwargs = meta_copy(arguments)
    for stand_in, example in zip(tensors_in([args, kwargs]), tensors_in(arguments), strict=True):
        values.enter(stand_in, example)
    recorder = Recorder(module, batch, values)
    for label, tensor in _named_inputs(module, args, kwargs):
        recorder.add_input(label, tensor)
    with (
        _paths_followed(module, recorder),
        checkpoints_followed(recorder),
        saved_tensors_hooks(recorder.pack, lambda kept: kept),  # a trace runs no backward pass
        torch.device("meta"),
        torch.enable_grad(),
        Functions(recorder),
        AtenCalls(recorder),
    ):
        module(*args, **kwargs)
    return recorder


def _arguments(inputs: Any) -> Arguments:
    """Return example inputs as (positional, keyword) arguments: a mapping gives keywords, a tuple or list positions,
    anything else one position."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), {}


def _named_inputs(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor among the arguments with the name of its argument of ``forward``, one pair for each tensor
    nested in it.

    Positions that the signature does not name are ``input_<position>``.
    """
    names: list[str] = []
    with contextlib.suppress(TypeError, ValueError):
        names = list(inspect.signature(module.forward).parameters)
    names += [f"input_{i}" for i in range(len(names), len(args))]
    for label, value in [*zip(names, args, strict=False), *kwargs.items()]:
        for tensor in tensors_in(value):
            yield label, tensor


@contextmanager
def _paths_followed(module: nn.Module, recorder: Recorder) -> Iterator[None]:
    """Tell the recorder which module is running, for as long as the context lasts."""
    with contextlib.ExitStack() as stack:
        for path, part in module.named_modules():
            enter = part.register_forward_pre_hook(lambda part, _, path=path: recorder.enter(path, part))
            # Called even if forward raises, so that a model that catches errors does not confuse the path.
            leave = part.register_forward_hook(lambda *call: recorder.leave(call[-1]), always_call=True)
            stack.callback(enter.remove)
            stack.callback(leave.remove)
        yield


# From a factory to a module on the meta device with example inputs, and on to its graph.

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
    """Call the factory under the meta device, trace what it returns, and return the graph for ``batch`` samples. What
    the code prints goes to stderr.

    Args:
        factory: called with ``arguments``; a module itself is taken as it is.
        name: of the graph, and in messages.
        batch: samples wanted. Where the factory brings its own example inputs, their size along the axis of samples is
            traced, and the graph rescaled.
        sequence_length: passed on to the factory or the module's ``example_inputs``, if one takes it; else tokens of
            the example inputs get that length.
        arguments: keyword arguments of the factory.

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
    """Return whether a callable has a parameter ``sequence_length``; False where it has no signature."""
    with contextlib.suppress(TypeError, ValueError):
        return "sequence_length" in inspect.signature(factory).parameters
    return False


def _call(factory: Any, name: str, arguments: Mapping[str, Any], values: Values) -> Any:
    """Call the factory on the meta device, noting what its tensors hold in ``values``, and return what it returns.

    Where that fails with an error that names ``meta``, the factory looks at values and is called again with real
    tensors.

    Raises:
        WorkloadError: the factory is not callable, or fails.
    """
    if not callable(factory):
        raise WorkloadError(f"{name}: is a {type(factory).__name__}; {_EXPECTED}, or a function that returns one")
    with _guarded(f"{name}: the factory fails"):
        try:
            with torch.device("meta"), values.following():
                return factory(**arguments)
        except (RuntimeError, NotImplementedError) as error:
            if "meta" not in str(error):
                raise
            # The factory looks at values (say, a drop rate from linspace): let it have them.
            return factory(**arguments)


@contextmanager
def _guarded(context: str) -> Iterator[None]:
    """Run user code in the context; whatever it raises, SystemExit too, becomes a WorkloadError of one line that begins
    with the text ``context``, but for errors of input (InputError), which pass."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise WorkloadError(f"{context}: {_first_line(error)}") from error


def module_and_inputs(built: Any, name: str) -> tuple[nn.Module, Any, int | None]:
    """Return the module that a factory built, its example inputs, and their axis of samples (0 or 1).

    Inputs and axis are None for a module alone, the axis for a pair (module, inputs) without one.

    Raises:
        WorkloadError: the factory returned something else, or an axis other than 0 and 1.
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
    """Return what the module's own method ``example_inputs(batch)`` gives on the meta device, its values noted.

    A sequence length is passed on to it; None leaves the method's own default.

    Raises:
        WorkloadError: the module has no such method, the method takes no ``sequence_length``, or it fails.
    """
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

    with _guarded(f"{name}: example_inputs fails"), torch.device("meta"), values.following():
        return method(batch, **options)


def _samples(inputs: object, axis: int, name: str) -> int:
    """Return the number of samples: the size of the first example input along ``axis``; WorkloadError, which names the
    model ``name``, where there is no tensor, it lacks the axis or is empty along it."""
    first = next(tensors_in([inputs]), None)
    if not isinstance(first, Tensor) or first.dim() <= axis or first.shape[axis] == 0:
        raise WorkloadError(f"{name}: the first example input must be a tensor with samples along axis {axis}")
    return int(first.shape[axis])
