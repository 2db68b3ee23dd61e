"""Compiled loops of rounds: distances, and which chunk every link carries in every round."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def distances(first_out: Any, head: Any, hops: Any, beyond: Any) -> None:
    """Links between all ranks, and how much farther the shortest ways through a rank lead.

    Args:
        first_out, head: where the links that leave a rank end, as compressed rows.
        hops: out, [source, rank]; −1 where no way leads.
        beyond: out, links from a rank to the farthest one that a shortest way from the source reaches through it.
    """
    ranks = len(first_out) - 1
    order = np.empty(ranks, np.int64)
    for source in range(ranks):
        hops[source, :] = -1
        beyond[source, :] = 0
        hops[source, source] = 0
        order[0], count, at = source, 1, 0
        while at < count:
            rank = order[at]
            at += 1
            for link in range(first_out[rank], first_out[rank + 1]):
                if hops[source, head[link]] < 0:
                    hops[source, head[link]] = hops[source, rank] + 1
                    order[count] = head[link]
                    count += 1
        for i in range(count - 1, -1, -1):
            rank = order[i]
            for link in range(first_out[rank], first_out[rank + 1]):
                if hops[source, head[link]] == hops[source, rank] + 1:
                    beyond[source, rank] = max(beyond[source, rank], beyond[source, head[link]] + 1)


@njit(cache=True)
def flood(
    first_in: Any,
    tail: Any,
    first_out: Any,
    head: Any,
    beyond: Any,
    pieces: int,
    budgets: Any,
    row_round: Any,
    row_link: Any,
    row_chunk: Any,
) -> int:
    """Rounds of an all-gather in which links carry what has farthest to go; the number of rounds.

    In round r every link carries at most ``budgets[r]`` chunks, in later rounds as many as the neediest rank asks for.
    Each rank gives its incoming links the chunks that lead farthest through it, as many as a maximum matching of chunks
    and links holds.

    Args:
        first_in, tail: where the links that enter a rank begin, as compressed rows; ``row_link`` numbers them so.
        budgets: chunks a link, [round].
        row_round, row_link, row_chunk: out, [ranks · (ranks − 1) · pieces].
    """
    ranks = len(first_in) - 1
    chunks = ranks * pieces
    came = np.full((ranks, chunks), -1, np.int16)
    wanted = np.zeros((ranks, chunks), np.bool_)
    waiting = np.empty((ranks, chunks), np.int32)
    waits = np.zeros(ranks, np.int64)
    left = np.full(ranks, (ranks - 1) * pieces)
    farthest = int(beyond.max()) + 1
    for rank in range(ranks):
        for chunk in range(rank * pieces, (rank + 1) * pieces):
            came[rank, chunk] = 0
            _offer(rank, chunk, first_out, head, came, wanted, waiting, waits)
    widest = int((first_in[1:] - first_in[:-1]).max())
    chosen = np.empty(chunks, np.int64)
    by = np.empty(chunks, np.int64)
    order, place = np.empty(chunks, np.int32), np.empty(farthest + 1, np.int64)
    rows, now = 0, 0
    while rows < len(row_round):
        if now < len(budgets):
            budget = budgets[now]
        else:
            budget = 1
            for rank in range(ranks):
                entering = first_in[rank + 1] - first_in[rank]
                budget = max(budget, -(-left[rank] // entering))
        begin = rows
        for rank in range(ranks):
            count = waits[rank]
            _by_distance(waiting[rank], count, beyond, rank, pieces, order, place)
            entering = first_in[rank + 1] - first_in[rank]
            taken = _match(
                order,
                count,
                first_in[rank],
                entering,
                tail,
                came,
                now,
                budget,
                widest,
                chosen,
                by,
            )
            for i in range(taken):
                row_round[rows], row_link[rows], row_chunk[rows] = now, by[i], chosen[i]
                rows += 1
        if rows == begin:
            return -1
        now += 1
        for row in range(begin, rows):
            rank = _owner(first_in, row_link[row])
            came[rank, row_chunk[row]] = now
            left[rank] -= 1
        for rank in range(ranks):
            kept = 0
            for i in range(waits[rank]):
                if came[rank, waiting[rank, i]] < 0:
                    waiting[rank, kept] = waiting[rank, i]
                    kept += 1
            waits[rank] = kept
        for row in range(begin, rows):
            rank = _owner(first_in, row_link[row])
            _offer(rank, row_chunk[row], first_out, head, came, wanted, waiting, waits)
    return now


@njit(cache=True)
def _owner(first: Any, link: int) -> Any:
    return np.searchsorted(first, link, side="right") - 1


@njit(cache=True)
def _offer(rank: int, chunk: int, first_out: Any, head: Any, came: Any, wanted: Any, waiting: Any, waits: Any) -> None:
    """Tell the neighbours who lack it of a chunk that has come."""
    for link in range(first_out[rank], first_out[rank + 1]):
        to = head[link]
        if came[to, chunk] < 0 and not wanted[to, chunk]:
            wanted[to, chunk] = True
            waiting[to, waits[to]] = chunk
            waits[to] += 1


@njit(cache=True)
def _by_distance(waiting: Any, count: int, beyond: Any, rank: int, pieces: int, order: Any, place: Any) -> None:
    """Sort what waits for a rank, that which leads farthest first."""
    place[:] = 0
    far = len(place) - 2
    for i in range(count):
        place[far - beyond[waiting[i] // pieces, rank] + 1] += 1
    for k in range(far + 1):
        place[k + 1] += place[k]
    for i in range(count):
        key = far - beyond[waiting[i] // pieces, rank]
        order[place[key]] = waiting[i]
        place[key] += 1


@njit(cache=True)
def _match(
    order: Any,
    count: int,
    first: int,
    links: int,
    tail: Any,
    came: Any,
    now: int,
    budget: int,
    widest: int,
    chosen: Any,
    by: Any,
) -> int:
    """A maximum matching of chunks, in order, to links of equal budget; chunks and links into ``chosen`` and ``by``."""
    load = np.zeros(widest, np.int64)
    via, parent = np.empty(widest, np.int64), np.empty(widest, np.int64)
    queue = np.empty(widest, np.int64)
    taken = 0
    for i in range(count):
        if taken == budget * links:
            break
        chunk = order[i]
        best = -1
        for k in range(links):
            held = came[tail[first + k], chunk]
            if 0 <= held <= now and load[k] < budget and (best < 0 or load[k] < load[best]):
                best = k
        if best < 0:
            # Links that could carry it are full: some chunk of theirs may take another link instead.
            parent[:] = -2
            begin, end = 0, 0
            for k in range(links):
                held = came[tail[first + k], chunk]
                if 0 <= held <= now:
                    parent[k] = -1
                    queue[end] = k
                    end += 1
            free = -1
            while begin < end and free < 0:
                full = queue[begin]
                begin += 1
                for j in range(taken):
                    if by[j] - first != full:
                        continue
                    for k in range(links):
                        held = came[tail[first + k], chosen[j]]
                        if parent[k] == -2 and 0 <= held <= now:
                            parent[k], via[k] = full, j
                            queue[end] = k
                            end += 1
                            if load[k] < budget and free < 0:
                                free = k
            if free < 0:
                continue
            load[free] += 1
            while parent[free] >= 0:
                by[via[free]] = first + free
                free = parent[free]
            best = free
        else:
            load[best] += 1
        chosen[taken], by[taken] = chunk, first + best
        taken += 1
    return taken


@njit(cache=True)
def pipeline(
    parent: Any, tree: Any, row_round: Any, row_source: Any, row_destination: Any, row_chunk: Any, row_adds: Any
) -> int:
    """Rounds in which sums of every chunk run up its tree and their total down; the number of rounds.

    Every link carries one chunk a round, of those that are ready the first.

    Args:
        parent: [tree, rank], −1 at the root.
        tree: of each chunk, [chunk].
        row_round, row_source, row_destination, row_chunk, row_adds: out, [2 · (ranks − 1) · chunks].
    """
    trees, ranks = parent.shape
    chunks = len(tree)
    first, child = np.zeros((trees, ranks + 1), np.int32), np.empty((trees, ranks), np.int32)
    for t in range(trees):
        for rank in range(ranks):
            if parent[t, rank] >= 0:
                first[t, parent[t, rank] + 1] += 1
        for rank in range(ranks):
            first[t, rank + 1] += first[t, rank]
        place = first[t].copy()
        for rank in range(ranks):
            up = parent[t, rank]
            if up >= 0:
                child[t, place[up]] = rank
                place[up] += 1
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
                heapq.heappush(queues[_queue(ends, rank, parent[t, rank])], chunk)
    rows, now = 0, 0
    while rows < len(row_round):
        begin = rows
        for rank in range(ranks):
            for k in range(4):
                queue = queues[4 * rank + k]
                if len(queue):
                    chunk = heapq.heappop(queue)
                    row_round[rows], row_source[rows], row_destination[rows] = now, rank, ends[rank, k]
                    row_chunk[rows], row_adds[rows] = chunk, parent[tree[chunk], rank] == ends[rank, k]
                    rows += 1
        for row in range(begin, rows):
            rank, summed = row_destination[row], np.int64(row_chunk[row])
            t = tree[summed]
            if row_adds[row]:
                awaited[summed, rank] -= 1
                if awaited[summed, rank]:
                    continue
                if parent[t, rank] >= 0:
                    heapq.heappush(queues[_queue(ends, rank, parent[t, rank])], summed)
                    continue
            for i in range(first[t, rank], first[t, rank + 1]):
                heapq.heappush(queues[_queue(ends, rank, child[t, i])], summed)
        now += 1
    return now


@njit(cache=True)
def _queue(ends: Any, rank: int, to: int) -> Any:
    for k in range(4):
        if ends[rank, k] < 0:
            ends[rank, k] = to
        if ends[rank, k] == to:
            return 4 * rank + k
    return -1
