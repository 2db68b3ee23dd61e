"""Synthesized schedules measured: ``python -m benchmarks.synthesis [--json FILE] [--ranks N ...] [--kinds K ...]``.

Collectives on rings of wavelengths of 40 Gb/s, 25 µs to set up, 1 µs a hop: every schedule is verified, its time stands
over the bound, set-up included in both. ``--guard-time`` lets every piece hold its lightpath longer, ``--taps`` lets
lightpaths serve several ranks. Beside it, up to 256 ranks, the fastest other algorithm charged physically, and OpTree
or WRHT. CPU seconds of search, verification and cost, nothing kept from an earlier run, and then of the same again with
the schedule kept; kernels compiled.
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
from lightloom.collectives.evaluate import Evaluation, evaluate
from lightloom.collectives.registry import admitted, find
from lightloom.collectives.spec import Collective, Kind
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.provenance import provenance
from lightloom.fabrics.wdm_ring import WdmRing

RANKS = (16, 64, 256, 1024, 4096)
WAVELENGTHS = (8, 64)
SHARES = (1e3, 1e4, 1e5, 1e6, 1e7)
"""Bytes of one rank."""
KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")
OTHERS_UP_TO = 256


def measure(kind: Kind, ranks: int, wavelengths: int, share: float, guard_time: float, taps: int) -> dict[str, Any]:
    """One collective on one ring; ``share`` is one rank's part, in an all-to-all what a rank sends to all together."""
    fabric = WdmRing(
        ranks=ranks,
        wavelengths=wavelengths,
        wavelength_bandwidth=5e9,
        conversion_time=1e-6,
        reconfiguration_time=25e-6,
        guard_time=guard_time,
        multicast_taps=taps,
    )
    wanted = Collective(kind, ranks, share if kind == "all-to-all" else share * ranks)
    found, spent = _timed(wanted, fabric)
    _, again = _timed(wanted, fabric)
    row = {
        "kind": kind,
        "ranks": ranks,
        "wavelengths": wavelengths,
        "share": share,
        "time_s": found.cost.time,
        "bound_s": found.bound.time,
        "ratio": found.cost.time / found.bound.time,
        "cpu_s": round(spent, 2),
        "kept_cpu_s": round(again, 3),
        "rows": len(found.schedule),
        "design": found.schedule.notes[0],
    }
    return row | (_others(wanted, fabric) if ranks <= OTHERS_UP_TO else {})


def _timed(wanted: Collective, fabric: WdmRing) -> tuple[Evaluation, float]:
    started = time.process_time()
    found = evaluate(find("synthesized"), wanted, fabric)
    return found, time.process_time() - started


def _others(wanted: Collective, fabric: WdmRing) -> dict[str, Any]:
    rivals = [each for each in admitted(wanted.kind, fabric) if not each.by_size]
    times = {each.name: evaluate(each, wanted, fabric).cost.time for each in rivals}
    best = min(times, key=lambda name: times[name])
    papers = {f"{name}_s": times[name] for name in ("optree", "wrht") if name in times}
    return {"fastest_other": best, "fastest_other_s": times[best], **papers}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric mean and maximum of the ratios by kind, and whether another algorithm was ever faster."""
    found: dict[str, Any] = {}
    for kind in sorted({row["kind"] for row in rows}):
        ratios = np.array([row["ratio"] for row in rows if row["kind"] == kind])
        found[kind] = {"geometric_mean": float(np.exp(np.log(ratios).mean())), "maximum": float(ratios.max())}
    for ranks in sorted({row["ranks"] for row in rows}):
        mine = [row for row in rows if row["ranks"] == ranks]
        found[f"{ranks} ranks"] = {each: max(row[each] for row in mine) for each in ("cpu_s", "kept_cpu_s")}
    found["slower_than_another"] = sum(row.get("fastest_other_s", np.inf) < row["time_s"] * (1 - 1e-9) for row in rows)
    return found


def main() -> int:
    """Measure and print."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synthesis", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--wavelengths", type=int, nargs="+", default=WAVELENGTHS)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES, help="bytes of one rank")
    parser.add_argument("--kinds", choices=KINDS, nargs="+", default=KINDS)
    parser.add_argument("--guard-time", type=float, default=0.0, help="seconds that a piece holds a lightpath besides")
    parser.add_argument("--taps", type=int, default=1, help="ranks that one lightpath may serve")
    options = parser.parse_args()
    if options.json:
        check_writable(options.json)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LIGHTLOOM_CACHE"] = folder
        for kind in options.kinds:
            measure(kind, 8, 2, 1e4, 0.0, options.taps)
        for ranks in options.ranks:
            for wavelengths in options.wavelengths:
                for share in options.shares:
                    for kind in options.kinds:
                        rows.append(measure(kind, ranks, wavelengths, share, options.guard_time, options.taps))
                        print_rows(rows[-1:])
    document = {"cpu": cpu_name(), "rows": rows, "summary": summary(rows)}
    print(json.dumps(document["summary"], indent=1))
    if options.json:
        write_atomically(options.json, json.dumps(document | {"provenance": provenance(vars(options))}, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
