"""Matrices of squares Σ_a · U_a in torch (OptINC, Fig. 4, eq. 4 to 6): a projection to them, and a parametrisation.

`photonics.meshes.blocks` does the same in NumPy, and tests compare the two.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def cut(matrix: Tensor) -> Tensor:
    """Cut a matrix (outputs, inputs) into squares (count, s, s) along its longer side, which is a multiple of s."""
    outputs, inputs = matrix.shape
    side = min(outputs, inputs)
    if outputs >= inputs:
        return matrix.reshape(-1, side, side)
    return matrix.reshape(side, -1, side).transpose(0, 1)


def join(squares: Tensor, tall: bool) -> Tensor:
    """Join squares (count, s, s) to a matrix, the inverse of `cut`."""
    count, side, _ = squares.shape
    return squares.reshape(count * side, side) if tall else squares.transpose(0, 1).reshape(side, count * side)


@torch.no_grad()
def project_(matrix: Tensor) -> Tensor:
    """Replace every square W by diag(d) U_a in place: U_a = U_s V_sᵀ (eq. 5), d_i = Σ_j W_ij U_a,ij (eq. 6)."""
    squares = cut(matrix)
    u, _, v = torch.linalg.svd(squares)
    unitary = u @ v
    scales = (squares * unitary).sum(-1, keepdim=True)
    return matrix.copy_(join(scales * unitary, matrix.shape[0] >= matrix.shape[1]))


class FreeMatrix(nn.Module):
    """An unrestricted matrix (outputs, inputs), He initialised."""

    def __init__(self, outputs: int, inputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, generator=generator) * (2 / inputs) ** 0.5)

    def forward(self) -> Tensor:
        """Return the matrix (outputs, inputs)."""
        return self.weight


class CayleyMatrix(nn.Module):
    """diag(d) (I + S)⁻¹ (I − S) Q₀ in each square, S = A − Aᵀ: it has the form Σ·U at every step of the training.

    Q₀ is a fixed random rotation; A starts at 0. Rows have the norm that He initialisation gives on average.
    """

    rotation: Tensor
    identity: Tensor

    def __init__(self, outputs: int, inputs: int, generator: torch.Generator) -> None:
        super().__init__()
        side, self.tall = min(outputs, inputs), outputs >= inputs
        count = max(outputs, inputs) // side
        start = torch.linalg.qr(torch.randn(count, side, side, generator=generator))[0]
        self.register_buffer("rotation", start)
        self.register_buffer("identity", torch.eye(side))
        self.generating = nn.Parameter(torch.zeros(count, side, side))
        self.scales = nn.Parameter(torch.full((count, side, 1), (2 * side / inputs) ** 0.5))

    def forward(self) -> Tensor:
        """Return the matrix (outputs, inputs)."""
        skew = self.generating - self.generating.mT
        unitary = torch.linalg.solve(self.identity + skew, (self.identity - skew) @ self.rotation)
        return join(self.scales * unitary, self.tall)
