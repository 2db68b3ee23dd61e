"""What is read from the trace of a training step: a graph, what the trace does not record, and its exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def exchange_notes(exchanges: Sequence[TracedExchange]) -> list[str]:
    """Return a line that lists the exchanges of a trace; none without any."""
    listed = "; ".join(exchange_lines(exchanges))
    return [f"which plan made its exchanges, so that they are listed and not replayed: {listed}"] if listed else []
