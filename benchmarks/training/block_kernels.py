"""Kernels of block quantisation beside memcpy and torch: ``python -m benchmarks.training.block_kernels [--json PATH]``.

    python -m benchmarks.training.block_kernels --json blocks.json
    python -m benchmarks.training.block_kernels --measured blocks.json --markdown

One thread, one run. GB/s are bytes of float32 over CPU time of the thread, the best of many rounds; every round goes
through all candidates, back and forth, so that a disturbance hits them alike. Memory exists and is touched beforehand.
Gaussian values; residuals are those of the rounds before. The command ends with status 1 where int8 or int4 take more
than 2.5 times as long as memcpy.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.measure import cpu_name, exit_clearly, print_rows
from lightloom.core.arrays import Bytes, Float32s
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.exchange.compression import blocks
from lightloom.exchange.compression.blocks import BlockFormat
from lightloom.exchange.compression.kernels import NAMES
from lightloom.reports.progress import progress

MIB = 1 << 20
SIZES = (16 * MIB, 64 * MIB)
IN_CACHE = 256 << 10
MESSAGES = (1 << 10, 4 << 10, 16 << 10, 64 << 10)
RUNS = 64
ROUNDS = 15
SHARE = 0.4
"""Least share of memcpy's throughput that int8 and int4 must reach."""
FORMATS = {
    "int8": BlockFormat("linear", 8, 256),
    "int4": BlockFormat("linear", 4, 128),
    "int3": BlockFormat("linear", 3, 128),
    "lloyd2": BlockFormat("lloyd", 2, 64),
    "sign": BlockFormat("sign", 1, 256),
}
WAYS = ("encode", "encode with feedback", "decode", "decode and add")

Tasks = dict[tuple[str, str], Callable[[], object]]
"""What to time, by candidate and way."""


class Memory:
    """Flat arrays of one size: gradient, residual and result."""

    def __init__(self, nbytes: int) -> None:
        self.gradient = np.random.default_rng(0).standard_normal(nbytes // 4).astype(np.float32)
        self.residual, self.out = np.zeros_like(self.gradient), np.ones_like(self.gradient)


def best_seconds(tasks: Tasks, rounds: int, repeat: int = 1) -> dict[tuple[str, str], float]:
    """CPU seconds of each task, the best of ``rounds``; a round repeats each task ``repeat`` times."""
    best = dict.fromkeys(tasks, float("inf"))
    for turn in range(rounds):
        for name, task in tasks.items() if turn % 2 else reversed(tasks.items()):
            began = time.thread_time()
            for _ in range(repeat):
                task()
            best[name] = min(best[name], (time.thread_time() - began) / repeat)
    return best


def block_tasks(name: str, fmt: BlockFormat, kernel: blocks.Kernel, memory: Memory) -> Tasks:
    """The four ways through one kernel."""
    wire = np.zeros(fmt.nbytes(memory.gradient.size), np.uint8)
    gradient, residual, out = memory.gradient, memory.residual, memory.out
    whole = np.array([[0, gradient.size, 0]])
    kernel.encode_runs(fmt, gradient, None, whole, wire)
    return {
        (name, "encode"): lambda: kernel.encode_runs(fmt, gradient, None, whole, wire),
        (name, "encode with feedback"): lambda: kernel.encode_runs(fmt, gradient, residual, whole, wire),
        (name, "decode"): lambda: kernel.decode_runs(fmt, wire, whole, out, 1.0, False),
        (name, "decode and add"): lambda: kernel.decode_runs(fmt, wire, whole, out, 1.0, True),
    }


def torch_tasks(memory: Memory) -> Tasks:
    """torch's quantisation to int8, with scales that are known beforehand, for a tensor and for rows of 256 values."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "torch.quantize_per_tensor")  # deprecated, but nothing replaces it on CPUs
    values = torch.from_numpy(memory.gradient)
    rows = values.view(-1, 256)
    scales, zeros = rows.abs().amax(1).double() / 127, torch.zeros(len(rows), dtype=torch.int64)
    largest = float(values.abs().max()) / 127

    def per_tensor() -> torch.Tensor:
        return torch.quantize_per_tensor(values, largest, 0, torch.qint8)

    def per_row() -> torch.Tensor:
        return torch.quantize_per_channel(rows, scales, zeros, 0, torch.qint8)

    tensor, channels = per_tensor(), per_row()
    return {
        ("torch.quantize_per_tensor", "encode"): per_tensor,
        ("torch.quantize_per_tensor", "decode"): tensor.dequantize,
        ("torch.quantize_per_channel, rows of 256", "encode"): per_row,
        ("torch.quantize_per_channel, rows of 256", "decode"): channels.dequantize,
    }


def large(nbytes: int, rounds: int) -> list[dict[str, Any]]:
    """One row for each candidate on vectors of one size: GB/s in each way and the share of memcpy's."""
    memory = Memory(nbytes)
    tasks: Tasks = {("memcpy", "encode"): lambda: np.copyto(memory.out, memory.gradient)}
    for name, fmt in FORMATS.items():
        tasks |= block_tasks(name, fmt, blocks.current(), memory)
    tasks |= torch_tasks(memory)
    best = best_seconds(tasks, rounds)
    base = best["memcpy", "encode"]
    return [
        {
            "bytes": nbytes,
            "candidate": name,
            "GBps": {way: nbytes / best[name, way] / 1e9 for way in WAYS if (name, way) in best},
            "of_memcpy": {way: base / best[name, way] for way in WAYS if (name, way) in best},
        }
        for name in dict.fromkeys(name for name, _ in tasks)
    ]


def paths(rounds: int) -> list[dict[str, Any]]:
    """One row for each kernel that this machine runs, on a vector that fits its second cache."""
    memory, rows = Memory(IN_CACHE), []
    for kernel in (blocks.load(name) for name in NAMES):
        if kernel is None:
            continue
        repeat = 1 if kernel.name == "fallback" else 20
        for name, fmt in FORMATS.items():
            best = best_seconds(block_tasks(name, fmt, kernel, memory), rounds, repeat)
            rates = {way: IN_CACHE / seconds / 1e9 for (_, way), seconds in best.items()}
            rows.append({"kernel": kernel.name, "candidate": name, "GBps": rates})
    return rows


def small(rounds: int) -> list[dict[str, Any]]:
    """One row for each format and size of message: microseconds a call, and a run in a table of many."""
    rows = []
    for nbytes in MESSAGES:
        memory = Memory(nbytes * RUNS)
        count = nbytes // 4
        copy = _seconds_to_copy(memory.out[:count], memory.gradient[:count], rounds)
        for name, fmt in FORMATS.items():
            best = best_seconds(small_tasks(fmt, memory, count), rounds, 20)
            micros = {way: 1e6 * seconds / (RUNS if "table" in way else 1) for (_, way), seconds in best.items()}
            rows.append({"bytes": nbytes, "candidate": name, "memcpy_us": 1e6 * copy, "us": micros})
    return rows


def _seconds_to_copy(out: Float32s, values: Float32s, rounds: int) -> float:
    return best_seconds({("memcpy", ""): lambda: np.copyto(out, values)}, rounds, 50)["memcpy", ""]


def small_tasks(fmt: BlockFormat, memory: Memory, count: int) -> Tasks:
    """A call for one message, and a call for a table of :data:`RUNS` of them."""
    size = fmt.nbytes(count)
    gradient, residual, out = memory.gradient, memory.residual, memory.out
    wire: Bytes = np.zeros(size * RUNS, np.uint8)
    runs = np.array([[i * count, count, i * size] for i in range(RUNS)])
    one, first, rest, result = wire[:size], gradient[:count], residual[:count], out[:count]

    def feed_back(x: Float32s = first, left: Float32s = rest) -> None:
        blocks.encode_feedback(fmt, x, left, one)

    return {
        ("", "encode with feedback"): feed_back,
        ("", "decode"): lambda: blocks.decode(fmt, one, result),
        ("", "encode with feedback, in a table"): lambda: blocks.encode_runs(fmt, gradient, residual, runs, wire),
        ("", "decode, in a table"): lambda: blocks.decode_runs(fmt, wire, runs, out),
    }


def measure(rounds: int) -> dict[str, Any]:
    """Everything, with where it was measured."""
    result: dict[str, Any] = {"cpu": cpu_name(), "kernel": blocks.current().name, "large": []}
    with progress("Kernels", len(SIZES) + 2) as advance:
        for nbytes in SIZES:
            result["large"] += large(nbytes, rounds)
            advance(1)
        result["paths"] = paths(rounds)
        advance(1)
        result["small"] = small(rounds)
        advance(1)
    settings = {"rounds": rounds, "sizes": SIZES, "messages": MESSAGES, "runs": RUNS}
    return result | {"provenance": provenance(settings, seed=0)}


def large_table(result: dict[str, Any]) -> list[dict[str, object]]:
    """Rows of long vectors for people."""
    return [
        {"MiB": str(row["bytes"] // MIB), "candidate": row["candidate"]}
        | {way: _rate(row["GBps"], row["of_memcpy"], way) for way in WAYS}
        for row in result["large"]
    ]


def _rate(rates: dict[str, float], shares: dict[str, float], way: str) -> str:
    return f"{rates[way]:.1f} ({shares[way]:.2f})" if way in rates else ""


def path_table(result: dict[str, Any]) -> list[dict[str, object]]:
    """Rows of kernels for people."""
    return [
        {"kernel": row["kernel"], "candidate": row["candidate"]}
        | {way: f"{rate:.3g}" for way, rate in row["GBps"].items()}
        for row in result["paths"]
    ]


def small_table(result: dict[str, Any]) -> list[dict[str, object]]:
    """Rows of small messages for people."""
    return [
        {"KiB": str(row["bytes"] >> 10), "candidate": row["candidate"], "memcpy": f"{row['memcpy_us']:.2f}"}
        | {way: f"{micros:.2f}" for way, micros in row["us"].items()}
        for row in result["small"]
    ]


def print_markdown(rows: list[dict[str, object]]) -> None:
    """Print a table as Markdown."""
    print("|", " | ".join(rows[0]), "|")
    print("|", " | ".join("---:" if i else "---" for i in range(len(rows[0]))), "|")
    for row in rows:
        print("|", " | ".join(map(str, row.values())), "|")
    print()


def main() -> None:
    """Measure or read, print, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measured", type=Path, help="a file that --json wrote, instead of measuring")
    parser.add_argument("--markdown", action="store_true")
    given = parser.parse_args()
    if given.json is not None:
        check_writable(given.json)
    result = json.loads(given.measured.read_text()) if given.measured else measure(given.rounds)
    titles = (
        f"{result['cpu']}, {result['kernel']}: GB/s of float32 (share of memcpy in the same run)",
        f"{IN_CACHE >> 10} KiB, in cache: GB/s of float32",
        f"small messages: microseconds a call; in a table, a run of {RUNS} in one call",
    )
    for title, rows in zip(titles, (large_table(result), path_table(result), small_table(result)), strict=True):
        print(title)
        print()
        (print_markdown if given.markdown else print_rows)(rows)
    if given.json is not None:
        write_atomically(given.json, json.dumps(result, indent=1))
    least = min(min(row["of_memcpy"].values()) for row in result["large"] if row["candidate"] in ("int8", "int4"))
    print(f"int8 and int4, feedback included: at least {least:.2f} of memcpy ({SHARE} are asked for)")
    if least < SHARE:
        raise SystemExit(1)


if __name__ == "__main__":
    raise SystemExit(exit_clearly(main))
