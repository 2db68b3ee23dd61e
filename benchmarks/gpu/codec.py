"""The Triton kernels on a GPU beside a copy in device memory: ``python -m benchmarks.gpu.codec [--gradients FILES]``.

GB/s of float32 input, the best of several rounds by CUDA events, header, checksums and waits included. Every stream is
compared with the CPU codec's bytes before anything is timed. Without a GPU it says so and ends with status 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.codec import MEGABYTES, laplace, load
from benchmarks.support.measure import exit_clearly, print_rows
from lightloom.core.errors import LightloomError, UnsupportedError
from lightloom.core.files import check_writable, write_atomically
from lightloom.exchange.compression.registry import find

CODECS = ("inceptionn:2^-10", "inceptionn:2^-6", "inceptionn:2^-14", "inceptionn-printed:2^-10")
ROUNDS = 20


def measure(name: str, values: Any) -> dict[str, object]:
    """One row: GB/s both ways and the ratio of a codec on a CUDA tensor, its bytes checked.

    Raises:
        LightloomError: the GPU's bytes or values are not the CPU's.
    """
    import torch

    from lightloom.exchange.gpu import codec as gpu_codec

    codec: Any = find(name)
    stream = gpu_codec.encode(codec, values)
    expected = codec.encode(values.cpu())
    if stream.cpu().numpy().tobytes() != bytes(expected):
        raise LightloomError(f"{name}: the GPU's stream is not the CPU's")
    out = torch.empty_like(values)
    gpu_codec.decode(codec, stream, out=out)
    if not torch.equal(out.cpu().view(torch.int32), torch.from_numpy(codec.decode(expected)).view(torch.int32)):
        raise LightloomError(f"{name}: the GPU's values are not the CPU's")
    return {
        "codec": name,
        "encode_GBps": values.nbytes / _seconds(lambda: gpu_codec.encode(codec, values)) / 1e9,
        "decode_GBps": values.nbytes / _seconds(lambda: gpu_codec.decode(codec, stream, out=out)) / 1e9,
        "ratio": values.nbytes / stream.numel(),
        "bytes_equal_cpu": True,
    }


def _seconds(work: Callable[[], object]) -> float:
    import torch

    best = float("inf")
    for turn in range(ROUNDS + 3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        work()
        end.record()
        end.synchronize()
        if turn >= 3:
            best = min(best, start.elapsed_time(end) / 1e3)
    return best


def run(files: list[Path], megabytes: int) -> dict[str, Any]:
    """Measure every codec, a device copy and the fp16 cast on every file and on Laplace noise.

    Raises:
        UnsupportedError: no CUDA device, or no triton.
    """
    import torch

    from lightloom.exchange.gpu import codec as gpu_codec

    if not torch.cuda.is_available():
        raise UnsupportedError("this benchmark needs a CUDA device: torch sees none")
    if (why := gpu_codec.gpu_refusal()) is not None:
        raise UnsupportedError(why)
    import triton

    count = megabytes * 1_000_000 // 4
    found: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "megabytes": megabytes,
        "rounds": ROUNDS,
        "data": {},
    }
    data = {path.stem: np.resize(load(path), count) for path in files} | {"laplace 1e-3": laplace(count)}
    for name, array in data.items():
        values = torch.from_numpy(array).cuda()
        rows: list[dict[str, object]] = []
        for label, target in (("copy", torch.empty_like(values)), ("torch fp16", values.half())):
            back = values.clone()
            rows.append(
                {
                    "codec": label,
                    "encode_GBps": values.nbytes / _seconds(partial(target.copy_, values)) / 1e9,
                    "decode_GBps": values.nbytes / _seconds(partial(back.copy_, target)) / 1e9,
                    "ratio": 4 / target.element_size(),
                }
            )
        found["data"][name] = [*rows, *(measure(codec, values) for codec in CODECS)]
        print_rows([{"data": name, **row} for row in found["data"][name]])
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one JSON object a line, write JSON if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.codec", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--gradients", type=Path, nargs="+", default=[], help="flat float32 .npy files")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="a file is repeated up to this size")
    parser.add_argument("--json", type=Path, help="write the measurement here")
    asked = parser.parse_args(arguments)
    if asked.json is not None:
        check_writable(asked.json)
    found = run(asked.gradients, asked.megabytes)
    if asked.json is not None:
        write_atomically(asked.json, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(exit_clearly(main))
