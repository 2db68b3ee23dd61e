"""Schedules found for graphs, measured: ``python -m benchmarks.collectives.graph_synthesis [PART ...] [--json FILE]``.

grids      all-gather and all-reduce on meshes, tori and electrical rings of 50 GB/s a link, 1 µs a hop unless ``--hop``
           says otherwise; beside the bound stands what no schedule of steps beats: all hops between the farthest ranks
           and what the poorest rank receives, one after the other
switches   all-gather, all-reduce and all-to-all on circuit switches of 2, 4 and 8 planes of 50 GB/s, 10 ms to set and
           1 µs a hop; ratios without the set-up, which hides everything else
flows      what the fullest circuit of an all-to-all carries, over the least that it would with flows split at will
           (a linear programme), and both over the least in any graph of that degree
stars      which algorithm is fastest through a packet switch

Every schedule is verified. Up to 64 ranks the fastest other algorithm stands beside. CPU seconds, kernels compiled.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.support.grid_steps import in_rounds
from benchmarks.support.measure import cpu_name, exit_clearly, parse_parts, print_rows
from lightloom.collectives.bounds.link_use import ranks_by_hops
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import admitted, evaluate
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.switch import Lift, exchange_over_lift, lift, on_switch
from lightloom.collectives.verify.verifier import verify
from lightloom.core.files import write_atomically
from lightloom.core.results import provenance
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.machines.fabrics.wdm_ring import Ring

SHARES = (1e3, 1e5, 1e7)
"""Bytes of one rank."""
GRIDS = ((4, 4), (5, 7), (8, 8), (16, 16), (32, 32))
SWITCHED = (16, 64, 100, 256, 1024)
DEGREES = (2, 4, 8)
OTHERS_UP_TO = 64
BANDWIDTH = 50e9
Row = dict[str, Any]


def grids(hop: float) -> Iterator[Row]:
    """Meshes, tori and rings."""
    for rows, columns in GRIDS:
        ranks = rows * columns
        fields = {"ranks": ranks, "bandwidth": BANDWIDTH, "hop_latency": hop}
        for fabric in (Mesh(rows=rows, **fields), Torus(rows=rows, **fields), Ring(**fields)):  # type: ignore[arg-type]
            for kind in ("all-gather", "all-reduce"):
                for share in SHARES:
                    row = _measured(kind, share, fabric, in_rounds)
                    poorest = min(cut.capacity for cut in fabric.cuts() if cut.ranks == 1)
                    stepped = fabric.diameter_latency() + (ranks - 1) * share / poorest
                    yield row | ({"over_stepped": row["time_s"] / stepped} if kind == "all-gather" else {})


def switches(hop: float) -> Iterator[Row]:
    """Circuit switches."""
    for ranks in SWITCHED:
        for degree in DEGREES:
            fabric = CircuitSwitch(ranks=ranks, degree=degree, bandwidth=BANDWIDTH, hop_latency=hop / 2)
            for kind in ("all-gather", "all-reduce", "all-to-all"):
                for share in SHARES:
                    yield {"degree": degree} | _measured(kind, share, fabric, on_switch)


def flows(hop: float) -> Iterator[Row]:  # noqa: ARG001 - loads have no latency
    """Loads of all-to-alls on lifts, in blocks."""
    for ranks in (16, 32, 64):
        for degree in DEGREES:
            circuits = Lift.of(ranks, lift(ranks, degree, 4))
            wanted, fabric = Collective("all-to-all", ranks, 1.0), CircuitSwitch(ranks=ranks, degree=degree)
            ours = np.bincount(exchange_over_lift(wanted, fabric, circuits, 4, "").lightpath).max() / 4
            hops = ranks_by_hops(ranks, degree)
            any_graph = sum((k + 1) * number for k, number in enumerate(hops)) / degree
            least = _least_load(circuits)
            yield {
                "fabric": "lift",
                "kind": "all-to-all",
                "ranks": ranks,
                "degree": degree,
                "ratio": ours / least,
                "over_any_graph": ours / any_graph,
                "least_over_any_graph": least / any_graph,
            }


def _least_load(lift: Lift) -> float:
    """The least that the fullest circuit carries when a block goes from everyone to everyone, split at will."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    ranks, (degree, period) = len(lift.origin), lift.ahead.shape
    source, rank, plane = (axis.ravel() for axis in np.indices((period, ranks, degree)))
    flow = np.arange(len(source))
    enters, leaves = source * ranks + rank, source * ranks + lift.origin[rank, plane]
    balance = coo_matrix(
        (np.repeat([1.0, -1.0], len(flow)), (np.concatenate([enters, leaves]), np.tile(flow, 2))),
        shape=(period * ranks, len(flow) + 1),
    )
    wanted = np.ones((period, ranks))
    wanted[np.arange(period), np.arange(period)] = 1 - ranks
    fullest = np.arange(degree * period)
    rows = np.concatenate([lift.circuit[rank, plane], fullest])
    columns = np.concatenate([flow, np.full(len(fullest), len(flow))])
    load = coo_matrix((np.concatenate([np.ones(len(flow)), np.full(len(fullest), -1.0)]), (rows, columns)))
    found = linprog(
        np.append(np.zeros(len(flow)), 1.0),
        A_ub=load.tocsr(),
        b_ub=np.zeros(len(fullest)),
        A_eq=balance.tocsr(),
        b_eq=wanted.ravel(),
        method="highs",
    )
    return float(found.fun)


def stars(hop: float) -> Iterator[Row]:
    """Packet switches: algorithms that there already are."""
    for ranks in (16, 100, 256):
        fabric = PacketSwitch(ranks=ranks, bandwidth=BANDWIDTH, hop_latency=hop / 2)
        for kind in ("all-gather", "reduce-scatter", "all-reduce", "all-to-all"):
            for share in SHARES:
                wanted = Collective(kind, ranks, share * ranks)
                others = [each for each in admitted(kind, fabric) if not each.by_size]
                if ranks > OTHERS_UP_TO:
                    others = [each for each in others if each.name in ("one-stage", "halving-doubling")]
                times = {each.name: evaluate(each, wanted, fabric).cost.time for each in others}
                bound = lower_bound(wanted, fabric).time
                best = min(times, key=lambda name: times[name])
                yield {
                    "fabric": "switch",
                    "kind": kind,
                    "ranks": ranks,
                    "share": share,
                    "fastest": best,
                    "ratio": times[best] / bound,
                    "one_stage_ratio": times["one-stage"] / bound,
                }


def _measured(kind: str, share: float, fabric: Fabric, build: Callable[[Collective, Fabric], Schedule]) -> Row:
    kind_: Kind = kind  # type: ignore[assignment]
    wanted = Collective(kind_, fabric.ranks, share * fabric.ranks)
    started = time.process_time()
    schedule = build(wanted, fabric)
    verify(schedule, fabric)
    found = cost(schedule, fabric)
    spent = time.process_time() - started
    bound = lower_bound(wanted, fabric).time
    row: Row = {
        "fabric": type(fabric).__name__.lower(),
        "kind": kind,
        "ranks": fabric.ranks,
        "share": share,
        "time_s": found.time,
        "ratio": (found.time - fabric.setup_time) / (bound - fabric.setup_time),
        "cpu_s": round(spent, 2),
        "rows": len(schedule),
        "note": schedule.notes[0],
    }
    if fabric.ranks > OTHERS_UP_TO:
        return row
    rivals = [each for each in admitted(kind, fabric) if not each.by_size]
    times = {each.name: evaluate(each, wanted, fabric).cost.time for each in rivals}
    best = min(times, key=lambda name: times[name])
    return row | {"fastest_other": best, "fastest_other_s": times[best]}


def summary(rows: list[Row]) -> Row:
    """Geometric mean and maximum of the ratios by fabric and kind, and whether another algorithm was ever faster."""
    found: Row = {}
    for key in sorted({(row["fabric"], row["kind"]) for row in rows}):
        ratios = np.array([row["ratio"] for row in rows if (row["fabric"], row["kind"]) == key])
        found[" ".join(key)] = {"geometric_mean": float(np.exp(np.log(ratios).mean())), "maximum": float(ratios.max())}
    found["slower_than_another"] = sum(
        row.get("fastest_other_s", np.inf) < row.get("time_s", 0) * (1 - 1e-9) for row in rows
    )
    return found


def main() -> int:
    """Measure and print."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.collectives.graph_synthesis", description=__doc__.split("\n", 1)[0]
    )
    parts = {"grids": grids, "switches": switches, "flows": flows, "stars": stars}
    parser.add_argument("--hop", type=float, default=1e-6, help="seconds from one rank to the next")
    options = parse_parts(parser, parts)
    rows: list[Row] = []
    for part in options.parts or parts:
        for row in parts[part](options.hop):
            rows.append(row)
            print_rows([row])
    document = {"cpu": cpu_name(), "rows": rows, "summary": summary(rows)}
    print(json.dumps(document["summary"], indent=1))
    if options.json:
        write_atomically(options.json, json.dumps(document | {"provenance": provenance(vars(options))}, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
