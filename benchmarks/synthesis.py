"""Synthesized schedules measured: ``python -m benchmarks.synthesis [--json FILE] [--ranks N ...] [--kinds K ...]``.

Collectives on rings of wavelengths of 40 Gb/s, 1 µs a hop: every schedule is verified, its time stands over the bound.
Three ratios a cell: set-up of 25 µs in both; without it, for a run that finds its circuits in place ("steady"); and, up
to 1,024 ranks, a set-up of 100 ns in both. The last lines are tables of each kind, with geometric means and maxima.
With ``--json`` every cell is kept as it is made, and the same command goes on where it was stopped, as long as the
package is the same.

``--guard-time`` lets every piece hold its lightpath longer, ``--taps`` lets lightpaths serve several ranks. With
``--others``, up to 256 ranks, the fastest other algorithm stands beside, and OpTree or WRHT. CPU seconds of search,
verification and cost, nothing kept from an earlier run, and then of the same again with the schedule kept; kernels
compiled.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import lightloom
from benchmarks.support.measure import cpu_name, exit_clearly, print_rows
from lightloom.collectives.collective import (
    CLASSIC,
    ROOTED,
    Collective,
    Kind,
)
from lightloom.collectives.registry import Evaluation, admitted, evaluate, find
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.machines.fabrics.wdm_ring import WdmRing

RANKS = (16, 64, 256, 1024, 4096)
WAVELENGTHS = (8, 64)
SHARES = (1e3, 1e4, 1e5, 1e6, 1e7)
"""Bytes of one rank; in an all-to-all of what it sends to all together, in a broadcast and a reduce of all data."""
SETUP, FAST_SETUP = 25e-6, 100e-9
OTHERS_UP_TO = 256
STEADY_UP_TO = 1024
"""Ranks of the summary without set-up, and of cells with the short one: 40 cells a kind."""


def measure(kind: Kind, ranks: int, wavelengths: int, share: float, options: argparse.Namespace) -> dict[str, Any]:
    """One collective on one ring."""
    fabric = WdmRing(
        ranks=ranks,
        wavelengths=wavelengths,
        wavelength_bandwidth=5e9,
        conversion_time=1e-6,
        reconfiguration_time=SETUP,
        guard_time=options.guard_time,
        multicast_taps=options.taps,
    )
    whole = share if kind == "all-to-all" or kind in ROOTED else share * ranks
    wanted = Collective(kind, ranks, whole)
    found, spent = _timed(wanted, fabric)
    _, again = _timed(wanted, fabric)
    fast = None
    if ranks <= STEADY_UP_TO:
        fast, _ = _timed(wanted, fabric.model_copy(update={"reconfiguration_time": FAST_SETUP}))
    row = {
        "kind": kind,
        "ranks": ranks,
        "wavelengths": wavelengths,
        "share": share,
        "time_s": found.cost.time,
        "bound_s": found.bound.time,
        "bound_by": found.bound.bound_by,
        "ratio": found.bound.ratio(found.cost),
        "steady_ratio": found.bound.repeated_ratio(found.cost),
        "fast_time_s": fast and fast.cost.time,
        "fast_ratio": fast and fast.bound.ratio(fast.cost),
        "cpu_s": round(spent, 2),
        "kept_cpu_s": round(again, 3),
        "rows": len(found.schedule),
        "design": found.schedule.notes[0],
    }
    return row | (_others(wanted, fabric) if options.others and ranks <= OTHERS_UP_TO else {})


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
    """Geometric means and maxima of the ratios by kind, CPU seconds, and whether another algorithm was ever faster."""
    found: dict[str, Any] = {}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = [row for row in rows if row["kind"] == kind]
        small = [row for row in mine if row["ranks"] <= STEADY_UP_TO]
        found[kind] = {
            "with_setup": _means(mine, "ratio"),
            "steady": _means(small, "steady_ratio"),
            "setup_of_100_ns": _means(small, "fast_ratio"),
        }
    for ranks in sorted({row["ranks"] for row in rows}):
        mine = [row for row in rows if row["ranks"] == ranks]
        found[f"{ranks} ranks"] = {each: max(row[each] for row in mine) for each in ("cpu_s", "kept_cpu_s")}
    found["slower_than_another"] = sum(row.get("fastest_other_s", np.inf) < row["time_s"] * (1 - 1e-9) for row in rows)
    return found


def _means(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Of those that have the ratio; circuits that change have no steady state."""
    ratios = np.array([row[name] for row in rows if row[name] is not None])
    if not len(ratios):
        return {"cells": 0}
    mean = float(np.exp(np.log(ratios).mean()))
    return {"cells": len(ratios), "geometric_mean": round(mean, 4), "maximum": round(float(ratios.max()), 4)}


def tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A table of each kind: with set-up / steady / with a set-up of 100 ns, by ranks and wavelengths and by bytes."""
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = {(row["ranks"], row["wavelengths"], row["share"]): row for row in rows if row["kind"] == kind}
        shares = sorted({share for _, _, share in mine})
        yield f"\n{kind}: with a set-up of 25 µs / steady / with a set-up of 100 ns\n"
        yield "| ranks | wavelengths | " + " | ".join(_decimal(share) for share in shares) + " |"
        yield "| ---: | ---: |" + " ---: |" * len(shares)
        for ranks, wavelengths in sorted({key[:2] for key in mine}):
            cells = [_cell(mine.get((ranks, wavelengths, share))) for share in shares]
            yield f"| {ranks:,} | {wavelengths} | " + " | ".join(cells) + " |"


def _decimal(nbytes: float) -> str:
    return f"{nbytes / 1e6:g} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:g} kB"


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    ratios = (row["ratio"], row["steady_ratio"], row["fast_ratio"])
    return " / ".join("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios)


def _sources() -> str:
    """A digest of all sources that decide what is measured."""
    root = Path(lightloom.__file__).parent
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for folder in ("collectives", "fabrics"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _kept(file: Path | None, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Cells that a run of the same package with the same options left in the file.

    Raises:
        ConfigError: the file is something else.
    """
    if file is None or not file.exists():
        return []
    try:
        document = json.loads(file.read_text())
        same = document["asked"] == asked
        rows: list[dict[str, Any]] = document["rows"]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{file}: expected cells of an earlier run; name another file") from None
    return rows if same else []


def main() -> int:
    """Measure and print."""
    return exit_clearly(_main)


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.synthesis", description=__doc__.split("\n", 1)[0])
    options.add_argument("--json", type=Path, help="keep the cells in this file, and go on from what it holds")
    options.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    options.add_argument("--wavelengths", type=int, nargs="+", default=WAVELENGTHS)
    options.add_argument("--shares", type=float, nargs="+", default=SHARES, help="bytes of one rank")
    options.add_argument("--kinds", choices=CLASSIC, nargs="+", default=CLASSIC)
    options.add_argument("--guard-time", type=float, default=0.0, help="seconds that a piece holds a lightpath besides")
    options.add_argument("--taps", type=int, default=1, help="ranks that one lightpath may serve")
    options.add_argument("--others", action="store_true", help="measure other algorithms, too, up to 256 ranks")
    return options


def _main() -> None:
    options = parser().parse_args()
    if options.json:
        check_writable(options.json)
    asked = {"sources": _sources(), "guard_time": options.guard_time, "taps": options.taps, "others": options.others}
    rows = _kept(options.json, asked)
    known = {(row["kind"], row["ranks"], row["wavelengths"], row["share"]) for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LIGHTLOOM_CACHE"] = folder
        for kind in options.kinds:
            measure(kind, 8, 2, 1e4, options)
        for ranks, wavelengths, share, kind in product(
            options.ranks, options.wavelengths, options.shares, options.kinds
        ):
            if (kind, ranks, wavelengths, share) in known:
                continue
            rows.append(measure(kind, ranks, wavelengths, share, options))
            print_rows(rows[-1:])
            if options.json:
                document = {"asked": asked, "cpu": cpu_name(), "rows": rows, "summary": summary(rows)}
                write_atomically(options.json, json.dumps(document | {"provenance": provenance(asked)}, indent=1))
    print(json.dumps(summary(rows), indent=1))
    print("\n".join(tables(rows)))


if __name__ == "__main__":
    raise SystemExit(main())
