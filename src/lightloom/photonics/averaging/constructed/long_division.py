"""Long division: carries upwards, then division downwards, for any number of servers; tolerates noise.

    up    s_i = block_i + c_i,  c_{i+1} = floor(s_i / span_i),  t_i = s_i - span_i c_{i+1}      digits of T
    down  v_i = span_i r_{i+1} + t_i,  digits of floor(v_i / N),  r_i = v_i mod N,  r_top = c_top < N

As T < N 4^M, the top carry is already a remainder, so division starts where the carries end. Every signal has at most
4 N levels per digit, as in the ripple for powers of two. Division multiplies t and r by the span, so both are rounded
to integers first (a floor by 1, N - 1 bits for r): an analogue remainder would amplify its noise by the span at every
step.
"""

from __future__ import annotations

from lightloom.photonics.averaging.constructed.blocks import blocks_of, carry_save, ripple, with_decimals
from lightloom.photonics.averaging.constructed.circuit import Circuit, Form
from lightloom.photonics.averaging.function import AveragingFunction


def long_division(function: AveragingFunction, radix: int = 4, saved: int = 0) -> Circuit:
    """Return the circuit; floors compute ``radix`` - 1 bits per layer."""
    circuit = Circuit(tuple(i.maximum for i in function.inputs))
    blocks = blocks_of(circuit, function, 1, function.outputs)
    for _ in range(saved):
        blocks = carry_save(circuit, blocks, radix)
    done, top = ripple(circuit, blocks, radix)
    remainder = circuit.hold(top)
    outputs: list[Form] = []
    for block in reversed(done):
        digits = block.form if block is done[0] else circuit.floor(block.form, 1, radix)
        rest = remainder * 4**block.digits + circuit.hold(digits)
        for place in range(block.digits - 1, -1, -1):
            step = function.divisor * 4**place
            outputs.append(circuit.floor(rest, step, radix))
            rest = rest - outputs[-1] * step
        if block is not done[0]:
            remainder = circuit.hold(circuit.floor(rest, 1, radix))
    circuit.outputs = tuple(with_decimals(outputs, function, circuit))
    return circuit
