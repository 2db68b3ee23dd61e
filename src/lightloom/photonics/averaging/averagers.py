"""Averagers of servers' codes: ideal, through a network, or with a given distribution of errors.

    codes (servers, n) ──▶ PAM4 ──▶ P ──▶ network ──▶ receivers ──▶ mean codes (n,)

Errors, such as those of Table II, are in units of the last place of the mean code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log2
from types import MappingProxyType
from typing import Protocol

import numpy as np

from lightloom.core.arrays import Bytes, Codes, Int32s, Ints
from lightloom.core.errors import ConfigError, InputError, VerificationError
from lightloom.core.results import attributes
from lightloom.photonics.averaging.block_quantisation import mean_codes
from lightloom.photonics.averaging.function import Rounding, check_codes, points_of_servers
from lightloom.photonics.averaging.networks import FunctionArguments, LayeredNetwork
from lightloom.photonics.detection import DigitReceiver

TABULATED_POINTS = 1 << 24
_AT_ONCE = 1 << 16


class Averager(Protocol):
    """Averages codes of ``bits`` bits, unsigned or in offset binary."""

    @property
    def servers(self) -> int:
        """Number of servers whose codes are averaged."""

    @property
    def bits(self) -> int:
        """Number of bits of every code."""

    @property
    def rounding(self) -> Rounding:
        """Rounding of the mean to a code, ``floor`` or ``half-up``."""

    def __call__(self, codes: Codes) -> Ints:
        """Return the mean codes (n,) of codes (servers, n)."""


def average_into(averager: Averager, codes: Codes, out: Codes) -> None:
    """Write the averager's mean of codes (servers, n) into ``out`` (n,), codes being unsigned integers.

    For an `IdealAverager` this takes one pass over memory, without an array in between, and codes are not checked
    against the bits; any other averager is called, and its means are cast to the type of ``out``.

    Raises:
        InputError: ``codes`` has not one row for each server, or an averager that checks its codes refuses one.
    """
    if isinstance(averager, IdealAverager):
        check_shape(codes, averager.servers)
        mean_codes(codes, averager.rounding, out)
    else:
        out[:] = averager(codes)


@dataclass(frozen=True, slots=True)
class IdealAverager:
    """Averager that returns the exact quantised mean (eq. 3)."""

    servers: int
    bits: int
    rounding: Rounding = "half-up"

    def __post_init__(self) -> None:
        """Raise ConfigError where a number is out of range or the rounding is unknown."""
        FunctionArguments(servers=self.servers, bits=self.bits, rounding=self.rounding).function()

    def __call__(self, codes: Codes) -> Ints:
        """Return the exact rounded mean codes (n,) of codes (servers, n)."""
        check_shape(codes, self.servers)
        offset = self.servers // 2 if self.rounding == "half-up" else 0
        mean: Ints = (codes.sum(axis=0, dtype=np.int64) + offset) // self.servers
        return mean


class NetworkAverager:
    """Averager that runs a network, with or without noise; without noise, results of small grids are tabulated.

    Args:
        network: network that computes the function.
        arguments: arguments of the function.
        sigma: standard deviation of the noise on every signal, relative to its full scale.
        seed: seed of the noise.

    Raises:
        ConfigError: the network's inputs or outputs are not those of the function, or it carries decimals.
    """

    def __init__(self, network: LayeredNetwork, arguments: FunctionArguments, sigma: float = 0.0, seed: int = 0):
        """Raise ConfigError or InputError where the network or ``sigma`` does not suit, and seed the generator of the
        noise."""
        self.function = arguments.function()
        if arguments.carries_decimals:
            raise ConfigError("this network carries decimals for a second level: servers cannot receive them")
        if (network.layers[0], network.layers[-1]) != (len(self.function.inputs), self.function.outputs):
            raise ConfigError(f"a network of layers {network.layers} does not compute {arguments}")
        if not sigma >= 0:
            raise InputError(f"sigma = {sigma!r}: expected a standard deviation of at least 0")
        self.network, self.sigma = network, sigma
        self.servers, self.bits, self.rounding = arguments.servers, arguments.bits, arguments.rounding
        self.rng = np.random.default_rng(seed)
        """Generator of the noise; checkpoints store its state."""

    @cached_property
    def table(self) -> Int32s | None:
        """Mean code that receivers decide from the network's outputs for every grid point, int32 [points]; computed
        once. A grid point is a tuple of the network's input integers, of which the last varies fastest.

        None with noise, for a grid of more than 2^24 points, or for codes of more than 31 bits.
        """
        if self.sigma or self.function.points > TABULATED_POINTS or self.bits > 31:
            return None
        return np.concatenate([self._received(points).astype(np.int32) for points in self.function.grid(_AT_ONCE)])

    def __call__(self, codes: Codes) -> Ints:
        """Return the mean codes (n,) that the network computes of codes (servers, n)."""
        return in_chunks(codes, self.servers, self._average, _AT_ONCE)

    def _average(self, codes: Codes) -> Ints:
        """Return the mean codes (n,) of one chunk of codes (servers, n): from the table if there is one, else from a
        run of the network; raises InputError for a code that does not fit into the bits."""
        points = points_of_servers(codes, self.bits, self.function)
        if self.table is None:
            return self._received(points)
        sizes = [i.maximum + 1 for i in self.function.inputs]
        means: Ints = self.table[np.ravel_multi_index(tuple(points), sizes)].astype(np.int64)
        return means

    def _received(self, points: Ints) -> Ints:
        """Return the mean codes (n,) that receivers decide of grid points (K, n), integers of the K inputs, from one
        run of the network with new noise, in float32 for noise above 1e-6 and in float64 otherwise."""
        dtype = np.float32 if self.sigma > 1e-6 else np.float64
        signals = self.network(self.function.light(points), self.sigma, self.rng, dtype)
        return self.function.decide(np.asarray(signals, np.float64))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDistribution:
    """Rate of wrong mean codes, and the distribution of their errors."""

    rate: float
    """Share of mean codes that are wrong."""
    shares: tuple[tuple[int, float], ...]
    """Pairs of an error, in units of the last place, and its relative frequency."""

    @property
    def rms(self) -> float:
        """Root mean square error over all codes, right ones included, in units of the last place: the root of `rate`
        times the mean of error² over the relative frequencies, which need not add up to 1; 0 without errors."""
        total = sum(share for _, share in self.shares) or 1.0
        return float(np.sqrt(self.rate * sum(share * error**2 for error, share in self.shares) / total))


def _table_ii(accuracy_percent: float, *shares: tuple[int, float]) -> ErrorDistribution:
    """Return the error distribution of a row of Table II of the OptINC paper; its rate is 1 less the accuracy.

    Args:
        accuracy_percent: share of right codes, in percent.
        shares: pairs of a signed error, in units of the last place, and its relative frequency among wrong codes, of
            any common scale (the paper's percentages); none where all codes are right.
    """
    return ErrorDistribution(rate=round(1 - accuracy_percent / 100, 9), shares=shares)


TABLE_II_ERRORS: Mapping[str, ErrorDistribution] = MappingProxyType(
    {
        "4-6": _table_ii(100.0),
        "4-7": _table_ii(99.99986, (1, 45.0), (-1, 45.0), (-64, 10.0)),
        "4-8": _table_ii(99.99999, (1024, 100.0)),
        "3-6": _table_ii(99.98891, (1, 49.5), (-1, 49.5), (1024, 0.45), (-1024, 0.45), (-4, 0.1)),
        "3-7": _table_ii(99.99936, (4, 39.75), (-4, 39.75), (-16, 17.0), (12, 3.5)),
    }
)
"""Errors of Table II by approximated layers. The paper does not say how ± divides: each sign gets half."""


class ErringAverager:
    """Averager that adds random errors, independent of the codes, to the means of another (section IV).

    Results are clipped to the range of the codes.
    """

    def __init__(self, exact: Averager, errors: ErrorDistribution, seed: int = 0):
        """Take servers, bits and rounding from ``exact``; ``seed`` is that of the errors."""
        self.exact, self.errors = exact, errors
        self.servers, self.bits, self.rounding = exact.servers, exact.bits, exact.rounding
        self.rng = np.random.default_rng(seed)
        """Generator of the errors; checkpoints store its state."""

    def __call__(self, codes: Codes) -> Ints:
        """Return the means (n,) of codes (servers, n) with errors added at random places at the rate of `errors`,
        clipped to codes."""
        means = self.exact(codes)
        if not self.errors.shares:
            return means
        # Positions are drawn with replacement: two errors in one place are rarer than the rates are exact.
        positions = self.rng.integers(0, max(means.size, 1), self.rng.binomial(means.size, self.errors.rate))
        values, shares = zip(*self.errors.shares, strict=True)
        np.add.at(means, positions, self.rng.choice(values, positions.size, p=np.array(shares) / sum(shares)))
        return np.clip(means, 0, (1 << self.bits) - 1)


def check_shape(codes: Codes, servers: int) -> None:
    """Raise InputError unless ``codes`` has two dimensions and a row per server, (servers, n).

    Raises:
        InputError: it has another shape.
    """
    if codes.ndim != 2 or codes.shape[0] != servers:
        raise InputError(f"codes of shape {codes.shape}: expected ({servers}, n), one row per server")


def in_chunks(codes: Codes, servers: int, average: Callable[[Codes], Ints], chunk: int) -> Ints:
    """Return the mean codes (n,) as int64 of codes (servers, n), computed by ``average`` from at most ``chunk`` columns
    (servers, columns) at a time.

    Raises:
        InputError: the codes are not (servers, n).
    """
    check_shape(codes, servers)
    means = np.empty(codes.shape[1], np.int64)
    for start in range(0, codes.shape[1], chunk):
        means[start : start + chunk] = average(codes[:, start : start + chunk])
    return means


# `digit-sum`: photodiodes add the servers' digits, and adders carry.
#
# codes ──▶ digits d_nk ──▶ photodiode k: t_k = sum_n d_nk ──▶ o_k = (t_k + c_k) mod R,  c_k+1 = (t_k + c_k) div R
# T = sum_k R^k o_k + R^M c_M = sum_n G_n
# mean = (T + offset) div N
#
# Server n sends on a wavelength of its own, so that powers add whatever the lasers' phases. Any number of servers and
# either rounding is exact as long as every sum is decided right, which `photonics.detection` gives the odds of.


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitSum:
    """The arithmetic of the averager; `steps` proves that it is exact."""

    servers: int
    bits: int
    levels: int = 4
    rounding: Rounding = "half-up"

    def __post_init__(self) -> None:
        """Raise ConfigError for servers, bits or levels that `DigitReceiver` refuses, or an unknown rounding."""
        DigitReceiver(servers=self.servers, bits=self.bits, levels=self.levels)  # checks all three
        if self.rounding not in ("floor", "half-up"):
            raise ConfigError(f"rounding = {self.rounding!r}: expected floor or half-up")

    @property
    def digits(self) -> int:
        """Number of digits of a code, M: its bits over log2 of the levels, rounded up."""
        return -(-self.bits // self._digit_bits)

    @property
    def _digit_bits(self) -> int:
        """Number of bits of a digit: log2 of its levels."""
        return int(log2(self.levels))

    @property
    def offset(self) -> int:
        """Number added to the sum of all servers' codes before it is divided by N: floor(N/2) for half-up, 0 for
        floor."""
        return self.servers // 2 if self.rounding == "half-up" else 0

    def largest_digits(self) -> Ints:
        """Return the largest value of a code's digit at each place, [M], the least significant first.

        It is one less than the levels, and less at the last place if the bits do not fill it.
        """
        top = np.full(self.digits, self.levels - 1, np.int64)
        top[-1] = (1 << self.bits - self._digit_bits * (self.digits - 1)) - 1
        return top

    def carries(self) -> Ints:
        """Return the largest carry into each place of the sum of all servers' codes (without the offset of rounding),
        [M + 1].

        The least significant place comes first (its carry is 0); the last entry is the carry out of the highest place.
        """
        carries = [0]
        for digit in self.largest_digits().tolist():
            carries.append((self.servers * digit + carries[-1]) // self.levels)
        return np.array(carries, np.int64)

    def spread(self, codes: Ints) -> Bytes:
        """Return the base-R digits (R levels) of codes [...] as uint8, [M, ...], the least significant first; bits of a
        code above the M digits are ignored."""
        shifts = self._digit_bits * np.arange(self.digits).reshape(-1, *(1,) * codes.ndim)
        return ((codes[None] >> shifts) & (self.levels - 1)).astype(np.uint8)

    def mean(self, sums: Ints) -> Ints:
        """Return the mean codes (n,), rounded as the averager rounds, of sums [M, n] of all servers' digits at each
        place.

        The least significant place comes first; carries pass from place to place. The mean of sums that were decided
        wrongly may exceed the largest code.
        """
        carry = np.zeros(sums.shape[1:], np.int64)
        total = np.zeros_like(carry)
        for place, column in enumerate(sums):
            value = column + carry
            total += (value & (self.levels - 1)) << self._digit_bits * place
            carry = value >> self._digit_bits
        total += carry << self._digit_bits * self.digits
        mean: Ints = (total + self.offset) // self.servers
        return mean

    def steps(self) -> tuple[str, ...]:
        """Return the proof that the mean is exact, as five sentences that begin with ``digits:``, ``sums:``,
        ``carries:``, ``total:`` and ``mean:``, after checking their numbers in whole-number arithmetic.

        Raises:
            VerificationError: a number in them does not hold.
        """
        servers, levels, count = self.servers, self.levels, self.digits
        top, carries = self.largest_digits().tolist(), self.carries().tolist()
        largest = sum(levels**place * digit for place, digit in enumerate(top))
        width = max(int(servers * digit + carry).bit_length() for digit, carry in zip(top, carries, strict=False))
        total = servers * largest
        steps = {
            f"the largest digits make the code {(1 << self.bits) - 1}": largest == (1 << self.bits) - 1,
            f"carries are at most {servers - 1}": max(carries) <= servers - 1,
            f"adders need no more bits than {servers * levels - 1}": width <= (servers * levels - 1).bit_length(),
            f"the largest mean is {largest}": (total + self.offset) // servers == largest,
            "rounding adds nothing to 0": self.offset // servers == 0,
        }
        for step, holds in steps.items():
            if not holds:
                raise VerificationError(f"digit-sum of {servers} servers and {self.bits} bits: not true that {step}")
        return (
            f"digits: every code from 0 to {largest} is the sum of {levels}^k d_k, {count} digits of 0..{levels - 1}",
            f"sums: t_k lies in 0..{servers * (levels - 1)}, so many steps and one level more; decided right, it is "
            "the sum of the servers' digits",
            f"carries: c_k+1 = (t_k + c_k) div {levels} is at most N - 1 = {servers - 1} if c_k is, as N(R-1) + N-1 < "
            f"NR; here at most {max(carries)}, so that adders of {width} bits suffice",
            f"total: {levels} c_k+1 + o_k = t_k + c_k at every place, so that {levels}^k o_k and the last carry add up "
            "to the sum of all codes",
            f"mean: (T + {self.offset}) div {servers} is the {self.rounding} mean, at most {largest} for T to {total}",
        )

    def try_sums(self, most: int = 1 << 21, seed: int = 0) -> tuple[int, int]:
        """Try tuples of digit sums, and return how many were tried and for how many the mean by carries is wrong.

        A tuple has a sum of all servers' digits for each place; the right mean is floor((T + offset) / N), for T the
        sum over places k of levels^k times the sum at k.

        Args:
            most: if all tuples together are at most so many, each is tried; else so many are drawn uniformly, of which
                every other one is then moved, by its lowest sum, to a total at which the mean changes or one beside it.
            seed: seed of the drawn tuples.
        """
        sizes = [self.servers * digit + 1 for digit in self.largest_digits().tolist()]
        count = int(np.prod([float(size) for size in sizes])) if len(sizes) * np.log2(max(sizes)) < 60 else most + 1
        places = np.array([self.levels**place for place in range(self.digits)], np.int64)
        wrong = tried = 0
        rng = np.random.default_rng(seed)
        while tried < min(count, most):
            size = min(_AT_ONCE, min(count, most) - tried)
            if count <= most:
                sums = np.stack(np.unravel_index(np.arange(tried, tried + size), sizes)).astype(np.int64)
            else:
                sums = np.stack([rng.integers(0, size_of, size) for size_of in sizes])
                total = places @ sums
                near = (total // self.servers) * self.servers + rng.integers(-1, 2, size) - self.offset
                sums[0] = np.clip(sums[0] + np.where(np.arange(size) % 2 == 0, near - total, 0), 0, sizes[0] - 1)
            wrong += int((self.mean(sums) != (places @ sums + self.offset) // self.servers).sum())
            tried += size
        return tried, wrong


class DigitSumAverager:
    """Averager that adds digits by light and carries digitally, with or without the noise of the receivers.

    Args:
        arithmetic: servers, bits, levels and rounding.
        power: watts of a server's highest level at the detector; None decides every sum right.
        seed: seed of the noise.

    Raises:
        ConfigError: an argument is out of range.
    """

    def __init__(self, arithmetic: DigitSum, power: float | None = None, seed: int = 0) -> None:
        """Raise ConfigError for a power that is not above 0 and below 1 W; without a power there is no generator of
        noise."""
        if power is not None and not 0 < power < 1:
            raise ConfigError(f"power = {power!r}: expected watts of light, more than 0 and below 1")
        self.arithmetic, self.power = arithmetic, power
        self.servers, self.bits, self.rounding = arithmetic.servers, arithmetic.bits, arithmetic.rounding
        if power is not None:
            self.rng = np.random.default_rng(seed)
            """Generator of the noise; checkpoints store its state."""

    @cached_property
    def receiver(self) -> DigitReceiver:
        """Receiver of the sum of the servers' digits at one place, with the averager's servers, bits and levels, and
        defaults of `DigitReceiver` for rates, responsivity and noise."""
        return DigitReceiver(**attributes(self.arithmetic, "servers bits levels"))

    def __call__(self, codes: Codes) -> Ints:
        """Return the mean codes (n,) of codes (servers, n)."""
        return in_chunks(codes, self.servers, self._average, _AT_ONCE)

    def _average(self, codes: Codes) -> Ints:
        """Return the mean codes (n,) of one chunk of codes (servers, n), with the receivers' noise if the averager has
        a power, limited to the largest code, 2^bits - 1; raises InputError for a code that does not fit into the
        bits."""
        sums = self._decided(self.arithmetic.spread(check_codes(codes, self.bits)))
        return np.minimum(self.arithmetic.mean(sums), (1 << self.bits) - 1)

    def _decided(self, digits: Bytes) -> Ints:
        """Return the sums over servers [M, n] that the receivers decide of digits [M, servers, n].

        Without the averager's ``power`` (watts of a server's highest level at the detector) they are exact; with it,
        Gaussian noise of a photodiode that adds the servers' powers (`DigitReceiver.noise_variance`) is added, and the
        sum is rounded to the nearest one from 0 to N(R-1).
        """
        sums: Ints = digits.sum(axis=1, dtype=np.int64)
        if self.power is None:
            return sums
        made, receiver = self.arithmetic, self.receiver
        draws = self.rng.normal(size=sums.shape)
        counts = (digits[..., None] == np.arange(made.levels)).sum(axis=1, dtype=np.int64)
        # In steps between two sums.
        sigma = np.sqrt(receiver.noise_variance(self.power, counts)) / receiver.step_current(self.power)
        decided: Ints = np.clip(np.rint(sums + draws * sigma), 0, made.servers * (made.levels - 1)).astype(np.int64)
        return decided
