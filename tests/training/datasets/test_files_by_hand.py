"""Files of data sets: where they are sought, what their checksums refuse, and how small ones are divided."""

from __future__ import annotations

import gzip
import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from lightloom.core.errors import ConfigError
from lightloom.exchange import datasets
from lightloom.exchange.datasets import (
    FOLDERS,
    TEST_LABELS,
    TRAIN_IMAGES,
    VALUES,
    VARIABLE,
    DataFile,
    data_folder,
    is_there,
    plain_text,
    read_cifar,
)


def test_files_are_sought_in_order_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"some content"
    file = DataFile(("b/packed.gz", "a/plain"), hashlib.sha256(content).hexdigest(), "the moon")
    with pytest.raises(ConfigError, match=r"has no b/packed.gz or a/plain: get it from the moon"):
        file.find(tmp_path)
    for folder in "ab":
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "plain").write_bytes(content)
    assert file.find(tmp_path) == tmp_path / "a" / "plain" and file.read(tmp_path) == content
    (tmp_path / "b" / "packed.gz").write_bytes(gzip.compress(content))
    assert file.find(tmp_path) == tmp_path / "b" / "packed.gz"
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert file.read() == content and data_folder() == tmp_path and data_folder(tmp_path / "a") == tmp_path / "a"
    (tmp_path / "b" / "packed.gz").write_bytes(gzip.compress(b"other"))
    wrong = hashlib.sha256(b"other").hexdigest()[:16]
    with pytest.raises(ConfigError, match=f"has SHA-256 {wrong}…, expected {file.sha256[:16]}…: the moon"):
        file.read(tmp_path)


def test_folders_of_data_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ConfigError, match="set LIGHTLOOM_DATA to the folder"):
        data_folder()
    with pytest.raises(ConfigError, match="none': expected the folder"):
        data_folder(tmp_path / "none")
    assert not is_there(tmp_path)
    for name in FOLDERS:
        one = tmp_path / name[-3:]
        (one / name).mkdir(parents=True)
        assert is_there(one)


def test_digits_stand_behind_the_headers_of_their_files(tmp_path: Path) -> None:
    """Two images of 28 x 28 bytes behind 16, two labels behind 8."""
    pixels = np.arange(2 * 784).astype(np.uint8)
    contents = {"images": bytes(range(16)) + pixels.tobytes(), "labels": bytes(8) + bytes([7, 3])}
    files = []
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        files.append(DataFile((name,), hashlib.sha256(content).hexdigest(), ""))
    found = datasets._digits(files[0], files[1], tmp_path)
    assert np.array_equal(found.images, pixels.reshape(2, 784)) and found.labels.tolist() == [7, 3]
    assert TRAIN_IMAGES.names == tuple(
        f"{folder}/train-images-idx3-ubyte{end}" for folder in ("mnist", "MNIST/raw") for end in (".gz", "")
    )
    assert TEST_LABELS.names[0] == "mnist/t10k-labels-idx1-ubyte.gz"


@pytest.mark.parametrize(("length", "kept"), [(10, 9), (19, 18), (20, 18), (101, 91)])
def test_the_last_tenth_of_a_text_is_for_validation(tmp_path: Path, length: int, kept: int) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(bytes(range(length)))
    found = plain_text(path)
    assert found.name == "t.txt" and found.training.tolist() == list(range(kept))
    assert found.validation.tolist() == list(range(kept, length))
    path.write_bytes(bytes(9))
    with pytest.raises(ConfigError, match="holds 9 bytes: too short"):
        plain_text(path)


def test_wikitext_is_the_test_split_and_nine_tenths_of_the_validation_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w").mkdir()
    for name, content in (("TEST", b"abcdefgh"), ("VALID", bytes(range(20)))):
        (tmp_path / "w" / name).write_bytes(content)
        monkeypatch.setattr(
            datasets, f"WIKITEXT_2_{name}", DataFile((f"w/{name}",), hashlib.sha256(content).hexdigest(), "")
        )
    found = datasets.wikitext_2(tmp_path)
    assert found.training.tobytes() == b"abcdefgh" + bytes(range(18))
    assert found.validation.tolist() == [18, 19] and found.name == "wikitext-2"


def test_records_of_the_binary_version(tmp_path: Path) -> None:
    """A coarse label, a fine one and 3072 pixels, of which the first 1024 are red, each row of 32."""
    (tmp_path / FOLDERS[1]).mkdir()
    rows = np.zeros((2, VALUES + 2), np.uint8)
    rows[0, :2], rows[1, :2] = (4, 99), (5, 0)
    rows[0, 2 + 1024 + 32 + 3] = 200
    path = tmp_path / FOLDERS[1] / "test.bin"
    path.write_bytes(rows.tobytes())
    found = read_cifar("test", tmp_path, official=False)
    assert found.labels.tolist() == [99, 0] and found.pixels.shape == (2, 3, 32, 32)
    assert found.pixels[0, 1, 1, 3] == 200 and found.pixels.sum() == 200
    for content in (b"", rows.tobytes()[:-1]):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=f"has {len(content)} bytes: expected records of 3074"):
            read_cifar("test", tmp_path, official=False)
    rows[0, 1] = 100
    path.write_bytes(rows.tobytes())
    with pytest.raises(ConfigError, match="holds labels from 0 to 100: expected 0 to 99"):
        read_cifar("test", tmp_path, official=False)


def test_an_unpickler_of_arrays_calls_nothing_else() -> None:
    with pytest.raises(ConfigError, match=r"a pickle that asks for os.system: expected arrays alone"):
        datasets._Unpickler(io.BytesIO(b"cos\nsystem\n.")).load()
    assert datasets._empty(1, 2).size == 0


def test_labels_are_from_0_to_99() -> None:
    pixels = np.zeros((2, VALUES), np.uint8)
    assert datasets._check_images(pixels, np.array([0, 99]), "x").labels.tolist() == [0, 99]
    for labels in ([-1, 5], [5, 100]):
        with pytest.raises(ConfigError, match=f"holds labels from {min(labels)} to {max(labels)}: expected 0 to 99"):
            datasets._check_images(pixels, np.array(labels), "x")
