"""Parameters of the prediction: a prior for each, its spread, its unit and its source.

A parameter is a positive number, and its logarithm is normally distributed with the stated spread as its standard
deviation: 0.1 says "within about ten percent", 0.7 "within a factor of two".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.core.arrays import Floats
from lightloom.core.errors import UnsupportedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is known of a parameter before any step was measured."""

    name: str
    value: float
    spread: float
    """Standard deviation of the logarithm."""
    unit: str
    """Unit, empty for a fraction or a factor."""
    meaning: str
    source: str
    """Publication, or "assumption" and what it rests on."""


_FLASH = (
    "Dao 2023 (arXiv:2307.08691), abstract and section 1: FlashAttention reaches 25-40 % of the A100's peak, "
    "FlashAttention-2 50-73 %; causal masks at sequences of 2,048 reach less"
)

KERNEL_PRIORS: Mapping[str, tuple[float, float, str, str, str]] = {
    "gemm_fraction": (0.85, 0.1, "", "fraction of peak of a large matrix product", "assumption"),
    "gemm_depth": (500.0, 0.5, "", "depth k at which a matrix product reaches half its rate", "assumption"),
    "flash_forward": (0.35, 0.3, "", "fraction of peak of causal flash attention, forward", _FLASH),
    "flash_backward": (0.26, 0.3, "", "the same, backward", _FLASH),
    "memory_fraction": (0.82, 0.1, "", "reached fraction of the memory bandwidth", "assumption"),
    "fusion": (1.0, 0.3, "", "element-wise traffic, relative to the stated count", "assumption"),
    "score_traffic": (1.0, 0.3, "", "traffic of unfused attention scores, relative to the stated count", "assumption"),
    "dispatch": (10e-6, 0.5, "s", "host time of a kernel, a floor under each pass", "assumption"),
    "optimizer_traffic": (1.0, 0.3, "", "traffic of the optimizer, relative to 24 bytes a parameter", "assumption"),
}
NODE_LINK = {"a100": 300e9, "h100": 450e9, "h200": 450e9, "b200": 900e9}
"""Bytes per second of one GPU into its node's NVLink switch each way. Source: NVIDIA's data sheets."""


def node_link(accelerator: Accelerator) -> float:
    """Return the bytes per second of one GPU into its node's switch each way.

    Raises:
        UnsupportedError: it is not known for this accelerator.
    """
    if accelerator.name not in NODE_LINK:
        raise UnsupportedError(
            f"accelerator {accelerator.name!r}: bandwidth inside a node is known of {', '.join(NODE_LINK)} only"
        )
    return NODE_LINK[accelerator.name]


JOB_PRIORS: tuple[Prior, ...] = (
    Prior(
        name="node_latency",
        value=20e-6,
        spread=0.5,
        unit="s",
        meaning="base latency of a collective inside a node",
        source="NCCL's own tuning model: about 7 us of base and 1 us a step for rings on NVLink; launch added",
    ),
    Prior(
        name="peer_latency",
        value=2e-6,
        spread=0.3,
        unit="s",
        meaning="latency that each peer of a collective adds",
        source="assumption: two hops of NCCL's ring on NVLink",
    ),
    Prior(
        name="node_fraction",
        value=0.77,
        spread=0.15,
        unit="",
        meaning="reached fraction of the bandwidth inside a node",
        source="NVIDIA nccl-tests, doc/PERFORMANCE.md: about 230 GB/s bus bandwidth of 300 on an A100 node",
    ),
    Prior(
        name="network_fraction",
        value=0.75,
        spread=0.2,
        unit="",
        meaning="reached fraction of the bandwidth of a node's network",
        source="assumption",
    ),
    Prior(
        name="network_latency",
        value=30e-6,
        spread=0.7,
        unit="s",
        meaning="latency across nodes: of a send, and of each doubling of a collective's ranks",
        source="assumption",
    ),
    Prior(
        name="send",
        value=1.0,
        spread=0.5,
        unit="",
        meaning="time of sends between stages, relative to their bytes over the reached bandwidth",
        source="assumption",
    ),
    Prior(
        name="exposed",
        value=0.5,
        spread=0.7,
        unit="",
        meaning="part of sharded gathers and reductions that compute does not hide, of the shorter of the two",
        source="assumption",
    ),
    Prior(
        name="step_overhead",
        value=10e-3,
        spread=1.0,
        unit="s",
        meaning="what every step adds: loading, loss scaling, gradient norm",
        source="assumption",
    ),
)


@dataclass(frozen=True, slots=True)
class Priors:
    """All parameters in the order of their columns."""

    priors: tuple[Prior, ...]

    @property
    def names(self) -> list[str]:
        return [prior.name for prior in self.priors]

    @property
    def center(self) -> Floats:
        """Logarithms of the values: [parameters]."""
        return np.array([log(prior.value) for prior in self.priors])

    @property
    def spread(self) -> Floats:
        """Standard deviations of the logarithms: [parameters]."""
        return np.array([prior.spread for prior in self.priors])

    def values(self, logarithms: Iterable[float]) -> dict[str, float]:
        """Return each parameter by its name, given the logarithms in order."""
        return dict(zip(self.names, np.exp(np.fromiter(logarithms, np.float64)).tolist(), strict=True))


def priors_of(accelerator: Accelerator) -> Priors:  # noqa: ARG001
    """Return the priors for jobs on an accelerator: those of its kernels, then those of links and steps."""
    kernels = tuple(
        Prior(name=name, value=value, spread=spread, unit=unit, meaning=meaning, source=source)
        for name, (value, spread, unit, meaning, source) in KERNEL_PRIORS.items()
    )
    return Priors(kernels + JOB_PRIORS)
