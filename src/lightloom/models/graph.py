"""Compute graphs: operators with named, sized dimensions, in an order in which they can run.

    input ──► conv1 ──► bn1 ──► relu ──► ... ──► fc
                                  │                ▲
                                  └──► add ────────┘      an edge is a name in ``Operator.inputs``

Every size is counted at one element size (``ComputeGraph.element_bytes``, float32 when traced), whatever the
dtype in the model, so that a caller rescales to another precision with
:meth:`ComputeGraph.with_element_bytes`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.core.files import write_atomically
from lightloom.core.results import Result

# One operator of a compute graph: its kind, its named dimensions, and what it costs forward and backward.

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
    """Kind of operator, one of :data:`KINDS`."""
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
    """Bytes of this operator's results that autograd keeps for the backward pass, each storage once: its output only if
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
        counts = [getattr(self, key) for key in COUNTS]
        if {*map(type, counts)} != {int} or min(counts) < 0:
            for key, count in zip(COUNTS, counts, strict=True):
                check_integer(self.name, key, count, 0)
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
        """Share (0 to 1) of the scores of attention that are needed: ``visible`` if given, else a half if ``causal``,
        else all."""
        if self.visible is not None:
            return self.visible
        return 0.5 if self.causal else 1.0

    @property
    def kept_bytes(self) -> int:
        """Bytes of the operator's results that are kept from the forward pass to the backward pass: elements (its whole
        output where ``saved_bytes`` is None), statistics and masks; what a checkpoint region recomputes is left out."""
        return sum(self.saved_parts(output_sampled=True)) + self.saved_index_bytes

    def saved_parts(self, *, output_sampled: bool) -> tuple[int, int]:
        """Return the kept bytes of the operator's elements as (those that grow with the batch, those that do not),
        without ``saved_index_bytes`` and without what is recomputed.

        Where ``saved_bytes`` is None, the whole output is kept: it grows if ``output_sampled``, which says that the
        output depends on the samples.
        """
        if self.saved_bytes is not None:
            return self.saved_bytes - self.saved_shared_bytes, self.saved_shared_bytes
        return (self.activation_bytes, 0) if output_sampled else (0, self.activation_bytes)

    def with_batch(self, batch: int, traced: int, element_bytes: int) -> Operator:
        """Return the operator for ``batch`` samples, where this one is of ``traced``.

        FLOPs and bytes grow in proportion, rounded up; parameters and what samples share stay. An output without
        samples (a mean loss, a sum over the batch) stays too, and so does an operator without a ``sample`` dimension.
        ``element_bytes`` are those of the graph.
        """
        if "sample" not in self.dimensions:
            return self

        shared = {
            "forward_bytes": self.shared_bytes,
            "saved_bytes": self.saved_shared_bytes,
            "recomputed_bytes": self.recomputed_shared_bytes,
        }
        grows = has_samples(self.kind, self.activation_bytes // element_bytes, traced)
        counts = {name: getattr(self, name) for name in _COUNTS_OF_SAMPLES if name != "activation_bytes" or grows}
        scaled = {
            name: -(-(count - shared.get(name, 0)) * batch // traced) + shared.get(name, 0)
            for name, count in counts.items()
            if count is not None
        }
        return replace(self, dimensions={**self.dimensions, "sample": batch}, **scaled)

    def with_element_bytes(self, element_bytes: int, traced: int) -> Operator:
        """Return the operator with elements of that many bytes, where this one has elements of ``traced`` bytes.

        Statistics, masks and indices (``saved_index_bytes``) stay, as do FLOPs.
        """
        values = {name: getattr(self, name) for name in _BYTES_OF_ELEMENTS}
        return replace(
            self, **{name: value // traced * element_bytes for name, value in values.items() if value is not None}
        )


COUNTS = tuple(count.name for count in fields(Operator) if type(count.default) is int)
"""Counts that every operator has; ``saved_bytes`` may be unknown."""
_COUNTS_OF_SAMPLES = ("saved_bytes", *(name for name in COUNTS if "parameter" not in name and "shared" not in name))
"""Counts that grow with the number of samples, but for what samples share."""
_BYTES_OF_ELEMENTS = ("saved_bytes", *(name for name in COUNTS if name.endswith("bytes") and "index" not in name))
"""Counts that are as many times larger as an element is."""


def check_integer(name: str, key: str, value: object, least: int) -> None:
    """Raise WorkloadError unless ``value`` is an ``int`` (no bool, no float) of at least ``least``; the message names
    the operator or graph ``name`` and the field ``key``."""
    if type(value) is not int or value < least:
        raise WorkloadError(f"operator {name!r}: {key} is {value!r}, expected a whole number of at least {least}")


def has_samples(kind: str, elements: int, batch: int) -> bool:
    """Return whether an output of ``elements`` has a part for each sample: the batch divides it, and it is no loss of
    one element.

    A batch of one divides everything, so that only the loss tells.
    """
    return elements % batch == 0 and not (kind == "loss" and elements == 1)


# Seconds of operators as they were measured, at the batch and on the machine of a trace.


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTimes:
    """Seconds of one graph's operators; pricing starts from them, and scales them as the priced times change.

    Raises:
        WorkloadError: a time is negative or no number.
    """

    batch: int
    """Samples of the trace."""
    forward: tuple[float | None, ...]
    """Seconds of every operator's forward pass, in the graph's order; None where the trace does not say."""
    backward: tuple[float | None, ...]
    """Seconds of every operator's backward pass, for one forward pass; None where the trace does not say."""
    machine: str = ""
    """Machine that was measured, as the trace names it; empty where it names none."""
    clock: str = ""
    """Timed events: ``kernels of the accelerator``, ``calls on the host``, ``durations that the trace states``."""
    accelerator: str | None = None
    """Measured machine as an accelerator of the catalog or a YAML file; None where it is taken to be the plan's."""
    precision: str = ""
    """Number format in which it was computed; empty where the trace does not say."""

    def __post_init__(self) -> None:
        for seconds in (*self.forward, *self.backward):
            if seconds is not None and not 0 <= seconds < math.inf:
                raise WorkloadError(f"a measured time of {seconds!r} seconds: expected 0 or more")

    @property
    def seconds(self) -> float:
        """Seconds of all operators together, both passes summed, unknown ones left out."""
        return sum(value for value in (*self.forward, *self.backward) if value is not None)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, read back by :meth:`from_json`; times under ``forward_s`` and ``backward_s``, the other
        fields under their names."""
        values = asdict(self)
        return {f"{name}_s": list(values.pop(name)) for name in ("forward", "backward")} | values

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> MeasuredTimes:
        """Return the times in a document as :meth:`to_json` returns it; KeyError or TypeError where fields are missing
        or unknown, WorkloadError where a time is negative."""
        fields = dict(document)
        return cls(forward=tuple(fields.pop("forward_s")), backward=tuple(fields.pop("backward_s")), **fields)


SCHEMA = "lightloom.graph/1"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComputeGraph(Result):
    """Operators in a topological order (the order of the tuple), for one batch.

    Raises:
        WorkloadError: there are no operators, a name occurs twice, an input is unknown or comes later, or
            ``sample`` differs from the batch.
    """

    name: str
    batch: int
    """Samples in one forward pass."""
    operators: tuple[Operator, ...]
    element_bytes: int = 4
    """Bytes of one element, at which every size in the graph is counted."""
    unused_parameters: int = 0
    """Parameters that the model has but the forward pass never touches."""
    uncounted: tuple[str, ...] = ()
    """Sentences on what the counts leave out or guess; empty where every operator has a rule."""
    measured: MeasuredTimes | None = None
    """Seconds of the operators where a trace states them, at its own batch; None where they are priced alone."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise WorkloadError(f"a graph's name is {self.name!r}: expected a text")
        if not self.operators:
            raise WorkloadError(f"graph {self.name!r} has no operators: expected at least one")
        check_integer(self.name, "batch", self.batch, 1)
        check_integer(self.name, "element_bytes", self.element_bytes, 1)
        check_integer(self.name, "unused_parameters", self.unused_parameters, 0)
        for times in () if self.measured is None else (self.measured.forward, self.measured.backward):
            if len(times) != len(self.operators):
                raise WorkloadError(
                    f"graph {self.name!r}: {len(times)} measured times of {len(self.operators)} operators"
                )
        earlier: set[str] = set()
        for operator in self.operators:
            if operator.name in earlier:
                raise WorkloadError(f"graph {self.name!r}: operator {operator.name!r} occurs twice")
            for source in operator.inputs:
                if source not in earlier:
                    raise WorkloadError(f"graph {self.name!r}: {operator.name!r} reads {source!r}, no earlier operator")
            if operator.dimensions.get("sample", self.batch) != self.batch:
                raise WorkloadError(
                    f"graph {self.name!r}: {operator.name!r} has {operator.dimensions['sample']} samples, "
                    f"expected the batch, {self.batch}"
                )
            earlier.add(operator.name)

    @property
    def parameters(self) -> int:
        """Number of parameters that the forward pass uses, each counted where it is first used."""
        return sum(operator.parameters for operator in self.operators)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the parameters that the forward pass uses, at the graph's element size; as many as one gradient of
        all of them takes."""
        return sum(operator.parameter_bytes for operator in self.operators)

    @property
    def forward_flops(self) -> int:
        """FLOPs of one forward pass over the batch (a multiply-accumulate is two)."""
        return sum(operator.forward_flops for operator in self.operators)

    @property
    def backward_flops(self) -> int:
        """FLOPs of one backward pass over the batch, with the second forward passes of checkpoint regions."""
        return sum(operator.backward_flops for operator in self.operators)

    @property
    def activation_bytes(self) -> int:
        """Bytes of the outputs of all operators, summed, inputs of the model included."""
        return sum(operator.activation_bytes for operator in self.operators)

    @property
    def saved_bytes(self) -> int:
        """Bytes that autograd keeps for the backward pass at most at once: what it keeps throughout, and what the
        largest checkpoint region recomputes."""
        return sum(operator.kept_bytes for operator in self.operators) + self.recomputed_bytes

    @property
    def recomputed_bytes(self) -> int:
        """Bytes of activations that one checkpoint region makes again in the backward pass, for the region with the
        most of them; 0 without regions."""
        regions: Counter[str] = Counter()
        for operator in self.operators:
            regions[operator.checkpoint] += operator.recomputed_bytes
        return max(regions.values(), default=0)

    def operator(self, name: str) -> Operator:
        """Return the operator of that name.

        Raises:
            WorkloadError: there is none.
        """
        for operator in self.operators:
            if operator.name == name:
                return operator
        raise WorkloadError(f"graph {self.name!r} has no operator {name!r}")

    def consumers(self) -> dict[str, tuple[str, ...]]:
        """Return for every operator's name the names of the operators that read its output, in order; empty if none
        do."""
        readers: dict[str, list[str]] = {operator.name: [] for operator in self.operators}
        for operator in self.operators:
            for source in operator.inputs:
                readers[source].append(operator.name)
        return {name: tuple(names) for name, names in readers.items()}

    def with_batch(self, batch: int) -> ComputeGraph:
        """Return the graph for another number of samples.

        FLOPs and activations of an operator with a ``sample`` dimension grow in proportion, parameters and the rest
        stay (:meth:`Operator.with_batch`); measured times stay those of their own batch.

        Raises:
            WorkloadError: ``batch`` is no whole number of at least 1.
        """
        check_integer(self.name, "batch", batch, 1)
        if batch == self.batch:
            return self
        operators = tuple(operator.with_batch(batch, self.batch, self.element_bytes) for operator in self.operators)
        return replace(self, batch=batch, operators=operators)

    def with_element_bytes(self, element_bytes: int) -> ComputeGraph:
        """Return the graph with every element stored in that many bytes (2 for bfloat16): all counts of bytes scale but
        ``saved_index_bytes``; FLOPs stay."""
        if element_bytes == self.element_bytes:
            return self
        operators = tuple(operator.with_element_bytes(element_bytes, self.element_bytes) for operator in self.operators)
        return replace(self, element_bytes=element_bytes, operators=operators)

    def to_json(self) -> dict[str, Any]:
        """Return a document of plain values, read back by :meth:`from_json`: ``schema``, and the fields under their
        names, ``operators`` as a list of mappings; operators' fields at their default are left out, and so are
        ``uncounted`` and ``measured`` where there are none."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "batch": self.batch,
            "element_bytes": self.element_bytes,
            "unused_parameters": self.unused_parameters,
            **({"uncounted": list(self.uncounted)} if self.uncounted else {}),
            **({} if self.measured is None else {"measured": self.measured.to_json()}),
            "operators": [_operator_to_json(operator) for operator in self.operators],
        }

    def save(self, path: str | Path) -> Path:
        """Write the document of :meth:`to_json`, which ``lightloom plan FILE.json`` takes as a model without PyTorch,
        and return its path; missing folders are made.

        Raises:
            ConfigError: the path does not end in .json, or cannot be written.
        """
        if Path(path).suffix != ".json":
            raise ConfigError(f"{path}: a graph is kept as JSON: expected a path that ends in .json")
        return write_atomically(Path(path), json.dumps(self.to_json(), separators=(",", ":")) + "\n")

    def summary(self) -> str:
        """Return one line: name, number of operators, parameters, FLOPs of the forward and of the backward pass, and
        the batch."""
        return (
            f"{self.name}: {len(self.operators)} operators, {self.parameters:,} parameters, "
            f"{self.forward_flops:.4g} FLOPs forward and {self.backward_flops:.4g} backward at batch {self.batch}"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one mapping for each operator in order: ``name``, ``kind`` and every count that all operators have
        (``COUNTS``: FLOPs, bytes and parameters by field, without ``saved_bytes``, which may be unknown)."""
        return [{name: getattr(operator, name) for name in ("name", "kind", *COUNTS)} for operator in self.operators]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ComputeGraph:
        """Return the graph in what :meth:`to_json` wrote: ``from_json(to_json(graph)) == graph``.

        Raises:
            WorkloadError: another schema, missing or unknown fields, or a graph that is not valid.
        """
        if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
            raise WorkloadError(f"not a compute graph: expected a document with schema {SCHEMA!r}")
        try:
            header = {key: value for key, value in document.items() if key not in ("schema", "operators")}
            header["uncounted"] = tuple(map(str, header.get("uncounted", ())))
            if "measured" in header:
                header["measured"] = MeasuredTimes.from_json(header["measured"])
            entries = ({**entry, "inputs": tuple(map(str, entry.get("inputs", ())))} for entry in document["operators"])
            return cls(**header, operators=tuple(Operator(**entry) for entry in entries))
        except (TypeError, KeyError, AttributeError) as error:
            raise WorkloadError(f"not a compute graph: {error}") from error


_DEFAULTS = {f.name: f.default for f in fields(Operator)} | {"dimensions": {}}


def _operator_to_json(operator: Operator) -> dict[str, Any]:
    """Return the fields of an operator that are not at their default, as plain values."""
    values = {key: getattr(operator, key) for key in _DEFAULTS}
    stated = {key: value for key, value in values.items() if value != _DEFAULTS[key]}
    return {**stated, **({"inputs": list(operator.inputs)} if operator.inputs else {})}


# The loss that ends a training step. Graphs are without: plans price the cross entropy of their last logits.


def without_loss(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Return the operators of a step without what follows its last linear layer, the logits, which then come last.

    Left out are the loss, all that follows from the logits, and inputs that only these read (targets). All operators
    are returned where the last one that multiplies (of a kind in ``TENSOR_KINDS``) is no linear layer, no loss follows
    from it, or what follows has parameters.
    """
    places = [place for place, operator in enumerate(operators) if operator.kind in TENSOR_KINDS]
    if not places or operators[places[-1]].kind != "linear":
        return tuple(operators)
    logits, rest = operators[places[-1]], operators[places[-1] + 1 :]
    following = {logits.name}
    for operator in rest:
        if not following.isdisjoint(operator.inputs):
            following.add(operator.name)
    ended = [operator for operator in rest if operator.name in following]
    if not any(operator.kind == "loss" for operator in ended) or any(operator.parameters for operator in ended):
        return tuple(operators)
    # Targets, which the loss alone reads.
    kept: list[Operator] = []
    for operator in reversed([operator for operator in rest if operator.name not in following]):
        readers = [each for each in rest if operator.name in each.inputs]
        if not readers or any(each in kept for each in readers):
            kept.insert(0, operator)
    return (*operators[: places[-1]], *kept, logits)


# Synapses and neurons, as Table 2 of Ro, Lee and Ahn (Electronics 2018, 7, 130) counts them.
#
# Synapses are the weights of convolutions and fully connected layers, without biases and normalisation. Neurons are
# the outputs of the forward pass: the input, convolutions, pooling (global too), fully connected layers, and, but for
# Inception networks, also local response normalisation, batch normalisation, additions and concatenations. Activation
# functions, dropout and softmax count nowhere. Both are 32-bit, and the table's MB are MiB.

BASE_KINDS = frozenset({"input", "conv", "pool", "linear"})
"""Kinds of operators that count as layers with neurons in every network."""
MORE_KINDS = frozenset({"lrn", "batch_norm", "add", "concat"})
"""Kinds that count too, except in Inception networks."""
INCEPTION_NETWORKS = ("googlenet", "inception")
"""Names that begin like this are Inception networks."""


def synapse_bytes(graph: ComputeGraph) -> int:
    """Return the bytes of the weights of convolutions and fully connected layers, at the graph's element size, biases
    left out, shared weights counted each time they are used."""
    return sum(_weights(operator) for operator in graph.operators) * graph.element_bytes


def neuron_bytes(graph: ComputeGraph, batch: int | None = None) -> int:
    """Return the bytes of the outputs of the operators that count as layers with neurons (:func:`layers`: inputs,
    convolutions, pooling, fully connected ones and, but for Inception networks, normalisation, sums and concatenations)
    in one forward pass, for ``batch`` samples or by default the graph's own."""
    rescaled = graph if batch is None else graph.with_batch(batch)
    return sum(operator.activation_bytes for operator in layers(rescaled))


def layers(graph: ComputeGraph) -> tuple[Operator, ...]:
    """Return the operators that count as layers with neurons, in order: input, convolutions, pooling and fully
    connected ones.

    ``lrn``, ``batch_norm``, additions and concatenations count too, except in Inception networks: graphs whose name
    begins with ``googlenet`` or ``inception``.
    """
    kinds = BASE_KINDS if graph.name.startswith(INCEPTION_NETWORKS) else BASE_KINDS | MORE_KINDS
    return tuple(operator for operator in graph.operators if operator.kind in kinds)


def _weights(operator: Operator) -> int:
    """Return the number of weights of a convolution or fully connected layer, without bias; 0 for other operators.

    They are computed from its dimensions, so that shared weights count each time.
    """
    sizes = operator.dimensions
    if operator.kind == "linear":
        return sizes["channel"] * sizes["in_channel"]
    if operator.kind == "conv":
        kernel = math.prod(size for name, size in sizes.items() if name.startswith("kernel_"))
        return sizes["channel"] * sizes["in_channel"] // sizes["groups"] * kernel
    return 0
