"""How much noise a network bears: Gaussian on inputs, hidden outputs and outputs, relative to a signal's full scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Ints
from lightloom.core.errors import InputError
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proved.verify import EXHAUSTIVE_POINTS
from lightloom.photonics.averaging.realised.networks import LayeredNetwork

TARGET = 0.9999
"""The accuracy that defines the limit."""
EVALUATIONS = 400_000
"""Noisy evaluations behind one accuracy: 40 errors at the target, a standard error of 16 % of the error rate."""


def with_measured_full_scale(network: LayeredNetwork, function: AveragingFunction) -> LayeredNetwork:
    """The same weights, full scale the largest size of each signal on the grid (on a million points of huge ones)."""
    scales = [np.zeros(n) for n in network.layers]
    for points in _some_points(function, EXHAUSTIVE_POINTS, 1_000_000, 0):
        for scale, signal in zip(scales, network.signals(function.light(points)), strict=True):
            np.maximum(scale, np.abs(signal).max(axis=1), out=scale)
    return LayeredNetwork(network.weights, network.biases, network.nonlinearity, tuple(scales))


def noisy_accuracy(
    network: LayeredNetwork, function: AveragingFunction, sigma: float, evaluations: int = EVALUATIONS, seed: int = 0
) -> float:
    """Share of inputs received right with noise of relative standard deviation ``sigma``.

    Whole passes over grids of at most ``evaluations`` points, uniformly drawn points of larger ones. The same seed
    draws the same points and noise.

    Raises:
        InputError: a negative sigma.
    """
    if not sigma >= 0:
        raise InputError(f"sigma = {sigma!r}: expected a standard deviation of at least 0")
    rng = np.random.default_rng([seed, 1])
    wrong = done = 0
    while done < evaluations:
        for drawn in _some_points(function, evaluations, evaluations, seed):
            points = np.tile(drawn, max(1, min(evaluations, 1 << 15) // drawn.shape[1]))
            outputs = network(function.light(points), sigma, rng, np.float32 if sigma > 1e-6 else np.float64)
            wrong += int((function.decide(outputs.astype(np.float64)) != function.expected(points)).sum())
            done += points.shape[1]
    return 1 - wrong / done


def _some_points(function: AveragingFunction, most: int, samples: int, seed: int) -> Iterator[Ints]:
    if function.points <= most:
        return function.grid()
    rng = np.random.default_rng([seed, 2])
    maxima = np.array([[i.maximum] for i in function.inputs])
    size = 1 << 16
    return (rng.integers(0, maxima + 1, (len(maxima), min(size, samples - at))) for at in range(0, samples, size))


def noise_curve(
    network: LayeredNetwork,
    function: AveragingFunction,
    sigmas: Sequence[float],
    evaluations: int = EVALUATIONS,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Error rate at each sigma, the cliff included."""
    return np.array([1 - noisy_accuracy(network, function, s, evaluations, seed) for s in sigmas])


def noise_limit(
    network: LayeredNetwork,
    function: AveragingFunction,
    target: float = TARGET,
    evaluations: int = EVALUATIONS,
    seed: int = 0,
    lowest: float = 1e-9,
) -> float:
    """The largest sigma with ``target`` accuracy, to 3 %, by bisection on one set of draws; 0 below ``lowest``."""
    low, high = lowest, 0.5
    if noisy_accuracy(network, function, low, evaluations, seed) < target:
        return 0.0
    while high / low > 1.03:
        # Decades first: most of the range is far from the limit.
        middle = (low * high) ** 0.5
        if noisy_accuracy(network, function, middle, evaluations, seed) >= target:
            low = middle
        else:
            high = middle
    return low


def input_bound(function: AveragingFunction, target: float = TARGET) -> float:
    """No network of any kind bears more: what noise on the inputs alone already destroys.

    Of the least significant input's values a = 0..m, all else equal, one step in N changes the result: at least
    floor(m / N) disjoint pairs (a, a + 1) that a decision must tell apart. Whatever decides, it errs on a pair with
    probabilities that add up to 2 Q(1 / (2 sigma m)) or more (Neyman and Pearson), Q the Gaussian tail. So the error
    rate is at least 2 floor(m / N) / (m + 1) Q(1 / (2 sigma m)); the bound solves that for sigma.
    """
    from scipy.stats import norm

    last = function.inputs[-1]
    share = 2 * (last.maximum // max(function.divisor, 2)) / (last.maximum + 1)
    tail = (1 - target) / share if share else 1.0
    return float("inf") if tail >= 0.5 else float(1 / (2 * norm.isf(tail) * last.maximum))
