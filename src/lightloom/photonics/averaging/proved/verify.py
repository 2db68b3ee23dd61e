"""Verify that a network computes the averaging function: exhaustively on grids up to 20 million points.

The network's outputs are rounded as receivers do, and the integers that they spell are compared with the function's. On
larger grids the points where outputs change are sampled, which is no proof; `proof` proves constructed networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Ints
from lightloom.core.errors import InputError
from lightloom.photonics.averaging.function import AveragingFunction

EXHAUSTIVE_POINTS = 20_000_000
Network = Callable[[NDArray[np.float64]], NDArray[np.floating[Any]]]
"""Function from input amplitudes (K, n) to output signals (outputs, n)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Result of a verification."""

    exhaustive: bool
    checked_inputs: int
    wrong_outputs: int
    errors: dict[int, int]
    """Number of occurrences by received minus expected average, in steps of the last output."""
    largest_deviation: float
    """Largest deviation of an output from its ideal level, in levels; receivers allow half a step."""

    @property
    def accuracy(self) -> float:
        """Share of inputs with all outputs correct."""
        return 1 - self.wrong_outputs / self.checked_inputs

    @property
    def counts(self) -> dict[str, int]:
        """Wrong outputs, inputs tried and whether these were all, as fields of JSON documents."""
        names = ("wrong_outputs", "checked_inputs", "exhaustive")
        return {name: getattr(self, name) for name in names}


def verify(
    network: Network,
    function: AveragingFunction,
    samples: int = 1_000_000,
    seed: int = 0,
    exhaustive: bool | None = None,
) -> Verification:
    """Compare a network with the function.

    Args:
        network: a `LayeredNetwork`, or any function of input amplitudes.
        function: the function to compute.
        samples: number of points on grids that are too large to exhaust.
        seed: seed of those points.
        exhaustive: whether to try all points; None decides by the size of the grid.

    Raises:
        InputError: the outputs have another shape than the function's.
    """
    if exhaustive is None:
        exhaustive = function.points <= EXHAUSTIVE_POINTS
    chunks = function.grid() if exhaustive else adversarial_points(function, samples, seed)
    checked, errors, largest = 0, dict[int, int](), 0.0
    for points in chunks:
        signals = np.asarray(network(function.light(points)), dtype=np.float64)
        if signals.shape != (function.outputs, points.shape[1]):
            raise InputError(f"the network gives {signals.shape}: expected ({function.outputs}, {points.shape[1]})")
        wrong = function.decide(signals) - function.expected(points)
        for value, count in zip(*np.unique(wrong[wrong != 0], return_counts=True), strict=True):
            errors[int(value)] = errors.get(int(value), 0) + int(count)
        checked += points.shape[1]
        largest = max(largest, float(np.nan_to_num(np.abs(signals - function.ideal(points)), nan=np.inf).max()))
    return Verification(
        exhaustive=exhaustive,
        checked_inputs=checked,
        wrong_outputs=sum(errors.values()),
        errors=dict(sorted(errors.items(), key=lambda item: -item[1])),
        largest_deviation=largest,
    )


def adversarial_points(function: AveragingFunction, samples: int, seed: int, chunk: int = 1 << 16) -> Iterator[Ints]:
    """Iterate over hard grid points: the extremes, then points of which half are next to a carry.

    A carry into output digit j happens where T + offset passes a multiple of N 4^j. Sums on both sides of such
    multiples are drawn, for every j, and distributed to inputs at random.
    """
    rng = np.random.default_rng(seed)
    maxima = np.array([[i.maximum] for i in function.inputs])
    yield np.concatenate(
        [maxima * 0, maxima, np.eye(len(maxima), dtype=np.int64), maxima - np.eye(len(maxima), dtype=np.int64)], axis=1
    )
    remaining = samples
    while remaining > 0:
        count = min(remaining, chunk)
        remaining -= count
        half = count // 2
        place = rng.integers(0, function.outputs, half)
        step = function.divisor * np.left_shift(np.int64(1), 2 * place)
        edge = step * (1 + np.floor(rng.random(half) * ((function.largest + function.offset) // step))).astype(np.int64)
        totals = np.clip(edge - function.offset + rng.integers(-2, 2, half), 0, function.largest)
        yield np.concatenate(
            [function.points_of(totals, rng), rng.integers(0, maxima + 1, (len(maxima), count - half))], axis=1
        )
