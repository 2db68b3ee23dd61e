"""Matrices of a chip at any wavelength, which SAX must reproduce from the netlist alone.

`at_wavelength` propagates each mesh with couplers and heaters at that wavelength. Waveguides bring a phase that
is common to all paths of a part, as every column has one length and shorter blocks end in as long waveguides.
"""

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.mapped import MappedAverager, Part
from lightloom.photonics.devices import LIGHT, Complex, NonIdealities
from lightloom.photonics.meshes.disturb import Fabrication, Ideal, on_devices

# One mesh at several wavelengths: what its couplers, heaters and waveguides do beside the one it was set at.
#
# coupler     mixing angle π/4 + slope · (λ - λ0): the waves couple over a length that grows with the wavelength
# heater      phase · λ0 / λ: the same change of the index over the same length
# waveguide   2π n(λ) L / λ, n(λ) = n0 - (n_g - n0) (λ - λ0) / λ0: the same for paths of equal length
#
# Columns of a rectangular mesh make all paths equally long, so that only couplers and heaters differ there;
# `mismatch` is what is left of it, the standard deviation of the length of an arm.


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispersion:
    """How devices of a mesh change with the wavelength."""

    wavelength: float = 1.55e-6
    """Wavelength at which the mesh was set, in metres."""
    coupler_slope: float = 5e6
    """Change of a coupler's mixing angle, in radians per metre. An assumption: 5e-3 rad/nm, half a percent of power per
    nm for couplers of two parallel silicon strips; bent and adiabatic ones change less."""
    group_index: float = 4.2
    """Group index. An assumption: silicon strips, 220 nm high, near 1550 nm."""
    effective_index: float = 2.4
    """Effective index. An assumption, for the same strips."""
    mismatch: float = 0.0
    """Standard deviation of the length of an interferometer's arm, in metres; phases are set for it at `wavelength`."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a wavelength or index that is not above 0 and finite, a slope that is not finite, or a
        mismatch outside 0 to below 1."""
        for name in ("wavelength", "group_index", "effective_index"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} = {getattr(self, name)!r}: expected more than 0")
        if not (np.isfinite(self.coupler_slope) and 0 <= self.mismatch < 1):
            raise ConfigError(f"coupler_slope = {self.coupler_slope!r}, mismatch = {self.mismatch!r}: expected numbers")

    def coupler_error(self, wavelength: float) -> float:
        """Return the mixing-angle error in radians of every coupler at a wavelength in metres.

        It is the slope times ``wavelength`` less that at which the mesh was set, so of either sign.
        """
        return self.coupler_slope * (wavelength - self.wavelength)

    def heater_phases(self, phases: ArrayLike, wavelength: float) -> Floats:
        """Return the phases in radians that heaters have at ``wavelength`` (metres), if they have ``phases`` where the
        mesh was set.

        They are inversely proportional to the wavelength.
        """
        return np.asarray(phases, np.float64) * (self.wavelength / wavelength)

    def guide_phase(self, length: ArrayLike, wavelength: float) -> Floats:
        """Return the phase in radians of waveguides at ``wavelength``, less that at the wavelength at which the mesh
        was set.

        It is 2π (n(λ)/λ - n(λ0)/λ0) · length with n to first order, as in the function `guide_phase`. ``length`` and
        ``wavelength`` are in metres; the result has the shape of ``length``.
        """
        lengths = np.asarray(length, np.float64)
        return np.asarray(guide_phase(wavelength, lengths, self.wavelength, self.effective_index, self.group_index))


def guide_phase(wl: Any, length: Any, wl0: float, effective_index: float, group_index: float) -> Any:
    """Return the phase of waveguides at wavelength ``wl`` less that at ``wl0``, in radians; all lengths have one unit.

    It is 2π (n / wl - effective_index / wl0) · length, where the effective index changes to first order: n =
    effective_index - (group_index - effective_index) (wl - wl0) / wl0. Arrays of NumPy and of JAX are taken.

    Args:
        wl: wavelength in vacuum.
        length: length of the waveguide.
        wl0: wavelength of reference.
        effective_index: effective index at ``wl0``.
        group_index: group index at ``wl0``.
    """
    index = effective_index - (group_index - effective_index) * ((wl - wl0) / wl0)
    return 2 * pi * (index / wl - effective_index / wl0) * length


def spacing_in_metres(hertz: float, wavelength: float = 1.55e-6) -> float:
    """Return the distance in metres of wavelengths that are ``hertz`` apart near ``wavelength``: wavelength² · hertz /
    c."""
    return wavelength**2 * hertz / LIGHT


def at_wavelength(ideal: Ideal, wavelength: float, dispersion: Dispersion, seed: int = 0) -> Any:
    """Return a mesh or mapped meshes as light of another wavelength meets them: the same phases on devices that err.

    A `Mesh` gives a `DisturbedMesh`, a `MappedMatrix` a `DisturbedMatrix`, `MappedBlocks` give `DisturbedBlocks`.
    Couplers, heaters and the arms that are too long err, and nothing else; the phase of the columns' own length, which
    is common to all paths, is left out.

    Args:
        ideal: the phases as designed.
        wavelength: wavelength of the light, in metres.
        dispersion: how devices change with it.
        seed: seed of the lengths of the arms.
    """

    def devices(phases: Floats, output_phases: Floats, place: int) -> Fabrication:
        """Return devices whose errors are what the wavelength changes; ``place`` seeds the lengths of the arms."""
        arms = dispersion.guide_phase(arm_lengths(phases.shape[1], dispersion, place), wavelength)
        one = np.ones_like(phases)
        return Fabrication(
            phase_errors=dispersion.heater_phases(phases, wavelength) - phases + arms,
            output_error=dispersion.heater_phases(output_phases, wavelength) - output_phases,
            couplers=dispersion.coupler_error(wavelength) * one,
            transmission=one[0],
            efficiencies=one,
        )

    return on_devices(ideal, NonIdealities(), devices, seed)


def arm_lengths(count: int, dispersion: Dispersion, seed: int) -> Floats:
    """Return by how much the arms of θ and of φ of ``count`` interferometers are too long, in metres, [2, count].

    Lengths are Gaussian with the dispersion's mismatch; the same seed draws the same ones.
    """
    return np.asarray(dispersion.mismatch * np.random.default_rng([seed, 7]).normal(size=(2, count)))


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
) -> Complex:
    """Return the matrix [outputs, inputs] of one part at a wavelength, its amplifiers included.

    Args:
        part: the meshes of P, a layer or T.
        wavelength: wavelength in metres.
        dispersion: how couplers, heaters and waveguides change with it; the default one where None.
        seed: seed of the lengths of the arms.
        column_length: metres of a column of interferometers, whose phase is common to all paths.
    """
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
) -> Complex:
    """Return the matrix from the senders' lanes to the receivers' for small signals, [lanes, lanes], at a wavelength.

    Args:
        averager: the meshes of P, the layers and T.
        wavelength: wavelength in metres.
        dispersion: how couplers, heaters and waveguides change with it; the default one where None.
        slope: that of the unit behind each output of each layer; biases move its operating point, not its slope.
        seed: seed of the lengths of the arms.
        column_length: metres of a column of interferometers.
    """
    total = np.eye(averager.preprocessing.shape[1], dtype=np.complex128)
    for place, (name, part) in enumerate(averager.parts.items()):
        matrix = part_matrix(part, wavelength, dispersion, seed=seed + SEEDS * place, column_length=column_length)
        total = (slope if name.startswith("layer") else 1.0) * matrix @ total
    return total
