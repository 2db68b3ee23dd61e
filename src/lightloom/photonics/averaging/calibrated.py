"""Calibrate the chip of every layer of a network, and count how often the average comes out right before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lightloom.core.errors import UnsupportedError
from lightloom.photonics.averaging.fabrication import MappedNetwork, calibrated_matrix, light_units
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proved.noise import noisy_accuracy
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.calibration import Conditions, Trial, target_of, try_calibration
from lightloom.photonics.meshes.mapping import MappedMatrix


@dataclass(frozen=True, kw_only=True, eq=False)
class CalibratedNetwork:
    """The chips of all layers, calibrated one by one."""

    trials: tuple[Trial, ...]
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
    """Fabricate and calibrate the chip of each layer.

    Coherent light is assumed at the inputs of each layer, detectors at its outputs, and homodyne units whose local
    oscillators follow the output phases and that detect real parts.

    Raises:
        UnsupportedError: a layer is mapped to several blocks.
    """
    chips, conditions = list(chips_of(mapped)), replace(conditions, real=True)
    trials = tuple(
        try_calibration(chip, non_idealities, conditions, seed + 1000 * layer, advance)
        for layer, chip in enumerate(chips)
    )
    accuracies = []
    for matrices in ([trial.before_matrix for trial in trials], [trial.after_matrix for trial in trials]):
        network = _implemented(mapped, chips, matrices)
        accuracies.append(noisy_accuracy(network, function, 0.0, min(function.points, samples), seed))
    return CalibratedNetwork(trials=trials, accuracy_before=accuracies[0], accuracy_after=accuracies[1])


def chips_of(mapped: MappedNetwork) -> Iterator[MappedMatrix]:
    """Yield the chip of each layer.

    Raises:
        UnsupportedError: a layer is mapped to several blocks.
    """
    for layer, matrix in enumerate(mapped.matrices, 1):
        if not isinstance(matrix, MappedMatrix):
            raise UnsupportedError(f"layer {layer} consists of several blocks: calibrate the form economy or svd")
        yield matrix


def _implemented(
    mapped: MappedNetwork, chips: Sequence[MappedMatrix], matrices: Sequence[NDArray[np.complex128]]
) -> LayeredNetwork:
    """Return the network of these passive matrices, behind them homodyne units and settable amplifiers."""
    weights, units = [], light_units(mapped.network)
    for layer, (chip, matrix, target) in enumerate(zip(chips, matrices, mapped.target_matrices, strict=True)):
        phases = np.exp(1j * np.angle(np.einsum("oi,oi->o", matrix.conj(), target_of(chip))))
        amplified = chip.gains[:, None] * (phases[:, None] * matrix).real
        weights.append(calibrated_matrix(amplified, target, "rows") * (units[layer + 1] / units[layer]))
    network = mapped.network
    return LayeredNetwork(tuple(weights), network.biases, network.nonlinearity, network.full_scale)
