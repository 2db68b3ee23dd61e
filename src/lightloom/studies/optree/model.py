"""The paper's cost model (steps of the four algorithms, seconds of a step), and built schedules."""

from __future__ import annotations

from functools import cache
from math import ceil
from typing import NamedTuple

from lightloom.collectives.algorithms.neighbour_exchange import neighbour_exchange_steps
from lightloom.collectives.algorithms.optree import optree
from lightloom.collectives.algorithms.optree_forms import theorem_1_steps, theorem_2_stages
from lightloom.collectives.algorithms.ring import ring_steps
from lightloom.collectives.algorithms.wrht import wrht_all_gather_steps
from lightloom.collectives.registry import build, find
from lightloom.collectives.spec import Collective
from lightloom.collectives.verify.stepped import verify
from lightloom.fabrics.wdm_ring import WdmRing

BANDWIDTH = 5e9
"""B: bandwidth of a wavelength in bytes per second, 40 Gb/s (section IV-A)."""
RECONFIGURATION = 25e-6
"""a: seconds to retune the micro-rings (section IV-A)."""
MESSAGE = 4 * 2**20
"""d: bytes of one rank's share; section IV-B says "4M" and no unit."""
RANKS = 1024
WAVELENGTHS = 64

ORDER = ("OpTree", "WRHT", "NE", "Ring")
"""The four algorithms of Figs. 5 and 6, by the paper's names."""


def ceiling_stages(ranks: int) -> int:
    """Return k* of Eq. 2, rounded up as in Table I and the printed averages.

    Raises:
        ValueError: Eq. 2 has no real value below 8 ranks.
    """
    stages = theorem_2_stages(ranks)
    if stages is None:
        raise ValueError(f"ranks={ranks}: Eq. 2 has no real value below 8 ranks")
    return ceil(stages)


def paper_steps(ranks: int, wavelengths: int) -> dict[str, int]:
    """Return steps as the paper's averages count them: Theorem 1 at the ceiling of k*, WRHT padded, NE, Ring."""
    return {
        "OpTree": theorem_1_steps(ranks, wavelengths, ceiling_stages(ranks)),
        "WRHT": wrht_all_gather_steps(ranks, wavelengths, padded=True),
        "NE": neighbour_exchange_steps(ranks),
        "Ring": ring_steps(ranks),
    }


def seconds(steps: int, nbytes: float, *, later_shares: int = 1) -> float:
    """Return steps · (d/B + a), Eq. 3; every step but the first carries ``later_shares`` shares (NE: 2)."""
    shares = 1 + (steps - 1) * later_shares
    return shares * nbytes / BANDWIDTH + steps * RECONFIGURATION


def by_time(steps: dict[str, int]) -> list[str]:
    """Return the algorithms, fastest first. Every step costs d/B + a, so fewer steps take less time."""
    return sorted(steps, key=lambda name: steps[name])


class Built(NamedTuple):
    """Counts of an all-gather that was built and verified."""

    steps: int
    notes: str
    """Metadata of the generator, for example the radices and the steps of each stage."""


@cache
def built(name: str, ranks: int = RANKS, wavelengths: int = WAVELENGTHS) -> Built:
    """Build and verify an algorithm's all-gather."""
    schedule = build(find(name), _all_gather(ranks), WdmRing(ranks=ranks, wavelengths=wavelengths))
    return Built(schedule.steps, "; ".join(schedule.notes))


@cache
def built_tree(radices: tuple[int, ...], ranks: int, wavelengths: int) -> Built:
    """Build and verify OpTree with the given parts in each stage."""
    fabric = WdmRing(ranks=ranks, wavelengths=wavelengths)
    schedule = optree(_all_gather(ranks), fabric, radices=radices)
    verify(schedule, fabric)
    return Built(schedule.steps, "; ".join(schedule.notes))


def _all_gather(ranks: int) -> Collective:
    return Collective("all-gather", ranks, float(ranks * MESSAGE))
