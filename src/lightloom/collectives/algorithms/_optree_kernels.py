"""The compiled loop that counts what a stage of OpTree puts on every link."""

from __future__ import annotations

from lightloom.core.arrays import Ints
from lightloom.core.kernels import njit_cached


@njit_cached
def exchange_parts(start: Ints, size: Ints, first: Ints, items: Ints, arriving: Ints, change: Ints) -> None:
    """Let every rank send what it holds to its counterpart in each other part of what was one part before.

    Args:
        start, size: first rank and ranks of each part: [parts].
        first: the first part of each part before, and the number of parts: [parts before + 1].
        items: blocks that each rank holds: [ranks].
        arriving: zeros, for the blocks that each rank receives: [ranks].
        change: zeros, for the blocks on a link less those on the one before it, among ranks in a row, towards higher
            ranks and towards lower ones: [2, ranks + 1]. Empty where links do not matter.
    """
    for before in range(len(first) - 1):
        for part in range(first[before], first[before + 1]):
            for other in range(first[before], first[before + 1]):
                if other == part:
                    continue
                for position in range(size[part]):
                    source = start[part] + position
                    target = start[other] + min(position, size[other] - 1)
                    arriving[target] += items[source]
                    if len(change):
                        direction = 1 if target < source else 0
                        change[direction, min(source, target)] += items[source]
                        change[direction, max(source, target)] -= items[source]
