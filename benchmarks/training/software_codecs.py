"""INCEPTIONN's Figure 7, inside a real training loop: ``python -m benchmarks.training.software_codecs [--json PATH]``.

Four processes, each in a network namespace behind a link of 10 Gbit/s, train HDC; every hop of the ring goes through a
general-purpose codec in software (Snappy, SZ3), through truncation, or through ours. Needs root on Linux and
``pip install 'lightloom[peers]'``. All processes share this machine's cores, so that computation, and compression with
it, takes longer than on four machines; a round runs every codec once, and ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.measure import cpu_name, exit_clearly, print_rows
from lightloom.core.errors import CodecError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.registry import find

RANKS = 4
RATE_BITS = 10e9
BOUND = 2.0**-10
CODECS = ("none", "snappy", "sz3:2^-10", "truncate:16", "truncate:22", "truncate:24", "inceptionn:2^-10")
WARM_UP, STEPS, ROUNDS = 5, 30, 5
BATCH = 25
WORKER = "benchmarks.training.software_codecs:train"


class Peer(Codec):
    """Someone else's codec, as ours are used: one array in, one stream out."""

    def __init__(self, name: str, encode: Callable[[Any], Any], decode: Callable[[Any, Any], Any]) -> None:
        self._name, self._encode, self._decode = name, encode, decode

    @property
    def name(self) -> str:
        return self._name

    @property
    def absolute_error(self) -> float | None:
        return None

    def encode(self, array: Any, *, threads: int = 1) -> memoryview:
        return memoryview(len(array).to_bytes(8, "little") + bytes(self._encode(np.ascontiguousarray(array))))

    def decode(self, buffer: Any, out: Any = None, *, threads: int = 1) -> Any:
        view = memoryview(buffer)
        target = np.empty(int.from_bytes(view[:8], "little"), np.float32) if out is None else out
        try:
            target[:] = self._decode(bytes(view[8:]), target)
        except RuntimeError as error:
            raise CodecError(f"{self._name}: {error}") from error
        return target


class Clocked(Codec):
    """Counts the seconds of wall time spent inside a codec."""

    def __init__(self, inner: Codec) -> None:
        self.inner, self.seconds = inner, 0.0

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def absolute_error(self) -> float | None:
        return self.inner.absolute_error

    def encode(self, array: Any, *, threads: int = 1) -> memoryview:
        began = time.perf_counter()
        encoded = self.inner.encode(array, threads=threads)
        self.seconds += time.perf_counter() - began
        return encoded

    def decode(self, buffer: Any, out: Any = None, *, threads: int = 1) -> Any:
        began = time.perf_counter()
        decoded = self.inner.decode(buffer, out, threads=threads)
        self.seconds += time.perf_counter() - began
        return decoded


def codec(name: str) -> Clocked | None:
    """A codec by name, a peer's included; None for ``none``."""
    if name == "none":
        return None
    if name not in ("snappy", "sz3:2^-10"):
        return Clocked(find(name))
    module = importlib.import_module("imagecodecs")
    if name == "snappy":
        return Clocked(
            Peer(
                name,
                lambda values: module.snappy_encode(values.view(np.uint8)),
                lambda data, _: np.frombuffer(module.snappy_decode(data), np.float32),
            )
        )
    return Clocked(
        Peer(
            name,
            lambda values: module.sz3_encode(values, mode="abs", abs=BOUND),
            lambda data, target: module.sz3_decode(data, target.shape, target.dtype),
        )
    )


def train(worker: Any) -> dict[str, Any]:
    """Steps of data-parallel training, timed: the worker function."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from benchmarks.support.socket_ring import ring_all_reduce, ring_from_store
    from lightloom.models.torch.zoo.chains import hdc

    torch.set_num_threads(1)
    chosen = codec(worker.arguments["codec"])
    images, labels = _digits(worker.arguments["data"], worker.rank)
    torch.manual_seed(0)
    net = hdc()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, 0.9, weight_decay=5e-5)
    group = dist.group.WORLD
    assert group is not None
    began = exchange = 0.0
    raw = sent = 0
    with ring_from_store(group.get_group_store(), worker.rank, worker.size, host=worker.host) as ring:
        for step in range(WARM_UP + STEPS):
            if step == WARM_UP:
                dist.barrier()
                began, exchange, raw, sent = time.perf_counter(), 0.0, 0, 0
                if chosen is not None:
                    chosen.seconds = 0.0
            at = slice(step * BATCH, (step + 1) * BATCH)
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[at]), labels[at]).backward()  # type: ignore[no-untyped-call]
            flat = nn.utils.parameters_to_vector(p.grad for p in net.parameters() if p.grad is not None)
            start = time.perf_counter()
            total, traffic = ring_all_reduce(ring, flat.numpy(), chosen)
            exchange += time.perf_counter() - start
            raw, sent = raw + traffic.nbytes_raw, sent + traffic.nbytes_sent
            average, position = torch.from_numpy(total) / worker.size, 0
            for parameter in net.parameters():
                parameter.grad = average[position : position + parameter.numel()].view_as(parameter)
                position += parameter.numel()
            optimizer.step()
        whole = time.perf_counter() - began
    inside = 0.0 if chosen is None else chosen.seconds
    return {
        "step_s": whole / STEPS,
        "exchange_s": exchange / STEPS,
        "codec_s": inside / STEPS,
        "ratio": raw / sent,
    }


def _digits(data: str | None, rank: int) -> tuple[Any, Any]:
    import torch

    count = (WARM_UP + STEPS) * BATCH
    if data is None:
        chance = torch.Generator().manual_seed(rank)
        return torch.rand(count, 784, generator=chance), torch.randint(10, (count,), generator=chance)
    from lightloom.exchange.datasets import training_digits

    digits = training_digits(Path(data))
    at = slice(rank * count, (rank + 1) * count)
    return torch.from_numpy(digits.images[at]).float() / 255, torch.from_numpy(digits.labels[at]).long()


def run(data: str | None, rounds: int) -> dict[str, Any]:
    """All codecs in each round; medians over rounds, of rank 0."""
    from benchmarks.support.limited_links import launch_limited
    from lightloom.reports.progress import progress

    found: dict[str, list[dict[str, float]]] = {name: [] for name in CODECS}
    with progress("Training steps", rounds * len(CODECS)) as advance:
        for _ in range(rounds):
            for name in CODECS:
                outcomes = launch_limited(WORKER, RANKS, 120.0, {"codec": name, "data": data}, rate_bits=RATE_BITS)
                found[name].append(outcomes[0].value)
                advance(1)
    return {
        "what": f"HDC, {RANKS} processes on {os.cpu_count()} cores, links of {RATE_BITS / 1e9:g} Gbit/s, ring, "
        f"{STEPS} steps a run, {rounds} rounds, {'MNIST' if data else 'random digits'}",
        "cpu": cpu_name(),
        "rows": [_row(name, found) for name in CODECS],
        "provenance": provenance({"codecs": CODECS, "steps": STEPS, "rounds": rounds, "rate": RATE_BITS}, seed=0),
    }


def _row(name: str, found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    times = [a["step_s"] / b["step_s"] for a, b in zip(found[name], found["none"], strict=True)]
    middle = {key: statistics.median(each[key] for each in found[name]) for key in found[name][0]}
    return {
        "codec": name,
        **middle,
        "step_of_none": statistics.median(times),
        "step_of_none_range": [min(times), max(times)],
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--data", default=os.environ.get("LIGHTLOOM_DATA"), help="data folder with MNIST; else random")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.json is not None:
        check_writable(given.json)
    result = run(given.data, given.rounds)
    print(result["what"])
    print_rows(
        [
            {
                "codec": row["codec"],
                "step ms": f"{1e3 * row['step_s']:.1f}",
                "exchange ms": f"{1e3 * row['exchange_s']:.1f}",
                "in codec ms": f"{1e3 * row['codec_s']:.1f}",
                "ratio": f"{row['ratio']:.2f}",
                "of none": "{:.2f} ({:.2f} … {:.2f})".format(row["step_of_none"], *row["step_of_none_range"]),
            }
            for row in result["rows"]
        ]
    )
    if given.json is not None:
        write_atomically(given.json, json.dumps(result, indent=1))


if __name__ == "__main__":
    raise SystemExit(exit_clearly(main))
