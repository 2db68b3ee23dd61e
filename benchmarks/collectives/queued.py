"""Collectives on packet links without barriers, beside steps and the proved bound.

    python -m benchmarks.collectives.queued [grids|tiers ...] [--ranks 64 256 1024] [--kind all-gather] [--json FILE]

grids   64 MiB at 50 GiB/s a link and 0.5 us a hop on ring, torus and mesh: the fastest schedule of steps, the queued
        one, and what one wavelength of light over the same fibres takes
tiers   64 MiB and 1 MiB on fabrics of the catalog: the fastest other algorithm, and the synthesized schedule

Every schedule is verified and held against its bound. CPU seconds of the queued schedule: search, proof and cost.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator

from benchmarks.support.grid_steps import in_rounds
from benchmarks.support.measure import cpu_name, exit_clearly, parse_parts, print_rows
from lightloom.collectives.collective import CLASSIC, Collective, Kind
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import Evaluation, admitted, evaluate, evaluate_all, find
from lightloom.core.files import write_atomically
from lightloom.core.results import provenance
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing

BANDWIDTH = 50 * 2.0**30
HOP = 0.5e-6
NBYTES = 64 * 2.0**20
GRIDS: tuple[type[Ring | Torus | Mesh], ...] = (Ring, Torus, Mesh)
TIERS = ("dgx-h100", "gb200-nvl72", "two-tier-400g", "tpu-v4")
Row = dict[str, object]


def grids(kind: Kind, ranks: int) -> Iterator[Row]:
    """The same collective on ring, torus and mesh."""
    collective = Collective(kind, ranks, NBYTES)
    light = WdmRing(ranks=ranks, wavelengths=1, wavelength_bandwidth=BANDWIDTH, hop_latency=HOP, reconfiguration_time=0)
    on_light = evaluate(find("synthesized"), collective, light).cost.time
    for grid in GRIDS:
        fabric = grid(ranks=ranks, bandwidth=BANDWIDTH, hop_latency=HOP)
        steps = cost(in_rounds(collective, fabric), fabric).time
        row = _measured(collective, fabric)
        yield row | {"steps_us": _us(steps)} | ({"light_us": _us(on_light)} if grid is Ring else {})


def tiers(kind: Kind, ranks: int) -> Iterator[Row]:
    """Fabrics of the catalog, beside the fastest other algorithm."""
    for name in TIERS:
        for nbytes in (NBYTES / 64, NBYTES):
            fabric, collective = load_fabric(name, ranks=ranks), Collective(kind, ranks, nbytes)
            others = [algorithm for algorithm in admitted(kind, fabric) if not algorithm.by_size]
            best: Evaluation = evaluate_all(collective, fabric, candidates=others)[0][0]
            row = _measured(collective, fabric)
            yield row | {"fabric": name, "steps_us": _us(best.cost.time), "by": best.algorithm.name}


def _measured(collective: Collective, fabric: Fabric) -> Row:
    """The synthesized schedule, verified, with its time over the bound."""
    begin = time.process_time()
    evaluation = evaluate(find("synthesized"), collective, fabric)
    spent = time.process_time() - begin
    return {
        "fabric": fabric.kind_name,
        "ranks": fabric.ranks,
        "MiB": collective.nbytes / 2**20,
        "queued_us": _us(evaluation.cost.time),
        "bound_us": _us(evaluation.bound.time),
        "ratio": round(evaluation.cost.time / evaluation.bound.time, 4),
        "cpu_s": round(spent, 2),
        "note": evaluation.schedule.notes[-1],
    }


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 1)


def main() -> int:
    """Measure and print."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.collectives.queued", description=__doc__.split("\n", 1)[0]
    )
    parts: dict[str, Callable[[Kind, int], Iterator[Row]]] = {"grids": grids, "tiers": tiers}
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--kind", choices=CLASSIC, default="all-gather")
    options = parse_parts(parser, parts)
    rows: list[Row] = []
    for part in options.parts or parts:
        for ranks in options.ranks:
            for row in parts[part](options.kind, ranks):
                rows.append(row)
                print_rows([row])
    if options.json:
        document = {"cpu": cpu_name(), "rows": rows, "provenance": provenance(vars(options))}
        write_atomically(options.json, json.dumps(document, indent=1, default=str))


if __name__ == "__main__":
    raise SystemExit(main())
