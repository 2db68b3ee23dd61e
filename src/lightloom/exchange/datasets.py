"""Where data sets lie, and whether a file is the one that everybody means."""

import hashlib
import io
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Codes
from lightloom.core.documents import MOST_TRACE_BYTES, read_bytes
from lightloom.core.errors import ConfigError
from lightloom.core.files import cannot_read

VARIABLE = "LIGHTLOOM_DATA"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a data set."""

    names: Sequence[str]
    """Paths relative to the data folder, in the order in which they are tried; ``.gz`` is unpacked."""
    sha256: str
    """SHA-256 of the unpacked content, so that a re-packed file passes; empty where none is published."""
    origin: str
    """Address from which users get the file."""

    def find(self, folder: Path | None = None) -> Path:
        """Return the path of the first of ``names`` (paths relative to the data folder, in the order in which they are
        tried) that is a file there; it is not read.

        Args:
            folder: the data folder; ``$LIGHTLOOM_DATA`` unless given.

        Raises:
            ConfigError: there is no folder, or no such file in it.
        """
        root = data_folder(folder)
        path = next((root / name for name in self.names if (root / name).is_file()), None)
        if path is None:
            raise ConfigError(f"{root} has no {' or '.join(self.names)}: get it from {self.origin}")
        return path

    def read(self, folder: Path | None = None) -> bytes:
        """Return the content of the file, unpacked where it is gzip, whatever its name, if the SHA-256 of the unpacked
        content is the published one.

        Args:
            folder: the data folder; ``$LIGHTLOOM_DATA`` unless given.

        Raises:
            ConfigError: no folder, no such file, unreadable, no gzip in spite of its suffix ``.gz``, or not the
                published content.
        """
        path = self.find(folder)
        content = read_bytes(path, MOST_TRACE_BYTES)
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise ConfigError(f"{str(path)!r} has SHA-256 {digest[:16]}…, expected {self.sha256[:16]}…: {self.origin}")
        return content


def data_folder(folder: Path | None = None) -> Path:
    """Return the given data folder, else that of ``$LIGHTLOOM_DATA``.

    Raises:
        ConfigError: neither is given, or it is no folder.
    """
    chosen = folder if folder is not None else Path(os.environ.get(VARIABLE, ""))
    if folder is None and not os.environ.get(VARIABLE):
        raise ConfigError(f"no data folder: set {VARIABLE} to the folder that holds the data sets")
    if not chosen.is_dir():
        raise ConfigError(f"no data folder {str(chosen)!r}: expected the folder that holds the data sets")
    return chosen


# CIFAR-100: 50,000 training and 10,000 test images of 32 x 32 pixels, as its pickles or as its binary version.
#
# Pickles are programs. These are read by an unpickler that knows three harmless names and refuses every other.
# Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009.

CLASSES = 100
SIDE = 32
VALUES = 3 * SIDE * SIDE
FOLDERS = ("cifar-100-python", "cifar-100-binary")
_CIFAR_ORIGIN = "https://www.cs.toronto.edu/~kriz/cifar.html"
_MD5 = {"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"}
"""MD5 sums of the pickles; the files of the binary version have no published sums."""
_COUNTS = {"train": 50_000, "test": 10_000}


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Pixels (n, 3, 32, 32), red, green and blue from 0 to 255, and fine labels (n,), 0 to 99."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.uint8]


def is_there(folder: Path) -> bool:
    """Return whether the data folder holds a folder of CIFAR-100, pickles or binary; its files are not looked at."""
    return any((folder / name).is_dir() for name in FOLDERS)


def read_cifar(part: str, folder: Path | None = None, official: bool = True) -> Images:
    """Return the images of one part of CIFAR-100, pixels uint8 (n, 3, 32, 32) and fine labels uint8 (n,), 0 to 99, from
    the pickle in ``cifar-100-python/``, or, where there is none, the binary file in ``cifar-100-binary/``.

    Args:
        part: ``train`` or ``test``.
        folder: the data folder; ``$LIGHTLOOM_DATA`` unless given.
        official: whether to insist on the published content: the MD5 of a pickle (binary files have none), and the
            number of images, 50,000 or 10,000, of either.

    Raises:
        ConfigError: no folder, no such file, unreadable, malformed, or not the published content.
    """
    path = DataFile((f"{FOLDERS[0]}/{part}", f"{FOLDERS[1]}/{part}.bin"), "", _CIFAR_ORIGIN).find(folder)
    content = read_bytes(path, MOST_TRACE_BYTES)
    if path.suffix == ".bin":
        images = _of_binary(content, str(path))
    else:
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if official and digest != _MD5[part]:
            raise ConfigError(f"{str(path)!r} has MD5 {digest[:12]}…, expected {_MD5[part][:12]}…: {_CIFAR_ORIGIN}")
        images = _of_pickle(content, str(path))
    if official and len(images.labels) != _COUNTS[part]:
        raise ConfigError(f"{str(path)!r} holds {len(images.labels)} images, expected {_COUNTS[part]}: {_CIFAR_ORIGIN}")
    return images


def _of_binary(content: bytes, name: str) -> Images:
    """Return the images of a binary file, whose records are one coarse label (left out), one fine label and 3072
    pixels, a byte each; raises ConfigError, which quotes ``name``, for no bytes, another length or labels above 99."""
    if not content or len(content) % (VALUES + 2):
        raise ConfigError(f"{name!r} has {len(content)} bytes: expected records of {VALUES + 2}")
    records = np.frombuffer(content, np.uint8).reshape(-1, VALUES + 2)
    return _check_images(records[:, 2:], records[:, 1], name)


def _of_pickle(content: bytes, name: str) -> Images:
    """Return the images of a pickled dictionary: ``data``, bytes (n, 3072), and ``fine_labels``, n integers 0 to 99;
    other keys are ignored. An unpickler that calls nothing but NumPy's array functions reads it. Raises ConfigError,
    which quotes ``name``, for anything else."""
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
    return _check_images(pixels, labels, name)


def _check_images(pixels: NDArray[np.uint8], labels: Codes, name: str) -> Images:
    """Return pixels (n, 3072) reshaped to (n, 3, 32, 32) with labels (n,), 0 to 99, as bytes; raises ConfigError, which
    quotes the file's ``name``, where shapes or labels are others."""
    if pixels.ndim != 2 or pixels.shape[1] != VALUES or labels.shape != pixels.shape[:1]:
        raise ConfigError(
            f"{name!r} holds pixels {pixels.shape}, labels {labels.shape}: expected (n, {VALUES}) and (n,)"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < CLASSES:
        raise ConfigError(f"{name!r} holds labels from {labels.min()} to {labels.max()}: expected 0 to {CLASSES - 1}")
    return Images(pixels.reshape(-1, 3, SIDE, SIDE), labels.astype(np.uint8))


def _empty(*_: object) -> NDArray[np.uint8]:
    """Return an empty array whatever the arguments, which a pickle fills by its state."""
    return np.ndarray((0,), np.uint8)


_HARMLESS: dict[tuple[str, str], object] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _empty,
    ("numpy._core.multiarray", "_reconstruct"): _empty,
    ("_codecs", "encode"): lambda text, *_: text.encode("latin1"),  # bytes, as Python 3 writes them into old pickles
}
"""Functions and types that a pickle of NumPy arrays may call, by module and name; all others are refused."""


class _Unpickler(pickle.Unpickler):
    """Unpickles arrays and nothing else."""

    def find_class(self, module: str, name: str) -> object:
        """Return the function or type that a pickle asks for by module and name, if it is one of the few that NumPy
        arrays need; raises ConfigError for every other."""
        if (module, name) not in _HARMLESS:
            raise ConfigError(f"a pickle that asks for {module}.{name}: expected arrays alone; it was not run")
        return _HARMLESS[module, name]


# MNIST: 60,000 training and 10,000 test images of handwritten digits. Source: LeCun, Cortes, Burges (IDX format).

_MNIST_ORIGIN = "http://yann.lecun.com/exdb/mnist/ or any mirror of it"
_IMAGE_HEADER, _LABEL_HEADER = 16, 8
PIXELS = 28 * 28


def _mnist(name: str, sha256: str) -> DataFile:
    """Return the MNIST file ``name`` (as published, without ``.gz``), which is looked for in ``mnist/``, then
    ``MNIST/raw/``, in each packed (``.gz``) before unpacked; ``sha256`` is that of the unpacked content, in
    hexadecimal."""
    return DataFile(
        (f"mnist/{name}.gz", f"mnist/{name}", f"MNIST/raw/{name}.gz", f"MNIST/raw/{name}"), sha256, _MNIST_ORIGIN
    )


TRAIN_IMAGES = _mnist("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db")
TRAIN_LABELS = _mnist("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5")
TEST_IMAGES = _mnist("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7")
TEST_LABELS = _mnist("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")


@dataclass(frozen=True, slots=True)
class Digits:
    """Images (n, 784), grey levels 0 to 255, and labels (n,), 0 to 9."""

    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]


def training_digits(folder: Path | None = None) -> Digits:
    """Return the 60,000 training images of MNIST, uint8 [image, 784], grey levels 0 to 255, with labels 0 to 9, from
    the data folder (``$LIGHTLOOM_DATA`` unless given); raises ConfigError for files that are missing or not the
    published ones."""
    return _digits(TRAIN_IMAGES, TRAIN_LABELS, folder)


def test_digits(folder: Path | None = None) -> Digits:
    """Return the 10,000 test images of MNIST, uint8 [image, 784], grey levels 0 to 255, with labels 0 to 9, from the
    data folder (``$LIGHTLOOM_DATA`` unless given); raises ConfigError for files that are missing or not the published
    ones."""
    return _digits(TEST_IMAGES, TEST_LABELS, folder)


def _digits(images: DataFile, labels: DataFile, folder: Path | None) -> Digits:
    """Return the images (n, 784) and labels (n,), uint8, of two IDX files in the data folder, whose headers are skipped
    unread, as the SHA-256 fixes the shape; raises ConfigError for a file that is missing or not the published one."""
    # The checksum fixes content and shape, so that nothing in the headers is left to check.
    pixels = np.frombuffer(images.read(folder), np.uint8, offset=_IMAGE_HEADER)
    return Digits(pixels.reshape(-1, PIXELS), np.frombuffer(labels.read(folder), np.uint8, offset=_LABEL_HEADER))


# Text as bytes: tinyshakespeare, WikiText-2's small splits, and any plain text of the user's own.
#
# A byte is a token: no vocabulary to learn, store or agree upon, and losses in nats a byte compare across texts.

VOCABULARY = 256
VALIDATION = 0.1
"""Share of a text, at its end, that is used for validation."""

TINY_SHAKESPEARE = DataFile(
    ("tinyshakespeare/input.txt", "tinyshakespeare.txt"),
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    "https://github.com/karpathy/char-rnn (data/tinyshakespeare)",
)
_WIKITEXT_ORIGIN = "https://github.com/pytorch/examples (word_language_model/data/wikitext-2)"
WIKITEXT_2_TEST = DataFile(
    ("wikitext-2/test.txt",), "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", _WIKITEXT_ORIGIN
)
WIKITEXT_2_VALID = DataFile(
    ("wikitext-2/valid.txt",), "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8", _WIKITEXT_ORIGIN
)


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """A text, divided once for all runs."""

    name: str
    training: NDArray[np.uint8]
    """Tokens (n,), one a byte."""
    validation: NDArray[np.uint8]


def tiny_shakespeare(folder: Path | None = None) -> Corpus:
    """Return 1.1 MB of Shakespeare from the data folder (``$LIGHTLOOM_DATA`` unless given) as a corpus, a token (0 to
    255) a byte, its last tenth for validation; raises ConfigError for a file that is missing or not the published
    one."""
    return _divided("tinyshakespeare", TINY_SHAKESPEARE.read(folder))


def wikitext_2(folder: Path | None = None) -> Corpus:
    """Return WikiText-2's test and validation splits, 2.4 MB of Wikipedia, as a corpus, a token (0 to 255) a byte: the
    test split, then nine tenths of the validation split for training, the last tenth of that for validation.

    The training split, five times as large, is not needed at the token budgets that a CPU allows. The files come from
    the data folder (``$LIGHTLOOM_DATA`` unless given); raises ConfigError for one that is missing or not the published
    one.
    """
    end = _divided("wikitext-2", WIKITEXT_2_VALID.read(folder))
    start = np.frombuffer(WIKITEXT_2_TEST.read(folder), np.uint8)
    return Corpus("wikitext-2", np.concatenate([start, end.training]), end.validation)


def plain_text(path: Path) -> Corpus:
    """Return a text of the user's own, such as extracts of Wikipedia, as a corpus named after the file or folder, a
    token (0 to 255) a byte in whatever encoding; its last tenth is for validation.

    Args:
        path: a file, or a folder whose ``.txt`` files, subfolders included, are joined by line feeds in the order of
            their paths.

    Raises:
        ConfigError: no such file, no ``.txt`` in the folder, unreadable, or shorter than 10 bytes.
    """
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"{str(path)!r} holds no .txt file: expected plain text")
    try:
        content = b"\n".join(file.read_bytes() for file in files)
    except OSError as error:
        raise cannot_read(error.filename, error) from error
    if len(content) * VALIDATION < 1:
        raise ConfigError(f"{str(path)!r} holds {len(content)} bytes: too short to be divided")
    return _divided(path.name, content)


def _divided(name: str, content: bytes) -> Corpus:
    """Return a text as a corpus, a token a byte; its last tenth, rounded down, is for validation."""
    tokens = np.frombuffer(content, np.uint8)
    kept = tokens.size - int(tokens.size * VALIDATION)
    return Corpus(name, tokens[:kept], tokens[kept:])
