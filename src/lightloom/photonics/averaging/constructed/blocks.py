"""The sum T as blocks of digits, least significant first, and carries between them.

T = sum_i unit_i block_i,   unit_{i+1} = span_i unit_i,   units and spans powers of four
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from lightloom.photonics.averaging.constructed.circuit import Circuit, Form
from lightloom.photonics.averaging.function import AveragingFunction


@dataclass(frozen=True, slots=True)
class Block:
    """A form in units of 4^position; after carrying it has ``digits`` base-4 digits."""

    position: int
    digits: int
    form: Form


def blocks_of(circuit: Circuit, function: AveragingFunction, factor: int, places: int) -> list[Block]:
    """Return ``factor`` * (T + offset) in ``places`` base-4 places, one block per input."""
    ordered = list(enumerate(function.inputs))[::-1]
    # The exponents of four in the weights.
    positions = [((i.weight & -i.weight).bit_length() - 1) // 2 for _, i in ordered] + [places]
    blocks = []
    for order, (k, i) in enumerate(ordered):
        form = circuit.input(k) * (factor * i.weight // 4 ** positions[order])
        if order == 0:
            form = form + function.offset * factor
        blocks.append(Block(positions[order], positions[order + 1] - positions[order], form))
    return blocks


def sum_of_servers(circuit: Circuit, function: AveragingFunction) -> Form:
    """Return T + offset as a form of the inputs."""
    return sum((circuit.input(k) * i.weight for k, i in enumerate(function.inputs)), Form({})) + function.offset


def carry_save(
    circuit: Circuit,
    blocks: list[Block],
    radix: int,
    decided_from: int | None = None,
    digits_decided: bool = False,
) -> list[Block]:
    """Pass the excess of every block to the next simultaneously, so that all ranges shrink in one step.

    With ``decided_from``, blocks with digits above that position consist of decided bits (the floor of a form to its
    own grid is the form itself). Lower blocks contribute only their carry, which is decided anyway.

    With ``digits_decided``, what a block keeps becomes decided bits of few steps before the carry from below joins it.
    A mesh then never adds a large analogue value to the bits of several blocks at once, which only it could spoil.
    """
    excess = [circuit.floor(b.form, 4**b.digits, radix) if b.digits else Form({}) for b in blocks]
    result = []
    for index, block in enumerate(blocks):
        form = block.form
        if decided_from is not None and block.position + block.digits > decided_from:
            grid = form.grid
            form = circuit.floor(form, grid, 1 + int(circuit.bounds(form)[1] / grid)) * grid
        form = form - excess[index] * 4**block.digits
        if digits_decided and excess[index].terms:
            grid = form.grid
            form = circuit.floor(form, grid, 1 + int(circuit.bounds(form)[1] / grid)) * grid
        result.append(Block(block.position, block.digits, form + excess[index - 1] if index else form))
    return [*result, Block(blocks[-1].position + blocks[-1].digits, 0, excess[-1])] if excess[-1].terms else result


def ripple(circuit: Circuit, blocks: list[Block], radix: int) -> tuple[list[Block], Form]:
    """Carry from block to block; return blocks of exactly their digits, and the carry out of the last."""
    carry, done = Form({}), []
    for block in blocks:
        source = block.form + carry
        carry = circuit.floor(source, 4**block.digits, radix) if block.digits else source
        if block.digits:
            done.append(Block(block.position, block.digits, source - carry * 4**block.digits))
    return done, carry


def split(circuit: Circuit, form: Form, digits: int, lowest: int = 0) -> list[Form]:
    """Return the base-4 digits of a form, most significant first, down to digit ``lowest``."""
    result = []
    for place in range(digits - 1, lowest - 1, -1):
        # The last digit is the remainder of the form.
        digit = circuit.floor(form, 4**place) if place else form
        result.append(digit)
        form = form - digit * 4**place
    return result


def with_decimals(outputs: list[Form], function: AveragingFunction, circuit: Circuit) -> list[Form]:
    """Add (T - N * result) / N to the last output if the function carries decimals."""
    if not function.carries_decimals:
        return outputs
    rest = sum_of_servers(circuit, function)
    for place, output in enumerate(reversed(outputs)):
        rest = rest - output * (function.divisor * 4**place)
    return [*outputs[:-1], outputs[-1] + rest * Fraction(1, function.divisor)]
