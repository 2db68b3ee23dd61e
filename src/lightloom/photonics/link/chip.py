"""The averager's chip as the link sees it: passive meshes, the gain of every row, and one fabrication of them.

    lanes ─▶ P ─▶ H_1 ─▶ gains ─▶ units ─▶ H_2 ─▶ ... ─▶ H_L ─▶ gains ─▶ T ─▶ servers

A stage implements its target as diag(gains) · H with a passive H. P has no amplifiers: the servers' lanes are as strong
as it needs. T only divides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.fabrication import light_matrices, light_units, unit_matrices
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.link.units import Units, units_of
from lightloom.photonics.meshes.disturb import disturb
from lightloom.photonics.meshes.layout import Kind
from lightloom.photonics.meshes.mapping import Form, Gains, MappedMatrix, map_matrix

Complex = NDArray[np.complex128]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """A matrix on meshes with a gain behind every output."""

    name: str
    target: Floats
    """What it should implement, [outputs, inputs], in amplitudes relative to full scale."""
    mapped: MappedMatrix
    """Its meshes, and the amplifier of every output."""

    @property
    def gains(self) -> Floats:
        """Amplitude gain of every output, [outputs]."""
        return self.mapped.gains

    def fabricated(self, errors: NonIdealities, rng: np.random.Generator) -> Complex:
        """Return the passive matrix of one fabrication, [outputs, inputs]."""
        return np.asarray(disturb(self.mapped, errors, rng).matrix() / self.gains[:, None])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chip:
    """Meshes, gains, biases and units of an averager."""

    arguments: FunctionArguments
    preprocessing: Stage
    layers: tuple[Stage, ...]
    splitting: Stage
    biases: tuple[Floats, ...]
    """Bias of every output of every layer, relative to full scale."""
    units: tuple[Units, ...]
    """Units behind every layer but the last."""
    output_scale: float
    """Level that the last layer sends at full scale."""

    @property
    def function(self) -> AveragingFunction:
        """The function that is computed."""
        return self.arguments.function()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """P, the layers, T."""
        return (self.preprocessing, *self.layers, self.splitting)

    @property
    def mzis(self) -> int:
        """Number of interferometers."""
        return sum(stage.mapped.mzis for stage in self.stages)

    @property
    def columns(self) -> int:
        """Number of columns of interferometers that the light passes."""
        return sum(stage.mapped.depth for stage in self.stages)

    @property
    def lane_share(self) -> float:
        """Power of a server's lane at P, relative to full scale: what P needs without amplifiers."""
        return float(self.preprocessing.gains.max()) ** 2


def design_chip(
    network: LayeredNetwork,
    arguments: FunctionArguments,
    *,
    form: Form = "svd",
    kind: Kind = "rectangular",
    gains: Gains = "rows",
) -> Chip:
    """Map P, all layers and T.

    Args:
        network: the averaging network.
        arguments: of its function.
        form: form of the mapping, exact ones only.
        kind: kind of the square meshes.
        gains: ``rows``, a gain for each row of a matrix; ``common``, one for all of them.

    Raises:
        ConfigError: the network carries decimals, or the form is an approximation.
        UnknownNameError: the form, the kind of mesh or the kind of gains does not exist.
    """
    if arguments.carries_decimals:
        raise ConfigError("this network carries decimals for a second level: servers cannot receive them")
    if form == "sigma-u":
        raise ConfigError("form 'sigma-u': expected economy or svd, which are exact")
    matrices, units = light_matrices(network), light_units(network)
    around = unit_matrices(arguments)
    largest = max(grid_input.maximum / grid_input.denominator for grid_input in arguments.function().inputs)
    around["P"] = around["P"] * (largest / units[0])
    stages = {
        name: Stage(name=name, target=matrix, mapped=map_matrix(matrix, form, kind, gains))
        for name, matrix in {**around, **{f"layer {i}": matrix for i, matrix in enumerate(matrices, 1)}}.items()
    }
    return Chip(
        arguments=arguments,
        preprocessing=stages["P"],
        layers=tuple(stages[f"layer {i}"] for i in range(1, len(matrices) + 1)),
        splitting=stages["T"],
        biases=tuple(np.asarray(b / unit, np.float64) for b, unit in zip(network.biases, units[1:], strict=True)),
        units=tuple(units_of(network, arguments.function(), units)),
        output_scale=units[-1],
    )
