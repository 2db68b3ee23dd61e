"""Circuits of integer arithmetic that a network can compute: affine forms and floors, with exact ranges.

    atom    an input a_k, or a bit [s >= t] of a floor
    form    a rational affine combination of atoms
    floor   min(floor(s / d), n) of a form s, as n bits [s >= d], [s >= 2d], ... [s >= n d]
    held    an integer form with a name: later layers carry it as one signal, not as part of a larger sum

Every floor satisfies 0 <= s - d floor(s/d) <= d - (grid of s). `Circuit.bounds` derives all ranges from these
inequalities, so its ranges are proved, not sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, gcd, lcm

from lightloom.core.errors import UnsupportedError, VerificationError
from lightloom.photonics.averaging.function import AveragingFunction


@dataclass(frozen=True, slots=True)
class Atom:
    """An integer: input ``index`` (group -1), bit ``index`` of floor ``group``, or the form that ``group`` holds."""

    group: int
    index: int


Terms = frozenset[tuple[Atom, Fraction]]
"""The terms of a form as a hashable key."""
Bounds = tuple[Fraction, Fraction]
"""Least and largest value of a form."""


@dataclass(frozen=True, slots=True)
class Form:
    """The exact affine form constant + sum of coefficient * atom."""

    terms: Mapping[Atom, Fraction]
    constant: Fraction = Fraction(0)

    def __add__(self, other: Form | int | Fraction) -> Form:
        """Return the sum with a form or a constant; terms that cancel are left out."""
        if not isinstance(other, Form):
            return Form(self.terms, self.constant + other)
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            terms[atom] = terms.get(atom, Fraction(0)) + coefficient
            if not terms[atom]:
                del terms[atom]
        return Form(terms, self.constant + other.constant)

    def __mul__(self, factor: int | Fraction) -> Form:
        """Return the form with all coefficients and the constant times ``factor``."""
        if not factor:
            return Form({})
        return Form({a: c * factor for a, c in self.terms.items()}, self.constant * factor)

    def __sub__(self, other: Form | int | Fraction) -> Form:
        """Return the difference from a form or a constant."""
        return self + other * (-1)

    @property
    def key(self) -> Terms:
        """Terms of the form, pairs of atom and coefficient, as a hashable key; the constant is left out."""
        return frozenset(self.terms.items())

    @property
    def grid(self) -> Fraction:
        """Largest g of which the constant and all coefficients, and so all values of the form, are multiples; 0 for the
        form 0."""
        return _common_divisor(*self.terms.values(), self.constant)


@dataclass(frozen=True, slots=True)
class Floor:
    """n bits whose sum is floor(source / divisor)."""

    source: Form
    divisor: Fraction
    count: int

    def window(self, bit: int) -> tuple[Fraction, Fraction]:
        """Return the two neighbouring values of the source between which bit number ``bit`` (from 0) changes from 0 to
        1.

        The bit is [source >= (bit + 1) divisor]; the values are multiples of the source's grid, the last without and
        the first with the bit.
        """
        grid = self.source.grid
        first = grid * ceil((bit + 1) * self.divisor / grid)
        return first - grid, first


@dataclass(frozen=True, slots=True)
class Held:
    """A form that later layers carry as one signal."""

    source: Form


@dataclass(slots=True)
class Circuit:
    """Floors and held forms over inputs 0..maxima[k], each reading only earlier ones, and the output forms."""

    maxima: tuple[int, ...]
    groups: list[Floor | Held] = field(default_factory=list)
    outputs: tuple[Form, ...] = ()
    _bounds_by_form: dict[tuple[Terms, Fraction], Bounds] = field(default_factory=dict)
    _raw_bounds: dict[tuple[Terms, bool], Bounds] = field(default_factory=dict)

    def input(self, index: int) -> Form:
        """Return input number ``index`` (from 0, unchecked) of the circuit, an integer from 0 to its maximum, as a
        form: its atom times 1."""
        return Form({Atom(-1, index): Fraction(1)})

    def floor(self, source: Form, divisor: int | Fraction, radix: int = 4) -> Form:
        """Return the form of floor(source / divisor), computed digit by digit in base ``radix`` from the most
        significant one.

        Each digit is a floor of at most ``radix`` - 1 bits that reads what the digits above it leave of the source.
        Floors are appended to ``groups`` unless equal ones are there. The form is 0 if the source never reaches
        ``divisor``, which must be above 0; the source must not be negative.
        """
        divisor = Fraction(divisor)
        count = floor(self.bounds(source)[1] / divisor)
        if count <= 0:
            return Form({})
        place = 1
        while count // place >= radix:
            place *= radix
        digit = self._bits(source, divisor * place)
        if place == 1:
            return digit
        return digit * place + self.floor(source - digit * (divisor * place), divisor, radix)

    def _bits(self, source: Form, divisor: Fraction) -> Form:
        """Return floor(source / divisor) as a form that is a sum of bits, one for each multiple of the divisor from the
        first on that the source may reach.

        The floor is appended to ``groups``; an equal one that is there is used again.
        """
        step = Floor(source, divisor, floor(self.bounds(source)[1] / divisor))
        if step not in self.groups:
            self.groups.append(step)
        group = self.groups.index(step)
        return Form({Atom(group, bit): Fraction(1) for bit in range(step.count)})

    def decided(self, form: Form) -> Form:
        """Return a form of equal value made of the bits of one floor, one for each step of the form's grid that it may
        reach: each is 0 or 1 by comparing the form with a threshold, as a receiver decides.

        The floor that gives these bits is appended to ``groups`` unless an equal one is there; the form must not be
        negative, nor the form 0.
        """
        grid = form.grid
        return self.floor(form, grid, 1 + int(self.bounds(form)[1] / grid)) * grid

    def hold(self, source: Form) -> Form:
        """Append a held form with this source, which must be integer-valued (`check_floors`), to ``groups``, and return
        the atom that stands for it as a form.

        Later layers carry it as one signal. It is appended even if an equal one is there. A constant form is returned
        as it is, and nothing is appended.
        """
        if not source.terms:
            return source
        self.groups.append(Held(source))
        return Form({Atom(len(self.groups) - 1, 0): Fraction(1)})

    def expand(self, form: Form) -> Form:
        """Return the form with held forms (sums that later layers carry as one signal) replaced by their sources, until
        none is left; its value is unchanged."""
        if (held := next((a for a in form.terms if self.is_held(a)), None)) is None:
            return form
        factor = form.terms[held]
        remainder = Form({a: c for a, c in form.terms.items() if a != held}, form.constant)
        return self.expand(remainder + self.groups[held.group].source * factor)

    def bounds(self, form: Form) -> Bounds:
        """Return bounds (least, largest) on the value of a form over all inputs, multiples of the form's grid.

        They follow from the inputs' ranges and, for each floor, from 0 <= source - divisor · floor <= divisor - grid of
        the source: exact rationals, proved rather than sampled, but not always reached. They are cached by form.
        """
        key = (form.key, form.constant)
        if key not in self._bounds_by_form:
            self._bounds_by_form[key] = self._tightest(form)
        return self._bounds_by_form[key]

    def _tightest(self, form: Form) -> Bounds:
        """Return the least and the largest value of a form, rounded inwards to multiples of the form's grid.

        Two ways of bounding are compared, and the tighter value is taken at each end: with every floor replaced by its
        source over its divisor, and with only those replaced whose factor is negative. Only floors that the form has
        with all bits at one factor can be replaced.
        """
        tight, loose = (self._bounds(self.expand(form), always) for always in (True, False))
        low, high = max(tight[0], loose[0]), min(tight[1], loose[1])
        grid = form.grid
        if not grid:
            return form.constant, form.constant
        return grid * ceil(low / grid), grid * floor(high / grid)

    def _bounds(self, form: Form, always: bool) -> Bounds:
        """Return bounds (least, largest) of the values of a form without held forms, not rounded to its grid.

        The form's latest floor is replaced by (s - remainder) / d, for its source s and divisor d, if the form has all
        its bits at one factor and this is negative or ``always`` is set; else each bit of the floor is 0 or 1 by
        itself. The terms that remain are bounded likewise. Bounds without the constant are cached.
        """
        if not form.terms:
            return form.constant, form.constant
        key = (form.key, always)
        if key not in self._raw_bounds:
            self._raw_bounds[key] = self._bounds_of_terms(Form(form.terms), always)
        low, high = self._raw_bounds[key]
        return low + form.constant, high + form.constant

    def _bounds_of_terms(self, form: Form, always: bool) -> Bounds:
        """Return bounds of a form whose constant is 0 and that has no held forms, by its latest floor and then the
        remaining terms, or by its inputs (each 0 to its maximum) if it has no floor.

        A floor whose bits are all in the form, at one factor, is replaced by its source less a remainder, over its
        divisor, with ``always`` or if that factor is negative; bits of a floor that is not replaced are 0 or 1 each.
        """
        group = max(atom.group for atom in form.terms)
        own = {a: c for a, c in form.terms.items() if a.group == group}
        rest = Form({a: c for a, c in form.terms.items() if a.group != group})
        if group < 0:
            return _sums_of_signs(c * self.maxima[a.index] for a, c in own.items())
        step, factors = self.groups[group], set(own.values())
        assert isinstance(step, Floor)
        factor = min(factors)
        if len(own) == step.count and len(factors) == 1 and (always or factor < 0):
            # form = rest + factor (s - remainder) / d
            low, high = self._bounds(self.expand(rest + step.source * (factor / step.divisor)), always)
            remainder = (step.divisor - _common_divisor(step.source.grid, step.divisor)) * (-factor / step.divisor)
            return low + min(remainder, Fraction(0)), high + max(remainder, Fraction(0))
        low, high = self._bounds(rest, always)
        least, most = _sums_of_signs(own.values())
        return low + least, high + most

    @property
    def floors(self) -> list[tuple[int, Floor]]:
        """Floors among the groups, held forms left out, as pairs of the group's number (from 0) and the floor."""
        return [(g, m) for g, m in enumerate(self.groups) if isinstance(m, Floor)]

    def is_held(self, atom: Atom) -> bool:
        """True where an atom stands for a held form, and not for an input or a bit of a floor."""
        return atom.group >= 0 and isinstance(self.groups[atom.group], Held)

    def check_floors(self) -> None:
        """Check that every floor's source lies from 0 to below (count + 1) · divisor, so that its bits give the whole
        floor, that held forms are integers, and that each reads earlier ones only.

        Raises:
            VerificationError: a floor or held form violates this.
        """
        for group, step in enumerate(self.groups):
            low, high = self.bounds(step.source)
            if any(atom.group >= group for atom in step.source.terms):
                raise VerificationError(f"step {group} of the circuit reads a later one")
            if isinstance(step, Held):
                if step.source.grid.denominator != 1:
                    raise VerificationError(f"step {group} of the circuit holds multiples of {step.source.grid}")
            elif low < 0 or high >= (step.count + 1) * step.divisor:
                raise VerificationError(f"floor {group}: its source spans {low} to {high}, beyond {step.count} steps")


def _common_divisor(*values: Fraction) -> Fraction:
    """Return the largest rational of which all values are integer multiples; 0 if all values are 0."""
    scale = lcm(*(value.denominator for value in values))
    return Fraction(gcd(*(int(value * scale) for value in values)), scale)


def _sums_of_signs(values: Iterable[Fraction]) -> tuple[Fraction, Fraction]:
    """Return the sum of the negative values and that of the positive ones: the bounds of sum_i x_i value_i for x_i in
    0..1."""
    zero, parts = Fraction(0), list(values)
    return sum((min(part, zero) for part in parts), zero), sum((max(part, zero) for part in parts), zero)


# The sum T as blocks of digits, least significant first, and carries between them.
#
# T = sum_i unit_i block_i,   unit_{i+1} = span_i unit_i,   units and spans powers of four


@dataclass(frozen=True, slots=True)
class Block:
    """A form in units of 4^position; after carrying it has ``digits`` base-4 digits."""

    position: int
    digits: int
    form: Form


def blocks_of(circuit: Circuit, function: AveragingFunction, factor: int, places: int) -> list[Block]:
    """Return ``factor`` * (T + offset), for T the sum of all servers' codes and the offset that the function adds to it
    for rounding, as blocks of base-4 digits, least significant first.

    There is a block for each input of the function, with the digits from the place of its weight to that of the next
    one's, the last block to ``places``, the number of base-4 places of all blocks together. A block has its lowest
    place, its number of digits, and its form in units of that place, which may exceed the digits: nothing has been
    carried yet. ``circuit`` is not changed.
    """
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
    """Return T + offset, the sum of all servers' codes and what rounding adds, as a form of the inputs."""
    return sum((circuit.input(k) * i.weight for k, i in enumerate(function.inputs)), Form({})) + function.offset


def carry_save(
    circuit: Circuit, blocks: list[Block], radix: int, decided_from: int | None = None, digits_decided: bool = False
) -> list[Block]:
    """Return blocks that have passed their excess, floor(form / 4^digits), to the next one, all at once and from the
    forms as given, so that ranges shrink in one step.

    A block of 0 digits is appended if there may be a carry out of the last one.

    Args:
        circuit: receives the floors that compute the carries.
        blocks: blocks of a sum, least significant first.
        radix: base in which floors are computed digit by digit (`Circuit.floor`).
        decided_from: blocks with a digit at this base-4 place (from 0) or above it are first replaced by decided bits
            (the floor of a form to its own grid is the form itself). Lower blocks contribute only their carry, which is
            decided anyway. None decides no block.
        digits_decided: whether what a block with an excess keeps becomes decided bits of few steps before the carry
            from below joins it. A mesh then never adds a large analogue value to the bits of several blocks at once,
            which only it could spoil.
    """
    excess = [circuit.floor(b.form, 4**b.digits, radix) if b.digits else Form({}) for b in blocks]
    result = []
    for index, block in enumerate(blocks):
        form = block.form
        if decided_from is not None and block.position + block.digits > decided_from:
            form = circuit.decided(form)
        form = form - excess[index] * 4**block.digits
        if digits_decided and excess[index].terms:
            form = circuit.decided(form)
        result.append(Block(block.position, block.digits, form + excess[index - 1] if index else form))
    return [*result, Block(blocks[-1].position + blocks[-1].digits, 0, excess[-1])] if excess[-1].terms else result


def ripple(circuit: Circuit, blocks: list[Block], radix: int) -> tuple[list[Block], Form]:
    """Return blocks of exactly their digits, after carrying from block to block, and the carry out of the last as a
    form, in units of the place above the last digit.

    ``blocks`` are given and returned least significant first; those of 0 digits only add to the carry and are not
    returned. Carries are computed by floors that are added to the circuit, digit by digit in base ``radix`` as
    `Circuit.floor` does.
    """
    carry, done = Form({}), []
    for block in blocks:
        source = block.form + carry
        carry = circuit.floor(source, 4**block.digits, radix) if block.digits else source
        if block.digits:
            done.append(Block(block.position, block.digits, source - carry * 4**block.digits))
    return done, carry


def split(circuit: Circuit, form: Form, digits: int, lowest: int = 0) -> list[Form]:
    """Return the base-4 digits ``digits`` - 1 down to ``lowest`` of a non-negative form below 4^digits, as forms.

    Place 0 is the least significant digit; the list is most significant first.
    """
    taken, rest = divide(circuit, form, 1, range(digits - 1, max(lowest, 1) - 1, -1))
    return [*taken, rest] if digits > lowest == 0 else taken  # the last digit is the remainder of the form


def divide(circuit: Circuit, form: Form, divisor: int, places: range, radix: int = 4) -> tuple[list[Form], Form]:
    """Return the base-4 digits of form / ``divisor`` at ``places``, as forms, and the form less ``divisor`` times their
    weighted sum.

    The first digit is limited to 0..3 only if the form is below ``divisor`` times 4 to the power of its place + 1.

    Args:
        circuit: receives the floors that compute the digits.
        form: dividend, not negative.
        divisor: what is divided by.
        places: exponents of 4, each one less than that before; the digits are returned in this order.
        radix: base in which each floor is computed (`Circuit.floor`).
    """
    digits = []
    for place in places:
        digits.append(circuit.floor(form, divisor * 4**place, radix))
        form = form - digits[-1] * (divisor * 4**place)
    return digits, form


def with_decimals(outputs: list[Form], function: AveragingFunction, circuit: Circuit) -> list[Form]:
    """Return the outputs, with (T + offset - N * result) / N added to the last one if the function carries decimals,
    else unchanged.

    ``outputs`` are the base-4 digits of the result, most significant first, as forms of ``circuit``; T is the sum of
    all servers' codes and N the function's divisor.
    """
    if not function.carries_decimals:
        return outputs
    rest = sum_of_servers(circuit, function)
    for place, output in enumerate(reversed(outputs)):
        rest = rest - output * (function.divisor * 4**place)
    return [*outputs[:-1], outputs[-1] + rest * Fraction(1, function.divisor)]


# Long division: carries upwards, then division downwards, for any number of servers; tolerates noise.
#
# up    s_i = block_i + c_i,  c_{i+1} = floor(s_i / span_i),  t_i = s_i - span_i c_{i+1}      digits of T
# down  v_i = span_i r_{i+1} + t_i,  digits of floor(v_i / N),  r_i = v_i mod N,  r_top = c_top < N
#
# As T < N 4^M, the top carry is already a remainder, so division starts where the carries end. Every signal has at
# most 4 N levels per digit, as in the ripple for powers of two. Division multiplies t and r by the span, so both are
# rounded to integers first (a floor by 1, N - 1 bits for r): an analogue remainder would amplify its noise by the
# span at every step.


def long_division(function: AveragingFunction, radix: int = 4) -> Circuit:
    """Return the circuit of the function that carries upwards through the base-4 digits of T, the sum of all servers'
    codes, and then divides by N downwards, for any number N of servers.

    Its outputs are the base-4 digits of the rounded mean, most significant first, the last with decimals if the
    function carries them. ``radix``: each layer decides one digit in this base, of ``radix`` - 1 bits.
    """
    circuit = Circuit(tuple(i.maximum for i in function.inputs))
    done, top = ripple(circuit, blocks_of(circuit, function, 1, function.outputs), radix)
    remainder = circuit.hold(top)
    outputs: list[Form] = []
    for block in reversed(done):
        digits = block.form if block is done[0] else circuit.floor(block.form, 1, radix)
        rest = remainder * 4**block.digits + circuit.hold(digits)
        divided, rest = divide(circuit, rest, function.divisor, range(block.digits - 1, -1, -1), radix)
        outputs += divided
        if block is not done[0]:
            remainder = circuit.hold(circuit.floor(rest, 1, radix))
    circuit.outputs = tuple(with_decimals(outputs, function, circuit))
    return circuit


# Ripple from the least significant digit, for N = 2^q servers: division is a shift, only carries are computed.
#
# T' = T 4^p / N,  p = ceil(q / 2)              outputs are the base-4 digits p, p+1, ... of T'
# s_i = block_i + c_i,   c_{i+1} = floor(s_i / span_i),   digits of block i = s_i - span_i c_{i+1}
#
# No signal has more than about 4 N levels per digit, whatever the number of bits, hence its noise tolerance. With
# ``saved`` rounds of carry-saving first, all blocks shrink simultaneously and the remaining carries are narrower.
# With ``decided`` inputs the first layer decides every step of every input that an output depends on, as a receiver
# would, with one unit per step: no analogue input is carried along, and the next ramp absorbs the noise on bits.


def lsb_ripple(
    function: AveragingFunction, radix: int = 4, saved: int = 0, decided: bool = False, digits_decided: bool = False
) -> Circuit:
    """Return the circuit of the function that carries from the least significant digit of the sum of all servers'
    codes; dividing by N is a shift. Its outputs are the base-4 digits of the rounded mean, most significant first, the
    last with decimals if the function carries them.

    Args:
        function: the averaging function, for N servers, a power of two.
        radix: each layer decides one digit in this base, of ``radix`` - 1 bits.
        saved: rounds of carry-saving before the ripple (`carry_save`), which shrink all blocks at once.
        decided: whether the first layer decides every step of every input that an output depends on, as a receiver
            would.
        digits_decided: whether each round of carry-saving also decides the digits that stay (`carry_save`): the
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


# Long division of T from the most significant digit: fewest devices, any number of servers, little noise tolerance.
#
# rest = T + offset
# for each digit but the last:  q = floor(rest / (N 4^j)),  rest = rest - N 4^j q
# last output = rest / N - (N-1)/(2N)          the receiver's rounding computes the last floor
#
# The network needs T as one signal, so neighbouring values are 1 / (N 4^M) of full scale apart, which limits its
# noise tolerance. Its thresholds lie between multiples of 1/N, and no multiple of 1/n, n <= N, lies between these, so
# the network also serves every smaller number of servers.


def msb_first(function: AveragingFunction, radix: int = 4) -> Circuit:
    """Return the circuit of the function that divides T + offset, the whole sum of all servers' codes and what rounding
    adds, from the most significant digit, for any number of servers.

    ``radix`` 4 computes a base-4 digit per layer, 2 a bit per layer. Outputs are the base-4 digits of the mean, most
    significant first; the last one is an analogue remainder that the receiver's rounding decides (`last_output`).
    """
    circuit = Circuit(tuple(i.maximum for i in function.inputs))
    total, places = sum_of_servers(circuit, function), range(function.outputs - 1, 0, -1)
    outputs, rest = divide(circuit, total, function.divisor, places, radix)
    circuit.outputs = (*outputs, last_output(rest, function))
    return circuit


def last_output(rest: Form, function: AveragingFunction) -> Form:
    """Return the last output as a form, for ``rest``, what T + offset leaves after all higher digits times N.

    It is rest / N if the function carries decimals, else rest / N - (N - 1) / (2 N), so that the values of each digit
    lie around its level and a receiver's rounding takes the floor.
    """
    middle = 0 if function.carries_decimals else Fraction(function.divisor - 1, 2 * function.divisor)
    return rest * Fraction(1, function.divisor) - middle
