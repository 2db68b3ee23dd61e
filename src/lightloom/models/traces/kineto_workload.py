"""Profiles of ``torch.profiler`` as compute graphs, with the times of the accelerator's kernels or of the host's calls.

A profile states neither which tensor is which nor what calls return, so that edges, outputs and parameters follow from
shapes (``kineto_shapes.py``); an execution trace of the same step says them. FLOPs, passes and steps are those of
execution traces.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from math import prod
from pathlib import Path

from lightloom.machines.accelerators.load import accelerator_of_device
from lightloom.models.operator_words import KIND_OF_WORD, VIEWS, plain_word, product
from lightloom.models.traces.calls import BACKWARD, Call, Recording, TraceTensor, leaves, walk
from lightloom.models.traces.execution_trace import reading_of
from lightloom.models.traces.kineto import Profile, read_profile
from lightloom.models.traces.operators import TraceReading

# Shapes of what calls return, and which call made what another reads: a profile states the shapes of inputs alone.
#
# Shapes of results follow from the rules of the operators that have one here; others return a tensor like their
# largest input. A call reads the result of the last one that made as many elements, unless the tensor is a parameter.

_COPIES = ("clone", "copy_", "cat", "stack")
"""Calls inside an operator that moves data, though strides could say what it means."""
_WORDS = {
    (1, 2): "conv batch_norm norm linear mkldnn_linear",
    (0, 2): "addmm addmm_activation",
    (1,): "experts mm scaled_mm scaled_mm_v2",
    (0,): "embedding",
}
_PLACES = {word: places for places, words in _WORDS.items() for word in words.split()}
"""Places of weights and biases among the tensors of an operator, by its word or its kind."""
_STATISTICS = (3, 4)
"""Places of running means and variances among the tensors of a batch norm."""


class Wiring:
    """Storages of the tensors of calls, one call after another."""

    def __init__(self, gradients: Sequence[tuple[int, ...]]) -> None:
        """``gradients`` are the shapes of the gradients that the backward pass kept; none without a backward pass."""
        self._left = Counter(gradients)
        self._known = bool(gradients)
        self._storages = count(2)
        self._made: dict[int, int] = {}
        """The storage that was made last with so many elements."""

    def connect(self, call: Call) -> None:
        """Give the tensors that a call of the forward pass reads their storages, in place, and set what it returns: one
        tensor.

        A view or a call in place returns its first tensor, any other one a new storage; a call that reads nothing
        returns nothing.
        """
        word = plain_word(call.name)
        kind = KIND_OF_WORD.get(word, "")
        places = _PLACES.get(word) or (_PLACES.get(kind, ()) if kind != "linear" else ())
        statistics = _STATISTICS if kind == "batch_norm" else ()
        call.reads = [
            self._read(tensor, place, is_parameter=place in places, is_statistic=place in statistics)
            for place, tensor in enumerate(call.reads)
        ]
        if not call.reads:
            return
        if is_view(call) or call.word.endswith("_"):
            call.returns = [replace(call.reads[0], argument="")]
            return
        like = next((tensor for tensor in call.reads if tensor.floating), call.reads[0])
        shape = result_shape(call)
        made = replace(like, storage=next(self._storages), offset=0, shape=shape, argument="", strides=())
        self._made[made.elements] = made.storage
        call.returns = [made]

    def _read(self, tensor: TraceTensor, place: int, *, is_parameter: bool, is_statistic: bool) -> TraceTensor:
        """Return a tensor that a call reads with its storage.

        Statistics and parameters get one of their own (parameters only while a gradient of their shape is left, if
        gradients are known), others that of the last result of as many elements.
        """
        if is_statistic:
            return replace(tensor, storage=next(self._storages), argument=f"running_{place}")
        if is_parameter and tensor.floating and (not self._known or self._left[tensor.shape] > 0):
            self._left[tensor.shape] -= self._known
            return replace(tensor, storage=next(self._storages), argument="weight")
        return replace(tensor, storage=self._made.get(tensor.elements) or next(self._storages))


def is_view(call: Call) -> bool:
    """Return whether a call moves no data: a view by its name, without a copy among the calls inside it."""
    return plain_word(call.name) in VIEWS and not any(inner.word in _COPIES for inner in walk(call.calls))


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of what a call returns: by a rule, else that of the last call inside it that reads and is no
    view, else its largest input's."""
    try:
        shape = _ruled(call, [tensor.shape for tensor in call.reads])
    except (IndexError, TypeError, ValueError, ZeroDivisionError):
        shape = None
    if shape is None and (inner := [entry for entry in call.calls if entry.reads and not is_view(entry)]):
        return result_shape(inner[-1])
    return max((tensor.shape for tensor in call.reads), key=prod, default=()) if shape is None else shape


def _ruled(call: Call, shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the shape of a call's result by the rule of its operator, from the shapes that it reads; None where there
    is no rule."""
    word, values = call.word, call.values
    if cost := product(call.name, shapes, None, values):
        return cost.shape
    if word == "embedding":
        return (*shapes[1], shapes[0][-1])
    if word.startswith("adaptive_") and isinstance(values[1], list):
        sizes = tuple(int(size) for size in values[1])
        return (*shapes[0][: len(shapes[0]) - len(sizes)], *sizes)
    if word.startswith(("max_pool", "avg_pool")):
        kernel, stride, padding = (_pair(value) for value in values[1:4])
        sizes = shapes[0][-len(kernel) :]
        pooled = [
            (size + 2 * pad - length) // step + 1
            for size, length, step, pad in zip(sizes, kernel, stride or kernel, padding, strict=True)
        ]
        return (*shapes[0][: -len(kernel)], *pooled)
    return () if KIND_OF_WORD.get(plain_word(call.name)) == "loss" else None


def _pair(value: object) -> list[int]:
    """Return the whole numbers of a recorded list, of any length; ValueError for anything else."""
    if not isinstance(value, list) or not all(type(entry) is int for entry in value):
        raise ValueError("not recorded")
    return value


_GRADIENT = "torch::autograd::AccumulateGrad"


def read_kineto_workload(path: Path, *, batch: int | None = None, step: int | None = None) -> TraceReading:
    """Return the graph of one step of a profile, gzip or not, with its measured times.

    Args:
        batch: number of samples in the trace; by default the first axis of the first tensor that is not a parameter.
        step: which step, as the profiler counts; by default the first one that has a backward pass.

    Raises:
        ConfigError: unreadable, not gzip, or not JSON.
        WorkloadError: no profile, one without operators or shapes, a malformed event, or no such step.
    """
    profile = read_profile(path)
    roots = list(profile.roots)
    wiring = Wiring([call.reads[0].shape for call in walk(roots) if call.name == _GRADIENT and call.reads])
    for call in walk(roots):
        if call.reads:
            call.returns = [replace(call.reads[0], storage=-2, shape=result_shape(call))]
    for call in sorted(_forward(roots), key=lambda call: call.id):
        wiring.connect(call)
    exchanges = tuple(piece.exchange for piece in profile.work if piece.exchange is not None)
    recording = Recording(roots, exchanges, timed=True, on_device=profile.on_device)
    device = profile.devices[0] if profile.devices and profile.on_device else ""
    reading = reading_of(recording, path, batch=batch, step=step, machine=device)
    measured = reading.graph.measured
    if measured is not None:
        named = accelerator_of_device(device, profile.memory) if device else None
        precision = _precision(_forward(roots))
        graph = replace(reading.graph, measured=replace(measured, accelerator=named, precision=precision))
        reading = replace(reading, graph=graph)
    return replace(reading, unrecorded=(*_unrecorded(profile), *reading.unrecorded))


def _forward(roots: Sequence[Call]) -> Iterator[Call]:
    """Yield the operators that no other one made, those of the backward pass and of the optimizer left out."""
    for call in leaves(roots):
        if call.schema and not call.name.startswith((BACKWARD, "Optimizer.")):
            yield call


def _precision(calls: Iterator[Call]) -> str:
    """Return the number format (``fp32``, ``bf16``, ...) in which most seconds on the host were spent in the calls;
    ``tf32`` where kernels of float32 say so.

    Empty where no call states one.
    """
    seconds: dict[str, float] = defaultdict(float)
    for call in calls:
        if call.precision:
            names = [name for inner in walk([call]) for name in inner.kernels]
            tf32 = call.precision == "fp32" and any("tf32" in name or "s1688" in name for name in names)
            seconds["tf32" if tf32 else call.precision] += call.seconds
    return max(seconds, key=lambda name: seconds[name], default="")


def _unrecorded(profile: Profile) -> Iterator[str]:
    """Yield lines on what the profile does not record, and what is left out of it."""
    yield "edges, outputs and which tensors are parameters: taken from shapes (an execution trace states them)"
    for name, events in profile.left_out.items():
        yield f"{events} events of category {name} are left out"
    unattributed = profile.unattributed_seconds - sum(piece.seconds for piece in profile.work if piece.exchange)
    if unattributed > 0.01 * profile.device_seconds:
        share = unattributed / profile.device_seconds
        yield f"{share:.1%} of the accelerator's time was launched by no operator, and is left out"
    distributed = profile.distributed
    if "world_size" in distributed:
        rank, backend = distributed.get("rank", "?"), distributed.get("backend", "?")
        yield f"what other ranks computed: the trace is of rank {rank} of {distributed['world_size']} ({backend})"
