"""VGG. Source: Simonyan, Zisserman, "Very deep convolutional networks" (arXiv 1409.1556), Table 1, columns D and E."""

from __future__ import annotations

from torch import Tensor, nn

from lightloom.workloads.torch.zoo.image import ImageModel

STAGE_CHANNELS = (64, 128, 256, 512, 512)


class VGG(ImageModel):
    """Five stages of 3 x 3 convolutions, each ended by a pooling that halves the image; three fully connected
    layers."""

    def __init__(self, stage_convolutions: tuple[int, ...]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for convolutions, width in zip(stage_convolutions, STAGE_CHANNELS, strict=True):
            for _ in range(convolutions):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(channels * 49, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 1000),
        )

    def forward(self, images: Tensor) -> Tensor:
        y: Tensor = self.classifier(self.features(images).flatten(1))
        return y


def vgg16() -> VGG:
    """13 convolutions."""
    return VGG((2, 2, 3, 3, 3))


def vgg19() -> VGG:
    """16 convolutions."""
    return VGG((2, 2, 4, 4, 4))
