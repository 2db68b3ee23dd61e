"""Circuits beside what every pair was promised."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.circuits.circuits import Circuits, Traffic
from lightloom.planning.parallelism.circuits.verify import verify


def verify_granted(circuits: Circuits, fabric: Fabric, traffic: Traffic, granted: Ints) -> None:
    """Prove that circuits can exist, and that every pair has as many as it was granted: [pair].

    Raises:
        VerificationError: the first violation found.
    """
    verify(circuits, fabric)
    assigned = circuits.counts(traffic).sum(axis=0)
    wrong = np.flatnonzero(assigned != granted)
    if len(wrong):
        pair = int(wrong[0])
        raise VerificationError(
            f"rank {traffic.source[pair]}→{traffic.destination[pair]}: granted {granted[pair]} circuits, "
            f"assigned {assigned[pair]}"
        )
