"""Whether light that passes nodes still arrives: power, noise and errors of a lightpath on a ring of micro-rings.

    laser ─coupler─ modulator ─ rings ─coupler─ fibre ─┬─ node ─ fibre ─┬─ node ─ fibre ─┬─ the last destination
                                                       tap              tap
    a node:  coupler, filter rings (one for every wavelength), modulator rings, coupler
    a tap:   the filter ring of the wavelength drops a part and lets the rest pass, with some excess loss

A tap takes exactly what its receiver needs (unequal splits), so that with t taps the laser must bring

    P = S · Σ_j  sending · fibre^p_j · pass^(p_j − 1) · excess^min(j, t − 1) · receiving      over taps j at p_j links

for a receiver of sensitivity S; with equal losses everywhere this is at most 10 log₁₀ t + t · excess decibels more than
one tap needs. Taps are worst at the last nodes, so that a lightpath of k links with t taps anywhere closes if those do.

Noise is that of the amplifier behind the photodiode, and shot noise of each level; errors follow from the Q factor of
two levels (Agrawal, Fiber-Optic Communication Systems, section 4.6). Crosstalk between wavelengths, laser noise,
dispersion and jitter have no terms here: ``margin`` stands for them. Nothing amplifies light on its way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from types import MappingProxyType
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lightloom.core.fields import Bandwidth, Config, Count, Watts

Decibels = Annotated[float, Field(ge=0, le=200)]

_NEPERS = math.log(10) / 10
"""Natural logarithm of one decibel."""
_ELECTRON = 1.602176634e-19
_FARTHEST = 1 << 20
"""Links beyond which nobody builds; a reach beyond has no limit."""

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "wavelengths": "OpTree, section IV-A (64 wavelengths by default)",
        "wavelength_bandwidth": "OpTree, section IV-A (40 Gb/s a wavelength)",
        "laser_power": "Buyalo et al., Sci. Rep. 14 (2024), 10.1038/s41598-024-53609-9: a comb of 270 mW, over 64",
        "coupler_loss": "DSENT, Photonics.model (a model's parameter, not measured): 1 dB",
        "modulator_loss": "assumption: 3 dB in the upper level",
        "extinction_ratio": "Moscoso-Mártir et al., Sci. Rep. 7, 13857 (2017), table 1: 8.9 dB",
        "ring_loss": "DSENT, Photonics.model (a model's parameter, not measured): 0.01 dB",
        "drop_loss": "arXiv 2411.15025: 1.91 dB through a filter of 32 rings",
        "tap_loss": "Haines et al., Nanophotonics 13 (2024), 10.1515/nanoph-2023-0694: below 0.2 dB, any split",
        "node_loss": "from couplers and rings, where not given",
        "fibre_loss": "ITU-T G.652.D: at most 0.4 dB/km",
        "fibre_length": "assumption: 2 m between neighbours in a rack",
        "responsivity": "DSENT, Photonics.model (a model's parameter, not measured): 1.1 A/W",
        "noise_density": "a 56 Gb/s Cherry-Hooper amplifier in 130 nm SiGe (abstract): 12.86 pA/√Hz measured",
        "noise_bandwidth": "assumption: 0.7 of the bit rate",
        "error_rate": "assumption: 1e-12, no error correction",
        "margin": "assumption: 3 dB for crosstalk, laser noise, ageing",
    }
)
"""Where each default comes from."""


class Loss(NamedTuple):
    """One line of the budget."""

    item: str
    decibels: float
    counted: str
    """How often it counts."""


class LinkBudget(Config):
    """Light of one wavelength from a laser to photodiodes; losses in decibels.

    ``wavelength_bandwidth`` and ``wavelengths`` are the ring's. Sources of the defaults: :data:`SOURCES`.
    """

    wavelengths: Annotated[Count, Field(le=1024)] = 64
    """Wavelengths of a fibre, each with a filter ring and a modulator ring at every node."""
    wavelength_bandwidth: Bandwidth = 5e9
    """Bytes per second of one wavelength, in two levels."""
    laser_power: Annotated[Watts, Field(gt=0)] = 270e-3 / 64
    """Watts of one wavelength in the fibre from the laser."""
    coupler_loss: Decibels = 1.0
    """Between fibre and chip."""
    modulator_loss: Decibels = 3.0
    """Of the upper level."""
    extinction_ratio: Annotated[float, Field(gt=0, le=100)] = 8.9
    """Upper over lower level, decibels."""
    ring_loss: Decibels = 0.01
    """Of passing one micro-ring off resonance."""
    drop_loss: Decibels = 1.91
    """From the fibre's side of a filter ring to the photodiode."""
    tap_loss: Decibels = 0.2
    """In excess of the split, of a tap that lets light pass on."""
    node_loss: Decibels | None = None
    """Of passing a node; null for two couplers and all rings."""
    fibre_loss: Annotated[float, Field(ge=0, le=10)] = 0.4e-3
    """Decibels a metre."""
    fibre_length: Annotated[float, Field(ge=0, le=1e6)] = 2.0
    """Metres between neighbours."""
    responsivity: Annotated[float, Field(gt=0, le=10)] = 1.1
    """Amperes a watt."""
    noise_density: Annotated[float, Field(gt=0, le=1e-6)] = 12.86e-12
    """Of the receiver's amplifier at its input, amperes per root hertz."""
    noise_bandwidth: Annotated[float, Field(gt=0, le=2)] = 0.7
    """Of the receiver, over the bit rate."""
    error_rate: Annotated[float, Field(gt=0, lt=0.5)] = 1e-12
    """Bits received wrong that are allowed."""
    margin: Decibels = 3.0
    """Left for what has no term of its own."""

    @property
    def laser_dbm(self) -> float:
        """Laser power of a wavelength in decibels over a milliwatt."""
        return dbm(self.laser_power)

    @property
    def sending_loss(self) -> float:
        """From the laser's fibre to the first fibre of the ring; the mean of two levels lies below the upper one."""
        mean = 10 * math.log10(2 / (1 + 10 ** (-self.extinction_ratio / 10)))
        return 2 * self.coupler_loss + self.modulator_loss + mean + self.wavelengths * self.ring_loss

    @property
    def passing_loss(self) -> float:
        """Of a node between two fibres."""
        if self.node_loss is not None:
            return self.node_loss
        return 2 * (self.coupler_loss + self.wavelengths * self.ring_loss)

    @property
    def receiving_loss(self) -> float:
        """From the last fibre to the photodiode."""
        return self.coupler_loss + self.wavelengths * self.ring_loss + self.drop_loss

    @property
    def link_loss(self) -> float:
        """Of the fibre between neighbours."""
        return self.fibre_loss * self.fibre_length

    def losses(self) -> tuple[Loss, ...]:
        """The budget line by line."""
        return (
            Loss("sending: two couplers, modulator, mean of two levels, rings", self.sending_loss, "once"),
            Loss("fibre between neighbours", self.link_loss, "each link"),
            Loss("passing a node", self.passing_loss, "each node between"),
            Loss("tap, besides what it takes", self.tap_loss, "each tap but the last"),
            Loss("receiving: coupler, rings, drop", self.receiving_loss, "once"),
            Loss("margin", self.margin, "once"),
        )

    @property
    def sensitivity(self) -> float:
        """Mean watts at the photodiode with just the allowed errors.

        Q (σ₁ + σ₀) = R (P₁ − P₀) and σ₁² − σ₀² = 2 e R B (P₁ − P₀) give σ₁, and P₁ and σ₁ a quadratic equation.
        """
        q = -NormalDist().inv_cdf(self.error_rate)
        swing, thermal, shot = self._receiver()
        # x = R (P₁ − P₀) / Q, the sum of both deviations.
        x = 2 * (shot * q * 2 / swing + math.sqrt((shot * q) ** 2 * (4 / swing**2 - 1) + thermal**2))
        return x * q / (self.responsivity * swing)

    def errors(self, power: float) -> float:
        """Share of bits received wrong with so many mean watts at the photodiode."""
        swing, thermal, shot = self._receiver()
        current = self.responsivity * power
        one, zero = (math.sqrt(thermal**2 + 2 * shot * current * (1 + side * swing / 2)) for side in (1, -1))
        return 0.5 * math.erfc(current * swing / (one + zero) / math.sqrt(2))

    def _receiver(self) -> tuple[float, float, float]:
        """(P₁ − P₀) over the mean power, amperes of thermal noise, and charge times bandwidth."""
        lower = 10 ** (-self.extinction_ratio / 10)
        bandwidth = self.noise_bandwidth * 8 * self.wavelength_bandwidth
        return 2 * (1 - lower) / (1 + lower), self.noise_density * math.sqrt(bandwidth), _ELECTRON * bandwidth

    def needed_dbm(self, links: int, taps: int = 1) -> float:
        """Laser power of a wavelength that serves the last ``taps`` nodes of a lightpath of so many links.

        Raises:
            ValueError: no link, no tap, or more taps than links.
        """
        if not 1 <= taps <= links:
            raise ValueError(
                f"{taps} taps over {links} links: expected at least 1 of each, and no more taps than links"
            )
        tap = np.arange(1, taps + 1)
        place = links - taps + tap
        each = self.link_loss * place + self.passing_loss * (place - 1) + self.tap_loss * np.minimum(tap, taps - 1)
        worst = float(each.max())
        together = worst + 10 * math.log10(float(np.sum(10 ** ((each - worst) / 10))))
        return dbm(self.sensitivity) + self.sending_loss + together + self.receiving_loss + self.margin

    def closes(self, links: int, taps: int = 1) -> bool:
        """Whether a lightpath of so many links may have that many destinations anywhere."""
        return self.needed_dbm(links, min(taps, links)) <= self.laser_dbm

    def reach(self, taps: int = 1) -> int | None:
        """Most links of a lightpath with up to ``taps`` destinations; 0 where not even neighbours hear each other, None
        where there is no limit."""
        low, high = 0, 1
        while self.closes(high, taps):
            low, high = high, 2 * high
            if high > _FARTHEST:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.closes(middle, taps) else (low, middle)
        return low

    def most_taps(self) -> int | None:
        """Most destinations of a lightpath that stops at every node; None where there is no limit."""
        return self.reach(_FARTHEST)

    def levels(self, links: int, taps: int = 1) -> NDArray[np.float64]:
        """dBm of the wavelength in the fibre into each node of a lightpath whose last ``taps`` nodes tap it: [link].

        What the laser brings beyond the need is shared out evenly.
        """
        least = dbm(self.sensitivity) + self.margin + self.receiving_loss
        take = least + self.laser_dbm - self.needed_dbm(links, taps)
        level = np.empty(links)
        level[-1] = take
        for node in range(links - 2, -1, -1):
            on = level[node + 1] + self.link_loss + self.passing_loss
            tapped = node >= links - taps
            level[node] = self.tap_loss + _together(take, on) if tapped else on
        return level

    def errors_over(self, links: int, taps: int = 1) -> float:
        """Share of bits received wrong at every tap when the laser's power is shared out evenly, the margin lost."""
        spare = self.laser_dbm - self.needed_dbm(links, taps)
        return self.errors(self.sensitivity * 10 ** (spare / 10))


def _together(one: float, other: float) -> float:
    """Sum of two powers in decibels."""
    return float(np.logaddexp(one * _NEPERS, other * _NEPERS)) / _NEPERS


def dbm(watts: float) -> float:
    """Decibels over a milliwatt."""
    return 10 * math.log10(watts / 1e-3)
