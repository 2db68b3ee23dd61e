"""A whole averager on meshes: P, every layer of its network, and T.

    senders ─▶ P ─▶ H_1 ─▶ + b/g ─▶ gains g ─▶ units ─▶ H_2 ─▶ ... ─▶ H_L ─▶ + b/g ─▶ gains g ─▶ T ─▶ receivers

Every matrix is diag(g) · H with passive meshes H. Biases are subtracted before the gain: behind it, the peak would be
that of the whole sum (48² full scales in front of the first bias of a network for 4 servers and 8 bits).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.fabrication import MappedNetwork, map_network
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.light import Matrix, light_biases, unit_matrices
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.meshes.blocks import MappedBlocks, crossings
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh_mapping import MeshMapping, map_part

Part = MappedMatrix | MappedBlocks


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedAverager:
    """Meshes of P, of every layer and of T, in the order of the light."""

    arguments: FunctionArguments
    layers: MappedNetwork
    preprocessing: Part
    """Meshes of P, from servers · signals lanes to the network's inputs; its gains are below 1: lanes may be weaker."""
    splitting: Part
    """Meshes of T, from the network's outputs to servers · signals lanes."""

    @property
    def network(self) -> LayeredNetwork:
        """The network between P and T."""
        return self.layers.network

    @property
    def function(self) -> AveragingFunction:
        """The function that the averager computes."""
        return self.arguments.function()

    @property
    def parts(self) -> dict[str, Part]:
        """Meshes by name, ``P``, ``layer 1``, ..., ``T``, as phase files have them."""
        layers = {f"layer {index}": matrix for index, matrix in enumerate(self.layers.matrices, 1)}
        return {"P": self.preprocessing, **layers, "T": self.splitting}

    @property
    def matrices(self) -> tuple[Part, ...]:
        """Meshes of P, the layers and T."""
        return tuple(self.parts.values())

    @property
    def targets(self) -> dict[str, Matrix]:
        """The matrix that each part implements, in units of amplitude."""
        units = unit_matrices(self.arguments)
        layers = {f"layer {index}": matrix for index, matrix in enumerate(self.layers.target_matrices, 1)}
        return {"P": units["P"], **layers, "T": units["T"]}

    @property
    def mzis(self) -> int:
        """Number of MZIs, with P and T."""
        return sum(part.mzis for part in self.parts.values())

    @property
    def depth(self) -> int:
        """Number of columns of MZIs that the light passes, with P and T."""
        return sum(part.depth for part in self.parts.values())

    @property
    def gain(self) -> float:
        """Largest amplitude gain of an amplifier."""
        return self.layers.gain

    @property
    def crossings(self) -> int:
        """Number of crossings of waveguides between the meshes, with lanes of the servers in order at both ends."""
        return part_crossings(list(self.parts.values()))

    @property
    def guide_crossings(self) -> list[Ints]:
        """Crossings on the waveguide of every input of each part, and of every output of T."""
        return guide_crossings(list(self.parts.values()))

    @property
    def bias_fields(self) -> list[Matrix]:
        """Bias of every output of every layer, added in front of its amplifier, in units of amplitude."""
        return [
            bias / matrix.gains for bias, matrix in zip(light_biases(self.network), self.layers.matrices, strict=True)
        ]


def map_averager(
    network: LayeredNetwork, arguments: FunctionArguments, mapping: MeshMapping | None = None
) -> MappedAverager:
    """Map P, every layer and T to meshes. With ``sigma-u`` the layers are approximated, and P and T are exact (svd).

    Raises:
        ConfigError: the network carries decimals, which servers cannot receive.
    """
    if arguments.carries_decimals:
        raise ConfigError("the network carries decimals for a second level: it has no T to servers")
    chosen = MeshMapping() if mapping is None else mapping
    layers = map_network(network, chosen)
    preprocessing, splitting = (map_part(matrix, chosen.around()) for matrix in unit_matrices(arguments).values())
    return MappedAverager(arguments=arguments, layers=layers, preprocessing=preprocessing, splitting=splitting)


def part_crossings(parts: list[Part]) -> int:
    """Return the crossings before, between and behind ``parts``; the waveguides before and behind are in order.

    Nonlinear units stand wherever their waveguide is, so that the outputs of a part and the inputs of the next one need
    a single permutation.
    """
    return sum(int(counts.sum()) for counts in guide_crossings(parts)) // 2


def guide_crossings(parts: list[Part]) -> list[Ints]:
    """Return how often each waveguide crosses others: [inputs] in front of every part, then [outputs] behind the last.

    Each crossing counts for both of its waveguides.
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
    """Return the waveguides of one side of a part from its upper to its lower edge."""
    if isinstance(part, MappedBlocks):
        guides: tuple[Ints, ...] = getattr(part, side)
        return np.concatenate(guides) if guides else np.empty(0, np.int64)
    return np.arange(part.shape[0 if side == "outputs" else 1])
