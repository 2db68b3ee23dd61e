"""DenseNet. Source: Huang et al., "Densely connected convolutional networks" (arXiv 1608.06993), Table 1.

x ─┬─► norm relu 1x1 (4 growth) ─► norm relu 3x3 (growth) ─► concat ──►   each adds ``growth`` channels
   └────────────────────────────────────────────────────────►┘
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lightloom.workloads.torch.zoo.image import ImageModel


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
        new = self.conv2(self.relu2(self.norm2(self.conv1(self.relu1(self.norm1(x))))))
        return torch.cat([x, new], 1)


class DenseNet(ImageModel):
    """Dense blocks with transitions between them that halve channels and image."""

    def __init__(self, blocks: tuple[int, ...], growth: int = 32) -> None:
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
        self.classifier = nn.Linear(channels, 1000)

    def forward(self, images: Tensor) -> Tensor:
        y: Tensor = self.classifier(self.pool(self.features(images)).flatten(1))
        return y
