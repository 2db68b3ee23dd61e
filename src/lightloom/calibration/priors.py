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
from lightloom.accelerators.kernels import SPREADS, KernelModel
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


_MEANINGS: Mapping[str, str] = {
    "gemm_fraction": "fraction of the peak that large products reach",
    "gemm_depth": "depth at which a product reaches half of its rate",
    "flash_forward": "fraction of the peak that flash attention reaches forward",
    "flash_backward": "the same backward",
    "memory_fraction": "fraction of the memory's bandwidth that is reached",
    "fusion": "traffic of element-wise operators that fusion leaves",
    "score_traffic": "traffic of the scores in unfused attention, relative to the count",
    "dispatch": "seconds in which the host launches a kernel",
    "optimizer_traffic": "traffic of an update, relative to the count",
}
NODE_LINK = {"a100": 300e9, "a100-40": 300e9, "h100": 450e9, "h200": 450e9, "b200": 900e9}
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
        source="NCCL, src/graph/tuning.cc: 8.4 us (Simple) or 10 us (LL128) of base latency of a ring; a launch added",
    ),
    Prior(
        name="peer_latency",
        value=5e-6,
        spread=0.5,
        unit="s",
        meaning="latency that each peer of an all-reduce adds",
        source="NCCL, src/graph/tuning.cc: a ring's step on NVLink takes 1.9 us (LL128) or 3.4 us (Simple), two a peer",
    ),
    Prior(
        name="node_fraction",
        value=0.77,
        spread=0.15,
        unit="",
        meaning="reached fraction of the bandwidth inside a node",
        source="between 200 GB/s of 300 on 8 A100 (NVIDIA/nccl-tests, issue 149) and what NVLink's packets carry, 282",
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
        value=0.15,
        spread=1.0,
        unit="",
        meaning="part of sharded gathers and reductions that compute does not hide, of the shorter of the two",
        source="assumption: gathers ahead of their use hide most of it; nothing published",
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


def kernel_model(accelerator: Accelerator) -> KernelModel:
    """Return the kernel model of an accelerator.

    Raises:
        UnsupportedError: it has none.
    """
    if accelerator.kernels is None:
        raise UnsupportedError(f"accelerator {accelerator.name!r} has no kernel model, whose parameters are calibrated")
    return accelerator.kernels


def kernels_with(accelerator: Accelerator, values: Mapping[str, float]) -> KernelModel:
    """Return the kernel model of an accelerator with those of ``values`` that belong to it."""
    kernels = kernel_model(accelerator)
    return kernels.model_copy(update={name: values[name] for name in SPREADS if name in values})


def priors_of(accelerator: Accelerator) -> Priors:
    """Return the priors for jobs on an accelerator: those of its kernels, then those of links and steps.

    Raises:
        UnsupportedError: the accelerator has no kernel model.
    """
    kernels = tuple(
        Prior(
            name=name,
            value=prior.value,
            spread=prior.spread,
            unit="s" if name == "dispatch" else "",
            meaning=_MEANINGS[name],
            source=prior.source,
        )
        for name, prior in kernel_model(accelerator).priors().items()
    )
    return Priors(kernels + JOB_PRIORS)
