"""Data sets: the published content or one clear line."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lightloom.core.errors import ConfigError
from lightloom.exchange.datasets import VARIABLE, DataFile, data_folder
from lightloom.exchange.datasets import test_digits as read_test_digits

CONTENT = b"digits" * 100
FILE = DataFile(("set/file.gz", "set/file"), hashlib.sha256(CONTENT).hexdigest(), "https://example.org")


def write(folder: Path, name: str, content: bytes) -> None:
    (folder / "set").mkdir(exist_ok=True)
    (folder / "set" / name).write_bytes(content)


@pytest.mark.parametrize("level", [0, 1, 9])
def test_packing_does_not_matter(tmp_path: Path, level: int) -> None:
    write(tmp_path, "file.gz", gzip.compress(CONTENT, level))
    assert FILE.read(tmp_path) == CONTENT
    (tmp_path / "set" / "file.gz").unlink()
    write(tmp_path, "file", CONTENT)
    assert FILE.read(tmp_path) == CONTENT


def test_every_fault_is_one_line_that_names_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    faults: dict[str, Callable[[], object]] = {
        "no data folder: set LIGHTLOOM_DATA": lambda: data_folder(),
        "no data folder '": lambda: data_folder(tmp_path / "absent"),
        "get it from https://example.org": lambda: FILE.read(tmp_path),
    }
    for words, work in faults.items():
        with pytest.raises(ConfigError, match=words):
            work()
    broken = {
        gzip.compress(CONTENT)[:-9]: "ends early",
        b"no gzip": "not a gzip file",
        gzip.compress(b"other"): "SHA-256",
    }
    for content, words in broken.items():
        write(tmp_path, "file.gz", content)
        with pytest.raises(ConfigError, match=words) as caught:
            FILE.read(tmp_path)
        assert "\n" not in str(caught.value) and "file.gz" in str(caught.value)


def test_the_variable_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    write(tmp_path, "file", CONTENT)
    assert FILE.read() == CONTENT


@pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"{VARIABLE} does not name a folder with MNIST")
def test_mnist_is_mnist() -> None:
    digits = read_test_digits()
    assert digits.images.shape == (10_000, 784)
    assert digits.labels[:5].tolist() == [7, 2, 1, 0, 4]
