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
from lightloom.accelerators.kernels import PRIORS, KernelModel, Prior
from lightloom.core.arrays import Floats
from lightloom.core.errors import UnsupportedError


def node_link(accelerator: Accelerator) -> float:
    """Return the bytes per second of one GPU into its node's switch each way.

    Raises:
        UnsupportedError: it is not known for this accelerator.
    """
    if accelerator.node_bandwidth is None:
        raise UnsupportedError(
            f"accelerator {accelerator.name!r}: field 'node_bandwidth' is not set: expected the bandwidth of one "
            "accelerator into the switch of its node each way, e.g. 300 GB/s"
        )
    return accelerator.node_bandwidth


JOB_PRIORS: Mapping[str, Prior] = {
    "node_latency": Prior(
        value=20e-6,
        spread=0.5,
        unit="s",
        meaning="base latency of a collective inside a node",
        source="NCCL, src/graph/tuning.cc: 8.4 us (Simple) or 10 us (LL128) of base latency of a ring; a launch added",
    ),
    "peer_latency": Prior(
        value=5e-6,
        spread=0.5,
        unit="s",
        meaning="latency that each peer of an all-reduce adds",
        source="NCCL, src/graph/tuning.cc: a ring's step on NVLink takes 1.9 us (LL128) or 3.4 us (Simple), two a peer",
    ),
    "node_fraction": Prior(
        value=0.77,
        spread=0.15,
        meaning="reached fraction of the bandwidth inside a node",
        source="between 200 GB/s of 300 on 8 A100 (NVIDIA/nccl-tests, issue 149) and what NVLink's packets carry, 282",
    ),
    "network_fraction": Prior(
        value=0.75,
        spread=0.2,
        meaning="reached fraction of the bandwidth of a node's network",
        source="assumption",
    ),
    "network_latency": Prior(
        value=30e-6,
        spread=0.7,
        unit="s",
        meaning="latency across nodes: of a send, and of each doubling of a collective's ranks",
        source="assumption",
    ),
    "send": Prior(
        value=1.0,
        spread=0.5,
        meaning="time of sends between stages, relative to their bytes over the reached bandwidth",
        source="assumption",
    ),
    "exposed": Prior(
        value=0.15,
        spread=1.0,
        meaning="part of sharded gathers and reductions that compute does not hide, of the shorter of the two",
        source="assumption: gathers ahead of their use hide most of it; nothing published",
    ),
    "step_overhead": Prior(
        value=10e-3,
        spread=1.0,
        unit="s",
        meaning="what every step adds: loading, loss scaling, gradient norm",
        source="assumption",
    ),
}
"""Priors of links and of what a step adds."""


@dataclass(frozen=True, slots=True)
class Priors:
    """All parameters in the order of their columns."""

    by_name: Mapping[str, Prior]

    @property
    def names(self) -> list[str]:
        return list(self.by_name)

    @property
    def center(self) -> Floats:
        """Logarithms of the values: [parameters]."""
        return np.array([log(prior.value) for prior in self.by_name.values()])

    @property
    def spread(self) -> Floats:
        """Standard deviations of the logarithms: [parameters]."""
        return np.array([prior.spread for prior in self.by_name.values()])

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
    return kernels.model_copy(update={name: values[name] for name in PRIORS if name in values})


def priors_of(accelerator: Accelerator) -> Priors:
    """Return the priors for jobs on an accelerator: those of its kernels, then those of links and steps.

    Raises:
        UnsupportedError: the accelerator has no kernel model.
    """
    return Priors({**kernel_model(accelerator).priors(), **JOB_PRIORS})
