"""Codec throughput on one thread beside memcpy in the same run: ``python -m benchmarks.codec [MEBIBYTES]``.

GB/s of float32 input, best of several rounds by CPU time of the thread. The rounds go through all candidates in turn,
so that a disturbance hits them alike. Decoders and memcpy write to memory that already exists. Other people's codecs
take part where they are installed (cramjam for snappy, zstandard, lz4, blosc2, zfpy), torch's casts where torch is.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import print_rows
from lightloom.compression import implementation
from lightloom.compression.registry import find

Values = NDArray[np.float32]
OURS = ("inceptionn:2^-10", "inceptionn:2^-6", "inceptionn:2^-14", "inceptionn-printed:2^-10")
BASELINES = ("truncate:16", "truncate:22", "block-fixed-point:8")
ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Candidate:
    """One codec: ``encode()`` gives something ``decode`` takes; ``size`` reads the encoded bytes."""

    name: str
    encode: Callable[[], Any]
    decode: Callable[[Any], Any]
    size: Callable[[Any], int] = len
    rounds: int = ROUNDS


def ours(name: str, values: Values, out: Values, rounds: int = ROUNDS) -> Candidate:
    """A codec of this package."""
    codec = find(name)
    return Candidate(name, lambda: codec.encode(values), lambda stream: codec.decode(stream, out=out), rounds=rounds)


def others(values: Values) -> list[Candidate]:
    """Lossless and error-bounded codecs that happen to be installed."""
    raw = values.tobytes()

    def as_floats(data: Any) -> Values:
        return np.frombuffer(data, np.float32)

    found = []
    if snappy := _module("cramjam"):
        found.append(Candidate("snappy", lambda: snappy.snappy.compress_raw(raw),
                               lambda b: as_floats(snappy.snappy.decompress_raw(b)), rounds=2))  # fmt: skip
    if zstd := _module("zstandard"):
        found.append(Candidate("zstd -1", lambda: zstd.ZstdCompressor(level=1).compress(raw),
                               lambda b: as_floats(zstd.ZstdDecompressor().decompress(b)), rounds=2))  # fmt: skip
    if lz4 := _module("lz4.frame"):
        found.append(Candidate("lz4", lambda: lz4.compress(raw), lambda b: as_floats(lz4.decompress(b)), rounds=2))
    if blosc := _module("blosc2"):
        blosc.set_nthreads(1)
        found.append(Candidate("blosc2 bitshuffle+lz4",
                               lambda: blosc.compress2(values, codec=blosc.Codec.LZ4, typesize=4,
                                                       filters=[blosc.Filter.BITSHUFFLE], filters_meta=[0]),
                               lambda b: as_floats(blosc.decompress2(b)), rounds=2))  # fmt: skip
    if zfp := _module("zfpy"):
        found.append(Candidate("zfp 2^-10", lambda: zfp.compress_numpy(values, tolerance=2.0**-10),
                               lambda b: zfp.decompress_numpy(b), rounds=2))  # fmt: skip
    return found


def casts(values: Values) -> list[Candidate]:
    """What torch offers: half precision, 8-bit floats, 8-bit integers with one scale."""
    torch = _module("torch")
    if torch is None:
        return []
    torch.set_num_threads(1)
    tensor, back = torch.from_numpy(values), torch.empty(values.size)

    def cast(name: str, kind: Any) -> Candidate:
        target = torch.empty(values.size, dtype=kind)
        return Candidate(name, lambda: target.copy_(tensor), lambda t: back.copy_(t).numpy(), lambda t: int(t.nbytes))

    def quantise() -> Any:
        return torch.quantize_per_tensor(tensor, float(tensor.abs().max()) / 127, 0, torch.qint8)

    found = [cast("torch fp16", torch.float16), cast("torch fp8 e5m2", torch.float8_e5m2)]
    found.append(Candidate("torch qint8", quantise, lambda t: t.dequantize().numpy(), lambda t: int(t.numel())))
    return found


def gradients(count: int) -> dict[str, Values]:
    """Named data: Laplace noise of two scales; a third of the first lies above 2^-10, almost nothing of the second."""
    random = np.random.default_rng(0)
    return {
        "laplace 1e-3": random.laplace(0, 1e-3, count).astype(np.float32),
        "laplace 1e-4": random.laplace(0, 1e-4, count).astype(np.float32),
    }


def measure(values: Values) -> list[dict[str, object]]:
    """One row a codec: GB/s both ways, multiples of memcpy, ratio, largest error."""
    out = np.empty_like(values)

    def copy(_: object = None) -> Values:
        np.copyto(out, values)
        return out

    candidates = [Candidate("memcpy", copy, copy, lambda _: values.nbytes)]
    candidates += [ours(name, values, out) for name in OURS]
    candidates += [*casts(values), *(ours(name, values, out, rounds=2) for name in BASELINES), *others(values)]
    best = {each.name: [float("inf"), float("inf")] for each in candidates}
    facts: dict[str, tuple[float, float]] = {}
    for turn in range(ROUNDS):
        for each in candidates:
            if turn >= each.rounds:
                continue
            encoded, seconds = _timed(each.encode)
            best[each.name][0] = min(best[each.name][0], seconds)
            decoded, seconds = _timed(lambda each=each, encoded=encoded: each.decode(encoded))  # type: ignore[misc]
            best[each.name][1] = min(best[each.name][1], seconds)
            if turn == 0:
                facts[each.name] = values.nbytes / each.size(encoded), float(np.abs(decoded - values).max())
    base = best["memcpy"]
    return [
        {
            "codec": name,
            "encode_GBps": round(values.nbytes / encode / 1e9, 2),
            "decode_GBps": round(values.nbytes / decode / 1e9, 2),
            "encode_of_memcpy": round(base[0] / encode, 3),
            "decode_of_memcpy": round(base[1] / decode, 3),
            "ratio": round(facts[name][0], 2),
            "largest_error": float(f"{facts[name][1]:.3g}"),
        }
        for name, (encode, decode) in best.items()
    ]


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.thread_time()
    result = work()
    return result, time.thread_time() - start


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def main(mebibytes: int = 64) -> None:
    """Print one JSON object a line."""
    for data, values in gradients(mebibytes << 18).items():
        print_rows([{"data": data, "kernel": implementation(), "MiB": mebibytes}, *measure(values)])


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
