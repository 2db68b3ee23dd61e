"""In-network averaging: every rank's light meets in the averager, and every rank receives the average.

    rank 0 ──▶ ┐          ┌ ──▶ rank 0
    rank 1 ──▶ ┤ averager ├ ──▶ rank 1        one step; nothing is forwarded twice
    rank 2 ──▶ ┘          └ ──▶ rank 2

Source: OptINC, sections II and III (the quantisation that the averager needs belongs to the photonics layer).
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm, rows_by_rank
from lightloom.collectives.schedule.build import Rows, assemble
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.fabrics.base import Fabric


def in_network(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """One step: all ranks send to the switch, the switch to the root of a reduce, or by multicast to all."""
    n, switch = collective.ranks, fabric.switch_rank
    rank, down = np.arange(n), np.arange(1 if collective.kind == "reduce" else n)
    zeros = np.zeros(n + len(down), np.int64)
    path = np.concatenate([rank, np.full_like(down, n)])
    source = np.concatenate([rank, np.full_like(down, switch)])
    destination = np.concatenate([np.full_like(rank, switch), down])
    adds = np.repeat([True, False], [n, len(down)])
    rows = Rows(zeros, path, source, destination, zeros, zeros, zeros, chunk=zeros, reduces=adds)
    return assemble("in-network", collective, fabric, rows, chunks=1, steps=1)


IN_NETWORK = Algorithm(
    name="in-network",
    build=in_network,
    kinds=("all-reduce", "reduce"),
    needs="in-network",
    rows=rows_by_rank,
    summary="one step through the reducing switch",
)
