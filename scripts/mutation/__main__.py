"""Change one line at a time, and see whether the tests notice.

    python -m scripts.mutation                          16 mutants of each package, seeded by the commit
    python -m scripts.mutation --package cost --each 40 --seed 7
    python -m scripts.mutation --report                 what the journal holds, without trying any

The journal is resumed when the same seed runs again. ``survivors.toml`` says why no test can kill some mutants. The
exit status is 1 while fewer are killed than the goals ask for, or while a survivor has no reason.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from scripts.mutation.journal import report

EACH = 16


def main() -> None:
    """Try what the journal lacks, then report."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ |= {"CI": "1", "LIGHTLOOM_EXAMPLES": "1"}
    from scripts.mutation.children import load_libraries
    from scripts.mutation.packages import PACKAGES
    from scripts.mutation.trials import run

    parser = argparse.ArgumentParser(prog="python -m scripts.mutation", description="Do tests notice small changes?")
    parser.add_argument("--seed", type=int, help="an integer; taken from the commit unless given")
    parser.add_argument("--each", type=int, default=EACH, help=f"mutants of each package ({EACH})")
    parser.add_argument("--package", action="append", choices=list(PACKAGES), help="only this package; repeatable")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="children at a time")
    parser.add_argument("--out", type=Path, default=Path("out/mutants"), help="folder of the journals")
    parser.add_argument("--keep-map", action="store_true", help="choose tests by the last map even if files changed")
    parser.add_argument("--report", action="store_true", help="report what the journal holds, and try nothing")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else seed_of_commit()
    packages = options.package or list(PACKAGES)
    options.out.mkdir(parents=True, exist_ok=True)
    journal = options.out / f"seed-{seed}.jsonl"
    if not options.report:
        load_libraries()
        run(packages, seed, options.each, options.workers, journal, options.keep_map)
    print(f"seed {seed}, journal {journal}")
    sys.exit(0 if report(journal, packages) else 1)


def seed_of_commit() -> int:
    """Return a number that the commit decides."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    return int(sha256(commit.encode()).hexdigest()[:8], 16)


if __name__ == "__main__":
    main()
