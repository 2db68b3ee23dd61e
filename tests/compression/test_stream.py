"""The container: arrays of every kind in and out, threads, pieces, and refusals that say why."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import CodecError, ConfigError, InputError
from lightloom.exchange.compression.codec import stream_bytes
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.compression.registry import find
from lightloom.exchange.compression.stream import Header, StreamDecoder

VALUES = np.random.default_rng(7).laplace(0, 1e-2, 150_001).astype(np.float32)
CODEC = Inceptionn()


def test_decodes_into_what_it_is_given() -> None:
    decoded = CODEC.decode(CODEC.encode(VALUES))
    out = np.full((3, 50_000), np.nan, np.float32)
    assert CODEC.decode(CODEC.encode(VALUES[:150_000].reshape(3, -1)), out=out) is out
    assert np.array_equal(out.reshape(-1), decoded[:150_000])


@pytest.mark.parametrize("threads", [1, 3])
def test_encodes_into_what_it_is_given(threads: int) -> None:
    memory = np.zeros(CODEC.room(VALUES.size, threads), np.uint8)
    stream = CODEC.encode(VALUES, threads=threads, out=memory)
    assert stream == CODEC.encode(VALUES)
    assert np.shares_memory(np.asarray(stream), memory)


def test_memory_to_encode_into_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="may need"):
        CODEC.encode(VALUES, out=np.zeros(CODEC.room(VALUES.size) - 1, np.uint8))
    for wrong in (np.zeros(10, np.float32), np.zeros((2, 2), np.uint8)):
        with pytest.raises(InputError, match="flat uint8"):
            CODEC.encode(VALUES, out=wrong)  # type: ignore[arg-type]


def test_torch_tensors_in_and_out() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(VALUES.copy()).requires_grad_()
    stream = CODEC.encode(tensor)
    assert stream == CODEC.encode(VALUES)
    out = torch.empty(len(VALUES))
    assert CODEC.decode(stream, out=out) is out
    assert np.array_equal(out.numpy(), CODEC.decode(stream))
    whole = torch.zeros(200_000)
    CODEC.decode(stream, out=whole[:150_001])  # a view: nothing is copied
    assert np.array_equal(whole[:150_001].numpy(), out.numpy())
    for wrong in (tensor.double(), tensor.to(torch.bfloat16), torch.empty(3, device="meta")):
        with pytest.raises(InputError, match="must be float32"):
            CODEC.encode(wrong)


def test_a_torch_tensor_is_a_stream_of_its_bytes_or_refused() -> None:
    torch = pytest.importorskip("torch")
    for tensor in (torch.ones(3), torch.ones(3, requires_grad=True), torch.ones(3, dtype=torch.uint8)):
        assert stream_bytes(tensor).tobytes() == tensor.detach().numpy().tobytes()
    for wrong in (torch.ones(3).to_sparse(), torch.empty(3, device="meta"), torch.ones(3, dtype=torch.bfloat16)):
        with pytest.raises(InputError, match="must be a contiguous buffer of bytes, not Tensor"):
            stream_bytes(wrong)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8)])
def test_streams_of_every_kind(kind: Any) -> None:
    assert np.array_equal(CODEC.decode(kind(CODEC.encode(VALUES))), CODEC.decode(CODEC.encode(VALUES)))


def test_strided_and_empty_arrays() -> None:
    strided = VALUES[:150_000].reshape(300, 500).T[::2]
    assert np.array_equal(CODEC.round_trip(strided), CODEC.round_trip(strided.copy()))
    assert CODEC.round_trip(VALUES[:0]).shape == (0,)


@pytest.mark.parametrize(
    "name", ["inceptionn", "inceptionn-printed:2^-8", "truncate:22", "block-fixed-point:7", "int3:64"]
)
def test_threads_and_pieces_change_nothing(name: str) -> None:
    codec = find(name)
    stream = codec.encode(VALUES)
    decoded = codec.decode(stream)
    for threads in (2, 3, 7):
        assert codec.encode(VALUES, threads=threads) == stream
        assert np.array_equal(codec.decode(stream, threads=threads), decoded)
    assert b"".join(codec.iter_encode(VALUES)) == stream  # type: ignore[attr-defined]
    receiver = StreamDecoder(codec)  # type: ignore[arg-type]
    parts = [receiver.feed(stream[i : i + 10_007]) for i in range(0, len(stream), 10_007)]
    assert receiver.finished
    assert np.array_equal(np.concatenate(parts), decoded)


@pytest.mark.parametrize(("threads", "frames"), [(1, 3), (2, 3), (3, 3), (4, 2), (3, 1), (3, 0)])
def test_no_more_threads_than_are_asked_for_and_none_without_a_frame(
    monkeypatch: pytest.MonkeyPatch, threads: int, frames: int
) -> None:
    started: list[int] = []

    class Recorded(ThreadPoolExecutor):
        def __init__(self, workers: int) -> None:
            started.append(workers)
            super().__init__(workers)

    monkeypatch.setattr("lightloom.exchange.compression.stream.ThreadPoolExecutor", Recorded)
    chunk = Header.parse(bytes(CODEC.encode(VALUES))).chunk
    values = np.zeros(max(frames * chunk - 3, 0), np.float32)
    encoded = CODEC.encode(values, threads=threads)
    assert Header.parse(bytes(encoded)).frames == frames
    CODEC.decode(encoded, threads=threads)
    workers = min(threads, frames)
    assert started == ([workers, workers] if workers > 1 else [])


def test_frames_arrive_one_by_one() -> None:
    pieces = list(CODEC.iter_encode(VALUES))
    receiver = StreamDecoder(CODEC)
    assert [len(receiver.feed(piece)) for piece in pieces] == [0, 65536, 65536, 150_001 - 2 * 65536]
    with pytest.raises(CodecError, match="bytes follow"):
        receiver.feed(b"x")


def test_every_flipped_bit_is_noticed() -> None:
    stream = bytes(CODEC.encode(VALUES[:100]))
    for at in range(8 * len(stream)):
        broken = bytearray(stream)
        broken[at // 8] ^= 1 << at % 8
        with pytest.raises(CodecError):
            CODEC.decode(broken)


def test_swapped_frames_are_noticed() -> None:
    header, one, two, three = (bytes(piece) for piece in CODEC.iter_encode(VALUES))
    with pytest.raises(CodecError, match="frame 0 of 3 is not valid: its checksum is wrong"):
        CODEC.decode(header + two + one + three)


def test_a_forged_count_takes_no_memory() -> None:
    for count in (2**20, 2**40, 2**64 - 1):
        with pytest.raises(CodecError, match=f"{count} values cannot come from a stream of 124 bytes"):
            CODEC.decode(Header(1, 10, count, 65536).pack() + bytes(100))


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"", "begins with 24 bytes of header, not 0"),
        (bytes(24), "not a lightloom stream"),
        (Header(1, 10, 8, 12).pack(), "expected a multiple of 8"),
        (Header(1, 8, 8, 8).pack(), "codec 1 with parameter 8; inceptionn:2.-10 is codec 1 with parameter 10"),
        (Header(2, 10, 8, 8).pack(), "codec 2"),
        (Header(1, 10, 0, 8).pack() + b"?", "1 bytes follow the last frame"),
    ],
)
def test_refusals_say_why(stream: bytes, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        CODEC.decode(stream)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.empty(7, np.float32), CodecError, "holds 8 values, the array to decode into 7"),
        (np.empty(8, np.float64), InputError, "must be float32"),
        (np.empty(16, np.float32)[::2], InputError, "C-contiguous and writable"),
        (np.frombuffer(bytes(32), np.float32), InputError, "C-contiguous and writable"),
    ],
)
def test_targets_that_do_not_fit(out: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CODEC.decode(CODEC.encode(VALUES[:8]), out=out)


def test_other_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="not float64"):
        CODEC.encode([0.5])
    with pytest.raises(InputError, match="contiguous buffer"):
        CODEC.decode("text")
    with pytest.raises(ConfigError, match="threads = 0"):
        CODEC.encode(VALUES, threads=0)
