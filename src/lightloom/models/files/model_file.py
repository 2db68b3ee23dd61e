"""Requests to files that describe a model, and the model and training run that are read from them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import gcd

from lightloom.core.errors import WorkloadError, needing_torch
from lightloom.machines.clusters.cluster import StageBlocks
from lightloom.models.decoder import DecoderSizes
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import TRACE_BATCH, tracer

LINE = "the shell line"
"""Name of a model that is given as a line, in messages."""
_LINE = re.compile(r"(^|\s)--[a-z][a-z0-9-]+(\s|=|$)")


def is_shell_line(text: str) -> bool:
    """Return whether a text that names a model is a shell line rather than a name or a path: one with a word of two
    hyphens and small letters, such as ``--num-layers``; nothing is read or checked."""
    return _LINE.search(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    """Settings that the caller chooses for a model file; None where the file decides."""

    batch: int
    """Samples in one forward pass."""
    sequence_length: int | None = None
    """Tokens in a sample."""
    step: int | None = None
    """Step of a trace, as its profiler counts."""
    definitions: Mapping[str, str] = field(default_factory=dict)
    """Values that the file leaves open, by their names there: variables of a script, dimensions of a graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedStrategy:
    """Choices of a strategy that a file states; None where it leaves them open."""

    dp: int | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    cp: int | None = None
    micro_batches: int | None = None
    micro_batch: int | None = None
    """Samples of a micro-batch; the last one may be smaller."""
    virtual_stages: int | None = None
    recomputation: str | None = None
    """``none``, ``selective`` or ``full``, as plans call them."""
    sharding: str | None = None
    """``none``, ``zero-1``, ``zero-2``, ``zero-3`` or ``hybrid``; plans take ``ddp`` and ``fsdp``, too."""
    sequence_parallel: bool | None = None

    def __bool__(self) -> bool:
        """Return whether the file states any choice."""
        return any(value is not None for _, value in self)

    def __iter__(self) -> Iterator[tuple[str, int | str | bool | None]]:
        """Yield (name, value) of every choice in the order of the fields, None for those left open."""
        return iter([(each.name, getattr(self, each.name)) for each in fields(self)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReading:
    """A model as its file describes it, with the choices that the file pins."""

    graph: ComputeGraph
    unrecorded: tuple[str, ...] = ()
    """Assumptions where the file says nothing, a sentence each."""
    unused: tuple[str, ...] = ()
    """Settings of the file that the plan does not use, by their names there."""
    pins: StatedStrategy = field(default_factory=StatedStrategy)
    """Choices of a strategy that the file states."""
    global_batch: int | None = None
    """Samples of a step that the file states."""
    replica_batch: int | None = None
    """Samples that a replica takes at once; all replicas' are a step where no ``global_batch`` is stated."""
    stage_blocks: StageBlocks | None = None
    """How the file's framework cuts the blocks into the stages that are pinned; None where none are."""

    def lines(self) -> tuple[str, ...]:
        """Return the assumptions where the file says nothing, and one sentence that lists the settings of it that are
        not used, if any."""
        if not self.unused:
            return self.unrecorded
        return (*self.unrecorded, f"not used of the file: {', '.join(self.unused)}")


# Graphs of decoders from their sizes; PyTorch enters when one is traced.


def trace_decoder(sizes: DecoderSizes, *, name: str, batch: int) -> ComputeGraph:
    """Return the graph of a decoder for ``batch`` samples, traced with a fixed number of samples (13) and rescaled.

    For a mixture of experts it is the smallest multiple of 13 with which all visits of tokens to experts divide evenly
    among the experts.

    Raises:
        WorkloadError: PyTorch is missing, or the decoder cannot be traced.
    """
    with needing_torch(f"{name}:", error=WorkloadError):
        from lightloom.models.torch.zoo.llama import Decoder
    samples = TRACE_BATCH
    if sizes.experts:  # visits divide evenly among the experts
        samples *= sizes.experts // gcd(sizes.sequence_length * sizes.visited, sizes.experts)
    return tracer(name)(lambda: Decoder(sizes), name=name, batch=samples).with_batch(batch)
