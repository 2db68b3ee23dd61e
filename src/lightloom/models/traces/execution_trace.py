"""Execution traces as compute graphs: operators with FLOPs and bytes, as far as shapes in the trace tell.

    forward     calls of operators that no operator made, before the first gradient
    backward    calls of autograd; a sequence number says of which operator
    edges       the operator that last wrote to a tensor's storage before another reads it
    parameters  tensors that nothing in the trace wrote, and that got a gradient or are called weight or bias

    steps       one of them is read (``calls.py``)
    times       of the calls, and of the accelerator's work that they launch, where the trace holds them

What a trace does not record, and the graph therefore lacks, is listed in :attr:`TraceReading.unrecorded`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from lightloom.core.errors import WorkloadError
from lightloom.core.units import format_time
from lightloom.models.graph import TENSOR_KINDS, ComputeGraph, MeasuredTimes, Operator, has_samples, without_loss
from lightloom.models.norms import NormFinder
from lightloom.models.operator_words import NO_RULE, heads_first, plain_word
from lightloom.models.traces.calls import (
    BACKWARD,
    Call,
    Recording,
    StepParts,
    TraceStep,
    TraceTensor,
    cut_steps,
    exchange_of_call,
    guessed,
    is_causal,
    kind_of,
    made,
    named_parameters,
    named_sizes,
    other_flops,
    product_flops,
    products,
    read_calls,
    seconds_of,
    sequences,
    statistics,
)
from lightloom.models.traces.operators import HOST, KERNELS, TraceReading, exchange_notes, numbered


def with_whole_norms(calls: Sequence[Call]) -> list[Call]:
    """Return the calls of a forward pass in order, with the parts of each norm (mean, square, reciprocal root, products
    and so on) replaced by one call ``aten::rms_norm``, whichever norm it is, in the place of the last of them."""
    finder, merged = _Norms(calls), dict(enumerate(calls))
    for norm in finder.norms():
        for place in norm:
            del merged[place]
        merged[norm[-1]] = finder.as_call(norm)
    return [merged[place] for place in sorted(merged)]


class _Norms(NormFinder):
    """Finder of norms written in parts among the calls of a forward pass."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self.words = {place: plain_word(call.name) for place, call in enumerate(calls)}
        self.reads = {place: [_elements_of(tensor) for tensor in call.reads] for place, call in enumerate(calls)}
        sources: dict[int, list[int | None]] = {}
        readers: dict[int, set[int]] = {place: set() for place in self.words}
        producer: dict[int, int] = {}
        for place, call in enumerate(calls):
            sources[place] = [producer.get(tensor.storage) for tensor in call.reads]
            results = made(call)
            for source in sources[place] if results else ():  # views share what they are of
                if source is not None:
                    readers[source].add(place)
            producer.update((tensor.storage, place) for tensor in results)
        self.sources, self.readers = sources, readers

    def weighs(self, place: int, last: int) -> bool:
        """Return whether one of the first two tensors that the call at ``place`` reads holds one number for each
        channel (last axis) of what the call at ``last`` returns."""
        channels = self._calls[last].returns[0].shape[-1:]
        return any(t.shape[-1:] == channels and t.elements == channels[0] for t in self._calls[place].reads[:2])

    def joins(self, place: int) -> bool:
        """Return whether the call at ``place``, before a norm, can be a part of it: a cast, a mean, the subtraction of
        a mean, or an addition whose result has one axis, as of a weight that is stored minus 1."""
        return super().joins(place) or (self.words[place] == "add" and len(self._calls[place].returns[0].shape) == 1)

    def as_call(self, norm: Sequence[int]) -> Call:
        """Return one call ``aten::rms_norm``, whichever norm it is, that holds the parts, and reads what they read from
        outside.

        ``norm`` are the places of the parts in order; it returns what the last one does.
        """
        calls = [self._calls[place] for place in norm]
        reads = [
            tensor
            for place in norm
            for source, tensor in zip(self.sources[place], self._calls[place].reads, strict=True)
            if source not in norm
        ]
        last = calls[-1]
        return Call(last.id, "aten::rms_norm", last.schema, -1, reads, last.returns, [], calls=calls)


def _elements_of(tensor: TraceTensor) -> tuple[int, int, tuple[int, ...]]:
    """Return what tells tensors of the same elements: storage, offset and shape, whatever the strides."""
    return tensor.storage, tensor.offset, tensor.shape


LOSS_LEFT_OUT = "the loss is left out: plans price the cross entropy of the last outputs, as of a model without one"
"""Sentence on a step that ends in a loss."""


def read_execution_trace(path: Path, *, batch: int | None = None, step: int | None = None) -> TraceReading:
    """Return the graph of one forward pass, and of its backward pass where the trace holds one, with notes and
    exchanges.

    Args:
        path: the trace that ``ExecutionTraceObserver`` wrote, JSON, gzip or not.
        batch: number of samples in the trace; by default the first axis of the first tensor that is no parameter and
            that a product or a look-up reads, or else any other call.
        step: which step of the trace, as the profiler counts (``ProfilerStep#N``), or from 0 on where it marks none; by
            default the first one that has a backward pass, or else the first.

    Raises:
        ConfigError: unreadable, or not JSON.
        WorkloadError: no trace, a malformed one (names the node), one without operators or without samples that they
            read, or without that step.
    """
    return reading_of(read_calls(path), path, batch=batch, step=step)


def reading_of(
    recording: Recording, path: Path, *, batch: int | None = None, step: int | None = None, machine: str = ""
) -> TraceReading:
    """Return the graph of one step of the calls of a trace, with sentences on what the trace does not record, and its
    exchanges.

    Args:
        recording: the calls of the trace.
        path: of the trace, for names and messages.
        batch: number of samples in the trace; by default guessed from shapes.
        step: which step, as the profiler counts, or from 0 on where it marks none; by default the first one that has a
            backward pass, or else the first.
        machine: what the calls ran on, as the trace names it; empty where it names nothing.

    Raises:
        WorkloadError: no operator, no such step (the message lists them), or no samples that operators read.
    """
    if not (steps := cut_steps(recording.roots)):
        raise WorkloadError(f"{path}: holds no operator: expected calls such as aten::linear")
    chosen = _chosen_step(path, steps, step)
    parts = StepParts()
    for call in chosen.calls:
        parts.sort(call)
    if not parts.forward:
        raise WorkloadError(f"{path}: step {chosen.number} holds no operator: expected calls such as aten::linear")
    parts.forward = with_whole_norms(parts.forward)
    return _TraceGraph(path, parts, batch, recording, chosen, machine).reading(len(steps) - 1)


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
        """Return the graph, sentences on what the trace does not record, its exchanges, and the share of elements with
        gradients that are not found as parameters (0 where the trace does not tell); ``other_steps``, the number of
        steps that are left out, stands in a sentence.

        Exchanges are those that kernels of the recording carry out, or else its communication calls on the host.
        WorkloadError where no operator of the step computes a tensor.

        The loss is left out unless operators have measured times.
        """
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
        exchanges = self._recording.exchanges or tuple(
            exchange_of_call(call, seconds_of([call], on_device=False)) for call in self._parts.communication
        )
        loss = (LOSS_LEFT_OUT,) if len(kept) < len(operators) else ()
        notes = (*self._unrecorded(other_steps), *loss, *exchange_notes(exchanges))
        with_gradients = sum(tensor.elements for tensor in self._parts.gradients)
        not_found = 0.0
        if self._matched and with_gradients and not self._recording.outside:
            not_found = max(1 - sum(self._parameters.values()) / with_gradients, 0.0)
        return TraceReading(graph, notes, exchanges, not_found)

    def _measured(self) -> MeasuredTimes | None:
        """Return the measured seconds of all operators in the graph's order; None where the trace is not timed or all
        of them are 0. Backward times are None where autograd's numbers are missing."""
        if not self._recording.timed or not any(forward or backward for forward, backward in self._seconds):
            return None
        forward, backward = zip(*self._seconds, strict=True)
        clock = KERNELS if self._recording.on_device else HOST
        return MeasuredTimes(batch=self._batch, forward=forward, backward=backward, machine=self._machine, clock=clock)

    def _seconds_of(self, calls: Sequence[Call]) -> float:
        """Return the seconds of calls and all that they made: on the accelerator where the trace has timed it, else on
        the host."""
        return seconds_of(calls, on_device=self._recording.on_device)

    def _unmeasured(self) -> Iterator[str]:
        """Yield one sentence on where the measured time of the step is: in operators, the optimizer, communication,
        other calls."""
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
        """Yield lines on what the trace does not record, and what is assumed or left out instead; ``other_steps`` is
        the number of steps that are left out."""
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
        """Return the number of samples: the first axis of the first tensor read that is no parameter (none read as
        weight or bias, or of the shape of a gradient), tensors of products and look-ups first, then those that no
        forward call computed.

        Raises WorkloadError where no call reads such a tensor.
        """
        forward = self._parts.forward
        written = {tensor.storage for call in forward for tensor in made(call)}
        # What comes before the first product or look-up may move or prepare anything.
        first = [tensor for call in forward if product_flops(call) or call.word == "embedding" for tensor in call.reads]
        given = [tensor for call in forward for tensor in call.reads if tensor.storage not in written]
        for tensor in (*first, *given):
            if tensor.shape and tensor.storage not in self._named and not self._gradients[tensor.shape]:
                return max(1, tensor.shape[0])
        raise WorkloadError(
            f"{self._path}: no operator reads samples: expected the trace of a training step, whose first product or "
            "look-up reads them"
        )

    def _operator(self, call: Call) -> Operator | None:
        """Return the operator of a forward call, and note its results, parameters and times for those that follow; None
        for a call that computes no tensor, such as a view.

        Bytes count every element at the size that most floating results of the trace have. An embedding reads as many
        elements as it writes.
        """
        # Of a view too: who reads it reads the storage, which may be known as a parameter by what the view is of alone.
        self._settle(call)
        if not (computed := made(call)):
            return None
        fresh = sum(self._unused.pop(tensor.storage, 0) for tensor in call.reads)
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
        inputs = {_elements_of(tensor): tensor for tensor in call.reads}
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
        elements = (tensor.elements for tensor in (*call.reads, *call.returns))
        composed = kind == "dropout" and bool(call.calls)
        forward = product_flops(call) if multiplies else other_flops("elementwise" if composed else kind, elements)
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
        """Return the FLOPs of the backward pass of an operator, given the forward FLOPs of its ``call`` and whether it
        ``multiplies`` matrices.

        A product counts the products of its backward calls; any other operator as many as forward where it has such
        calls, else 0. A trace without autograd's numbers does not say which calls these are: a product then counts
        twice its forward FLOPs, any other operator as many as forward.
        """
        if not self._matched:
            return 2 * forward if multiplies else forward
        mine = self._backward_calls(call)
        return sum(product_flops(inner) for inner in mine) if multiplies else forward * bool(mine)

    def _backward_calls(self, call: Call) -> list[Call]:
        """Return the calls of the backward pass that belong to a forward call: those of the sequence numbers that no
        later call states."""
        return [
            inner
            for number in sorted(sequences(call))
            if self._owner[number] == call.id
            for inner in self._parts.backward.get(number, ())
        ]

    def _settle(self, call: Call) -> None:
        """Note which of the storages that a call reads are parameters: floating ones that nothing computed, and that
        are named weight or bias or are of the shape of a gradient left unclaimed, which they claim. Running statistics
        are none."""
        for tensor in call.reads:
            earlier = tensor.storage in self._producer or tensor.storage in self._parameters
            if earlier or not tensor.floating or tensor.storage in self._statistics:
                continue
            unnamed = tensor.storage not in self._named and self._gradients[tensor.shape] > 0
            if unnamed or tensor.storage in self._named:
                self._gradients[tensor.shape] -= unnamed
                self._parameters[tensor.storage] = self._unused[tensor.storage] = tensor.elements

    def _dimensions(self, call: Call, kind: str, shape: tuple[int, ...], sampled: bool) -> dict[str, int]:
        """Return the named sizes of an operator with this output ``shape``: its axes, and what its call sums over;
        ``sample`` only if it is ``sampled``, that is depends on the samples."""
        factors = [heads_first(call.name, tensor.shape) for tensor in call.reads]
        multiplied = products(call) if kind in TENSOR_KINDS else []
        summed = multiplied[-1][1].summed if multiplied else None
        # Of attention, leading axes hold the samples even where it is told to depend on none: the others are heads.
        sizes = named_sizes(kind, shape, self._batch if sampled or kind == "attention" else None, factors, summed)
        return {name: size for name, size in sizes.items() if sampled or name != "sample"}
