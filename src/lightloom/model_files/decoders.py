"""Graphs of decoders from their sizes; PyTorch enters when one is traced."""

from __future__ import annotations

from math import gcd

from lightloom.core.errors import WorkloadError
from lightloom.workloads.decoder import DecoderSizes
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.load import TRACE_BATCH
from lightloom.workloads.resolve import INSTALL_TORCH


def trace_decoder(sizes: DecoderSizes, *, name: str, batch: int) -> ComputeGraph:
    """Return the graph of a decoder.

    Raises:
        WorkloadError: PyTorch is missing, or the decoder cannot be traced.
    """
    try:
        from lightloom.workloads.torch.build import trace_factory
        from lightloom.workloads.torch.decoder import Decoder
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise WorkloadError(f"{name}: {INSTALL_TORCH}") from error
    samples = TRACE_BATCH
    if sizes.experts:  # visits divide evenly among the experts
        visits = sizes.sequence_length * sizes.visited
        samples *= sizes.experts // gcd(visits, sizes.experts)
    return trace_factory(lambda: Decoder(sizes), name=name, batch=samples).with_batch(batch)


def parameters(sizes: DecoderSizes) -> int:
    """Return the number of parameters of a decoder without a trace: the sum of its tables, products, norms and biases.

    Raises:
        WorkloadError: PyTorch is missing.
    """
    import torch

    from lightloom.workloads.torch.decoder import Decoder

    with torch.device("meta"):
        return sum(each.numel() for each in Decoder(sizes).parameters())
