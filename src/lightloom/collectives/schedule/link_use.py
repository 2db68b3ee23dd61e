"""C(N, H): the fewest links that a broadcast to N ranks of a ring must use if nothing goes more than H hops.

    H = 3     ●──────────────────►●─────────►●           a lightpath of length 5 uses five links to serve one rank
              ●─►●◄──┘     ●◄─────┘├─►●   ●◄─┘

Together with the hops that a time allows this is the joint bound of bandwidth and latency: in X seconds data makes at
most ⌊X/h⌋ hops, h being the least delay of one, and all links carry at most 2 N w r X bytes. Proof:
docs/collectives/bounds.md.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray


def broadcast_uses(ranks: int, hops: int) -> int:
    """Fewest link uses of a broadcast to ``ranks`` ranks, its source among them, within ``hops`` hops.

    Never below the closed form (N − 1) + max(0, N − 1 − 2 H), and equal to it from some H on.

    Raises:
        ValueError: no rank or no hop.
    """
    if ranks < 1 or hops < 1:
        raise ValueError(f"{ranks} ranks in {hops} hops: expected at least 1 of each")
    known = _programme(ranks)
    return int(known[hops - 1]) if hops <= len(known) else closed_form(ranks, hops)


def closed_form(ranks: int, hops: int) -> int:
    """Below :func:`broadcast_uses`: every rank once, and the excess that reaching both ends in time takes."""
    return ranks - 1 + max(0, ranks - 1 - 2 * hops)


@cache
def _programme(ranks: int) -> NDArray[np.int64]:
    """Link uses within 1, 2, ... hops, up to where the closed form is exact."""
    from lightloom.collectives.schedule import _link_use_kernels as kernels

    # The closed form is exact from about 3/4 √N hops on; asking for a few more costs little.
    uses: NDArray[np.int64] = kernels.least_uses(ranks, min(ranks, int(ranks**0.5) + 4))
    return uses


def joint_seconds(ranks: int, hop: float, per_link_use: float, more_uses: int = 0) -> float:
    """The least X with X ≥ hop + (C(N, ⌊X/hop⌋) + ``more_uses``) · ``per_link_use``.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        per_link_use: seconds that all links together need for one use of one link by everybody's data.
    """
    if hop <= 0:
        return (ranks - 1 + more_uses) * per_link_use
    hops = 1
    while True:
        uses = broadcast_uses(ranks, hops)
        seconds = max(hops * hop, hop + (uses + more_uses) * per_link_use)
        if seconds < (hops + 1) * hop or uses == ranks - 1:
            return seconds
        hops += 1
