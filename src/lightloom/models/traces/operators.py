"""Exchanges among ranks as traces record them: collectives, sends and receives, with their bytes, group and time."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom.core.errors import WorkloadError
from lightloom.core.results import in_groups
from lightloom.core.units import format_size, format_time
from lightloom.models.graph import ComputeGraph, MeasuredTimes, Operator

_KINDS = "all-reduce reduce-scatter all-gather all-to-all broadcast barrier gather scatter reduce send"
_WORDS = {"sendrecv": "send and receive", **{kind.replace("-", ""): kind for kind in _KINDS.split()}, "recv": "receive"}
"""Kind by what the name of a kernel or of an operator holds, without marks between words; the first one counts."""
_KERNEL = re.compile(r"^(nccl|rccl|mscclpp|onecc|hccl)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TracedExchange:
    """One exchange of a trace."""

    kind: str
    """``all-reduce``, ``reduce-scatter``, ...; ``send``, ``receive``."""
    nbytes: int | None
    """Bytes that this rank puts in; None where the trace does not say."""
    group: str = ""
    """Name of the group of ranks; empty where the trace does not say."""
    seconds: float = 0.0
    """Time on the accelerator, or on the host; 0 where the trace does not say."""
    ranks: int | None = None
    """Ranks of the group; None where the trace does not say."""


def kind_of_kernel(name: str) -> str:
    """Return the kind of exchange that a kernel of a collective library (its name begins with nccl, rccl, mscclpp,
    onecc or hccl) is for, ``unknown`` where its name does not say; empty for other kernels."""
    return kind_of_words(name) or "unknown" if _KERNEL.match(name) else ""


def kind_of_words(name: str) -> str:
    """Return the kind of exchange that a name speaks of, whatever its case and the signs between words: a collective
    such as ``all-reduce``, ``barrier``, ``send``, ``receive`` or ``send and receive``; empty if of none."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return next((kind for word, kind in _WORDS.items() if word in plain), "")


def exchange_lines(exchanges: Iterable[TracedExchange]) -> list[str]:
    """Return a line for each kind, group and number of ranks: how many exchanges, the sum of their bytes, their
    seconds.

    As in ``3 x all-reduce in group 'dp' of 8 ranks: 1.5 GB put in, 3.2 ms``; "bytes not recorded" stands where any of
    them lacks its bytes, and group, ranks and seconds are left out where they are empty, None or 0.
    """
    lines = []
    for (kind, group, ranks), members in in_groups(exchanges, lambda each: (each.kind, each.group, each.ranks)).items():
        known = [exchange.nbytes for exchange in members if exchange.nbytes is not None]
        size = f"{format_size(sum(known))} put in" if len(known) == len(members) else "bytes not recorded"
        seconds = sum(exchange.seconds for exchange in members)
        where = (f" in group {group!r}" if group else "") + (f" of {ranks} ranks" if ranks else "")
        lines.append(f"{len(members)} x {kind}{where}: {size}" + (f", {format_time(seconds)}" if seconds else ""))
    return lines


def unpriced_exchanges(exchanges: Iterable[TracedExchange]) -> list[str]:
    """Return one sentence that lists exchanges of a trace and warns that the plan gives them no time, as it has those
    of its own strategy; an empty list where there are none."""
    listed = "; ".join(exchange_lines(exchanges))
    words = "exchanges within the traced passes take no time in the plan, which has those of its strategy"
    return [f"{words}: {listed}"] if listed else []


# What is read from the trace of a training step: a graph, what the trace does not record, and its exchanges.

KERNELS, HOST = "kernels of the accelerator", "calls on the host"
"""Sources of times: kernels of the accelerator, or calls on the host."""


@dataclass(frozen=True, slots=True)
class TraceReading:
    """A graph, and what the trace does not record."""

    graph: ComputeGraph
    unrecorded: tuple[str, ...]
    """Assumptions where the trace records nothing, a sentence each."""
    exchanges: tuple[TracedExchange, ...] = ()
    """Exchanges among ranks that the trace holds; a plan makes its own."""
    not_found: float = 0.0
    """Share of the elements with gradients that no operator is known to read as parameters."""


def numbered(names: Counter[str], name: str) -> str:
    """Count the name of an operator in ``names``, and return it, from the second time on with its number: ``add``,
    ``add#2``, ``add#3``."""
    names[name] += 1
    return name if names[name] == 1 else f"{name}#{names[name]}"


ELEMENT_BYTES = 4
"""Bytes of an element of parameters where a file counts bytes alone."""


def graph_of_layers(
    path: Path,
    batch: int,
    layers: Iterable[Mapping[str, Any]],
    measured: MeasuredTimes | None,
    uncounted: Iterable[str],
) -> ComputeGraph:
    """Return the graph of layers, each of which reads the one before, with a ``sample`` dimension and parameters of 4
    bytes each.

    Args:
        path: the file, whose stem is the graph's name.
        batch: number of samples.
        layers: fields of an operator for each layer, ``name``, ``kind`` and ``parameters`` among them, without inputs,
            dimensions and bytes of parameters.
        measured: seconds of the layers; None where none are known.
        uncounted: sentences on what the graph does not count.
    """
    operators: list[Operator] = []
    for layer in layers:
        before, nbytes = tuple(operator.name for operator in operators[-1:]), layer["parameters"] * ELEMENT_BYTES
        operators.append(Operator(inputs=before, dimensions={"sample": batch}, parameter_bytes=nbytes, **layer))
    return ComputeGraph(
        name=path.stem,
        batch=batch,
        operators=tuple(operators),
        element_bytes=ELEMENT_BYTES,
        uncounted=tuple(uncounted),
        measured=measured,
    )


LEAST_FLOPS = 100_000
"""Work of a step below which a trace is none of a network; an assumption (a digit in LeNet-5 takes some 2.5 MFLOP)."""


MOST_NOT_FOUND = 0.01
"""Share of the parameters that may lack in the trace of a step; an assumption."""


def check_step(reading: TraceReading, path: Path) -> TraceReading:
    """Return the reading unchanged, if a training step can be planned from it.

    It needs parameters, at least 100,000 FLOPs (or none at all and measured times), and at most 1 % of the elements
    with gradients not found as parameters.

    Raises:
        WorkloadError: names what it lacks.
    """
    graph = reading.graph
    flops = graph.forward_flops + graph.backward_flops
    lacking = []
    if not graph.parameters:
        lacking.append("parameters (no tensor is read as a weight, and no gradient is kept or summed over ranks)")
    if 0 < flops < LEAST_FLOPS or (not flops and graph.measured is None):
        lacking.append(f"work (the shapes of its tensors make {flops:,} FLOP, a network's {LEAST_FLOPS:,} at least)")
    if reading.not_found > MOST_NOT_FOUND:
        lacking.append(f"the calls that read {100 * reading.not_found:.0f} % of the parameters in their own shape")
    if lacking:
        raise WorkloadError(
            f"{path}: lacks {' and '.join(lacking)}: expected the trace of a network's training step, "
            "with the shapes of all tensors"
        )
    return reading


def exchange_notes(exchanges: Sequence[TracedExchange]) -> list[str]:
    """Return one sentence that lists the exchanges of a trace and says that they are not replayed; an empty list where
    it has none."""
    listed = "; ".join(exchange_lines(exchanges))
    return [f"which plan made its exchanges, so that they are listed and not replayed: {listed}"] if listed else []
