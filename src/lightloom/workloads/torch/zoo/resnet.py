"""ResNet with bottleneck blocks. Source: He et al., "Deep residual learning" (arXiv 1512.03385), Table 1.

x ──► 1x1 ──► 3x3 ──► 1x1 ──► + ──► relu        channels: width, width, 4 width
└──────── (1x1 if shapes differ) ─┘
"""

from __future__ import annotations

from torch import Tensor, nn

from lightloom.workloads.torch.zoo.image import ImageModel

EXPANSION = 4


class Bottleneck(nn.Module):
    """One residual block; the paper halves the image in its first convolution, today's form in its 3 x 3 one."""

    def __init__(self, channels: int, width: int, stride: int, *, stride_first: bool) -> None:
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
        shortcut = x if self.projection is None else self.projection(x)
        x = self.relu(self.norm1(self.conv1(x)))
        x = self.relu(self.norm2(self.conv2(x)))
        y: Tensor = self.relu(self.norm3(self.conv3(x)) + shortcut)
        return y


class ResNet(ImageModel):
    """A stem, four stages of bottlenecks, global average pooling, one fully connected layer; by default ResNet-50.

    Args:
        stage_blocks: blocks of each stage.
        stride_first: the paper's strides (3.86 GMAC of ResNet-50) instead of today's (4.09 GMAC).
    """

    def __init__(self, stage_blocks: tuple[int, ...] = (3, 4, 6, 3), *, stride_first: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
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
        self.fc = nn.Linear(channels, 1000)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        y: Tensor = self.fc(self.pool(x).flatten(1))
        return y
