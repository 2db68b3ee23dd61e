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
from lightloom.accelerators.kernel_priors import PRIORS
from lightloom.accelerators.kernels import KernelModel
from lightloom.core.arrays import Floats
from lightloom.core.errors import UnsupportedError
from lightloom.core.priors import Prior
from lightloom.transports.base import Transport
from lightloom.transports.load import load_transport


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

    @property
    def most(self) -> Floats:
        """Logarithms that a fit may not exceed, infinite where a parameter has no largest value: [parameters]."""
        return np.log([prior.most for prior in self.by_name.values()])

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


def transport_of(accelerator: Accelerator) -> Transport:
    """Return the transport of collectives among accelerators of this kind.

    Raises:
        UnsupportedError: the accelerator names none.
    """
    if accelerator.transport is None:
        raise UnsupportedError(
            f"accelerator {accelerator.name!r}: field 'transport' is not set: expected what carries its collectives, "
            "e.g. nccl-hopper"
        )
    return load_transport(accelerator.transport)


def priors_of(accelerator: Accelerator) -> Priors:
    """Return the priors for jobs on an accelerator: those of its kernels and steps, then those of its transport.

    Raises:
        UnsupportedError: the accelerator has no kernel model, or names no transport.
    """
    return Priors({**kernel_model(accelerator).priors(), **transport_of(accelerator).priors()})
