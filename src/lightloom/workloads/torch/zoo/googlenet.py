"""GoogLeNet (Inception-v1), as it was published and as it is built today.

Source: Szegedy et al., "Going deeper with convolutions" (arXiv 1409.4842), Table 1. Today's form adds batch
normalisation (Ioffe, Szegedy, arXiv 1502.03167) and, as in the widespread weights, has 3 x 3 where the paper has 5 x
5.

        ┌─► 1x1 ────────────┐
    x ──┼─► 1x1 ─► 3x3 ─────┼─► concat
        ├─► 1x1 ─► 5x5|3x3 ─┤
        └─► pool ─► 1x1 ────┘
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from lightloom.workloads.torch.zoo.image import Convolution, ImageModel

BLOCKS: dict[str, tuple[int, int, int, int, int, int]] = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Channels of 1x1, the reduction before 3x3, 3x3, the reduction before 5x5, 5x5, and after pooling."""


class Inception(nn.Module):
    """Four branches on one input, joined along the channels."""

    def __init__(self, channels: int, sizes: tuple[int, int, int, int, int, int], *, published: bool) -> None:
        super().__init__()
        one, reduce3, three, reduce5, five, pooled = sizes
        conv, large = partial(Convolution, norm=not published), 5 if published else 3
        self.branch1 = conv(channels, one, 1)
        self.branch2 = nn.Sequential(conv(channels, reduce3, 1), conv(reduce3, three, 3, padding=1))
        self.branch3 = nn.Sequential(conv(channels, reduce5, 1), conv(reduce5, five, large, padding=large // 2))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), conv(channels, pooled, 1))
        self.out_channels = one + three + five + pooled

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class AuxiliaryHead(nn.Module):
    """A second classifier on an inner layer, used in training only."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.conv = Convolution(channels, 128, 1)
        self.fc1 = nn.Linear(128 * 16, 1024)
        self.relu = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(0.7)
        self.fc2 = nn.Linear(1024, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(self.pool(x)).flatten(1)
        y: Tensor = self.fc2(self.dropout(self.relu(self.fc1(x))))
        return y


class GoogLeNet(ImageModel):
    """A stem, nine inception blocks in three stages, global average pooling, one fully connected layer.

    Args:
        published: 5 x 5 in the third branch, biases and local response normalisation, instead of today's form.
        auxiliary: with both auxiliary heads, as in training.
    """

    def __init__(self, *, published: bool = False, auxiliary: bool = True) -> None:
        super().__init__()
        conv = partial(Convolution, norm=not published)
        normalised = [[nn.LocalResponseNorm(5)] if published else [] for _ in range(2)]
        self.stem = nn.Sequential(
            *(conv(3, 64, 7, stride=2, padding=3), _halve(3), *normalised[0]),
            *(conv(64, 64, 1), conv(64, 192, 3, padding=1), *normalised[1], _halve(3)),
        )
        self.blocks = nn.ModuleDict()
        channels = 192
        for name, sizes in BLOCKS.items():
            block = Inception(channels, sizes, published=published)
            self.blocks[name] = block
            channels = block.out_channels
        self.pool3 = _halve(3)
        self.pool4 = _halve(3 if published else 2)
        self.auxiliary = nn.ModuleDict({"4b": AuxiliaryHead(512), "4e": AuxiliaryHead(528)} if auxiliary else {})
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(channels, 1000)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        x = self.stem(images)
        heads = []
        for name, block in self.blocks.items():
            if name == "4a":
                x = self.pool3(x)
            elif name == "5a":
                x = self.pool4(x)
            if name in self.auxiliary:
                heads.append(self.auxiliary[name](x))
            x = block(x)
        return (self.fc(self.dropout(self.pool(x).flatten(1))), *heads)


def _halve(kernel: int) -> nn.Module:
    return nn.MaxPool2d(kernel, 2, ceil_mode=True)
