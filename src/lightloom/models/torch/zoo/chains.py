# mypy: disable-error-code="no-any-return"
"""Networks that are one chain of layers: HDC, LeNet, AlexNet and VGG.

Sources: INCEPTIONN (MICRO 2018), section VII (HDC); LeCun et al., Proc. IEEE 86, 2278 (1998) (LeNet); Krizhevsky, "One
weird trick for parallelizing convolutional neural networks" (arXiv 1404.5997), and Krizhevsky, Sutskever, Hinton,
"ImageNet classification with deep convolutional neural networks" (NIPS 2012) (AlexNet); Simonyan, Zisserman, "Very deep
convolutional networks" (arXiv 1409.1556), Table 1, columns D and E (VGG).
"""

import itertools
import math

import torch
from torch import Tensor, nn

from lightloom.models.torch.zoo.resnet import ImageChain


def _linear(*widths: int) -> list[nn.Module]:
    """Return fully connected layers from each width to the next, with ReLUs between them and none behind the last."""
    layers: list[nn.Module] = []
    for width, following in itertools.pairwise(widths):
        layers += [nn.Linear(width, following), nn.ReLU(inplace=True)]
    return layers[:-1]


class DigitModel(nn.Module):
    """A chain of layers on small images, given flattened and read in the shape that the first layer needs."""

    def __init__(self, layers: list[nn.Module], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.shape = shape

    def forward(self, digits: Tensor) -> Tensor:
        """Return what the layers make of digits (B, values), read as (B, *shape)."""
        return self.layers(digits.view(-1, *self.shape))

    def example_inputs(self, batch: int) -> tuple[Tensor]:
        """Return a tuple of one tensor: uninitialised flattened images (batch, values), as ``forward`` takes them."""
        return (torch.empty(batch, math.prod(self.shape)),)


def hdc(layers: int = 5) -> DigitModel:
    """Return the network of handwritten digit classification with so many weight layers: 784-500-500-500-500-10.

    Five weight layers give 1.149 M parameters (4.6 MB); the 2.5 MB that the paper states would fit three of them.
    """
    return DigitModel(_linear(784, *[500] * (layers - 1), 10), (784,))


def lenet(channels: int = 1, side: int = 28, classes: int = 10) -> DigitModel:
    """Return a LeNet: two 5x5 convolutions to 8 and 16 channels, then fully connected layers to 128 and to the classes;
    ReLUs and maxima, as is usual now.

    Images have ``channels`` channels and ``side`` x ``side`` pixels. It has 37,610 parameters for grey digits of 28 x
    28 pixels.
    """
    layers: list[nn.Module] = []
    for inputs, width in ((channels, 8), (8, 16)):
        layers += [nn.Conv2d(inputs, width, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    left = ((side - 4) // 2 - 4) // 2
    return DigitModel([*layers, nn.Flatten(), *_linear(16 * left**2, 128, classes)], (channels, side, side))


class ConvolutionalChain(ImageChain):
    """Convolutions and pooling, then three fully connected layers."""

    def __init__(self, features: list[nn.Module], classifier: list[nn.Module]) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        self.flatten = nn.Flatten()
        self.classifier = nn.Sequential(*classifier)


def alexnet(*, published: bool = False) -> ConvolutionalChain:
    """Return AlexNet, by default in today's form: one tower of 64-192-384-256-256 channels, no local response
    normalisation; for images of 224 px and 1000 classes.

    Args:
        published: the form of 2012: 96-256-384-384-256 channels, two groups in the convolutions but the first and third
            (one per GPU then), local response normalisation; 224 px need padding 2 to give 55.
    """
    widths = (96, 256, 384, 384, 256) if published else (64, 192, 384, 256, 256)
    groups = (1, 2, 1, 2, 2) if published else (1, 1, 1, 1, 1)
    layers: list[nn.Module] = []
    channels = 3
    for index, (width, kernel, parts) in enumerate(zip(widths, (11, 5, 3, 3, 3), groups, strict=True)):
        stride, padding = 4 if index == 0 else 1, min(kernel // 2, 2)
        layers += [nn.Conv2d(channels, width, kernel, stride, padding, groups=parts), nn.ReLU(inplace=True)]
        if published and index < 2:
            layers.append(nn.LocalResponseNorm(5, alpha=5e-4, k=2.0))
        if index in (0, 1, 4):
            layers.append(nn.MaxPool2d(3, 2))
        channels = width
    linear = _linear(256 * 6 * 6, 4096, 4096, 1000)
    return ConvolutionalChain(layers, [nn.Dropout(), *linear[:2], nn.Dropout(), *linear[2:]])


def vgg(stage_convolutions: tuple[int, ...]) -> ConvolutionalChain:
    """Return a VGG network of five stages of 3 x 3 convolutions to 64, 128, 256, 512 and 512 channels, each stage ended
    by a pooling that halves the image; ``stage_convolutions`` are five numbers of convolutions.

    Three fully connected layers to 1000 classes follow.
    """
    layers: list[nn.Module] = []
    channels = 3
    for convolutions, width in zip(stage_convolutions, (64, 128, 256, 512, 512), strict=True):
        for _ in range(convolutions):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2, 2))
    linear = _linear(channels * 7 * 7, 4096, 4096, 1000)
    return ConvolutionalChain(layers, [*linear[:2], nn.Dropout(), *linear[2:4], nn.Dropout(), linear[4]])
