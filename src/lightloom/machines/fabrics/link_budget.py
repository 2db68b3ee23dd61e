"""Link budgets: power, noise and bit errors of a lightpath on a ring of micro-ring nodes.

    laser ─coupler─ modulator ─ rings ─coupler─ fibre ─┬─ node ─ fibre ─┬─ node ─ fibre ─┬─ the last destination
                                                       tap              tap
    a node:  coupler, filter rings (one for every wavelength), modulator rings, coupler
    a tap:   the filter ring of the wavelength drops a part and passes the remainder, with some excess loss

A tap takes exactly the power that its receiver needs (unequal splits). With t taps the laser must supply

    P = S · Σ_j  sending · fibre^p_j · pass^(p_j − 1) · excess^min(j, t − 1) · receiving      over taps j at p_j links

for a receiver of sensitivity S. With equal losses this is at most 10 log₁₀ t + t · excess decibels more than for one
tap. Taps at the last nodes are the worst case: if they close, t taps anywhere on the lightpath do.

Noise is that of the amplifier behind the photodiode, and shot noise of each level; errors follow from the Q factor of
two levels (Agrawal, Fiber-Optic Communication Systems, section 4.6). Crosstalk between wavelengths, laser noise,
dispersion and jitter are covered by ``margin``. There are no optical amplifiers.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lightloom.core.configfile import read_yaml
from lightloom.core.fields import Bandwidth, Config, Count, Watts
from lightloom.machines.parts.part import loss_of

Decibels = Annotated[float, Field(ge=0, le=200)]

_NEPERS = math.log(10) / 10
"""Natural logarithm of one decibel."""
_ELECTRON = 1.602176634e-19
_FARTHEST = 1 << 20
"""Number of links beyond which a reach counts as unlimited."""

SOURCES: Mapping[str, str] = read_yaml(Path(__file__).with_suffix(".yaml"))
"""Source of each default."""


class Loss(NamedTuple):
    """A line of the budget."""

    item: str
    decibels: float
    counted: str
    """How often the loss counts."""


class LinkBudget(Config):
    """Budget of one wavelength from a laser to photodiodes; losses are in decibels.

    ``wavelength_bandwidth`` and ``wavelengths`` are those of the ring. Sources of the defaults: :data:`SOURCES`.
    """

    wavelengths: Annotated[Count, Field(le=1024)] = 64
    """Number of wavelengths per fibre, each with a filter ring and a modulator ring at every node."""
    wavelength_bandwidth: Bandwidth = 5e9
    """Bandwidth of a wavelength in bytes per second, with two levels."""
    laser_power: Annotated[Watts, Field(gt=0)] = 270e-3 / 64
    """Power of a wavelength in the fibre from the laser, in watts."""
    coupler_loss: Decibels = 1.0
    """Loss between fibre and chip."""
    modulator_loss: Decibels = 3.0
    """Loss of the modulator in its upper level."""
    extinction_ratio: Annotated[float, Field(gt=0, le=100)] = 8.9
    """Ratio of the upper to the lower level, in decibels."""
    ring_loss: Decibels = 0.01
    """Loss of passing a micro-ring off resonance."""
    drop_loss: Decibels = Field(default_factory=partial(loss_of, "ring-filter"))
    """Loss from a filter ring to the photodiode."""
    tap_loss: Decibels = Field(default_factory=partial(loss_of, "splitter"))
    """Excess loss of a tap, besides the split."""
    node_loss: Decibels | None = None
    """Loss of passing a node; null for two couplers and all rings."""
    fibre_loss: Annotated[float, Field(ge=0, le=10)] = 0.4e-3
    """Loss of the fibre, in decibels per metre."""
    fibre_length: Annotated[float, Field(ge=0, le=1e6)] = 2.0
    """Length of fibre between neighbours, in metres."""
    responsivity: Annotated[float, Field(gt=0, le=10)] = 1.1
    """Responsivity of the photodiode, in amperes per watt."""
    noise_density: Annotated[float, Field(gt=0, le=1e-6)] = 12.86e-12
    """Input-referred noise of the receiver's amplifier, in amperes per root hertz."""
    noise_bandwidth: Annotated[float, Field(gt=0, le=2)] = 0.7
    """Bandwidth of the receiver as a share of the bit rate."""
    error_rate: Annotated[float, Field(gt=0, lt=0.5)] = 1e-12
    """Allowed bit error rate."""
    margin: Decibels = 3.0
    """Margin for effects without a term of their own."""

    @property
    def laser_dbm(self) -> float:
        """Laser power of a wavelength, in dBm, in the fibre behind the laser."""
        return dbm(self.laser_power)

    @property
    def sending_loss(self) -> float:
        """Loss in dB from the fibre behind the laser to the first fibre of the ring: two couplers, the modulator, the
        modulator rings of all wavelengths, and the difference from the upper level to the mean of both levels."""
        mean = 10 * math.log10(2 / (1 + 10 ** (-self.extinction_ratio / 10)))
        return 2 * self.coupler_loss + self.modulator_loss + mean + self.wavelengths * self.ring_loss

    @property
    def passing_loss(self) -> float:
        """Loss in dB of a node that light passes from fibre to fibre: ``node_loss`` where given, otherwise that of two
        couplers and of the filter and modulator rings of all wavelengths."""
        if self.node_loss is not None:
            return self.node_loss
        return 2 * (self.coupler_loss + self.wavelengths * self.ring_loss)

    @property
    def receiving_loss(self) -> float:
        """Loss in dB from the last fibre to the photodiode: a coupler, the filter rings of all wavelengths, and the
        drop into the photodiode."""
        return self.coupler_loss + self.wavelengths * self.ring_loss + self.drop_loss

    @property
    def link_loss(self) -> float:
        """Loss of the fibre between neighbours, in dB."""
        return self.fibre_loss * self.fibre_length

    def losses(self) -> tuple[Loss, ...]:
        """Return the lines of the budget: sending, fibre, passing a node, excess of a tap, receiving and margin, each
        with its dB and how often it counts on a lightpath, in words such as ``each link``."""
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
        """Mean power at the photodiode for the allowed bit error rate, in watts.

        Q (σ₁ + σ₀) = R (P₁ − P₀) and σ₁² − σ₀² = 2 e R B (P₁ − P₀) give σ₁, and P₁ and σ₁ a quadratic equation.
        """
        q = -NormalDist().inv_cdf(self.error_rate)
        swing, thermal, shot = self._receiver()
        # x = R (P₁ − P₀) / Q, the sum of both deviations.
        x = 2 * (shot * q * 2 / swing + math.sqrt((shot * q) ** 2 * (4 / swing**2 - 1) + thermal**2))
        return x * q / (self.responsivity * swing)

    def errors(self, power: float) -> float:
        """Return the bit error rate at a mean ``power``, in watts, at the photodiode: ½ erfc(Q / √2), where Q is the
        swing of the current over the sum of the noise of both levels, thermal and shot."""
        swing, thermal, shot = self._receiver()
        current = self.responsivity * power
        one, zero = (math.sqrt(thermal**2 + 2 * shot * current * (1 + side * swing / 2)) for side in (1, -1))
        return 0.5 * math.erfc(current * swing / (one + zero) / math.sqrt(2))

    def _receiver(self) -> tuple[float, float, float]:
        """Return three figures of the receiver: P₁ − P₀ over the mean power, the thermal noise in amperes, and the
        electron's charge times the receiver's bandwidth in amperes, for shot noise."""
        lower = 10 ** (-self.extinction_ratio / 10)
        bandwidth = self.noise_bandwidth * 8 * self.wavelength_bandwidth
        return 2 * (1 - lower) / (1 + lower), self.noise_density * math.sqrt(bandwidth), _ELECTRON * bandwidth

    def needed_dbm(self, links: int, taps: int = 1) -> float:
        """Return the least laser power of a wavelength, in dBm in the fibre behind the laser, with which a lightpath of
        so many links serves its last ``taps`` nodes, margin included.

        Raises:
            ValueError: there is no link or tap, or there are more taps than links.
        """
        if not 1 <= taps <= links:
            raise ValueError(
                f"{taps} taps over {links} links: expected at least 1 of each, and no more taps than links"
            )
        tap = np.arange(1, taps + 1)
        place = links - taps + tap
        losses = self.link_loss * place + self.passing_loss * (place - 1) + self.tap_loss * np.minimum(tap, taps - 1)
        worst = float(losses.max())
        total = worst + 10 * math.log10(float(np.sum(10 ** ((losses - worst) / 10))))
        return dbm(self.sensitivity) + self.sending_loss + total + self.receiving_loss + self.margin

    def closes(self, links: int, taps: int = 1) -> bool:
        """Return True if the laser's power suffices, margin included, for ``taps`` destinations anywhere on a lightpath
        of so many links: for its last nodes, which are the worst case. More taps than links count as one at every node.

        Raises:
            ValueError: there is no link or tap.
        """
        return self.needed_dbm(links, min(taps, links)) <= self.laser_dbm

    def reach(self, taps: int = 1) -> int | None:
        """Return the largest number of links of a lightpath that serves ``taps`` destinations, or all of its nodes
        where these are fewer.

        0 means that neighbours cannot communicate, None that the budget still closes at 2^20 links, about a million.

        Raises:
            ValueError: ``taps`` is below 1.
        """
        powers = (1 << power for power in range(_FARTHEST.bit_length()))
        if (beyond := next((links for links in powers if not self.closes(links, taps)), None)) is None:
            return None
        return bisect_left(range(1, beyond), True, key=lambda links: not self.closes(links, taps))

    def most_taps(self) -> int | None:
        """Return the largest number of links of a lightpath that is tapped at every node, and so of its destinations; 0
        where neighbours cannot communicate, None where the budget still closes at 2^20."""
        return self.reach(_FARTHEST)

    def levels(self, links: int, taps: int = 1) -> NDArray[np.float64]:
        """Return the power in the fibre into each node of a lightpath of so many links, in dBm: [link], the node next
        to the sender first. The last ``taps`` nodes tap it, each as much as its receiver needs, the loss in front of it
        and the margin included.

        The laser has its full power: what is beyond the need raises what every tap receives by the same factor, and
        what is short of it lowers that.

        Raises:
            ValueError: there is no link or tap, or there are more taps than links.
        """
        take = dbm(self.sensitivity) + self.margin + self.receiving_loss + self.laser_dbm - self.needed_dbm(links, taps)
        level = np.empty(links)
        level[-1] = take
        for node in range(links - 2, -1, -1):
            on = level[node + 1] + self.link_loss + self.passing_loss
            tapped = node >= links - taps
            level[node] = self.tap_loss + float(np.logaddexp(take * _NEPERS, on * _NEPERS)) / _NEPERS if tapped else on
        return level

    def errors_over(self, links: int, taps: int = 1) -> float:
        """Return the bit error rate at each tap of a lightpath over so many links whose last ``taps`` nodes tap it,
        where spare laser power is distributed evenly and effects take the whole margin.

        Raises:
            ValueError: there is no link or tap, or there are more taps than links.
        """
        return self.errors(self.sensitivity * 10 ** ((self.laser_dbm - self.needed_dbm(links, taps)) / 10))


def dbm(watts: float) -> float:
    """Return a power of so many watts in dBm, decibels over a milliwatt. ValueError for a power of 0 or less."""
    return 10 * math.log10(watts / 1e-3)
