"""Execution traces as compute graphs: operators with FLOPs and bytes, as far as shapes in the trace tell.

    forward     calls of operators that no operator made, before the first gradient
    backward    calls of autograd; a sequence number says of which operator
    edges       the operator that last wrote to a tensor's storage before another reads it
    parameters  tensors that nothing in the trace wrote, and that got a gradient or are called weight or bias

    steps       one of them is read (``steps.py``)
    times       of the calls, and of the accelerator's work that they launch, where the trace holds them

What a trace does not record, and the graph therefore lacks, is listed in :attr:`TraceReading.unrecorded`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from lightloom.core.errors import WorkloadError
from lightloom.core.units import format_time
from lightloom.models.graph import TENSOR_KINDS, ComputeGraph, MeasuredTimes, Operator, has_samples, without_loss
from lightloom.models.operator_words import NO_RULE, experts_dimensions, heads_first, plain_word
from lightloom.models.traces.calls import (
    BACKWARD,
    Call,
    Recording,
    StepParts,
    TraceStep,
    TraceTensor,
    convolution_sizes,
    cut_steps,
    guessed,
    is_causal,
    kind_of,
    made,
    named_axes,
    named_parameters,
    other_flops,
    product_flops,
    products,
    read_calls,
    seconds_of,
    sequences,
    statistics,
    walk,
)
from lightloom.models.traces.operators import (
    HOST,
    KERNELS,
    TracedExchange,
    TraceReading,
    exchange_notes,
    kind_of_words,
    numbered,
)

# Normalisations that a library has written in parts, each as one call, as modules of them are traced.
#
#     x ──► [to] ──► pow ──► mean ──► add ──► rsqrt ──► mul ──► [to] ──► mul ──► y        one call: rms_norm(x, weight)
#             └─────────────────────────────────────────┘                └── weight
#
# A trace names no modules. What tells such a norm is its arithmetic: a tensor is multiplied by the reciprocal root of
# the mean of its own squares, which nothing else reads. Accelerators run it as one kernel
# (``workloads/torch/saved.py``).

_CASTS = frozenset({"to", "to_copy", "type_as", "float"})
_ROOTS = {"rsqrt": "mul", "sqrt": "div"}
"""Call that scales a tensor by a root, by the call that takes the root."""
_BETWEEN = _CASTS | {"add", "clamp", "clamp_min", "maximum"}
"""Calls between the mean of squares and the root: adding epsilon, and casts."""


def with_whole_norms(calls: Sequence[Call]) -> list[Call]:
    """Return the calls of a forward pass, the parts of each norm as one call in the place of the last of them."""
    return list(_Norms(calls).merged())


class _Norms:
    """Finder of norms written in parts among the calls of a forward pass, which it names by their places."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._words = [plain_word(call.name) for call in calls]
        self._sources: list[list[int | None]] = []
        """For each call the place of the call that computed each tensor that it reads; None for those that none did."""
        self._readers: list[set[int]] = [set() for _ in calls]
        producer: dict[int, int] = {}
        for place, call in enumerate(calls):
            self._sources.append([producer.get(tensor.storage) for tensor in call.reads])
            results = made(call)
            for source in self._sources[place] if results else ():  # views share what they are of
                if source is not None:
                    self._readers[source].add(place)
            producer.update((tensor.storage, place) for tensor in results)

    def merged(self) -> Iterator[Call]:
        """Yield the calls in order, each norm as one call in the place of its last part."""
        norms: dict[int, Call] = {}
        parts: set[int] = set()
        for place in range(len(self._calls)):
            norm = self._norm(place)
            if norm and parts.isdisjoint(norm):
                norms[max(norm)] = self._whole(sorted(norm))
                parts |= norm
        for place, call in enumerate(self._calls):
            if place in norms:
                yield norms[place]
            elif place not in parts:
                yield call

    def _norm(self, root: int) -> set[int]:
        """Return the places of the parts of the norm with a root at that place; none if it is of none."""
        if self._words[root] not in _ROOTS:
            return set()
        chain = [root]
        while (source := self._first(chain[-1])) is not None and self._words[source] in _BETWEEN:
            chain.append(source)
        square = None if source is None or self._words[source] != "mean" else self._first(source)
        scaled = self._only_reader(root)
        if source is None or square is None or scaled is None or not self._squares(square):
            return set()
        values = self._calls[square].reads[0]
        if self._words[scaled] != _ROOTS[self._words[root]] or not any(_same(values, t) for t in self._read(scaled)):
            return set()
        norm = self._with_what_follows({*chain, source, square, scaled}, scaled)
        self._add_what_precedes(norm)
        inside = norm - {max(norm)}
        return norm if all(self._readers[place] <= norm for place in inside) else set()

    def _with_what_follows(self, norm: set[int], last: int) -> set[int]:
        """Add casts, and weight and bias of the channels, that follow ``last``, to ``norm``, and return it."""
        while (follower := self._only_reader(last)) is not None:
            channels = self._calls[last].returns[0].shape[-1:]
            read = self._read(follower)[:2]
            weighs = any(t.shape[-1:] == channels and t.elements == channels[0] for t in read)
            if self._words[follower] not in _CASTS and not (self._words[follower] in ("mul", "add") and weighs):
                break
            norm.add(follower)
            last = follower
        return norm

    def _add_what_precedes(self, norm: set[int]) -> None:
        """Add to ``norm`` casts of what it reads, one plus its weight, and what takes away the mean."""
        waiting = list(norm)
        while waiting:
            for source in self._sources[waiting.pop()]:
                if source is not None and source not in norm and self._readers[source] <= norm and self._joins(source):
                    norm.add(source)
                    waiting.append(source)

    def _joins(self, place: int) -> bool:
        """Return whether a call before a norm can be a part: a cast, a mean, a subtraction of it, or a sum with the
        weight."""
        word, shape = self._words[place], self._calls[place].returns[0].shape
        if word == "sub":
            return any(len(t.shape) == len(shape) and t.shape[-1:] == (1,) for t in self._read(place))
        return word in _CASTS or word == "mean" or (word == "add" and len(shape) == 1)

    def _squares(self, place: int) -> bool:
        """Return whether a call squares a tensor: ``square``, any ``pow``, or a product of it with itself."""
        read, word = self._read(place), self._words[place]
        return word in ("pow", "square") or (word == "mul" and len(read) == 2 and _same(*read))

    def _read(self, place: int) -> list[TraceTensor]:
        """Return the tensors that the call at a place reads."""
        return self._calls[place].reads

    def _first(self, place: int) -> int | None:
        """Return the place of the call that computed the first tensor read; None if none did."""
        return next(iter(self._sources[place]), None)

    def _only_reader(self, place: int) -> int | None:
        """Return the place of the one call that reads a result and computes; None if several or none do."""
        readers = self._readers[place]
        return next(iter(readers)) if len(readers) == 1 else None

    def _whole(self, norm: list[int]) -> Call:
        """Return one call ``aten::rms_norm`` that holds the parts, and reads what they read from outside."""
        calls = [self._calls[place] for place in norm]
        reads = [
            tensor
            for place in norm
            for source, tensor in zip(self._sources[place], self._calls[place].reads, strict=True)
            if source not in norm
        ]
        last = calls[-1]
        return Call(last.id, "aten::rms_norm", last.schema, -1, reads, last.returns, [], calls=calls)


def _same(one: TraceTensor, other: TraceTensor) -> bool:
    """Return whether two tensors are the same elements: storage, offset and shape, whatever the strides."""
    return (one.storage, one.offset, one.shape) == (other.storage, other.offset, other.shape)


LOSS_LEFT_OUT = "the loss is left out: plans price the cross entropy of the last outputs, as of a model without one"
"""Sentence on a step that ends in a loss."""


def read_execution_trace(path: Path, *, batch: int | None = None, step: int | None = None) -> TraceReading:
    """Return the graph of one forward pass, and of its backward pass where the trace holds one.

    Args:
        step: which step of the trace, as the profiler counts (``ProfilerStep#N``), or from 0 on where it marks none; by
            default the first one that has a backward pass, if any has.
        batch: number of samples in the trace; by default the first axis of the first tensor that is not a parameter.

    Raises:
        ConfigError: unreadable, or not JSON.
        WorkloadError: no trace, a malformed one (names the node), one without operators, or without that step.
    """
    return reading_of(read_calls(path), path, batch=batch, step=step)


def reading_of(
    recording: Recording, path: Path, *, batch: int | None = None, step: int | None = None, machine: str = ""
) -> TraceReading:
    """Return the graph of one step of the calls of a trace, as :func:`read_execution_trace` does.

    Args:
        machine: what the calls ran on, as the trace names it.
    """
    steps = cut_steps(recording.roots)
    if not steps:
        raise WorkloadError(f"{path}: holds no operator: expected calls such as aten::linear")
    chosen = _chosen_step(path, steps, step)
    parts = StepParts()
    for call in chosen.calls:
        parts.sort(call)
    if not parts.forward:
        raise WorkloadError(f"{path}: step {chosen.number} holds no operator: expected calls such as aten::linear")
    parts.forward = with_whole_norms(parts.forward)
    graph = _TraceGraph(path, parts, batch, recording, chosen, machine)
    return graph.reading(len(steps) - 1)


def _chosen_step(path: Path, steps: list[TraceStep], number: int | None) -> TraceStep:
    """Return the step of that number, by default the first with a backward pass, or the first; WorkloadError if none
    has it."""
    if number is None:
        whole = [step for step in steps if any(call.name.startswith(BACKWARD) for call in step.calls)]
        return (whole or steps)[0]
    if chosen := [step for step in steps if step.number == number]:
        return chosen[0]
    raise WorkloadError(f"{path}: has no step {number}, but {', '.join(str(step.number) for step in steps)}")


class _TraceGraph:
    """Builder of the graph of one step, operator by operator in the order of the forward calls."""

    def __init__(
        self, path: Path, parts: StepParts, batch: int | None, recording: Recording, step: TraceStep, machine: str
    ) -> None:
        self._path, self._parts, self._recording, self._step, self._machine = path, parts, recording, step, machine
        self._seconds: list[tuple[float, float | None]] = []
        """Measured forward and backward times of the operators so far."""
        self._named = named_parameters(parts.forward)
        self._statistics = statistics(parts.forward)
        self._gradients = Counter(tensor.shape for tensor in parts.gradients) - Counter(self._named.values())
        self._producer: dict[int, str] = {}
        self._sampled: set[int] = set()
        """Storages whose content depends on the samples."""
        self._parameters: dict[int, int] = {}
        """Number of elements of each parameter, by storage."""
        self._unused: dict[int, int] = {}
        """Those of them that no operator has read yet."""
        self._names: Counter[str] = Counter()
        self._guessed: list[str] = []
        """Sentences on what the counts only guess."""
        self._owner = {number: call.id for call in parts.forward for number in sequences(call)}
        self._matched = any(number in self._owner for number in parts.backward)
        """True if numbers of autograd say which operator backward calls belong to."""
        self._batch = batch or self._guessed_batch()
        sizes = Counter(tensor.element_bytes for call in parts.forward for tensor in call.returns if tensor.floating)
        self._element_bytes = max(1, sizes.most_common(1)[0][0]) if sizes else 4

    def reading(self, other_steps: int) -> TraceReading:
        """Return the graph, and what the trace does not record; so many other steps are left out."""
        operators = [operator for call in self._parts.forward if (operator := self._operator(call)) is not None]
        if not operators:
            raise WorkloadError(f"{self._path}: no operator in it returns a tensor that it computed")
        measured = self._measured()
        # A loss that is not measured is left to the plan, which prices it for models without one, too.
        kept = tuple(operators) if measured else without_loss(operators)
        graph = ComputeGraph(
            name=self._path.stem,
            batch=self._batch,
            operators=kept,
            element_bytes=self._element_bytes,
            measured=measured,
            uncounted=tuple(self._guessed),
        )
        exchanges = self._recording.exchanges or tuple(_exchange_of_call(call) for call in self._parts.communication)
        loss = (LOSS_LEFT_OUT,) if len(kept) < len(operators) else ()
        notes = (*self._unrecorded(other_steps), *loss, *exchange_notes(exchanges))
        with_gradients = sum(tensor.elements for tensor in self._parts.gradients)
        not_found = 0.0
        if self._matched and with_gradients and not self._recording.outside:
            not_found = max(1 - sum(self._parameters.values()) / with_gradients, 0.0)
        return TraceReading(graph, notes, exchanges, not_found)

    def _measured(self) -> MeasuredTimes | None:
        """Return the measured seconds of the operators so far; None where the trace is not timed or all of them are
        0."""
        if not self._recording.timed or not any(forward or backward for forward, backward in self._seconds):
            return None
        forward, backward = zip(*self._seconds, strict=True)
        clock = KERNELS if self._recording.on_device else HOST
        return MeasuredTimes(batch=self._batch, forward=forward, backward=backward, machine=self._machine, clock=clock)

    def _seconds_of(self, calls: Sequence[Call]) -> float:
        """Return the seconds of calls on what the trace has timed, the accelerator or the host."""
        return seconds_of(calls, on_device=self._recording.on_device)

    def _unmeasured(self) -> Iterator[str]:
        """Yield a line on where the measured time of the step is, if not in operators of the graph."""
        calls = (self._step.calls, self._parts.update, self._parts.communication)
        whole, update, communication = map(self._seconds_of, calls)
        operators = sum(forward + (backward or 0.0) for forward, backward in self._seconds)
        rest = max(whole - operators - update - communication, 0.0)
        yield (
            f"of {format_time(whole)} measured in the step, {format_time(operators)} are in its operators, "
            f"{format_time(update)} in the optimizer, {format_time(communication)} in communication calls, "
            f"{format_time(rest)} in other calls: only the operators' are used"
        )

    def _unrecorded(self, other_steps: int) -> Iterator[str]:
        """Yield lines on what the trace does not record, and what is assumed or left out instead."""
        parts = self._parts
        yield "module names: operators are named by what they call, and numbered"
        if not self._matched:
            what = "numbers of autograd at its backward calls" if parts.backward else "no backward pass in the trace"
            yield f"{what}: taken as twice the products of the forward pass"
            if self._recording.timed:
                yield "times of the backward pass: priced, not measured"
        if other_steps:
            yield f"{other_steps} other steps of the trace are left out"
        if self._step.later_passes:
            yield f"{self._step.later_passes} further passes of the step are left out: it accumulates gradients"
        if parts.communication:
            yield f"{len(parts.communication)} communication calls are left out: a plan makes its own"
        if parts.later:
            yield f"{parts.later} calls after the first gradient that are none of autograd's are left out (optimiser)"
        accumulated = sum(tensor.elements for tensor in parts.gradients)
        parameters = sum(self._parameters.values())
        if self._matched and accumulated != parameters and not self._recording.outside:
            yield f"gradients were kept for {accumulated} elements, parameters found: {parameters}"
        outside = sum(
            len(calls) for number, calls in parts.backward.items() if number >= 0 and number not in self._owner
        )
        if outside:
            yield f"{outside} backward calls belong to no operator of the trace"
        if neither := self._recording.outside:
            seconds = format_time(self._seconds_of(neither))
            yield f"nesting: calls go to passes by their names; {len(neither)} of neither are left out ({seconds})"
        if self._recording.timed:
            yield from self._unmeasured()

    def _guessed_batch(self) -> int:
        """Return the first axis of the first tensor read that is no parameter, tensors of the first products and
        look-ups first.

        Raises WorkloadError where no call reads such a tensor.
        """
        forward = self._parts.forward
        written = {tensor.storage for call in forward for tensor in made(call)}
        # What comes before the first product or look-up may move or prepare anything.
        begins = [tensor for call in forward if _begins_model(call) for tensor in call.reads]
        given = [tensor for call in forward for tensor in call.reads if tensor.storage not in written]
        for tensor in (*begins, *given):
            if tensor.shape and tensor.storage not in self._named and not self._gradients[tensor.shape]:
                return max(1, tensor.shape[0])
        raise WorkloadError(
            f"{self._path}: no operator reads samples: expected the trace of a training step, whose first product or "
            "look-up reads them"
        )

    def _operator(self, call: Call) -> Operator | None:
        """Return the operator of a forward call; None for one that computes no tensor, such as a view."""
        computed = made(call)
        if not computed:
            # Who reads a view reads the storage, which may be known as a parameter by what the view is of alone.
            self._settle(call)
            return None
        fresh = self._first_used(call)
        sources = tuple(dict.fromkeys(self._producer[t.storage] for t in call.reads if t.storage in self._producer))
        sampled = any(
            t.storage in self._sampled or (t.storage not in self._producer and t.storage not in self._parameters)
            for t in call.reads
        )
        weights = [tensor.shape for tensor in call.reads if tensor.storage in self._parameters]
        kind = kind_of(call, len(sources), stacked=any(len(shape) == 3 for shape in weights))
        name = numbered(self._names, call.word.strip("_"))
        if any(len(shape) > 1 for shape in weights):
            self._guessed += [f"{name}: {what} {NO_RULE}" for what in dict.fromkeys(guessed(call))]
        written = sum(tensor.elements for tensor in computed)
        inputs = {(tensor.storage, tensor.offset, tensor.shape): tensor for tensor in call.reads}
        shared = sum(t.elements for t in inputs.values() if t.storage in self._parameters and kind != "embedding")
        read = sum(t.elements for t in inputs.values() if t.storage not in self._parameters) + shared
        read += written if kind == "embedding" else 0
        if not sampled or not has_samples(kind, written, self._batch):
            shared += written
        for tensor in computed:
            self._producer[tensor.storage] = name
            (self._sampled.add if sampled else self._sampled.discard)(tensor.storage)
        if self._recording.timed:
            backward = self._seconds_of(self._backward_calls(call)) if self._matched else None
            self._seconds.append((self._seconds_of([call]), backward))
        multiplies = kind in TENSOR_KINDS
        forward = product_flops(call) if multiplies else other_flops(call, kind)
        size = self._element_bytes
        return Operator(
            name=name,
            kind=kind,
            inputs=sources,
            dimensions=self._dimensions(call, kind, computed[0].shape, sampled),
            forward_flops=forward,
            backward_flops=self._backward(call, multiplies, forward),
            parameter_bytes=fresh * size,
            activation_bytes=written * size,
            parameters=fresh,
            forward_bytes=(read + written) * size,
            shared_bytes=shared * size,
            causal=kind == "attention" and is_causal(call),
        )

    def _backward(self, call: Call, multiplies: bool, forward: int) -> int:
        """Return the FLOPs of an operator's backward pass.

        Of products those of its backward calls, of others those of its forward pass if it has any; without numbers of
        autograd twice the forward FLOPs of products, and as many for others.
        """
        if not self._matched:
            return 2 * forward if multiplies else forward
        mine = self._backward_calls(call)
        return sum(product_flops(inner) for inner in mine) if multiplies else forward * bool(mine)

    def _backward_calls(self, call: Call) -> list[Call]:
        """Return the calls of the backward pass that belong to an operator."""
        return [
            inner
            for number in sorted(sequences(call))
            if self._owner[number] == call.id
            for inner in self._parts.backward.get(number, ())
        ]

    def _settle(self, call: Call) -> None:
        """Note which of the storages that a call reads are parameters."""
        for tensor in call.reads:
            earlier = tensor.storage in self._producer or tensor.storage in self._parameters
            if earlier or not tensor.floating or tensor.storage in self._statistics:
                continue
            unnamed = tensor.storage not in self._named and self._gradients[tensor.shape] > 0
            if unnamed or tensor.storage in self._named:
                self._gradients[tensor.shape] -= unnamed
                self._parameters[tensor.storage] = self._unused[tensor.storage] = tensor.elements

    def _first_used(self, call: Call) -> int:
        """Return the number of elements of parameters that a call reads and no earlier operator has used."""
        self._settle(call)
        return sum(self._unused.pop(tensor.storage, 0) for tensor in call.reads)

    def _dimensions(self, call: Call, kind: str, shape: tuple[int, ...], sampled: bool) -> dict[str, int]:
        """Return the named sizes of an operator with this output shape; ``sample`` only if it is ``sampled``."""
        dimensions = named_axes(kind, shape, self._batch if sampled else None)
        tensors = call.reads
        if kind == "attention" and len(tensors) >= 2 and min(len(t.shape) for t in tensors[:2]) >= 3:
            q, k = (heads_first(call.name, tensor.shape) for tensor in tensors[:2])
            heads = max(1, tensors[0].elements // (q[-1] * q[-2] * self._batch)) if tensors[0].elements else 1
            sizes = {"head": heads, "sequence": q[-2], "key_sequence": k[-2], "head_dim": q[-1]}
            if k[-3] < q[-3]:
                sizes["key_head"] = k[-3]
            dimensions = {"sample": self._batch, **sizes} if sampled else sizes
        elif kind == "conv" and len(tensors) >= 2:
            dimensions |= convolution_sizes(tensors[0].shape, tensors[1].shape, shape)
        elif kind in TENSOR_KINDS:
            _, cost = products(call)[-1]
            if kind == "experts":
                experts = [tensor.shape[0] for tensor in tensors if len(tensor.shape) == 3] or [shape[0]]
                return experts_dimensions(shape, self._batch if sampled else None, experts[-1], cost.summed)
            dimensions["in_channel"] = cost.summed
            if kind == "linear":
                dimensions["channel"] = shape[-1]
        return {name: size for name, size in dimensions.items() if size > 0}


def _begins_model(call: Call) -> bool:
    """Return whether a call is one of those with which networks begin: a product, or rows of a table."""
    return bool(product_flops(call)) or call.word == "embedding"


def _exchange_of_call(call: Call) -> TracedExchange:
    """Return the exchange that a communication call asks for: its kind by its name, its bytes by the tensors that it
    reads."""
    calls = list(walk([call]))
    kind = next((kind for inner in calls if (kind := kind_of_words(inner.name))), "unknown")
    nbytes = max((sum(tensor.nbytes for tensor in inner.reads) for inner in calls), default=0)
    seconds = seconds_of([call], on_device=False)
    return TracedExchange(kind, nbytes or None, seconds=seconds)
