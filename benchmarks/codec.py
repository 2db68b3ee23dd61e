"""Our codecs beside memcpy, torch's casts and other people's codecs: one thread, one run, gradients from files.

    python -m benchmarks.codec --gradients early.npy middle.npy late.npy --json codec.json --figure codec.png
    python -m benchmarks.codec --measured codec.json --markdown

A gradient file is a flat float32 array; it is repeated up to 64 MB. GB/s of float32 input, the best round by CPU time
of the thread; every round goes through all candidates in turn, so that a disturbance hits them alike. Memory to decode
into exists beforehand, memory to encode into where the codec takes it. Laplace noise of scale 1e-3 is always measured.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.codec_report import draw, markdown, print_table, verdicts
from benchmarks.support.measure import cpu_name, exit_clearly
from benchmarks.support.peers import Candidate, Memory, Values, peers
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.exchange.compression.kernels import implementation
from lightloom.exchange.compression.registry import find
from lightloom.exchange.compression.stream import FramedCodec
from lightloom.reports.progress import progress

OURS = (
    "inceptionn:2^-10",
    "inceptionn:2^-6",
    "inceptionn:2^-8",
    "inceptionn:2^-14",
    "inceptionn-printed:2^-10",
    "truncate:16",
    "block-fixed-point:8",
)
MEGABYTES = 64
ROUNDS = 7
PACKAGES = ("numpy", "torch", "imagecodecs", "zstandard", "blosc2", "fpzip")
_PIECE = 1 << 20


def load(path: Path) -> Values:
    """The gradient in a file.

    Raises:
        ConfigError: unreadable, not float32, not flat, or empty.
    """
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read gradients from {str(path)!r}: {error}") from error
    if not isinstance(values, np.ndarray) or values.dtype != np.float32 or values.ndim != 1 or values.size == 0:
        found = f"{values.dtype} of shape {values.shape}" if isinstance(values, np.ndarray) else "an archive"
        raise ConfigError(f"{str(path)!r} holds {found}: expected a flat, non-empty float32 array (.npy)")
    return values


def laplace(count: int) -> Values:
    """Laplace noise of scale 1e-3: 38 % of it lies above 2^-10."""
    return np.random.default_rng(0).laplace(0, 1e-3, count).astype(np.float32)


def candidates(memory: Memory) -> tuple[list[Candidate], list[str]]:
    """memcpy, our codecs, and everyone else's; with the packages that are missing."""

    def copy(_: object = None) -> Values:
        np.copyto(memory.out, memory.values)
        return memory.out

    def ours(name: str) -> Candidate:
        codec = find(name)
        if not isinstance(codec, FramedCodec):
            raise ConfigError(f"{name} has no stream of frames")
        return Candidate(
            name,
            "ours",
            lambda: codec.encode(memory.values, out=memory.buffer),
            lambda stream: codec.decode(stream, out=memory.out),
        )

    others, missing = peers(memory)
    found = [Candidate("memcpy", "copy", copy, copy, lambda _: memory.values.nbytes), *map(ours, OURS), *others]
    return found, missing


def measure(values: Values, rounds: int, advance: Callable[[int], None]) -> tuple[list[dict[str, Any]], list[str]]:
    """One row a codec: GB/s both ways, multiples of memcpy, ratio, errors; with the packages that are missing."""
    memory = Memory(values)
    taking_part, missing = candidates(memory)
    best = {each.name: [float("inf"), float("inf")] for each in taking_part}
    elsewhere = dict.fromkeys(best, 0.0)
    facts: dict[str, dict[str, float]] = {}
    for turn in range(rounds):
        # Back and forth: what a candidate's predecessor leaves in the caches must not always be the same.
        for each in taking_part if turn % 2 == 0 else reversed(taking_part):
            encoded, encode, aside = _timed(each.encode)
            decoded, decode, more = _timed(lambda each=each, encoded=encoded: each.decode(encoded))  # type: ignore[misc]
            best[each.name] = [min(best[each.name][0], encode), min(best[each.name][1], decode)]
            elsewhere[each.name] += aside + more
            if turn == 0:
                result = decoded if isinstance(decoded, np.ndarray) and decoded.dtype == np.float32 else memory.out
                facts[each.name] = {"ratio": values.nbytes / each.size(encoded), **errors(values, result)}
                memory.out.fill(np.nan)
            advance(1)
    base = best["memcpy"]
    return [
        {
            "codec": each.name,
            "kind": each.kind,
            "encode_GBps": values.nbytes / encode / 1e9,
            "decode_GBps": values.nbytes / decode / 1e9,
            "encode_of_memcpy": base[0] / encode,
            "decode_of_memcpy": base[1] / decode,
            **facts[each.name],
            "cpu_s_on_other_threads": elsewhere[each.name],
        }
        for each, (encode, decode) in zip(taking_part, best.values(), strict=True)
    ], missing


def errors(values: Values, decoded: Values) -> dict[str, float]:
    """Largest absolute error, and relative error in the Euclidean norm: |decoded - values| / |values|."""
    largest = lost = power = 0.0
    for at in range(0, values.size, _PIECE):
        exact = values[at : at + _PIECE].astype(np.float64)
        away = decoded[at : at + _PIECE] - exact
        largest = max(largest, float(np.abs(away).max()))
        lost += float(away @ away)
        power += float(exact @ exact)
    return {"largest_error": largest, "relative_l2_error": (lost / power) ** 0.5 if power else 0.0}


def _timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, seconds of CPU on this thread, and on the other threads of the process."""
    process, start = time.process_time(), time.thread_time()
    result = work()
    own = time.thread_time() - start
    return result, own, max(0.0, time.process_time() - process - own)


def run(files: list[Path], megabytes: int, rounds: int) -> dict[str, Any]:
    """Measure all candidates on every file and on Laplace noise."""
    count = megabytes * 1_000_000 // 4
    read = {path.stem: load(path) for path in files}
    if len(read) != len(files):
        raise ConfigError("two gradient files have the same name: their names head the tables")
    sizes = {name: values.size for name, values in read.items()}
    data = {name: np.resize(values, count) for name, values in read.items()} | {"laplace 1e-3": laplace(count)}
    names = list(sizes) or list(data)
    rows: dict[str, list[dict[str, Any]]] = {}
    missing: list[str] = []
    steps = rounds * len(data) * len(candidates(Memory(np.ones(8, np.float32)))[0])
    with progress("codecs", steps) as advance:
        for name, values in data.items():
            rows[name], missing = measure(values, rounds, advance)
    return {
        "kernel": implementation(),
        "cpu": cpu_name(),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name)) is not None},
        "missing": missing,
        "megabytes": megabytes,
        "rounds": rounds,
        "gradients": sizes,
        "provenance": provenance({"gradients": sizes, "megabytes": megabytes, "rounds": rounds}, seed=0),
        "middle": "middle" if "middle" in names else names[len(names) // 2],
        "data": rows,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def main(arguments: list[str] | None = None) -> None:
    """Measure or read a measurement; print tables and the sum-up; write JSON and picture as asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codec", description=__doc__.split("\n", 1)[0])
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--gradients", type=Path, nargs="+", default=[], help="flat float32 .npy files")
    source.add_argument("--measured", type=Path, help="do not measure: read this JSON")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="a file is repeated up to this size")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="write the measurement here")
    parser.add_argument("--figure", type=Path, help="draw throughput against ratio (.svg, .png, .pdf)")
    parser.add_argument("--markdown", action="store_true", help="print the table of the documentation instead")
    asked = parser.parse_args(arguments)
    for path in (asked.json, asked.figure):
        if path is not None:
            check_writable(path)
    if asked.megabytes < 1 or asked.rounds < 1:
        raise ConfigError("--megabytes and --rounds must be at least 1")
    found = _read(asked.measured) if asked.measured else run(asked.gradients, asked.megabytes, asked.rounds)
    if asked.markdown:
        print(markdown(found))
    else:
        print_table(found)
        print(*verdicts(found), sep="\n")
    if asked.json is not None:
        write_atomically(asked.json, json.dumps(found, indent=1) + "\n")
    if asked.figure is not None:
        draw(found, asked.figure)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        found["data"][found["middle"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{str(path)!r} is no measurement of this benchmark: {error}") from error
    return found


if __name__ == "__main__":
    sys.exit(exit_clearly(main))
