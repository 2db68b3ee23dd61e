"""What is believed of the parameters that price a plan, and the intervals that follow.

The half-width of a 90 % interval, in logarithms, has two parts that add up as squares: 1.645 standard deviations of
what the parameters leave open, linearised about their values, and the size that nine of ten errors of unseen steps stay
below, whatever the parameters (``scatter``). Both come from a calibration where the accelerator has one, otherwise from
priors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.accelerators.calibrated import Calibration
from lightloom.core.arrays import Floats, Mask
from lightloom.core.priors import Prior
from lightloom.fabrics.base import Fabric

LEVEL = 0.9
"""Probability that a measured step lies within its interval."""
NORMAL = 1.645
"""Standard deviations of a normal distribution within which nine tenths lie."""
NOISE = 0.05
"""Standard deviation of the logarithm of a measured step around the model, before rows say otherwise."""
PRIOR_SCATTER = NORMAL * NOISE
"""Scatter of steps, as a half-width of logarithms, before any row was seen."""


@dataclass(frozen=True)
class Belief:
    """Parameters that are uncertain, and how steps scatter around their model."""

    names: tuple[str, ...]
    """Those of the kernels, then those of the fabric's collective library."""
    covariance: Floats
    """Of their logarithms: [parameters, parameters]."""
    scatter: float
    """Half-width of the logarithm that nine of ten unseen steps need around the best model."""
    basis: str
    """What the intervals rest on, in words."""


def belief_of(accelerator: Accelerator, fabric: Fabric) -> Belief | None:
    """Return what is believed of an accelerator and the library of its fabric.

    None for an accelerator with a flat efficiency, of which no spread is known.
    """
    if accelerator.kernels is None:
        return None
    library = fabric.library
    kernels, links = accelerator.kernels.priors(), {} if library is None else library.transport.priors()
    priors = {name: prior for name, prior in {**kernels, **links}.items() if prior.value > 0}
    covariance = np.diag([prior.spread**2 for prior in priors.values()])
    calibration = accelerator.calibration
    if calibration is None:
        return Belief(tuple(priors), covariance, PRIOR_SCATTER, "priors")
    _lay_over(covariance, priors, calibration)
    return Belief(tuple(priors), covariance, calibration.scatter, f"calibrated on {calibration.rows.table}")


def _lay_over(covariance: Floats, priors: Mapping[str, Prior], calibration: Calibration) -> None:
    """Replace the entries of parameters whose spreads are those of the calibration."""
    names = list(calibration.parameters)
    fitted = [
        (place, names.index(name))
        for place, (name, prior) in enumerate(priors.items())
        if name in names and prior.spread == calibration.parameters[name].spread
    ]
    ours, theirs = (np.array(places, np.int64) for places in zip(*fitted, strict=True))
    covariance[np.ix_(ours, ours)] = np.array(calibration.covariance)[np.ix_(theirs, theirs)]


def half_widths(slopes: Floats, covariance: Floats, scatter: Floats | float) -> Floats:
    """Return the half-width of each interval, in logarithms: [steps].

    Args:
        slopes: change of each step's logarithm with each parameter's: [steps, parameters].
        covariance: of the parameters' logarithms.
        scatter: half-width that steps need around the best model.
    """
    variance: Floats = np.einsum("rp,pq,rq->r", slopes, covariance, slopes)
    half: Floats = np.sqrt(NORMAL**2 * variance + np.asarray(scatter) ** 2)
    return half


def told_apart(slopes: Floats, log_seconds: Floats, covariance: Floats, scatter: float) -> Mask:
    """Return whether the first of several steps is told apart from each of the others: [steps].

    Parameters that move both times alike cancel in the difference; the scatter of each stays.

    Args:
        slopes: of each step: [steps, parameters].
        log_seconds: of each step.
        covariance: of the parameters' logarithms.
        scatter: half-width of steps around the model.
    """
    difference = half_widths(slopes - slopes[0], covariance, np.sqrt(2) * scatter)
    apart: Mask = np.abs(log_seconds - log_seconds[0]) > difference
    return apart
