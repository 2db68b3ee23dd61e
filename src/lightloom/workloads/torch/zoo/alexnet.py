"""AlexNet, as it is built today and as it was published.

Sources: Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (arXiv 1404.5997) for
today's single tower; Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks"
(NIPS 2012).
"""

from __future__ import annotations

from torch import Tensor, nn

from lightloom.workloads.torch.zoo.image import ImageModel


class AlexNet(ImageModel):
    """Convolutions, then three fully connected layers on 6 x 6 positions."""

    def __init__(self, features: nn.Sequential, channels: int) -> None:
        super().__init__()
        self.features = features
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Linear(channels * 36, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, 1000),
        )

    def forward(self, images: Tensor) -> Tensor:
        y: Tensor = self.classifier(self.features(images).flatten(1))
        return y


def alexnet() -> AlexNet:
    """Today's form: one tower of 64-192-384-256-256 channels, no local response normalisation."""
    return AlexNet(
        nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
        ),
        channels=256,
    )


def alexnet_2012() -> AlexNet:
    """The published form: two groups (one per GPU then), local response normalisation; 224 px need padding 2 to give
    55."""
    return AlexNet(
        nn.Sequential(
            nn.Conv2d(3, 96, 11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.LocalResponseNorm(5, alpha=5e-4, k=2.0),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(96, 256, 5, padding=2, groups=2),
            nn.ReLU(inplace=True),
            nn.LocalResponseNorm(5, alpha=5e-4, k=2.0),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(256, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 384, 3, padding=1, groups=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1, groups=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
        ),
        channels=256,
    )
