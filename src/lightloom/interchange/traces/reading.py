"""What is read from the trace of a training step: a graph, what the trace does not record, and its exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightloom.core.errors import WorkloadError
from lightloom.interchange.traces.exchanges import TracedExchange, exchange_lines
from lightloom.workloads.graph import ComputeGraph

KERNELS, HOST = "kernels of the accelerator", "calls on the host"
"""What was timed."""


@dataclass(frozen=True, slots=True)
class TraceReading:
    """A graph, and what the trace does not record."""

    graph: ComputeGraph
    unrecorded: tuple[str, ...]
    """What the trace does not record and what is assumed instead, a sentence each."""
    exchanges: tuple[TracedExchange, ...] = ()
    """Exchanges among ranks that the trace holds; a plan makes its own."""
    not_found: float = 0.0
    """Share of the elements with gradients that no operator is known to read as parameters."""


LEAST_FLOPS = 100_000
"""Work of a step below which a trace is none of a network; an assumption (a digit in LeNet-5 takes some 2.5 MFLOP)."""


MOST_NOT_FOUND = 0.01
"""Share of the parameters that may lack in the trace of a step; an assumption."""


def check_step(reading: TraceReading, path: Path) -> TraceReading:
    """Return what was read of a trace, if a training step can be planned from it.

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
    """Return a line that lists the exchanges of a trace; none without any."""
    listed = "; ".join(exchange_lines(exchanges))
    return [f"which plan made its exchanges, so that they are listed and not replayed: {listed}"] if listed else []
