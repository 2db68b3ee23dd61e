"""Profiles: what they say follows from the codec, they survive their file, and a wrong file is one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.exchange.compression.inceptionn import Inceptionn, group_bits
from lightloom.exchange.compression.profile import (
    CompressionProfile,
    Gradients,
    Sample,
    cache_path,
    engine_rates,
    host_rates,
    measure_codecs,
    read_gradients,
    read_profile,
    store_profile,
)
from lightloom.exchange.compression.registry import find
from lightloom.exchange.compression.truncation import Truncation


def gradients(seed: int = 0, scale: float = 1e-3, values: int = 5000) -> Gradients:
    rng = np.random.default_rng(seed)
    drawn = rng.laplace(scale=scale, size=values).astype(np.float32)
    return {"first.weight": drawn[:4000], "first.bias": drawn[4000:4100], "last.weight": drawn[4100:]}


def profile(*codecs: str, steps: int = 2) -> CompressionProfile:
    named = [Sample(step, 1, gradients(step)) for step in range(1, steps + 1)]
    return measure_codecs("hdc", 5000, named, [find(name) for name in codecs or ("inceptionn:2^-10",)], "drawn")


@pytest.fixture(autouse=True)
def _short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightloom.exchange.compression.profile._RATE_VALUES", 1 << 12)


@given(st.integers(1, 14), st.sampled_from([1e-4, 1e-2, 1.0]))
@settings(max_examples=10)
def test_figures_follow_from_tags_and_bound(k: int, scale: float) -> None:
    codec = Inceptionn(2.0**-k)
    found = measure_codecs("m", 5000, [Sample(1, 1, gradients(0, scale))], [codec], "drawn").codecs[0]
    for fit in [found.whole, *found.tensors.values()]:
        assert fit.tags is not None and sum(fit.tags) == fit.values
        assert fit.max_error < codec.bound or scale == 1.0
        assert -1 <= fit.cosine <= 1 + 1e-9
        # Tags of 16 bits in groups of eight, then codes; a last group that is not full pads its tags.
        bits = sum(count * size for count, size in zip(fit.tags, (2, 10, 18, 34), strict=True))
        if fit is not found.whole:
            assert 32 * fit.values / fit.ratio == pytest.approx(bits, abs=16)
    assert sum(fit.values for fit in found.tensors.values()) == found.whole.values == 5000
    assert found.whole.tags == tuple(np.sum([fit.tags or () for fit in found.tensors.values()], axis=0))
    assert found.engine is not None and found.engine.encode <= 3.2e9 * (1 + 1e-9)


def test_steps_add_up_and_are_told_apart() -> None:
    found = profile("inceptionn:2^-10", "truncate:16", steps=3)
    inceptionn, truncate = found.codecs
    assert set(inceptionn.steps) == {1, 2, 3} and inceptionn.whole.values == 15000
    assert min(inceptionn.steps.values()) <= inceptionn.whole.ratio <= max(inceptionn.steps.values())
    assert truncate.whole.tags is None and truncate.engine is None
    assert truncate.whole.ratio == pytest.approx(2, rel=0.01) and truncate.whole.relative_l2_error < 2**-7


def test_what_is_zero_or_lost_altogether_has_figures_too() -> None:
    nothing = {"zero": np.zeros(64, np.float32), "lost": np.full(64, 1e-9, np.float32)}
    fits = measure_codecs("m", 128, [Sample(1, 1, nothing)], [Inceptionn()], "drawn").codecs[0].tensors
    assert (fits["zero"].relative_l2_error, fits["zero"].cosine) == (0, 1)
    assert (fits["lost"].relative_l2_error, fits["lost"].cosine) == (1, 0)


@pytest.mark.parametrize("block", [1, 2, 8])
def test_the_largest_error_is_that_of_the_worst_value(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its last 16 bits 1 + 2^-8 is 1; the others lose half as much, or nothing."""
    monkeypatch.setattr("lightloom.exchange.compression.profile._BLOCK", block)
    values = np.array([1, 1 + 2**-9, -1 - 2**-8, 1.5], np.float32)
    found = measure_codecs("m", 4, [Sample(1, 1, {"a": values})], [Truncation(16)], "drawn").codecs[0]
    assert found.whole.max_error == found.tensors["a"].max_error == 2**-8


@pytest.mark.parametrize(
    ("samples", "complaint"),
    [
        ([Sample(3, 1, {"a": np.empty(0, np.float32)})], "step 3 hold no values"),
        ([Sample(1, 1, gradients()), Sample(2, 1, {})], "step 2 hold no values"),
        ([Sample(2, 2, gradients())], "step 2 is a sum of 2 gradients: expected a single one before"),
        ([Sample(2, 2, gradients()), Sample(3, 1, gradients())], "step 2 is a sum"),
        ([], "no gradients to measure"),
    ],
)
def test_steps_without_values_and_sums_of_what_was_not_measured_are_refused(
    samples: list[Sample], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        measure_codecs("m", 1, samples, [Truncation(16)], "drawn")


def test_a_profile_survives_its_file_and_the_cache_keeps_one_for_each_codec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    found = profile("inceptionn:2^-10", "truncate:16")
    paths = store_profile(found, "hdc")
    assert paths == [cache_path("hdc", each.codec) for each in found.codecs] and len(set(paths)) == 2
    for path, entry in zip(paths, found.codecs, strict=True):
        assert read_profile(path).codecs == (entry,)
    assert found.of("truncate:16") == found.codecs[1] and found.of("truncate:24") is None


def _spoilt(**changes: object) -> str:
    return json.dumps(profile().to_json() | changes)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "no compression profile"),
        ('{"schema": "lightloom.plan/1"}', "no compression profile"),
        ("parameters", "field 'parameters': 0"),
        ("codecs", "'codecs'"),
        ("colour", "unknown field 'colour'"),
        ("nan", "ratio"),
    ],
)
def test_a_wrong_file_is_one_clear_line(text: str, complaint: str, tmp_path: Path) -> None:
    broken = {
        "parameters": lambda: _spoilt(parameters=0),
        "codecs": lambda: _spoilt(codecs=[]),
        "colour": lambda: _spoilt(colour="red"),
        "nan": lambda: _spoilt().replace('"ratio": ', '"ratio": NaN, "x": ', 1),
    }
    path = tmp_path / "profile.json"
    path.write_text(broken[text]() if text in broken else text)
    with pytest.raises(ConfigError, match=complaint) as error:
        read_profile(path)
    assert "profile.json" in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(ConfigError, match="No such file"):
        read_profile(tmp_path / "none.json")


def test_gradients_from_files(tmp_path: Path) -> None:
    flat = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "flat.npy", flat)
    np.savez(tmp_path / "named.npz", a=flat, b=flat[0])
    assert read_gradients(tmp_path / "flat.npy")["flat"].tolist() == list(range(12))
    assert {name: each.size for name, each in read_gradients(tmp_path / "named.npz").items()} == {"a": 12, "b": 4}
    np.save(tmp_path / "wide.npy", flat.astype(np.float64))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "text.npz").write_text("no archive")
    for name, complaint in (
        ("wide.npy", "float64, expected float32"),
        ("objects.npy", "not a .npy file"),
        ("text.npy", "not a .npy file"),
        ("text.npz", "not an .npz file"),
        ("none.npy", "No such file"),
        ("flat.csv", "expected a .npy, .npz or .pt"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            read_gradients(tmp_path / name)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_gradients_that_no_training_would_use_are_refused(bad: float) -> None:
    spoilt = {"layer": np.array([1, bad, bad], np.float32)}
    with pytest.raises(ConfigError, match=r"'layer' at step 3: 2 of 3 are NaN or infinite"):
        measure_codecs("m", 3, [Sample(3, 1, spoilt)], [Inceptionn()], "drawn")
    with pytest.raises(ConfigError, match="no gradients"):
        measure_codecs("m", 3, [], [Inceptionn()], "drawn")


def test_rates_are_positive_and_the_engine_s_are_those_of_its_cycles() -> None:
    values = np.full(4096, 2.0, np.float32)
    rates = host_rates(Truncation(16), values, 1)
    assert rates.encode > 0 and rates.decode > 0
    # Nothing compresses: eight values of 272 bits a group against bursts of 256.
    assert group_bits(Inceptionn(), values).tolist() == [272] * 512
    engine = engine_rates(Inceptionn(), values)
    assert engine is not None and engine.encode == pytest.approx(3.2e9 * 16 / 17, rel=0.01)


def test_sums_of_gradients_take_more_bytes_under_an_absolute_bound_and_no_more_when_scaled() -> None:
    """INCEPTIONN's ring carries sums: one ratio, measured on one gradient, is optimistic."""
    drawn = [gradients(seed, values=50_000) for seed in range(16)]
    samples = [Sample(1, 1, drawn[0])]
    for terms in (2, 4, 8, 16):
        names = drawn[0].keys()
        samples.append(Sample(1, terms, {name: sum(each[name] for each in drawn[:terms]) for name in names}))  # type: ignore[misc]
    absolute, scaled = measure_codecs(
        "m", 50_000, samples, [find("inceptionn:2^-10"), find("inceptionn-scaled:2^-10")], "drawn"
    ).codecs
    assert list(absolute.sums) == [1, 2, 4, 8, 16]
    ratios = list(absolute.sums.values())
    assert ratios == sorted(ratios, reverse=True) and ratios[0] > 1.5 * ratios[-1]
    assert min(scaled.sums.values()) > 0.6 * max(scaled.sums.values())
    assert all(rates.encode_message and rates.decode_message for rates in absolute.host)
