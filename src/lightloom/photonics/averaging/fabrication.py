"""Map the matrices of a network to meshes, and compute the network that fabricated meshes implement.

    inputs ──▶ meshes of W_1 ──▶ units f(z + b_1) ──▶ meshes of W_2 ──▶ ... ──▶ receivers (+ b_L)

Amplitudes are in units of each layer's largest full scale. Only matrices become meshes: a bias is added electronically
at the nonlinear unit (`mzi_count(bias=True)` counts an optical bias), and is exact here. Units and receivers detect the
real part of a field; their noise is `NonIdealities.detector_noise` times the signal's full scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.levels import set_levels
from lightloom.photonics.averaging.proved.noise import noisy_accuracy
from lightloom.photonics.averaging.realised.light import Matrix, light_matrices, light_units
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.blocks import MappedBlocks
from lightloom.photonics.meshes.correction import corrected
from lightloom.photonics.meshes.disturb import Disturbed, disturb
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh_mapping import MeshMapping, map_part
from lightloom.photonics.meshes.montecarlo import Evaluate

Calibration = Literal["rows", "matrix", "none"]
"""How amplifiers make up for loss: a factor for each output, one for all outputs of a matrix, or not at all."""
SAMPLES = 400_000
"""Largest number of grid points that one accuracy is measured on."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedNetwork:
    """The meshes of every layer of a network, in the order of the light."""

    network: LayeredNetwork
    matrices: tuple[MappedMatrix | MappedBlocks, ...]

    @property
    def mzis(self) -> int:
        """Number of MZIs in all layers."""
        return sum(matrix.mzis for matrix in self.matrices)

    @property
    def depth(self) -> int:
        """Number of columns of MZIs that the light passes."""
        return sum(matrix.depth for matrix in self.matrices)

    @property
    def gain(self) -> float:
        """Largest amplitude gain of an amplifier."""
        return max(matrix.gain for matrix in self.matrices)

    @cached_property
    def target_matrices(self) -> list[Matrix]:
        """The matrices that ideal devices implement, one for each layer."""
        return light_matrices(self.network)


def map_network(network: LayeredNetwork, mapping: MeshMapping | None = None) -> MappedNetwork:
    """Map every matrix to meshes; the form ``sigma-u`` is an approximation, the others are exact."""
    matrices = (map_part(matrix, mapping) for matrix in light_matrices(network))
    return MappedNetwork(network=network, matrices=tuple(matrices))


def effective_network(
    mapped: MappedNetwork,
    disturbed: Sequence[Disturbed],
    *,
    calibration: Calibration = "rows",
    correct: bool = False,
) -> LayeredNetwork:
    """Return the network that fabricated meshes implement: the same biases, and the weights of the fabricated devices.

    Args:
        mapped: the meshes as designed.
        disturbed: the fabricated meshes of each matrix.
        calibration: whether each amplifier, or all amplifiers of a matrix together, apply the real factor that
            minimises the error. Uniform loss then causes no error.
        correct: whether coupler errors and crosstalk are measured and corrected, see `meshes.corrected`.
    """
    weights, units = [], light_units(mapped.network)
    for layer, (device, target) in enumerate(zip(disturbed, mapped.target_matrices, strict=True)):
        matrix = (corrected(device, real=True) if correct else device).matrix().real
        weights.append(calibrated_matrix(matrix, target, calibration) * (units[layer + 1] / units[layer]))
    network = mapped.network
    return LayeredNetwork(tuple(weights), network.biases, network.nonlinearity, network.full_scale)


def calibrated_matrix(matrix: Matrix, target: Matrix, calibration: Calibration) -> Matrix:
    """Return ``matrix`` [outputs, inputs] times the factors that bring it closest to ``target``."""
    return set_levels(matrix, target, calibration).matrices


def fabricated(
    mapped: MappedNetwork,
    non_idealities: NonIdealities,
    rng: np.random.Generator,
    *,
    calibration: Calibration = "rows",
    correct: bool = False,
) -> LayeredNetwork:
    """Draw devices and return their `effective_network`; the caller adds detector noise, drawn for every detection."""
    disturbed = [disturb(matrix, non_idealities, rng) for matrix in mapped.matrices]
    return effective_network(mapped, disturbed, calibration=calibration, correct=correct)


def averaging_accuracy(
    mapped: MappedNetwork,
    function: AveragingFunction,
    *,
    samples: int = SAMPLES,
    calibration: Calibration = "rows",
    correct: bool = False,
) -> Evaluate:
    """Return the evaluation of the share of inputs averaged correctly, for `meshes.sweep` and `meshes.monte_carlo`.

    All points of the grid are tried if there are at most ``samples``, uniformly drawn points otherwise.
    """

    def evaluate(disturbed: Sequence[Disturbed], rng: np.random.Generator) -> float:
        network = effective_network(mapped, disturbed, calibration=calibration, correct=correct)
        # Inputs are not detected: a full scale of 0 keeps detector noise from them.
        detected = (np.zeros(network.layers[0]), *network.full_scale[1:])
        network = LayeredNetwork(network.weights, network.biases, network.nonlinearity, detected)
        seed, evaluations = int(rng.integers(1 << 31)), min(function.points, samples)
        return noisy_accuracy(network, function, disturbed[0].non_idealities.detector_noise, evaluations, seed)

    return evaluate
