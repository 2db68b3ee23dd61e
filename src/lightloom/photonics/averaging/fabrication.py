"""A network's matrices as meshes, and the network that fabricated meshes carry out instead.

    inputs ──▶ meshes of W_1 ──▶ units f(z + b_1) ──▶ meshes of W_2 ──▶ ... ──▶ receivers (+ b_L)

Light is counted in units of each layer's largest full scale. Only matrices are meshes: a bias is added at the unit
behind (`mzi_count(bias=True)` counts bringing it as light), and is exact here. Units and receivers detect the real part
of a field, and their noise is `NonIdealities.detector_noise` of the signal's full scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proved.noise import noisy_accuracy
from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.averager_units import preprocessing_matrix, splitting_matrix
from lightloom.photonics.meshes.blocks import MappedBlocks, map_blocks
from lightloom.photonics.meshes.correction import corrected
from lightloom.photonics.meshes.disturb import Disturbed, disturb
from lightloom.photonics.meshes.layout import Kind
from lightloom.photonics.meshes.mapping import Form, MappedMatrix, map_matrix
from lightloom.photonics.meshes.montecarlo import Evaluate
from lightloom.photonics.pam4 import LEVELS, symbols_for

Matrix = NDArray[np.float64]
SAMPLES = 400_000
"""Grid points behind one accuracy: all of them where there are no more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedNetwork:
    """The meshes of every layer, in the order of the light."""

    network: LayeredNetwork
    matrices: tuple[MappedMatrix | MappedBlocks, ...]

    @property
    def mzis(self) -> int:
        """MZIs of all layers."""
        return sum(each.mzis for each in self.matrices)

    @property
    def depth(self) -> int:
        """Columns of MZIs that light passes in all."""
        return sum(each.depth for each in self.matrices)

    @property
    def gain(self) -> float:
        """The largest amplification behind a layer."""
        return max(each.gain for each in self.matrices)

    @cached_property
    def wanted(self) -> list[Matrix]:
        """What ideal devices carry out."""
        return light_matrices(self.network)

    def largest_error(self) -> float:
        """Of any element of what ideal devices carry out, relative to the largest element of its matrix."""
        return max(
            float(np.abs(each.matrix() - wanted).max() / max(np.abs(wanted).max(), 1e-300))
            for each, wanted in zip(self.matrices, self.wanted, strict=True)
        )


def light_units(network: LayeredNetwork) -> tuple[float, ...]:
    """What an amplitude of 1 stands for in front of the first layer and behind every layer: its largest full scale."""
    return tuple(float(scale.max()) or 1.0 for scale in network.full_scale)


def light_matrices(network: LayeredNetwork) -> list[Matrix]:
    """The weights of every layer in units of light."""
    units = light_units(network)
    return [np.asarray(w * (units[i] / units[i + 1]), np.float64) for i, w in enumerate(network.weights)]


def map_network(network: LayeredNetwork, form: Form = "economy", kind: Kind = "rectangular") -> MappedNetwork:
    """Meshes for every matrix; ``sigma-u`` approximates those whose blocks are no Σ · U, the other forms are exact.

    Raises:
        UnknownNameError: no such form or kind of mesh.
    """
    found: list[MappedMatrix | MappedBlocks] = [
        map_blocks(matrix, kind) if form == "sigma-u" else map_matrix(matrix, form, kind)
        for matrix in light_matrices(network)
    ]
    return MappedNetwork(network=network, matrices=tuple(found))


def unit_matrices(arguments: FunctionArguments) -> dict[str, Matrix]:
    """P in front of the network and T behind it, in units of the full scales of what enters and leaves them."""
    function, signals = arguments.function(), symbols_for(arguments.bits)
    first = preprocessing_matrix(arguments.servers, signals, len(function.inputs))
    full = max(each.maximum / each.denominator for each in function.inputs)
    return {"P": first * (LEVELS - 1) / full, "T": splitting_matrix(arguments.servers, signals)}


def carried_out(
    mapped: MappedNetwork, found: Sequence[Disturbed], *, calibrated: bool = True, correct: bool = False
) -> LayeredNetwork:
    """The network that one fabrication of the meshes is: the same biases, but the weights that light really meets.

    Args:
        mapped: what was drawn.
        found: each matrix as it came out.
        calibrated: amplifiers behind each matrix are set so that it comes as near as one real factor can; loss that is
            the same everywhere is then no error.
        correct: whether couplers and crosstalk are measured and made up for, see `meshes.corrected`.
    """
    weights, units = [], light_units(mapped.network)
    for layer, (device, wanted) in enumerate(zip(found, mapped.wanted, strict=True)):
        matrix = (corrected(device, real=True) if correct else device).matrix().real
        power = float(np.vdot(matrix, matrix))
        if calibrated and power > 0:
            matrix = matrix * (float(np.vdot(matrix, wanted)) / power)
        weights.append(matrix * (units[layer + 1] / units[layer]))
    network = mapped.network
    return LayeredNetwork(tuple(weights), network.biases, network.nonlinearity, network.full_scale)


def fabricated(
    mapped: MappedNetwork,
    how: NonIdealities,
    rng: np.random.Generator,
    *,
    calibrated: bool = True,
    correct: bool = False,
) -> LayeredNetwork:
    """`carried_out` on devices drawn afresh; detection noise is the caller's, as it changes with every detection."""
    found = [disturb(each, how, rng) for each in mapped.matrices]
    return carried_out(mapped, found, calibrated=calibrated, correct=correct)


def averaging_accuracy(
    mapped: MappedNetwork,
    function: AveragingFunction,
    *,
    samples: int = SAMPLES,
    calibrated: bool = True,
    correct: bool = False,
) -> Evaluate:
    """Share of inputs averaged rightly, for `meshes.sweep` and `meshes.monte_carlo`.

    The whole grid where it has at most ``samples`` points, as many uniformly drawn ones otherwise.
    """

    def evaluate(found: Sequence[Disturbed], rng: np.random.Generator) -> float:
        network = carried_out(mapped, found, calibrated=calibrated, correct=correct)
        # Inputs are sent, not detected: without a full scale the noise passes them by.
        detected = (np.zeros(network.layers[0]), *network.full_scale[1:])
        network = LayeredNetwork(network.weights, network.biases, network.nonlinearity, detected)
        seed, evaluations = int(rng.integers(1 << 31)), min(function.points, samples)
        return noisy_accuracy(network, function, found[0].how.detector_noise, evaluations, seed)

    return evaluate
