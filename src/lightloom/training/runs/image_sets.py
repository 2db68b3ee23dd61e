"""The labelled images that a network of a training run learns from, by the network's name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lightloom.core.arrays import Ints
from lightloom.core.errors import UnknownNameError
from lightloom.training.datasets import cifar
from lightloom.training.datasets.mnist import Digits, test_digits, training_digits
from lightloom.workloads.torch.zoo.chains import hdc, lenet

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "hdc": hdc,
    "lenet": lenet,
    "lenet-cifar": partial(lenet, 3, cifar.SIDE, cifar.CLASSES),
}
"""Networks by name; ``lenet-cifar`` learns CIFAR-100, the others MNIST."""


class ImageSets(NamedTuple):
    """What a network learns from, and what it is judged by."""

    training: Digits
    test: Digits


def network(name: str) -> nn.Module:
    """Return a network with new weights.

    Raises:
        UnknownNameError: no network has that name; the message lists all.
    """
    if name not in NETWORKS:
        raise UnknownNameError("network", name, NETWORKS)
    return NETWORKS[name]()


def image_sets(name: str, folder: Path | None) -> ImageSets:
    """Return the images of a network, flattened (n, values), from the data folder.

    Raises:
        ConfigError: the data set is missing, or not as published.
    """
    if name != "lenet-cifar":
        return ImageSets(training_digits(folder), test_digits(folder))
    return ImageSets(*(_flattened(cifar.read(part, folder)) for part in ("train", "test")))


def _flattened(images: cifar.Images) -> Digits:
    return Digits(images.pixels.reshape(len(images.labels), -1), images.labels)


def rank_part(images: Digits, rank: int, ranks: int) -> Digits:
    """Return the images of one rank: every N-th, beginning with its own number."""
    return Digits(images.images[rank::ranks], images.labels[rank::ranks])


def tensors(images: Digits, chosen: Ints) -> tuple[Tensor, Tensor]:
    """Return the chosen images, scaled to 0 … 1, and their labels."""
    values = torch.from_numpy(images.images[chosen]).to(torch.float32) / 255
    return values, torch.from_numpy(images.labels[chosen]).to(torch.int64)
