"""Calibrate the chip of every layer of a network, and count how often the average comes out right before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.photonics.averaging.fabrication import MappedNetwork, calibrated_matrix
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proved.noise import noisy_accuracy
from lightloom.photonics.averaging.realised.light import light_units
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.blocks import MappedBlocks
from lightloom.photonics.meshes.calibration import Conditions, Trial, target_of, try_calibration
from lightloom.photonics.meshes.calibration.twin import Fields
from lightloom.photonics.meshes.mapping import MappedMatrix


@dataclass(frozen=True, kw_only=True, eq=False)
class CalibratedNetwork:
    """The chips of all layers, calibrated one by one."""

    trials: Mapping[str, Trial]
    """One for each chip, by layer and block."""
    accuracy_before: float
    """Share of inputs averaged correctly with the phases of ideal devices; amplifiers make up for loss."""
    accuracy_after: float


def calibrate_network(
    mapped: MappedNetwork,
    function: AveragingFunction,
    non_idealities: NonIdealities,
    conditions: Conditions,
    *,
    samples: int,
    seed: int,
    advance: Callable[[int], None],
) -> CalibratedNetwork:
    """Fabricate and calibrate the chips of each layer, one for each of its blocks.

    Coherent light is assumed at the inputs of each layer, detectors at its outputs, and homodyne units whose local
    oscillators follow the output phases and that detect real parts.
    """
    layers, conditions = [blocks_of(matrix) for matrix in mapped.matrices], replace(conditions, real=True)
    trials = [
        [
            try_calibration(chip, non_idealities, conditions, seed + 1000 * layer + block, advance)
            for block, chip in enumerate(chips)
        ]
        for layer, chips in enumerate(layers, 1)
    ]
    accuracies = []
    for matrices in (
        [[trial.before_matrix for trial in chips] for chips in trials],
        [[trial.after_matrix for trial in chips] for chips in trials],
    ):
        network = _implemented(mapped, matrices)
        accuracies.append(noisy_accuracy(network, function, 0.0, min(function.points, samples), seed))
    return CalibratedNetwork(
        trials={
            f"layer {layer}" + (f", block {block}" if len(chips) > 1 else ""): trial
            for layer, chips in enumerate(trials, 1)
            for block, trial in enumerate(chips, 1)
        },
        accuracy_before=accuracies[0],
        accuracy_after=accuracies[1],
    )


def blocks_of(matrix: MappedMatrix | MappedBlocks) -> tuple[MappedMatrix, ...]:
    """Return the blocks of a matrix, each of which is a chip."""
    return matrix.blocks if isinstance(matrix, MappedBlocks) else (matrix,)


def _implemented(mapped: MappedNetwork, matrices: Sequence[Sequence[Fields]]) -> LayeredNetwork:
    """Return the network of these passive matrices, behind them homodyne units and settable amplifiers."""
    weights, units = [], light_units(mapped.network)
    for layer, (part, passive, target) in enumerate(
        zip(mapped.matrices, matrices, mapped.target_matrices, strict=True)
    ):
        amplified = [_amplified(chip, matrix) for chip, matrix in zip(blocks_of(part), passive, strict=True)]
        matrix = part.joined(amplified).real if isinstance(part, MappedBlocks) else amplified[0]
        weights.append(calibrated_matrix(matrix, target, "rows") * (units[layer + 1] / units[layer]))
    network = mapped.network
    return LayeredNetwork(tuple(weights), network.biases, network.nonlinearity, network.full_scale)


def _amplified(chip: MappedMatrix, matrix: Fields) -> Floats:
    """Return the real parts that receivers detect behind the amplifiers, [outputs, inputs]."""
    phases = np.exp(1j * np.angle(np.einsum("oi,oi->o", matrix.conj(), target_of(chip))))
    return np.asarray(chip.gains[:, None] * (phases[:, None] * matrix).real)
