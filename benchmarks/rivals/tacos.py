"""All-gathers of TACOS, from its own synthesizer, compiled from its sources."""

from __future__ import annotations

import resource
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.rivals.fabrics import BANDWIDTH, HOP, Links
from benchmarks.rivals.spread import Spread
from lightloom.core.arrays import Ints
from lightloom.core.errors import InputError

_DRIVER = Path(__file__).with_name("tacos_driver.cpp")


@lru_cache(maxsize=1)
def _program(sources: Path) -> Path:
    """The driver linked with the sources, without their ``main``."""
    files = sorted(path for path in (sources / "src").rglob("*.cpp") if path.name != "main.cpp")
    if not files:
        raise InputError(f"{sources}: expected the sources of TACOS, with src/*/*.cpp")
    program = Path(tempfile.mkdtemp()) / "tacos"
    flags = ["-std=c++17", "-O3", "-DNDEBUG", "-fno-access-control", f"-I{sources / 'include'}"]
    subprocess.run(["g++", *flags, str(_DRIVER), *map(str, files), "-o", str(program)], check=True)
    return program


def tacos(sources: Path, links: Links, ranks: int, share: float, pieces: int, seed: int) -> Spread:
    """One all-gather that it finds, for a share of so many bytes in so many pieces."""
    gibibytes = BANDWIDTH / (1 << 30)
    head = [ranks, pieces, max(round(share / pieces), 1), gibibytes, HOP * 1e6, seed, len(links.source)]
    ends = np.stack([links.source, links.destination], axis=1).ravel()
    program = _program(sources)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    said = subprocess.run(
        [str(program)], input=" ".join(map(str, [*head, *ends])), capture_output=True, text=True, check=True
    )
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    rows = np.array(said.stdout.split(), np.float64).reshape(-1, 4)
    step = np.unique(rows[:, 0], return_inverse=True)[1]
    source, destination, chunk = rows[:, 1:].astype(np.int64).T
    return Spread(step, source, destination, _by_owner(chunk, ranks, pieces), pieces, spent)


def _by_owner(chunk: Ints, ranks: int, pieces: int) -> Ints:
    """Their chunk c is a share of rank c mod N; ours is numbered by owner."""
    numbered: Ints = chunk % ranks * pieces + chunk // ranks
    return numbered
