"""Averagers of servers' codes: ideal, through a network, or with a given distribution of errors.

    codes (servers, n) ──▶ PAM4 ──▶ P ──▶ network ──▶ receivers ──▶ mean codes (n,)

Errors, such as those of Table II, are in units of the last place of the mean code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Codes, Ints
from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.averaging.preprocessing import points_of_servers
from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.block_quantisation import Rounding, mean_codes

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
        """How the mean is rounded to a code."""

    def __call__(self, codes: Codes) -> Ints:
        """Return the mean codes (n,) of codes (servers, n)."""


def average_into(averager: Averager, codes: Codes, out: Codes) -> None:
    """Write the mean of unsigned codes (servers, n) into ``out`` (n,); an exact mean takes one pass over memory."""
    if isinstance(averager, IdealAverager):
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
        FunctionArguments(servers=self.servers, bits=self.bits, rounding=self.rounding).function()

    def __call__(self, codes: Codes) -> Ints:
        _check(codes, self.servers)
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
    def table(self) -> NDArray[np.int32] | None:
        """Mean code of every grid point, the last input varying fastest; None with noise or for a large grid."""
        if self.sigma or self.function.points > TABULATED_POINTS or self.bits > 31:
            return None
        return np.concatenate([self._received(points).astype(np.int32) for points in self.function.grid(_AT_ONCE)])

    def __call__(self, codes: Codes) -> Ints:
        _check(codes, self.servers)
        result = np.empty(codes.shape[1], np.int64)
        for start in range(0, codes.shape[1], _AT_ONCE):
            chunk = slice(start, start + _AT_ONCE)
            points = points_of_servers(codes[:, chunk], self.bits, self.function)
            if self.table is None:
                result[chunk] = self._received(points)
            else:
                sizes = [i.maximum + 1 for i in self.function.inputs]
                result[chunk] = self.table[np.ravel_multi_index(tuple(points), sizes)]
        return result

    def _received(self, points: Ints) -> Ints:
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
        """Root mean square error of all codes, in units of the last place."""
        total = sum(share for _, share in self.shares) or 1.0
        return float(np.sqrt(self.rate * sum(share * error**2 for error, share in self.shares) / total))


def _table_ii(accuracy_percent: float, *shares: tuple[int, float]) -> ErrorDistribution:
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
        self.exact, self.errors = exact, errors
        self.servers, self.bits, self.rounding = exact.servers, exact.bits, exact.rounding
        self.rng = np.random.default_rng(seed)
        """Generator of the errors; checkpoints store its state."""

    def __call__(self, codes: Codes) -> Ints:
        means = self.exact(codes)
        if not self.errors.shares:
            return means
        # Positions are drawn with replacement: two errors in one place are rarer than the rates are exact.
        positions = self.rng.integers(0, max(means.size, 1), self.rng.binomial(means.size, self.errors.rate))
        values, shares = zip(*self.errors.shares, strict=True)
        errors = self.rng.choice(values, positions.size, p=np.array(shares) / sum(shares))
        np.add.at(means, positions, errors)
        return np.clip(means, 0, (1 << self.bits) - 1)


def _check(codes: Codes, servers: int) -> None:
    if codes.ndim != 2 or codes.shape[0] != servers:
        raise InputError(f"codes of shape {codes.shape}: expected ({servers}, n), one row per server")
