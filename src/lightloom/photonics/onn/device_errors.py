"""Training through the meshes: the weights that devices with drawn errors carry out, with a gradient to the design.

    W ──▶ meshes and gains ──▶ devices drawn for this batch ──▶ W' = W + g(W) e

The forward pass runs on W', the real part of what the fabricated meshes implement, so that phase errors, couplers,
loss, crosstalk and the rounding of phases act as they do in `onn disturb`. The backward pass goes through W', as light
sent back through the chip would. How far row i is off is proportional to the gain g_i of its amplifier, |row i| times
the largest singular value of the rows brought to length 1; g has a gradient, e = (W' − W) / g is held fixed. Training
thus sees that long rows, and rows that point the same way, cost tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lightloom.photonics.averaging.fabrication import calibrated_matrix
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.disturb import disturbed_devices, fabricate, neighbours, quantised
from lightloom.photonics.meshes.mapping import MappedMatrix, map_matrix
from lightloom.photonics.meshes.mesh import Mesh, by_columns
from lightloom.photonics.onn.recipe import TrainingRecipe

REMAP_EVERY = 20
"""Steps for which the design's meshes are kept: in so many it moves by far less than the devices' errors move it."""
_SHORTEST_ROW = 1e-9


class DrawnDevices:
    """Draws the devices of every step; a step's draws depend on the seed and the number of the step alone."""

    def __init__(self, recipe: TrainingRecipe) -> None:
        self._recipe = recipe
        self._designed: list[Tensor] = []
        self._chip: Chip | None = None
        self._directions: list[tuple[Tensor, Tensor]] = []

    def __call__(self, matrices: Sequence[Tensor], step: int) -> list[Tensor]:
        """Return the matrices (outputs, inputs) that devices drawn for ``step`` implement."""
        recipe = self._recipe
        assert recipe.devices is not None
        if self._chip is None or step % REMAP_EVERY == 0:
            self._designed = [matrix.detach().clone() for matrix in matrices]
            plain = [np.asarray(matrix.cpu().double()) for matrix in self._designed]
            self._directions = [strongest_directions(matrix) for matrix in self._designed]
            self._chip = Chip([map_matrix(matrix, recipe.mesh_form) for matrix in plain], plain)
        fabricated = self._chip.fabricate(recipe.devices, np.random.default_rng((recipe.seed, step)))
        drawn = []
        parts = zip(matrices, self._designed, fabricated, self._directions, strict=True)
        for matrix, designed, weights, directions in parts:
            error = torch.from_numpy(weights).to(designed) - designed
            gains = row_gains(matrix, *directions)
            drawn.append(matrix + (gains / gains.detach())[:, None] * error)
        return drawn


def strongest_directions(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first singular vectors (outputs,) and (inputs,) of a matrix whose rows are brought to length 1."""
    lengths = matrix.norm(dim=1).clamp_min(_SHORTEST_ROW)
    left, _, right = torch.linalg.svd(matrix / lengths[:, None], full_matrices=False)
    return left[:, 0].contiguous(), right[0].contiguous()


def row_gains(matrix: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return the amplitude gain behind every output of a matrix (outputs, inputs), (outputs,), with its gradient.

    ``left`` and ``right`` are its `strongest_directions`, held fixed: a singular value changes to first order as if its
    vectors did not turn.
    """
    lengths = matrix.norm(dim=1).clamp_min(_SHORTEST_ROW)
    gains: Tensor = lengths * (left @ (matrix / lengths[:, None]) @ right)
    return gains


@dataclass(frozen=True, slots=True)
class _PlacedMesh:
    """A mesh on fabricated devices [mzis, 2, 2]."""

    mesh: Mesh
    devices: NDArray[np.complex128]
    output_phases: NDArray[np.float64]

    @property
    def inputs(self) -> int:
        """Number of input modes."""
        return self.mesh.inputs

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields [outputs, ...] of input fields [inputs, ...]."""
        return by_columns(self.mesh.layout, self.devices, self.output_phases, fields)


class Chip:
    """All meshes of a network, fabricated at once: the same devices as `disturb` makes, in a tenth of its time."""

    def __init__(self, mapped: Sequence[MappedMatrix], designed: Sequence[NDArray[np.float64]]) -> None:
        self._mapped, self._designed = tuple(mapped), tuple(designed)
        meshes = [mesh for matrix in mapped for mesh in (matrix.input_mesh, matrix.output_mesh) if mesh is not None]
        columns = [matrix.attenuator_phases for matrix in mapped]
        parts = [(mesh.theta, mesh.phi, neighbours(mesh.layout)) for mesh in meshes]
        parts += [(theta, phi, np.ones(max(theta.size - 1, 0), np.bool_)) for theta, phi in columns]
        self._theta = np.concatenate([theta for theta, _, _ in parts])
        self._phi = np.concatenate([phi for _, phi, _ in parts])
        # No heater of one part warms the next part.
        beside = [np.append(below, False) if theta.size else below[:0] for theta, _, below in parts]
        self._beside = np.concatenate(beside)[:-1]
        self._ends = [0, *np.cumsum([theta.size for theta, _, _ in parts])]
        self._meshes = meshes
        self._outputs = [0, *np.cumsum([mesh.outputs for mesh in meshes])]

    def fabricate(self, non_idealities: NonIdealities, rng: np.random.Generator) -> list[NDArray[np.float64]]:
        """Return the matrices (outputs, inputs) of one fabrication, amplifiers set to come closest to the design."""
        fabrication = fabricate(self._theta.size, self._outputs[-1], non_idealities, rng)
        devices = disturbed_devices(self._theta, self._phi, self._beside, non_idealities, fabrication)
        parts = [devices[start:end] for start, end in pairwise(self._ends)]
        placed = {}
        for mesh, part, (start, end) in zip(self._meshes, parts, pairwise(self._outputs), strict=False):
            phases = quantised(mesh.output_phases, non_idealities.dac_bits) + fabrication.output_error[start:end]
            placed[id(mesh)] = _PlacedMesh(mesh, part, phases)
        columns = [part[:, 0, 0] for part in parts[len(self._meshes) :]]
        made = []
        for matrix, column, designed in zip(self._mapped, columns, self._designed, strict=True):
            inner = placed[id(matrix.input_mesh)].propagate(np.eye(matrix.shape[1]))
            behind = matrix.output_mesh and placed[id(matrix.output_mesh)]
            made.append(calibrated_matrix(matrix.behind(inner, column, behind).real, designed, "rows"))
        return made
