"""Inception-v3. Source: Szegedy et al., "Rethinking the Inception architecture" (arXiv 1512.00567), Table 1, figures 5
to 7.

Blocks by the size of their grid: A at 35 x 35, C at 17 x 17 (7 x 7 filters factored into 1 x 7 and 7 x 1), E at 8 x 8
(outputs that fan out), with B and D shrinking the grid between them. Channel counts are those of the widespread
implementation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lightloom.workloads.torch.zoo.image import Convolution, ImageModel


class Branches(nn.Module):
    """Branches on one input, joined along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _chain(channels: int, *steps: tuple[int, int, int], stride: int = 1) -> nn.Module:
    """Convolutions of (output channels, kernel height, kernel width) that keep the grid, but for a last one with
    ``stride`` 2."""
    layers: list[nn.Module] = []
    for index, (out, height, width) in enumerate(steps):
        if stride > 1 and index == len(steps) - 1:
            layers.append(Convolution(channels, out, (height, width), stride=stride))
        else:
            layers.append(Convolution(channels, out, (height, width), padding=(height // 2, width // 2)))
        channels = out
    return layers[0] if len(layers) == 1 else nn.Sequential(*layers)


def _pooled(channels: int, out: int) -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), Convolution(channels, out, 1))


def _block_a(channels: int, pooled: int) -> nn.Module:
    return Branches(
        _chain(channels, (64, 1, 1)),
        _chain(channels, (48, 1, 1), (64, 5, 5)),
        _chain(channels, (64, 1, 1), (96, 3, 3), (96, 3, 3)),
        _pooled(channels, pooled),
    )


def _block_b(channels: int) -> nn.Module:
    deep = _chain(channels, (64, 1, 1), (96, 3, 3), (96, 3, 3), stride=2)
    return Branches(_chain(channels, (384, 3, 3), stride=2), deep, nn.MaxPool2d(3, 2))


def _block_c(channels: int, width: int) -> nn.Module:
    row, column = (width, 1, 7), (width, 7, 1)
    return Branches(
        _chain(channels, (192, 1, 1)),
        _chain(channels, (width, 1, 1), row, (192, 7, 1)),
        _chain(channels, (width, 1, 1), column, row, column, (192, 1, 7)),
        _pooled(channels, 192),
    )


def _block_d(channels: int) -> nn.Module:
    deep = _chain(channels, (192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3), stride=2)
    return Branches(_chain(channels, (192, 1, 1), (320, 3, 3), stride=2), deep, nn.MaxPool2d(3, 2))


def _block_e(channels: int) -> nn.Module:
    def fan() -> nn.Module:
        return Branches(_chain(384, (384, 1, 3)), _chain(384, (384, 3, 1)))

    return Branches(
        _chain(channels, (320, 1, 1)),
        nn.Sequential(_chain(channels, (384, 1, 1)), fan()),
        nn.Sequential(_chain(channels, (448, 1, 1)), _chain(448, (384, 3, 3)), fan()),
        _pooled(channels, 192),
    )


class AuxiliaryHead(nn.Module):
    """A second classifier on the last 17 x 17 grid, used in training only."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.AvgPool2d(5, 3), Convolution(channels, 128, 1), Convolution(128, 768, 5), nn.AdaptiveAvgPool2d(1)
        )
        self.fc = nn.Linear(768, 1000)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(self.body(x).flatten(1))
        return y


class InceptionV3(ImageModel):
    """A stem, eleven blocks on three grids, global average pooling, one fully connected layer; 299 px.

    Args:
        auxiliary: with the auxiliary head, as in training.
    """

    image_size = 299

    def __init__(self, *, auxiliary: bool = True) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            Convolution(3, 32, 3, stride=2),
            Convolution(32, 32, 3),
            Convolution(32, 64, 3, padding=1),
            nn.MaxPool2d(3, 2),
            Convolution(64, 80, 1),
            Convolution(80, 192, 3),
            nn.MaxPool2d(3, 2),
        )
        self.grid35 = nn.Sequential(_block_a(192, 32), _block_a(256, 64), _block_a(288, 64))
        self.grid17 = nn.Sequential(_block_b(288), *(_block_c(768, width) for width in (128, 160, 160, 192)))
        self.auxiliary = AuxiliaryHead(768) if auxiliary else None
        self.grid8 = nn.Sequential(_block_d(768), _block_e(1280), _block_e(2048))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout()
        self.fc = nn.Linear(2048, 1000)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        x = self.grid17(self.grid35(self.stem(images)))
        heads = () if self.auxiliary is None else (self.auxiliary(x),)
        x = self.pool(self.grid8(x)).flatten(1)
        return (self.fc(self.dropout(x)), *heads)
