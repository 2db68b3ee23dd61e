"""`build`: the smallest constructed network that is proved exact and tolerates a given noise."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, product
from typing import Any

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError, UnsupportedError
from lightloom.core.results import attributes
from lightloom.photonics.averaging.circuits import Circuit, long_division, lsb_ripple, msb_first
from lightloom.photonics.averaging.compiler import Realisation, Realised, realise
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.networks import (
    LayeredNetwork,
    Nonlinearity,
    largest_gain_db,
    mzi_count,
    mzi_of_units,
)
from lightloom.photonics.averaging.proof import (
    EVALUATIONS,
    TARGET,
    Proof,
    Verification,
    input_bound,
    noise_limit,
    noisy_accuracy,
    prove,
    verify,
)
from lightloom.photonics.meshes.mapping import connected_components, network_count, square_places

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
WINDOWS = (HALF, QUARTER, Fraction(1, 8), Fraction(1, 16))
"""Shares of the gap between two levels that a ramp takes; a narrow one needs more gain and bears more error."""
COPIES = (1, 2, 3)
_CARRY_SAVE_SERVERS = 16
"""Largest number of servers for which a carry-save layer is of a reasonable width."""
_DECIDED_STEPS = 128
"""Largest number of steps of all inputs for which a layer that decides every step is of a reasonable width."""
_QUICK = 20_000
"""Noisy evaluations behind each accuracy where constructions in the same layers are compared."""
_REALISATIONS: dict[Nonlinearity, tuple[Realisation, ...]] = {
    "relu": (
        Realisation(window=HALF),
        Realisation(window=HALF, regenerate=True),
        Realisation(window=HALF, copies=2, regenerate=True),
    ),
    "clipped": tuple(Realisation(bounded=True, window=QUARTER, copies=copies) for copies in COPIES),
}
"""Realisations by nonlinearity, the smallest first. Ramps are narrow: the free range beside them absorbs noise."""


# Embed a network in wider layers so that every matrix has the paper's form: squares Σ · U (OptINC, Fig. 4, eq. 4).
#
#     dark signals    those of the wider layers that the network lacks: rows and biases of 0, so that they are always 0
#     a square        live rows D R, with D their lengths, and in columns of dark signals D Z:
#                     R Rᵀ + Z Zᵀ = λ I,  λ at least the largest eigenvalue of R Rᵀ,
#                     so that the square is D √λ times orthonormal rows
#
# Entries in columns of dark signals change no signal. Z needs as many dark columns as λ I − R Rᵀ has rank: one less
# than the rows are enough. A square without dark columns takes rows that are orthogonal already, or a single one.

_TOLERANCE = 1e-12
"""Cosines, and differences of eigenvalues as a share of the largest one, that are rounding errors of 0."""
_ENTRY = 1e-7
"""Length of a column of entries that is a rounding error of 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """A network in wider layers, and where its signals are."""

    network: LayeredNetwork
    """The network with all signals; dark ones have a full scale of 1, so that they are as noisy as live ones."""
    places: tuple[Ints, ...]
    """Number of every live signal in the wider layer, for the inputs, the hidden layers and the outputs."""

    @property
    def dark(self) -> list[Floats]:
        """For each matrix, an array over its outputs that are signals of the network before it was embedded: the sum of
        the magnitudes of the weights with which each reads dark signals, those that embedding added and that are always
        0."""
        parts = zip(self.network.weights, self.places, self.places[1:], strict=False)
        return [np.abs(np.delete(matrix[rows], columns, axis=1)).sum(axis=1) for matrix, columns, rows in parts]


def embed(network: LayeredNetwork, layers: Sequence[int]) -> Embedding:
    """Return the network in wider layers, with the places of its signals in them, so that all squares into which each
    of its matrices is cut along the longer side have rows that are orthogonal to rounding.

    ``layers`` are the numbers of signals from the inputs to the outputs, of which inputs and outputs must be the
    network's. Signals that the network lacks are dark: always 0 (rows and biases of 0), with a full scale of 1, and
    read by the network's own signals with the weights that make rows orthogonal.

    Raises:
        UnsupportedError: the layers are of another number, narrower, or too narrow for orthogonal rows.
    """
    sizes, wide = network.layers, tuple(layers)
    ends = (sizes[0], sizes[-1]) == (wide[0], wide[-1])
    if len(sizes) != len(wide) or not ends or any(n > m for n, m in zip(sizes, wide, strict=True)):
        raise UnsupportedError(f"layers of {sizes} signals do not fit into {wide}")
    places = [np.arange(sizes[0])]
    weights, biases, scales = [], [], [network.full_scale[0]]
    for layer, width in enumerate(wide[1:], 1):
        places.append(np.arange(width) if layer == len(wide) - 1 else _places(network, wide, layer))
        matrix, bias, scale = np.zeros((width, wide[layer - 1])), np.zeros(width), np.ones(width)
        matrix[np.ix_(places[-1], places[-2])] = network.weights[layer - 1]
        bias[places[-1]], scale[places[-1]] = network.biases[layer - 1], network.full_scale[layer]
        lit = np.isin(np.arange(wide[layer - 1]), places[-2])
        squares = [(rows, at[lit[at]], at[~lit[at]]) for rows, at in square_places((width, wide[layer - 1]))]
        least = max(float(np.linalg.norm(_overlaps(matrix[np.ix_(rows, live)]), 2)) for rows, live, _ in squares)
        for rows, live, dark in squares:
            ways = (_completion(matrix[np.ix_(rows, live)], dark.size, each) for each in (least, 0.0))
            if (completed := next((way for way in ways if way is not None), None)) is None:
                raise UnsupportedError(f"layer {layer} of {wide}: too few dark signals for orthogonal rows")
            matrix[np.ix_(rows, dark)] = completed
        weights.append(matrix)
        biases.append(bias)
        scales.append(scale)
    return Embedding(LayeredNetwork(tuple(weights), tuple(biases), network.nonlinearity, tuple(scales)), tuple(places))


def _places(network: LayeredNetwork, wide: tuple[int, ...], layer: int) -> Ints:
    """Return the place of every signal of a hidden layer in the wider layer, [signals].

    Places are in the emptiest squares of the matrices before and after that can still be completed, so that rows get
    the fewest entries from dark signals. Squares of the matrix before lie one below the other where the layer is not
    narrower than the one before, and a place decides which of them its row joins. Those of the matrix after lie side by
    side where the next layer is narrower.

    Args:
        network: the network to embed.
        wide: numbers of signals of the wider layers, from the inputs to the outputs.
        layer: number of the hidden layer, from 1.

    Raises:
        UnsupportedError: a signal fits nowhere.
    """
    before, after = (np.asarray(matrix, np.float64) for matrix in network.weights[layer - 1 : layer + 1])
    width, inputs, outputs = wide[layer], wide[layer - 1], wide[layer + 1]
    tall, broad = width >= inputs, width > outputs
    places: list[int] = []
    for signal in range(len(before)):
        choices: dict[tuple[int, int], int] = {}
        for place in sorted({*range(width)}.difference(places), reverse=True):
            choices[tall * place // inputs, broad * place // outputs] = place
        fitting: list[tuple[int, int]] = []
        for (row, column), place in choices.items():
            joined = [at for at, other in enumerate(places) if other // inputs == row or not tall] + [signal]
            beside = [at for at, other in enumerate(places) if other // outputs == column or not broad] + [signal]
            free = min(outputs, width - column * outputs) - len(beside)
            fits = not tall or _completion(before[joined], inputs - before.shape[1]) is not None
            if fits and (not broad or _completion(after[:, beside], free) is not None):
                overlapping = int(np.count_nonzero(before[joined] @ before[signal])) if tall else 0
                fitting.append((overlapping + broad * len(beside), place))
        if not fitting:
            raise UnsupportedError(f"layer {layer} of {wide} has no place for {len(before)} signals")
        places.append(min(fitting)[1])
    return np.array(places)


def _completion(rows: Floats, dark: int, least: float = 0.0) -> Floats | None:
    """Return entries of rows [n, live columns] in ``dark`` further columns that make the rows orthogonal, [n, dark].

    None is returned if that takes more columns. Rows that overlap with no other get entries of 0. Entries are
    triangular. Each row of a group of overlapping ones gets the squared length λ, in units of that of its live columns:
    the largest eigenvalue of the group's cosines, or ``least`` if that is more. Squares whose first rows are parallel
    to each other's then, at one λ, read equal shares of the same dark signals, so that the noise of these cancels where
    the two halves of a ramp differ.
    """
    overlaps = _overlaps(rows)
    lengths, added, used = np.linalg.norm(rows, axis=1), np.zeros((len(rows), dark)), 0
    for group, _ in connected_components(overlaps):
        values, vectors = np.linalg.eigh(overlaps[np.ix_(group, group)])
        lacking = max(values[-1], least) - values if group.size > 1 else np.zeros(1)
        lacking[lacking < _TOLERANCE * values[-1]] = 0.0
        triangle = np.linalg.qr((vectors * np.sqrt(lacking)).T)[1].T
        triangle = (triangle * np.where(np.diag(triangle) < 0, -1.0, 1.0))[:, np.linalg.norm(triangle, axis=0) > _ENTRY]
        columns = used + np.arange(triangle.shape[1])
        used += columns.size
        if used > dark:
            return None
        added[np.ix_(group, columns)] = lengths[group, None] * triangle
    return added


def _overlaps(rows: Floats) -> Floats:
    """Return the cosines of the angles between rows [n, columns], signed, [n, n]: 0 for rows of zeros, and where the
    magnitude is at most 1e-12."""
    lengths = np.linalg.norm(rows, axis=1)
    units = rows / np.where(lengths > 0, lengths, 1.0)[:, None]
    cosines = units @ units.T
    return np.asarray(np.where(np.abs(cosines) > _TOLERANCE, cosines, 0.0))


@dataclass(frozen=True, eq=False)
class Construction:
    """A network with constructed weights."""

    name: str
    function: AveragingFunction
    realised: Realised
    embedding: Embedding | None = None
    """The network in wider layers, of squares Σ · U alone, if these were asked for."""

    @property
    def network(self) -> LayeredNetwork:
        """The network with its weights; the embedded one, in wider layers, if there is one."""
        return self.realised.network if self.embedding is None else self.embedding.network

    @cached_property
    def proof(self) -> Proof:
        """Proof by exact bounds that the network computes its function: ``float64`` of it says whether the outputs stay
        within the receivers' margin in float64, ``tolerance`` by which share of full scale all signals may be off, and
        ``steps`` are sentences.

        Raises:
            VerificationError: the circuit's integers or digits are wrong; a margin that is too small only makes
                ``float64`` false.
        """
        return prove(self.realised, self.function, None if self.embedding is None else self.embedding.dark)

    @property
    def mzi_count(self) -> int:
        """Number of interferometers of the network's matrices in the paper's convention (each matrix as a full singular
        value decomposition, `networks.mzi_count`), without preprocessing P in front of the network, splitting T behind
        it, and biases.

        The matrices of an embedding count as squares Σ · U instead.
        """
        sizes = self.realised.sizes if self.embedding is None else self.network.layers
        return network_count(sizes, () if self.embedding is None else range(1, len(sizes)))

    def verify(self, samples: int = 1_000_000) -> Verification:
        """Return at how many points of the function's grid the outputs of the network, rounded as receivers do and
        without noise, spell a wrong number.

        All points are tried of grids of at most 20 million points; of larger ones the extremes and ``samples`` points,
        half of them beside carries and half uniform, which is no proof. The result has ``wrong_outputs`` and
        ``checked_inputs``, both counts of points, and ``exhaustive``, true if all were tried.
        """
        return verify(self.network, self.function, samples)

    def noise_limit(self, evaluations: int = EVALUATIONS) -> float:
        """Return the largest standard deviation of noise on every signal, as a share of its full scale, at which
        99.99 % of the inputs, points of the function's grid, are still averaged right.

        It is found to 3 % between 1e-9 and 0.5, with ``evaluations`` noisy evaluations (400,000 by default) for each
        accuracy (`proof.noisy_accuracy`, always with the same draws), and is 0 if it is below 1e-9.
        """
        return noise_limit(self.network, self.function, evaluations=evaluations)

    def tolerates(self, noise: float) -> bool:
        """Return whether at least 99.99 % of the inputs are averaged correctly with noise on every signal.

        ``noise`` is the standard deviation as a share of the signal's full scale. The share is measured with 400,000
        noisy evaluations; a tenth of them rules out a network with more than four times as many wrong results as are
        allowed. Draws are the same in every call.
        """
        # A tenth of the draws suffices to rule out a network that clearly fails.
        quick = noisy_accuracy(self.network, self.function, noise, EVALUATIONS // 10)
        return quick >= 1 - 4 * (1 - TARGET) and noisy_accuracy(self.network, self.function, noise) >= TARGET

    def to_json(self, servers: int, bits: int, verification: Verification, limit: float) -> dict[str, Any]:
        """Return the document of `lightloom onn build --json`: ``construction`` (name), ``nonlinearity``,
        ``wrong_outputs`` and ``checked_inputs`` (counts) and ``exhaustive`` (a bool) of ``verification``, ``proof`` (a
        list of sentences), ``proved_tolerance`` (share of full scale), ``mzi_count``, ``mzi_count_economy``,
        ``mzi_count_with_bias``, ``mzi_count_of_p_and_t``, ``layers`` (numbers of signals), ``largest_gain_db`` (of an
        amplifier's amplitude), and ``noise_limit`` as a share of full scale.

        ``servers`` and ``bits`` give the size of P and T; ``verification`` and ``limit``, the noise limit, are figures
        measured before. The economy count and that with biases take every matrix whole, an embedding's too.
        """
        layers = self.network.layers
        return {
            **attributes(self, "construction=name nonlinearity=network.nonlinearity"),
            **verification.counts,
            "proof": list(self.proof.steps),
            **attributes(self, "proved_tolerance=proof.tolerance mzi_count"),
            "mzi_count_economy": mzi_count(layers, "economy"),
            "mzi_count_with_bias": mzi_count(layers, bias=True),
            "mzi_count_of_p_and_t": mzi_of_units(servers, bits, layers[0]),
            "layers": list(layers),
            "largest_gain_db": largest_gain_db(self.network),
            "noise_limit": limit,
        }


def circuits(function: AveragingFunction) -> Iterator[tuple[str, Circuit]]:
    """Yield the name and the circuit of every construction of the function, except those that would be too wide.

    Divisions from the most significant digit (``msb-first``) serve any number of servers; ripples from the least one
    (``lsb-ripple``) need a power of two; ``long-division`` is there for other numbers and for odd powers of two.
    Variants are named behind a comma: ``a bit a layer``, ``carry-save`` (at most 16 servers), ``inputs decided`` (at
    most 128 steps of all inputs), ``two digits a layer``.
    """
    yield "msb-first", msb_first(function)
    yield "msb-first, a bit a layer", msb_first(function, 2)
    servers = function.divisor
    if servers & (servers - 1) == 0:
        yield "lsb-ripple", lsb_ripple(function)
        yield "lsb-ripple, a bit a layer", lsb_ripple(function, 2)
        if servers <= _CARRY_SAVE_SERVERS:
            yield "lsb-ripple, carry-save", lsb_ripple(function, 4, 1)
        if sum(i.maximum for i in function.inputs) <= _DECIDED_STEPS:
            yield "lsb-ripple, inputs decided", lsb_ripple(function, decided=True)
    if servers.bit_count() > 1 or servers.bit_length() % 2 == 0:
        # Odd powers of two as well: the ripple doubles its range for them, division does not.
        yield "long-division", long_division(function)
        yield "long-division, two digits a layer", long_division(function, 16)


def sturdy_circuits(function: AveragingFunction) -> Iterator[tuple[str, Circuit]]:
    """Yield the names and circuits of `circuits`, then, if the servers are a power of two, the two ripples whose digits
    are decided behind one and behind two rounds of carry-saving: ``lsb-ripple, digits decided`` and ``lsb-ripple,
    digits decided twice``.

    These two bear errors of interferometers best.
    """
    yield from circuits(function)
    if function.divisor & (function.divisor - 1) == 0:
        yield "lsb-ripple, digits decided", lsb_ripple(function, 4, 1, digits_decided=True)
        yield "lsb-ripple, digits decided twice", lsb_ripple(function, 4, 2, digits_decided=True)


def sturdy_realisations(nonlinearity: Nonlinearity) -> Iterator[Realisation]:
    """Yield a realisation for every window, the share of the gap between two levels that a ramp takes, in `WINDOWS`
    (1/2, 1/4, 1/8, 1/16), and number of copies in `COPIES` (1 to 3); plain ReLUs also with regenerated bits.

    Wide windows come first, for each of them few copies, and for each number bits that are not regenerated.

    Raises:
        InputError: the nonlinearity is unknown.
    """
    if nonlinearity not in _REALISATIONS:
        raise InputError(f"nonlinearity = {nonlinearity!r}: expected relu or clipped")
    bounded = nonlinearity == "clipped"
    for window, copies, regenerate in product(WINDOWS, COPIES, (False,) if bounded else (False, True)):
        yield Realisation(bounded=bounded, window=window, copies=copies, regenerate=regenerate)


def candidates(
    function: AveragingFunction, nonlinearity: Nonlinearity = "relu", smallest: bool = False
) -> list[Construction]:
    """Return all constructions of the function with one kind of unit, those with the fewest MZIs
    (`Construction.mzi_count`) first; none is proved yet.

    Each circuit of `circuits` comes in three realisations: plain ReLUs, ramps over half of the gap, without and with
    regenerated bits and with these in 2 copies; clipped units, ramps over a quarter, in 1 to 3 copies. With
    ``smallest`` it comes only in the first, the smallest one. Copies above 1 and regeneration are in the names.

    Raises:
        InputError: the nonlinearity is unknown.
    """
    if nonlinearity not in _REALISATIONS:
        raise InputError(f"nonlinearity = {nonlinearity!r}: expected relu or clipped")
    constructions = [
        Construction(name + realisation.words, function, realise(circuit, function, realisation))
        for name, circuit in circuits(function)
        for realisation in _REALISATIONS[nonlinearity][: 1 if smallest else None]
    ]
    return sorted(constructions, key=lambda c: c.mzi_count)


def embedded(function: AveragingFunction, nonlinearity: Nonlinearity, layers: Sequence[int]) -> list[Construction]:
    """Return the constructions of the function that fit into ``layers``, with every matrix cut along its longer side
    into squares Σ · U. Added signals are dark, and their weights fill up the rows of the squares.

    ``layers`` are numbers of signals from the inputs to the outputs, of which inputs and outputs must be as many as the
    construction's. A construction with fewer hidden layers carries its outputs along; one that does not fit is left
    out. They are in the order of `candidates`, and none is proved yet.

    Raises:
        InputError: the nonlinearity is unknown.
    """
    result = []
    for plain in candidates(function, nonlinearity):
        realised = realise(plain.realised.circuit, function, plain.realised.realisation, len(layers) - 2)
        with suppress(UnsupportedError):
            result.append(Construction(plain.name, function, realised, embed(realised.network, layers)))
    return result


def recognise(network: LayeredNetwork, function: AveragingFunction) -> Construction | None:
    """Return the first construction of the function, of `candidates`, of those `embedded` in the network's layers or of
    the sturdy ones, that has exactly the network's weights and biases (and its nonlinearity; full scales may differ),
    None if there is none.

    Its proof then applies to the network.
    """
    units = network.nonlinearity
    for construction in chain(candidates(function, units), embedded(function, units, network.layers)):
        if construction.network.same_weights(network):
            return construction
    for name, circuit in sturdy_circuits(function):
        sizes: dict[tuple[int, bool], tuple[int, ...]] = {}
        for realisation in sturdy_realisations(network.nonlinearity):
            # The window changes no size.
            kind = (realisation.copies, realisation.regenerate)
            if sizes.get(kind, network.layers) != network.layers:
                continue
            realised = realise(circuit, function, realisation)
            sizes[kind] = realised.sizes
            if realised.sizes == network.layers and realised.network.same_weights(network):
                return Construction(name, function, realised)
    return None


def build(
    servers: int,
    bits: int,
    *,
    noise: float | None = None,
    nonlinearity: Nonlinearity = "relu",
    layers: Sequence[int] | None = None,
    **function_options: Any,
) -> Construction:
    """Return the constructed network with the fewest interferometers that is proved exact in float64 and tolerates the
    noise, among `candidates` or, for given ``layers``, among those `embedded` in them.

    Args:
        servers: number of servers, N.
        bits: bits per code.
        noise: standard deviation of the noise on every signal relative to its full scale, at which 99.99 % of the
            inputs must be averaged correctly. None requires exactness only.
        nonlinearity: plain ``relu``, as in the paper, or ``clipped``, a unit that saturates.
        layers: numbers of signals of a wider network, from the inputs to the outputs, in which every matrix shall
            consist of squares Σ · U; the construction is then not the smallest but the one that bears most noise. None
            requires nothing.
        function_options: further arguments of `AveragingFunction.of`: ``inputs``, ``rounding`` and
            ``carries_decimals``.

    Raises:
        UnsupportedError: no construction tolerates that noise, or fits into ``layers``; the message states the bound of
            the noise if there is one.
        ConfigError, InputError: an argument is out of range.
    """
    if noise is not None and not 0 <= noise < 1:
        raise InputError(f"noise = {noise!r}: expected a share of full scale from 0 to below 1")
    function = AveragingFunction.of(servers, bits, **function_options)
    bound = input_bound(function)
    if noise is not None and noise > bound:
        limited = f"noise on the inputs limits any network of {servers} servers to {bound:.1e}"
        raise UnsupportedError(f"noise = {noise:g}: {limited}")
    if layers is not None:
        fitting = embedded(function, nonlinearity, layers)
        attempts: Iterable[list[Construction]] = (sorted(fitting, key=lambda c: -c.noise_limit(_QUICK)),)
    else:
        counts = (True, False) if noise is None else (False,)
        attempts = (candidates(function, nonlinearity, smallest) for smallest in counts)
    for construction in chain.from_iterable(attempts):
        if construction.proof.float64 and (noise is None or construction.tolerates(noise)):
            return construction
    requirement = "is exact in float64" if noise is None else f"tolerates noise = {noise:g}"
    if layers is not None:
        requirement = f"fits into {'-'.join(map(str, layers))} and {requirement}"
    raise UnsupportedError(f"no {nonlinearity} construction for {servers} servers and {bits} bits {requirement}")
