"""The averager's chip as the link sees it: passive meshes, the gain of every row, and one fabrication of them.

    lanes ─▶ P ─▶ H_1 ─▶ gains ─▶ units ─▶ H_2 ─▶ ... ─▶ H_L ─▶ gains ─▶ T ─▶ servers

A matrix is diag(gains) · H with a passive H. P has no amplifiers: the servers' lanes are as strong as it needs. T only
divides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.mapped_averager import MappedAverager, Part, map_averager
from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.light import light_biases, light_units
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.link.calibration import Statistics, word_statistics
from lightloom.photonics.link.units import Units, units_of
from lightloom.photonics.meshes.disturb import disturb
from lightloom.photonics.meshes.mesh_mapping import BALANCED, MeshMapping

Complex = NDArray[np.complex128]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chip:
    """Meshes, gains, biases and units of an averager."""

    mapped: MappedAverager
    units: tuple[Units, ...]
    """Units behind every layer but the last."""
    statistics: tuple[Statistics, ...]
    """Of the signals that enter P, every layer but the first, and T."""

    @property
    def arguments(self) -> FunctionArguments:
        """Arguments of the function."""
        return self.mapped.arguments

    @property
    def function(self) -> AveragingFunction:
        """The function that is computed."""
        return self.mapped.function

    @property
    def layers(self) -> tuple[Part, ...]:
        """Meshes of the layers."""
        return self.mapped.layers.matrices

    @property
    def biases(self) -> list[Floats]:
        """Bias of every output of every layer, relative to full scale."""
        return light_biases(self.mapped.network)

    @property
    def input_scale(self) -> float:
        """Field that the first layer reads where P gives full scale: 1 unless the network's own scale differs."""
        largest = max(grid_input.maximum / grid_input.denominator for grid_input in self.function.inputs)
        return float(largest / light_units(self.mapped.network)[0])

    @property
    def output_scale(self) -> float:
        """Level that the last layer sends at full scale."""
        return light_units(self.mapped.network)[-1]

    @property
    def lane_share(self) -> float:
        """Power of a server's lane at P, relative to full scale: what P needs without amplifiers."""
        return float(self.mapped.preprocessing.gains.max()) ** 2


def design_chip(network: LayeredNetwork, arguments: FunctionArguments, mapping: MeshMapping = BALANCED) -> Chip:
    """Map P, all layers and T, as `map_averager` does; the default bears errors best.

    Raises:
        ConfigError: the network carries decimals, or the form is an approximation.
    """
    mapped = map_averager(network, arguments, mapping.exact())
    function = arguments.function()
    return Chip(
        mapped=mapped,
        units=tuple(units_of(network, function, light_units(network))),
        statistics=tuple(word_statistics(network, arguments, function)),
    )


def fabricated(part: Part, errors: NonIdealities, rng: np.random.Generator) -> Complex:
    """Return the passive matrix of one fabrication, [outputs, inputs]."""
    return np.asarray(disturb(part, errors, rng).matrix() / part.gains[:, None])
