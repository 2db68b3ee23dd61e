"""Detection of the sum of several servers' digits: levels, noise, errors, and the light and resolution that they need.

    server 1, wavelength 1 ──▶ ┐
    server 2, wavelength 2 ──▶ ┤ one photodiode ── amplifier ── converter ──▶ t = d_1 + ... + d_N, 0..N(R-1)
    ...                        ┘

The sum of N digits of R levels has N(R-1)+1 levels. On wavelengths of their own the powers add, whatever the phases of
the lasers; the step between levels is that of a single server, and what the sum costs is shot noise, intensity noise
(sigma^2 = RIN B sum P_n^2) and resolution. With one wavelength for all, locked in phase, fields add, each weakened by
the combiner to 1/N of its power, and a local oscillator detects the sum. Intensity noise and levelling of a power are
half of themselves in its field; those of the oscillator multiply the whole sum:

    sigma^2 = 2 e R P_LO B + i_n^2 B + (RIN B + levelling^2) / 4 sum I_n^2 + RIN B / 4 (sum I_n)^2

where I_n is the photocurrent of server n's field. Shot noise of the signal itself, which is weak beside the oscillator,
is left out. `photonics.link` simulates the same noise.

Errors are those of digits that are uniform and independent, averaged over every composition of a sum, in closed form:
phase errors enter to their second order, as shifts by -I_n phi_n^2 / 2, by a saddle-point approximation. A word is
right if the sums of all its digits are.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import comb, exp, log, log2, prod
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np

from lightloom.core.arrays import Effort, Floats, Ints
from lightloom.core.errors import ConfigError

Scheme = Literal["separate", "wavelengths", "homodyne"]
"""A receiver for each server; powers of N wavelengths on a photodiode; fields of N locked lasers on a balanced pair."""

_ELECTRON = 1.602176634e-19
_WEAKEST, _STRONGEST = 1e-8, 1e-1
"""Watts a lane between which the needed power is searched."""
_PRECISION = 1e-4
"""Relative precision of the needed power."""
_MOST_COMPOSITIONS = 20_000
_SADDLE_STEPS: Effort = 60
"""Most Newton steps or bisections towards a saddle point."""
_NEAR_THE_MEAN = 1e-3
"""Standard deviations from the mean within which the formula of the tail is 0/0 and its limit is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitReceiver:
    """A receiver of the sum of N servers' digits; sources of defaults: `machines/reducers/constants.yaml`."""

    servers: int
    levels: int = 4
    """Levels of a digit, R: 4 for PAM4, 2 for on-off keying."""
    bits: int = 8
    """Bits of a word."""
    symbol_rate: float = 50e9
    """Symbols sent per second and lane, one digit each."""
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
    levelling: float = 0.01
    """Standard deviation of each server's power from the common one, as a share: static, averaged over chips."""
    phase_error: float = 0.055
    """Standard deviation of each server's optical phase from the local oscillator's, in radians."""
    antipodal: bool = True
    """True if fields lie on both sides of zero, as behind a modulator about its null, or from zero to the highest."""

    def __post_init__(self) -> None:
        """Raise ConfigError for servers outside 1 to 1024, levels other than 2 and 4, bits outside 1 to 32, a rate,
        bandwidth, responsivity, extinction or power that is not above 0 and finite, or a noise density, levelling or
        phase error that is negative or not finite."""
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
        """Number of digits of a word: bits divided by those of a digit, rounded up."""
        return -(-self.bits // int(log2(self.levels)))

    @property
    def sum_levels(self) -> int:
        """Number of levels of the sum of one digit over all servers, N(R-1)+1."""
        return self.servers * (self.levels - 1) + 1

    @property
    def bandwidth(self) -> float:
        """Noise bandwidth of the receiver in hertz: the share ``noise_bandwidth`` of the symbol rate."""
        return self.noise_bandwidth * self.symbol_rate

    def word_error(self, power: float, scheme: Scheme = "wavelengths") -> float:
        """Return the share of words received wrong, from 0 to 1.

        A word is wrong if the sum of any of its digits is.

        Args:
            power: watts of a server's highest level at the detector; with ``homodyne``, of a server's lane in front of
                the combiner.
            scheme: ``wavelengths`` (powers add on one photodiode), ``homodyne`` (fields of locked lasers add), or
                ``separate`` (a receiver for each server, which follows its power, so that levelling costs it nothing; a
                word is wrong if that of any server is).

        Raises:
            ConfigError: the scheme is unknown, or there are too many servers to average over all compositions of a sum
                (not for ``separate``).
        """
        if scheme not in get_args(Scheme):
            raise ConfigError(f"scheme = {scheme!r}: expected one of {', '.join(get_args(Scheme))}")
        if scheme == "separate":
            alone = replace(self, servers=1, levelling=0.0).word_error(power)
            return float(-np.expm1(self.servers * np.log1p(-alone)))
        digit = self._homodyne_error(power) if scheme == "homodyne" else self._intensity_error(power)
        return float(-np.expm1(self.digits * np.log1p(-min(digit, 1 - 1e-12))))

    def needed_power(self, word_error: float, scheme: Scheme = "wavelengths") -> float | None:
        """Return the least power, in watts of a server's highest level, at which at most ``word_error`` of the words
        are wrong.

        It is found to 0.01 %, for the power and the schemes of `word_error`. None where 0.1 W does not suffice; 1e-8 W
        where less would.

        Raises:
            ConfigError: the scheme is unknown, or there are too many servers to average over all compositions of a sum
                (not for `separate`).
        """
        from scipy.optimize import brentq
        from scipy.special import ndtri

        def beyond(log_power: float) -> float:
            """Return the normal quantile of the word error at exp(``log_power``) watts less that of the goal; above 0
            the power is too low."""
            return float(ndtri(np.clip(self.word_error(exp(log_power), scheme), 1e-300, 1 - 1e-12)) - goal)

        goal, low, high = ndtri(word_error), log(_WEAKEST), log(_STRONGEST)
        if beyond(high) > 0:
            return None
        return _WEAKEST if beyond(low) <= 0 else exp(brentq(beyond, low, high, xtol=_PRECISION) + _PRECISION)

    def needed_enob(self, word_error: float) -> float:
        """Return the effective number of bits of a converter whose noise alone makes the share ``word_error`` of words
        wrong.

        It need not be whole. All N(R-1)+1 sums of a digit count as equally likely, and a sum is wrong if Gaussian noise
        moves it by more than half a step. The noise of a converter of E bits whose range is the N(R-1) steps between
        sums is range / (2^E sqrt 12).
        """
        levels = self.sum_levels
        digit = -np.expm1(np.log1p(-word_error) / self.digits)
        steps = -NormalDist().inv_cdf(digit / (2 * (1 - 1 / levels)))
        return float(np.log2((levels - 1) * 2 * steps / 12**0.5))

    def intensities(self) -> Floats:
        """Return the intensities of a digit's R levels as shares of the highest, [R], ascending and evenly spaced up to
        1.

        The lowest is 10^(-extinction_db / 10).
        """
        lowest = 10 ** (-self.extinction_db / 10)
        shares: Floats = lowest + (1 - lowest) * np.arange(self.levels) / (self.levels - 1)
        return shares

    def step_current(self, power: float) -> float:
        """Return the amperes of photocurrent between neighbouring levels of a sum of powers on one photodiode, for
        ``power`` watts of a server's highest level."""
        shares = self.intensities()
        return float(self.responsivity * power * (shares[1] - shares[0]))

    def noise_variance(self, power: float, counts: Ints) -> Floats:
        """Return the variance in A² of the photocurrent of sums of powers on one photodiode: thermal and shot noise,
        and intensity noise and levelling, which are shares of each server's own power.

        Args:
            power: power of a server's highest level at the detector, in watts.
            counts: number of servers at each level, the lowest first, [..., R]; the result has its leading axes.
        """
        shares = self.intensities()
        first, second = counts @ shares * power, counts @ shares**2 * power**2
        thermal = self.noise_density**2 * self.bandwidth
        shot = 2 * _ELECTRON * self.responsivity * self.bandwidth * first
        relative = 10 ** (self.rin_db / 10) * self.bandwidth + self.levelling**2
        variance: Floats = thermal + shot + relative * self.responsivity**2 * second
        return variance

    def _intensity_error(self, power: float) -> float:
        """Return the probability that the sum of one digit is decided wrong where powers add, at ``power`` watts of a
        server's highest level.

        It is averaged over all compositions of uniform, independent digits; raises ConfigError where these are too
        many.
        """
        from scipy.special import ndtr

        counts, weights = compositions(self.servers, self.levels)
        sums = counts @ np.arange(self.levels)
        sides = np.where((sums == 0) | (sums == self.sum_levels - 1), 1, 2)
        tails = ndtr(-self.step_current(power) / 2 / np.sqrt(self.noise_variance(power, counts)))
        return float((weights * sides * tails).sum())

    def _homodyne_error(self, power: float) -> float:
        """Return the probability that the sum of one digit is decided wrong where fields add, at ``power`` watts of a
        server's lane in front of the combiner.

        It is averaged over all compositions of uniform, independent digits; raises ConfigError where these are too
        many.
        """
        counts, weights = compositions(self.servers, self.levels)
        fields: Floats = np.arange(self.levels, dtype=np.float64) - (self.levels - 1) / 2 * self.antipodal
        sums = counts @ np.arange(self.levels)
        step = 2 * self.responsivity * (self.local_oscillator * power / self.servers) ** 0.5
        step *= (2 if self.antipodal else 1) / (self.levels - 1)
        receiver = homodyne_variance(self.local_oscillator, self.responsivity, self.noise_density, self.bandwidth)
        relative = 10 ** (self.rin_db / 10) * self.bandwidth
        variance = receiver / step**2 + (relative + self.levelling**2) / 4 * (counts @ fields**2)
        variance += relative / 4 * (counts @ fields) ** 2
        above = np.where(sums == self.sum_levels - 1, 0.0, _tail(variance, counts, fields, self.phase_error))
        if self.antipodal:  # what raises a sum lowers that of the mirrored fields
            return float(2 * weights @ above)
        below = np.where(sums == 0, 0.0, _tail(variance, counts, -fields, self.phase_error))
        return float(weights @ (above + below))


def homodyne_variance(oscillator: float, responsivity: float, noise_density: float, bandwidth: float) -> float:
    """Return the variance of a balanced detector's current in A²: the oscillator's shot noise, and the amplifier's
    noise.

    Args:
        oscillator: power of the local oscillator, in watts.
        responsivity: of the photodiodes, in A/W.
        noise_density: input-referred noise of the amplifier, in A/√Hz.
        bandwidth: noise bandwidth, in Hz.
    """
    return (2 * _ELECTRON * responsivity * oscillator + noise_density**2) * bandwidth


def _tail(variance: Floats, counts: Ints, fields: Floats, phase_error: float) -> Floats:
    """Return the probability that noise and phase errors raise a sum by more than half a step, [compositions].

    The sum moves by G - sum f_n phi_n^2 / 2 with Gaussian noise G of ``variance``, whose cumulants are generated by

        K(t) = variance t^2 / 2 - 1/2 sum_n log(1 + f_n t phase_error^2).

    With the saddle point K'(t) = 1/2 the odds are those of Lugannani and Rice, Adv. Appl. Prob. 12, 475 (1980).

    Args:
        variance: of the noise in steps squared, [compositions].
        counts: servers at each level, [compositions, levels].
        fields: field of each level in steps, [levels].
        phase_error: standard deviation of the phases, in radians.
    """
    from scipy.special import ndtr

    shares = np.where(counts > 0, fields * phase_error**2, 0.0)
    up = (counts * np.maximum(shares, 0.0)).sum(axis=1) / 2
    down = (counts * np.maximum(-shares, 0.0)).sum(axis=1) / 2
    most, least = np.maximum(-shares, 0.0).max(axis=1), np.maximum(shares, 0.0).max(axis=1)
    with np.errstate(divide="ignore"):
        high = np.minimum((0.5 + up) / variance, 1 / most)
        low = np.maximum(np.minimum((0.5 - down) / variance, 0.0), -1 / least)
    point = np.clip((0.5 + up - down) / variance, (3 * low + high) / 4, (low + 3 * high) / 4)
    for _ in range(_SADDLE_STEPS):
        ratios = shares / (1 + point[:, None] * shares)
        excess = variance * point - (counts * ratios).sum(axis=1) / 2 - 0.5
        low, high = np.where(excess < 0, point, low), np.where(excess < 0, high, point)
        curvature = variance + (counts * ratios**2).sum(axis=1) / 2
        step = point - excess / curvature
        moved = np.where((low < step) & (step < high), step, (low + high) / 2)
        if (abs(moved - point) <= 1e-6 * abs(point)).all():
            break
        point = moved
    cumulants = variance * point**2 / 2 - (counts * np.log1p(point[:, None] * shares)).sum(axis=1) / 2
    root = np.sign(point) * np.sqrt(np.maximum(point - 2 * cumulants, 0.0))
    near = abs(root) < _NEAR_THE_MEAN
    slope = np.where(near, 1.0, point * np.sqrt(curvature))
    density = np.exp(-(root**2) / 2) / (2 * np.pi) ** 0.5
    far = ndtr(-root) + density * (1 / slope - 1 / np.where(near, 1.0, root))
    skewness = -(counts * shares**3).sum(axis=1) / curvature**1.5
    odds: Floats = np.clip(np.where(near, ndtr(-root) - density * skewness / 6, far), 0.0, 1.0)
    return odds


@lru_cache(maxsize=64)
def compositions(servers: int, levels: int) -> tuple[Ints, Floats]:
    """Return every way in which N servers' digits can divide among R levels, and the probability of each.

    Returns:
        Number of servers at each level, the lowest first, [compositions, R], and probabilities for uniform, independent
        digits, which add up to 1, [compositions].

    Raises:
        ConfigError: there are more than 20,000 compositions.
    """
    if comb(servers + levels - 1, levels - 1) > _MOST_COMPOSITIONS:
        raise ConfigError(f"servers = {servers}: expected fewer, to average over every composition of {levels} levels")
    free = np.indices((servers + 1,) * (levels - 1)).reshape(levels - 1, -1).T
    free = free[free.sum(axis=1) <= servers]
    counts: Ints = np.column_stack([free, servers - free.sum(axis=1)]).astype(np.int64)
    ways = [prod(comb(int(row[k:].sum()), int(row[k])) for k in range(levels)) for row in counts]
    weights: Floats = np.array(ways, dtype=np.float64) / float(levels) ** servers
    return counts, weights
