"""Compiled loop of chunks that follow each other up and down trees."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Int32s, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays


class ReduceRows(NamedTuple):
    """Which rank sends which chunk in which round, and whether it is added: arrays [row]."""

    round: Int32s
    source: Int32s
    destination: Int32s
    chunk: Int32s
    adds: Mask


@njit_cached
def pipeline(parent: Int32s, first: Ints, child: Ints, tree: Ints, rows: ReduceRows) -> int:
    """Rounds in which sums of every chunk run up its tree and their total down; the number of rounds.

    Every link carries one chunk a round, of those that are ready the first.

    Args:
        parent: [tree, rank], −1 at the root.
        first, child: children in each tree as compressed rows, [tree, rank + 1] and [tree, place].
        tree: tree of each chunk, [chunk].
        rows: out, [2 · (ranks − 1) · chunks].
    """
    ranks, chunks = parent.shape[1], len(tree)
    awaited = np.zeros((chunks, ranks), np.int8)
    # A link is named by its ends, of which a rank has few: its queue is found by looking through them.
    ends = np.full((ranks, 4), -1, np.int32)
    queues = [[0] for _ in range(4 * ranks)]
    for queue in queues:
        queue.pop()
    for chunk in range(chunks):
        t = tree[chunk]
        for rank in range(ranks):
            awaited[chunk, rank] = first[t, rank + 1] - first[t, rank]
            if not awaited[chunk, rank]:
                heapq.heappush(queues[_queue(ends, rank, np.int64(parent[t, rank]))], chunk)
    count, now = 0, 0
    while count < len(rows.round):
        begin = count
        for rank in range(ranks):
            for k in range(4):
                queue = queues[4 * rank + k]
                if len(queue):
                    chunk = heapq.heappop(queue)
                    rows.round[count], rows.source[count], rows.destination[count] = now, rank, ends[rank, k]
                    rows.chunk[count], rows.adds[count] = chunk, parent[tree[chunk], rank] == ends[rank, k]
                    count += 1
        for row in range(begin, count):
            rank, summed = rows.destination[row], np.int64(rows.chunk[row])
            t = tree[summed]
            if rows.adds[row]:
                awaited[summed, rank] -= 1
                if awaited[summed, rank]:
                    continue
                if parent[t, rank] >= 0:
                    heapq.heappush(queues[_queue(ends, np.int64(rank), np.int64(parent[t, rank]))], summed)
                    continue
            for i in range(first[t, rank], first[t, rank + 1]):
                heapq.heappush(queues[_queue(ends, np.int64(rank), np.int64(child[t, i]))], summed)
        now += 1
    return now


@njit_without_arrays
def _queue(ends: Int32s, rank: int, to: int) -> int:
    """The queue of the link from one rank to another."""
    for k in range(4):
        if ends[rank, k] < 0:
            ends[rank, k] = to
        if ends[rank, k] == to:
            return 4 * rank + k
    return -1
