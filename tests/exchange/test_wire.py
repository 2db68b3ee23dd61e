"""The kernels in C, the reference in torch and the kernels in Triton put the same shares on the wire."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.exchange.compression.blocks import BlockFormat
from lightloom.exchange.distributed.block_exchange import (
    BlockKernels,
    BlockReference,
    BlockTriton,
    WireFormat,
)
from lightloom.exchange.distributed.residuals import Geometry, cut_shares
from lightloom.exchange.gpu.codec import gpu_refusal
from tests.compression.blocks.strategies import DEFAULTS, seeds

FP8 = BlockFormat("fp8", 8, 256)
FORMS: list[Callable[[BlockFormat], WireFormat]] = [
    BlockKernels,
    BlockReference,
    *([] if gpu_refusal() else [BlockTriton]),
]


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton interprets nothing where there is a GPU")
@settings(max_examples=20)
@given(
    st.sampled_from([*DEFAULTS, FP8]), st.lists(st.integers(1, 600), min_size=1, max_size=4), st.integers(1, 4), seeds
)
def test_shares_are_the_same_bytes_in_every_form(fmt: BlockFormat, lengths: list[int], ranks: int, seed: int) -> None:
    random, size = np.random.default_rng(seed), sum(lengths)
    geometry = Geometry.joined([(f"p{i}", (length,)) for i, length in enumerate(lengths)])
    shares = cut_shares(geometry, ranks, fmt.block)
    gradient = torch.from_numpy(random.standard_normal(size).astype(np.float32))
    residual = torch.from_numpy(random.standard_normal(size).astype(np.float32))
    outcomes = []
    for form in FORMS[:2] if fmt.kind == "fp8" else FORMS:
        wires, left, total = form(fmt), residual.clone(), torch.ones(size)
        parts = []
        for rank in range(ranks):
            wire = torch.zeros(shares[rank].blocks * fmt.block_bytes, dtype=torch.uint8)
            wires.encode(gradient, None if rank == 1 else left, shares[rank], wire)
            wires.decode(wire, shares[rank], total, factor=1 / 3, add=rank % 2 == 0)
            parts.append(wire)
        outcomes.append((torch.cat(parts), left, total))
    for outcome in outcomes[1:]:
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(outcome, outcomes[0], strict=True))
