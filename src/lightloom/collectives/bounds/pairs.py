"""All pairs of ranks of a ring over circuits that stand: what first, last and second hops can carry.

A circuit carries blocks of its source alone until others have come there, and blocks for its target alone when no time
is left for another hop. Within two hops a circuit serves no more blocks of its source than circuits lead on from its
target, and no more for its target than circuits lead to its source; a rank with many has long ones, as no two lead to
the same rank. Proofs: docs/collectives/bounds.md.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_ROUNDING = 1e-9


def ends_seconds(ranks: int, hop: float, block: float, channels: int) -> float:
    """Seconds of an all-to-all of three hops or more: circuits serve one rank in the first hop's time, and in the last.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        block: seconds in which one wavelength carries what one rank has for one other.
        channels: wavelengths of each link, each way.
    """
    return hop + ranks * ranks // 4 * block / (2 * channels) + 2 * max(0.0, hop - (ranks - 1) * block)


def two_hops_join(ranks: int, channels: int, ends: int) -> bool:
    """Whether two hops may join all pairs of ranks; False is a proof.

    Args:
        ends: most circuits that begin, or end, at one rank.
    """
    return blocks_in_two_hops(ranks, channels) <= _most_blocks(ranks, channels, ends)


@lru_cache(maxsize=1 << 12)
def blocks_in_two_hops(ranks: int, channels: int) -> float:
    """Blocks that a wavelength carries in first hops at least, and as many in second ones, if no block makes three."""
    blocks = np.roots(np.array(_links_left(ranks, channels)))
    some = np.sort(blocks[np.isreal(blocks) & (blocks.real > 0)].real)
    # Between two of the roots links do not suffice, which is tried, and so they do not for fewer blocks.
    if len(some) < 2 or np.polyval(_links_left(ranks, channels), some[-2:].mean()) >= 0:
        return 0.0
    return float(some[-1]) * (1 - _ROUNDING)


def _links_left(ranks: int, channels: int) -> tuple[float, float, float, float]:
    """Links times the blocks G that they carry in each hop, less what all blocks need, times G (G + 2): a polynomial.

    For each rank, blocks weighted as in the proof, highest power first.
    """
    distances, links = float(ranks * ranks // 4), 2.0 * channels
    return links, 3 * links - distances, 2 * links - 2 * distances, 8 * links * distances


def _most_blocks(ranks: int, channels: int, ends: int) -> float:
    """Blocks that a circuit brings as far as it is long in first hops, at most, or the equivalent of such blocks.

    Where a block turns back in its second hop, as many of its links are in vain, and no two turn back equally far.
    """
    half = ranks / 2
    turning = channels - channels * (channels + 1) / (2 * half) if half >= channels else (half - 1) / 2
    return min(float(ends), channels + turning)
