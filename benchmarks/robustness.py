"""Failures and stragglers measured: ``python -m benchmarks.robustness [--json FILE] [--kinds KIND ...]``; also
``--ranks N`` and ``--shares D ...``.

A ring of wavelengths of 40 Gb/s, 25 µs to set up, 1 µs a hop. One thing fails at a time: a new schedule is found,
verified and costed, nothing kept from an earlier run, kernels compiled. Every rank's share stays as it was. Then one
rank is late by 10 µs, or sends at half its speed, on the sound ring.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.measure import cpu_name, exit_clearly, print_rows
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.stepped import straggling
from lightloom.collectives.registry import admitted, build, evaluate, find
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.machines.fabrics.failures import Failure, damaged
from lightloom.machines.fabrics.wdm_ring import WdmRing

WAVELENGTHS = (8, 64)
SHARES = (1e3, 1e4, 1e6)
"""Bytes of one rank."""
KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce")
FAILURES = ("wavelength:3", "transceiver:9:2", "segment:17:clockwise", "cable:17", "node:5", "dark-node:5")
PLAYED = ("synthesized", "ring-striped", "optree-striped", "one-stage-striped")
PLAYED_SHARE = 1e4
LATE, SLOWER = 10e-6, 2.0


def ring(ranks: int, wavelengths: int) -> WdmRing:
    """The sound ring."""
    return WdmRing(
        ranks=ranks,
        wavelengths=wavelengths,
        wavelength_bandwidth=5e9,
        conversion_time=1e-6,
        reconfiguration_time=25e-6,
    )


def failures(kind: Kind, ranks: int, wavelengths: int, share: float) -> list[dict[str, Any]]:
    """The sound ring, then each failure."""
    rows: list[dict[str, Any]] = []
    for text in ("", *FAILURES):
        sound = ring(ranks, wavelengths)
        left = damaged(sound, [Failure.parse(text)]) if text else sound
        wanted = Collective(kind, left.ranks, share * left.ranks)
        started, cpu = time.perf_counter(), time.process_time()
        found = evaluate(find("synthesized"), wanted, left)
        spent = {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}
        sound_s = rows[0]["time_s"] if rows else found.cost.time
        row = {
            "kind": kind,
            "ranks": ranks,
            "wavelengths": wavelengths,
            "share": share,
            "failed": text,
            "time_s": found.cost.time,
            "slowdown": found.cost.time / sound_s,
            "bound_s": found.bound.time,
            "ratio": found.cost.time / found.bound.time,
            "bound_by": found.bound.bound_by,
        }
        rows.append(row | {name: round(value, 2) for name, value in spent.items()})
        print_rows(rows[-1:])
    return rows


def stragglers(kind: Kind, ranks: int, wavelengths: int, share: float) -> list[dict[str, Any]]:
    """Seconds that the worst and the average rank add, by algorithm."""
    fabric = ring(ranks, wavelengths)
    rows: list[dict[str, Any]] = []
    wanted = Collective(kind, ranks, share * ranks)
    for each in admitted(kind, fabric):
        if each.name in PLAYED:
            schedule = build(each, wanted, fabric)
            late, slow = straggling(schedule, fabric, late=LATE), straggling(schedule, fabric, slower=SLOWER)
            rows.append(
                {
                    "kind": kind,
                    "ranks": ranks,
                    "wavelengths": wavelengths,
                    "share": share,
                    "algorithm": each.name,
                    "time_s": late.time,
                    "late_worst_s": float(late.later.max()),
                    "late_mean_s": float(late.later.mean()),
                    "slow_worst_s": float(slow.later.max()),
                    "slow_mean_s": float(slow.later.mean()),
                }
            )
            print_rows(rows[-1:])
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By failure: geometric means of slowdown and of time over bound, their maxima, and the longest search."""
    found = {}
    for text in FAILURES:
        mine = [row for row in rows if row["failed"] == text]
        slowdown, ratio = (np.array([row[name] for row in mine]) for name in ("slowdown", "ratio"))
        found[text] = {
            "slowdown": float(np.exp(np.log(slowdown).mean())),
            "worst_slowdown": float(slowdown.max()),
            "ratio": float(np.exp(np.log(ratio).mean())),
            "worst_ratio": float(ratio.max()),
            "longest_cpu_s": max(row["cpu_s"] for row in mine),
            "longest_wall_s": max(row["wall_s"] for row in mine),
        }
    return found


def main() -> int:
    """Measure and print."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robustness", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES, help="bytes of one rank")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    if options.json:
        check_writable(options.json)
    failed: list[dict[str, Any]] = []
    played: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LIGHTLOOM_CACHE"] = folder
        for kind in options.kinds:
            # Kernels compile before anything is timed.
            for warm in (ring(8, 4), damaged(ring(8, 4), [Failure.parse("wavelength:3")])):
                evaluate(find("synthesized"), Collective(kind, 8, 8e4), warm)
            for wavelengths in WAVELENGTHS:
                for share in options.shares:
                    failed += failures(kind, options.ranks, wavelengths, share)
                if PLAYED_SHARE in options.shares:
                    played += stragglers(kind, options.ranks, wavelengths, PLAYED_SHARE)
    document = {"cpu": cpu_name(), "rows": failed, "stragglers": played, "summary": summary(failed)}
    print(json.dumps(document["summary"], indent=1))
    if options.json:
        write_atomically(options.json, json.dumps(document | {"provenance": provenance(vars(options))}, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
