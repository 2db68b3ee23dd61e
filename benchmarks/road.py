"""What the road from model to schedule costs, in whole processes: compiled kernels cached (warm), and not (cold).

For comparison, measured once on another machine with 2 cores: ASTRA-sim 2 (518bd51) simulates a 1024-rank ring
all-gather in 3.3 to 4.9 CPU-s and 357 MiB, TACOS 1.3.0 synthesizes it in 58 to 71 CPU-s.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.support.measure import Charge, middle, parse_no_options, print_rows, run, warm_and_cold

_COLLECTIVE = """
import time
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import find
from lightloom.collectives.collective import Collective
from lightloom.collectives.verify.verifier import verify
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.wdm_ring import WdmRing
import numba
begin = time.process_time()
fabric = {fabric}
algorithm = find({name!r})
schedule = algorithm.build(Collective({kind!r}, fabric.ranks, 64 * 2.0**20), fabric, striped=algorithm.striped)
verify(schedule, fabric)
if {costed}: cost(schedule, fabric)
print(time.process_time() - begin, schedule.steps)
"""
_PLAN = """
import contextlib, io, sys
sys.argv = ["lightloom", "plan", "resnet50", "--cluster", "terarack-64", "--json"]
from lightloom.app.cli.main import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main()
"""


class _Job(NamedTuple):
    title: str
    name: str
    """Of the algorithm."""
    kind: str
    fabric: str
    """The expression that makes it."""
    costed: bool
    cpu_limit: float
    memory_limit: float
    """Mebibytes."""
    runs: int


_JOBS = (
    _Job(
        "two-way ring all-gather, 1024 ranks: build, verify, cost",
        "ring-two-way",
        "all-gather",
        "WdmRing(ranks=1024, wavelengths=1)",
        True,
        1.0,
        400,
        5,
    ),
    _Job(
        "OpTree all-gather, 4096 ranks, 64 wavelengths: build, verify",
        "optree",
        "all-gather",
        "WdmRing(ranks=4096, wavelengths=64)",
        False,
        20.0,
        4096,
        2,
    ),
    *(
        _Job(
            f"hierarchical all-reduce, 4096 ranks of {fabric}: build, verify, cost",
            "hierarchical",
            "all-reduce",
            f"load_fabric({fabric!r}, ranks=4096)",
            True,
            3.0,
            1024,
            3,
        )
        for fabric in ("dgx-h100-superpod", "tpu-v4", "tpu-v5p")
    ),
)


def main() -> None:
    rows: list[dict[str, object]] = []
    for title, name, kind, fabric, costed, cpu_limit, memory_limit, runs in _JOBS:
        code = _COLLECTIVE.format(name=name, kind=kind, fabric=fabric, costed=costed)
        warm, cold = warm_and_cold(code, runs=runs)
        own = middle([float(each.output.split()[0]) for each in warm])
        peak = round(max(each.mebibytes for each in warm))
        row: dict[str, object] = {"what": title, "cpu_s": own, "limit_cpu_s": cpu_limit, "mebibytes": peak}
        row |= {"limit_mebibytes": memory_limit, "within": own <= cpu_limit and peak <= memory_limit}
        rows.append(row | {"whole_process_cpu_s": _cpu(warm), "cold_cpu_s": round(cold.cpu, 2)})
    run(_PLAN)
    warm, cold = warm_and_cold(_PLAN, runs=3)
    row = {"what": "plan resnet50 on terarack-64, trace cached, whole process", "cpu_s": _cpu(warm), "limit_cpu_s": 5.0}
    row |= {"within": _cpu(warm) <= 5.0, "mebibytes": round(max(each.mebibytes for each in warm))}
    rows.append(row | {"cold_cpu_s": round(cold.cpu, 2)})
    print_rows(rows)


def _cpu(charges: list[Charge]) -> float:
    return middle([each.cpu for each in charges])


if __name__ == "__main__":
    parse_no_options(__doc__)
    main()
