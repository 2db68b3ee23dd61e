"""Compute graphs: operators with named, sized dimensions, in an order in which they can run.

    input ──► conv1 ──► bn1 ──► relu ──► ... ──► fc
                                  │                ▲
                                  └──► add ────────┘      an edge is a name in ``Operator.inputs``

Every size is counted at one element size (``ComputeGraph.element_bytes``, float32 when traced), whatever the
dtype in the model, so that a caller rescales to another precision with
:meth:`ComputeGraph.with_element_bytes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from lightloom.core.errors import WorkloadError
from lightloom.core.results import Result

SCHEMA = "lightloom.graph/1"

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

_COUNTS = (
    "forward_flops",
    "backward_flops",
    "parameter_bytes",
    "activation_bytes",
    "parameters",
    "forward_bytes",
    "shared_bytes",
)


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
    input)."""
    parameter_bytes: int = 0
    activation_bytes: int = 0
    """Size of the output."""
    parameters: int = 0
    """Trainable and frozen parameters first used here: a tied table counts once in a graph."""
    forward_bytes: int = 0
    """Read and written once each: inputs, parameters, output (for a roofline)."""
    shared_bytes: int = 0
    """The part of ``forward_bytes`` that does not grow with the batch: parameters (tied ones too) and constants."""
    block: str = ""
    """Path of the enclosing module; empty at the top."""
    causal: bool = False
    """Attention in which a token sees only those before it: kernels may leave out half of what the FLOPs count."""

    def __post_init__(self) -> None:
        if not self.name:
            raise WorkloadError("an operator needs a name")
        if self.kind not in KINDS:
            raise WorkloadError(f"operator {self.name!r}: kind {self.kind!r} is none of {', '.join(KINDS)}")
        for key in _COUNTS:
            _check_integer(self.name, key, getattr(self, key), 0)
        for key, size in self.dimensions.items():
            _check_integer(self.name, f"dimension {key}", size, 1)
        if self.shared_bytes > self.forward_bytes:
            raise WorkloadError(f"operator {self.name!r}: shared_bytes {self.shared_bytes} exceed forward_bytes")


def _check_integer(name: str, key: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise WorkloadError(f"operator {name!r}: {key} is {value!r}, expected a whole number of at least {least}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComputeGraph(Result):
    """Operators in a topological order (the order of the tuple), for one batch.

    Raises:
        WorkloadError: a name occurs twice, an input is unknown or comes later, or ``sample`` differs from the
        batch.
    """

    name: str
    batch: int
    """Samples in one forward pass."""
    operators: tuple[Operator, ...]
    element_bytes: int = 4
    """Bytes of one element, at which every size in the graph is counted."""
    unused_parameters: int = 0
    """Parameters that the model has but the forward pass never touches."""

    def __post_init__(self) -> None:
        _check_integer(self.name, "batch", self.batch, 1)
        _check_integer(self.name, "element_bytes", self.element_bytes, 1)
        _check_integer(self.name, "unused_parameters", self.unused_parameters, 0)
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
        """Parameters that the forward pass uses."""
        return sum(operator.parameters for operator in self.operators)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the parameters, hence also of one gradient."""
        return sum(operator.parameter_bytes for operator in self.operators)

    @property
    def forward_flops(self) -> int:
        """FLOPs of one forward pass over the batch (a multiply-accumulate is two)."""
        return sum(operator.forward_flops for operator in self.operators)

    @property
    def backward_flops(self) -> int:
        """FLOPs of one backward pass over the batch, nothing recomputed."""
        return sum(operator.backward_flops for operator in self.operators)

    @property
    def activation_bytes(self) -> int:
        """Bytes of all outputs together."""
        return sum(operator.activation_bytes for operator in self.operators)

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
        """For every operator, the operators that read its output, in order."""
        readers: dict[str, list[str]] = {operator.name: [] for operator in self.operators}
        for operator in self.operators:
            for source in operator.inputs:
                readers[source].append(operator.name)
        return {name: tuple(names) for name, names in readers.items()}

    def with_batch(self, batch: int) -> ComputeGraph:
        """Return the graph for another number of samples.

        FLOPs and activations of an operator with a ``sample`` dimension grow in proportion, parameters and
        the rest stay. An output that has no samples (a mean loss, a sum over the batch) stays too.
        """
        _check_integer(self.name, "batch", batch, 1)
        if batch == self.batch:
            return self
        return replace(self, batch=batch, operators=tuple(self._rescaled(op, batch) for op in self.operators))

    def _rescaled(self, operator: Operator, batch: int) -> Operator:
        if "sample" not in operator.dimensions:
            return operator

        def scaled(value: int) -> int:
            return -(-value * batch // self.batch)

        output, shared = operator.activation_bytes, operator.shared_bytes
        return replace(
            operator,
            dimensions={**operator.dimensions, "sample": batch},
            forward_flops=scaled(operator.forward_flops),
            backward_flops=scaled(operator.backward_flops),
            activation_bytes=scaled(output)
            if has_samples(operator.kind, output // self.element_bytes, self.batch)
            else output,
            forward_bytes=scaled(operator.forward_bytes - shared) + shared,
        )

    def with_element_bytes(self, element_bytes: int) -> ComputeGraph:
        """Return the graph with every element stored in that many bytes (2 for bfloat16); FLOPs stay."""

        def scaled(operator: Operator) -> Operator:
            return replace(
                operator,
                parameter_bytes=operator.parameter_bytes // self.element_bytes * element_bytes,
                activation_bytes=operator.activation_bytes // self.element_bytes * element_bytes,
                forward_bytes=operator.forward_bytes // self.element_bytes * element_bytes,
                shared_bytes=operator.shared_bytes // self.element_bytes * element_bytes,
            )

        return replace(self, element_bytes=element_bytes, operators=tuple(scaled(op) for op in self.operators))

    def to_json(self) -> dict[str, Any]:
        """Return a document of plain values, read back by :meth:`from_json`; fields at their default are left out."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "batch": self.batch,
            "element_bytes": self.element_bytes,
            "unused_parameters": self.unused_parameters,
            "operators": [_operator_to_json(operator) for operator in self.operators],
        }

    def summary(self) -> str:
        return (
            f"{self.name}: {len(self.operators)} operators, {self.parameters:,} parameters, "
            f"{self.forward_flops:.4g} FLOPs forward and {self.backward_flops:.4g} backward at batch {self.batch}"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one mapping for each operator, of its name, kind and counts."""
        return [{name: getattr(operator, name) for name in ("name", "kind", *_COUNTS)} for operator in self.operators]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ComputeGraph:
        """Read what :meth:`to_json` wrote: ``from_json(to_json(graph)) == graph``.

        Raises:
            WorkloadError: another schema, missing or unknown fields, or a graph that is not valid.
        """
        if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
            raise WorkloadError(f"not a compute graph: expected a document with schema {SCHEMA!r}")
        try:
            header = {key: value for key, value in document.items() if key not in ("schema", "operators")}
            entries = ({**entry, "inputs": tuple(map(str, entry.get("inputs", ())))} for entry in document["operators"])
            return cls(**header, operators=tuple(Operator(**entry) for entry in entries))
        except (TypeError, KeyError, AttributeError) as error:
            raise WorkloadError(f"not a compute graph: {error}") from error


def has_samples(kind: str, elements: int, batch: int) -> bool:
    """Whether an output of so many elements holds something for each sample (a batch of one leaves only the kind to
    tell)."""
    return elements % batch == 0 and not (kind == "loss" and elements == 1)


_DEFAULTS = {f.name: f.default for f in fields(Operator)} | {"dimensions": {}}


def _operator_to_json(operator: Operator) -> dict[str, Any]:
    values = {key: getattr(operator, key) for key in _DEFAULTS}
    stated = {key: value for key, value in values.items() if value != _DEFAULTS[key]}
    return {**stated, **({"inputs": list(operator.inputs)} if operator.inputs else {})}
