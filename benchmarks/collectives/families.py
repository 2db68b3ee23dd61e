"""What families of synthesized schedules on rings of light win: ``python -m benchmarks.collectives.families``.

Every family is left out in turn: a line gives how much longer the fastest schedule without it takes than with it, in
per cent, for set-ups of 25 µs and of 100 ns, and with circuits in place. Families that win nothing in a cell are left
out. Rings of 40 Gb/s a wavelength, 1 µs a hop. An all-gather has no levels of hubs beside it where circulants are
faster than these.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np

from benchmarks.support.measure import exit_clearly
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.queues import overlapped
from lightloom.collectives.synthesis.ring.gather import gather, in_few_steps, set_anew
from lightloom.core.arrays import Floats
from lightloom.machines.fabrics.wdm_ring import WdmRing

SETUPS = (25e-6, 100e-9, 0.0)
NOTES = {
    "share wavelengths": "circulants",
    "completed at hubs": "sums at hubs",
    "contributions and sums": "sums straight",
    "straight to every other": "straight",
    "as WRHT's do": "sums by groups",
}
"""Families by a part of the notes of their schedules; all others are levels of hubs."""


def ring(ranks: int, wavelengths: int, setup: float) -> WdmRing:
    """Return a ring of 40 Gb/s a wavelength and 1 µs a hop."""
    return WdmRing(
        ranks=ranks,
        wavelengths=wavelengths,
        wavelength_bandwidth=5e9,
        conversion_time=1e-6,
        reconfiguration_time=setup,
    )


def family_times(kind: Kind, ranks: int, wavelengths: int, share: float) -> dict[str, Floats]:
    """Return the least seconds of each family: [set-up]."""
    wanted = Collective(kind, ranks, share * ranks)
    fabrics = [ring(ranks, wavelengths, setup) for setup in SETUPS]
    anew = list(set_anew(wanted, fabrics[0]))
    found: dict[str, Floats] = {
        "set anew": np.array([min(cost(schedule, fabric).time for schedule in anew) for fabric in fabrics])
    }
    for schedule in (*gather(wanted, fabrics[0]), *in_few_steps(wanted, fabrics[0])):
        times = np.array([cost(overlapped(schedule, fabric), fabric).time for fabric in fabrics])
        family = family_of(schedule)
        found[family] = np.minimum(found.get(family, np.inf), times)
    return found


def family_of(schedule: Schedule) -> str:
    """Return the family of a schedule by its note."""
    return next((family for part, family in NOTES.items() if part in schedule.notes[0]), "levels")


def main() -> None:
    """Print a line for every cell and family that wins there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--wavelengths", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--shares", type=float, nargs="+", default=[1e3, 1e5, 1e7])
    options = parser.parse_args()
    kinds: tuple[Kind, ...] = ("all-gather", "all-reduce")
    for ranks, wavelengths, share, kind in product(options.ranks, options.wavelengths, options.shares, kinds):
        found = family_times(kind, ranks, wavelengths, share)
        for family in found:
            others = [times for name, times in found.items() if name != family]
            gains = 100 * (np.min(others, axis=0) / np.min(list(found.values()), axis=0) - 1)
            if gains.max() > 0.05:
                cells = " ".join(f"{gain:7.1f}" for gain in gains)
                print(f"{kind:<10} {ranks:>5} ranks {wavelengths:>3} wavelengths {share:>8.0e} B  {family:<14} {cells}")


if __name__ == "__main__":
    raise SystemExit(exit_clearly(main))
