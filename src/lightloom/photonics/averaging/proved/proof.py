"""Proof that a constructed network is correct on every grid point, by interval arithmetic over its gadgets.

1. Integers. The source of every floor is an integer multiple of its grid, non-negative and below the first step without
   a bit. Every bit is therefore exact: no value lies between the two ends of a ramp.
2. Digits. The outputs o_j are integers in 0..3, and T + offset - N sum_j 4^j o_j lies in 0..N-1. Only one number has
   this property: floor((T + offset) / N). The last output may instead be an analogue remainder that a receiver rounds.
3. Arithmetic. With rounding unit u, the error of a sum of k products is at most (k + 3) u sum |w||x|; a ramp passes on
   only errors beyond the free share of its gap. The bound at the outputs is below the receivers' half step.
4. Light. The same holds with every signal off by up to tau of its full scale, all in the worst direction.
5. Limiters. Saturating units may be any monotone limiters: those of bits in so far as they are near their rails at the
   margin that is left beside a ramp, those that keep values in so far as they bend by a share of full scale at most.

Steps 1 and 2 use exact rationals. Steps 3 and 4 are sums of non-negative floats, enlarged by 1e-6, which exceeds their
own rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.core.errors import ConfigError, VerificationError
from lightloom.photonics.averaging.constructed.blocks import sum_of_servers
from lightloom.photonics.averaging.constructed.circuit import Circuit
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proved.limiters import CLIP, Clip, Limiter
from lightloom.photonics.averaging.realised.compiler import Gadget, Realised

FLOAT64, FLOAT32 = 2.0**-53, 2.0**-24


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The figures of a proof that holds; `prove` raises for one that does not."""

    floors: int
    margin: float
    """Largest error of an output for which its receiver decides correctly, in levels."""
    float64_error: float
    """Bound on the error of the outputs in float64, in levels."""
    float64: bool
    float32_error: float
    float32: bool
    tolerance: float
    """tau: the share of its full scale that every signal may be off by, all signals at once."""
    bend: float | None
    """Share of full scale by which units that keep values may bend, all of them at once; None for plain ReLUs."""
    steps: tuple[str, ...]
    """The steps of the proof as text."""


def prove(realised: Realised, function: AveragingFunction) -> Proof:
    """Prove that the network computes the function.

    Raises:
        VerificationError: a step of the proof fails.
    """
    circuit = realised.circuit
    circuit.check_floors()
    margin = check_digits(circuit, function)
    errors = {unit: _output_error(realised, unit, 0.0) for unit in (FLOAT64, FLOAT32)}
    tolerance = _largest(lambda tau: _output_error(realised, FLOAT64, tau), margin)
    bounded = realised.realisation.bounded
    bend = _largest(lambda bend: _output_error(realised, FLOAT64, 0.0, bend=bend), margin) if bounded else None
    floors, bits = len(circuit.floors), sum(m.count for _, m in circuit.floors)
    steps: tuple[str, ...] = (
        f"integers: {floors} floors of {bits} bits, each source an integer within its steps",
        f"digits: {function.outputs} outputs within 0..3, remainder within 0..{function.divisor - 1}: the floor",
        f"float64: outputs off by at most {errors[FLOAT64]:.2e} levels, receivers allow {margin:.2e}",
        f"float32: outputs off by at most {errors[FLOAT32]:.2e} levels",
        f"light: every signal may be off by {tolerance:.2e} of its full scale",
    )
    if bend is not None:
        steps += (f"limiters: with bits at their rails, kept values may bend by {bend:.2e} of full scale",)
    return Proof(
        floors=floors,
        margin=margin,
        float64_error=errors[FLOAT64],
        float64=errors[FLOAT64] < margin,
        float32_error=errors[FLOAT32],
        float32=errors[FLOAT32] < margin,
        tolerance=tolerance,
        bend=bend,
        steps=steps,
    )


def error_with_limiters(realised: Realised, deciding: Limiter | Clip, keeping: Limiter | Clip) -> float:
    """Return a bound on the error of any output in levels, with these units in place of clip(u, 0, 1).

    The network is exact with them if the bound is below what receivers allow (`check_digits`). The units of the last
    layer keep values too: modulators that send them on.

    Raises:
        ConfigError: the network has plain ReLUs, which do not limit.
    """
    if not realised.realisation.bounded:
        raise ConfigError("limiters: the network has plain ReLUs, expected clipped units")
    return _output_error(realised, FLOAT64, 0.0, deciding, keeping.bend)


def check_digits(circuit: Circuit, function: AveragingFunction) -> float:
    """Check step 2 of the proof, and return the largest error of an output that receivers allow, in levels.

    Raises:
        VerificationError: an output is not a digit, or the digits are not those of the mean.
    """
    places = [4**j for j in range(function.outputs - 1, -1, -1)]
    *digits, last = circuit.outputs
    for index, digit in enumerate(digits):
        low, high = circuit.bounds(digit)
        if low < 0 or high > 3 or digit.grid.denominator != 1:
            raise VerificationError(f"output {index + 1} spans {low} to {high} in steps of {digit.grid}: not a digit")
    rest = sum_of_servers(circuit, function)
    for digit, place in zip(digits, places, strict=False):
        rest = rest - digit * (place * function.divisor)
    low, high = circuit.bounds(rest)
    if low < 0 or high > 4 * function.divisor - 1:
        raise VerificationError(f"the remainder for the last output spans {low} to {high}: more than a digit")
    rest, last = circuit.expand(rest), circuit.expand(last)
    analogue = rest * Fraction(1, function.divisor)
    if not function.carries_decimals:
        analogue = analogue - Fraction(function.divisor - 1, 2 * function.divisor)
    if analogue == last:
        return 0.5 / function.divisor
    if function.carries_decimals:
        raise VerificationError("the last output is not the remainder with its decimals")
    low, high = circuit.bounds(last)
    under = circuit.bounds(rest - last * function.divisor)
    if low < 0 or high > 3 or last.grid.denominator != 1 or under[0] < 0 or under[1] > function.divisor - 1:
        raise VerificationError(f"the last output spans {low} to {high} and leaves {under[0]} to {under[1]}")
    return 0.5


def _output_error(
    realised: Realised, unit: float, tau: float, deciding: Limiter | Clip = CLIP, bend: float = 0.0
) -> float:
    """Bound the error of any output, with rounding unit ``unit`` and every signal off by ``tau`` of its full scale.

    Bits are those of the limiter ``deciding``, and values that are kept bend by ``bend`` of full scale.
    """
    scales = realised.network.full_scale
    errors = [
        abs(float(g.readout[0])) * float(s) * (unit + tau) for g, s in zip(realised.layers[0], scales[0], strict=True)
    ]
    at_most = 1 + tau
    for layer, gadgets in enumerate(realised.layers[1:], 1):
        weights, biases = np.abs(realised.network.weights[layer - 1]), np.abs(realised.network.biases[layer - 1])
        rounding = (weights.shape[1] + 3) * unit * (weights @ (scales[layer - 1] * at_most) + biases)
        last = layer == len(realised.layers) - 1
        fresh, start = [], 0
        for gadget in gadgets:
            own = rounding[start : start + len(gadget.units)]
            # Only units that keep values bend; bits are as good as their limiter.
            share = tau + bend if gadget.ramp is None else tau
            off = scales[layer][start : start + len(gadget.units)] * share
            start += len(gadget.units)
            source = sum(abs(float(factor)) * errors[index] for index, factor in gadget.source.reads)
            limiter = deciding if realised.realisation.bounded and not last else None
            fresh.append(_gadget_error(gadget, source, own, off, limiter))
        errors = fresh
    return max(errors) * (1 + 1e-6)


def _gadget_error(
    gadget: Gadget, source: float, rounding: NDArray[Any], off: NDArray[Any], limiter: Limiter | Clip | None
) -> float:
    """Bound the error of a gadget from its source's error, its units' rounding, and the error of their signals."""
    readout = np.array([abs(float(r)) for r in gadget.readout])
    if gadget.ramp is None:
        return source + float(readout @ (rounding + off))
    width = float(gadget.ramp[1] - gadget.ramp[0])
    free = (float(gadget.gap) - width) / 2
    if limiter is not None:
        # A saturated unit also absorbs the rounding of its argument.
        return limiter.rail_error((free - source - float(rounding[0]) * width) / width) + float(off[0])
    return max(0.0, source - free) / width + float(readout @ (rounding + off))


def _largest(error: Callable[[float], float], margin: float) -> float:
    """Return the largest share of full scale, to 1 %, for which ``error`` stays below ``margin``."""
    low, high = 0.0, 1.0
    while high > 1e-15 and high - low > 0.01 * high:
        middle = (low + high) / 2 if low else high / 4
        if error(middle) < margin:
            low = middle
        else:
            high = middle
    return low
