"""One operator of a compute graph: its kind, its named dimensions, and what it costs forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lightloom.core.errors import WorkloadError

KINDS: Mapping[str, str] = {
    "input": "a tensor given to the model",
    "conv": "convolution, also transposed; FLOPs are its multiply-accumulates, twice",
    "linear": "features times a weight matrix",
    "experts": "tokens times the weights of the expert that each visits",
    "matmul": "any other matrix product (also einsum)",
    "attention": "scaled dot-product attention, whole",
    "recurrent": "a whole recurrent layer (LSTM, GRU, RNN)",
    "batch_norm": "normalisation over samples",
    "norm": "normalisation within a sample (layer, group, instance, RMS)",
    "lrn": "local response normalisation",
    "pool": "max, average and adaptive pooling",
    "activation": "element-wise non-linearity",
    "softmax": "softmax and log-softmax",
    "topk": "largest entries and where they are, such as the experts that a token visits",
    "dropout": "dropout of any form",
    "embedding": "rows looked up in a table",
    "add": "sum of two tensors (residual connections)",
    "concat": "tensors joined along one dimension",
    "elementwise": "other arithmetic, one result per element",
    "reduce": "sum, mean, maximum, ... along dimensions",
    "copy": "data moved without arithmetic (gather, pad, layout change)",
    "loss": "a training criterion",
}
"""Kind of operator, and what it stands for."""

TENSOR_KINDS = frozenset({"conv", "linear", "experts", "matmul", "attention", "recurrent"})
"""Kinds whose FLOPs are multiply-accumulates; all others do about one operation per element and wait for memory."""

COUNTS = (
    "forward_flops",
    "backward_flops",
    "parameter_bytes",
    "activation_bytes",
    "parameters",
    "forward_bytes",
    "shared_bytes",
    "saved_shared_bytes",
    "saved_index_bytes",
    "recomputed_flops",
    "recomputed_bytes",
    "recomputed_shared_bytes",
)
"""Counts that every operator has; ``saved_bytes`` may be unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One step of the forward pass, with what its backward pass will cost.

    Raises:
        WorkloadError: an unknown kind, an empty name, a negative count or a dimension below one.
    """

    name: str
    """Unique in its graph; the module path (``layer1.0.conv1``), with ``.add`` and the like for what a module does
    itself."""
    kind: str
    """One of :data:`KINDS`."""
    inputs: tuple[str, ...] = ()
    """Operators whose output this one reads."""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """Named sizes. ``sample`` is there exactly when the operator depends on the samples; ``channel`` is what
    comes out, ``in_channel`` what is summed over; further ``height width length depth groups kernel_height
    ... head key_head sequence key_sequence head_dim expert``, and ``axis_1 ...`` where the meaning is unknown."""
    forward_flops: int = 0
    backward_flops: int = 0
    """Gradients of inputs and of parameters, each only where one is needed (the first layer needs none of its
    input); in a ``checkpoint`` region the second forward pass too."""
    parameter_bytes: int = 0
    activation_bytes: int = 0
    """Size of the output."""
    parameters: int = 0
    """Trainable and frozen parameters first used here: a tied table counts once in a graph."""
    forward_bytes: int = 0
    """Read and written once each: inputs, parameters, output (for a roofline)."""
    shared_bytes: int = 0
    """The part of ``forward_bytes`` that does not grow with the batch: parameters (tied ones too) and constants."""
    saved_bytes: int | None = None
    """What autograd keeps for the backward pass of what this operator makes, each storage once: its output only where
    some gradient needs it, and statistics; constants count where they are first kept. None where nothing tells (files
    of traces): then the output is taken to be kept."""
    saved_shared_bytes: int = 0
    """The part of ``saved_bytes`` that does not grow with the batch: statistics of channels, constants."""
    saved_index_bytes: int = 0
    """Kept besides, at a size that does not follow the elements': masks of dropout, indices, statistics in float32."""
    recomputed_flops: int = 0
    """The part of ``backward_flops`` that repeats the forward pass of a ``checkpoint`` region."""
    recomputed_bytes: int = 0
    """Kept only while the backward pass of its ``checkpoint`` region runs."""
    recomputed_shared_bytes: int = 0
    """The part of ``recomputed_bytes`` that does not grow with the batch: statistics of channels, constants."""
    checkpoint: str = ""
    """Region of ``torch.utils.checkpoint``, whose backward pass runs its forward pass again; empty outside."""
    block: str = ""
    """Path of the enclosing module; empty at the top."""
    causal: bool = False
    """Attention in which no token sees later ones: kernels may leave out half of what the FLOPs count."""
    visible: float | None = None
    """Share of the scores of attention that its mask leaves (a sliding window); None where a token sees all, or if
    ``causal`` all before it."""

    def __post_init__(self) -> None:
        if not self.name:
            raise WorkloadError("an operator needs a name")
        if self.kind not in KINDS:
            raise WorkloadError(f"operator {self.name!r}: kind {self.kind!r} is none of {', '.join(KINDS)}")
        for key in COUNTS:
            check_integer(self.name, key, getattr(self, key), 0)
        for key, size in self.dimensions.items():
            check_integer(self.name, f"dimension {key}", size, 1)
        if self.shared_bytes > self.forward_bytes:
            raise WorkloadError(f"operator {self.name!r}: shared_bytes {self.shared_bytes} exceed forward_bytes")
        if self.recomputed_shared_bytes > self.recomputed_bytes:
            shared = self.recomputed_shared_bytes
            raise WorkloadError(f"operator {self.name!r}: recomputed_shared_bytes {shared} exceed recomputed_bytes")
        if self.visible is not None and not 0 < self.visible <= 1:
            raise WorkloadError(f"operator {self.name!r}: visible is {self.visible!r}, expected a share over 0")
        if self.saved_bytes is not None:
            check_integer(self.name, "saved_bytes", self.saved_bytes, self.saved_shared_bytes)

    @property
    def visible_scores(self) -> float:
        """Share of the scores of attention that are needed."""
        if self.visible is not None:
            return self.visible
        return 0.5 if self.causal else 1.0

    @property
    def kept_bytes(self) -> int:
        """Bytes that it keeps from the forward pass to the backward pass."""
        return sum(self.saved_parts(output_sampled=True)) + self.saved_index_bytes

    def saved_parts(self, *, output_sampled: bool) -> tuple[int, int]:
        """Return the kept bytes of its elements that grow with the batch, and those that do not.

        Where nothing tells what is kept, it is the output, which grows if it is ``output_sampled``.
        """
        if self.saved_bytes is not None:
            return self.saved_bytes - self.saved_shared_bytes, self.saved_shared_bytes
        return (self.activation_bytes, 0) if output_sampled else (0, self.activation_bytes)

    def with_batch(self, batch: int, traced: int, element_bytes: int) -> Operator:
        """Return the operator for ``batch`` samples, where this one is of ``traced``.

        FLOPs and bytes grow in proportion, parameters and what samples share stay. An output without samples (a mean
        loss, a sum over the batch) stays too, and so does an operator without a ``sample`` dimension.
        """
        if "sample" not in self.dimensions:
            return self

        def scaled(value: int, shared: int = 0) -> int:
            return -(-(value - shared) * batch // traced) + shared

        output = self.activation_bytes
        grows = has_samples(self.kind, output // element_bytes, traced)
        return replace(
            self,
            dimensions={**self.dimensions, "sample": batch},
            forward_flops=scaled(self.forward_flops),
            backward_flops=scaled(self.backward_flops),
            activation_bytes=scaled(output) if grows else output,
            forward_bytes=scaled(self.forward_bytes, self.shared_bytes),
            saved_bytes=None if self.saved_bytes is None else scaled(self.saved_bytes, self.saved_shared_bytes),
            saved_index_bytes=scaled(self.saved_index_bytes),
            recomputed_flops=scaled(self.recomputed_flops),
            recomputed_bytes=scaled(self.recomputed_bytes, self.recomputed_shared_bytes),
        )

    def with_element_bytes(self, element_bytes: int, traced: int) -> Operator:
        """Return the operator with elements of that many bytes, where this one has elements of ``traced``."""

        def scaled(value: int) -> int:
            return value // traced * element_bytes

        return replace(
            self,
            parameter_bytes=scaled(self.parameter_bytes),
            activation_bytes=scaled(self.activation_bytes),
            forward_bytes=scaled(self.forward_bytes),
            shared_bytes=scaled(self.shared_bytes),
            saved_bytes=None if self.saved_bytes is None else scaled(self.saved_bytes),
            saved_shared_bytes=scaled(self.saved_shared_bytes),
            recomputed_bytes=scaled(self.recomputed_bytes),
            recomputed_shared_bytes=scaled(self.recomputed_shared_bytes),
        )


def check_integer(name: str, key: str, value: object, least: int) -> None:
    """Refuse a count that is no whole number of at least ``least``.

    Raises:
        WorkloadError: names the operator or graph, and the count.
    """
    if type(value) is not int or value < least:
        raise WorkloadError(f"operator {name!r}: {key} is {value!r}, expected a whole number of at least {least}")


def has_samples(kind: str, elements: int, batch: int) -> bool:
    """Whether an output of so many elements holds something for each sample (a batch of one leaves only the kind to
    tell)."""
    return elements % batch == 0 and not (kind == "loss" and elements == 1)
