# mypy: disable-error-code="no-any-return"
"""Inception-v3. Source: Szegedy et al., "Rethinking the Inception architecture" (arXiv 1512.00567), Table 1, figures 5
to 7.

Blocks by the size of their grid: A at 35 x 35, C at 17 x 17 (7 x 7 filters factored into 1 x 7 and 7 x 1), E at 8 x 8
(outputs that fan out), with B and D shrinking the grid between them. Channel counts are those of the widespread
implementation.
"""

from functools import partial

import torch
from torch import Tensor, nn

from lightloom.models.torch.zoo.resnet import Convolution, ImageModel


class Branches(nn.Module):
    """Branches on one input, joined along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """Return what all branches make of x (B, C, H, W), joined along the channels in their order."""
        return torch.cat([branch(x) for branch in self.branches], 1)


def _chain(channels: int, *steps: tuple[int, int, int], stride: int = 1) -> nn.Module:
    """Return a chain of convolutions, one for each step (output channels, kernel height, kernel width), that keep the
    grid; with a ``stride`` above 1 the last one has that stride and no padding.

    ``channels`` are those of the input; a single convolution is returned as it is.
    """
    layers: list[nn.Module] = []
    for index, (out, height, width) in enumerate(steps):
        if stride > 1 and index == len(steps) - 1:
            layers.append(Convolution(channels, out, (height, width), stride=stride))
        else:
            layers.append(Convolution(channels, out, (height, width), padding=(height // 2, width // 2)))
        channels = out
    return layers[0] if len(layers) == 1 else nn.Sequential(*layers)


def _pooled(channels: int, out: int) -> nn.Module:
    """Return an average pooling of 3 x 3 that keeps the grid, followed by a 1 x 1 convolution from ``channels`` to
    ``out`` channels."""
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), Convolution(channels, out, 1))


def _block_a(channels: int, pooled: int) -> nn.Module:
    """Return a block for the 35 x 35 grid, from ``channels`` to 224 + ``pooled`` channels; ``pooled`` are those of its
    pooling branch."""
    return Branches(
        _chain(channels, (64, 1, 1)),
        _chain(channels, (48, 1, 1), (64, 5, 5)),
        _chain(channels, (64, 1, 1), (96, 3, 3), (96, 3, 3)),
        _pooled(channels, pooled),
    )


def _block_b(channels: int) -> nn.Module:
    """Return the block that halves the 35 x 35 grid and adds 480 channels to its ``channels``."""
    deep = _chain(channels, (64, 1, 1), (96, 3, 3), (96, 3, 3), stride=2)
    return Branches(_chain(channels, (384, 3, 3), stride=2), deep, nn.MaxPool2d(3, 2))


def _block_c(channels: int, width: int) -> nn.Module:
    """Return a block for the 17 x 17 grid, from ``channels`` to 768 channels, whose 7 x 7 filters are factored;
    ``width`` channels inside."""
    row, column = (width, 1, 7), (width, 7, 1)
    return Branches(
        _chain(channels, (192, 1, 1)),
        _chain(channels, (width, 1, 1), row, (192, 7, 1)),
        _chain(channels, (width, 1, 1), column, row, column, (192, 1, 7)),
        _pooled(channels, 192),
    )


def _block_d(channels: int) -> nn.Module:
    """Return the block that halves the 17 x 17 grid and adds 512 channels to its ``channels``."""
    deep = _chain(channels, (192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3), stride=2)
    return Branches(_chain(channels, (192, 1, 1), (320, 3, 3), stride=2), deep, nn.MaxPool2d(3, 2))


def _block_e(channels: int) -> nn.Module:
    """Return a block for the 8 x 8 grid, from ``channels`` to 2048 channels, two of whose branches fan out."""

    def fan() -> nn.Module:
        """Return a 1 x 3 and a 3 x 1 convolution side by side, 384 channels each."""
        return Branches(_chain(384, (384, 1, 3)), _chain(384, (384, 3, 1)))

    return Branches(
        _chain(channels, (320, 1, 1)),
        nn.Sequential(_chain(channels, (384, 1, 1)), fan()),
        nn.Sequential(_chain(channels, (448, 1, 1)), _chain(448, (384, 3, 3)), fan()),
        _pooled(channels, 192),
    )


class AuxiliaryHead(nn.Sequential):
    """A second classifier on the last 17 x 17 grid, used in training only."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.AvgPool2d(5, 3), Convolution(channels, 128, 1), Convolution(128, 768, 5), nn.AdaptiveAvgPool2d(1)
        )
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(768, 1000)


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
        """Return logits (B, 1000) of images (B, 3, H, W), followed by those of the auxiliary head if there is one: a
        tuple of one or two tensors."""
        x = self.grid17(self.grid35(self.stem(images)))
        heads = () if self.auxiliary is None else (self.auxiliary(x),)
        x = self.pool(self.grid8(x)).flatten(1)
        return (self.fc(self.dropout(x)), *heads)


# GoogLeNet (Inception-v1), as it was published and as it is built today.
#
# Source: Szegedy et al., "Going deeper with convolutions" (arXiv 1409.4842), Table 1. Today's form adds batch
# normalisation (Ioffe, Szegedy, arXiv 1502.03167) and, as in the widespread weights, has 3 x 3 where the paper has 5 x
# 5.
#
#         ┌─► 1x1 ────────────┐
#     x ──┼─► 1x1 ─► 3x3 ─────┼─► concat
#         ├─► 1x1 ─► 5x5|3x3 ─┤
#         └─► pool ─► 1x1 ────┘

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
        """Return what the four branches make of x (B, C, H, W), joined along the channels."""
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class GooglenetAuxiliaryHead(nn.Sequential):
    """A second classifier on an inner layer, used in training only."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.conv = Convolution(channels, 128, 1)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(128 * 16, 1024)
        self.relu = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(0.7)
        self.fc2 = nn.Linear(1024, 1000)


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
        self.auxiliary = nn.ModuleDict(
            {"4b": GooglenetAuxiliaryHead(512), "4e": GooglenetAuxiliaryHead(528)} if auxiliary else {}
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(channels, 1000)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return logits (B, 1000) of images (B, 3, H, W), followed by those of the two auxiliary heads if there are
        any: a tuple of one or three tensors."""
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
    """Return a max pooling of stride 2 with a square kernel of this size, which rounds the grid up."""
    return nn.MaxPool2d(kernel, 2, ceil_mode=True)
