"""A whole averager on meshes: P, every layer of its network, and T.

    senders ─▶ P ─▶ H_1 ─▶ + b/g ─▶ gains g ─▶ units ─▶ H_2 ─▶ ... ─▶ H_L ─▶ + b/g ─▶ gains g ─▶ T ─▶ receivers

Every matrix is diag(g) · H with passive meshes H. Biases are subtracted before the gain: behind it, the peak would be
that of the whole sum (48² full scales in front of the first bias of a network for 4 servers and 8 bits).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.cascade import Cascade, Rng, random_codes
from lightloom.photonics.averaging.function import (
    LEVELS,
    AveragingFunction,
    preprocessing_matrix,
    splitting_matrix,
    symbols_for,
)
from lightloom.photonics.averaging.networks import (
    FunctionArguments,
    LayeredNetwork,
    Matrix,
    light_matrices,
    light_units,
    unit_matrices,
)
from lightloom.photonics.averaging.proof import noisy_accuracy
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.correction import corrected
from lightloom.photonics.meshes.disturb import Disturbed, Evaluate, disturb
from lightloom.photonics.meshes.mapping import MappedBlocks, MappedMatrix, MeshMapping, crossings, map_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrices = NDArray[Any]


# Levels of amplifiers, receivers, lanes and units, set for the least error of fabricated matrices.
#
# none      as designed
# matrix    one factor for all outputs of a matrix
# rows      a factor for each output: what is behind the matrix, its amplifiers or receivers
# levels    rows, and a factor for each input: what is before the matrix, the levels of lanes or of units' outputs
#
# Set-up measures each matrix once, with known light. Matrices are [..., outputs, inputs]; leading axes are
# fabrications.

Setting = Literal["levels", "rows", "matrix", "none"]
_PASSES = 3
"""Passes of setting levels; further ones change little."""
_LEAST = 1e-12
"""Share of a row's power over all inputs below which the inputs that occur do not reach the row."""


class Levels(NamedTuple):
    """Matrices with their levels set, and the factors that were set."""

    matrices: Matrices
    """The matrices with their levels: [..., outputs, inputs]."""
    outputs: Floats
    """Factor of every output, [..., outputs]."""
    inputs: Floats
    """Factor of every input, [..., inputs]."""


def set_levels(matrices: Matrices, target: Floats, setting: Setting) -> Levels:
    """Set factors of outputs and inputs so that the real parts of matrices come nearest to ``target`` in least squares.

    Args:
        matrices: fabricated matrices, [..., outputs, inputs].
        target: the designed matrix, [outputs, inputs].
        setting: what is set: ``none`` returns the matrices unchanged, with factors of 1; ``matrix`` one factor for all
            outputs; ``rows`` a factor for each output; ``levels`` also one for each input, in three passes that set
            outputs, then inputs, in which inputs weigh every output alike, however large its row.

    Returns:
        The matrices with the factors applied, still complex if they were, the real factors of the outputs, [...,
        outputs], and those of the inputs, [..., inputs]. Factors may be negative; those of all-zero rows or columns
        are 1.
    """
    outputs, inputs = np.ones(matrices.shape[:-1]), np.ones((*matrices.shape[:-2], matrices.shape[-1]))
    if setting == "matrix":
        powers, products = (matrices.real**2).sum(axis=(-2, -1)), (matrices.real * target).sum(axis=(-2, -1))
        outputs = outputs * _quotients(products, powers)[..., None]
        return Levels(matrices * outputs[..., None], outputs, inputs)
    norms = np.linalg.norm(target, axis=1, keepdims=True)
    weights = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    for _ in range({"none": 0, "rows": 1, "levels": _PASSES}[setting]):
        factors = output_factors(matrices.real, target)
        matrices, outputs = matrices * factors[..., None], outputs * factors
        if setting == "levels":
            factors = output_factors((matrices.real * weights).swapaxes(-1, -2), (target * weights).T)
            matrices, inputs = matrices * factors[..., None, :], inputs * factors
    return Levels(matrices, outputs, inputs)


def output_factors(matrices: Floats, target: Floats, covariances: Floats | None = None) -> Floats:
    """Return the real factor by which to multiply every row so that its squared error from the target is least, [...,
    outputs].

    The factor is 1 for a row that no input reaches: of zeros, or with next to no power over the inputs that
    ``covariances`` describe.

    Args:
        matrices: real parts of fabricated matrices, [..., outputs, inputs].
        target: the designed matrix, [outputs, inputs].
        covariances: of the inputs that occur, [inputs, inputs], by which the error is weighted; None weighs every
            element alike.
    """
    powers = whole = (matrices**2).sum(axis=-1)
    wanted = target
    if covariances is not None:
        powers, wanted = (matrices * (matrices @ covariances)).sum(axis=-1), target @ covariances
    return _quotients((matrices * wanted).sum(axis=-1), np.where(powers > _LEAST * whole, powers, 0.0))


def _quotients(products: Floats, powers: Floats) -> Floats:
    """Return products / powers element by element, with 1 where the power is not above 0."""
    return np.asarray(np.divide(products, powers, out=np.ones_like(products), where=powers > 0))


# Map the matrices of a network to meshes, and compute the network that fabricated meshes implement.
#
# inputs ──▶ meshes of W_1 ──▶ units f(z + b_1) ──▶ meshes of W_2 ──▶ ... ──▶ receivers (+ b_L)
#
# Amplitudes are in units of each layer's largest full scale. Only matrices become meshes: a bias is added
# electronically at the nonlinear unit (`mzi_count(bias=True)` counts an optical bias), and is exact here. Units and
# receivers detect the real part of a field; their noise is `NonIdealities.detector_noise` times the signal's full
# scale.

Calibration = Literal["rows", "matrix", "none"]
"""How amplifiers make up for loss: a factor for each output, one for all outputs of a matrix, or not at all."""
SAMPLES = 400_000
"""Largest number of grid points that one accuracy is measured on."""


Part = MappedMatrix | MappedBlocks


class MappedParts:
    """Meshes of several matrices."""

    matrices: tuple[Part, ...]
    """The meshes of every chip, in the order of the light."""

    @property
    def mzis(self) -> int:
        """Number of MZIs of all matrices, Σ included."""
        return sum(matrix.mzis for matrix in self.matrices)

    @property
    def depth(self) -> int:
        """Number of columns of MZIs that the light passes, one matrix after the other, Σ included."""
        return sum(matrix.depth for matrix in self.matrices)

    @property
    def gain(self) -> float:
        """Largest amplitude gain, as a factor, of an amplifier behind any row of any matrix."""
        return max(matrix.gain for matrix in self.matrices)


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedNetwork(MappedParts):
    """The meshes of every layer of a network, in the order of the light."""

    network: LayeredNetwork
    matrices: tuple[Part, ...]

    @cached_property
    def target_matrices(self) -> list[Matrix]:
        """The matrices [outputs, inputs] that the meshes should implement, one for each layer, gains included, in units
        of amplitude, of which 1 is the largest full scale in front of the layer and behind it (`light_matrices`)."""
        return light_matrices(self.network)


def map_network(network: LayeredNetwork, mapping: MeshMapping | None = None) -> MappedNetwork:
    """Return the meshes of every layer's matrix, mapped as ``mapping`` says; None takes the default mapping.

    The mapping's form ``sigma-u`` approximates each matrix, the other forms are exact.
    """
    return MappedNetwork(network=network, matrices=tuple(map_part(each, mapping) for each in light_matrices(network)))


def effective_network(
    mapped: MappedNetwork, disturbed: Sequence[Disturbed], *, calibration: Calibration = "rows", correct: bool = False
) -> LayeredNetwork:
    """Return the network that fabricated meshes implement: the same biases, nonlinearity and full scales, and the
    weights of the fabricated devices.

    Weights are the real parts of the fabricated matrices, in the units of the designed network's weights.

    Args:
        mapped: the meshes as designed.
        disturbed: the fabricated meshes of each matrix.
        calibration: which amplifiers apply the real factor that minimises the error: each one (``rows``), all of a
            matrix together (``matrix``), or ``none``. Uniform loss then causes no error, except with ``none``.
        correct: whether phases are first corrected for coupler errors and crosstalk, which are taken as known.

    Raises:
        ConfigError: phases are to be corrected, and the thermal crosstalk exceeds 0.1.
    """
    weights, units = [], light_units(mapped.network)
    for layer, (device, target) in enumerate(zip(disturbed, mapped.target_matrices, strict=True)):
        matrix = (corrected(device, real=True) if correct else device).matrix().real
        weights.append(set_levels(matrix, target, calibration).matrices * (units[layer + 1] / units[layer]))
    network = mapped.network
    return LayeredNetwork(tuple(weights), network.biases, network.nonlinearity, network.full_scale)


def fabricated(mapped: MappedNetwork, non_idealities: NonIdealities, rng: Rng, **how: Any) -> LayeredNetwork:
    """Return the network that newly drawn devices with the errors of ``non_idealities`` implement, with weights in the
    units of the designed network's (`effective_network`).

    ``how`` are the options ``calibration`` and ``correct`` of `effective_network`. Detector noise is left to the
    caller, as it is drawn for every detection.
    """
    return effective_network(mapped, [disturb(matrix, non_idealities, rng) for matrix in mapped.matrices], **how)


def averaging_accuracy(
    mapped: MappedNetwork, function: AveragingFunction, *, samples: int = SAMPLES, **how: Any
) -> Evaluate:
    """Return a function that measures the share, from 0 to 1, of inputs averaged correctly on fabricated meshes.

    Its arguments, with which `sweep` and `monte_carlo` call it, are the fabricated meshes of every layer and a random
    generator, which seeds the drawn inputs and the detectors' noise that their `NonIdealities` state; the noise is
    added behind the hidden units and at the receivers. The preprocessing P and the splitting T are ideal. All points of
    the grid are tried if there are at most ``samples`` (400,000 by default), else so many that are drawn uniformly.
    ``how`` are the options ``calibration`` and ``correct`` of `effective_network`.
    """

    def evaluate(disturbed: Sequence[Disturbed], rng: Rng) -> float:
        """Return the share of inputs averaged correctly on these fabricated meshes, with their detector noise."""
        network = detecting(effective_network(mapped, disturbed, **how))
        seed, evaluations = int(rng.integers(1 << 31)), min(function.points, samples)
        return noisy_accuracy(network, function, disturbed[0].non_idealities.detector_noise, evaluations, seed)

    return evaluate


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedAverager(MappedParts):
    """Meshes of P, of every layer and of T, in the order of the light."""

    arguments: FunctionArguments
    layers: MappedNetwork
    preprocessing: Part
    """Meshes of P, from servers · signals lanes to the network's inputs; its gains are below 1: lanes may be weaker."""
    splitting: Part
    """Meshes of T, from the network's outputs to servers · signals lanes."""

    @property
    def network(self) -> LayeredNetwork:
        """The network between the preprocessing P and the splitting T, as designed."""
        return self.layers.network

    @property
    def function(self) -> AveragingFunction:
        """The function that the averager computes."""
        return self.arguments.function()

    @property
    def parts(self) -> dict[str, Part]:
        """Meshes by name, ``P``, ``layer 1``, ..., ``T``, in the order of the light, as phase files have them."""
        layers = {f"layer {index}": matrix for index, matrix in enumerate(self.layers.matrices, 1)}
        return {"P": self.preprocessing, **layers, "T": self.splitting}

    @cached_property
    def matrices(self) -> tuple[Part, ...]:  # type: ignore[override, unused-ignore]
        """Meshes of P, the layers and T, in the order of the light."""
        return tuple(self.parts.values())

    @property
    def targets(self) -> dict[str, Matrix]:
        """Matrices [outputs, inputs] that each part should implement, gains included, by name (``P``, ``layer 1``, ...,
        ``T``) in the order of the light, in units of amplitude: 1 is the highest PAM4 level of a lane in front of P,
        the largest full scale of the signals behind it."""
        units = unit_matrices(self.arguments)
        return dict(zip(self.parts, (units["P"], *self.layers.target_matrices, units["T"]), strict=True))

    @property
    def gain(self) -> float:
        """Largest amplitude gain, as a factor, of an amplifier behind the matrix of a layer; P and T have no
        amplifiers."""
        return self.layers.gain

    @property
    def crossings(self) -> int:
        """Number of crossings of waveguides before, between and behind the meshes of P, the layers and T.

        The lanes of the servers are in order at both ends.
        """
        return part_crossings(self.matrices)


def map_averager(
    network: LayeredNetwork, arguments: FunctionArguments, mapping: MeshMapping | None = None
) -> MappedAverager:
    """Return the meshes of P (which averages the servers' digits), of every layer and of T (which divides the result
    among the servers), mapped as ``mapping`` says; None takes the default mapping.

    With ``sigma-u`` the layers are approximated, and P and T are exact (svd).

    Raises:
        ConfigError: the network carries decimals, which servers cannot receive.
    """
    if arguments.carries_decimals:
        raise ConfigError("the network carries decimals for a second level: it has no T to servers")
    chosen = MeshMapping() if mapping is None else mapping
    layers = map_network(network, chosen)
    preprocessing, splitting = (map_part(matrix, chosen.around()) for matrix in unit_matrices(arguments).values())
    return MappedAverager(arguments=arguments, layers=layers, preprocessing=preprocessing, splitting=splitting)


def part_crossings(parts: Sequence[Part]) -> int:
    """Return the number of crossings of waveguides before, between and behind ``parts``, in the order of the light,
    each counted once.

    Waveguides are in order before the first and behind the last part. Nonlinear units stand wherever their waveguide
    is, so that the outputs of a part and the inputs of the next one need a single permutation.
    """
    return sum(int(counts.sum()) for counts in guide_crossings(parts)) // 2


def guide_crossings(parts: Sequence[Part]) -> list[Ints]:
    """Return how many others each waveguide crosses: an array [inputs] in front of every part, by the number of the
    part's input, then one [outputs] behind the last, by the number of its output.

    Each crossing counts for both of its waveguides. Waveguides are in order before the first and behind the last part;
    dark ones cross none.
    """
    counts, leaving = [], np.arange(parts[0].shape[1])
    for part in parts:
        place = np.full(part.shape[1], -1)
        place[leaving] = np.arange(leaving.size)
        arriving = _order(part, "inputs")
        lit, crossed = arriving[place[arriving] >= 0], np.zeros(part.shape[1], np.int64)
        crossed[lit] = crossings(place[lit])
        counts.append(crossed)
        leaving = _order(part, "outputs")
    behind = np.zeros(parts[-1].shape[0], np.int64)
    behind[leaving] = crossings(leaving)
    return [*counts, behind]


def _order(part: Part, side: str) -> Ints:
    """Return the numbers of the waveguides on one side of a part, ``inputs`` or ``outputs``, from its upper to its
    lower edge, as its blocks lie.

    Waveguides that several blocks share appear for each of them, dark ones, in no block, not at all.
    """
    return np.concatenate([*getattr(part, side), np.empty(0, np.int64)])


# A cascade on meshes: its parts by name, and the share of right averages of fabricated ones.
#
# servers ─▶ P ─▶ level 1 (a chip for each group) ─▶ P between the levels ─▶ level 2 ─▶ T ─▶ servers
#
# No receiver decides between the levels: what the devices of level 1 do wrong enters level 2 as it is.

NEAR_EQUAL = 0.5
"""Share of the tuples whose codes are within 3 of a common value, where carries are frequent."""
_AT_ONCE = 50_000


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedCascade(MappedParts):
    """The meshes of both levels; every group of level 1 has a chip of the same design."""

    cascade: Cascade
    first: MappedNetwork
    second: MappedNetwork

    @cached_property
    def matrices(self) -> tuple[Part, ...]:  # type: ignore[override, unused-ignore]
        """The meshes of every chip: those of level 1 as often as there are groups, then those of level 2."""
        return (*self.first.matrices * self.cascade.groups, *self.second.matrices)

    @property
    def depth(self) -> int:
        """Number of columns of MZIs, Σ included, that the light passes in both levels together, without the
        preprocessing P of either level and the splitting T to the servers."""
        return self.first.depth + self.second.depth


def map_cascade(cascade: Cascade, mapping: MeshMapping | None = None) -> MappedCascade:
    """Return the meshes of every layer's matrix in the networks of both levels, without the preprocessing P of either
    level and the splitting T to the servers, mapped as ``mapping`` says; None takes the default mapping.

    Level 1 is mapped once, for the chip that every group has.
    """
    first, second = (map_network(level.network, mapping) for level in (cascade.first, cascade.second))
    return MappedCascade(cascade=cascade, first=first, second=second)


def cascade_matrices(cascade: Cascade, units: bool = False) -> dict[str, Matrix]:
    """Return the matrices [outputs, inputs] of one chip of each level by name, in the order of the light, in units of
    amplitude, of which 1 is the largest full scale of the signals in front of a matrix and behind it.

    Names are ``level 1 layer 1``, ..., ``level 2 layer 1``, ...; with ``units`` also ``level 1 P`` and ``level 2 P``,
    each before its layers, and ``T`` at the end, which splits the outputs among all servers. P averages digits, that of
    level 1 over the servers of a group, that of level 2 over the groups.
    """
    named: dict[str, Matrix] = {}
    signals, outputs = symbols_for(cascade.bits), cascade.first.function.outputs
    sent = light_units(cascade.first.network)[-1]
    lanes = {1: (cascade.servers, signals, LEVELS - 1.0), 2: (cascade.groups, outputs, sent)}
    for number, level in enumerate((cascade.first, cascade.second), 1):
        if units:
            senders, each, scale = lanes[number]
            light = max(grid_input.maximum / grid_input.denominator for grid_input in level.function.inputs)
            named[f"level {number} P"] = preprocessing_matrix(senders, each, len(level.function.inputs)) * scale / light
        layers = enumerate(light_matrices(level.network), 1)
        named |= {f"level {number} layer {index}": matrix for index, matrix in layers}
    if units:
        named["T"] = splitting_matrix(cascade.groups * cascade.servers, signals)
    return named


def cascade_accuracy(mapped: MappedCascade, *, samples: int = SAMPLES, **how: Any) -> Evaluate:
    """Return a function that measures the share, from 0 to 1, of right averages of a fabricated cascade.

    Its arguments, with which `sweep` and `monte_carlo` call it, are fabrications of `MappedCascade.matrices`, in that
    order, and a random generator, which draws ``samples`` tuples of codes (400,000 by default), half of them
    near-equal, and the noise of the detectors that the fabrications' `NonIdealities` state. It is added behind the
    hidden units of both levels and at the receivers; between the levels nothing is detected. The preprocessing P of
    either level and the splitting T to the servers are ideal, and so are the units. ``how`` are the options
    ``calibration`` and ``correct`` of `effective_network`, for every chip.
    """
    cascade, depth = mapped.cascade, len(mapped.first.matrices)

    def evaluate(disturbed: Sequence[Disturbed], rng: Rng) -> float:
        """Return the share of tuples averaged correctly on these fabricated meshes, with their detector noise."""
        sigma = disturbed[0].non_idealities.detector_noise
        chips = [disturbed[start : start + depth] for start in range(0, cascade.groups * depth, depth)]
        firsts = [detecting(effective_network(mapped.first, chip, **how), received=False) for chip in chips]
        second = detecting(effective_network(mapped.second, disturbed[cascade.groups * depth :], **how))
        right = 0
        for start in range(0, samples, _AT_ONCE):
            count = min(_AT_ONCE, samples - start)
            codes = random_codes(cascade.groups, cascade.servers, cascade.bits, count, rng, NEAR_EQUAL)
            light = cascade.light(codes, sigma, rng, (firsts, second))
            exact = codes.sum(axis=(0, 1)) // (cascade.groups * cascade.servers)
            right += int((cascade.second.function.decide(light) == exact).sum())
        return right / samples

    return evaluate


def detecting(network: LayeredNetwork, received: bool = True) -> LayeredNetwork:
    """Return the network with full scales of 0 where no light is detected, so that no detector noise is added there.

    That is at its inputs, and at its outputs unless they are ``received``.
    """
    # A full scale of 0 keeps detector noise away.
    scales = [np.zeros(network.layers[0]), *network.full_scale[1:]]
    if not received:
        scales[-1] = np.zeros(network.layers[-1])
    return LayeredNetwork(network.weights, network.biases, network.nonlinearity, tuple(scales))
