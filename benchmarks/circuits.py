"""Circuits measured: ``python -m benchmarks.circuits [--json FILE] [--ranks 8 16 ...] [--seeds K] [--milp-seconds S]``.

Rings of 64 wavelengths each way, at most 16 peers a rank: how far the fast assignment stays below the fractional bound,
in one hold and over a cycle of holds, without and with what reconfiguration costs; every assignment is verified.
Switches: the fast assignment beside both mixed-integer programs where these finish. Holds: when all is sent, planned
once, as a cycle, and anew for every hold. CPU seconds, one thread, compiled kernels warm.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from benchmarks.support.measure import cpu_name, exit_clearly
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance

if TYPE_CHECKING:
    from lightloom.planning.parallelism.circuits.circuits import Traffic

Result = TypeVar("Result")

RANKS = (8, 16, 32, 64, 128, 256)
KINDS = ("window", "clockwise", "random")
"""ChannelGroup within eight ranks either way; the sixteen next clockwise (SiP-ML's placement distance); any sixteen."""
SPREADS = (0.0, 1.0)
"""Standard deviation of the logarithm of a pair's bytes."""
PEERS, WAVELENGTHS = 16, 64
HOLD, RECONFIGURATION = 100e-6, 20e-6
SWITCHES = ((4, 2), (5, 3), (6, 3), (8, 4), (10, 5), (12, 6), (16, 8))
"""Ranks, and peers of each; twice as many planes, so that bytes decide how many circuits a pair gets."""
OBJECTIVES: tuple[Literal["max-min", "throughput"], ...] = ("max-min", "throughput")


def main() -> int:
    """Measure, print, and write what was asked for."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # before NumPy is imported
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.circuits", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--milp-seconds", type=float, default=10.0, help="wall time that one program may take")
    asked = parser.parse_args()
    if min(asked.ranks) < 3 or asked.seeds < 1 or not asked.milp_seconds > 0:
        raise ConfigError("expected at least 3 ranks, 1 seed and more than 0 seconds")
    if asked.json is not None:
        check_writable(asked.json)
    ranks = sorted(set(asked.ranks))
    configuration = {"ranks": ranks, "seeds": asked.seeds, "milp_seconds": asked.milp_seconds}
    seeds, limit = range(asked.seeds), asked.milp_seconds
    print(f"{cpu_name()}, one thread, CPU seconds; gaps in percent of the bound")
    found = {
        "cpu": cpu_name(),
        "ring": _rings(ranks, seeds),
        "ring_program": _shown("ring_program", (_ring_program(n, s, limit) for n in (3, 4, 5, 6) for s in seeds)),
        "switch": _shown("switch", (_switch(n, p, s, limit) for n, p in SWITCHES for s in seeds)),
        "large_switch": _shown("large_switch", (_large_switch(1024, 20, holds) for holds in (1, 4, 16))),
        "holds": _shown("holds", (_holds(kind) for kind in KINDS)),
        "provenance": provenance(configuration, seed=0),
    }
    found["summary"] = _summary(found)
    print("summary", json.dumps(found["summary"], indent=1))
    if asked.json is not None:
        write_atomically(asked.json, json.dumps(found, indent=1) + "\n")


def traffic_of(ranks: int, kind: str, spread: float, seed: int, peers: int = PEERS) -> Traffic:
    """Log-normal bytes about 1 MB to at most ``peers`` ranks each."""
    import numpy as np
    from scipy import sparse

    from lightloom.planning.parallelism.circuits.circuits import Traffic

    rng = np.random.default_rng([ranks, KINDS.index(kind), int(10 * spread), seed])
    count = min(peers, ranks - 1)
    if kind == "random":
        steps = np.stack([1 + rng.permutation(ranks - 1)[:count] for _ in range(ranks)])
    else:
        ahead = np.arange(1, count + 1)
        if kind == "window":
            ahead = np.unique(np.concatenate([ahead[: (count + 1) // 2], -ahead[: count // 2]]) % ranks)
        steps = np.tile(ahead, (ranks, 1))
    source = np.repeat(np.arange(ranks), steps.shape[1])
    destination = (source + steps.ravel()) % ranks
    nbytes = 1e6 * rng.lognormal(0, spread, len(source))
    return Traffic.of(sparse.coo_array((nbytes, (source, destination)), shape=(ranks, ranks)))


def _timed(work: Callable[..., Result], *given: Any, **named: Any) -> tuple[Result, float]:
    start = time.process_time()
    return work(*given, **named), time.process_time() - start


def _rings(sizes: list[int], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """All cases, and the median over seeds printed as soon as it is known."""
    shown = ("gap_one_hold", "holds", "gap", "gap_to_counts", "gap_with_duty")
    times = ("bound_cpu_s", "one_hold_cpu_s", "turns_cpu_s")
    heads = ("1 hold", "holds", "gap", "counts", "duty", "bound s", "1 hold s", "turns s")
    print(f"{'ranks':>5} {'kind':10}{'spread':>6}" + "".join(f"{head:>9}" for head in heads))
    found = []
    for ranks in sizes:
        for kind in KINDS:
            for spread in SPREADS:
                rows = [_ring(ranks, kind, spread, seed) for seed in seeds]
                of = {name: median(row[name] for row in rows) for name in (*shown, *times)}
                cells = [f"{of[n]:9g}" if n == "holds" else f"{100 * of[n]:9.1f}" for n in shown]
                cells += [f"{of[n]:9.3f}" for n in times]
                print(f"{ranks:5} {kind:10}{spread:6.1f}" + "".join(cells), flush=True)
                found += rows
    return found


def _shown(name: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print each row as it comes."""
    found = []
    for row in rows:
        print(name, json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()}), flush=True)
        found.append(row)
    return found


def _ring(ranks: int, kind: str, spread: float, seed: int) -> dict[str, Any]:
    from tests.parallelism.circuits.granted import verify_granted

    from lightloom.machines.fabrics.wdm_ring import WdmRing
    from lightloom.planning.parallelism.circuits import ring
    from lightloom.planning.parallelism.circuits.circuits import Timing

    traffic, fabric = traffic_of(ranks, kind, spread, seed), WdmRing(ranks=ranks, wavelengths=WAVELENGTHS)
    ring.assign(traffic_of(8, kind, spread, seed), WdmRing(ranks=8, wavelengths=2))
    relaxed, bound_s = _timed(ring.relax, traffic, fabric)
    counts_bound = ring.relax(traffic, fabric, continuity=False).service
    once, once_s = _timed(ring.assign, traffic, fabric, 1, relaxed)
    turns, turns_s = _timed(ring.assign_in_turns, traffic, fabric, relaxation=relaxed)
    for found in (once, turns):
        verify_granted(found.circuits, fabric, traffic, found.circuits.counts(traffic).sum(axis=0))
    duty = 1.0 if turns.circuits.holds == 1 else Timing(HOLD, RECONFIGURATION).duty_cycle
    return {
        "ranks": ranks,
        "kind": kind,
        "spread": spread,
        "seed": seed,
        "bound": relaxed.service,
        "bound_of_counts": counts_bound,
        "gap_one_hold": once.gap,
        "holds": turns.circuits.holds,
        "gap": turns.gap,
        "gap_to_counts": 1 - turns.max_min / counts_bound,
        "gap_with_duty": 1 - duty * turns.max_min / relaxed.service,
        "lost": turns.unassigned,
        "bound_cpu_s": bound_s,
        "one_hold_cpu_s": once_s,
        "turns_cpu_s": turns_s,
    }


def _ring_program(ranks: int, seed: int, limit: float) -> dict[str, Any]:
    """Few wavelengths, so that the program finishes; every rank to two or three others."""
    from lightloom.machines.fabrics.wdm_ring import WdmRing
    from lightloom.planning.parallelism.circuits import ring
    from lightloom.planning.parallelism.circuits import switch as milp
    from lightloom.planning.parallelism.circuits.circuits import least_service

    traffic, fabric = traffic_of(ranks, "random", 1.0, seed, 3), WdmRing(ranks=ranks, wavelengths=16)
    row: dict[str, Any] = {"ranks": ranks, "seed": seed}
    fast, row["fast_cpu_s"] = _timed(ring.assign, traffic, fabric)
    try:
        solved, row["program_cpu_s"] = _timed(milp.solve_ring, traffic, fabric, time_limit=limit)
    except InputError as error:
        return row | {"status": str(error)}
    if solved.status != "optimal":
        return row | {"status": solved.status}
    _, lost = ring.realise(traffic, fabric, solved.counts)
    gap = 1 - fast.max_min / least_service(solved.counts.sum(axis=1), traffic)
    return row | {"status": solved.status, "gap": gap, "lost_in_colouring": lost}


def _switch(ranks: int, peers: int, seed: int, limit: float) -> dict[str, Any]:
    from tests.parallelism.circuits.permutations import solve_permutations

    from lightloom.machines.fabrics.switches import CircuitSwitch
    from lightloom.planning.parallelism.circuits import switch
    from lightloom.planning.parallelism.circuits.circuits import least_service

    traffic = traffic_of(ranks, "clockwise", 1.0, seed, peers)
    fabric = CircuitSwitch(ranks=ranks, degree=2 * peers)
    row: dict[str, Any] = {"ranks": ranks, "planes": fabric.degree, "seed": seed}
    fast, row["fast_cpu_s"] = _timed(switch.assign, traffic, fabric)
    heavy = switch.throughput_counts(traffic, fabric.degree) @ traffic.relative
    row |= {"gap_to_fractional": fast.gap}
    for name, solve in (
        ("permutations", solve_permutations),
        ("multiplicities", switch.solve_multiplicities),
    ):
        for objective in OBJECTIVES:
            key = f"{name} {objective}"
            try:
                solved, row[f"{key} cpu_s"] = _timed(solve, traffic, fabric, objective, limit)
            except InputError as error:
                row[f"{key} status"] = str(error)
                continue
            row[f"{key} status"] = solved.status
            if solved.status == "optimal":
                counts = solved.counts.sum(axis=1)
                if objective == "max-min":
                    row[f"{key} gap"] = 1 - fast.max_min / least_service(counts, traffic)
                else:
                    row[f"{key} gap"] = 1 - heavy / float(counts @ traffic.relative)
    return row


def _large_switch(ranks: int, planes: int, holds: int) -> dict[str, Any]:
    from lightloom.machines.fabrics.switches import CircuitSwitch
    from lightloom.planning.parallelism.circuits import switch
    from lightloom.planning.parallelism.circuits.verify import verify

    traffic, fabric = traffic_of(ranks, "clockwise", 1.0, 0), CircuitSwitch(ranks=ranks, degree=planes)
    found, cpu = _timed(switch.assign, traffic, fabric, holds=holds)
    verify(found.circuits, fabric)
    return {"ranks": ranks, "planes": planes, "holds": holds, "gap_to_fractional": found.gap, "cpu_s": cpu}


def _holds(kind: str, ranks: int = 64) -> dict[str, Any]:
    """Seconds until all is sent over 64 wavelengths of 25 Gb/s, beside the bound while circuits stand."""
    from benchmarks.support.replanned import play_replanned
    from lightloom.machines.fabrics.wdm_ring import WdmRing
    from lightloom.planning.parallelism.circuits import ring
    from lightloom.planning.parallelism.circuits.circuits import Timing
    from lightloom.planning.parallelism.circuits.play import play_once

    traffic = traffic_of(ranks, kind, 1.0, 0)
    fabric = WdmRing(ranks=ranks, wavelengths=WAVELENGTHS, wavelength_bandwidth=25e9 / 8)
    timing = Timing(HOLD, RECONFIGURATION)
    turns = ring.assign_in_turns(traffic, fabric)
    lower = float(traffic.nbytes.max()) / (turns.bound * fabric.wavelength_bandwidth)
    row: dict[str, Any] = {
        "kind": kind,
        "ranks": ranks,
        "bound_s": lower,
        "bound_with_duty_s": lower / timing.duty_cycle,
    }
    replanned, cpu = _timed(play_replanned, traffic, fabric, timing)
    row |= {"replanned_s": replanned.makespan, "replanned_holds": replanned.holds, "replanned_cpu_s": cpu}
    row["replanned_50us_late_s"] = play_replanned(traffic, fabric, timing, controller_latency=50e-6).makespan
    cycle = play_once(traffic, turns.circuits, fabric, timing)
    row |= {"cycle_s": cycle.makespan, "cycle_of": turns.circuits.holds}
    try:
        once = play_once(traffic, ring.assign_longest(traffic, fabric), fabric, timing)
        row |= {"once_s": once.makespan, "once_relayed": len(once.relayed), "once_most_hops": int(once.hops.max())}
    except InputError as error:
        row["once"] = str(error)
    return row | {"pairs": len(traffic)}


def _summary(found: dict[str, Any]) -> dict[str, Any]:
    rows = found["ring"]
    finished = [
        row[f"{name} {objective} gap"]
        for row in found["switch"]
        for name in ("permutations", "multiplicities")
        for objective in OBJECTIVES
        if row[f"{name} {objective} status"] == "optimal"
    ]
    exact = [row["gap"] for row in found["ring_program"] if row["status"] == "optimal"]
    return {
        "ring_cases": len(rows),
        **{
            f"ring_median_{name}": median(row[name] for row in rows)
            for name in ("gap", "gap_to_counts", "gap_with_duty", "gap_one_hold")
        },
        "ring_worst_gap": max(row["gap"] for row in rows),
        "ring_worst_gap_to_counts": max(row["gap_to_counts"] for row in rows),
        "ring_lost": sum(row["lost"] for row in rows),
        "ring_programs_finished": len(exact),
        "ring_worst_gap_to_program": max(exact, default=None),
        "switch_programs_finished": len(finished),
        "switch_worst_gap": max(finished, default=None),
    }


if __name__ == "__main__":
    sys.exit(main())
