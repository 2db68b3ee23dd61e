"""Ripple from the least significant digit, for N = 2^q servers: division is a shift, only carries are computed.

    T' = T 4^p / N,  p = ceil(q / 2)              outputs are the base-4 digits p, p+1, ... of T'
    s_i = block_i + c_i,   c_{i+1} = floor(s_i / span_i),   digits of block i = s_i - span_i c_{i+1}

No signal has more than about 4 N levels per digit, whatever the number of bits, hence its noise tolerance. With
``saved`` rounds of carry-saving first, all blocks shrink simultaneously and the remaining carries are narrower. With
``decided`` inputs the first layer decides every step of every input that an output depends on, as a receiver would,
with one unit per step: no analogue input is carried along, and the next ramp absorbs the noise on bits.
"""

from __future__ import annotations

from lightloom.core.errors import UnsupportedError
from lightloom.photonics.averaging.constructed.blocks import blocks_of, carry_save, ripple, split, with_decimals
from lightloom.photonics.averaging.constructed.circuit import Circuit, Form
from lightloom.photonics.averaging.function import AveragingFunction


def lsb_ripple(
    function: AveragingFunction,
    radix: int = 4,
    saved: int = 0,
    decided: bool = False,
    digits_decided: bool = False,
) -> Circuit:
    """Return the circuit; floors compute ``radix`` - 1 bits per layer.

    With ``digits_decided`` each round of carry-saving also decides the digits that stay (`blocks.carry_save`): the
    sturdiest against errors of interferometers, as analogue values of many levels reach two layers only.

    Raises:
        UnsupportedError: N is not a power of two (see `long_division`).
    """
    servers = function.divisor
    if servers & (servers - 1):
        raise UnsupportedError(f"servers = {servers}: the ripple without division needs a power of two")
    shift = servers.bit_length() // 2
    circuit = Circuit(tuple(i.maximum for i in function.inputs))
    blocks = blocks_of(circuit, function, 4**shift // servers, function.outputs)
    if decided:
        blocks = carry_save(circuit, blocks, radix, decided_from=shift)
    for _ in range(saved):
        blocks = carry_save(circuit, blocks, radix, digits_decided=digits_decided)
    done, top = ripple(circuit, blocks, radix)
    digits: list[Form] = split(circuit, top, shift, max(0, shift - function.outputs))
    for block in reversed(done):
        digits += split(circuit, block.form, block.digits, max(0, shift - block.position))
    circuit.outputs = tuple(with_decimals(digits, function, circuit))
    return circuit
