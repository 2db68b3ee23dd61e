"""``lightloom compress`` and compressed plans, from the command line to the document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.compression.registry import find
from tests.cli.commands import assert_refused, lightloom

VALUES = np.random.default_rng(0).laplace(scale=1e-3, size=200_001).astype(np.float32)


@pytest.fixture(autouse=True)
def _own_profiles(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache without profiles, but with the graphs that other runs have traced; rates measured on few values."""
    from lightloom.core.files import cache_directory

    monkeypatch.setattr("lightloom.exchange.compression.profile._RATE_VALUES", 1 << 12)
    shared = cache_directory() / "workloads"
    own = tmp_path_factory.mktemp("cache")
    if shared.is_dir():
        (own / "workloads").symlink_to(shared)
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(own))


@pytest.mark.parametrize("suffix", [".npy", ".bin"])
def test_files_there_and_back(suffix: str, tmp_path: Path) -> None:
    source = tmp_path / f"values{suffix}"
    np.save(source, VALUES.reshape(3, -1)) if suffix == ".npy" else source.write_bytes(VALUES.tobytes())
    assert lightloom("compress", "file", source.name, "stream.llgc", folder=tmp_path).code == 0
    assert (tmp_path / "stream.llgc").read_bytes() == bytes(Inceptionn().encode(VALUES))
    done = lightloom("compress", "file", "stream.llgc", f"back{suffix}", folder=tmp_path)
    assert done.code == 0 and "200,001 values from inceptionn:2^-10" in done.out
    back = tmp_path / f"back{suffix}"
    decoded = np.load(back) if suffix == ".npy" else np.frombuffer(back.read_bytes(), np.float32)
    assert np.array_equal(decoded, Inceptionn().round_trip(VALUES))


def test_streams_of_blocks_say_how_they_are_decompressed(tmp_path: Path) -> None:
    VALUES.tofile(tmp_path / "values.bin")
    for name in ("int8", "int4:64", "lloyd2"):
        codec = find(name)
        done = lightloom("compress", "file", "values.bin", "stream", "--codec", name, folder=tmp_path)
        assert done.code == 0 and (tmp_path / "stream").read_bytes() == bytes(codec.encode(VALUES))
        done = lightloom("compress", "file", "stream", "back.npy", folder=tmp_path)
        assert done.code == 0 and f"200,001 values from {codec.name}" in done.out
        assert np.array_equal(np.load(tmp_path / "back.npy"), codec.round_trip(VALUES))


def test_a_stream_says_its_codec_and_former_spellings_warn(tmp_path: Path) -> None:
    (tmp_path / "stream").write_bytes(bytes(Inceptionn().encode(VALUES)))
    twice = lightloom("compress", "file", "stream", "out", "--codec", "int8", folder=tmp_path)
    assert_refused(twice, "'stream' is compressed, and says by which codec")
    old = lightloom("compress", "decompress", "stream", "old.npy", folder=tmp_path)
    assert old.code == 0 and np.array_equal(np.load(tmp_path / "old.npy"), Inceptionn().round_trip(VALUES))
    assert old.err.startswith("warning: `compress decompress` is spelt `compress file` now")


def test_a_spoilt_stream_leaves_no_file(tmp_path: Path) -> None:
    stream = bytes(Inceptionn().encode(VALUES))
    for name, data, complaint in (
        ("short", stream[:-1], "ends early: 196608 of 200001 values"),
        ("flipped", stream[:5000] + bytes([stream[5000] ^ 1]) + stream[5001:], "frame 0 of 4 is not valid"),
        ("head", stream[:20], "a stream begins with 24 bytes"),
        ("none", b"no stream of ours, but long enough", "expected raw float32, four bytes a value"),
    ):
        (tmp_path / name).write_bytes(data)
        assert_refused(lightloom("compress", "file", name, "out.npy", folder=tmp_path), complaint)
        assert not [each for each in tmp_path.iterdir() if "out" in each.name]


def test_files_that_are_no_floats(tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", VALUES.astype(np.float64))
    (tmp_path / "odd.bin").write_bytes(b"12345")
    for name, complaint in (("wide.npy", "holds float64, expected float32"), ("odd.bin", "four bytes a value")):
        assert_refused(lightloom("compress", "file", name, "out", folder=tmp_path), complaint)
    assert not (tmp_path / "out").exists()


def _profiled(folder: Path, *options: str) -> dict[str, Any]:
    done = lightloom("compress", "profile", "hdc", "--set", "steps=2", "--json", *options, folder=folder)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


@pytest.mark.long
def test_from_a_profile_to_a_plan_that_says_when_compression_loses(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    plan = ["plan", "hdc", "--cluster", "inceptionn-4", "--strategy", "ddp", "--algorithm", "ring"]
    plan += ["--exchange", "inceptionn:bound=2^-10", "--json"]
    assert_refused(lightloom(*plan), "make one with: lightloom compress profile hdc --codec inceptionn:2^-10")
    found = _profiled(tmp_path, "--out", "profile.json")
    assert found["schema"] == "lightloom.compression-profile/1" and "random inputs" in found["gradients"]
    [codec] = found["codecs"]
    sums = [codec["sums"][str(2**k)] for k in range(7)]
    assert sums == sorted(sums, reverse=True) and sums[0] == codec["steps"]["2"], "larger sums compress less"
    assert 0 < codec["host"][0]["encode_message"] < 1e-3
    assert codec["codec"] == "inceptionn:2^-10" and set(codec["tensors"]) >= {"layers.0.weight"}
    # A codec of one value a second, so that the outcome does not depend on this machine.
    (tmp_path / "slow.yaml").write_text("{placement: host, encode: 4, decode: 4, source: made up}")
    for engine, outcome in (("nic", "wins"), ("slow.yaml", "loses")):
        done = lightloom(*plan, "--exchange-engine", engine, folder=tmp_path)
        assert done.code == 0, done.err
        document = json.loads(done.out)
        rows = [row["compression"] for row in document["ranking"] if row["choice"]["recomputation"] == "none"]
        assert len(rows) == 2 and None in rows
        row = next(each for each in rows if each)
        assert row["outcome"] == outcome and row["ratio"] < codec["whole"]["ratio"], "sums take more bytes"
        assert row["source"].startswith("measured: random inputs") and row["engine"] == engine.removesuffix(".yaml")
        assert row["compressed_bytes"] == pytest.approx(row["gradient_bytes"] / row["ratio"], rel=1e-3)
        assert ("loses" if outcome == "loses" else "saves") in document["explanation"]
    (tmp_path / "other.json").write_text((tmp_path / "profile.json").read_text().replace('"hdc"', '"lenet"'))
    other = [*plan, "--exchange-profile", "other.json"]
    assert_refused(lightloom(*other, folder=tmp_path), "is the profile of lenet with 1,149,010 parameters, not of hdc")
    narrow = [*plan[:-2], "inceptionn:bound=2^-8", "--exchange-profile", "profile.json"]
    assert_refused(lightloom(*narrow, folder=tmp_path), "has no inceptionn:2^-8, only inceptionn:2^-10")


def test_gradients_of_another_model_or_not_finite_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    np.save(tmp_path / "short.npy", VALUES)
    spoilt = np.zeros(1_149_010, np.float32)
    spoilt[7] = np.nan
    np.save(tmp_path / "nan.npy", spoilt)
    (tmp_path / "text.npy").write_text("no array")
    for name, complaint in (
        ("short.npy", "hold 200,001 values; hdc has 1,149,010 parameters"),
        ("nan.npy", "1 of 1149010 are NaN or infinite"),
        ("text.npy", "not a .npy file of numbers"),
    ):
        done = lightloom("compress", "profile", "hdc", "--gradients", name, "--out", "p.json", folder=tmp_path)
        assert_refused(done, complaint)
    assert not (tmp_path / "p.json").exists()


def test_gradients_of_several_files_are_added_up_where_their_tensors_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    monkeypatch.setattr("lightloom.exchange.compression.profile._RATE_VALUES", 1 << 12)
    halves = np.split(np.full(1_149_010, 1e-3, np.float32), 2)
    for name in ("one", "two"):
        np.save(tmp_path / f"{name}.npy", np.concatenate(halves))
    np.savez(tmp_path / "first.npz", a=halves[0], b=halves[1])
    np.savez(tmp_path / "other.npz", a=halves[0], c=halves[1])
    run = ("compress", "profile", "hdc", "--codec", "truncate:16", "--json", "--out", "p.json")
    done = lightloom(*run, "--gradients", "one.npy", "--gradients", "two.npy", folder=tmp_path)
    assert done.code == 0, done.err
    [codec] = json.loads(done.out)["codecs"]
    assert set(codec["sums"]) == {"1", "2"} and set(codec["tensors"]) == {"one"}
    done = lightloom(*run, "--gradients", "first.npz", "--gradients", "other.npz", folder=tmp_path)
    assert_refused(done, "'other.npz': expected the tensors of 'first.npz'")


@pytest.mark.long
def test_a_table_and_a_page_show_exchanges(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    page = tmp_path / "report.html"
    done = lightloom(
        "plan",
        "hdc",
        "--cluster",
        "inceptionn-4",
        "--exchange",
        "inceptionn",
        "--exchange-ratio",
        "8",
        "--exchange-engine",
        "nic",
        "--explain",
        "--report",
        str(page),
    )
    assert done.code == 0, done.err
    assert "exchange" in done.out and "given, not measured" in " ".join(done.out.split())
    text = page.read_text()
    assert "times fewer bytes than float32" in text and "given, not measured" in text and "saves" in text
