"""CIFAR-100: both layouts hold the same images, and a pickle never runs."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import ConfigError
from lightloom.exchange.datasets import (
    VALUES,
    Images,
    is_there,
    read_cifar,
)

CHANCE = np.random.default_rng(0)
PIXELS = CHANCE.integers(0, 256, (7, VALUES), dtype=np.uint8)
LABELS = CHANCE.integers(0, 100, 7)


def write_pickle(folder: Path, content: Any, protocol: int = 2) -> Path:
    (folder / "cifar-100-python").mkdir(exist_ok=True)
    path = folder / "cifar-100-python" / "test"
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol))
    return path


def write_binary(folder: Path, content: bytes) -> None:
    (folder / "cifar-100-binary").mkdir(exist_ok=True)
    (folder / "cifar-100-binary" / "test.bin").write_bytes(content)


def same(images: Images) -> bool:
    return bool((images.pixels.reshape(-1, VALUES) == PIXELS).all() and (images.labels == LABELS).all())


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_both_layouts_are_read_alike(tmp_path: Path, protocol: int) -> None:
    assert not is_there(tmp_path)
    coarse = np.zeros((7, 1), np.uint8)
    write_binary(tmp_path, np.hstack([coarse, LABELS[:, None].astype(np.uint8), PIXELS]).tobytes())
    assert same(read_cifar("test", tmp_path, official=False))
    # With both there, the pickle is read.
    write_pickle(tmp_path, {"data": PIXELS[:1], "fine_labels": LABELS[:1].tolist()}, protocol)
    assert len(read_cifar("test", tmp_path, official=False).labels) == 1
    write_pickle(tmp_path, {"data": PIXELS, "fine_labels": LABELS.tolist(), "filenames": ["a"] * 7}, protocol)
    assert same(read_cifar("test", tmp_path, official=False))
    assert is_there(tmp_path)


class Harmful:
    """Would run a command if it were unpickled as usual."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.trace}",)


def test_a_pickle_never_runs(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    path = write_pickle(tmp_path, {"data": Harmful(trace), "fine_labels": []})
    with pytest.raises(ConfigError, match="it was not run"):
        read_cifar("test", tmp_path, official=False)
    assert not trace.exists()
    pickle.loads(path.read_bytes())
    assert trace.exists(), "the trap itself must work"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no pickle", "no pickle of CIFAR-100"),
        ({"data": PIXELS}, "expected a dictionary with data and fine_labels"),
        ({"data": PIXELS.astype(float), "fine_labels": LABELS.tolist()}, "float64 pixels"),
        ({"data": PIXELS[:, 1:], "fine_labels": LABELS.tolist()}, "expected \\(n, 3072\\)"),
        ({"data": PIXELS, "fine_labels": [100] * 7}, "expected 0 to 99"),
        ({"data": PIXELS, "fine_labels": [0]}, "labels \\(1,\\)"),
    ],
)
def test_malformed_pickles_are_one_line(tmp_path: Path, content: Any, words: str) -> None:
    write_pickle(tmp_path, content)
    with pytest.raises(ConfigError, match=words) as caught:
        read_cifar("test", tmp_path, official=False)
    assert "\n" not in str(caught.value)


def test_only_the_published_content_passes_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="get it from https"):
        read_cifar("test", tmp_path)
    write_binary(tmp_path, b"\0" * (VALUES + 2))
    with pytest.raises(ConfigError, match="holds 1 images, expected 10000"):
        read_cifar("test", tmp_path)
    write_binary(tmp_path, b"\0" * VALUES)
    with pytest.raises(ConfigError, match="records of 3074"):
        read_cifar("test", tmp_path, official=False)
    write_pickle(tmp_path, {"data": PIXELS, "fine_labels": LABELS.tolist()})
    with pytest.raises(ConfigError, match="has MD5"):
        read_cifar("test", tmp_path)
