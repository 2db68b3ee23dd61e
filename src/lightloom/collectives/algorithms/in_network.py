"""In-network averaging: every rank's light meets in the averager, and every rank receives the average.

    rank 0 ──▶ ┐          ┌ ──▶ rank 0
    rank 1 ──▶ ┤ averager ├ ──▶ rank 1        one step; nothing is forwarded twice
    rank 2 ──▶ ┘          └ ──▶ rank 2

Source: OptINC, sections II and III (the quantisation that the averager needs belongs to the photonics layer).
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.build import assemble
from lightloom.collectives.schedule import Schedule
from lightloom.collectives.spec import Collective
from lightloom.fabrics.base import Fabric


def in_network_steps() -> int:
    """One, for any number of ranks."""
    return 1


def in_network(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """One step: all ranks send to the switch, the switch multicasts to all."""
    n, switch = collective.ranks, fabric.switch_rank
    rank, center = np.arange(n), np.full(n, switch)
    zeros = np.zeros(2 * n, np.int64)
    return assemble(
        "in-network", collective, fabric, 1, 1, zeros, np.concatenate([rank, np.full(n, n)]),
        np.concatenate([rank, center]), np.concatenate([center, rank]), zeros, zeros, zeros, zeros,
        np.repeat([True, False], n),
    )  # fmt: skip
