"""The two-phase loss of OptINC (eq. 7)."""

from __future__ import annotations

import torch
from torch import Tensor

from lightloom.photonics.onn.recipe import TrainingRecipe


def output_loss(outputs: Tensor, ideal: Tensor, recipe: TrainingRecipe) -> Tensor:
    """Return the loss of the first phase: weighted square errors of raw outputs (batch, M) beyond the margin."""
    deviation = outputs - ideal
    if recipe.margin:
        deviation = (deviation.abs() - recipe.margin).clamp_min(0)
    squares = deviation.square()
    if recipe.output_weights is not None:
        squares = squares * squares.new_tensor(recipe.output_weights)
    return squares.sum(1).mean()


def gradient_loss(outputs: Tensor, ideal: Tensor, recipe: TrainingRecipe) -> Tensor:
    """Return the loss of the second phase: the square error of the gradient Σ_i 4^(M−i) O_i of outputs (batch, M).

    With raw outputs, even a linear network comes within half a step without a single correct digit.
    """
    if recipe.gradient_loss == "straight-through":
        outputs = outputs + (outputs.detach().round().clamp(0, 3) - outputs.detach())
    places = 4.0 ** torch.arange(outputs.shape[1] - 1, -1, -1, device=outputs.device)
    return ((outputs - ideal) @ places).square().mean()
