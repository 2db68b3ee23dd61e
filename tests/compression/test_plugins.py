"""A codec of another distribution, registered in the group ``lightloom.codecs``, is used as the built-in ones are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lightloom.core.errors import CodecError, ConfigError, UnknownNameError
from lightloom.core.plugins import load_plugins
from lightloom.exchange.compression.profile import Sample, measure_codecs
from lightloom.exchange.compression.registry import codecs, description, find, names

SOURCE = '''
import numpy as np
from lightloom.exchange.compression import Codec, Family
from lightloom.exchange.compression.codec import float32_target, float32_values, stream_bytes
from lightloom.core.errors import CodecError


class Float16(Codec):
    """Float16 values times a power of two."""

    def __init__(self, shift):
        self.shift = shift

    @property
    def name(self):
        return f"float16:{self.shift}"

    def encode(self, array, *, threads=1):
        return (float32_values(array) * np.float32(2.0**self.shift)).astype("<f2").view(np.uint8).data.toreadonly()

    def decode(self, buffer, out=None, *, threads=1):
        data = stream_bytes(buffer)
        if data.size % 2:
            raise CodecError("an odd number of bytes")
        values = data.view("<f2").astype(np.float32) / np.float32(2.0**self.shift)
        if out is None:
            return values
        float32_target(out, values.size)[:] = values
        return out


FLOAT16 = Family(name="float16", build=Float16, read=int, default="4", summary="half precision")
WRONG = 3
'''


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed distribution without entry points; ``register`` adds them."""
    (tmp_path / "float16_codec.py").write_text(SOURCE)
    (tmp_path / "float16_codec-1.dist-info").mkdir()
    (tmp_path / "float16_codec-1.dist-info" / "METADATA").write_text("Name: float16-codec\nVersion: 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("float16_codec", None)
    for cached in (codecs, load_plugins):
        cached.cache_clear()


def register(distribution: Path, entry: str) -> None:
    """Name an object of the distribution in the group; what was loaded before is read anew."""
    (distribution / "float16_codec-1.dist-info" / "entry_points.txt").write_text(f"[lightloom.codecs]\n{entry}\n")
    for cached in (codecs, load_plugins):
        cached.cache_clear()


def test_three_members_make_a_codec(distribution: Path) -> None:
    register(distribution, "float16 = float16_codec:FLOAT16")
    assert "float16" in names()
    assert description("float16") == {"description": "half precision", "default": "float16:4"}
    codec = find("float16:2")
    values = np.random.default_rng(0).normal(0, 1e-2, 1000).astype(np.float32)
    decoded = codec.round_trip(values)
    assert np.abs(decoded - values).max() <= 2.0**-11 * np.abs(values).max()
    out = np.empty_like(values)
    assert codec.decode(codec.encode(values), out=out) is out
    total, loss = np.ones_like(values), values.copy()
    codec.decode_adding(codec.encode_leaving(loss), total)
    assert np.array_equal(total, 1 + decoded) and np.array_equal(loss, values - decoded)
    assert (codec.absolute_error, codec.relative_error) == (None, None)
    with pytest.raises(CodecError):
        codec.decode(b"odd")


def test_a_profile_of_it_is_measured(distribution: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightloom.exchange.compression.profile._RATE_VALUES", 1 << 8)
    register(distribution, "float16 = float16_codec:FLOAT16")
    gradients = {"weight": np.linspace(-1, 1, 64, dtype=np.float32)}
    profile = measure_codecs("m", 64, [Sample(1, 1, gradients)], [find("float16")], "drawn").codecs[0]
    assert (profile.codec, profile.whole.ratio, profile.whole.tags) == ("float16:4", 2.0, None)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("float16 = float16_codec:WRONG", "plug-in 'float16' in group lightloom.codecs: expected a Family, got 3"),
        ("float16 = float16_codec:MISSING", r"plug-in 'float16' \(float16_codec:MISSING\).*fails"),
    ],
)
def test_a_faulty_entry_point_is_named(distribution: Path, entry: str, message: str) -> None:
    register(distribution, entry)
    with pytest.raises(ConfigError, match=message):
        codecs()


def test_every_family_has_a_description() -> None:
    for name in names():
        words = description(name)
        assert words["description"] and find(words["default"]) == find(name)
    with pytest.raises(UnknownNameError, match="truncate"):
        description("truncat")
