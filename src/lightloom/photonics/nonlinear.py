"""Nonlinear units between meshes and their transfer functions.

Fields are amplitudes in √W, so |z|² is a power in W. No published figure is known for the latency of a whole unit.

Averaging networks need a unit that knows a field's sign, limits at two rails and amplifies. `LimitingHomodyne` does.
`ElectroOptic` and `SaturableAbsorber` see powers only, and `NO_AVERAGER` says what that means.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


NO_AVERAGER = (
    "electro-optic and saturable units cannot run averaging networks: they see powers, so a field and its opposite are "
    "the same to them, and they do not limit at two rails (onn link measures at most 1 % of the words right)"
)
"""Warning of every command that uses one of these units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectroOptic:
    """A tap detects part of the light, and the current modulates the remainder (Williamson et al., arXiv 1903.04579).

         ┌──── photodiode ── amplifier ───┐
    z ───┴── tap ────────────────── modulator ─── f(z)

    f(z) = j √(1 − tap) e^{−j(g|z|² + b)/2} cos((g|z|² + b)/2) z. With b = π it blocks weak light and opens like a
    rectifier up to |z|² = π/g; beyond, it closes again. For a responsivity in A/W, a transimpedance in Ω and a
    half-wave voltage in V, g = π · tap · transimpedance · responsivity / half-wave voltage. Its energy depends on the
    amplifier and the modulator; no sourced figure for a whole unit is known.
    """

    tap: float = 0.1
    """Detected share of the power."""
    gain: float
    """g: phase per input power, in radians per watt."""
    bias: float = np.pi
    """b: phase bias, in radians."""

    def __post_init__(self) -> None:
        if not 0 < self.tap < 1:
            raise ConfigError(f"tap={self.tap}: expected a share between 0 and 1")
        if not (np.isfinite(self.gain) and self.gain > 0 and np.isfinite(self.bias)):
            raise ConfigError(f"gain={self.gain}, bias={self.bias}: expected finite numbers, the gain above 0")

    def transfer(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields of input fields, of the same shape, both in √W."""
        z = np.asarray(fields, np.complex128)
        half = (self.gain * np.abs(z) ** 2 + self.bias) / 2
        return np.asarray(1j * np.sqrt(1 - self.tap) * np.exp(-1j * half) * np.cos(half) * z)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturableAbsorber:
    """Absorbs weak light and transmits strong light; the paper chooses graphene (its reference 31).

    T = 1 − unsaturated_loss − depth / (1 + |z|² / saturation_power), the two-level model. The modulation depth of
    monolayer graphene is 66.5 % (Bao et al., Adv. Funct. Mater. 19, 3077, arXiv 0910.5820); it recovers in picoseconds.
    The unit is passive: it needs no energy, and the link budget counts its loss.
    """

    depth: float = 0.665
    unsaturated_loss: float = 0.0
    saturation_power: float
    """Power in the waveguide at which the absorption is halved, in watts."""

    def __post_init__(self) -> None:
        if not (0 < self.depth <= 1 and 0 <= self.unsaturated_loss <= 1 - self.depth):
            raise ConfigError(
                f"depth={self.depth}, unsaturated_loss={self.unsaturated_loss}: expected shares, together at most 1"
            )
        if not (np.isfinite(self.saturation_power) and self.saturation_power > 0):
            raise ConfigError(f"saturation_power={self.saturation_power}: expected more than 0 W")

    def transfer(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields of input fields, of the same shape, both in √W; phases are kept."""
        z = np.asarray(fields, np.complex128)
        absorbed = self.depth / (1 + np.abs(z) ** 2 / self.saturation_power)
        return np.asarray(np.sqrt(1 - self.unsaturated_loss - absorbed) * z)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitingHomodyne:
    """Balanced detection with a local oscillator, a limiting amplifier, and a Mach-Zehnder modulator at its null.

    z ──┐  ┌── photodiode ─┐
        ├──┤               ├── limiting amplifier ── modulator at null ── f(z)
    LO ─┘  └── photodiode ─┘                            │
                                                     carrier

    f(z) = √full_scale · height · sin(swing · u), u = Re(z) / √full_scale limited to [0, 1]. The current has a sign, so
    negative fields are off, and the gain is electrical: the unit amplifies. A swing of π/2 decides: it limits softly
    and uses the whole carrier. Smaller swings keep values, the more linearly the smaller they are, and need a carrier
    of height² full scales.

    A unit takes 10 pJ per symbol of two bits: a receiver without converter 1.41 pJ/bit (56 Gb/s, 7 nm,
    10.1109/lssc.2019.2938677), a limiting driver with modulator 3.6 pJ/bit (53 GBd, SiGe, Breyne, OE 28, 23950); lasers
    are not included. A bandwidth of 35 GHz, 0.7 of 50 GBd, and a latency of some tens of picoseconds are assumptions.
    """

    full_scale: float
    """Power of a field at which the unit limits, in watts."""
    swing: float = np.pi / 2
    """Phase between the modulator's arms at full output, halved, in radians."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.full_scale) and self.full_scale > 0):
            raise ConfigError(f"full_scale={self.full_scale}: expected more than 0 W")
        if not 0 < self.swing <= np.pi / 2:
            raise ConfigError(f"swing={self.swing}: expected more than 0 and at most π/2 rad")

    @property
    def height(self) -> float:
        """Field of the carrier, relative to full scale."""
        return 1.0 if self.swing == np.pi / 2 else linear_height(self.swing)

    @property
    def bend(self) -> float:
        """Largest deviation from linearity, relative to full scale; for a unit that decides it means nothing."""
        return float(1 - self.height * np.sin(self.swing))

    @property
    def carrier(self) -> float:
        """Power of the carrier, in watts."""
        return self.full_scale * self.height**2

    def transfer(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields of input fields, of the same shape, both in √W: real and not negative."""
        root = np.sqrt(self.full_scale)
        limited = np.clip(np.real(np.asarray(fields)) / root, 0.0, 1.0)
        return np.asarray(root * self.height * np.sin(self.swing * limited), np.complex128)


@lru_cache(maxsize=256)
def linear_height(swing: float) -> float:
    """Return h for which h sin(swing · u) is nearest to u on [0, 1], in the largest deviation.

    The deviation at 1, 1 - h sin(swing), then equals the largest one inside, where h swing cos(swing · u) = 1.
    """
    from scipy.optimize import brentq

    def unbalanced(height: float) -> float:
        inside = np.arccos(min(1.0, 1 / (height * swing))) / swing
        return float(height * np.sin(swing * inside) - inside - (1 - height * np.sin(swing)))

    return float(brentq(unbalanced, 1 / swing, 1 / np.sin(swing)))
