"""The function an averaging network must compute, on the grid that its inputs can reach (OptINC, section III-A).

    T = sum_k weight_k a_k,   a_k = 0..maximum_k,   A_k = a_k / denominator_k   (what light carries)
    outputs = base-4 digits of floor((T + offset) / divisor)

The servers' codes G_n enter only through T = sum_n G_n, so the function of K numbers is one of a single integer.
Half-up rounding is floor with offset floor(N/2). Unused ports: weights of P rescaled from 1/N to 1/n make the
function that of n servers, `AveragingFunction.of(n, bits)`, exact for every n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.pam4 import symbols_for

MAX_SERVERS = 1 << 20


@dataclass(frozen=True, slots=True)
class GridInput:
    """One input of the network: the light is a / denominator, for a = 0..maximum."""

    weight: int
    maximum: int
    denominator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragingFunction:
    """See the module; inputs and outputs are ordered from the most significant."""

    inputs: tuple[GridInput, ...]
    divisor: int
    outputs: int
    """PAM4 signals of the result."""
    offset: int = 0
    carries_decimals: bool = False
    """Whether the last output also carries (T mod divisor) / divisor, for a second level (eq. 10)."""

    @classmethod
    def of(
        cls,
        servers: int,
        bits: int,
        inputs: int = 4,
        rounding: Literal["floor", "half-up"] = "floor",
        carries_decimals: bool = False,
    ) -> AveragingFunction:
        """The function of N servers that send ``bits`` bits each, grouped to at most ``inputs`` signals by P.

        Raises:
            ConfigError: a count out of range, or decimals carried of a rounded mean.
        """
        count = symbols_for(bits)
        if isinstance(servers, bool) or not isinstance(servers, int) or not 1 <= servers <= MAX_SERVERS:
            raise ConfigError(f"servers = {servers!r}: expected a whole number from 1 to {MAX_SERVERS}")
        if isinstance(inputs, bool) or not isinstance(inputs, int) or inputs < 1:
            raise ConfigError(f"inputs = {inputs!r}: expected a whole number of at least 1")
        if rounding not in ("floor", "half-up"):
            raise ConfigError(f"rounding = {rounding!r}: expected floor or half-up")
        if carries_decimals and rounding != "floor":
            raise ConfigError("decimals are carried of floor only: round half-up at the last level")
        group = -(-count // inputs)
        kept = -(-count // group)
        # The most significant group may be shorter, and an odd number of bits leaves its first signal half empty.
        tops = [(1 << bits - 2 * group * (kept - 1)) - 1] + [4**group - 1] * (kept - 1)
        weights = [4 ** (group * (kept - 1 - k)) for k in range(kept)]
        grid = tuple(GridInput(w, servers * top, servers) for w, top in zip(weights, tops, strict=True))
        offset = servers // 2 if rounding == "half-up" else 0
        return cls(inputs=grid, divisor=servers, outputs=count, offset=offset, carries_decimals=carries_decimals)

    @property
    def points(self) -> int:
        """Size of the reachable grid: the product of maximum + 1."""
        return int(np.prod([i.maximum + 1 for i in self.inputs], dtype=object))

    @property
    def largest(self) -> int:
        """The largest T."""
        return sum(i.weight * i.maximum for i in self.inputs)

    def grid(self, chunk: int = 1 << 16) -> Iterator[Ints]:
        """Every point, as integers a of shape (K, up to ``chunk``), the last input fastest."""
        sizes = [i.maximum + 1 for i in self.inputs]
        for start in range(0, self.points, chunk):
            index = np.arange(start, min(start + chunk, self.points), dtype=np.int64)
            columns = []
            for size in reversed(sizes):
                index, column = np.divmod(index, size)
                columns.append(column)
            yield np.stack(columns[::-1])

    def light(self, points: Ints) -> Floats:
        """A_k of grid points: (K, n) integers to (K, n) signals."""
        scale = np.array([[i.denominator] for i in self.inputs], dtype=np.float64)
        light: Floats = points / scale
        return light

    def total(self, points: Ints) -> Ints:
        """T of grid points: (K, n) to (n,)."""
        return np.array([i.weight for i in self.inputs], dtype=np.int64) @ points

    def average(self, points: Ints) -> Ints:
        """floor((T + offset) / divisor): (K, n) to (n,)."""
        return (self.total(points) + self.offset) // self.divisor

    def ideal(self, points: Ints) -> Floats:
        """What the outputs should be: (K, n) to (outputs, n) levels, decimals in the last where they are carried."""
        mean, rest = np.divmod(self.total(points) + self.offset, self.divisor)
        shifts = 2 * np.arange(self.outputs - 1, -1, -1, dtype=np.int64)[:, None]
        digits = ((mean[None, :] >> shifts) & 3).astype(np.float64)
        if self.carries_decimals:
            digits[-1] += rest / self.divisor
        return digits

    def decide(self, signals: Floats) -> Ints:
        """What receivers make of outputs: the nearest levels, read as one integer in units of the last output's step.

        Shape (outputs, n) to (n,). The step is 1, or 1/divisor where decimals are carried; NaN counts as level 0.
        """
        step = self.divisor if self.carries_decimals else 1
        clean = np.nan_to_num(np.asarray(signals, dtype=np.float64))
        high = np.clip(np.rint(clean[:-1]), 0, 3).astype(np.int64)
        last = np.clip(np.rint(clean[-1] * step), 0, 4 * step - 1).astype(np.int64)
        places = np.int64(step) << 2 * np.arange(self.outputs - 1, 0, -1, dtype=np.int64)
        codes: Ints = places @ high + last
        return codes

    def expected(self, points: Ints) -> Ints:
        """The integer that `decide` must return: the average, or T where decimals are carried."""
        return self.total(points) + self.offset if self.carries_decimals else self.average(points)

    def points_of(self, totals: Ints, rng: np.random.Generator) -> Ints:
        """Random grid points of given T: (n,) to (K, n), each input drawn from the values that leave the rest
        reachable.

        Raises:
            InputError: a total outside 0..largest.
        """
        rest = np.asarray(totals, dtype=np.int64).copy()
        if rest.size and (rest.min() < 0 or rest.max() > self.largest):
            raise InputError(f"totals from {rest.min()} to {rest.max()}: expected 0 to {self.largest}")
        columns, below = [], self.largest
        for i in self.inputs:
            below -= i.weight * i.maximum
            low = np.maximum(-((below - rest) // i.weight), 0)
            high = np.minimum(rest // i.weight, i.maximum)
            columns.append(rng.integers(low, high + 1))
            rest -= i.weight * columns[-1]
        return np.stack(columns)
