"""Priors of the parameters of a kernel model: value, spread, unit and source of each."""

from __future__ import annotations

from collections.abc import Mapping

from lightloom.core.priors import Prior

PRIORS: Mapping[str, Prior] = {
    "gemm_fraction": Prior(
        value=0.85,
        spread=0.1,
        most=1.0,
        source="Dao, FlashAttention-2, ICLR 2024, section 1: optimized GEMM reaches 80 to 90 % of A100's peak",
        meaning="fraction of the peak that large products reach",
    ),
    "gemm_depth": Prior(
        value=400.0,
        spread=0.7,
        source="assumption: filling the pipeline and writing a tile of 128 x 256 take as long as a depth of some "
        "hundred, so that products as deep as a head's size lose most of their rate and deep ones little",
        meaning="depth at which a product reaches half of its rate",
    ),
    "unaligned": Prior(
        value=0.3,
        spread=0.5,
        most=1.0,
        source="assumption: between the 0.2 measured on H100 (docs/measured-steps.md) and the 0.5 that nanoGPT "
        "(Karpathy, 2023) implies on A100: a quarter less time for GPT-2 with a vocabulary of 50,304 instead of 50,257",
        meaning="rate of products whose rows are not multiples of 4 bytes, relative to aligned ones; twice that for "
        "those of 4 or 8 bytes",
    ),
    "flash_forward": Prior(
        value=0.4,
        spread=0.3,
        most=1.0,
        source="Dao, FlashAttention-2, section 1: FlashAttention reaches 30 to 50 % of A100's peak forward",
        meaning="fraction of the peak that flash attention reaches forward",
    ),
    "flash_backward": Prior(
        value=0.3,
        spread=0.3,
        most=1.0,
        source="Dao, FlashAttention-2, section 1: FlashAttention reaches 25 to 35 % backward",
        meaning="the same backward",
    ),
    "memory_fraction": Prior(
        value=0.82,
        spread=0.1,
        most=1.0,
        source="assumption: below the 0.9 of the data sheet that a copy reaches",
        meaning="fraction of the memory's bandwidth that is reached",
    ),
    "fusion": Prior(
        value=0.8,
        spread=0.3,
        source="assumption: bias, dropout and residual sum are one kernel (Shoeybi et al., Megatron-LM, 2019)",
        meaning="traffic of element-wise operators that fusion leaves",
    ),
    "score_traffic": Prior(
        value=1.0,
        spread=0.3,
        source="assumption: each score is read and written once a kernel",
        meaning="traffic of the scores in unfused attention, relative to the count",
    ),
    "dispatch": Prior(
        value=10e-6,
        spread=0.5,
        source="assumption: PyTorch takes 5 to 25 us to launch a kernel from Python",
        meaning="seconds in which the host launches a kernel",
        unit="s",
    ),
    "optimizer_traffic": Prior(
        value=1.0,
        spread=0.3,
        source="assumption: each value is read and written once an update",
        meaning="traffic of an update, relative to the count",
    ),
    "step_overhead": Prior(
        value=1e-3,
        spread=1.0,
        source="assumption: about a hundred launches of 10 us each, for loss scaling, gradient norm and zeroing",
        meaning="what every step adds: loading, loss scaling, gradient norm",
        unit="s",
    ),
}
"""Priors of the parameters that a calibration may change, where a :class:`KernelModel` states no others."""
