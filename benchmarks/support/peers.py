"""Codecs and casts that others offer, each in its fastest form: into memory that exists, on one thread.

``pip install 'lightloom[peers]'`` brings the packages. Those missing are named by :func:`peers`; fpzip takes part where
it is installed.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
BOUND = 2.0**-10
"""Absolute bound of the error-bounded peers; that of INCEPTIONN's best setting in the paper."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One codec: ``encode()`` gives something that ``decode`` takes; ``size`` reads how many bytes it is."""

    name: str
    kind: str
    """copy, ours, cast or peer."""
    encode: Callable[[], Any]
    decode: Callable[[Any], Any]
    """Leaves the values in the array given as ``out``, or returns another one."""
    size: Callable[[Any], int] = len


class Memory:
    """What every candidate reads and writes: ``values``, ``out`` of the same size, ``buffer`` for encoded bytes."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.out = np.zeros_like(values)
        self.buffer = np.zeros(values.nbytes + values.nbytes // 8 + 4096, np.uint8)

    @property
    def raw(self) -> NDArray[np.uint8]:
        """The values as bytes."""
        return self.values.view(np.uint8)

    @property
    def raw_out(self) -> NDArray[np.uint8]:
        """``out`` as bytes."""
        return self.out.view(np.uint8)


def peers(memory: Memory) -> tuple[list[Candidate], list[str]]:
    """Lossless and error-bounded codecs that are installed, and the packages that are not."""
    families = {
        "imagecodecs": _imagecodecs,
        "zstandard": _zstandard,
        "blosc2": _blosc2,
        "fpzip": _fpzip,
        "torch": _torch,
    }
    found: list[Candidate] = []
    missing: list[str] = []
    for package, family in families.items():
        try:
            module = importlib.import_module(package)
        except ImportError:
            missing.append(package)
            continue
        found.extend(family(module, memory))
    return found, missing


def _imagecodecs(module: Any, memory: Memory) -> Iterator[Candidate]:
    raw, values, buffer, raw_out, out = memory.raw, memory.values, memory.buffer, memory.raw_out, memory.out
    yield Candidate(
        "snappy", "peer", lambda: module.snappy_encode(raw, out=buffer), lambda b: module.snappy_decode(b, out=raw_out)
    )
    yield Candidate(
        "lz4", "peer", lambda: module.lz4_encode(raw, out=buffer), lambda b: module.lz4_decode(b, out=raw_out)
    )
    yield Candidate(
        "SZ3 2^-10",
        "peer",
        lambda: module.sz3_encode(values, mode="abs", abs=BOUND, out=buffer),
        lambda b: module.sz3_decode(b, values.shape, values.dtype, out=out),
    )
    yield Candidate(
        "zfp 2^-10",
        "peer",
        lambda: module.zfp_encode(values, BOUND, mode="accuracy", execution="serial", numthreads=1, out=buffer),
        lambda b: module.zfp_decode(b, numthreads=1, out=out),
    )


def _zstandard(module: Any, memory: Memory) -> Iterator[Candidate]:
    decompressor = module.ZstdDecompressor()

    def candidate(level: int) -> Candidate:
        compressor = module.ZstdCompressor(level=level, threads=0)
        return Candidate(
            f"zstd -{level}",
            "peer",
            lambda: compressor.compress(memory.raw),
            lambda b: decompressor.stream_reader(b).readinto(memory.raw_out),
        )

    yield candidate(1)
    yield candidate(3)


def _blosc2(module: Any, memory: Memory) -> Iterator[Candidate]:
    module.set_nthreads(1)
    kept = 8

    def candidate(name: str, filters: list[Any], meta: list[int]) -> Candidate:
        settings = {"codec": module.Codec.LZ4, "typesize": 4, "filters": filters, "filters_meta": meta, "nthreads": 1}
        return Candidate(
            name,
            "peer",
            lambda: module.compress2(memory.values, **settings),
            lambda b: module.decompress2(b, dst=memory.raw_out, nthreads=1),
        )

    yield candidate("blosc2 bitshuffle+lz4", [module.Filter.BITSHUFFLE], [0])
    yield candidate(f"blosc2 trunc_prec {kept}", [module.Filter.TRUNC_PREC, module.Filter.BITSHUFFLE], [kept, 0])


def _fpzip(module: Any, memory: Memory) -> Iterator[Candidate]:
    yield Candidate(
        "fpzip",
        "peer",
        lambda: module.compress(memory.values, precision=0),
        lambda b: module.decompress(b, order="C").reshape(-1),
    )


def _torch(torch: Any, memory: Memory) -> Iterator[Candidate]:
    torch.set_num_threads(1)
    values, back = torch.from_numpy(memory.values), torch.from_numpy(memory.out)

    def cast(name: str, kind: Any) -> Candidate:
        target = torch.zeros(values.numel(), dtype=kind)
        return Candidate(
            name, "cast", lambda: target.copy_(values), lambda t: back.copy_(t).numpy(), lambda t: int(t.nbytes)
        )

    yield cast("torch fp16", torch.float16)
    yield cast("torch fp8 e4m3", torch.float8_e4m3fn)
    yield cast("torch fp8 e5m2", torch.float8_e5m2)

    # Deprecated, and faster than the same in plain operations.
    warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")

    def quantise() -> Any:
        low, high = torch.aminmax(values)
        scale = max(-float(low), float(high)) / 127 or 1.0
        return torch.quantize_per_tensor(values, scale, 0, torch.qint8), scale

    yield Candidate(
        "torch int8 per tensor",
        "cast",
        quantise,
        lambda pair: back.copy_(pair[0].int_repr()).mul_(pair[1]).numpy(),
        lambda pair: int(pair[0].numel()) + 4,
    )
