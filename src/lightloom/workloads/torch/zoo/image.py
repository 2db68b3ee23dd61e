"""What the image models share: their example input, and a convolution with its companions."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ImageModel(nn.Module):
    """A model of square RGB images."""

    image_size = 224

    def example_inputs(self, batch: int) -> tuple[Tensor]:
        """Return images (batch, 3, size, size)."""
        return (torch.empty(batch, 3, self.image_size, self.image_size),)


class Convolution(nn.Module):
    """Convolution, batch normalisation, ReLU; without ``norm`` a convolution with bias and a ReLU."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        norm: bool = True,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, padding, bias=not norm)
        self.norm = nn.BatchNorm2d(out_channels, eps=1e-3) if norm else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.norm(self.conv(x)))
        return y
