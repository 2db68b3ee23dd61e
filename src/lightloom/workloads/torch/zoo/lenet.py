"""A LeNet for 28 x 28 digits, after LeCun et al., Proc. IEEE 86, 2278 (1998): two convolutions, two linear layers.

Units are ReLUs and pooling takes maxima, as is usual now; 37,610 parameters.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LeNet(nn.Module):
    """28 x 28 grey digits, flattened."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 5),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 5),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256, 128),
            nn.ReLU(inplace=True),
            nn.Linear(128, 10),
        )

    def forward(self, digits: Tensor) -> Tensor:
        y: Tensor = self.layers(digits.view(-1, 1, 28, 28))
        return y

    def example_inputs(self, batch: int) -> tuple[Tensor]:
        """Digits (batch, 784)."""
        return (torch.empty(batch, 784),)


def lenet() -> LeNet:
    """5x5 convolutions to 8 and 16 channels, 256-128-10."""
    return LeNet()
