"""Inception-v3. Source: Szegedy et al., "Rethinking the Inception architecture" (arXiv 1512.00567), Table 1, figures 5
to 7.

Blocks by the size of their grid: A at 35 x 35, C at 17 x 17 (7 x 7 filters factored into 1 x 7 and 7 x 1), E at 8 x 8
(outputs that fan out), with B and D shrinking the grid between them. Channel counts are those of the widespread
implementation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lightloom.workloads.torch.zoo.image import ConvNorm, ImageModel


class Branches(nn.Module):
    """Branches on one input, joined along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _row(channels: int, out: int, length: int) -> ConvNorm:
    return ConvNorm(channels, out, (1, length), padding=(0, length // 2))


def _column(channels: int, out: int, length: int) -> ConvNorm:
    return ConvNorm(channels, out, (length, 1), padding=(length // 2, 0))


def _pooled(channels: int, out: int) -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), ConvNorm(channels, out, 1))


def _block_a(channels: int, pooled: int) -> nn.Module:
    return Branches(
        ConvNorm(channels, 64, 1),
        nn.Sequential(ConvNorm(channels, 48, 1), ConvNorm(48, 64, 5, padding=2)),
        nn.Sequential(ConvNorm(channels, 64, 1), ConvNorm(64, 96, 3, padding=1), ConvNorm(96, 96, 3, padding=1)),
        _pooled(channels, pooled),
    )


def _block_b(channels: int) -> nn.Module:
    return Branches(
        ConvNorm(channels, 384, 3, stride=2),
        nn.Sequential(ConvNorm(channels, 64, 1), ConvNorm(64, 96, 3, padding=1), ConvNorm(96, 96, 3, stride=2)),
        nn.MaxPool2d(3, 2),
    )


def _block_c(channels: int, width: int) -> nn.Module:
    return Branches(
        ConvNorm(channels, 192, 1),
        nn.Sequential(ConvNorm(channels, width, 1), _row(width, width, 7), _column(width, 192, 7)),
        nn.Sequential(
            ConvNorm(channels, width, 1),
            _column(width, width, 7),
            _row(width, width, 7),
            _column(width, width, 7),
            _row(width, 192, 7),
        ),
        _pooled(channels, 192),
    )


def _block_d(channels: int) -> nn.Module:
    return Branches(
        nn.Sequential(ConvNorm(channels, 192, 1), ConvNorm(192, 320, 3, stride=2)),
        nn.Sequential(
            ConvNorm(channels, 192, 1),
            _row(192, 192, 7),
            _column(192, 192, 7),
            ConvNorm(192, 192, 3, stride=2),
        ),
        nn.MaxPool2d(3, 2),
    )


def _block_e(channels: int) -> nn.Module:
    def fan() -> nn.Module:
        return Branches(_row(384, 384, 3), _column(384, 384, 3))

    return Branches(
        ConvNorm(channels, 320, 1),
        nn.Sequential(ConvNorm(channels, 384, 1), fan()),
        nn.Sequential(ConvNorm(channels, 448, 1), ConvNorm(448, 384, 3, padding=1), fan()),
        _pooled(channels, 192),
    )


class AuxiliaryHead(nn.Module):
    """A second classifier on the last 17 x 17 grid, used in training only."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.AvgPool2d(5, 3), ConvNorm(channels, 128, 1), ConvNorm(128, 768, 5), nn.AdaptiveAvgPool2d(1)
        )
        self.fc = nn.Linear(768, 1000)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(self.body(x).flatten(1))
        return y


class InceptionV3(ImageModel):
    """A stem, eleven blocks on three grids, global average pooling, one fully connected layer."""

    image_size = 299

    def __init__(self, *, auxiliary: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            ConvNorm(3, 32, 3, stride=2),
            ConvNorm(32, 32, 3),
            ConvNorm(32, 64, 3, padding=1),
            nn.MaxPool2d(3, 2),
            ConvNorm(64, 80, 1),
            ConvNorm(80, 192, 3),
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


def inception_v3(*, auxiliary: bool = True) -> InceptionV3:
    """299 px; trained with the auxiliary head unless told not to."""
    return InceptionV3(auxiliary=auxiliary)
