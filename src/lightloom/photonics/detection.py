"""Detection of the sum of several servers' digits: levels, noise, errors, and the light and resolution that they need.

    server 1, wavelength 1 ──▶ ┐
    server 2, wavelength 2 ──▶ ┤ one photodiode ── amplifier ── converter ──▶ t = d_1 + ... + d_N, 0..N(R-1)
    ...                        ┘

The sum of N digits of R levels has N(R-1)+1 levels. On wavelengths of their own the powers add, whatever the phases of
the lasers; the step between levels is that of a single server, and what the sum costs is shot noise, intensity noise
(sigma^2 = RIN B sum P_n^2) and resolution. With one wavelength for all, locked in phase, fields add, each weakened by
the combiner to 1/N of its power, and a local oscillator detects the sum.

Errors are those of digits that are uniform and independent, averaged over every composition of a sum, in closed form
but for phase errors, which are drawn. A word is right if the sums of all its digits are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import comb, log2, prod
from statistics import NormalDist
from typing import Literal

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError

Scheme = Literal["separate", "wavelengths", "homodyne"]
"""A receiver for each server; powers of N wavelengths on a photodiode; fields of N locked lasers on a balanced pair."""

_ELECTRON = 1.602176634e-19
_WEAKEST, _STRONGEST = 1e-8, 1e-1
"""Watts a lane between which the needed power is searched."""
_MOST_COMPOSITIONS = 20_000
_PHASE_DRAWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitReceiver:
    """A receiver of the sum of N servers' digits; sources of defaults: `photonics/reducers/constants.yaml`."""

    servers: int
    levels: int = 4
    """Levels of a digit, R: 4 for PAM4, 2 for on-off keying."""
    bits: int = 8
    """Bits of a word."""
    symbol_rate: float = 50e9
    """Digits per second."""
    noise_bandwidth: float = 0.7
    """Bandwidth of the receiver as a share of the symbol rate."""
    responsivity: float = 1.0
    """Responsivity of the photodiode, in A/W."""
    noise_density: float = 12.86e-12
    """Input-referred noise of the amplifier, in A/√Hz."""
    extinction_db: float = 8.9
    """Ratio of the highest to the lowest level of intensity, in dB; fields are modulated about the null."""
    rin_db: float = -150.0
    """Relative intensity noise of each laser, in dB/Hz."""
    local_oscillator: float = 10e-3
    """Power of the local oscillator, in watts."""
    levelling: float = 0.0
    """Standard deviation of each server's power from the common one, as a share: static, averaged over chips."""
    phase_error: float = 0.0
    """Standard deviation of each server's optical phase from the local oscillator's, in radians."""

    def __post_init__(self) -> None:
        if not (isinstance(self.servers, int) and 1 <= self.servers <= 1024):
            raise ConfigError(f"servers = {self.servers!r}: expected a whole number from 1 to 1024")
        if self.levels not in (2, 4):
            raise ConfigError(f"levels = {self.levels!r}: expected 2 (on-off keying) or 4 (PAM4)")
        if not (isinstance(self.bits, int) and 1 <= self.bits <= 32):
            raise ConfigError(f"bits = {self.bits!r}: expected a whole number from 1 to 32")
        for name in ("symbol_rate", "noise_bandwidth", "responsivity", "extinction_db", "local_oscillator"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} = {getattr(self, name)!r}: expected more than 0")
        for name in ("noise_density", "levelling", "phase_error"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} = {getattr(self, name)!r}: expected at least 0")

    @property
    def digits(self) -> int:
        """Digits of a word."""
        return -(-self.bits // int(log2(self.levels)))

    @property
    def sum_levels(self) -> int:
        """Levels of the sum of one digit over all servers, N(R-1)+1."""
        return self.servers * (self.levels - 1) + 1

    @property
    def bandwidth(self) -> float:
        """Noise bandwidth in hertz."""
        return self.noise_bandwidth * self.symbol_rate

    def word_error(self, power: float, scheme: Scheme = "wavelengths") -> float:
        """Return the share of wrong words at ``power`` watts of a server's highest level at the detector.

        The power of `homodyne` is that of a server's lane in front of the combiner.
        """
        if scheme == "separate":
            alone = replace(self, servers=1).word_error(power)
            return float(-np.expm1(self.servers * np.log1p(-alone)))
        digit = self._homodyne_error(power) if scheme == "homodyne" else self._intensity_error(power)
        return float(-np.expm1(self.digits * np.log1p(-min(digit, 1 - 1e-12))))

    def needed_power(self, word_error: float, scheme: Scheme = "wavelengths") -> float | None:
        """Return the least watts a lane for that share of wrong words, to 0.1 %; None where no power suffices."""
        low, high = _WEAKEST, _STRONGEST
        if self.word_error(high, scheme) > word_error:
            return None
        while high / low > 1.001:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if self.word_error(middle, scheme) > word_error else (low, middle)
        return high

    def needed_enob(self, word_error: float) -> float:
        """Return the effective number of bits of a converter whose noise alone makes that share of words wrong.

        The noise of a converter of E bits whose range is the N(R-1) steps is range / (2^E sqrt 12).
        """
        levels = self.sum_levels
        digit = -np.expm1(np.log1p(-word_error) / self.digits)
        steps = -NormalDist().inv_cdf(digit / (2 * (1 - 1 / levels)))
        return float(np.log2((levels - 1) * 2 * steps / 12**0.5))

    def intensities(self) -> Floats:
        """Return the intensities of the levels as shares of the highest, shape [R]."""
        lowest = 10 ** (-self.extinction_db / 10)
        shares: Floats = lowest + (1 - lowest) * np.arange(self.levels) / (self.levels - 1)
        return shares

    def step_current(self, power: float) -> float:
        """Return amperes between neighbouring levels of a sum of intensities."""
        shares = self.intensities()
        return float(self.responsivity * power * (shares[1] - shares[0]))

    def noise_variance(self, power: float, counts: Ints) -> Floats:
        """Return the variance in A^2 of sums of intensities, shape [...]; counts of each level [..., R]."""
        shares = self.intensities()
        first, second = counts @ shares * power, counts @ shares**2 * power**2
        thermal = self.noise_density**2 * self.bandwidth
        shot = 2 * _ELECTRON * self.responsivity * self.bandwidth * first
        relative = 10 ** (self.rin_db / 10) * self.bandwidth + self.levelling**2
        variance: Floats = thermal + shot + relative * self.responsivity**2 * second
        return variance

    def _intensity_error(self, power: float) -> float:
        """Probability that the sum of one digit is decided wrong, powers added."""
        from scipy.special import ndtr

        counts, weights = compositions(self.servers, self.levels)
        sums = counts @ np.arange(self.levels)
        sides = np.where((sums == 0) | (sums == self.sum_levels - 1), 1, 2)
        tails = ndtr(-self.step_current(power) / 2 / np.sqrt(self.noise_variance(power, counts)))
        return float((weights * sides * tails).sum())

    def _homodyne_error(self, power: float) -> float:
        """Probability that the sum of one digit is decided wrong, fields added."""
        from scipy.special import ndtr

        oscillator, top = self.local_oscillator, self.sum_levels - 1
        step = 2 * self.responsivity * (oscillator * power / self.servers) ** 0.5 / (self.levels - 1)
        shot = 2 * _ELECTRON * self.responsivity * oscillator * self.bandwidth
        sigma = (shot + self.noise_density**2 * self.bandwidth) ** 0.5
        if not self.phase_error:
            outer = 2 * float(self.levels) ** -self.servers
            return float((2 - outer) * ndtr(-step / 2 / sigma))
        rng = np.random.default_rng(0)
        digits = rng.integers(0, self.levels, (_PHASE_DRAWS, self.servers))
        phases = rng.normal(0.0, self.phase_error, digits.shape)
        shift = (digits * (np.cos(phases) - 1)).sum(axis=1)
        sums = digits.sum(axis=1)
        above = np.where(sums == top, 0.0, ndtr(-(0.5 - shift) * step / sigma))
        below = np.where(sums == 0, 0.0, ndtr(-(0.5 + shift) * step / sigma))
        return float((above + below).mean())


@lru_cache(maxsize=64)
def compositions(servers: int, levels: int) -> tuple[Ints, Floats]:
    """Return how often each level may occur among the servers, shape [compositions, R], and the share of each.

    Raises:
        ConfigError: there are too many of them to average over.
    """
    if comb(servers + levels - 1, levels - 1) > _MOST_COMPOSITIONS:
        raise ConfigError(f"servers = {servers}: expected fewer, to average over every composition of {levels} levels")
    shape = (servers + 1,) * (levels - 1)
    free = np.indices(shape).reshape(levels - 1, -1).T
    free = free[free.sum(axis=1) <= servers]
    counts: Ints = np.column_stack([free, servers - free.sum(axis=1)]).astype(np.int64)
    ways = [prod(comb(int(row[k:].sum()), int(row[k])) for k in range(levels)) for row in counts]
    weights: Floats = np.array(ways, dtype=np.float64) / float(levels) ** servers
    return counts, weights
