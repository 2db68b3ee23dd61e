"""The picture that ``onn build`` and ``onn verify`` share: errors of a network against noise."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from lightloom.core.provenance import provenance_line
from lightloom.core.results import Document
from lightloom.photonics.averaging import AveragingFunction, LayeredNetwork, noisy_accuracy
from lightloom.photonics.averaging.proved.noise import input_bound
from lightloom.reports.figures.base import save
from lightloom.reports.onn.noise import NoiseCurve, noise_figure, noise_steps
from lightloom.reports.progress import progress


class Subject(NamedTuple):
    """A network, the function that it computes, and its name in the legend."""

    network: LayeredNetwork
    function: AveragingFunction
    name: str


def draw_noise(
    subject: Subject, limit: float, evaluations: int, title: str, figure: Path, origin: Document
) -> list[dict[str, float]]:
    """Draw the share of wrong outputs against noise, and return the curve's points for JSON."""
    network, function, name = subject
    bound = input_bound(function)
    sigmas = noise_steps(limit, bound)
    rates = []
    with progress("Noise", len(sigmas)) as advance:
        for sigma in sigmas:
            rates.append(1 - noisy_accuracy(network, function, float(sigma), evaluations))
            advance(1)
    curve = NoiseCurve(name=name, sigmas=sigmas, error_rates=np.array(rates), evaluations=evaluations, limit=limit)
    save(noise_figure([curve], bound, title), figure, provenance_line(origin))
    return [{"noise": float(s), "error_rate": float(r)} for s, r in zip(sigmas, rates, strict=True)]
