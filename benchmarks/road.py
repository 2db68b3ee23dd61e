"""What the road from model to schedule costs, in whole processes: compiled kernels cached (warm), and not (cold).

For comparison, measured once on another machine with 2 cores: ASTRA-sim 2 (518bd51) simulates a 1024-rank ring
all-gather in 3.3 to 4.9 CPU-s and 357 MiB, TACOS 1.3.0 synthesizes it in 58 to 71 CPU-s.
"""

from __future__ import annotations

from benchmarks.support.measure import Charge, middle, print_rows, run, warm_and_cold

_COLLECTIVE = """
import time
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import find
from lightloom.collectives.spec import Collective
from lightloom.collectives.verify.stepped import verify
from lightloom.fabrics.wdm_ring import WdmRing
import numba
begin = time.process_time()
fabric = WdmRing(ranks={ranks}, wavelengths={wavelengths})
algorithm = find({name!r})
schedule = algorithm.build(Collective("all-gather", {ranks}, 64 * 2.0**20), fabric, striped=algorithm.striped)
verify(schedule, fabric)
{cost}
print(time.process_time() - begin, schedule.steps)
"""
_PLAN = """
import contextlib, io, sys
sys.argv = ["lightloom", "plan", "resnet50", "--cluster", "terarack-64", "--json"]
from lightloom.cli.main import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main()
"""


_JOBS = (
    ("two-way ring all-gather, 1024 ranks: build, verify, cost", "ring-two-way", 1024, 1, True, 1.0, 400),
    ("OpTree all-gather, 4096 ranks, 64 wavelengths: build, verify", "optree", 4096, 64, False, 20.0, 4096),
)


def main() -> None:
    rows: list[dict[str, object]] = []
    for title, name, ranks, wavelengths, costed, cpu_limit, memory_limit in _JOBS:
        price = "cost(schedule, fabric)" if costed else ""
        code = _COLLECTIVE.format(name=name, ranks=ranks, wavelengths=wavelengths, cost=price)
        warm, cold = warm_and_cold(code, runs=5 if ranks < 4096 else 2)
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
    main()
