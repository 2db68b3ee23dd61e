"""HDC, handwritten digit classification. Source: INCEPTIONN (MICRO 2018), section VII: five fully connected layers of
500.

Five weight layers give 1.149 M parameters (4.6 MB); the 2.5 MB that the paper states would fit three of them.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

WIDTHS = (784, 500, 500, 500, 500, 10)


class HDC(nn.Module):
    """28 x 28 grey digits, flattened."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width, following in itertools.pairwise(WIDTHS):
            layers += [nn.Linear(width, following), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, digits: Tensor) -> Tensor:
        y: Tensor = self.layers(digits)
        return y

    def example_inputs(self, batch: int) -> tuple[Tensor]:
        """Digits (batch, 784)."""
        return (torch.empty(batch, WIDTHS[0]),)


def hdc() -> HDC:
    """784-500-500-500-500-10."""
    return HDC()
