"""Our own matrices of a chip at any wavelength, which SAX must reproduce from the netlist alone.

`photonics.dispersion` propagates each mesh with couplers and heaters at that wavelength. Waveguides bring a phase that
is common to all paths of a part, as every column has one length and shorter blocks end in as long waveguides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lightloom.photonics.averaging.mapped_averager import MappedAverager, Part
from lightloom.photonics.dispersion import Dispersion, at_wavelength

COLUMN_LENGTH = 3e-4
"""Waveguide of a column, in metres. An assumption: two heaters of about 0.1 mm and two couplers."""
SEEDS = 1000
"""Distance of the seeds that draw the arms of two parts."""


def part_matrix(
    part: Part,
    wavelength: float,
    dispersion: Dispersion | None = None,
    *,
    seed: int = 0,
    column_length: float = COLUMN_LENGTH,
) -> NDArray[np.complex128]:
    """Return the matrix [outputs, inputs] of one part, its amplifiers included; wavelength and lengths in metres."""
    devices = dispersion or Dispersion()
    common = np.exp(1j * devices.guide_phase(column_length * part.depth, wavelength))
    return np.asarray(common * at_wavelength(part, wavelength, devices, seed).matrix())


def chip_matrix(
    averager: MappedAverager,
    wavelength: float,
    dispersion: Dispersion | None = None,
    *,
    slope: float = 1.0,
    seed: int = 0,
    column_length: float = COLUMN_LENGTH,
) -> NDArray[np.complex128]:
    """Return the matrix from the senders' lanes to the receivers' for small signals, [lanes, lanes].

    ``slope`` is that of the unit behind each output of each layer; biases move its operating point, not its slope.
    """
    total = np.eye(averager.preprocessing.shape[1], dtype=np.complex128)
    for place, (name, part) in enumerate(averager.parts.items()):
        matrix = part_matrix(part, wavelength, dispersion, seed=seed + SEEDS * place, column_length=column_length)
        total = (slope if name.startswith("layer") else 1.0) * matrix @ total
    return total
