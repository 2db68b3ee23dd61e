"""The nonlinear unit between meshes: balanced homodyne detection, a limiting amplifier, a modulator at its null.

    z ──┐  ┌── photodiode ─┐
        ├──┤               ├── limiting amplifier ── Mach-Zehnder modulator at null ── f(z)
    LO ─┘  └── photodiode ─┘                            │
                                                     carrier

f(z) = √full_scale · height · sin(swing · u), u = Re(z) / √full_scale limited to [0, 1]. Fields are amplitudes in √W, so
|z|² is a power in W. The current has a sign, so negative fields are off, and the gain is electrical: it amplifies. A
swing of π/2 decides: it limits softly and uses the whole carrier. Smaller swings keep values, the more linearly the
smaller they are, and need a carrier of height² full scales.

A unit takes 10 pJ per symbol of two bits: a receiver without converter 1.41 pJ/bit (56 Gb/s, 7 nm,
10.1109/lssc.2019.2938677), a limiting driver with modulator 3.6 pJ/bit (53 GBd, SiGe, Breyne, OE 28, 23950); lasers are
not included. A bandwidth of 35 GHz, 0.7 of 50 GBd, and a latency of some tens of picoseconds are assumptions. No
published figure is known for the latency of a whole unit.

Averaging networks need a unit that knows a field's sign, limits at two rails and amplifies. Tapped electro-optic units
(Williamson et al., arXiv 1903.04579) and saturable absorbers see powers only: at most 1 % of the words came out right.
"""

from functools import lru_cache

import numpy as np


@lru_cache(maxsize=256)
def linear_height(swing: float) -> float:
    """Return the h for which h sin(swing · u) is nearest to u on [0, 1], in the largest deviation.

    ``swing`` is in radians, above 0 and below π/2. h is the field of the carrier of a unit that keeps values, relative
    to full scale. The deviation at 1, 1 - h sin(swing), then equals the largest one inside, where h swing cos(swing ·
    u) = 1.
    """
    from scipy.optimize import brentq

    def unbalanced(height: float) -> float:
        """Return the largest deviation inside, which is above u, less that at 1, which is below; 0 at the height
        sought."""
        inside = np.arccos(min(1.0, 1 / (height * swing))) / swing
        return float(height * np.sin(swing * inside) - inside - (1 - height * np.sin(swing)))

    return float(brentq(unbalanced, 1 / swing, 1 / np.sin(swing)))
