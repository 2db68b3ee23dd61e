"""What a file is asked for, and what it says of a model."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.workloads.graph import ComputeGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    """What the caller wants of a model file; None where the file decides."""

    batch: int
    """Samples in one forward pass."""
    sequence_length: int | None = None
    """Tokens in a sample."""
    step: int | None = None
    """Step of a trace, as its profiler counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReading:
    """A model as its file describes it."""

    graph: ComputeGraph
    unrecorded: tuple[str, ...] = ()
    """What the file does not say and what is assumed instead, a sentence each."""
