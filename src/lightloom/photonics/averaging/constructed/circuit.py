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

from lightloom.core.errors import VerificationError


@dataclass(frozen=True, slots=True)
class Atom:
    """An integer: input ``index`` (group -1), bit ``index`` of floor ``group``, or the form that ``group`` holds."""

    group: int
    index: int


@dataclass(frozen=True, slots=True)
class Form:
    """The exact affine form constant + sum of coefficient * atom."""

    terms: Mapping[Atom, Fraction]
    constant: Fraction = Fraction(0)

    def __add__(self, other: Form | int | Fraction) -> Form:
        if not isinstance(other, Form):
            return Form(self.terms, self.constant + other)
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            terms[atom] = terms.get(atom, Fraction(0)) + coefficient
            if not terms[atom]:
                del terms[atom]
        return Form(terms, self.constant + other.constant)

    def __mul__(self, factor: int | Fraction) -> Form:
        if not factor:
            return Form({})
        return Form({a: c * factor for a, c in self.terms.items()}, self.constant * factor)

    def __sub__(self, other: Form | int | Fraction) -> Form:
        return self + other * (-1)

    @property
    def key(self) -> frozenset[tuple[Atom, Fraction]]:
        """Terms of the form as a hashable key; the constant is left out."""
        return frozenset(self.terms.items())

    @property
    def grid(self) -> Fraction:
        """Largest g of which all values of the form are multiples, as atoms are integers; 0 for the form 0."""
        return _common_divisor(*self.terms.values(), self.constant)


@dataclass(frozen=True, slots=True)
class Floor:
    """n bits whose sum is floor(source / divisor)."""

    source: Form
    divisor: Fraction
    count: int

    def window(self, bit: int) -> tuple[Fraction, Fraction]:
        """Return the two neighbouring values of the source between which [s >= (bit + 1) divisor] changes."""
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
    _bounds_by_form: dict[tuple[frozenset[tuple[Atom, Fraction]], Fraction], tuple[Fraction, Fraction]] = field(
        default_factory=dict
    )
    _raw_bounds: dict[tuple[frozenset[tuple[Atom, Fraction]], bool], tuple[Fraction, Fraction]] = field(
        default_factory=dict
    )

    def input(self, index: int) -> Form:
        """Return input a_index as a form."""
        return Form({Atom(-1, index): Fraction(1)})

    def floor(self, source: Form, divisor: int | Fraction, radix: int = 4) -> Form:
        """Return floor(source / divisor), computed digit by digit in base ``radix`` from the most significant one."""
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
        step = Floor(source, divisor, floor(self.bounds(source)[1] / divisor))
        if step not in self.groups:
            self.groups.append(step)
        group = self.groups.index(step)
        return Form({Atom(group, bit): Fraction(1) for bit in range(step.count)})

    def hold(self, source: Form) -> Form:
        """Hold the form, and return it as an atom."""
        if not source.terms:
            return source
        self.groups.append(Held(source))
        return Form({Atom(len(self.groups) - 1, 0): Fraction(1)})

    def expand(self, form: Form) -> Form:
        """Return the form with held forms replaced by their sources."""
        held = next((a for a in form.terms if self.is_held(a)), None)
        if held is None:
            return form
        factor = form.terms[held]
        remainder = Form({a: c for a, c in form.terms.items() if a != held}, form.constant)
        return self.expand(remainder + self.groups[held.group].source * factor)

    def bounds(self, form: Form) -> tuple[Fraction, Fraction]:
        """Return the least and largest value that the inequalities of atoms and floors allow, on the form's grid."""
        key = (form.key, form.constant)
        if key not in self._bounds_by_form:
            self._bounds_by_form[key] = self._tightest(form)
        return self._bounds_by_form[key]

    def _tightest(self, form: Form) -> tuple[Fraction, Fraction]:
        tight, loose = (self._bounds(self.expand(form), always) for always in (True, False))
        low, high = max(tight[0], loose[0]), min(tight[1], loose[1])
        grid = form.grid
        if not grid:
            return form.constant, form.constant
        return grid * ceil(low / grid), grid * floor(high / grid)

    def _bounds(self, form: Form, always: bool) -> tuple[Fraction, Fraction]:
        """Bound a form by replacing its latest floor by (s - remainder) / d if its factor is negative or ``always``."""
        if not form.terms:
            return form.constant, form.constant
        key = (form.key, always)
        if key not in self._raw_bounds:
            self._raw_bounds[key] = self._bounds_of_terms(Form(form.terms), always)
        low, high = self._raw_bounds[key]
        return low + form.constant, high + form.constant

    def _bounds_of_terms(self, form: Form, always: bool) -> tuple[Fraction, Fraction]:
        group = max(atom.group for atom in form.terms)
        own = {a: c for a, c in form.terms.items() if a.group == group}
        rest = Form({a: c for a, c in form.terms.items() if a.group != group})
        if group < 0:
            return _sums_of_signs(c * self.maxima[a.index] for a, c in own.items())
        step, factors = self.groups[group], set(own.values())
        assert isinstance(step, Floor)
        factor = min(factors)
        complete = len(own) == step.count and len(factors) == 1
        if complete and (always or factor < 0):
            # form = rest + factor (s - remainder) / d
            low, high = self._bounds(self.expand(rest + step.source * (factor / step.divisor)), always)
            remainder = (step.divisor - _common_divisor(step.source.grid, step.divisor)) * (-factor / step.divisor)
            return low + min(remainder, Fraction(0)), high + max(remainder, Fraction(0))
        low, high = self._bounds(rest, always)
        least, most = _sums_of_signs(own.values())
        return low + least, high + most

    @property
    def floors(self) -> list[tuple[int, Floor]]:
        """The floors, with their group numbers."""
        return [(g, m) for g, m in enumerate(self.groups) if isinstance(m, Floor)]

    def is_held(self, atom: Atom) -> bool:
        """Return whether an atom stands for a held form."""
        return atom.group >= 0 and isinstance(self.groups[atom.group], Held)

    def check_floors(self) -> None:
        """Check that the source of every floor is non-negative and below the first step without a bit.

        Raises:
            VerificationError: a floor violates this, or a held form is not an integer.
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
    """Return the largest rational of which all values are integer multiples."""
    scale = lcm(*(value.denominator for value in values))
    return Fraction(gcd(*(int(value * scale) for value in values)), scale)


def _sums_of_signs(values: Iterable[Fraction]) -> tuple[Fraction, Fraction]:
    """Return the sum of the negative values, and that of the positive ones."""
    zero, parts = Fraction(0), list(values)
    return sum((min(part, zero) for part in parts), zero), sum((max(part, zero) for part in parts), zero)
