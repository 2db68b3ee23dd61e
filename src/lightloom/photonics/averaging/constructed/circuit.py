"""Integer arithmetic as a network will do it: affine forms and floors, with exact ranges. No weights yet.

    atom    an input a_k, or a bit [s >= t] of a floor
    form    a rational affine combination of atoms
    floor   min(floor(s / d), n) of a form s, as n bits [s >= d], [s >= 2d], ... [s >= n d]
    held    an integer form under a name: later layers carry it as one signal, not as part of a larger sum

A floor keeps its law: 0 <= s - d floor(s/d) <= d - (grid of s). `Circuit.bounds` uses nothing else, so the ranges that
it returns are proved, not sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, gcd, lcm

from lightloom.core.errors import VerificationError


@dataclass(frozen=True, slots=True)
class Atom:
    """An integer: input ``index`` (group -1), bit ``index`` of floor ``group``, or what is held there."""

    group: int
    index: int


@dataclass(frozen=True, slots=True)
class Form:
    """constant + sum of coefficient * atom, exactly."""

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
        """What identifies the form up to its constant."""
        return frozenset(self.terms.items())

    @property
    def grid(self) -> Fraction:
        """The largest g of which every value is a multiple, as atoms are integers; 0 for the form zero."""
        parts = [*self.terms.values(), self.constant]
        scale = lcm(*(p.denominator for p in parts))
        return Fraction(gcd(*(int(p * scale) for p in parts)), scale)


@dataclass(frozen=True, slots=True)
class Floor:
    """n bits whose sum is floor(source / divisor)."""

    source: Form
    divisor: Fraction
    count: int

    def window(self, bit: int) -> tuple[Fraction, Fraction]:
        """The two neighbouring values of the source between which bit ``bit`` = [s >= (bit + 1) divisor] turns on."""
        grid = self.source.grid
        first = grid * ceil((bit + 1) * self.divisor / grid)
        return first - grid, first


@dataclass(frozen=True, slots=True)
class Held:
    """A form under a name."""

    source: Form


@dataclass(slots=True)
class Circuit:
    """Floors and held forms over inputs 0..maxima[k], each reading only what stands before it, and the output forms."""

    maxima: tuple[int, ...]
    groups: list[Floor | Held] = field(default_factory=list)
    outputs: tuple[Form, ...] = ()
    _known: dict[tuple[frozenset[tuple[Atom, Fraction]], Fraction], tuple[Fraction, Fraction]] = field(
        default_factory=dict
    )
    _memo: dict[tuple[frozenset[tuple[Atom, Fraction]], bool], tuple[Fraction, Fraction]] = field(default_factory=dict)

    def input(self, index: int) -> Form:
        """a_index as a form."""
        return Form({Atom(-1, index): Fraction(1)})

    def floor(self, source: Form, divisor: int | Fraction, radix: int = 4) -> Form:
        """floor(source / divisor), most significant digit of base ``radix`` first, at most radix - 1 bits a layer."""
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
        made = Floor(source, divisor, floor(self.bounds(source)[1] / divisor))
        if made not in self.groups:
            self.groups.append(made)
        group = self.groups.index(made)
        return Form({Atom(group, bit): Fraction(1) for bit in range(made.count)})

    def hold(self, source: Form) -> Form:
        """The form as an atom of its own."""
        if not source.terms:
            return source
        self.groups.append(Held(source))
        return Form({Atom(len(self.groups) - 1, 0): Fraction(1)})

    def expand(self, form: Form) -> Form:
        """The form with everything held written out."""
        held = next((a for a in form.terms if self.is_held(a)), None)
        if held is None:
            return form
        factor = form.terms[held]
        rest = Form({a: c for a, c in form.terms.items() if a != held}, form.constant)
        return self.expand(rest + self.groups[held.group].source * factor)

    def bounds(self, form: Form) -> tuple[Fraction, Fraction]:
        """Least and largest value that the laws of atoms and floors allow, on the form's grid."""
        key = (form.key, form.constant)
        if key not in self._known:
            self._known[key] = self._tightest(form)
        return self._known[key]

    def _tightest(self, form: Form) -> tuple[Fraction, Fraction]:
        tight, loose = (self._bounds(self.expand(form), always) for always in (True, False))
        low, high = max(tight[0], loose[0]), min(tight[1], loose[1])
        grid = form.grid
        if not grid:
            return form.constant, form.constant
        return grid * ceil(low / grid), grid * floor(high / grid)

    def _bounds(self, form: Form, always: bool) -> tuple[Fraction, Fraction]:
        """Replaces the latest floor f by (s - rest) / d where its factor is negative (or always), else by 0..n."""
        if not form.terms:
            return form.constant, form.constant
        key = (form.key, always)
        if key not in self._memo:
            self._memo[key] = self._bounds_of_terms(Form(form.terms), always)
        low, high = self._memo[key]
        return low + form.constant, high + form.constant

    def _bounds_of_terms(self, form: Form, always: bool) -> tuple[Fraction, Fraction]:
        group = max(atom.group for atom in form.terms)
        own = {a: c for a, c in form.terms.items() if a.group == group}
        rest = Form({a: c for a, c in form.terms.items() if a.group != group})
        if group < 0:
            parts = [c * self.maxima[a.index] for a, c in own.items()]
            return sum((min(p, Fraction(0)) for p in parts), Fraction(0)), sum(
                (max(p, Fraction(0)) for p in parts), Fraction(0)
            )
        made, factors = self.floor_of(group), set(own.values())
        factor = min(factors)
        whole = len(own) == made.count and len(factors) == 1
        if whole and (always or factor < 0):
            # form = rest + factor (s - remainder) / d
            low, high = self._bounds(self.expand(rest + made.source * (factor / made.divisor)), always)
            left = (made.divisor - gcd_of(made.source.grid, made.divisor)) * (-factor / made.divisor)
            return low + min(left, Fraction(0)), high + max(left, Fraction(0))
        low, high = self._bounds(rest, always)
        return low + sum(min(c, Fraction(0)) for c in own.values()), high + sum(
            max(c, Fraction(0)) for c in own.values()
        )

    def floor_of(self, group: int) -> Floor:
        """The floor of a group."""
        made = self.groups[group]
        assert isinstance(made, Floor)
        return made

    @property
    def floors(self) -> list[tuple[int, Floor]]:
        """Groups that are floors, with their number."""
        return [(g, m) for g, m in enumerate(self.groups) if isinstance(m, Floor)]

    def is_held(self, atom: Atom) -> bool:
        """Whether an atom stands for a held form."""
        return atom.group >= 0 and isinstance(self.groups[atom.group], Held)

    def check_floors(self) -> None:
        """Holds the law of every floor to its definition: 0 <= s, and s below the step that the count leaves out.

        Raises:
            VerificationError: naming the floor, or a held form that is no integer.
        """
        for group, made in enumerate(self.groups):
            low, high = self.bounds(made.source)
            if any(atom.group >= group for atom in made.source.terms):
                raise VerificationError(f"step {group} of the circuit reads a later one")
            if isinstance(made, Held):
                if made.source.grid.denominator != 1:
                    raise VerificationError(f"step {group} of the circuit holds multiples of {made.source.grid}")
            elif low < 0 or high >= (made.count + 1) * made.divisor:
                raise VerificationError(f"floor {group}: its source spans {low} to {high}, beyond {made.count} steps")


def gcd_of(first: Fraction, second: Fraction) -> Fraction:
    """The largest rational of which both are multiples."""
    scale = lcm(first.denominator, second.denominator)
    return Fraction(gcd(int(first * scale), int(second * scale)), scale)


def total(forms: Iterable[Form]) -> Form:
    """Their sum."""
    result = Form({})
    for form in forms:
        result = result + form
    return result
