"""CIFAR-100: 50,000 training and 10,000 test images of 32 x 32 pixels, as its pickles or as its binary version.

Pickles are programs. These are read by an unpickler that knows three harmless names and refuses every other.
Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Codes
from lightloom.core.errors import ConfigError
from lightloom.training.datasets.folder import read_first

CLASSES = 100
SIDE = 32
VALUES = 3 * SIDE * SIDE
FOLDERS = ("cifar-100-python", "cifar-100-binary")
_ORIGIN = "https://www.cs.toronto.edu/~kriz/cifar.html"
_MD5 = {"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"}
"""Of the pickles; the files of the binary version have no published sums of their own."""
_COUNTS = {"train": 50_000, "test": 10_000}


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Pixels (n, 3, 32, 32), red, green and blue from 0 to 255, and fine labels (n,), 0 to 99."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.uint8]


def is_there(folder: Path) -> bool:
    """Whether the data folder holds CIFAR-100 in either version."""
    return any((folder / name).is_dir() for name in FOLDERS)


def read(part: str, folder: Path | None = None, official: bool = True) -> Images:
    """One part of the data set, from ``cifar-100-python/`` or ``cifar-100-binary/``.

    Args:
        part: ``train`` or ``test``.
        folder: the data folder; ``$LIGHTLOOM_DATA`` unless given.
        official: whether to insist on the published content (checksum of pickles, size of binary files).

    Raises:
        ConfigError: no folder, no such file, unreadable, malformed, or not the published content.
    """
    path, content = read_first((f"{FOLDERS[0]}/{part}", f"{FOLDERS[1]}/{part}.bin"), folder, _ORIGIN)
    if path.suffix == ".bin":
        images = _of_binary(content, str(path))
    else:
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if official and digest != _MD5[part]:
            raise ConfigError(f"{str(path)!r} has MD5 {digest[:12]}…, expected {_MD5[part][:12]}…: {_ORIGIN}")
        images = _of_pickle(content, str(path))
    if official and len(images.labels) != _COUNTS[part]:
        raise ConfigError(f"{str(path)!r} holds {len(images.labels)} images, expected {_COUNTS[part]}: {_ORIGIN}")
    return images


def _of_binary(content: bytes, name: str) -> Images:
    """Records of one coarse label, one fine label and 3072 pixels."""
    if not content or len(content) % (VALUES + 2):
        raise ConfigError(f"{name!r} has {len(content)} bytes: expected records of {VALUES + 2}")
    records = np.frombuffer(content, np.uint8).reshape(-1, VALUES + 2)
    return _checked(records[:, 2:], records[:, 1], name)


def _of_pickle(content: bytes, name: str) -> Images:
    try:
        document = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except ConfigError as error:
        raise ConfigError(f"{name!r}: {error}") from error
    except Exception as error:
        raise ConfigError(f"{name!r} is no pickle of CIFAR-100: {error}") from error
    if not isinstance(document, dict) or not {"data", "fine_labels"} <= document.keys():
        raise ConfigError(f"{name!r}: expected a dictionary with data and fine_labels")
    pixels, labels = np.asarray(document["data"]), np.asarray(document["fine_labels"])
    if pixels.dtype != np.uint8 or labels.dtype.kind not in "iu":
        raise ConfigError(
            f"{name!r} holds {pixels.dtype} pixels and {labels.dtype} labels: expected bytes and integers"
        )
    return _checked(pixels, labels, name)


def _checked(pixels: NDArray[np.uint8], labels: Codes, name: str) -> Images:
    if pixels.ndim != 2 or pixels.shape[1] != VALUES or labels.shape != pixels.shape[:1]:
        raise ConfigError(
            f"{name!r} holds pixels {pixels.shape}, labels {labels.shape}: expected (n, {VALUES}) and (n,)"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < CLASSES:
        raise ConfigError(f"{name!r} holds labels from {labels.min()} to {labels.max()}: expected 0 to {CLASSES - 1}")
    return Images(pixels.reshape(-1, 3, SIDE, SIDE), labels.astype(np.uint8))


class _Unpickler(pickle.Unpickler):
    """Knows what NumPy arrays are made of, and nothing else."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return np.dtype
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return _empty
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        raise ConfigError(f"a pickle that asks for {module}.{name}: expected arrays alone; it was not run")


def _empty(*_: object) -> NDArray[np.uint8]:
    """The array that a pickle fills by its state."""
    return np.ndarray((0,), np.uint8)


def _latin1(text: str, *_: object) -> bytes:
    """Bytes, as Python 3 writes them into old pickles."""
    return text.encode("latin1")
