"""Work and seconds of operators: of the passes of one graph, and of many strategies at once as columns.

Layers repeat, so that few operators differ in anything but their place. :meth:`OperatorColumns.alike` keeps one of each
sort, and a stage is then a sum over sorts, each as often as the stage has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.machines.accelerators.accelerator import ELEMENT_BYTES, PRECISIONS, Accelerator, Precision, Work
from lightloom.machines.accelerators.kernels import KernelKind, KernelShapes
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Attention
from lightloom.models.graph import TENSOR_KINDS, ComputeGraph, MeasuredTimes, Operator, has_samples
from lightloom.planning.parallelism.tensor_parallel import ExpertSplit, TensorSplit, key_value_elements

# The loss of a model that was traced without one: what reads its logits, and the memory that this takes.

FLOAT32_COPIES = 3
"""Float32 values for each logit at the worst moment of PyTorch's cross entropy, when its backward pass begins: the
log-softmax that is kept, the gradient of the negative log-likelihood, and the gradient of the log-softmax. The logits
themselves stay beside them in the format of the arithmetic."""


def logits_of(operators: Sequence[Operator]) -> Operator | None:
    """Return the operator whose outputs a cross entropy reads: the last of ``operators``, if it is a linear layer;
    else, and without operators, None.

    Models are traced without their loss: where the last operator is a linear layer, its outputs are taken for logits
    (an assumption).
    """
    return operators[-1] if operators and operators[-1].kind == "linear" else None


def bytes_of_logit(element_bytes: int) -> int:
    """Return the bytes that the loss holds for each logit at its worst moment: the logit itself, of ``element_bytes``,
    and :data:`FLOAT32_COPIES` (3) copies of 4 bytes."""
    return element_bytes + 4 * FLOAT32_COPIES


def loss_bytes(graph: ComputeGraph) -> float:
    """Return the bytes that the cross entropy of all logits of a graph's batch holds at its worst moment, at the
    graph's own element size; 0 where the last operator is not a linear layer, as in a graph that has its loss."""
    logits = logits_of(graph.operators)
    if logits is None:
        return 0.0
    return logits.activation_bytes / graph.element_bytes * bytes_of_logit(graph.element_bytes)


# The kernels of a graph's operators: shapes of their products, how a split divides them, how many are launched.
#
# linear, convolution, experts    m from the FLOPs, n and k from the dimensions; each expert, each group
# matmul, attention               m, n and k from the dimensions, the number from the FLOPs
# column-parallel                 n / tp, up        row-parallel      k / tp
# sliced products, attention      products / tp        sequence slices   m / tp
# expert-parallel                 products / ep, m · ep

_KERNEL_SIZES = ("kernel_height", "kernel_width", "kernel_length", "kernel_depth")
_NARROW = frozenset({"linear", "experts"})
"""Kinds whose products a job in FP8 computes in it; attention and the layer of the logits are left as they are."""
_LAUNCHES: Mapping[str, tuple[int, int]] = {
    "input": (0, 0),
    **dict.fromkeys(("linear", "conv"), (1, 3)),
    **dict.fromkeys(("experts", "matmul", "norm", "batch_norm"), (1, 2)),
    "loss": (2, 2),
}
"""Kernels of an operator forward and backward, where not one each: gradients of input, weights and bias."""
_ATTENTION_LAUNCHES: Mapping[Attention, tuple[int, int]] = {"flash": (1, 3), "unfused": (4, 6)}


class Divisors(NamedTuple):
    """By how much a rank's share of each product is smaller: [rows, operators] or 1."""

    m: Floats | float = 1.0
    n: Floats | float = 1.0
    k: Floats | float = 1.0
    products: Floats | float = 1.0


class _Shape(NamedTuple):
    kind: KernelKind
    m: int = 0
    n: int = 1
    k: int = 1
    products: int = 1
    repeats: int = 1


_LAUNCHED = ("launched_forward", "launched_backward")
KERNEL_COLUMNS = (*(f"kernel_{name}" for name in (*_Shape._fields, "narrow", "losses")), *_LAUNCHED)
"""Columns of shape [operators] that :func:`kernel_columns` returns beside ``kernel_visible``; 0 in ``kernel_m`` or
``kernel_products`` means that it follows from the FLOPs."""


def kernel_columns(operators: tuple[Operator, ...], attention: Attention) -> dict[str, Ints]:
    """Return the kernels of operators as columns of int64, by name, each [operators]: those of :data:`KERNEL_COLUMNS`
    (``kernel_kind``, ``kernel_m``, ``kernel_n``, ``kernel_k``, ``kernel_products`` and ``kernel_repeats`` as of
    :class:`KernelShapes`; ``kernel_narrow``, 1 for layers that a job in FP8 computes in it (linear and expert ones, but
    not that of the logits); ``kernel_losses``, 1 for the layer of the logits; ``launched_forward`` and
    ``launched_backward``, kernels of a pass), and ``kernel_visible``, the visible share of attention scores, its
    float64 bits as integers. Sizes are undivided; 0 in ``kernel_m`` or ``kernel_products`` means that FLOPs tell it,
    and ``kernel_kind`` has the numbers of ``KernelKind``.

    Args:
        operators: all operators of a graph, in its order.
        attention: whether attention runs as one kernel (``flash``) or as products and a softmax (``unfused``).
    """
    logits = logits_of(operators)
    rows = [
        (
            *_shape(operator, attention),
            int(operator.kind in _NARROW and operator is not logits),
            int(operator is logits),
            *(_ATTENTION_LAUNCHES[attention] if operator.kind == "attention" else _LAUNCHES.get(operator.kind, (1, 1))),
        )
        for operator in operators
    ]
    table = np.array(rows, np.int64).reshape(-1, len(KERNEL_COLUMNS))
    visible = np.array([operator.visible_scores for operator in operators], np.float64)
    return {**dict(zip(KERNEL_COLUMNS, table.T, strict=True)), "kernel_visible": visible.view(np.int64)}


def kernel_shapes(
    columns: Mapping[str, Ints], flops: Floats, repetition: Floats, element_bytes: int, divisors: Divisors
) -> tuple[KernelShapes, KernelShapes]:
    """Return two sets of kernel shapes, of the forward and of the backward pass, [rows, operators]: the same sizes, the
    first with one forward product, the second with the gradients of input and weights in its place. Sizes are divided
    by the divisors, n rounded up, the others and the number of products left as fractions; an m or number of products
    of 0 is found from the FLOPs, which are 2 (of attention 4) for each m · n · k of every product.

    Args:
        columns: those of :func:`kernel_columns`.
        flops: FLOPs of the forward passes, undivided, [rows, operators], a row for each strategy.
        repetition: FLOPs of the backward pass for each of the forward pass, [rows, operators]: of it up to 1 makes the
            gradient of the weights, and what is above 1 that of the input.
        element_bytes: bytes of one element.
        divisors: how the products are divided among ranks.
    """
    kind, n, k = columns["kernel_kind"], columns["kernel_n"], columns["kernel_k"]
    is_attention = (kind == KernelKind.FLASH) | (kind == KernelKind.UNFUSED)
    known = n * k * np.maximum(columns["kernel_m"], 1) * np.maximum(columns["kernel_products"], 1)
    derived = flops / (np.where(is_attention, 4.0, 2.0) * known)
    m = np.where(columns["kernel_m"] == 0, derived, columns["kernel_m"]) / divisors.m
    products = np.where(columns["kernel_products"] == 0, derived, columns["kernel_products"]) / divisors.products
    none = np.zeros_like(flops)
    forward = KernelShapes(
        kind=kind,
        m=m,
        # Columns that the ranks do not divide are padded, as those of a vocabulary: each rank has as many whole ones.
        n=np.ceil(n / divisors.n) + none,
        k=k / divisors.k + none,
        products=products,
        repeats=columns["kernel_repeats"] + none,
        forward=none + 1.0,
        input_gradient=none,
        weight_gradient=none,
        visible=columns["kernel_visible"].view(np.float64),
        narrow=columns["kernel_narrow"],
        losses=columns["kernel_losses"],
        element_bytes=element_bytes,
    )
    backward = forward._replace(
        forward=none, input_gradient=np.maximum(repetition - 1.0, 0.0), weight_gradient=np.minimum(repetition, 1.0)
    )
    return forward, backward


def dispatch_times(columns: Mapping[str, Ints], accelerator: Accelerator) -> tuple[Floats, Floats]:
    """Return the seconds in which the host launches each operator's kernels in the forward and in the backward pass,
    each [operators]; the number of kernels times what the accelerator's kernel model takes for one; 0 on an accelerator
    without a kernel model.

    The sum over all operators of a pass bounds its duration from below. ``columns`` are those of
    :func:`kernel_columns`.
    """
    seconds = 0.0 if accelerator.kernels is None else accelerator.kernels.dispatch
    forward, backward = (columns[name].astype(np.float64) for name in _LAUNCHED)
    return seconds * forward, seconds * backward


def passes(
    times: tuple[Floats, Floats], launches: tuple[Floats, Floats], repeated: Ints | Floats
) -> tuple[Floats, Floats]:
    """Return the seconds that each operator takes in the forward and in the backward pass, each [..., operators].

    The backward pass includes what is recomputed, seconds and launches. A pass that ends before the host has launched
    its kernels is stretched evenly until then.

    Args:
        times: seconds of each operator forward and backward, each [..., operators].
        launches: seconds in which the host launches each operator forward and backward (:func:`dispatch_times`).
        repeated: how often each operator's forward pass is repeated in the backward pass, 0 or 1: [..., operators].
    """
    (forward, backward), (launched, launched_back) = times, launches
    return stretched(forward, launched), stretched(backward + repeated * forward, launched_back + repeated * launched)


def stretched(times: Floats, launches: Floats) -> Floats:
    """Return the seconds of the operators of one pass [..., operators], all longer in one proportion where launching
    all of them takes the host longer than computing; else as they are.

    ``launches`` [..., operators] are the seconds in which the host launches each operator.
    """
    busy, least = times.sum(axis=-1, keepdims=True), launches.sum(axis=-1, keepdims=True)
    longer: Floats = times * np.maximum(np.divide(least, busy, out=np.ones_like(busy), where=busy > 0), 1.0)
    return longer


def _shape(operator: Operator, attention: Attention) -> _Shape:
    """Return the kind, sizes m, n and k, and number of the products of an operator; 0 for ``m`` or ``products`` means
    that FLOPs tell, and ``repeats`` is the number of positions of a convolution's kernel, else 1.

    Of attention m, n and k are queries, keys and the size of a head; of layers n and k the output and input channels,
    and the products the experts; of convolutions those of one group, k times the kernel's positions, and the products
    the groups; of products of two activations the last two dimensions and the summed one. ``m`` is 0 for layers and
    convolutions, and ``products`` for attention and products of two activations. Attention of unknown sizes is of kind
    ``FLASH`` with sizes of 1. Recurrent operators, and those without stated channels, are of kind ``ARITHMETIC``,
    operators without products ``MEMORY``.
    """
    sizes = operator.dimensions
    if operator.kind not in TENSOR_KINDS:
        return _Shape(KernelKind.MEMORY)
    channels, summed = sizes.get("channel", 0), sizes.get("in_channel", 0)
    if operator.kind == "attention":
        # Of unknown sizes it is taken to be computed in one kernel, whose time its FLOPs alone determine.
        names = ("sequence", "key_sequence", "head_dim")
        unfused = attention == "unfused" and sizes.keys() >= set(names)
        m, n, k = (sizes.get(name, 1) for name in names)
        return _Shape(KernelKind.UNFUSED if unfused else KernelKind.FLASH, m=m, n=n, k=k, products=0)
    if operator.kind == "matmul" and summed:
        *_, m, n = (1, 1, *(size for name, size in sizes.items() if name != "in_channel"))
        weights = operator.parameters > 0
        return _Shape(KernelKind.PRODUCT, m=0 if weights else m, n=n, k=summed, products=weights)
    if operator.kind == "recurrent" or not channels or not summed:
        return _Shape(KernelKind.ARITHMETIC)
    if operator.kind == "conv":
        groups, positions = sizes.get("groups", 1), prod(sizes.get(name, 1) for name in _KERNEL_SIZES)
        depth = max(summed // groups, 1) * positions
        return _Shape(KernelKind.PRODUCT, n=max(channels // groups, 1), k=depth, products=groups, repeats=positions)
    return _Shape(KernelKind.PRODUCT, n=channels, k=summed, products=sizes.get("expert", 1))


# Measured seconds of operators in place of priced ones, for any batch, split and accelerator.
#
# seconds = priced(plan) · measured / priced(trace)
#
# ``priced(trace)`` is the price of the operator as the trace computed it: its batch, undivided, on the accelerator
# and in the number format of the trace, or on those of the plan where the trace names no accelerator. A plan that
# computes as the trace did takes the measured seconds; any other takes them scaled as the price changes. An operator
# without a price (a trace that states durations alone) takes its measured seconds in proportion to its samples.

MEASURED_COLUMNS = ("measured_forward", "measured_backward")
"""Columns of measured seconds at the trace's batch, as the integer bits of float64; NaN where none are."""


def machine_of(
    measured: MeasuredTimes, accelerator: Accelerator, precision: Precision
) -> tuple[Accelerator, Precision]:
    """Return the accelerator and the number format that times were measured with; those of the plan (the other
    arguments) where the trace names no accelerator.

    The trace gives its accelerator by name, which is looked up in the catalog, else read as a file. A format that the
    measured accelerator does not have is replaced by the plan's, else by the first that it has. A measured accelerator
    of the same chip as the plan's is replaced by the plan's, with its calibration.

    Raises:
        UnknownNameError: the accelerator of the trace is neither in the catalog nor a file (ConfigError: a file that
            cannot be read).
    """
    if measured.accelerator is None:
        return accelerator, precision
    machine = _load_measured_machine(measured.accelerator)
    machine = accelerator if machine.chip == accelerator.chip else machine
    fallback = precision if precision in machine.peak else next(iter(machine.peak))
    known = (name for name in PRECISIONS if name == measured.precision and name in machine.peak)
    return machine, next(known, fallback)


_load_measured_machine = lru_cache(maxsize=8)(load_accelerator)


def scaled(priced: Floats, measured: Floats, reference: Floats, share: Floats) -> Floats:
    """Return the seconds of operators for a plan, measured ones scaled to it where there are, else priced ones:
    [rows, operators].

    Measured seconds are multiplied by ``priced / reference``, the change of the price from the trace to the plan; where
    the reference is 0, by ``share``.

    Args:
        priced: by the model, for the plan: [rows, operators].
        measured: in the trace, NaN where none are: [operators].
        reference: by the model, for the trace: [operators].
        share: part of the trace's samples and tokens that a rank of the plan has: [rows, operators].
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        corrected = np.where(reference > 0, priced * (measured / reference), measured * share)
    return np.where(np.isnan(measured), priced, corrected)


_COUNTS = ("forward_flops", "backward_flops", "parameters", "activation_bytes", "forward_bytes", "shared_bytes")
_SPLIT = ("divided", "sliced", "sequenced", "forward", "backward", "gathered")
_EXPERTS = ("held", "dispatch", "combine")


def repetition(forward_flops: Floats, backward_flops: Floats, is_input: Ints) -> Floats:
    """Return how many times the work of an operator's forward pass its backward pass does, in the shape of the FLOPs:
    the ratio of backward to forward FLOPs, taken for bytes too (an assumption).

    The two gradients of a product make it 2. An operator without forward FLOPs has 1, an input of the model
    (``is_input`` 1) has 0.
    """
    unrelated = np.broadcast_to(1.0 - is_input, forward_flops.shape).copy()
    return np.divide(backward_flops, forward_flops, out=unrelated, where=forward_flops > 0)


def graph_times(
    graph: ComputeGraph, accelerator: Accelerator, precision: Precision, attention: Attention = "flash"
) -> tuple[Floats, Floats]:
    """Return the seconds of every operator of a graph in the forward and in the backward pass, each [operators], on one
    undivided rank, for the graph's own batch and element size, without the host's launches; measured ones, scaled to
    this accelerator, where the graph has them.

    Raises:
        UnsupportedError: the accelerator has no rate for the precision.
    """
    return times_and_launches(graph, accelerator, precision, attention)[0]


def times_and_launches(
    graph: ComputeGraph, accelerator: Accelerator, precision: Precision, attention: Attention = "flash"
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return two pairs (forward, backward) of arrays [operators]: the seconds of every operator on one undivided rank,
    and the seconds in which the host launches its kernels.

    Seconds are for the graph's own batch and element size; measured ones, scaled to this accelerator, take the place of
    priced ones where the graph has them.

    Raises:
        UnsupportedError: the accelerator has no rate for the precision.
    """
    none, one = np.zeros(len(graph.operators), np.bool_), np.ones(1, np.int64)
    split, experts = TensorSplit(none, none, none, none, 1, none, 1, none), ExpertSplit(none, none, none, 1)
    columns = operator_columns(graph, split, experts, graph.element_bytes, attention)
    forward, backward = columns.times(accelerator, precision, one * graph.batch, one)
    return (forward[0], backward[0]), dispatch_times(columns.values, accelerator)


@dataclass(frozen=True)
class OperatorColumns:
    """Columns of shape [operators], at the graph's own batch and element size."""

    values: Mapping[str, Ints]
    """The counts of :class:`~lightloom.models.graph.Operator`; ``read_bytes`` of the first input, and which of them
    grow with the batch; the masks of :class:`TensorSplit` and :class:`ExpertSplit` as 0 and 1."""
    batch: int
    stored_bytes: int
    """Bytes of an element in the graph."""
    element_bytes: int
    """Bytes of an element as the job computes."""
    measured: MeasuredTimes | None = None
    """Where times were measured: their batch and machine; the seconds are columns."""

    def __getitem__(self, name: str) -> Ints:
        """Return the column of a name: [operators]."""
        return self.values[name]

    def where(self, name: str) -> Ints:
        """Return the positions of the operators for which the mask column ``name`` is not 0, ascending."""
        return np.flatnonzero(self.values[name])

    def outputs(self, samples: Ints, cp: Ints | None = None) -> Floats:
        """Return the bytes of every operator's output in the job's format, undivided by the tensor degree: [rows,
        operators]; outputs that do not grow with the batch stay as they are in the graph.

        Args:
            samples: samples of a micro-batch, in place of the graph's batch: [rows].
            cp: slices of the sequence, of which a rank has one: [rows]; None for whole sequences.
        """
        return self._bytes(self._scaled("activation_bytes", "output_sampled", samples, cp))

    def kept(self, samples: Ints, cp: Ints | None = None) -> Floats:
        """Return the bytes that every operator keeps for the backward pass, in the job's format, but index tensors at
        their own element size, undivided by the tensor degree: [rows, operators].

        A rank has ``samples`` [rows] samples, and of each one of ``cp`` [rows] slices of the tokens (None: all of
        them).
        """
        elements = self._scaled("saved_sampled_bytes", "sampled", samples, cp) + self["saved_shared_bytes"]
        return self._bytes(elements) + self._scaled("saved_index_bytes", "sampled", samples, cp)

    def regenerated(self, samples: Ints, cp: Ints | None = None) -> Floats:
        """Return the bytes, in the job's format, that the model's own checkpointed regions make again in the backward
        pass, by operator and undivided by the tensor degree: [rows, operators].

        A rank has ``samples`` [rows] samples, and of each one of ``cp`` [rows] slices of the tokens (None: all of
        them).
        """
        elements = self._scaled("recomputed_sampled_bytes", "sampled", samples, cp) + self["recomputed_shared_bytes"]
        return self._bytes(elements)

    def inputs(self, samples: Ints, cp: Ints | None = None) -> Floats:
        """Return the bytes, in the job's format, of every operator's first input, undivided by the tensor degree:
        [rows, operators]; for operators without inputs those of the first operator's output.

        A rank has ``samples`` [rows] samples, and of each one of ``cp`` [rows] slices of the tokens (None: all of
        them).
        """
        return self._bytes(self._scaled("read_bytes", "read_sampled", samples, cp))

    def key_value_bytes(self, samples: Ints, tp: Ints, cp: Ints) -> Floats:
        """Return the bytes, in the job's format, of the keys and values together of a rank's own tokens and heads, for
        ``samples`` [rows] samples divided by both degrees, ``tp`` and ``cp`` [rows]: [rows, operators]; 0 for operators
        other than attention."""
        return self["key_values"] * samples[:, None] / (self.batch * tp * cp)[:, None] * self.element_bytes

    def times(
        self,
        accelerator: Accelerator,
        precision: Precision,
        samples: Ints,
        tp: Ints,
        *,
        sequence_parallel: Mask | None = None,
        ep: Ints | None = None,
        cp: Ints | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the seconds that a rank takes for every operator in the forward and in the backward pass, each
        [rows, operators], without the host's launches (:func:`dispatch_times`).

        Operators that the tensor split divides do 1/tp of the work. Measured seconds, scaled to the plan, take the
        place of priced ones where the graph has them.

        Args:
            accelerator: what a rank computes on.
            precision: number format of the arithmetic.
            samples: samples of a micro-batch, in place of the graph's batch: [rows].
            tp: tensor-parallel degree: [rows].
            sequence_parallel: True where operators between the split layers are divided by tp as well: [rows]; None for
                nowhere.
            ep: expert-parallel degree: [rows], None for 1. A rank reads the weights of its own experts only, and has ep
                times the tokens for each.
            cp: context-parallel degree: [rows], None for 1. A rank has one slice of the tokens.

        Raises:
            UnsupportedError: the accelerator has no rate for the precision.
        """
        works = self.work(accelerator, samples, tp, sequence_parallel=sequence_parallel, ep=ep, cp=cp)
        forward, backward = (accelerator.operator_times(work, precision) for work in works)
        if self.measured is None:
            return forward, backward
        part = samples[:, None] / (self.measured.batch * (1 if cp is None else cp[:, None]))
        return self.corrected((forward, backward), accelerator, precision, np.where(self["sampled"] == 1, part, 1.0))

    def corrected(
        self, times: tuple[Floats, Floats], accelerator: Accelerator, precision: Precision, share: Floats, *at: Ints
    ) -> tuple[Floats, Floats]:
        """Return seconds forward and backward with measured ones, scaled to the plan, in place of priced ones
        (:func:`scaled`); the columns must have measured seconds.

        Args:
            times: seconds by the model for the plan, forward and backward.
            accelerator: what a rank of the plan computes on.
            precision: number format of the plan's arithmetic.
            share: part of the trace's samples and tokens that a rank has, in the shape of the times.
            at: at most one array: positions of the operators that the last axis of ``times`` stands for; without it all
                operators in order.
        """
        assert self.measured is not None
        # By the model and undivided, at the batch and on the machine of the measurement.
        machine, measured_precision = machine_of(self.measured, accelerator, precision)
        traced = replace(self, measured=None, element_bytes=ELEMENT_BYTES[measured_precision])
        one = np.ones(1, np.int64)
        references = traced.times(machine, measured_precision, one * self.measured.batch, one)
        forward, backward = (
            scaled(priced, self[name].view(np.float64)[at or ...], reference[0][at or ...], share)
            for priced, name, reference in zip(times, MEASURED_COLUMNS, references, strict=True)
        )
        return forward, backward

    def work(
        self,
        accelerator: Accelerator,
        samples: Ints,
        tp: Ints,
        *,
        sequence_parallel: Mask | None = None,
        ep: Ints | None = None,
        cp: Ints | None = None,
    ) -> tuple[Work, Work]:
        """Return two amounts of work of a rank, in the forward and in the backward pass: FLOPs and bytes moved [rows,
        operators], in the job's format, and the kernels where the accelerator has a model of them. Bytes of the
        backward pass are those of the forward pass times the ratio of backward to forward FLOPs (:func:`repetition`).

        Args:
            accelerator: what a rank computes on; only whether it has a kernel model counts.
            samples: samples of a micro-batch, in place of the graph's batch: [rows].
            tp: tensor-parallel degree, which divides the work of divided operators: [rows].
            sequence_parallel: True where operators between the split layers are divided by tp as well: [rows]; None for
                nowhere.
            ep: expert-parallel degree: [rows], None for 1; it divides the bytes of experts' weights.
            cp: context-parallel degree: [rows], None for 1; it divides the tokens.
        """
        share = np.where(self["divided"], tp[:, None], 1)
        if sequence_parallel is not None and sequence_parallel.any():
            share = np.where(self["sequenced"] & sequence_parallel[:, None], tp[:, None], share)
        flops = self._scaled("forward_flops", "sampled", samples, cp).astype(np.float64)
        backward_flops = self._scaled("backward_flops", "sampled", samples, cp).astype(np.float64)
        shared = self["shared_bytes"]
        nbytes = self._bytes(self._scaled("moved_bytes", "sampled", samples, cp) + shared)
        if ep is not None and (ep > 1).any():
            nbytes -= self._bytes(np.where(self["held"], shared, 0)) * (1 - 1 / ep[:, None])
        times = repetition(flops, backward_flops, self["is_input"])
        narrow = self["kernel_narrow"]
        forward = Work(flops / share, nbytes / share, narrow=narrow)
        backward = Work(backward_flops / share, nbytes * times / share, narrow=narrow)
        if accelerator.kernels is not None:
            divisors = self._divisors(share, tp, np.ones_like(tp) if ep is None else ep)
            kernels = kernel_shapes(self.values, flops, times, self.element_bytes, divisors)
            forward, backward = forward._replace(kernels=kernels[0]), backward._replace(kernels=kernels[1])
        return forward, backward

    def _divisors(self, share: Ints, tp: Ints, ep: Ints) -> Divisors:
        """Return the divisors of the sizes of a rank's products against the graph's, each [rows, operators].

        n is divided by tp for layers with weights that the tensor group divides, for row-parallel ones k instead; the
        number of products by tp for its other operators, and for convolutions of at least as many groups and a kernel
        of several positions; m by the share for operators that it does not divide but cuts along the sequence. For
        experts that an expert group divides, the number of products is divided by ep, and the m of each multiplied by
        it (its divisor is 1 / ep).

        Args:
            share: factor by which a rank's FLOPs are smaller, tp or 1: [rows, operators].
            tp: tensor-parallel degree: [rows].
            ep: expert-parallel degree: [rows].
        """
        divided, one = self["divided"] == 1, np.ones_like(share)
        grouped = (self["kernel_repeats"] > 1) & (self["kernel_products"] >= np.maximum(tp, 2)[:, None])
        weights = divided & (self["weighted"] == 1) & ~grouped
        by_rows = weights & (self["forward"] == 1)
        held = self["held"] == 1
        return Divisors(
            m=np.where(divided, one, share) / np.where(held, ep[:, None], 1),
            n=np.where(weights & ~by_rows, tp[:, None], one),
            k=np.where(by_rows, tp[:, None], one),
            products=np.where(divided & ~weights, tp[:, None], one) * np.where(held, ep[:, None], 1),
        )

    def alike(self) -> tuple[OperatorColumns, Ints]:
        """Return the columns with one operator of each sort (operators whose columns are all equal), and the number of
        operators of each sort before every operator and, last, of all: [operators + 1, sorts]."""
        _, first, sort = np.unique(np.stack([*self.values.values()]), axis=1, return_index=True, return_inverse=True)
        before = np.zeros((sort.size + 1, len(first)), np.int64)
        np.cumsum(sort.reshape(-1, 1) == np.arange(len(first)), axis=0, out=before[1:])
        return replace(self, values={name: column[first] for name, column in self.values.items()}), before

    def _scaled(self, counts: str, grows: str, samples: Ints, cp: Ints | None = None) -> Ints:
        """Return the column ``counts`` for ``samples`` [rows] in the place of the graph's batch, of one of ``cp``
        [rows] slices of their tokens: in proportion, rounded up as ``ComputeGraph.with_batch`` does, where the mask
        ``grows`` is set, else unchanged: [rows, operators]."""
        if cp is None and (samples == self.batch).all():
            return np.tile(self[counts], (len(samples), 1))
        whole = self.batch if cp is None else self.batch * cp[:, None]
        return np.where(self[grows] == 1, -(-self[counts] * samples[:, None] // whole), self[counts])

    def _bytes(self, stored: Ints) -> Floats:
        """Return the bytes in the job's format of elements that take ``stored`` bytes in the graph, in its shape."""
        return (stored // self.stored_bytes * self.element_bytes).astype(np.float64)


def operator_columns(
    graph: ComputeGraph, split: TensorSplit, experts: ExpertSplit, element_bytes: int, attention: Attention = "flash"
) -> OperatorColumns:
    """Return the columns of a graph's operators at its own batch, by name, each [operators] of int64: bytes, FLOPs and
    parameters, masks (0 or 1) of how a tensor and an expert group divide them, what they move and keep for the backward
    pass, their kernels, and the measured seconds (float64 bits as integers) where the graph has them.

    Args:
        graph: the whole model.
        split: the graph's division among a tensor group.
        experts: the graph's division among an expert group.
        element_bytes: bytes of an element in the format of the job's arithmetic.
        attention: how attention is computed, ``flash`` or ``unfused``.
    """
    operators = graph.operators
    columns = {name: np.array([getattr(operator, name) for operator in operators], np.int64) for name in _COUNTS}
    elements = columns["activation_bytes"] // graph.element_bytes
    sampled = np.array(["sample" in operator.dimensions for operator in operators], np.bool_)
    output = [has_samples(operator.kind, int(n), graph.batch) for operator, n in zip(operators, elements, strict=True)]
    position = {operator.name: index for index, operator in enumerate(operators)}
    source = np.array([position[operator.inputs[0]] if operator.inputs else 0 for operator in operators], np.int64)
    masks = {name: getattr(split, name) for name in _SPLIT} | {name: getattr(experts, name) for name in _EXPERTS}
    masks |= {"sampled": sampled, "output_sampled": sampled & np.array(output, np.bool_)}
    masks |= {"is_input": np.array([operator.kind == "input" for operator in operators], np.bool_)}
    masks["read_sampled"] = masks["output_sampled"][source]
    masks["weighted"] = np.array([operator.kind in ("linear", "experts", "conv") for operator in operators], np.bool_)
    moved, read = columns["forward_bytes"] - columns["shared_bytes"], columns["activation_bytes"][source]
    columns |= _kept_columns(graph, masks["output_sampled"])
    columns |= {"moved_bytes": moved, "read_bytes": read, "key_values": key_value_elements(graph)}
    columns |= kernel_columns(operators, attention)
    if graph.measured is not None:
        for name, seconds in zip(MEASURED_COLUMNS, (graph.measured.forward, graph.measured.backward), strict=True):
            columns[name] = np.array(seconds, np.float64).view(np.int64)
    columns |= {name: mask.astype(np.int64) for name, mask in masks.items()}
    return OperatorColumns(columns, graph.batch, graph.element_bytes, element_bytes, graph.measured)


def _kept_columns(graph: ComputeGraph, output_sampled: Mask) -> dict[str, Ints]:
    """Return the bytes that operators keep for the backward pass or make again in it, at the graph's own batch and
    element size, as columns by name, each [operators].

    They are ``saved_sampled_bytes`` and ``recomputed_sampled_bytes``, which grow with the batch, ``saved_shared_bytes``
    and ``recomputed_shared_bytes``, which do not, and ``saved_index_bytes`` (masks, indices, statistics in float32: a
    size that does not follow the element size). Where the graph does not tell what is kept, it is the output, which
    grows with the batch where ``output_sampled`` [operators] says so.
    """
    rows: list[tuple[int, ...]] = []
    for operator, sampled in zip(graph.operators, output_sampled.tolist(), strict=True):
        shared = operator.recomputed_shared_bytes
        recomputed = operator.recomputed_bytes - shared, shared
        rows.append((*operator.saved_parts(output_sampled=sampled), operator.saved_index_bytes, *recomputed))
    parts = "saved_sampled", "saved_shared", "saved_index", "recomputed_sampled", "recomputed_shared"
    names = [f"{part}_bytes" for part in parts]
    return dict(zip(names, np.array(rows, np.int64).reshape(-1, len(names)).T, strict=True))


# Parts of operators as operators of their own, for columns of parts at once.
#
# cut along            of a product [m, k] by [k, n]    reads of its input        weights      writes
# sample               m, as a smaller batch has        its slice                 all          its slice
# other positions      m                                its slice; attention all  all          its slice
# channel              n, or groups of a convolution    all, or its own groups    its slice    its slice
# in_channel           k                                its slice                 its slice    all, as a summand
# head                 how many                         its slice                 –            its slice
#
# A part takes as long as its own shape does: weights that it holds a copy of are read whole, and tiles of a small
# product fill few compute units. A part of some samples is the operator of a batch of so many.

ROWS, COLUMNS, DEPTH, OTHERS = range(4)
"""Which sizes of an operator's products a cut changes: m where the graph states it, n, k, or what FLOPs tell."""


class Parts(NamedTuple):
    """Parts of operators: columns of shape [parts]."""

    operator: Ints
    """Place of the operator among the columns."""
    samples: Ints
    """Samples of the whole operator, or of the part where samples are cut."""
    shape: Ints
    """One of :data:`ROWS`, :data:`COLUMNS`, :data:`DEPTH` and :data:`OTHERS`."""
    size: Ints
    """Elements of the dimension that is cut; 1 where samples are."""
    slice: Ints
    """Elements of it that the part has; 1 where samples are cut."""
    reads_all: Mask
    """True when the part reads all of the operator's input."""
    copies: Mask
    """True when the part reads all of the operator's weights."""
    sums: Mask
    """True when the part writes summands of all outputs."""


def part_times(
    columns: OperatorColumns, accelerator: Accelerator, precision: Precision, parts: Parts
) -> tuple[Floats, Floats]:
    """Return the seconds of parts of operators (each given by the position of its operator, its samples, and its slice
    of the dimension that is cut) in the forward and in the backward pass, without the host's launches, each [parts];
    measured seconds, scaled to each part, take the place of priced ones where the columns have them."""
    one = np.ones(1, np.int64)
    shaped = replace(columns, values=_part_columns(columns, parts), measured=None)
    forward, backward = (seconds[0] for seconds in shaped.times(accelerator, precision, one, one))
    if columns.measured is None:
        return forward, backward
    sampled = np.where(columns["sampled"][parts.operator] == 1, parts.samples / columns.measured.batch, 1.0)
    share = sampled * parts.slice / parts.size
    return columns.corrected((forward, backward), accelerator, precision, share, parts.operator)


def _part_columns(columns: OperatorColumns, parts: Parts) -> dict[str, Ints]:
    """Return the columns of the parts in the place of their operators': [parts] each.

    FLOPs, bytes moved and sizes of products are those of each part's slice for its number of samples, so that they grow
    with the samples no more; a part that reads all inputs moves them whole, and one that holds summands the output.
    ``shared_bytes`` are the slice's, or all for parts that are copies. Other columns are those of the operator.
    """
    values = {name: column[parts.operator] for name, column in columns.values.items()}

    def grown(counts: str, grows: str) -> Ints:
        """Return a column for the samples of each part, rounded up, where the mask ``grows`` is set: [parts]."""
        return np.where(values[grows] == 1, -(-values[counts] * parts.samples // columns.batch), values[counts])

    def cut(whole: Ints) -> Ints:
        """Return the share of each part in ``whole``, slice over size of the cut dimension, rounded down: [parts]."""
        # Without products that pass 64 bits.
        quotient, remainder = np.divmod(whole, parts.size)
        return quotient * parts.slice + remainder * parts.slice // parts.size

    moved = grown("moved_bytes", "sampled")
    written = np.minimum(grown("activation_bytes", "output_sampled"), moved)
    read, shared = moved - written, values["shared_bytes"]
    n, in_groups = values["kernel_n"], np.minimum(values["kernel_n"], parts.slice)
    wide, grouped = parts.shape == COLUMNS, n < parts.size
    return {
        **values,
        "forward_flops": cut(grown("forward_flops", "sampled")),
        "backward_flops": cut(grown("backward_flops", "sampled")),
        "moved_bytes": np.where(parts.reads_all, read, cut(read)) + np.where(parts.sums, written, cut(written)),
        "shared_bytes": np.where(parts.copies, shared, cut(shared)),
        "kernel_m": np.where(parts.shape == ROWS, cut(values["kernel_m"]), values["kernel_m"]),
        "kernel_n": np.where(wide, in_groups, n),
        "kernel_k": np.where(parts.shape == DEPTH, cut(values["kernel_k"]), values["kernel_k"]),
        "kernel_products": np.where(wide & grouped, -(-parts.slice // in_groups), values["kernel_products"]),
        "sampled": np.zeros_like(n),
    }
