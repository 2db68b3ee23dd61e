"""Placements measured: ``python -m benchmarks.placement [--json FILE] [--graphs N] [--seed S] [--no-models]``.

Small graphs, of up to 12 sub-operators on 4 devices, are placed and compared with exhaustive search by the same
objective. Larger random graphs are placed with and without repair. Then ResNet-50, Transformer-big and GPT-2 355M, and
Transformer-big split to over 20,000 sub-operators. Every placement passes the independent check. CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.measure import cpu_name, exit_clearly
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.kernels import njit_cached
from lightloom.core.results import provenance
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import load_workload
from lightloom.planning.parallelism.operators import graph_times
from lightloom.planning.parallelism.placement.check import check
from lightloom.planning.parallelism.placement.cuts import PartitionRules
from lightloom.planning.parallelism.placement.kernels import iteration_time, pass_time, ranks
from lightloom.planning.parallelism.placement.place import forward_starts, partition, place, problem_of
from lightloom.planning.parallelism.placement.placement import BalancedGraph, Link, Placement, PlacementProblem, Reach

SMALL, DEVICES = 12, 4
LINK = Link(bandwidth=100e9, latency=1e-7)
MODELS = (("resnet50", 64, 1e-6), ("transformer-big", 32, 1e-6), ("gpt2-355m", 8, 10e-6))
"""Model, samples of a group, quantum."""
PERCENTILE_LIMITS = (0.02, 0.10)
SECONDS_LIMIT = 10.0


class Case(NamedTuple):
    """One placement problem."""

    balanced: BalancedGraph
    devices: int
    reach: Reach
    memory: float | None

    def place(self, **options: Any) -> Placement:
        """Placed over :data:`LINK` and checked."""
        found = place(self.balanced, self.devices, self.reach, self.memory, LINK, **options)
        check(found, self.balanced, self.memory)
        return found


def random_graph(rng: np.random.Generator, size: int, transfer: float) -> BalancedGraph:
    """A random acyclic graph; transfers take ``transfer`` times as long as a sub-operator, in the middle."""
    density = rng.choice([0.15, 0.3, 0.5])
    pairs = [(x, y) for x in range(size) for y in range(max(0, x - 6), x) if rng.random() < density]
    reader, parent = np.array(pairs, np.int64).reshape(-1, 2).T
    forward = rng.lognormal(0, 0.7, size) * 1e-6
    shared = np.where(rng.random(size) < 0.1, 1e4, 0.0)
    shared[:1] = 0.0
    return BalancedGraph(
        name=f"random-{size}",
        operators=tuple(f"op{x}" for x in range(size)),
        dimensions=("",) * size,
        first=np.arange(size + 1),
        operator=np.arange(size, dtype=np.int32),
        part=np.zeros(size, np.int32),
        forward=forward,
        backward=forward * rng.uniform(1, 2.5, size),
        parameters=rng.integers(0, 1000, size),
        memory=rng.uniform(0.5, 1.5, size),
        synchronised=shared,
        parent_start=np.searchsorted(reader, np.arange(size + 1)).astype(np.int64),
        parent=parent.astype(np.int32),
        nbytes=rng.lognormal(0, 0.8, len(parent)) * transfer * 1e5,
        content=np.zeros(len(parent), np.int64),
        gradient_bytes=4,
    )


def random_case(rng: np.random.Generator, size: int, devices: int) -> Case:
    """A random graph under a random degree, every other time with little memory to spare."""
    balanced = random_graph(rng, size, float(rng.choice([0.05, 0.2, 0.5, 1, 3])))
    peers = bool(rng.random() < 0.6)
    degrees = np.arange(2 if peers else 1, devices)
    reach = Reach(int(rng.choice(degrees)), "peers" if peers else "forward")
    spare = float(rng.uniform(1.3, 2.0))
    memory = float(balanced.memory.sum()) / devices * spare if rng.random() < 0.5 else None
    return Case(balanced, devices, reach, memory)


def small_cases(count: int, seed: int = 0) -> Iterator[Case]:
    """Graphs of 4 to 12 sub-operators on 4 devices."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield random_case(rng, int(rng.integers(4, SMALL + 1)), DEVICES)


def exhaustive(case: Case) -> float:
    """Least iteration time over all valid placements; infinite where there is none."""
    problem = problem_of(case.balanced, case.devices, case.reach, case.memory, LINK)
    return float(_exhaustive(problem.rows))


@njit_cached
def _exhaustive(problem: PlacementProblem) -> float:
    """Depth first in ``order``; a branch ends where its forward pass with all that must follow cannot win.

    Devices are alike: the first sub-operator is on device 0 (a ring can be turned), and where all may communicate a new
    device is always the next one.
    """
    order, before, after, memory, allowed = (
        problem.order,
        problem.before,
        problem.after,
        problem.memory,
        problem.allowed,
    )
    size, devices = len(order), len(allowed)
    tail, least_backward = ranks(after, problem.forward), ranks(after, problem.backward).max()
    times, used, load = np.zeros((4, size)), np.zeros(devices), np.zeros(devices)
    device, choice, top = np.full(size, -1, np.int32), np.full(size, -1), np.full(size + 1, -1)
    best, depth = np.inf, 0
    while depth >= 0:
        x = order[depth]
        if device[x] >= 0:
            used[device[x]] -= memory[x]
            load[device[x]] -= problem.backward[x]
            device[x] = -1
        choice[depth] += 1
        to = choice[depth]
        if to >= (1 if depth == 0 else min(devices, top[depth] + 2) if allowed.all() else devices):
            choice[depth] = -1
            depth -= 1
            continue
        valid = used[to] + memory[x] <= problem.capacity
        for e in range(before.start[x], before.start[x + 1]):
            at = device[before.node[e]]
            valid = valid and (at < 0 or allowed[(to - at) % devices])
        for e in range(after.start[x], after.start[x + 1]):
            at = device[after.node[e]]
            valid = valid and (at < 0 or allowed[(at - to) % devices])
        if not valid:
            continue
        device[x] = to
        used[to] += memory[x]
        load[to] += problem.backward[x]
        placed = order[: depth + 1]
        pass_time(placed, before, problem.forward, device, devices, times[0], times[1])
        if (times[0][placed] + tail[placed]).max() + max(least_backward, load.max()) >= best:
            continue
        if depth == size - 1:
            best = min(best, iteration_time(problem, device, times))
            continue
        top[depth + 1] = max(top[depth], to)
        depth += 1
    return best


def against_exhaustive(count: int, seed: int = 0, **options: Any) -> dict[str, Any]:
    """How far :func:`place` is from the optimum."""
    gaps, refused, impossible = [], 0, 0
    for case in small_cases(count, seed):
        optimum = exhaustive(case)
        try:
            gaps.append(case.place(**options).makespan / optimum - 1)
        except UnsupportedError:
            impossible += optimum == np.inf
            refused += optimum < np.inf
    found = np.array(gaps)
    return {
        "graphs": count,
        "seed": seed,
        "median": float(np.median(found)),
        "percentile_95": float(np.percentile(found, 95)),
        "worst": float(found.max()),
        "below_optimum": int((found < -1e-9).sum()),
        "optimal_share": float((found < 1e-9).mean()),
        "no_placement_exists": impossible,
        "missed": refused,
    }


def repair_gains(count: int, seed: int) -> dict[str, Any]:
    """Random graphs of 20 to 200 sub-operators on 4 to 16 devices, without search, with and without repair."""
    rng = np.random.default_rng(seed)
    gains, won, needed, refused = [], 0, 0, 0
    for _ in range(count):
        case = random_case(rng, int(rng.integers(20, 201)), int(rng.integers(4, 17)))
        try:
            without, repaired = (case.place(repair=r, effort=0) for r in (False, True))
        except UnsupportedError:
            refused += 1
            continue
        needed += _is_stuck(case)
        won += repaired.makespan < without.makespan * (1 - 1e-9)
        gains.append(without.makespan / repaired.makespan)
    winning = [gain for gain in gains if gain > 1 + 1e-9]
    return {
        "graphs": count,
        "refused_for_memory": refused,
        "forward_pass_stuck": needed,
        "repair_wins": won,
        "repair_wins_share": won / max(len(gains), 1),
        "median_gain_where_it_wins": float(np.median(winning)) if winning else 1.0,
        "largest_gain": max(gains, default=1.0),
    }


def _is_stuck(case: Case) -> bool:
    problem = problem_of(case.balanced, case.devices, case.reach, case.memory, LINK)
    return not list(forward_starts(problem, "", case.devices, False, 0))


def durations(graph: ComputeGraph, accelerator: str = "a100") -> np.ndarray[Any, Any]:
    """Seconds [operators, 2] by the roofline, bfloat16."""
    return np.stack(graph_times(graph, load_accelerator(accelerator).flat(), "bf16"), axis=1)


def models() -> Iterator[dict[str, Any]]:
    """Real models on 8 and 16 devices under several degrees."""
    for name, batch, quantum in MODELS:
        graph = load_workload(name, batch=batch).with_element_bytes(2)
        times = durations(graph)
        for k, degree in ((8, 2), (8, 4), (8, 7), (16, 4), (16, 8)):
            for rule in ("peers", "forward"):
                reach = Reach(degree, rule)
                balanced = partition(graph, times, k, quantum, PartitionRules(most_exchanging=reach.clique(k)))
                case = Case(balanced, k, reach, 80e9)
                began = time.process_time()
                found = case.place()
                spent = time.process_time() - began
                without = case.place(repair=False)
                yield {
                    "model": name,
                    "k": k,
                    "degree": degree,
                    "rule": rule,
                    "sub_operators": balanced.size,
                    "makespan_s": found.makespan,
                    "speedup": float(times.sum()) / found.makespan,
                    "method": found.method,
                    "repaired": found.repaired,
                    "gain_of_repair": without.makespan / found.makespan,
                    "cpu_s": round(spent, 3),
                }


def large() -> dict[str, Any]:
    """Transformer-big in over 20,000 sub-operators on 128 devices, Δ = 16: partition and placement."""
    graph = load_workload("transformer-big", batch=32).with_element_bytes(2)
    times = durations(graph)
    began = time.process_time()
    balanced = partition(graph, times, 128, 0.0)
    split = time.process_time() - began
    case = Case(balanced, 128, Reach(16), 80e9)
    place(balanced, 128, case.reach, case.memory, LINK)
    placed = time.process_time() - began - split
    found = case.place()
    return {
        "sub_operators": balanced.size,
        "edges": len(balanced.parent),
        "partition_cpu_s": round(split, 3),
        "place_cpu_s": round(placed, 3),
        "makespan_s": found.makespan,
        "method": found.method,
    }


def measure(graphs: int, seed: int, with_models: bool) -> dict[str, Any]:
    """Everything, with the limits beside what was found."""
    searched = against_exhaustive(graphs, seed)
    found: dict[str, Any] = {
        "exhaustive": searched,
        "exhaustive_without_search": against_exhaustive(graphs, seed, effort=0),
        "repair": repair_gains(graphs, seed + 1),
    }
    met = {
        "median within 2 %": searched["median"] <= PERCENTILE_LIMITS[0],
        "95th percentile within 10 %": searched["percentile_95"] <= PERCENTILE_LIMITS[1],
    }
    if with_models:
        found["models"] = list(models())
        found["large"] = large()
        met["over 20,000 sub-operators in 10 CPU-s"] = (
            found["large"]["sub_operators"] > 20_000 and found["large"]["place_cpu_s"] <= SECONDS_LIMIT
        )
    return {**found, "met": met, "cpu": cpu_name(), "provenance": provenance({"graphs": graphs}, seed=seed)}


def main() -> int:
    """Measure, print, and write what was asked for."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-models", action="store_true")
    asked = parser.parse_args()
    if asked.graphs < 1 or asked.seed < 0:
        raise ConfigError("expected at least 1 graph and a seed of at least 0")
    if asked.json is not None:
        check_writable(asked.json)
    found = measure(asked.graphs, asked.seed, not asked.no_models)
    print(json.dumps(found, indent=1))
    if asked.json is not None:
        write_atomically(asked.json, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
