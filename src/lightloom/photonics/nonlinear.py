"""The nonlinear unit between meshes and its transfer function.

Fields are amplitudes in √W, so |z|² is a power in W. No published figure is known for the latency of a whole unit.

Averaging networks need a unit that knows a field's sign, limits at two rails and amplifies. Tapped electro-optic units
(Williamson et al., arXiv 1903.04579) and saturable absorbers see powers only: at most 1 % of the words came out right.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


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
