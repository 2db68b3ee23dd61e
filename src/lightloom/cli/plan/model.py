"""The model of a plan: by name, by module, or read from a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightloom.workloads.graph import ComputeGraph


def load_model(spec: str, *, batch: int, sequence_length: int | None = None) -> tuple[ComputeGraph, tuple[str, ...]]:
    """The graph of a model for ``batch`` samples, and what its trace does not say; nothing where it is no trace.

    Args:
        spec: what ``load_workload`` takes, an execution trace of PyTorch (``.json``) or a Chakra trace (``.et``).

    Raises:
        UnknownNameError: no such name.
        WorkloadError: a module that cannot be traced, or a malformed trace (names the node).
        ConfigError: an unreadable trace, or a sequence length with a trace.
    """
    from lightloom.core.errors import ConfigError

    suffix = Path(spec).suffix
    if suffix not in (".json", ".et"):
        from lightloom.workloads.load import load_workload

        return load_workload(spec, batch=batch, sequence_length=sequence_length), ()
    if sequence_length is not None:
        raise ConfigError(f"--sequence-length {sequence_length}: the trace {spec} keeps the length it was taken with")
    if suffix == ".et":
        from lightloom.interchange.chakra_workload import read_chakra_workload

        found = read_chakra_workload(Path(spec), batch=batch)
    else:
        from lightloom.interchange.execution_trace import read_execution_trace

        found = read_execution_trace(Path(spec))
    return found.graph.with_batch(batch), found.unrecorded
