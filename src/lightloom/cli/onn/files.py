"""What the ``onn`` commands share: files that they read and check, and the picture of errors against noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable
from lightloom.core.provenance import provenance_line
from lightloom.core.results import Document
from lightloom.photonics.averaging import FunctionArguments, LayeredNetwork, noisy_accuracy
from lightloom.photonics.averaging.proved.noise import input_bound
from lightloom.reports.figures.base import save
from lightloom.reports.onn.noise import NoiseCurve, noise_figure, noise_steps
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    pass


def check_network_name(path: Path) -> None:
    """Refuse a place where no network could be written.

    Raises:
        ConfigError: another ending than .npz, or the place cannot be written to.
    """
    if path.suffix != ".npz":
        raise ConfigError(f"{str(path)!r}: expected a name that ends in .npz")
    check_writable(path)


def draw_noise(
    network: LayeredNetwork,
    arguments: FunctionArguments,
    name: str,
    limit: float,
    evaluations: int,
    figure: Path,
    origin: Document,
) -> list[dict[str, float]]:
    """Draw the share of wrong outputs against noise, and return the curve's points for JSON."""
    function = arguments.function()
    bound = input_bound(function)
    sigmas = noise_steps(limit, bound)
    rates = []
    with progress("Noise", len(sigmas)) as advance:
        for sigma in sigmas:
            rates.append(1 - noisy_accuracy(network, function, float(sigma), evaluations))
            advance(1)
    curve = NoiseCurve(name=name, sigmas=sigmas, error_rates=np.array(rates), evaluations=evaluations, limit=limit)
    title = f"{arguments.servers} servers, {arguments.bits} bits, {network.nonlinearity}"
    save(noise_figure([curve], bound, title), figure, provenance_line(origin))
    return [{"noise": float(s), "error_rate": float(r)} for s, r in zip(sigmas, rates, strict=True)]
