"""Long division of T from the most significant digit: fewest devices, any number of servers, little noise tolerance.

    rest = T + offset
    for each digit but the last:  q = floor(rest / (N 4^j)),  rest = rest - N 4^j q
    last output = rest / N - (N-1)/(2N)          the receiver's rounding computes the last floor

The network needs T as one signal, so neighbouring values are 1 / (N 4^M) of full scale apart, which limits its noise
tolerance. Its thresholds lie between multiples of 1/N, and no multiple of 1/n, n <= N, lies between these, so the
network also serves every smaller number of servers.
"""

from __future__ import annotations

from fractions import Fraction

from lightloom.photonics.averaging.constructed.blocks import sum_of_servers
from lightloom.photonics.averaging.constructed.circuit import Circuit, Form
from lightloom.photonics.averaging.function import AveragingFunction


def msb_first(function: AveragingFunction, radix: int = 4) -> Circuit:
    """Return the circuit; ``radix`` 4 computes a digit per layer, 2 a bit per layer."""
    circuit = Circuit(tuple(i.maximum for i in function.inputs))
    rest = sum_of_servers(circuit, function)
    outputs: list[Form] = []
    for place in range(function.outputs - 1, 0, -1):
        step = function.divisor * 4**place
        outputs.append(circuit.floor(rest, step, radix))
        rest = rest - outputs[-1] * step
    last = rest * Fraction(1, function.divisor)
    if not function.carries_decimals:
        last = last - Fraction(function.divisor - 1, 2 * function.divisor)
    circuit.outputs = (*outputs, last)
    return circuit
