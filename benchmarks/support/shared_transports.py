"""Constants of a transport that many systems share, fitted to all of them together.

Published latencies are corrected by factors, and what a library does not publish (how it fills its pipelines, how fast
it copies) is fitted, while every system has its four numbers beside. What is typical of the systems' numbers becomes
that of a system that nobody measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lightloom.core.arrays import Floats, Mask
from lightloom.core.errors import ConfigError
from lightloom.machines.transports.price import FACTORS, SHARED, Constants, seconds
from lightloom.machines.transports.transport import Corrections, Scales, Transport
from lightloom.machines.transports.ways import PROTOCOLS
from lightloom.planning.calibration.accuracy import rounded
from lightloom.planning.calibration.collectives import System, row_weights

_SCALES = len(Scales.model_fields)
_FACTOR_PRIOR, _FACTOR_SPREAD = np.zeros(len(FACTORS)), np.full(len(FACTORS), 0.6)
_FACTOR_START = np.log([0.8, 1.2, 1, 0.5, 0.5, 1, 1.6, 1.2, 1, 1, 1])
"""Where the search for factors begins: from 1 it may end where LL128 is never the quickest."""
_SHARED_PRIOR, _SHARED_SPREAD = np.log([0.3e-6, 1.0, 2.0, 0.6, 0.95]), np.array([0.7, 0.5, 0.5, 0.3, 0.1])
_SCALE_PRIOR, _SCALE_SPREAD = np.log([1.0, 1.0, 0.95, 0.98]), np.array([0.3, 0.8, 0.1, 0.1])
"""Assumptions, as logarithms, before any row: published latencies as they are, links nearly as NCCL counts them."""
_PRIOR_WEIGHT = 0.1
"""Weight of the priors in what is typical of the systems' numbers; a system whose rows depend on nothing but one
number counts 1 in it."""
_STEP = 1e-3


def fit_shared(systems: Sequence[System], transport: Transport) -> Transport:
    """Return a transport with the constants that fit several systems, and numbers that are typical of them.

    Raises:
        ConfigError: there is no system.
    """
    if not systems:
        raise ConfigError("no systems to fit a transport to")
    from scipy.optimize import least_squares

    shared = len(_FACTOR_PRIOR) + len(_SHARED_PRIOR)
    center = np.concatenate([_FACTOR_PRIOR, _SHARED_PRIOR, *([_SCALE_PRIOR] * len(systems))])
    spread = np.concatenate([_FACTOR_SPREAD, _SHARED_SPREAD, *([_SCALE_SPREAD] * len(systems))])
    start = np.concatenate([_FACTOR_START, center[len(_FACTOR_START) :]])
    share = machine_shares(systems)
    weights = [row_weights(system) * part**0.5 for system, part in zip(systems, share, strict=True)]

    def residuals(logarithms: Floats) -> Floats:
        values = np.exp(logarithms)
        factors, common, own = np.split(values, [len(_FACTOR_PRIOR), shared])
        errors = [
            np.log(seconds(system.ways, Constants(factors, common, numbers)) / system.measured) * weight
            for system, weight, numbers in zip(systems, weights, own.reshape(-1, _SCALES), strict=True)
        ]
        return np.concatenate([*errors, (logarithms - center) / spread])

    solved = least_squares(residuals, start, loss="soft_l1", max_nfev=60)
    factors, common, own = np.split(solved.x, [len(_FACTOR_PRIOR), shared])
    fitted = [Constants(np.exp(factors), np.exp(common), np.exp(numbers)) for numbers in own.reshape(-1, _SCALES)]
    typical = _typical(systems, fitted, share)
    return with_constants(transport, Constants(np.exp(factors), np.exp(common), np.exp(typical)))


def machine_shares(systems: Sequence[System]) -> Floats:
    """Return what each system counts: those of one machine count one together."""
    machines = [system.machine or system.name for system in systems]
    return np.array([1 / machines.count(machine) for machine in machines])


def _typical(systems: Sequence[System], own: Sequence[Constants], share: Floats) -> Floats:
    """Means of the logarithms of the systems' numbers, each weighted by how much the system's rows depend on it: [4].

    Tables of large collectives alone say little about latencies, those inside a domain nothing about the network.
    """
    weights = share[:, None] * np.array([_sensitivities(*pair) for pair in zip(systems, own, strict=True)])
    numbers = np.log([constants.scales for constants in own])
    typical: Floats = ((weights * numbers).sum(axis=0) + _PRIOR_WEIGHT * _SCALE_PRIOR) / (
        weights.sum(axis=0) + _PRIOR_WEIGHT
    )
    return typical


def _sensitivities(system: System, constants: Constants) -> list[float]:
    """Mean relative change of a system's rows for a small one of each of its numbers: [4]."""
    before, changes = seconds(system.ways, constants), []
    for place in range(_SCALES):
        moved = constants.scales.copy()
        moved[place] *= 1 + _STEP
        after = seconds(system.ways, Constants(constants.factors, constants.shared, moved))
        changes.append(float(np.abs(after / before - 1).mean()) / _STEP)
    return changes


def with_constants(transport: Transport, constants: Constants) -> Transport:
    """Return a transport with fitted constants in place of its own."""
    factors = [rounded(value) for value in constants.factors.tolist()]
    protocols = {
        name: transport.protocols[name].model_copy(
            update={
                "corrections": Corrections(
                    base=factors[3 * place], domain_step=factors[3 * place + 1], network_step=factors[3 * place + 2]
                )
            }
        )
        for place, name in enumerate(PROTOCOLS)
        if name in transport.protocols
    }
    reduction = transport.reduction
    if reduction is not None:
        corrections = Corrections(domain_step=factors[-2], network_step=factors[-1])
        reduction = reduction.model_copy(update={"corrections": corrections})
    numbers = dict(zip(Scales.model_fields, map(rounded, constants.scales.tolist()), strict=True))
    common = dict(zip(SHARED, map(rounded, constants.shared.tolist()), strict=True))
    fitted = {"protocols": protocols, "reduction": reduction, "scales": Scales(**numbers), **common}
    return transport.model_copy(update=fitted)


ANCHORS = 6
"""Sizes that the four numbers of a system are fitted to, at most."""
_FROM = 2.0**20


def anchors(system: System) -> Mask:
    """Rows of the sizes that the system's numbers are fitted to: [rows]."""
    return np.isin(system.nbytes, list(anchor_sizes(system.nbytes)))


def subset(system: System, rows: Mask) -> System:
    """Return the same system with some of its rows."""
    return replace(system, rows=[row for row, chosen in zip(system.rows, rows, strict=True) if chosen])


def anchor_sizes(nbytes: Floats) -> set[float]:
    """Return at most six sizes, and at most half of those that there are, rounded up.

    The smallest, and the others spread evenly over the logarithms from 1 MiB (or the smallest, if that is larger) to
    the largest.
    """
    sizes = np.unique(nbytes)
    count = min(ANCHORS, (len(sizes) + 1) // 2)
    first = [] if sizes[0] >= _FROM else [sizes[0]]
    spread = np.geomspace(min(max(sizes[0], _FROM), sizes[-1]), sizes[-1], max(count - len(first), 1))
    return {float(sizes[np.abs(np.log(sizes / size)).argmin()]) for size in [*first, *spread][:count]}
