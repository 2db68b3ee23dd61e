"""Noise limits of networks, for Gaussian noise on all signals relative to their full scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import InputError
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proved.verify import EXHAUSTIVE_POINTS
from lightloom.photonics.averaging.realised.networks import LayeredNetwork

TARGET = 0.9999
"""Accuracy that defines the noise limit."""
EVALUATIONS = 400_000
"""Noisy evaluations per accuracy: 40 errors at the target, a standard error of 16 % of the error rate."""


def with_measured_full_scale(network: LayeredNetwork, function: AveragingFunction) -> LayeredNetwork:
    """Return the network with measured full scales: the largest magnitude of each signal on the grid.

    Grids beyond 20 million points are sampled at a million points.
    """
    scales = [np.zeros(n) for n in network.layers]
    for points in _points_to_try(function, EXHAUSTIVE_POINTS, 1_000_000, 0):
        for scale, signal in zip(scales, network.signals(function.light(points)), strict=True):
            np.maximum(scale, np.abs(signal).max(axis=1), out=scale)
    return LayeredNetwork(network.weights, network.biases, network.nonlinearity, tuple(scales))


def noisy_accuracy(
    network: LayeredNetwork, function: AveragingFunction, sigma: float, evaluations: int = EVALUATIONS, seed: int = 0
) -> float:
    """Return the share of inputs received correctly with noise of relative standard deviation ``sigma``.

    Grids of at most ``evaluations`` points are passed over completely; points of larger grids are drawn uniformly. The
    same seed draws the same points and noise.

    Raises:
        InputError: ``sigma`` is negative.
    """
    if not sigma >= 0:
        raise InputError(f"sigma = {sigma!r}: expected a standard deviation of at least 0")
    rng = np.random.default_rng([seed, 1])
    wrong = done = 0
    while done < evaluations:
        for drawn in _points_to_try(function, evaluations, evaluations, seed):
            points = np.tile(drawn, max(1, min(evaluations, 1 << 15) // drawn.shape[1]))
            outputs = network(function.light(points), sigma, rng, np.float32 if sigma > 1e-6 else np.float64)
            wrong += int((function.decide(outputs.astype(np.float64)) != function.expected(points)).sum())
            done += points.shape[1]
    return 1 - wrong / done


def _points_to_try(function: AveragingFunction, most: int, samples: int, seed: int) -> Iterator[Ints]:
    if function.points <= most:
        return function.grid()
    rng = np.random.default_rng([seed, 2])
    maxima = np.array([[i.maximum] for i in function.inputs])
    size = 1 << 16
    return (rng.integers(0, maxima + 1, (len(maxima), min(size, samples - at))) for at in range(0, samples, size))


def noise_limit(
    network: LayeredNetwork,
    function: AveragingFunction,
    target: float = TARGET,
    evaluations: int = EVALUATIONS,
    seed: int = 0,
    lowest: float = 1e-9,
) -> float:
    """Return the largest sigma with ``target`` accuracy, to 3 %, by bisection with fixed draws; 0 below ``lowest``."""
    low, high = lowest, 0.5
    if noisy_accuracy(network, function, low, evaluations, seed) < target:
        return 0.0
    while high / low > 1.03:
        # Bisect the logarithm: the range spans many decades.
        middle = (low * high) ** 0.5
        if noisy_accuracy(network, function, middle, evaluations, seed) >= target:
            low = middle
        else:
            high = middle
    return low


def input_bound(function: AveragingFunction, target: float = TARGET) -> float:
    """Return an upper bound on the noise limit of any network, from noise on the inputs alone.

    With the other inputs fixed, one step in N of the least significant input a = 0..m changes the result: there are at
    least floor(m / N) disjoint pairs (a, a + 1) that a decision must tell apart. By Neyman and Pearson, the error
    probabilities of any decision on a pair add up to at least 2 Q(1 / (2 sigma m)), with Q the Gaussian tail. The error
    rate is therefore at least 2 floor(m / N) / (m + 1) Q(1 / (2 sigma m)); the bound solves this for sigma.
    """
    from scipy.special import ndtri

    last = function.inputs[-1]
    share = 2 * (last.maximum // max(function.divisor, 2)) / (last.maximum + 1)
    tail = (1 - target) / share if share else 1.0
    return float("inf") if tail >= 0.5 else float(1 / (-2 * ndtri(tail) * last.maximum))
