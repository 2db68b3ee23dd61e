"""An algorithm: rank 0 gathers all shares and hands them out."""

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.schedule.build import assign_wavelengths, from_all_gather, moves


def star(collective, fabric, *, striped=False):
    """Rank 0 gathers all shares and hands them out."""
    n = collective.ranks
    others = np.arange(1, n)
    chunk = np.broadcast_to(np.arange(n), (n - 1, n))
    missing = chunk != others[:, None]
    up = moves(others, 0, others)
    down = moves(0, np.broadcast_to(others[:, None], chunk.shape)[missing], chunk[missing])
    return from_all_gather(
        collective, fabric, lambda gather: assign_wavelengths("star", gather, fabric, n, [up, down], striped=striped)
    )


def farthest(_kind, fabric):
    """Links of the longest lightpath, so that fabrics on which light reaches fewer refuse the algorithm."""
    return fabric.diameter()


STAR = Algorithm(
    name="star",
    build=star,
    summary="rank 0 gathers and hands out",
    longest_lightpath=farthest,
)
