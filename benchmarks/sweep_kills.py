"""A sweep killed at random moments: ``python -m benchmarks.sweep_kills [--kills N] [--seed S] [--jobs N]``.

The same 2,000 points once without a kill, and once killed with SIGKILL and resumed until all is there. The results must
have the same bytes, and the journal every row once.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.support.measure import cpu_name, exit_clearly
from lightloom.core.errors import VerificationError
from lightloom.core.journal import JOURNAL
from lightloom.planning.sweeps.run import RESULTS

EXPERIMENT = """
name: kills
collectives:
  - kind: [all-gather, reduce-scatter, all-reduce, all-to-all]
    fabric: wdm-ring
    ranks: [8, 12, 16, 24, 32]
    set: {wavelengths: [8, 64]}
    nbytes_per_rank: [1kB, 10kB, 100kB, 1MB, 10MB]
    algorithm: [ring, ring-two-way, ring-two-way-striped, recursive-doubling, halving-doubling, one-stage,
                binomial-tree-striped, optree, wrht]
plans:
  - model: [hdc, alexnet, vgg16, resnet50, resnet101]
    cluster: terarack-64
    ranks: [16, 32]
    strategy: all
    algorithm: [ring, ring-striped, ring-two-way, ring-two-way-striped, recursive-doubling, halving-doubling, one-stage,
                binomial-tree, optree, wrht]
"""
POINTS = 2000


def run(experiment: Path, folder: Path, jobs: int) -> subprocess.Popen[str]:
    """A sweep in a process of its own."""
    command = [sys.executable, "-c", "from lightloom.app.cli.main import main; main()", "sweep", str(experiment)]
    command += ["--out", str(folder), "--workers", str(jobs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    """What a sweep prints; raises where it fails."""
    out, err = process.communicate()
    if process.returncode:
        raise VerificationError(f"a sweep ends with {process.returncode}: {err}")
    return out


def kept(folder: Path) -> Sequence[str]:
    """The lines that have reached the disk, a torn one left out."""
    path = folder / JOURNAL
    return [] if not path.exists() else [each for each in path.read_text().splitlines(True) if each.endswith("\n")]


def measure(kills: int, seed: int, jobs: int, folder: Path) -> None:
    """Run, kill, resume, compare; print what was there after each kill."""
    draw, experiment = random.Random(seed), folder / "kills.yaml"
    experiment.write_text(EXPERIMENT)
    started = time.perf_counter()
    print(finished(run(experiment, folder / "whole", jobs)).splitlines()[0])
    whole = time.perf_counter() - started
    print(f"without a kill: {whole:.1f} s with {jobs} processes")
    # Each at a random row: at a random time most would fall into the start of the processes.
    for kill, moment in enumerate(sorted(draw.randrange(POINTS) for _ in range(kills)), 1):
        process = run(experiment, folder / "killed", jobs)
        began, moment = time.perf_counter(), max(moment, len(kept(folder / "killed")) + 1)
        while len(kept(folder / "killed")) < moment and process.poll() is None:
            time.sleep(draw.uniform(0, 0.1))
        process.kill()
        process.communicate()
        print(f"kill {kill} after {time.perf_counter() - began:.1f} s: {len(kept(folder / 'killed'))} rows")
    print(finished(run(experiment, folder / "killed", jobs)).splitlines()[0])
    lines = kept(folder / "killed")
    if len(lines) != POINTS or len(set(lines)) != POINTS:
        raise VerificationError(f"{len(lines)} rows, {len(set(lines))} of them different: expected {POINTS}")
    if (folder / "whole" / RESULTS).read_bytes() != (folder / "killed" / RESULTS).read_bytes():
        raise VerificationError("the results differ")
    print(f"{POINTS} rows, each once; the same {(folder / 'whole' / RESULTS).stat().st_size} bytes of results")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    print(cpu_name())
    with tempfile.TemporaryDirectory() as folder:
        measure(chosen.kills, chosen.seed, chosen.jobs, Path(folder))


if __name__ == "__main__":
    exit_clearly(main)
