"""Codes of all servers in, the code that every server receives out: ideal, through a network, or with stated errors.

    codes (servers, n) ──▶ PAM4 ──▶ P ──▶ network ──▶ receivers ──▶ mean codes (n,)

The errors of Table II are shares of wrong outputs and their sizes, in units of the mean code's last place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

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
    """Averages codes of ``bits`` bits, offset binary or unsigned alike."""

    @property
    def servers(self) -> int:
        """Rows of what it averages."""

    @property
    def bits(self) -> int:
        """Of a code."""

    @property
    def rounding(self) -> Rounding:
        """Of the mean."""

    def __call__(self, codes: Codes) -> Ints:
        """Mean codes (n,) of codes (servers, n)."""


def average_into(averager: Averager, codes: NDArray[Any], out: NDArray[Any]) -> None:
    """Mean codes of unsigned codes (servers, n) into ``out`` (n,); an exact mean takes one pass over memory."""
    if isinstance(averager, IdealAverager):
        mean_codes(codes, averager.rounding, out)
    else:
        out[:] = averager(codes)


@dataclass(frozen=True, slots=True)
class IdealAverager:
    """Q(mean), exactly (eq. 3)."""

    servers: int
    bits: int
    rounding: Rounding = "half-up"

    def __post_init__(self) -> None:
        FunctionArguments(servers=self.servers, bits=self.bits, rounding=self.rounding).function()

    def __call__(self, codes: Codes) -> Ints:
        """Mean codes (n,) of codes (servers, n)."""
        _check(codes, self.servers)
        offset = self.servers // 2 if self.rounding == "half-up" else 0
        mean: Ints = (codes.sum(axis=0, dtype=np.int64) + offset) // self.servers
        return mean


class NetworkAverager:
    """Through a network, noise and all; without noise its answers are tabulated over the grid, where that is feasible.

    Args:
        network: from the function's light to its levels.
        arguments: of its function.
        sigma: noise on every signal relative to its full scale; fresh for every code.
        seed: of the noise.

    Raises:
        ConfigError: the network has other inputs or outputs than the function, or carries decimals.
    """

    def __init__(self, network: LayeredNetwork, arguments: FunctionArguments, sigma: float = 0.0, seed: int = 0):
        self.function = arguments.function()
        if arguments.carries_decimals:
            raise ConfigError("this network carries decimals for a second level: servers cannot receive them")
        if (network.layers[0], network.layers[-1]) != (len(self.function.inputs), self.function.outputs):
            raise ConfigError(f"a network of layers {network.layers} does not compute {arguments}")
        if not sigma >= 0:
            raise InputError(f"sigma = {sigma!r}: expected a standard deviation of at least 0")
        self.network, self.arguments, self.sigma = network, arguments, sigma
        self.rng = np.random.default_rng(seed)
        """Where the noise comes from; its state is what a checkpoint must keep."""

    @property
    def servers(self) -> int:
        """Rows of what it averages."""
        return self.arguments.servers

    @property
    def bits(self) -> int:
        """Of a code."""
        return self.arguments.bits

    @property
    def rounding(self) -> Rounding:
        """Of the mean."""
        return self.arguments.rounding

    @cached_property
    def table(self) -> NDArray[np.int32] | None:
        """The received code of every grid point, last input fastest; None with noise or for too large a grid."""
        if self.sigma or self.function.points > TABULATED_POINTS or self.bits > 31:
            return None
        return np.concatenate([self._received(points).astype(np.int32) for points in self.function.grid(_AT_ONCE)])

    def __call__(self, codes: Codes) -> Ints:
        """Mean codes (n,) of codes (servers, n)."""
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
    """How often a mean code is wrong, and by how much when it is."""

    rate: float
    shares: tuple[tuple[int, float], ...]
    """Errors in units of the last place, and their shares of all errors."""

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
"""Table II by its approximated layers; a sign of ± is taken as half each way, which the paper leaves open."""


class ErringAverager:
    """Another averager's means with errors of a stated distribution, independent of the codes (section IV).

    Means that would leave the code's range stay at its end.
    """

    def __init__(self, exact: Averager, errors: ErrorDistribution, seed: int = 0):
        self.exact, self.errors = exact, errors
        self.rng = np.random.default_rng(seed)
        """Where the errors come from; its state is what a checkpoint must keep."""

    @property
    def servers(self) -> int:
        """Rows of what it averages."""
        return self.exact.servers

    @property
    def bits(self) -> int:
        """Of a code."""
        return self.exact.bits

    @property
    def rounding(self) -> Rounding:
        """Of the mean."""
        return self.exact.rounding

    def __call__(self, codes: Codes) -> Ints:
        """Mean codes (n,) of codes (servers, n)."""
        means = self.exact(codes)
        if not self.errors.shares:
            return means
        # As many positions as a binomial draw says, with replacement: two errors in one place are rarer than rates.
        where = self.rng.integers(0, max(means.size, 1), self.rng.binomial(means.size, self.errors.rate))
        values, shares = zip(*self.errors.shares, strict=True)
        drawn = self.rng.choice(values, where.size, p=np.array(shares) / sum(shares))
        np.add.at(means, where, drawn)
        return np.clip(means, 0, (1 << self.bits) - 1)


def _check(codes: Codes, servers: int) -> None:
    if codes.ndim != 2 or codes.shape[0] != servers:
        raise InputError(f"codes of shape {codes.shape}: expected ({servers}, n), one row a server")
