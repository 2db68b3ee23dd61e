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
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.core.files import write_atomically
from lightloom.core.results import Result
from lightloom.workloads.measured import MeasuredTimes
from lightloom.workloads.operator import COUNTS, KINDS, TENSOR_KINDS, Operator, check_integer, has_samples

__all__ = ["KINDS", "SCHEMA", "TENSOR_KINDS", "ComputeGraph", "Operator", "has_samples"]

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
    """What the counts leave out or only guess, a sentence each; empty where every operator has a rule."""
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

    @property
    def saved_bytes(self) -> int:
        """Bytes that autograd keeps for the backward pass at most at once: what it keeps throughout, and what the
        largest checkpoint region recomputes."""
        return sum(operator.kept_bytes for operator in self.operators) + self.recomputed_bytes

    @property
    def recomputed_bytes(self) -> int:
        """Bytes that the largest checkpoint region makes again."""
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
        """For every operator, the operators that read its output, in order."""
        readers: dict[str, list[str]] = {operator.name: [] for operator in self.operators}
        for operator in self.operators:
            for source in operator.inputs:
                readers[source].append(operator.name)
        return {name: tuple(names) for name, names in readers.items()}

    def with_batch(self, batch: int) -> ComputeGraph:
        """Return the graph for another number of samples.

        FLOPs and activations of an operator with a ``sample`` dimension grow in proportion, parameters and
        the rest stay (:meth:`Operator.with_batch`).
        """
        check_integer(self.name, "batch", batch, 1)
        if batch == self.batch:
            return self
        operators = tuple(operator.with_batch(batch, self.batch, self.element_bytes) for operator in self.operators)
        return replace(self, batch=batch, operators=operators)

    def with_element_bytes(self, element_bytes: int) -> ComputeGraph:
        """Return the graph with every element stored in that many bytes (2 for bfloat16); FLOPs stay."""
        operators = tuple(operator.with_element_bytes(element_bytes, self.element_bytes) for operator in self.operators)
        return replace(self, element_bytes=element_bytes, operators=operators)

    def to_json(self) -> dict[str, Any]:
        """Return a document of plain values, read back by :meth:`from_json`; fields at their default are left out."""
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
        """Write the document of :meth:`to_json`, which ``lightloom plan FILE.json`` takes as a model without PyTorch.

        Raises:
            ConfigError: the path does not end in .json, or cannot be written.
        """
        if Path(path).suffix != ".json":
            raise ConfigError(f"{path}: a graph is kept as JSON: expected a path that ends in .json")
        return write_atomically(Path(path), json.dumps(self.to_json(), separators=(",", ":")) + "\n")

    def summary(self) -> str:
        return (
            f"{self.name}: {len(self.operators)} operators, {self.parameters:,} parameters, "
            f"{self.forward_flops:.4g} FLOPs forward and {self.backward_flops:.4g} backward at batch {self.batch}"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one mapping for each operator, of its name, kind and counts."""
        return [{name: getattr(operator, name) for name in ("name", "kind", *COUNTS)} for operator in self.operators]

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
            header["uncounted"] = tuple(map(str, header.get("uncounted", ())))
            if "measured" in header:
                header["measured"] = MeasuredTimes.from_json(header["measured"])
            entries = ({**entry, "inputs": tuple(map(str, entry.get("inputs", ())))} for entry in document["operators"])
            return cls(**header, operators=tuple(Operator(**entry) for entry in entries))
        except (TypeError, KeyError, AttributeError) as error:
            raise WorkloadError(f"not a compute graph: {error}") from error


_DEFAULTS = {f.name: f.default for f in fields(Operator)} | {"dimensions": {}}


def _operator_to_json(operator: Operator) -> dict[str, Any]:
    values = {key: getattr(operator, key) for key in _DEFAULTS}
    stated = {key: value for key, value in values.items() if value != _DEFAULTS[key]}
    return {**stated, **({"inputs": list(operator.inputs)} if operator.inputs else {})}
