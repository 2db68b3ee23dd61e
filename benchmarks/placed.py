"""Placed steps measured: ``python -m benchmarks.placed [--json FILE]``.

Real models in groups on SiP-ML's ring: every grant that is tried, and holds planned anew from what waits. Then what a
simulation costs, up to Transformer-big in 28,032 sub-operators. CPU seconds with the kernels compiled.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.placement import LINK, durations
from benchmarks.support.measure import cpu_name, exit_clearly
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.models.zoo import load_workload
from lightloom.planning.parallelism.circuits.circuits import GroupCircuits, Timing
from lightloom.planning.parallelism.circuits.group import grant, grants, regrants
from lightloom.planning.parallelism.placement.cuts import PartitionRules
from lightloom.planning.parallelism.placement.place import partition, place
from lightloom.planning.parallelism.placement.placement import HybridPlan, Reach
from lightloom.planning.simulation.placed_step import PlacedStep, simulate_placed

CASES = (
    ("gpt2-355m", 8, 5e-6, 8, 2),
    ("gpt2-355m", 8, 5e-6, 16, 4),
    ("resnet50", 32, 5e-6, 8, 4),
    ("transformer-big", 32, 5e-6, 16, 4),
    ("gpt2-355m", 8, 5e-6, 16, 64),
)
"""Model, samples of a group, quantum, k, l."""
DEGREE = 16
HOLDS = (Timing(250e-6, 25e-6), Timing(100e-6, 25e-6), Timing(250e-6, 25e-6, 50e-6))


def planned(model: str, samples: int, quantum: float, k: int, groups: int) -> HybridPlan:
    """One of the plans; the largest, without a quantum, also without a limit to the parts that read everything."""
    graph = load_workload(model, batch=samples).with_element_bytes(2)
    reach = Reach(min(DEGREE, k - 1))
    rules = PartitionRules(most_exchanging=reach.clique(k) if quantum else None)
    balanced = partition(graph, durations(graph), k, quantum, rules)
    return HybridPlan(place(balanced, k, reach, 80e9, LINK, effort=0), balanced, k, groups)


def simulated(plan: HybridPlan, circuits: GroupCircuits, **options: Any) -> tuple[PlacedStep, float]:
    """A step, and what it costs in CPU seconds."""
    began = time.process_time()
    step = simulate_placed(plan, circuits, load_accelerator("a100").flat(), TrainingSettings(), **options)
    return step, time.process_time() - began


def rings() -> Iterator[dict[str, Any]]:
    """Milliseconds of a step: one hold and cycles of holds, and planned anew."""
    for case in CASES:
        plan = planned(*case)
        fabric = load_fabric("sip-ring", plan.ranks, set={})
        row: dict[str, Any] = {"model": case[0], "k": plan.k, "l": plan.groups, "sub_operators": plan.balanced.size}
        for circuits in grants(plan, fabric):
            step, _ = simulated(plan, circuits)
            row[f"holds_{len(circuits.bandwidth)}_ms"] = _row(step)
        row["granted_holds"] = len(grant(plan, fabric).bandwidth)
        for timing in HOLDS:
            circuits, regrant = regrants(plan, fabric, timing)
            step, spent = simulated(plan, circuits, regrant=regrant)
            row[f"anew_{timing.hold * 1e6:.0f}_{timing.controller_latency * 1e6:.0f}_ms"] = _row(step)
            row["anew_cpu_s"] = round(spent, 3)
        yield row


def _row(step: PlacedStep) -> list[float]:
    """Milliseconds of a step, and of them those in which nothing computes."""
    exposed = step.step_time - step.breakdown["compute_s"]
    return [round(step.step_time * 1e3, 2), round(exposed * 1e3, 2)]


def costs() -> Iterator[dict[str, Any]]:
    """CPU seconds of laying out and running steps on an optical circuit switch."""
    for case in (CASES[1], ("gpt2-355m", 8, 2e-6, 16, 64), ("transformer-big", 32, 0.0, 128, 8)):
        plan = planned(*case)
        circuits = grant(plan, CircuitSwitch(ranks=plan.ranks, degree=DEGREE + 1, bandwidth=25e9))
        simulated(plan, circuits)
        step, spent = simulated(plan, circuits)
        began = time.process_time()
        intervals = len(step.timeline.intervals)
        yield {
            "model": case[0],
            "sub_operators": plan.balanced.size,
            "nodes": len(step.run.work.waits),
            "simulate_cpu_s": round(spent, 3),
            "timeline_cpu_s": round(time.process_time() - began, 3),
            "intervals": intervals,
        }


def main() -> int:
    """Measure, print, and write what was asked for."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placed", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    asked = parser.parse_args()
    if asked.json is not None:
        check_writable(asked.json)
    found = {"rings": list(rings()), "costs": list(costs()), "cpu": cpu_name(), "provenance": provenance({})}
    print(json.dumps(found, indent=1))
    if asked.json is not None:
        write_atomically(asked.json, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
