"""Compile a circuit to network weights: floors become ramps, and sums that later layers need are carried along.

    bounded unit   [s >= t] = clip((s - t1) / (t2 - t1), 0, 1)                  one saturable unit
    plain ReLU     [s >= t] = (relu(s - t1) - relu(s - t2)) / (t2 - t1)         two units, or the same from above,
                                                                               whichever has the smaller full scale
    keep           s, shifted and scaled to 0..1, ``copies`` times: independent noise averages out

s never lies between the two grid values around t. The ramp takes the ``window`` share of that gap; the remainder
absorbs noise. Regeneration passes each bit through a second ramp, one layer later.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.circuits import Atom, Circuit, Floor, Form
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.networks import LayeredNetwork

Key = tuple[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Realisation:
    """Options of the nonlinear units, see the module's docstring."""

    bounded: bool = False
    window: Fraction = Fraction(1)
    copies: int = 1
    regenerate: bool = False

    def __post_init__(self) -> None:
        """Raise ConfigError for a window outside (0, 1], or fewer than one copy."""
        if not 0 < self.window <= 1 or self.copies < 1:
            raise ConfigError(f"window = {self.window}, copies = {self.copies}: expected (0, 1] and at least 1")

    @property
    def words(self) -> str:
        """The options as the end of a construction's name: ``, N copies`` if above 1, and ``, regenerated`` if bits
        are."""
        return (f", {self.copies} copies" if self.copies > 1 else "") + (", regenerated" if self.regenerate else "")


class Source(NamedTuple):
    """The value that a gadget reads from the previous layer."""

    reads: tuple[tuple[int, Fraction], ...]
    """Indices of gadgets of the previous layer, and their factors."""
    constant: Fraction
    low: Fraction
    high: Fraction


@dataclass(frozen=True, slots=True)
class Gadget:
    """A value of one layer: its inputs from the previous layer, and the nonlinear units that represent it."""

    key: Key
    source: Source
    units: tuple[tuple[Fraction, Fraction], ...]
    """Slope and offset of each unit's argument, as a function of the value read."""
    readout: tuple[Fraction, ...]
    """Factor of each unit in the gadget's value."""
    rest: Fraction = Fraction(0)
    """Constant term of the gadget's value."""
    ramp: tuple[Fraction, Fraction] | None = None
    """Start and end of a bit's ramp; None for a value that is carried along."""
    gap: Fraction = Fraction(0)
    """Distance between the two grid values around the ramp."""


@dataclass(frozen=True, eq=False)
class Realised:
    """A circuit and its gadgets by layer, from the inputs to the outputs."""

    circuit: Circuit
    realisation: Realisation
    layers: tuple[tuple[Gadget, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of signals of each layer, from the inputs to the outputs: units of its gadgets."""
        return tuple(sum(len(g.units) for g in layer) for layer in self.layers)

    @cached_property
    def network(self) -> LayeredNetwork:
        """The network that the gadgets make, with float64 weights; it is compiled once."""
        return compile_network(self.layers, self.realisation)


def realise(circuit: Circuit, function: AveragingFunction, realisation: Realisation, depth: int = 0) -> Realised:
    """Return the gadgets, layer by layer, that compute the circuit's outputs from the inputs of ``function``; a gadget
    is a value of a layer with the nonlinear units that represent it, as ``realisation`` says.

    ``function`` must be that for which the circuit was made. There are at least ``depth`` hidden layers: the last ones
    carry the outputs along if fewer suffice.
    """
    layering = _Layering(circuit, function, realisation)
    layering.depth = max(layering.depth, depth)
    return Realised(circuit, realisation, layering.layers())


def compile_network(layers: tuple[tuple[Gadget, ...], ...], realisation: Realisation) -> LayeredNetwork:
    """Return the network of realised gadgets in float64, each weight rounded from its exact rational.

    ``layers`` hold the gadgets from the inputs to the outputs. Full scales of inputs are their largest light, those of
    outputs the largest magnitude of their gadget's value, those of hidden units 1. ``realisation`` decides the
    nonlinearity alone: clipped if bounded, else relu.
    """
    weights, biases = [], []
    scales = [np.array([float(abs(g.source.high / g.readout[0])) for g in layers[0]])]
    for before, layer in pairwise(layers):
        starts = np.cumsum([0, *(len(g.units) for g in before)])
        rows, offsets, full = [], [], []
        for gadget in layer:
            row = [Fraction(0)] * int(starts[-1])
            constant = gadget.source.constant
            for index, factor in gadget.source.reads:
                constant += factor * before[index].rest
                for unit, readout in enumerate(before[index].readout):
                    row[starts[index] + unit] += factor * readout
            for slope, offset in gadget.units:
                rows.append([float(slope * r) for r in row])
                offsets.append(float(slope * constant + offset))
                last = layer is layers[-1]
                full.append(float(max(abs(gadget.source.low), abs(gadget.source.high))) if last else 1.0)
        weights.append(np.array(rows))
        biases.append(np.array(offsets))
        scales.append(np.array(full))
    nonlinearity = "clipped" if realisation.bounded else "relu"
    return LayeredNetwork(tuple(weights), tuple(biases), nonlinearity, tuple(scales))  # type: ignore[arg-type]


class _Layering:
    """Assigns every floor to the earliest possible layer, and carries partial sums to the layers that read them."""

    def __init__(self, circuit: Circuit, function: AveragingFunction, realisation: Realisation) -> None:
        """Find the layer of every floor and held form, and the depth: the last layer that an output reads."""
        self.circuit, self.function, self.how = circuit, function, realisation
        self.raw: list[int] = []
        """Layer of each floor's ramps before regeneration, or the layer that completes a held form."""
        for made in circuit.groups:
            latest = max((self.ready(a) for a in made.source.terms), default=0)
            self.raw.append(latest + 1 if isinstance(made, Floor) else latest)
        self.depth = max((self.ready(a) for form in circuit.outputs for a in form.terms), default=0)
        self.index: list[dict[Key, int]] = []
        self.shared: dict[Key, Key] = {}
        """Bits with the same source and window as another bit, and that bit: one unit serves both."""
        self.bits: dict[tuple[object, ...], Atom] = {}

    def ready(self, atom: Atom) -> int:
        """Return the number (from 0, the inputs) of the first layer that has an atom of the circuit as a value: 0 for
        an input.

        A held form is ready where the last atom of its source is. Where bits are regenerated, a bit is ready a layer
        after its first ramp.
        """
        if atom.group < 0:
            return 0
        return self.raw[atom.group] + (self.how.regenerate and not self.circuit.is_held(atom))

    def layers(self) -> tuple[tuple[Gadget, ...], ...]:
        """Build and return the gadgets of every layer (a gadget is a value with the nonlinear units that represent it),
        from the inputs to the outputs; call it once."""
        built = [[self.input(k) for k in range(len(self.function.inputs))]]
        self.index.append({g.key: i for i, g in enumerate(built[0])})
        for layer in range(1, self.depth + 1):
            built.append([*self.ramps(layer), *self.regenerated(layer), *self.kept(layer)])
            index = {g.key: i for i, g in enumerate(built[-1])}
            self.index.append(index | {again: index[first] for again, first in self.shared.items() if first in index})
        built.append([self.output(i, form) for i, form in enumerate(self.circuit.outputs)])
        return tuple(tuple(layer) for layer in built)

    def input(self, k: int) -> Gadget:
        """Return the gadget of input ``k`` (from 0), whose value is the integer a_k, read from one unit of the light
        a_k / denominator."""
        maximum, scale = Fraction(self.function.inputs[k].maximum), Fraction(self.function.inputs[k].denominator)
        source = Source((), Fraction(0), Fraction(0), maximum)
        return Gadget(("bit", Atom(-1, k)), source, ((1 / scale, Fraction(0)),), (scale,))

    def output(self, index: int, form: Form) -> Gadget:
        """Return the gadget of output number ``index`` (from 0): one linear unit that is the form itself, read from the
        last hidden layer."""
        return Gadget(("output", index), self.source(form, self.depth), ((Fraction(1), Fraction(0)),), (Fraction(1),))

    def ramps(self, layer: int) -> Iterable[Gadget]:
        """Yield a gadget, a value with its nonlinear units, for each bit of the floors whose ramps are in this layer,
        numbered from 1 (0 are the inputs); the layers before must have been built.

        Bits with an equal source and window (of any floor) share the first one's gadget and are noted in ``shared``.
        Where bits are regenerated, these gadgets are the raw bits.
        """
        for group, floor in self.circuit.floors:
            if self.raw[group] == layer:
                source = self.source(floor.source, layer - 1)
                name = "raw" if self.how.regenerate else "bit"
                for bit in range(floor.count):
                    atom, window = Atom(group, bit), floor.window(bit)
                    first = self.bits.setdefault((floor.source.key, floor.source.constant, *window), atom)
                    if first == atom:
                        yield self.ramp((name, atom), source, window)
                    else:
                        self.shared |= {(kind, atom): (kind, first) for kind in ("raw", "bit")}

    def regenerated(self, layer: int) -> Iterable[Gadget]:
        """Yield, for a layer (from 1; those before must have been built), a second ramp for each bit whose first one is
        in the layer before, but for bits that share another's gadget; none unless bits are regenerated."""
        zero, one = Fraction(0), Fraction(1)
        for group, floor in self.circuit.floors:
            if self.how.regenerate and self.raw[group] == layer - 1:
                for atom in (Atom(group, bit) for bit in range(floor.count)):
                    if ("bit", atom) not in self.shared:
                        source = Source(((self.index[layer - 1][("raw", atom)], one),), zero, zero, one)
                        yield self.ramp(("bit", atom), source, (zero, one))

    def kept(self, layer: int) -> Iterable[Gadget]:
        """Yield a gadget, a value with its nonlinear units, for each distinct sum that this layer (from 1; those before
        must have been built) carries along: ready before it, and read from it or a later one, by a floor, a held form
        or an output."""
        readers = [(m.source, self.raw[g] - isinstance(m, Floor)) for g, m in enumerate(self.circuit.groups)]
        readers += [(form, self.depth) for form in self.circuit.outputs]
        seen = set()
        for form, last in readers:
            for partial, _ in self.older(form, layer) if last >= layer else ():
                if partial.key not in seen:
                    seen.add(partial.key)
                    yield self.keep(("kept", partial.key), self.source(partial, layer - 1))

    def older(self, form: Form, layer: int) -> list[tuple[Form, Fraction]]:
        """Return the parts of a form that are ready in a layer before number ``layer``, as pairs of a form and its
        factor.

        Every held form is a part by itself; all other ready atoms together are one more part, whose first coefficient
        is 1. The constant is in none.
        """
        ready = [a for a in form.terms if self.ready(a) < layer]
        parts = [(Form({a: Fraction(1)}), form.terms[a]) for a in ready if self.circuit.is_held(a)]
        loose = sorted((a for a in ready if not self.circuit.is_held(a)), key=lambda a: (a.group, a.index))
        if loose:
            factor = form.terms[loose[0]]
            parts.append((Form({a: form.terms[a] / factor for a in loose}), factor))
        return parts

    def source(self, form: Form, layer: int) -> Source:
        """Return a form as what a gadget of the next layer reads from ``layer``, with the proved bounds of its value
        (`Circuit.bounds`)."""
        return Source(*self.read(form, layer), *self.circuit.bounds(form))

    def read(self, form: Form, layer: int) -> tuple[tuple[tuple[int, Fraction], ...], Fraction]:
        """Return how a form is computed from a layer: pairs of the index of a gadget of that layer and its factor, and
        a constant.

        Gadgets are those of bits, of what completed held forms consist of, and of partial sums that are carried along.
        """
        index, constant = self.index[layer], form.constant
        reads = [(index[("kept", partial.key)], factor) for partial, factor in self.older(form, layer)]
        for atom, factor in form.terms.items():
            if self.ready(atom) == layer and self.circuit.is_held(atom):
                inner, added = self.read(self.circuit.groups[atom.group].source, layer)
                reads += [(gadget, factor * part) for gadget, part in inner]
                constant += factor * added
            elif self.ready(atom) == layer:
                reads.append((index[("bit", atom)], factor))
        return tuple(reads), constant

    def keep(self, key: Key, source: Source) -> Gadget:
        """Return a gadget that carries a value along to the next layer.

        Its units' arguments are the value scaled from its proved range to 0..1; there are as many copies as the
        realisation says, each read with an equal part. ``key`` names the gadget, ``source`` is the value with what it
        is read from in the layer before.
        """
        span = source.high - source.low
        units = ((1 / span, -source.low / span),) * self.how.copies
        return Gadget(key, source, units, (span / self.how.copies,) * self.how.copies, source.low)

    def ramp(self, key: Key, source: Source, window: tuple[Fraction, Fraction]) -> Gadget:
        """Return a gadget for the bit that is 0 below the window (two values of the source) and 1 above it.

        Its argument rises linearly over the middle of the window, a share of it that the realisation states. Units that
        saturate need one for that, ReLUs the difference of two, or one where the ramp reaches the end of the source's
        range. ``key`` names the gadget, ``source`` is the value that it reads from the layer before, with its proved
        range.
        """
        middle, gap = (window[0] + window[1]) / 2, window[1] - window[0]
        start, end = middle - gap * self.how.window / 2, middle + gap * self.how.window / 2
        width = end - start
        if self.how.bounded:
            units: list[tuple[Fraction, Fraction]] = [(1 / width, -start / width)]
            readout, rest = [Fraction(1)], Fraction(0)
        else:
            low, high = source.low, source.high
            upwards = middle * 2 >= low + high
            # 1 - [s < t] is the same ramp, measured from the upper end.
            reaches = [high - start, high - end] if upwards else [end - low, start - low]
            points, sign = ([start, end], 1) if upwards else ([end, start], -1)
            ramps = [(r, p, f) for r, p, f in zip(reaches, points, (1, -1), strict=True) if r > 0]
            units = [(sign / r, -sign * p / r) for r, p, _ in ramps]
            readout, rest = [sign * f * r / width for r, _, f in ramps], Fraction(not upwards)
        return Gadget(key, source, tuple(units), tuple(readout), rest, (start, end), gap)
