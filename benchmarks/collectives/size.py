"""How large collectives become: CPU seconds and memory to build, prove, price and bound them, each in a process alone.

    python -m benchmarks.collectives.size --ranks 1024 16384 65536 131072

Printed by row: ranks of the fabric, rows of the schedule, time of a run and its bound, CPU seconds of the work alone
(imports and compiled kernels loaded before), and the most memory that the process ever held, Python and libraries
included. ``--twin`` also writes out the rows of all ranks and compares their cost, which takes N² rows.
"""

from __future__ import annotations

import argparse
import resource
from multiprocessing import get_context
from time import process_time
from typing import NamedTuple

from lightloom.collectives.collective import FROM_ALL_GATHER, Collective, Kind
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import evaluate, find
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.load import load_fabric

CASES = (
    ("wdm-ring", "ring-two-way"),
    ("wdm-ring", "ring-two-way-striped"),
    ("ring", "ring-two-way"),
    ("switch", "bruck"),
    ("circuit-switch", "bruck-striped"),
    ("wdm-ring", "optree"),
    ("wdm-ring", "wrht"),
    ("switch", "binomial-tree"),
)
SHARE = 1e6
"""Bytes of a rank."""
_WARM_RANKS = 64


class Row(NamedTuple):
    """What one process measured."""

    fabric: str
    algorithm: str
    kind: Kind
    ranks: int
    twin: bool


def main() -> None:
    """One line a fabric, algorithm, kind and number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1024, 16_384, 65_536, 131_072])
    parser.add_argument("--kinds", nargs="+", default=["all-gather", "all-reduce"], choices=FROM_ALL_GATHER)
    parser.add_argument("--twin", action="store_true", help="compare the cost with that of the rows of all ranks")
    chosen = parser.parse_args()
    print(
        f"{'fabric':15} {'algorithm':21} {'kind':15} {'ranks':>7} {'rows':>7} {'time':>10} {'bound':>10} CPU-s     MB"
    )
    for fabric, algorithm in CASES:
        for kind in chosen.kinds:
            for ranks in chosen.ranks:
                # A fresh process for each, whose most memory is that of this case.
                with get_context("spawn").Pool(1) as alone:
                    print(alone.apply(line, (Row(fabric, algorithm, kind, ranks, chosen.twin),)), flush=True)


def line(row: Row) -> str:
    """Build, verify, cost and bound one case, or say why it is refused."""
    name = f"{row.fabric:15} {row.algorithm:21} {row.kind:15} {row.ranks:7,}"
    algorithm = find(row.algorithm)
    fabric = load_fabric(row.fabric, row.ranks)
    try:
        evaluate(algorithm, Collective(row.kind, _WARM_RANKS, 1e6), load_fabric(row.fabric, _WARM_RANKS))
        began = process_time()
        done = evaluate(algorithm, Collective(row.kind, row.ranks, SHARE * row.ranks), fabric)
    except UnsupportedError as refusal:
        return f"{name} {refusal}"
    seconds, most = process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = f"{done.cost.time:10.6g} {done.bound.time:10.6g} {seconds:5.2f} {most:6.0f}"
    return f"{name} {len(done.schedule):7,} {figures}" + (_twin(row, done.cost.time) if row.twin else "")


def _twin(row: Row, seconds: float) -> str:
    fabric = load_fabric(row.fabric, row.ranks)
    collective = Collective(row.kind, row.ranks, SHARE * row.ranks)
    schedule = find(row.algorithm).build(collective, fabric, striped=find(row.algorithm).striped)
    unfolded = schedule.unfolded(fabric.fibre_channels)
    verify(unfolded, fabric)
    return (
        f"  rows of all ranks: {len(unfolded):,}, time differs by {abs(cost(unfolded, fabric).time / seconds - 1):.1e}"
    )


if __name__ == "__main__":
    main()
