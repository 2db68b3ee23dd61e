"""The Triton kernels against the CPU codec: the same bytes, the same values, the same refusals.

They run on a GPU where there is one, and in Triton's interpreter elsewhere (tests/conftest.py).
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lightloom.core.errors import CodecError, InputError
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.exchange.gpu import codec as gpu_codec

runs = pytest.mark.skipif(gpu_codec.gpu_refusal() is not None, reason=str(gpu_codec.gpu_refusal()))
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SPECIAL = np.array(
    [
        0x7FC00001,
        0xFFABCDEF,
        0x7F800000,
        0xFF800000,
        0,
        0x80000000,
        1,
        0x807FFFFF,
        0x3F800000,
        0xBF7FFFFF,
        0x3A800000,
        0x3A7FFFFF,
        0x7F7FFFFF,
    ],
    np.uint32,
).view(np.float32)


class SmallFrames(Inceptionn):
    """So that a short vector has many frames."""

    chunk = 64


def samples(count: int, seed: int) -> NDArray[np.float32]:
    """Random bit patterns, gradients of all sizes, zeros and special values, shuffled."""
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    gradients = random.laplace(0, 10.0 ** random.uniform(-5, 0, count)).astype(np.float32)
    values = np.where(random.random(count) < 0.2, patterns, gradients)
    values[random.random(count) < 0.3] = 0
    places = random.random(count) < 0.1
    values[places] = random.choice(SPECIAL, int(places.sum()))
    return values


def on_device(data: bytes | memoryview) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).to(DEVICE)


BOUNDS = [Inceptionn(2.0**-k) for k in range(1, 15)]
CODECS = [Inceptionn(), InceptionnPrinted(), SmallFrames(), SmallFrames(2.0**-6)]
CASES = [*((codec, 9) for codec in BOUNDS[::4]), *product(CODECS[1:3], (0, 1, 8, 300))]
MORE = [case for case in (*((codec, 9) for codec in BOUNDS), *product(CODECS, (0, 1, 7, 8, 300))) if case not in CASES]


@runs
@pytest.mark.parametrize(
    ("codec", "count"),
    [
        pytest.param(*case, id=f"{case[0].name}, frames of {case[0].chunk}-{case[1]}", marks=marks)
        for cases, marks in ((CASES, ()), (MORE, pytest.mark.slow))
        for case in cases
    ],
)
def test_same_bytes_and_same_values_as_on_the_cpu(codec: Inceptionn, count: int) -> None:
    values = samples(count, seed=count)
    expected = bytes(codec.encode(values))
    stream = gpu_codec.encode(codec, torch.from_numpy(values).to(DEVICE))
    assert stream.cpu().numpy().tobytes() == expected
    decoded = gpu_codec.decode(codec, stream).cpu().numpy()
    assert np.array_equal(decoded.view(np.uint32), codec.decode(expected).view(np.uint32))


@runs
def test_decoding_in_place_keeps_the_shape() -> None:
    values = torch.from_numpy(samples(120, seed=1)).reshape(10, 12).to(DEVICE)
    codec = SmallFrames()
    stream = gpu_codec.encode(codec, values)
    out = torch.empty_like(values)
    assert gpu_codec.decode(codec, stream, out=out) is out
    assert np.array_equal(out.cpu().numpy().reshape(-1), codec.decode(bytes(stream.cpu().numpy())), equal_nan=True)


@runs
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_broken_streams_are_refused_as_on_the_cpu(seed: int) -> None:
    codec, random = SmallFrames(), np.random.default_rng(seed)
    whole = bytearray(codec.encode(samples(150, seed=seed)))
    for _ in range(4):
        broken = bytearray(whole)
        broken[int(random.integers(len(whole)))] ^= 1 << int(random.integers(8))
        for data in (broken, whole[: int(random.integers(len(whole)))], whole + b"\0"):
            with pytest.raises(CodecError) as on_cpu:
                codec.decode(bytes(data))
            with pytest.raises(CodecError) as on_gpu:
                gpu_codec.decode(codec, on_device(bytes(data)))
            assert str(on_gpu.value) == str(on_cpu.value)


@runs
def test_other_types_are_refused() -> None:
    with pytest.raises(InputError, match="float32"):
        gpu_codec.encode(Inceptionn(), torch.zeros(8, dtype=torch.float64, device=DEVICE))
    with pytest.raises(InputError, match="uint8"):
        gpu_codec.decode(Inceptionn(), torch.zeros(8, device=DEVICE))
