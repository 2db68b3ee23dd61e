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
from numpy.typing import ArrayLike, NDArray

from lightloom.core.arrays import Float32s, Floats, Ints
from lightloom.core.errors import ConfigError, InputError

# Integers as PAM4 signals: two bits per signal, most significant first (OptINC, arXiv 2603.28290, eq. 2).
#
# Signed gradients are sent in offset binary: code = value + 2^(bits-1). The mean of codes is the mean of the values
# plus the same offset. Averages of the digits of two's complement are meaningless, as -1 is all ones there.

Rounding = Literal["floor", "half-up"]
"""Rounding of a mean to a code."""
LEVELS = 4
MAX_BITS = 32


def symbols_for(bits: int) -> int:
    """Return the number of PAM4 signals that carry ``bits`` bits: ceil(bits / 2).

    Raises:
        ConfigError: ``bits`` is not a whole number from 1 to 32.
    """
    if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or not 1 <= bits <= MAX_BITS:
        raise ConfigError(f"bits = {bits!r}: expected a whole number from 1 to {MAX_BITS}")
    return -(-int(bits) // 2)


def digits(codes: Ints, bits: int) -> Float32s:
    """Return the PAM4 levels of codes, most significant digit first (eq. 2).

    Args:
        codes: whole numbers from 0 to below 2^bits, [..., words]; they are not checked (`check_codes` does).
        bits: bits per code; of an odd number the first digit holds one bit alone.

    Returns:
        Levels 0 to 3 as float32, [..., signals, words], with ceil(bits / 2) signals.
    """
    shifts = 2 * np.arange(symbols_for(bits) - 1, -1, -1, dtype=np.int64)[:, None]
    return ((codes[..., None, :] >> shifts) & (LEVELS - 1)).astype(np.float32)


def check_codes(codes: ArrayLike, bits: int) -> NDArray[np.int64]:
    """Return codes of any shape as int64, after checking that each fits into ``bits`` bits.

    Floats are accepted if they are whole numbers.

    Raises:
        InputError: a code is not a whole number in [0, 2^bits).
        ConfigError: ``bits`` is not a whole number from 1 to 32.
    """
    symbols_for(bits)
    array, high = np.asarray(codes), (1 << bits) - 1
    if array.size and not (np.issubdtype(array.dtype, np.integer) or (array == np.floor(array)).all()):
        raise InputError(f"codes of type {array.dtype}: expected whole numbers from 0 to {high}")
    if array.size and (array.min() < 0 or array.max() > high):
        bad = array.min() if array.min() < 0 else array.max()
        raise InputError(f"codes hold {bad}: expected whole numbers from 0 to {high}")
    return array.astype(np.int64)


MAX_SERVERS = 1 << 20


@dataclass(frozen=True, slots=True)
class GridInput:
    """One input of the network: the light is a / denominator, for a = 0..maximum."""

    weight: int
    maximum: int
    denominator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragingFunction:
    """The function of the module's docstring; inputs and outputs are ordered from the most significant."""

    inputs: tuple[GridInput, ...]
    divisor: int
    outputs: int
    """Number of PAM4 signals of the result."""
    offset: int = 0
    carries_decimals: bool = False
    """True if the last output also carries (T mod divisor) / divisor, for a second level (eq. 10)."""

    @classmethod
    def of(
        cls, servers: int, bits: int, inputs: int = 4, rounding: Rounding = "floor", carries_decimals: bool = False
    ) -> AveragingFunction:
        """Return the function that averages the codes of N servers.

        Args:
            servers: number of servers N, 1 to 2^20.
            bits: bits per code, 1 to 32, sent as ceil(bits / 2) PAM4 signals.
            inputs: most inputs K of the network: neighbouring signals are grouped, ceil(signals / inputs) to an input,
                so that there may be fewer inputs than this. The most significant group may be shorter.
            rounding: rounding of the mean to a code, down (``floor``) or half-up.
            carries_decimals: whether the last output also carries the fraction of the mean, for a second level.

        Raises:
            ConfigError: a count is out of range, the rounding is unknown, or a rounded mean should carry decimals.
        """
        count = symbols_for(bits)
        if type(servers) is not int or not 1 <= servers <= MAX_SERVERS:
            raise ConfigError(f"servers = {servers!r}: expected a whole number from 1 to {MAX_SERVERS}")
        if type(inputs) is not int or inputs < 1:
            raise ConfigError(f"inputs = {inputs!r}: expected a whole number of at least 1")
        if rounding not in ("floor", "half-up"):
            raise ConfigError(f"rounding = {rounding!r}: expected floor or half-up")
        if carries_decimals and rounding != "floor":
            raise ConfigError("decimals are carried with rounding floor only: round half-up at the last level")
        group = -(-count // inputs)
        used = -(-count // group)
        # The most significant group may be shorter, and an odd number of bits leaves its first signal half empty.
        maxima = [(1 << bits - 2 * group * (used - 1)) - 1] + [4**group - 1] * (used - 1)
        weights = [4 ** (group * (used - 1 - k)) for k in range(used)]
        grid = tuple(GridInput(w, servers * maximum, servers) for w, maximum in zip(weights, maxima, strict=True))
        offset = servers // 2 if rounding == "half-up" else 0
        return cls(inputs=grid, divisor=servers, outputs=count, offset=offset, carries_decimals=carries_decimals)

    @property
    def points(self) -> int:
        """Number of points of the grid that inputs can reach: the product of maximum + 1 over the inputs."""
        return int(np.prod([i.maximum + 1 for i in self.inputs], dtype=object))

    @property
    def largest(self) -> int:
        """Largest weighted sum T of a point of the grid, with every input at its maximum and without the offset that
        rounding adds."""
        return sum(i.weight * i.maximum for i in self.inputs)

    def grid(self, chunk: int = 1 << 16) -> Iterator[Ints]:
        """Yield all points of the grid in chunks, as integers a_k from 0 to maximum_k, of shape (K, up to ``chunk``).

        The last input varies fastest.
        """
        sizes = [i.maximum + 1 for i in self.inputs]
        for start in range(0, self.points, chunk):
            index = np.arange(start, min(start + chunk, self.points), dtype=np.int64)
            columns = []
            for size in reversed(sizes):
                index, column = np.divmod(index, size)
                columns.append(column)
            yield np.stack(columns[::-1])

    def light(self, points: Ints) -> Floats:
        """Return the amplitudes A_k = a_k / denominator_k of grid points: (K, n) integers to (K, n) floats.

        They range from 0 to maximum_k / denominator_k, for a function of `of` 2^b - 1 for an input whose digits hold b
        bits of a code.
        """
        scale = np.array([[i.denominator] for i in self.inputs], dtype=np.float64)
        light: Floats = points / scale
        return light

    def total(self, points: Ints) -> Ints:
        """Return the sum T = sum_k weight_k a_k of grid points, that of all servers' codes: (K, n) integers to (n,)."""
        return np.array([i.weight for i in self.inputs], dtype=np.int64) @ points

    def average(self, points: Ints) -> Ints:
        """Return floor((T + offset) / divisor), the rounded mean code, of grid points: (K, n) integers to (n,).

        T is the weighted sum of the inputs, which is the sum of all servers' codes.
        """
        return (self.total(points) + self.offset) // self.divisor

    def ideal(self, points: Ints) -> Floats:
        """Return the ideal output levels of grid points: (K, n) to (outputs, n), most significant digit first.

        Levels are 0 to 3, the base-4 digits of the average; if decimals are carried, the last one has the fraction ((T
        + offset) mod divisor) / divisor added.
        """
        mean, rest = np.divmod(self.total(points) + self.offset, self.divisor)
        shifts = 2 * np.arange(self.outputs - 1, -1, -1, dtype=np.int64)[:, None]
        levels = ((mean[None, :] >> shifts) & 3).astype(np.float64)
        if self.carries_decimals:
            levels[-1] += rest / self.divisor
        return levels

    def decide(self, signals: Floats) -> Ints:
        """Round outputs to the nearest levels and return the integers that they spell: (outputs, n) to (n,).

        Outputs are ordered from the most significant, and levels are limited to 0 to 3, the last one to 4 - 1/divisor
        if it carries decimals. The unit of the integers is the step of the last output: 1, or 1/divisor if decimals are
        carried (the integer is then divisor times the mean). NaN counts as level 0.
        """
        step = self.divisor if self.carries_decimals else 1
        clean = np.nan_to_num(np.asarray(signals, dtype=np.float64))
        high = np.clip(np.rint(clean[:-1]), 0, 3).astype(np.int64)
        last = np.clip(np.rint(clean[-1] * step), 0, 4 * step - 1).astype(np.int64)
        places = np.int64(step) << 2 * np.arange(self.outputs - 1, 0, -1, dtype=np.int64)
        codes: Ints = places @ high + last
        return codes

    def expected(self, points: Ints) -> Ints:
        """Return the integers (n,) that `decide` must return for grid points (K, n).

        They are the average, or T + offset, the sum of all codes, if decimals are carried.
        """
        return self.total(points) + self.offset if self.carries_decimals else self.average(points)

    def points_of(self, totals: Ints, rng: np.random.Generator) -> Ints:
        """Draw grid points whose weighted sums T are the given ``totals``: (n,) to (K, n) integers.

        From the first input to the last, each is drawn uniformly from the values for which the inputs behind it can
        supply the remainder.

        Raises:
            InputError: a total is outside 0..largest.
        """
        rest = np.asarray(totals, dtype=np.int64).copy()
        if rest.size and (rest.min() < 0 or rest.max() > self.largest):
            raise InputError(f"totals from {rest.min()} to {rest.max()}: expected 0 to {self.largest}")
        columns, below = [], self.largest
        for i in self.inputs:
            below -= i.weight * i.maximum
            low = np.maximum(-((below - rest) // i.weight), 0)
            columns.append(rng.integers(low, np.minimum(rest // i.weight, i.maximum) + 1))
            rest -= i.weight * columns[-1]
        return np.stack(columns)


# The units around the network of OptINC: P averages digits over servers, T sends the result to every server.
#
# server 1 ─M─▶ ┌───┐        ┌─────────┐        ┌───┐ ─M─▶ server 1
# ...        │ P │ ──K──▶ │ network │ ──M──▶ │ T │       ...
# server N ─M─▶ └───┘        └─────────┘        └───┘ ─M─▶ server N
#
# Both are matrices that :func:`map_matrix` maps to meshes (OptINC paper, Sec. III-A, Fig. 3).


def preprocessing_matrix(servers: int, signals: int, inputs: int) -> NDArray[np.float64]:
    """Return P [inputs, servers · signals]: A_k is the mean over servers of the number that its PAM4 digits spell.

    Signal j of server n is column n · signals + j, most significant first. Each A_k takes g = ⌈signals/inputs⌉ digits
    (the first ones fewer where they do not divide), weights 4^{g−1}, ..., 4, 1, so it ranges to 4^g − 1.

    Raises:
        ConfigError: there are no servers or signals, or more inputs than signals fill.
    """
    if servers < 1 or signals < 1 or inputs < 1:
        raise ConfigError(f"servers={servers}, signals={signals}, inputs={inputs}: expected at least 1 of each")
    group = -(-signals // inputs)
    if -(-signals // group) != inputs:
        raise ConfigError(f"inputs={inputs}: {signals} signals in groups of {group} fill {-(-signals // group)}")
    weights = np.zeros((inputs, signals))
    places = np.arange(signals)[::-1]  # positions above the least significant digit
    weights[inputs - 1 - places // group, np.arange(signals)] = np.ldexp(1.0, 2 * (places % group))
    return np.tile(weights / servers, (1, servers))


def splitting_matrix(servers: int, signals: int) -> NDArray[np.float64]:
    """Return T [servers · signals, signals]: every server receives every signal with its amplitude divided by √servers.

    Row n · signals + j is signal j of server n. The columns are orthonormal: splitting loses no light, but each server
    receives 1/servers of the power.

    Raises:
        ConfigError: there are no servers or no signals.
    """
    if servers < 1 or signals < 1:
        raise ConfigError(f"servers={servers}, signals={signals}: expected at least 1 of each")
    return np.asarray(np.tile(np.eye(signals), (servers, 1)) / np.sqrt(servers))


def splitting_loss_db(servers: int, *, columns: int = 0, loss_db: float = 0.0) -> float:
    """Return the loss in dB from a signal in front of T to one server's copy of it: 10 log₁₀(servers) + columns ·
    loss_db.

    Args:
        servers: number of servers among which the light is divided.
        columns: columns of interferometers that the light passes in T.
        loss_db: loss of one column, in dB.

    Raises:
        ConfigError: there are no servers, or a number is negative.
    """
    if servers < 1 or columns < 0 or not loss_db >= 0:
        raise ConfigError(f"servers={servers}, columns={columns}, loss_db={loss_db}: expected 1, 0 and 0 or more")
    return float(10 * np.log10(servers) + columns * loss_db)


def points_of_servers(codes: ArrayLike, bits: int, function: AveragingFunction) -> NDArray[np.int64]:
    """Return the grid points of servers' codes: (servers, n) codes to (K, n) integers, exact and without rounding.

    ``bits`` are those of the function. Integer k is the sum over servers of the number that the digits of input k's
    group spell, so that the light of the input is that integer over the number of servers.

    Raises:
        InputError: a code is not a whole number that fits into ``bits`` bits.
    """
    values = check_codes(codes, bits)
    inputs = len(function.inputs)
    group = 2 * -(-symbols_for(bits) // inputs)
    numbers = ((values >> group * (inputs - 1 - k)) & ((1 << group) - 1) for k in range(inputs))
    return np.stack([number.sum(axis=0, dtype=np.int64) for number in numbers])
