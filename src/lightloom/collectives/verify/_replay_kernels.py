"""Compiled loops of the verifier: occupancy of links, and replay of every chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

OK, CONFLICT, NOT_HELD, TWICE, RACE, LOST, WRONG_END, EMPTY, UNORDERED = range(9)


@njit(cache=True)
def lightpaths_agree(
    lightpath: Any,
    step: Any,
    source: Any,
    route: Any,
    fibre: Any,
    wavelength: Any,
    count: Any,
    first_row: Any,
) -> int:
    """First row that differs from its lightpath's first row, else -1.

    ``first_row`` [lightpath] comes in as -1 and leaves as the first row of each.
    """
    for row in range(len(lightpath)):
        first = first_row[lightpath[row]]
        if first < 0:
            first_row[lightpath[row]] = row
        elif (
            step[row] != step[first]
            or source[row] != source[first]
            or route[row] != route[first]
            or fibre[row] != fibre[first]
            or wavelength[row] != wavelength[first]
            or count[row] != count[first]
        ):
            return row
    return -1


@njit(cache=True)
def ordered(before: int, after: int, reach: Any) -> bool:
    """Whether step ``before`` has ended when step ``after`` begins; an empty ``reach`` means step order."""
    if before < 0:
        return True
    if len(reach) == 0:
        return before < after
    return bool(reach[before, after])


@njit(cache=True)
def occupy(
    rows: Any,
    lightpath: Any,
    step: Any,
    destination: Any,
    channel: Any,
    count: Any,
    base: Any,
    start: Any,
    length: Any,
    period: Any,
    channels: int,
    holder: Any,
    holder_step: Any,
    reach: Any,
) -> Any:
    """Mark every (link, channel) that the rows hold; the first clash as (row, link, channel, holder), else -1s.

    ``holder`` and ``holder_step`` [link * channels] carry over from call to call.
    """
    for i in range(len(rows)):
        row = rows[i]
        if i > 0 and lightpath[row] == lightpath[rows[i - 1]] and destination[row] == destination[rows[i - 1]]:
            continue
        for run in range(base.shape[1]):
            for k in range(length[i, run]):
                link = base[i, run] + (start[i, run] + k) % period[i, run]
                cell = link * channels + channel[row]
                for c in range(cell, cell + count[row]):
                    other = holder[c]
                    if other != lightpath[row]:
                        if other >= 0 and not ordered(holder_step[c], step[row], reach):
                            return row, link, c - link * channels, other
                        holder[c] = lightpath[row]
                        holder_step[c] = step[row]
    return -1, -1, -1, -1


@njit(cache=True)
def first_blocked(base: Any, start: Any, length: Any, period: Any, channel: Any, count: Any, blocked: Any) -> Any:
    """The first transfer over a channel that is ``blocked`` [link, channel], as (transfer, link, channel), else -1s."""
    for i in range(len(base)):
        for run in range(base.shape[1]):
            for k in range(length[i, run]):
                link = base[i, run] + (start[i, run] + k) % period[i, run]
                for c in range(channel[i], channel[i] + count[i]):
                    if blocked[link, c]:
                        return i, link, c
    return -1, -1, -1


@njit(cache=True)
def by_chunk(chunk: Any, rows: Any, chunks: int) -> Any:
    """Stable counting sort of ``rows`` by chunk: (sorted rows, first position of each chunk)."""
    first = np.zeros(chunks + 1, np.int64)
    for row in rows:
        first[chunk[row] + 1] += 1
    for c in range(chunks):
        first[c + 1] += first[c]
    position = first[:-1].copy()
    result = np.empty(len(rows), np.int32)
    for row in rows:
        result[position[chunk[row]]] = row
        position[chunk[row]] += 1
    return result, first


@njit(cache=True)
def replay_gather(
    rows: Any, first: Any, step: Any, source: Any, destination: Any, owner: Any, reader: Any, ranks: int, reach: Any
) -> Any:
    """Replay what only copies, chunk by chunk; (code, row or chunk, rank).

    ``reader`` [chunk] must end with it, every rank where it is -1.
    """
    got = np.full(ranks, -2, np.int32)
    for chunk in range(len(first) - 1):
        got[owner[chunk]] = -1
        held = 1
        for i in range(first[chunk], first[chunk + 1]):
            row = rows[i]
            if got[source[row]] == -2:
                return NOT_HELD, row, source[row]
            if not ordered(got[source[row]], step[row], reach):
                return UNORDERED if len(reach) else NOT_HELD, row, source[row]
            if got[destination[row]] != -2:
                return TWICE, row, destination[row]
            got[destination[row]] = step[row]
            held += 1
        if reader[chunk] >= 0:
            if got[reader[chunk]] == -2:
                return WRONG_END, chunk, reader[chunk]
        elif held != ranks:
            for rank in range(ranks):
                if got[rank] == -2:
                    return WRONG_END, chunk, rank
        got[owner[chunk]] = -2
        for i in range(first[chunk], first[chunk + 1]):
            got[destination[rows[i]]] = -2
    return OK, 0, 0


@njit(cache=True)
def replay_reduce(
    rows: Any,
    first: Any,
    step: Any,
    source: Any,
    destination: Any,
    reduces: Any,
    held: Any,
    wanted: Any,
    final: Any,
    reach: Any,
    cut_through: int,
) -> Any:
    """Replay any collective with contribution sets; (code, row or chunk, rank).

    ``held`` [chunk class 0, rank, word] is the state before, ``wanted`` [word] the complete set and ``final``
    [chunk, rank] says who must end with it. Sends of one step read what was there before the step; only rank
    ``cut_through`` (the switch, or -1) passes on what enters in the same step.
    """
    ranks, words = held.shape
    state = np.empty((ranks, words), np.uint64)
    last_write = np.empty(ranks, np.int32)
    last_copy = np.empty(ranks, np.int32)
    head = np.empty(ranks, np.int64)
    longest = 0
    for chunk in range(len(first) - 1):
        longest = max(longest, first[chunk + 1] - first[chunk])
    carried = np.empty((longest, words), np.uint64)
    following = np.empty(longest, np.int64)
    for chunk in range(len(first) - 1):
        state[:] = held
        last_write[:] = -1
        last_copy[:] = -1
        head[:] = -1
        begin, stop = first[chunk], first[chunk + 1]
        i = begin
        while i < stop:
            j = i
            now = step[rows[i]]
            through = source[rows[i]] == cut_through
            while j < stop and step[rows[j]] == now and (source[rows[j]] == cut_through) == through:
                row = rows[j]
                s = source[row]
                if last_write[s] != now and not ordered(last_write[s], now, reach):
                    return UNORDERED, row, s
                empty = True
                for w in range(words):
                    carried[j - begin, w] = state[s, w]
                    empty = empty and state[s, w] == 0
                if empty:
                    return EMPTY, row, s
                following[j - begin] = head[s]
                head[s] = j - begin
                j += 1
            for k in range(i, j):
                row = rows[k]
                d = destination[row]
                if last_write[d] != now:
                    if not ordered(last_write[d], now, reach):
                        return UNORDERED, row, d
                    reader = head[d]
                    while reader >= 0:
                        read_at = step[rows[begin + reader]]
                        if read_at != now and not ordered(read_at, now, reach):
                            return UNORDERED, row, d
                        reader = following[reader]
                    head[d] = -1
                elif last_copy[d] == now or not reduces[row]:
                    return RACE, row, d
                same, lost = True, False
                for w in range(words):
                    have, come = state[d, w], carried[k - begin, w]
                    same = same and have == come
                    lost = lost or (have & ~come) != 0
                    if reduces[row]:
                        if have & come:
                            return TWICE, row, d
                        state[d, w] = have | come
                    else:
                        state[d, w] = come
                if not reduces[row]:
                    if same:
                        return TWICE, row, d
                    if lost:
                        return LOST, row, d
                    last_copy[d] = now
                last_write[d] = now
            i = j
        for rank in range(final.shape[1]):
            if final[chunk, rank]:
                for w in range(words):
                    if state[rank, w] != wanted[w]:
                        return WRONG_END, chunk, rank
    return OK, 0, 0
