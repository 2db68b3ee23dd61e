"""The Mach-Zehnder interferometer (MZI) of all meshes, and the non-idealities of real ones.

         ┌───┐ ╔═══════╗       ╔═══════╗
  x0 ────┤ φ ├─╢       ╟─┤ θ ├─╢       ╟──── y0
         └───┘ ║ 50:50 ║       ║ 50:50 ║          φ, θ: heaters on the upper arm
  x1 ──────────╢       ╟───────╢       ╟──── y1
               ╚═══════╝       ╚═══════╝

    T(θ, φ) = B · diag(e^{iθ}, 1) · B · diag(e^{iφ}, 1),    B = [[1, i], [i, 1]] / √2
            = i e^{iθ/2} [[e^{iφ} sin θ/2,  cos θ/2], [e^{iφ} cos θ/2,  −sin θ/2]]

θ = 0 is the cross state, θ = π the bar state. This is the device of the OptINC paper (Fig. 2: two couplers, two phase
shifters) and of Bandyopadhyay et al., arXiv 2103.04993, eq. 1; everything in the package uses this convention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError

Complex = NDArray[np.complex128]
"""Amplitudes of light, and the devices and matrices that turn them."""
CONVENTION = "i e^{i theta/2} [[e^{i phi} sin, cos], [e^{i phi} cos, -sin]](theta/2)"
"""Name of the convention in phase files."""

_PLANCK = 6.62607015e-34
LIGHT = 299792458.0
"""Speed of light in vacuum, in metres per second."""


def coupler(error: ArrayLike = 0.0) -> Complex:
    """Return the transfer matrices of directional couplers of mixing angle π/4 + ``error`` radians, shape [..., 2, 2].

    B = [[cos, i sin], [i sin, cos]]; an error of 0.01 rad is a power split of 51:49.
    """
    angle = np.pi / 4 + np.asarray(error, np.float64)
    straight, across = np.cos(angle), 1j * np.sin(angle)
    return _matrix(straight, across, across, straight)


def mzi(
    theta: ArrayLike, phi: ArrayLike, *, first: ArrayLike = 0.0, second: ArrayLike = 0.0, transmission: ArrayLike = 1.0
) -> Complex:
    """Return transfer matrices T(θ, φ) of Mach-Zehnder interferometers, shape [..., 2, 2]; arguments broadcast.

    T = √transmission · i e^{iθ/2} [[e^{iφ} bar, cross], [e^{iφ} conj(cross), -conj(bar)]] with the amplitudes of
    `bar_and_cross`, for ideal couplers sin θ/2 and cos θ/2.

    Args:
        theta: phase between the couplers, in radians.
        phi: phase at the upper input, in radians.
        first: mixing-angle error of the first coupler, in radians.
        second: mixing-angle error of the second coupler, in radians.
        transmission: power transmission of the device, 1 without loss.
    """
    theta, phi = np.asarray(theta, np.float64), np.asarray(phi, np.float64)
    common = 1j * np.exp(0.5j * theta) * np.sqrt(np.asarray(transmission, np.float64))
    entry = np.exp(1j * phi) * common
    straight, across = bar_and_cross(theta / 2, np.asarray(first, np.float64), np.asarray(second, np.float64))
    return _matrix(entry * straight, common * across, entry * np.conj(across), -common * np.conj(straight))


def bar_and_cross(half: Floats, first: Floats, second: Floats) -> tuple[Complex, Complex]:
    """Return the bar and the cross amplitude of interferometers, without loss and common phases.

    These are what the upper output gets from the upper and from the lower input: T = i e^{iθ/2} [[bar, cross],
    [conj(cross), -conj(bar)]] for φ = 0. Ideal couplers give sin θ/2 and cos θ/2.

    Args:
        half: θ/2 in radians.
        first: mixing-angle error of the first coupler, in radians.
        second: mixing-angle error of the second coupler, in radians.
    """
    # Products of sines and cosines of the couplers' angles, as sums and differences; exact for any error.
    both, between = first + second, second - first
    sine, cosine = np.sin(half), np.cos(half)
    straight = sine * np.cos(between) + 1j * cosine * np.sin(both)
    return straight, cosine * np.cos(both) - 1j * sine * np.sin(between)


def _matrix(a: ArrayLike, b: ArrayLike, c: ArrayLike, d: ArrayLike) -> Complex:
    """Return matrices [[a, b], [c, d]] of shape [..., 2, 2]; arguments broadcast."""
    upper, right, left, lower = np.broadcast_arrays(a, b, c, d)
    return np.stack([np.stack([upper, right], -1), np.stack([left, lower], -1)], -2)


def _error(largest: float, unit: str, name: str, default: float = 0.0) -> Any:
    """Return a dataclass field of `NonIdealities` with this default, whose metadata hold its ``largest`` value, its
    ``unit`` and its ``name`` in sweeps and settings."""
    return field(default=default, metadata={"largest": largest, "unit": unit, "name": name})


@dataclass(frozen=True, slots=True, kw_only=True)
class NonIdealities:
    """Differences of fabricated meshes from ideal ones, which have all values 0.

    Errors and spreads are standard deviations of independent Gaussians, drawn once for each device because they are
    static; ``detector_noise`` is drawn for every detection.
    """

    phase_error: float = _error(10.0, "rad", "phase-error")
    """Phase error of every phase shifter, in radians. About 5e-3 in Shen et al., Nature Photonics 11, 441 (2017)."""
    coupler_error: float = _error(10.0, "rad", "coupler-error")
    """Mixing-angle error of every coupler, in radians. Silicon: 0.01 to 0.02 (Bandyopadhyay et al., 2103.04993)."""
    loss_db: float = _error(100.0, "dB", "loss")
    """Loss of every MZI, in dB."""
    loss_spread_db: float = _error(100.0, "dB", "loss-spread")
    """Standard deviation of the loss between MZIs, in dB; a device never amplifies."""
    heater_spread: float = _error(0.3, "of a heater's phase", "heater-spread")
    """Standard deviation of the phase of every heater relative to what is commanded, in shares of it."""
    thermal_crosstalk: float = _error(0.5, "of a heater's phase", "crosstalk")
    """Share of a heater's phase that appears in each of the nearest heaters of the same column or MZI."""
    dac_bits: int = _error(32.0, "bits", "dac-bits", 0)
    """Resolution of phase settings, multiples of 2π/2^bits; 0 for continuous settings."""
    detector_noise: float = _error(100.0, "full scales", "detector-noise")
    """Noise of every detection, relative to full scale (the largest field amplitude at the detector)."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a value that is negative, not finite or above that of `LARGEST`, or for ``dac_bits``
        that are not whole."""
        for name, (largest, unit) in LARGEST.items():
            check_size(name, getattr(self, name), largest, unit)
        if self.dac_bits != int(self.dac_bits):
            raise ConfigError(f"dac_bits={self.dac_bits}: expected a whole number from 0 to 32")


def check_size(name: str, value: float, largest: float = np.inf, unit: str = "") -> None:
    """Raise ConfigError unless the size of an error is finite and from 0 to ``largest``.

    ``name`` and ``unit`` are for the message.
    """
    if not np.isfinite(value) or value < 0:
        raise ConfigError(f"{name}={value}: expected a finite number of at least 0")
    if value > largest:
        raise ConfigError(f"{name}={value:g}: expected at most {largest:g} {unit}")


LARGEST: Mapping[str, tuple[float, str]] = {
    row.name: (row.metadata["largest"], row.metadata["unit"]) for row in fields(NonIdealities)
}
"""Largest values of `NonIdealities` with their units: beyond 10 rad angles are uniform, 100 dB leave no light."""
ERRORS: Mapping[str, str] = {row.metadata["name"]: row.name for row in fields(NonIdealities)}
"""Fields of `NonIdealities` by their names in sweeps, in settings with underscores."""


def amplifier_noise(
    gain: float | Floats, noise_figure_db: float, bandwidth: float, power: float, *, wavelength: float = 1.55e-6
) -> Floats:
    """Return the field noise per quadrature of optical amplifiers, relative to the amplitude of their output ``power``.

    It is the standard deviation √(n_sp h ν (G − 1) B / 2 / power) of spontaneous emission, with n_sp = F/2 and half of
    the emission in each quadrature (Agrawal, *Fiber-Optic Communication Systems*, ch. 6). Without gain there is no
    noise.

    Args:
        gain: power gain G, at least 1; the result has its shape.
        noise_figure_db: noise figure in dB, of which F is the ratio.
        bandwidth: optical bandwidth B of the noise, in Hz.
        power: power in watts to whose amplitude the noise is relative.
        wavelength: wavelength of the light in vacuum, in metres.

    Raises:
        ConfigError: the gain is below 1, or the bandwidth, power or wavelength is not positive.
    """
    if not np.all(gain >= np.float64(1)):
        raise ConfigError(f"gain={gain}: expected a power gain of at least 1")
    if not (bandwidth > 0 and power > 0 and wavelength > 0):
        raise ConfigError(f"bandwidth={bandwidth}, power={power}, wavelength={wavelength}: expected more than 0")
    emitted = 10 ** (noise_figure_db / 10) / 2 * _PLANCK * LIGHT / wavelength * (gain - 1) * bandwidth
    return np.asarray(np.sqrt(emitted / 2 / power))
