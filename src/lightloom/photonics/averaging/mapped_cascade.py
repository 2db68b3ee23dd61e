"""A cascade on meshes: its parts by name, and the share of right averages of fabricated ones.

    servers ─▶ P ─▶ level 1 (a chip for each group) ─▶ P between the levels ─▶ level 2 ─▶ T ─▶ servers

No receiver decides between the levels: what the devices of level 1 do wrong enters level 2 as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightloom.photonics.averaging.cascade import Cascade, random_codes
from lightloom.photonics.averaging.fabrication import (
    SAMPLES,
    Calibration,
    MappedNetwork,
    effective_network,
    map_network,
)
from lightloom.photonics.averaging.realised.light import Matrix, light_matrices
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.meshes.averager_units import preprocessing_matrix, splitting_matrix
from lightloom.photonics.meshes.blocks import MappedBlocks
from lightloom.photonics.meshes.disturb import Disturbed
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh_mapping import MeshMapping
from lightloom.photonics.meshes.montecarlo import Evaluate
from lightloom.photonics.pam4 import LEVELS, symbols_for

NEAR_EQUAL = 0.5
"""Share of the tuples whose codes are within 3 of a common value, where carries are frequent."""
_AT_ONCE = 50_000


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedCascade:
    """The meshes of both levels; every group of level 1 has a chip of the same design."""

    cascade: Cascade
    first: MappedNetwork
    second: MappedNetwork

    @property
    def matrices(self) -> tuple[MappedMatrix | MappedBlocks, ...]:
        """The meshes of every chip: those of level 1 as often as there are groups, then those of level 2."""
        return (*self.first.matrices * self.cascade.groups, *self.second.matrices)

    @property
    def mzis(self) -> int:
        """Number of MZIs of all chips, without P and T."""
        return self.cascade.groups * self.first.mzis + self.second.mzis

    @property
    def depth(self) -> int:
        """Number of columns of MZIs that the light passes in both levels."""
        return self.first.depth + self.second.depth

    @property
    def gain(self) -> float:
        """Largest amplitude gain of an amplifier."""
        return max(self.first.gain, self.second.gain)


def map_cascade(cascade: Cascade, mapping: MeshMapping | None = None) -> MappedCascade:
    """Map the networks of both levels to meshes, as `map_network` does."""
    first, second = (map_network(level.network, mapping) for level in (cascade.first, cascade.second))
    return MappedCascade(cascade=cascade, first=first, second=second)


def cascade_matrices(cascade: Cascade, units: bool = False) -> dict[str, Matrix]:
    """Return the matrices of one chip of each level by name, in the order of the light; P and T with ``units``."""
    named: dict[str, Matrix] = {}
    signals, outputs = symbols_for(cascade.bits), cascade.first.function.outputs
    lanes = {1: (cascade.servers, signals, LEVELS - 1.0), 2: (cascade.groups, outputs, _scale(cascade.first.network))}
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


def cascade_accuracy(
    mapped: MappedCascade, *, samples: int = SAMPLES, calibration: Calibration = "rows", correct: bool = False
) -> Evaluate:
    """Return the evaluation of the share of right averages over random tuples of codes, half of them near-equal.

    The fabrications are those of `MappedCascade.matrices`. P and T are ideal, and so are the units.
    """
    cascade, depth = mapped.cascade, len(mapped.first.matrices)

    def evaluate(disturbed: Sequence[Disturbed], rng: np.random.Generator) -> float:
        sigma = disturbed[0].non_idealities.detector_noise
        chips = [disturbed[start : start + depth] for start in range(0, cascade.groups * depth, depth)]
        firsts = [
            _detected(effective_network(mapped.first, chip, calibration=calibration, correct=correct), received=False)
            for chip in chips
        ]
        last = disturbed[cascade.groups * depth :]
        second = _detected(effective_network(mapped.second, last, calibration=calibration, correct=correct))
        right = 0
        for start in range(0, samples, _AT_ONCE):
            count = min(_AT_ONCE, samples - start)
            codes = random_codes(cascade.groups, cascade.servers, cascade.bits, count, rng, NEAR_EQUAL)
            light = cascade.light(codes, sigma, rng, (firsts, second))
            exact = codes.sum(axis=(0, 1)) // (cascade.groups * cascade.servers)
            right += int((cascade.second.function.decide(light) == exact).sum())
        return right / samples

    return evaluate


def _detected(network: LayeredNetwork, received: bool = True) -> LayeredNetwork:
    """Return the network with noise where light is detected: in its units, and behind it if it is ``received``."""
    scales = [np.zeros(network.layers[0]), *network.full_scale[1:]]
    if not received:
        scales[-1] = np.zeros(network.layers[-1])
    return LayeredNetwork(network.weights, network.biases, network.nonlinearity, tuple(scales))


def _scale(network: LayeredNetwork) -> float:
    return float(network.full_scale[-1].max()) or 1.0
