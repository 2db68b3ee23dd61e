"""Is a network the averaging function? Every point of grids up to 20 million, the hardest points of larger ones.

Nothing is trusted but the network's own outputs: receivers decide them, and the integer they spell is compared with the
function's. What is not exhausted is no proof; for constructed networks `proof` gives one.
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
"""(K, n) light to (outputs, n) signals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came out."""

    exhaustive: bool
    checked_inputs: int
    wrong_outputs: int
    errors: dict[int, int]
    """Received minus expected average (in units of the last output's step), and how often."""
    largest_deviation: float
    """Of an output from its ideal level; receivers allow half a step."""

    @property
    def accuracy(self) -> float:
        """Share of inputs with every output right."""
        return 1 - self.wrong_outputs / self.checked_inputs

    @property
    def error_shares(self) -> dict[int, float]:
        """Each error's share of the errors, as in Table II."""
        return {value: count / self.wrong_outputs for value, count in self.errors.items()}


def verify(
    network: Network,
    function: AveragingFunction,
    samples: int = 1_000_000,
    seed: int = 0,
    exhaustive: bool | None = None,
) -> Verification:
    """Checks a network against the function.

    Args:
        network: a `LayeredNetwork`, or any function of light.
        function: what it should compute.
        samples: points where the grid is too large to exhaust.
        seed: of those points.
        exhaustive: None decides by the size of the grid.

    Raises:
        InputError: outputs of another shape than the function's.
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
    """Grid points next to where outputs change: half of them on carries, the rest uniform, all extremes included.

    A carry into output digit j happens where T + offset passes a multiple of N 4^j; both neighbours of such multiples
    are drawn, for every j, and broken down to inputs at random.
    """
    rng = np.random.default_rng(seed)
    maxima = np.array([[i.maximum] for i in function.inputs])
    yield np.concatenate(
        [maxima * 0, maxima, np.eye(len(maxima), dtype=np.int64), maxima - np.eye(len(maxima), dtype=np.int64)], axis=1
    )
    left = samples
    while left > 0:
        count = min(left, chunk)
        left -= count
        half = count // 2
        place = rng.integers(0, function.outputs, half)
        step = function.divisor * np.left_shift(np.int64(1), 2 * place)
        edge = step * (1 + np.floor(rng.random(half) * ((function.largest + function.offset) // step))).astype(np.int64)
        totals = np.clip(edge - function.offset + rng.integers(-2, 2, half), 0, function.largest)
        yield np.concatenate(
            [function.points_of(totals, rng), rng.integers(0, maxima + 1, (len(maxima), count - half))], axis=1
        )
