"""The loop of the derivations of fabrics that grows with the pairs of ranks."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.kernels import njit_cached


@njit_cached
def cover(transfers: Ints, begins: Ints, first: Ints, link: Ints, links: int, chosen: Ints) -> int:
    """Choose for each rank links such that each of its transfers passes at least one, greedily: each as the link that
    most of the rank's transfers still left pass, of several such that of the lowest number.

    Args:
        transfers: numbers of the transfers of rank 0, then of rank 1, and so on: [transfer].
        begins: place in ``transfers`` of each rank's first one, and the end: [rank + 1].
        first: first entry of the transfer of each number, and the end: [transfer + 1].
        link: links that the transfers pass, those of one transfer side by side: [entry].
        links: number of all links.
        chosen: out, the links chosen for each rank, untouched behind them: [rank, place].

    Returns:
        The most links chosen for a rank; where ``chosen`` has fewer places, the others are left out of it.
    """
    count, passed, most = np.zeros(links, np.int64), np.empty(links, np.int64), 0
    for rank in range(len(begins) - 1):
        left, used, places = transfers[begins[rank] : begins[rank + 1]].copy(), 0, 0
        for transfer in left:
            for entry in range(first[transfer], first[transfer + 1]):
                if count[link[entry]] == 0:
                    passed[used] = link[entry]
                    used += 1
                count[link[entry]] += 1
        while True:
            best = -1
            for each in passed[:used]:
                if count[each] > 0 and (
                    best < 0 or count[each] > count[best] or (count[each] == count[best] and each < best)
                ):
                    best = each
            if best < 0:
                break
            kept = 0
            for transfer in left:
                entry = first[transfer]
                while entry < first[transfer + 1] and link[entry] != best:
                    entry += 1
                if entry < first[transfer + 1]:
                    for other in range(first[transfer], first[transfer + 1]):
                        count[link[other]] -= 1
                else:
                    left[kept] = transfer
                    kept += 1
            left = left[:kept]
            if places < chosen.shape[1]:
                chosen[rank, places] = best
            places += 1
        most = max(most, places)
    return most
