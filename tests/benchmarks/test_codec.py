"""The codec benchmark: every adapter gives back what it was given, within its error, and bad input is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.support.codec_report import markdown, verdicts
from benchmarks.training import nic
from numpy.typing import NDArray

from benchmarks import codec
from lightloom.core.errors import ConfigError, UnsupportedError

LOSSLESS = {"memcpy", "snappy", "lz4", "zstd -1", "zstd -3", "blosc2 bitshuffle+lz4", "fpzip"}
BOUNDED = {"inceptionn:2^-10": 2.0**-10, "inceptionn:2^-14": 2.0**-14, "SZ3 2^-10": 1.01 * 2.0**-10}


def gradient(folder: Path, name: str) -> Path:
    path = folder / f"{name}.npy"
    np.save(path, np.random.default_rng(3).laplace(0, 1e-3, 10_000).astype(np.float32))
    return path


def test_every_codec_keeps_its_promise(tmp_path: Path) -> None:
    written = tmp_path / "codec.json"
    codec.main(
        ["--gradients", str(gradient(tmp_path, "early")), "--megabytes", "1", "--rounds", "1", "--json", str(written)]
    )
    found = json.loads(written.read_text())
    assert list(found["data"]) == ["early", "laplace 1e-3"] and found["middle"] == "early"
    for rows in found["data"].values():
        for row in rows:
            assert row["ratio"] > 0 and row["encode_GBps"] > 0 and row["decode_GBps"] > 0
            if row["codec"] in LOSSLESS:
                assert row["largest_error"] == row["relative_l2_error"] == 0, row["codec"]
            assert row["largest_error"] <= BOUNDED.get(row["codec"], np.inf), row["codec"]
    rows = found["data"]["early"]
    assert len(markdown(found).splitlines()) == 2 + len(rows)
    others = [row for row in rows if row["kind"] in ("peer", "cast")]
    assert sum(line.startswith("  ") for line in verdicts(found)) == 2 * len(others)


def test_errors_are_those_of_the_formula() -> None:
    values = np.array([3, 4, 0], np.float32)
    assert codec.errors(values, np.array([3, 4, 5], np.float32)) == {"largest_error": 5.0, "relative_l2_error": 1.0}


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros((2, 2), np.float32), np.zeros(0, np.float32)])
def test_what_is_no_gradient_is_refused(tmp_path: Path, values: NDArray[Any]) -> None:
    np.save(tmp_path / "bad.npy", values)
    with pytest.raises(ConfigError, match=r"bad\.npy.*expected a flat"):
        codec.load(tmp_path / "bad.npy")
    with pytest.raises(ConfigError, match="cannot read"):
        codec.load(tmp_path / "missing.npy")


def test_without_root_the_nic_benchmark_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UnsupportedError, match="needs"):
        nic.main(["--gradient", str(gradient(tmp_path, "middle"))])
