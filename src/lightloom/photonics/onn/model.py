"""The network of a recipe in torch, with noise, and its export to plain weights."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from lightloom.photonics.averaging.proved.noise import with_measured_full_scale
from lightloom.photonics.averaging.realised.networks import LayeredNetwork
from lightloom.photonics.meshes.blocks import approximate
from lightloom.photonics.onn.recipe import TrainingRecipe
from lightloom.photonics.onn.squares import CayleyMatrix, FreeMatrix, project_


@dataclass
class Noise:
    """Gaussian noise of standard deviation ``sigma`` times each signal's full scale."""

    sigma: float
    full_scale: list[Tensor]
    """Largest signals of each layer over the grid, (n,): hidden layers, then outputs."""
    generator: torch.Generator

    def __call__(self, signal: Tensor, scale: Tensor | float) -> Tensor:
        """Return ``signal`` (batch, n) with noise."""
        draws = torch.randn(signal.shape, generator=self.generator, device=signal.device)
        return signal + draws * (scale * self.sigma)


class OpticalNetwork(nn.Module):
    """Network from light A_k (batch, K) to levels (batch, M); the first layer sees centred inputs 2 A / A_max − 1."""

    def __init__(self, recipe: TrainingRecipe, generator: torch.Generator) -> None:
        super().__init__()
        self.recipe = recipe
        self.largest = max(i.maximum / i.denominator for i in recipe.function.inputs)
        self.matrices = nn.ModuleList()
        self.biases = nn.ParameterList()
        for layer, (inputs, outputs) in enumerate(zip(recipe.layers, recipe.layers[1:], strict=False), 1):
            cayley = recipe.form == "cayley" and layer in recipe.approximated
            self.matrices.append((CayleyMatrix if cayley else FreeMatrix)(outputs, inputs, generator))
            self.biases.append(nn.Parameter(torch.rand(outputs, generator=generator) - 0.5))

    def forward(
        self, light: Tensor, noise: Noise | None = None, fabricate: Callable[[list[Tensor]], list[Tensor]] | None = None
    ) -> Tensor:
        """Return the outputs, (batch, M)."""
        return self.signals(light, noise, fabricate)[-1]

    def signals(
        self, light: Tensor, noise: Noise | None = None, fabricate: Callable[[list[Tensor]], list[Tensor]] | None = None
    ) -> list[Tensor]:
        """Return the signals of hidden layers before noise, and the outputs with noise.

        ``fabricate`` replaces the matrices by what erring devices implement; biases stay as designed, that of the
        centred inputs included.
        """
        if noise is not None:
            light = noise(light, self.largest)
        designed: list[Tensor] = [matrix() for matrix in self.matrices]
        matrices = designed if fabricate is None else fabricate(designed)
        signal, biases = light * (2 / self.largest) - 1, list(self.biases)
        if fabricate is not None:
            signal, biases[0] = light * (2 / self.largest), self.biases[0] - designed[0].sum(1)
        signals, last = [], len(self.matrices) - 1
        for layer, (matrix, bias) in enumerate(zip(matrices, biases, strict=True)):
            signal = torch.nn.functional.linear(signal, matrix, bias)
            if layer < last:
                signal = signal.clamp(0, 1) if self.recipe.nonlinearity == "clipped" else signal.relu()
            signals.append(signal)
            if noise is not None:
                signal = noise(signal, full_scale_of(noise.full_scale[layer], signal))
        return [*signals[:-1], signal]

    @torch.no_grad()
    def full_scales(self, light: Tensor, chunk: int = 8192) -> list[Tensor]:
        """Return each layer's largest signals over ``light`` (n, K): hidden layers, outputs."""
        chunks = [[s.abs().amax(0) for s in self.signals(part)] for part in torch.split(light, chunk)]
        return [torch.stack(layer).amax(0) for layer in zip(*chunks, strict=True)]

    def project_(self) -> None:
        """Project every approximated matrix that training moves away from its form."""
        for layer in self.recipe.approximated:
            matrix = self.matrices[layer - 1]
            if isinstance(matrix, FreeMatrix):
                project_(matrix.weight)

    @torch.no_grad()
    def export(self) -> LayeredNetwork:
        """Return the network with plain float64 weights and measured full scales.

        Approximated matrices are projected, in float64, so that they are Σ·U to rounding. The centring of the inputs
        goes into the first layer; it is one factor for all of them, which changes Σ only.
        """
        double = deepcopy(self).double().cpu()
        weights = [np.asarray(matrix().detach().numpy()) for matrix in double.matrices]
        biases = [np.asarray(bias.detach().numpy()) for bias in double.biases]
        for layer in self.recipe.approximated:
            weights[layer - 1] = approximate(weights[layer - 1])
        biases[0] = biases[0] - weights[0].sum(axis=1)
        weights[0] = weights[0] * (2 / self.largest)
        network = LayeredNetwork.of(weights, biases, self.recipe.nonlinearity)
        return with_measured_full_scale(network, self.recipe.function)


def full_scale_of(full_scale: Tensor, signal: Tensor) -> Tensor:
    """Return the full scale (n,) with the gradient of the largest signals of a batch (batch, n).

    Training may then lower peaks, to which the noise is relative.
    """
    largest = signal.abs().amax(0)
    return full_scale + (largest - largest.detach())
