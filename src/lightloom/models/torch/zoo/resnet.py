# mypy: disable-error-code="no-any-return"
"""ResNet with bottleneck blocks. Source: He et al., "Deep residual learning" (arXiv 1512.03385), Table 1.

x ──► 1x1 ──► 3x3 ──► 1x1 ──► + ──► relu        channels: width, width, 4 width
└──────── (1x1 if shapes differ) ─┘
"""

import torch
from torch import Tensor, nn

# What the image models share: their example input, and a convolution with its companions.


class ImageModel(nn.Module):
    """A model of square RGB images."""

    image_size = 224

    def example_inputs(self, batch: int) -> tuple[Tensor]:
        """Return uninitialised images (batch, 3, size, size), a tuple of one tensor; size is ``image_size``."""
        return (torch.empty(batch, 3, self.image_size, self.image_size),)


class ImageChain(ImageModel, nn.Sequential):
    """A model of images (B, 3, H, W) whose parts run one after the other."""

    def forward(self, images: Tensor) -> Tensor:
        """Return what the last part makes of the images (B, 3, H, W)."""
        return super().forward(images)  # type: ignore[no-untyped-call]


class Convolution(nn.Sequential):
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
        """Make the layers; ``norm`` replaces the convolution's bias by a batch normalisation."""
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, padding, bias=not norm)
        self.norm = nn.BatchNorm2d(out_channels, eps=1e-3) if norm else nn.Identity()
        self.relu = nn.ReLU(inplace=True)


EXPANSION = 4


class Bottleneck(nn.Module):
    """One residual block; the paper halves the image in its first convolution, today's form in its 3 x 3 one."""

    def __init__(self, channels: int, width: int, stride: int, *, stride_first: bool) -> None:
        """Make a block from ``channels`` to four times ``width``; the shortcut is a convolution where shapes differ."""
        super().__init__()
        first, second = (stride, 1) if stride_first else (1, stride)
        out = width * EXPANSION
        self.conv1 = nn.Conv2d(channels, width, 1, first, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.projection = None
        if stride != 1 or channels != out:
            self.projection = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result, (B, 4 width, H, W), H and W divided by its stride: three convolutions plus the
        shortcut, then a ReLU."""
        shortcut = x if self.projection is None else self.projection(x)
        x = self.relu(self.norm1(self.conv1(x)))
        x = self.relu(self.norm2(self.conv2(x)))
        return self.relu(self.norm3(self.conv3(x)) + shortcut)


class ResNet(ImageChain):
    """A stem, four stages of bottlenecks, global average pooling, one fully connected layer; by default ResNet-50.

    Args:
        stage_blocks: blocks of each stage.
        stride_first: the paper's strides (3.86 GMAC of ResNet-50) instead of today's (4.09 GMAC).
    """

    def __init__(self, stage_blocks: tuple[int, ...] = (3, 4, 6, 3), *, stride_first: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        channels = 64
        for stage, blocks in enumerate(stage_blocks):
            width = 64 << stage
            parts = []
            for index in range(blocks):
                stride = 2 if index == 0 and stage > 0 else 1
                parts.append(Bottleneck(channels, width, stride, stride_first=stride_first))
                channels = width * EXPANSION
            setattr(self, f"layer{stage + 1}", nn.Sequential(*parts))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(channels, 1000)


# DenseNet. Source: Huang et al., "Densely connected convolutional networks" (arXiv 1608.06993), Table 1.
#
# x ─┬─► norm relu 1x1 (4 growth) ─► norm relu 3x3 (growth) ─► concat ──►   each adds ``growth`` channels
#    └────────────────────────────────────────────────────────►┘


class DenseLayer(nn.Module):
    """Adds ``growth`` channels to what it is given."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return x (B, C, H, W) with ``growth`` new channels behind its own."""
        new = self.conv2(self.relu2(self.norm2(self.conv1(self.relu1(self.norm1(x))))))
        return torch.cat([x, new], 1)


class DenseNet(ImageChain):
    """Dense blocks with transitions between them that halve channels and image."""

    def __init__(self, blocks: tuple[int, ...], growth: int = 32) -> None:
        """Make a network of as many dense blocks as ``blocks`` has numbers of layers; each layer adds ``growth``
        channels."""
        super().__init__()
        channels = 2 * growth
        layers: list[nn.Module] = [
            nn.Conv2d(3, channels, 7, 2, 3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        ]
        for index, depth in enumerate(blocks):
            layers.append(nn.Sequential(*(DenseLayer(channels + i * growth, growth) for i in range(depth))))
            channels += depth * growth
            layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
            if index < len(blocks) - 1:
                layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2, 2)]
                channels //= 2
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(channels, 1000)
