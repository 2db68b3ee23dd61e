"""Where circuits that are set anew for each stage beat circuits that stand: all-gathers on rings of wavelengths.

    python -m benchmarks.stages --ranks 16 64 256

40 Gb/s a wavelength, 1 µs a hop as pure delay; times in µs, set-ups included.
"""

from __future__ import annotations

import argparse
from itertools import product

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.ring.gather import gather, in_few_steps, stages
from lightloom.collectives.verify.verifier import verify
from lightloom.machines.fabrics.wdm_ring import WdmRing

SIZES = (1e3, 1e4, 1e5, 1e6)
SETUPS = (25e-6, 1e-6, 1e-7)


def main() -> None:
    """One line a ring and size: stages, standing circuits, OpTree and the bound, for each time of a set-up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 64, 256])
    for ranks, wavelengths, nbytes in product(parser.parse_args().ranks, (8, 64), SIZES):
        wanted = Collective("all-gather", ranks, ranks * nbytes)
        on = WdmRing(ranks=ranks, wavelengths=wavelengths, conversion_time=1e-6)
        standing = [*gather(wanted, on), *in_few_steps(wanted, on)]
        cells = [_cell(wanted, on.model_copy(update={"reconfiguration_time": setup}), standing) for setup in SETUPS]
        print(f"{ranks:5}{wavelengths:4}{nbytes:9.0e}  " + " | ".join(cells), flush=True)


def _cell(wanted: Collective, fabric: WdmRing, standing: list[Schedule]) -> str:
    found = stages(wanted, fabric)
    verify(found, fabric)
    ours, stand = cost(found, fabric).time, min(cost(each, fabric).time for each in standing)
    optree = cost(build(find("optree-striped"), wanted, fabric), fabric).time
    times = [ours, stand, optree, lower_bound(wanted, fabric).time]
    return " ".join(f"{1e6 * each:8.1f}" for each in times) + (" wins" if ours < stand * (1 - 1e-9) else "     ")


if __name__ == "__main__":
    main()
