"""Worker-aggregator (parameter server): everyone sends to rank 0, which adds and sends back.

    1 ─▶ ┐             rank 0 is a worker too; it needs no message to itself
    2 ─▶ 0 ─▶ 1, 2, 3
    3 ─▶ ┘

Sources: Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014; INCEPTIONN, Fig. 1.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms._rooted import up_and_down
from lightloom.collectives.algorithms.longest import longest_links
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import FROM_ALL_GATHER, ROOTED, Collective
from lightloom.fabrics.base import Fabric


def worker_aggregator(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Every worker to rank 0 at once, and rank 0 to every worker."""
    workers = np.arange(1, collective.ranks)
    return up_and_down("worker-aggregator", collective, fabric, [(workers, np.zeros_like(workers), 1)], striped)


def _links_to_root(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    workers = np.arange(1, fabric.ranks)
    return longest_links(fabric, workers, np.zeros_like(workers))


WORKER_AGGREGATOR = Algorithm(
    name="worker-aggregator",
    build=worker_aggregator,
    longest_lightpath=_links_to_root,
    kinds=(*FROM_ALL_GATHER, *ROOTED),
    summary="all to rank 0, and back (parameter server)",
)
