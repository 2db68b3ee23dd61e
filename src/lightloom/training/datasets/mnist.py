"""MNIST: 60,000 training and 10,000 test images of handwritten digits. Source: LeCun, Cortes, Burges (IDX format)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lightloom.training.datasets.folder import DataFile

_ORIGIN = "http://yann.lecun.com/exdb/mnist/ or any mirror of it"
_IMAGE_HEADER, _LABEL_HEADER = 16, 8
PIXELS = 28 * 28


def _file(name: str, sha256: str) -> DataFile:
    return DataFile((f"mnist/{name}.gz", f"mnist/{name}", f"MNIST/raw/{name}.gz", f"MNIST/raw/{name}"), sha256, _ORIGIN)


TRAIN_IMAGES = _file("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db")
TRAIN_LABELS = _file("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5")
TEST_IMAGES = _file("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7")
TEST_LABELS = _file("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")


@dataclass(frozen=True, slots=True)
class Digits:
    """Images (n, 784), grey levels 0 to 255, and labels (n,), 0 to 9."""

    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]


def training_digits(folder: Path | None = None) -> Digits:
    """The 60,000 training images; raises as ``DataFile.read`` does."""
    return _digits(TRAIN_IMAGES, TRAIN_LABELS, folder)


def test_digits(folder: Path | None = None) -> Digits:
    """The 10,000 test images; raises as ``DataFile.read`` does."""
    return _digits(TEST_IMAGES, TEST_LABELS, folder)


def _digits(images: DataFile, labels: DataFile, folder: Path | None) -> Digits:
    # The checksum fixes content and shape, so that nothing in the headers is left to check.
    pixels = np.frombuffer(images.read(folder), np.uint8, offset=_IMAGE_HEADER)
    return Digits(pixels.reshape(-1, PIXELS), np.frombuffer(labels.read(folder), np.uint8, offset=_LABEL_HEADER))
