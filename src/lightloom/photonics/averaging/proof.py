"""Proof that a constructed network is correct on every grid point, by interval arithmetic over its gadgets.

1. Integers. The source of every floor is an integer multiple of its grid, non-negative and below the first step without
   a bit. Every bit is therefore exact: no value lies between the two ends of a ramp.
2. Digits. The outputs o_j are integers in 0..3, and T + offset - N sum_j 4^j o_j lies in 0..N-1. Only one number has
   this property: floor((T + offset) / N). The last output may instead be an analogue remainder that a receiver rounds.
3. Arithmetic. With rounding unit u, the error of a sum of k products is at most (k + 3) u sum |w||x|; a ramp passes on
   only errors beyond the free share of its gap. The bound at the outputs is below the receivers' half step.
4. Light. The same holds with every signal off by up to tau of its full scale, all in the worst direction.
5. Limiters. Units that keep values may bend: leave clip(u, 0, 1) by a share of full scale. Units of bits are at a rail.

Steps 1 and 2 use exact rationals. Steps 3 and 4 are sums of non-negative floats, enlarged by 1e-6, which exceeds their
own rounding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError, VerificationError
from lightloom.core.results import attributes
from lightloom.photonics.averaging.circuits import Circuit, last_output, sum_of_servers
from lightloom.photonics.averaging.compiler import Gadget, Realised
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.networks import LayeredNetwork

FLOAT64, FLOAT32 = 2.0**-53, 2.0**-24


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The figures of a proof that holds; `prove` raises for one that does not."""

    float64_error: float
    """Bound on the error of the outputs in float64, in levels."""
    float64: bool
    tolerance: float
    """tau: the share of its full scale that every signal may be off by, all signals at once."""
    bend: float | None
    """Share of full scale by which units that keep values may bend, all of them at once; None for plain ReLUs."""
    steps: tuple[str, ...]
    """The steps of the proof as text."""


def prove(realised: Realised, function: AveragingFunction, dark: Sequence[Floats] | None = None) -> Proof:
    """Prove that a realised network computes the function, and return the figures of the proof.

    Only integers and digits must hold: ``float64`` of the result says whether errors of that arithmetic stay within the
    margin of the receivers.

    Args:
        realised: circuit and gadgets of the network.
        function: the averaging function.
        dark: for each matrix, the sums of the magnitudes of weights from signals that are 0
            (`construct.Embedding.dark`): they change no signal and no rounding, but what such a signal is off by
            reaches others. None if there are none.

    Returns:
        ``float64_error``, a bound on the error of the outputs in levels; ``float64``; ``tolerance``, the share of its
        full scale that every signal may be off by at once; ``bend``, the share by which clipped units that keep values
        may bend, None for plain ReLUs; and ``steps``, a tuple of sentences. Both shares are found to 1 %.

    Raises:
        VerificationError: the integers or the digits fail.
    """
    circuit = realised.circuit
    circuit.check_floors()
    margin = check_digits(circuit, function)
    errors = {unit: _output_error(realised, unit, 0.0) for unit in (FLOAT64, FLOAT32)}
    tolerance = _largest_share(lambda tau: _output_error(realised, FLOAT64, tau, dark=dark), margin)
    bounded = realised.realisation.bounded
    bend = _largest_share(lambda bend: _output_error(realised, FLOAT64, 0.0, bend=bend), margin) if bounded else None
    floors, bits = len(circuit.floors), sum(m.count for _, m in circuit.floors)
    steps = [
        f"integers: {floors} floors of {bits} bits, each source an integer within its steps",
        f"digits: {function.outputs} outputs within 0..3, remainder within 0..{function.divisor - 1}: the floor",
        f"float64: outputs off by at most {errors[FLOAT64]:.2e} levels, receivers allow {margin:.2e}",
        f"float32: outputs off by at most {errors[FLOAT32]:.2e} levels",
        f"light: every signal may be off by {tolerance:.2e} of its full scale",
    ]
    if bend is not None:
        steps.append(f"limiters: with bits at their rails, kept values may bend by {bend:.2e} of full scale")
    error = errors[FLOAT64]
    return Proof(float64_error=error, float64=error < margin, tolerance=tolerance, bend=bend, steps=tuple(steps))


def check_digits(circuit: Circuit, function: AveragingFunction) -> float:
    """Check that the circuit's outputs are the base-4 digits of floor((T + offset) / N) for all inputs, by exact
    bounds.

    Each output must be an integer in 0..3 that leaves a remainder below N; the last one may instead be the analogue
    remainder that a receiver rounds (`circuits.last_output`), and must be if the function carries decimals.

    Returns:
        The largest error of an output that receivers allow, which is 0.5 levels, or 0.5 / N with an analogue last
        output.

    Raises:
        VerificationError: an output is not a digit, or the digits are not those of the mean.
    """
    *digits, last = circuit.outputs
    rest = sum_of_servers(circuit, function)
    for number, digit in enumerate(digits, 1):
        low, high = circuit.bounds(digit)
        if low < 0 or high > 3 or digit.grid.denominator != 1:
            raise VerificationError(f"output {number} spans {low} to {high} in steps of {digit.grid}: not a digit")
        rest = rest - digit * (4 ** (function.outputs - number) * function.divisor)
    low, high = circuit.bounds(rest)
    if low < 0 or high > 4 * function.divisor - 1:
        raise VerificationError(f"the remainder for the last output spans {low} to {high}: more than a digit")
    rest, last = circuit.expand(rest), circuit.expand(last)
    if last_output(rest, function) == last:
        return 0.5 / function.divisor
    if function.carries_decimals:
        raise VerificationError("the last output is not the remainder with its decimals")
    low, high = circuit.bounds(last)
    under = circuit.bounds(rest - last * function.divisor)
    if low < 0 or high > 3 or last.grid.denominator != 1 or under[0] < 0 or under[1] > function.divisor - 1:
        raise VerificationError(f"the last output spans {low} to {high} and leaves {under[0]} to {under[1]}")
    return 0.5


def _output_error(
    realised: Realised, unit: float, tau: float, bend: float = 0.0, dark: Sequence[Floats] | None = None
) -> float:
    """Return a bound on the error of any output, in levels.

    Args:
        realised: circuit and gadgets of the network.
        unit: rounding unit of the arithmetic, such as 2^-53.
        tau: share of its full scale that every signal is off by, all in the worst direction.
        bend: share of full scale by which values that are kept (not bits) bend.
        dark: for each matrix, the sums of the magnitudes of every row's weights from signals that are 0; None if there
            are none.
    """
    scales = realised.network.full_scale
    inputs = zip(realised.layers[0], scales[0], strict=True)
    errors = [abs(float(gadget.readout[0])) * float(scale) * (unit + tau) for gadget, scale in inputs]
    at_most = 1 + tau
    for layer, gadgets in enumerate(realised.layers[1:], 1):
        weights, biases = np.abs(realised.network.weights[layer - 1]), np.abs(realised.network.biases[layer - 1])
        rounding = (weights.shape[1] + 3) * unit * (weights @ (scales[layer - 1] * at_most) + biases)
        if dark is not None:
            rounding = rounding + tau * dark[layer - 1]
        last = layer == len(realised.layers) - 1
        fresh, start = [], 0
        for gadget in gadgets:
            own = rounding[start : start + len(gadget.units)]
            # Only units that keep values bend; bits are as good as their limiter.
            off = scales[layer][start : start + len(gadget.units)] * (tau + bend if gadget.ramp is None else tau)
            start += len(gadget.units)
            source = sum(abs(float(factor)) * errors[index] for index, factor in gadget.source.reads)
            fresh.append(_gadget_error(gadget, source, own, off, realised.realisation.bounded and not last))
        errors = fresh
    return max(errors) * (1 + 1e-6)


def _gadget_error(gadget: Gadget, source: float, rounding: NDArray[Any], off: NDArray[Any], saturates: bool) -> float:
    """Return a bound on the error of a gadget's value, in units of the value.

    A bit's source may err by the free range beside its ramp without effect.

    Args:
        gadget: the gadget.
        source: bound on the error of the value that it reads.
        rounding: rounding errors of its units' arguments, [units].
        off: errors of its units' signals, [units].
        saturates: whether units are clipped, so that they absorb what a bit's argument is beyond its ramp.
    """
    readout = np.array([abs(float(r)) for r in gadget.readout])
    if gadget.ramp is None:
        return source + float(readout @ (rounding + off))
    width = float(gadget.ramp[1] - gadget.ramp[0])
    free = (float(gadget.gap) - width) / 2
    if saturates:
        # A saturated unit also absorbs the rounding of its argument.
        beyond = (free - source - float(rounding[0]) * width) / width
        return min(1.0, max(0.0, -beyond)) + float(off[0])
    return max(0.0, source - free) / width + float(readout @ (rounding + off))


def _largest_share(error: Callable[[float], float], margin: float) -> float:
    """Return the largest share of full scale, to 1 %, for which ``error``, which rises with it, stays below ``margin``.

    It is 0 if there is none of at least about 1e-15.
    """
    low, high = 0.0, 1.0
    while high > 1e-15 and high - low > 0.01 * high:
        middle = (low + high) / 2 if low else high / 4
        low, high = (middle, high) if error(middle) < margin else (low, middle)
    return low


# Verify that a network computes the averaging function: exhaustively on grids up to 20 million points.
#
# The network's outputs are rounded as receivers do, and the integers that they spell are compared with the
# function's. On larger grids the points where outputs change are sampled, which is no proof; `proof` proves
# constructed networks.

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
        """Share, from 0 to 1, of the checked inputs for which the number that all outputs spell is right."""
        return 1 - self.wrong_outputs / self.checked_inputs

    @property
    def counts(self) -> dict[str, int]:
        """The counts ``wrong_outputs`` and ``checked_inputs``, and ``exhaustive``, true if all inputs were tried, for
        JSON."""
        return attributes(self, "wrong_outputs checked_inputs exhaustive")


def verify(
    network: Network, function: AveragingFunction, samples: int = 10**6, seed: int = 0, exhaustive: bool | None = None
) -> Verification:
    """Return the errors of a network's received outputs against the function, on all points of its grid or on sampled
    hard ones.

    There is no noise, and outputs are rounded as receivers do. A point is wrong if the number that its rounded outputs
    spell is (``wrong_outputs`` of ``checked_inputs`` points). ``errors`` counts points by received less expected number
    in steps of the last output, most frequent first, and ``largest_deviation`` is that of any output before rounding,
    in levels, infinite for NaN.

    Args:
        network: a `LayeredNetwork`, or any function from input amplitudes (K, n) to output levels (outputs, n).
        function: the function to compute.
        samples: number of points on grids that are too large to exhaust, besides the extremes (`adversarial_points`).
        seed: seed of those points.
        exhaustive: whether to try all points; None tries all of at most 20 million points.

    Raises:
        InputError: the outputs have another shape than the function's.
    """
    if exhaustive is None:
        exhaustive = function.points <= EXHAUSTIVE_POINTS
    if isinstance(network, LayeredNetwork):
        network = network.pruned(noise=False)
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
    counts = {"checked_inputs": checked, "wrong_outputs": sum(errors.values())}
    most_frequent = dict(sorted(errors.items(), key=lambda item: -item[1]))
    return Verification(exhaustive=exhaustive, **counts, errors=most_frequent, largest_deviation=largest)


def adversarial_points(function: AveragingFunction, samples: int, seed: int, chunk: int = 1 << 16) -> Iterator[Ints]:
    """Yield chunks of hard grid points (K, up to ``chunk``): first the extremes, then ``samples`` other points.

    The extremes are all inputs at 0 or at their maximum, and these with one input off by 1. Of the others half are next
    to a carry and half uniform. A carry into output digit j happens where T + offset passes a multiple of N 4^j. Sums
    on both sides of such multiples are drawn, for every j, and distributed to inputs at random.
    """
    rng = np.random.default_rng(seed)
    maxima = np.array([[i.maximum] for i in function.inputs])
    one = np.eye(len(maxima), dtype=np.int64)
    yield np.concatenate([maxima * 0, maxima, one, maxima - one], axis=1)
    remaining = samples
    while remaining > 0:
        count = min(remaining, chunk)
        remaining -= count
        half = count // 2
        step = function.divisor * np.left_shift(np.int64(1), 2 * rng.integers(0, function.outputs, half))
        edge = step * (1 + np.floor(rng.random(half) * ((function.largest + function.offset) // step))).astype(np.int64)
        near = function.points_of(np.clip(edge - function.offset + rng.integers(-2, 2, half), 0, function.largest), rng)
        yield np.concatenate([near, rng.integers(0, maxima + 1, (len(maxima), count - half))], axis=1)


# Noise limits of networks, for Gaussian noise on all signals relative to their full scale.

TARGET = 0.9999
"""Accuracy that defines the noise limit."""
EVALUATIONS = 400_000
"""Noisy evaluations per accuracy: 40 errors at the target, a standard error of 16 % of the error rate."""


def with_measured_full_scale(network: LayeredNetwork, function: AveragingFunction) -> LayeredNetwork:
    """Return the network with measured full scales in place of its own: the largest magnitude of each signal, without
    noise, on the function's grid of inputs.

    Grids beyond 20 million points are sampled at a million uniform points.
    """
    scales = [np.zeros(n) for n in network.layers]
    for points in _points_to_try(function, EXHAUSTIVE_POINTS, 1_000_000, 0):
        for scale, signal in zip(scales, network.signals(function.light(points)), strict=True):
            np.maximum(scale, np.abs(signal).max(axis=1), out=scale)
    return LayeredNetwork(network.weights, network.biases, network.nonlinearity, tuple(scales))


def noisy_accuracy(
    network: LayeredNetwork, function: AveragingFunction, sigma: float, evaluations: int = EVALUATIONS, seed: int = 0
) -> float:
    """Return the share, from 0 to 1, of inputs received correctly with Gaussian noise on every signal: the number that
    the outputs spell when rounded to levels is the function's.

    Grids of at most ``evaluations`` points are passed over completely, as often as that takes; points of larger grids
    are drawn uniformly. The same seed draws the same points and noise.

    Args:
        network: the network.
        function: the function that it should compute.
        sigma: standard deviation of the noise, relative to each signal's full scale.
        evaluations: least number of evaluations, 400,000 by default.
        seed: seed of points and noise.

    Raises:
        InputError: ``sigma`` is negative.
    """
    if not sigma >= 0:
        raise InputError(f"sigma = {sigma!r}: expected a standard deviation of at least 0")
    network, rng = network.pruned(noise=True), np.random.default_rng([seed, 1])
    wrong = done = 0
    while done < evaluations:
        for drawn in _points_to_try(function, evaluations, evaluations, seed):
            points = np.tile(drawn, max(1, min(evaluations, 1 << 15) // drawn.shape[1]))
            outputs = network(function.light(points), sigma, rng, np.float32 if sigma > 1e-6 else np.float64)
            wrong += int((function.decide(outputs.astype(np.float64)) != function.expected(points)).sum())
            done += points.shape[1]
    return 1 - wrong / done


def _points_to_try(function: AveragingFunction, most: int, samples: int, seed: int) -> Iterator[Ints]:
    """Yield chunks of at most 65,536 grid points, integers (K, n): the whole grid if it has at most ``most`` points,
    else ``samples`` uniform ones.

    The same seed draws the same points.
    """
    if function.points <= most:
        return function.grid()
    rng = np.random.default_rng([seed, 2])
    maxima = np.array([[i.maximum] for i in function.inputs])
    size = 1 << 16
    return (rng.integers(0, maxima + 1, (len(maxima), min(size, samples - at))) for at in range(0, samples, size))


def noise_limit(
    network: LayeredNetwork, function: AveragingFunction, *, evaluations: int = EVALUATIONS, lowest: float = 1e-9
) -> float:
    """Return the largest standard deviation of noise on every signal, as a share of its full scale, at which 99.99 % of
    the inputs are received correctly.

    It is found to 3 % by bisection between ``lowest`` and 0.5 with the same draws for all values, with ``evaluations``
    noisy evaluations each (400,000 by default); 0 if ``lowest`` is not borne. The value returned is one that was found
    to be borne.
    """
    low, high = lowest, 0.5
    if noisy_accuracy(network, function, low, evaluations) < TARGET:
        return 0.0
    while high / low > 1.03:
        # Bisect the logarithm: the range spans many decades.
        middle = (low * high) ** 0.5
        right = noisy_accuracy(network, function, middle, evaluations) >= TARGET
        low, high = (middle, high) if right else (low, middle)
    return low


def input_bound(function: AveragingFunction, target: float = TARGET) -> float:
    """Return an upper bound on the noise limit of any network, from noise on the inputs alone.

    No network averages the share ``target`` (0.9999 by default) of the inputs right at more noise; the bound is a
    standard deviation relative to full scale. With the other inputs fixed, one step in N of the least significant input
    a = 0..m changes the result: there are at least floor(m / N) disjoint pairs (a, a + 1) that a decision must tell
    apart. By Neyman and Pearson, the error probabilities of any decision on a pair add up to at least 2 Q(1 / (2 sigma
    m)), with Q the Gaussian tail. The error rate is therefore at least 2 floor(m / N) / (m + 1) Q(1 / (2 sigma m)); the
    bound solves this for sigma, and is infinite where no sigma violates it.
    """
    from scipy.special import ndtri

    last = function.inputs[-1]
    share = 2 * (last.maximum // max(function.divisor, 2)) / (last.maximum + 1)
    tail = (1 - target) / share if share else 1.0
    return float("inf") if tail >= 0.5 else float(1 / (-2 * ndtri(tail) * last.maximum))
