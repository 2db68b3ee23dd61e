"""Compiled loops of rounds: distances, and which chunk every link carries in every round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from lightloom.collectives.synthesis.grid.links import GridLinks
from lightloom.core.arrays import Column, Int32s, Ints, Mask


class GatherRows(NamedTuple):
    """What passes which link in which round: arrays [row]."""

    round: Int32s
    link: Int32s
    chunk: Int32s


class _Flood(NamedTuple):
    """State of a flood: who has what, and what waits for whom."""

    came: Column
    """Round after which a chunk came, or −1: [rank, chunk]."""
    offered: Mask
    """Whether a neighbour has offered a chunk: [rank, chunk]."""
    waiting: Int32s
    """Chunks that neighbours offer: [rank, place]."""
    waits: Ints
    """How many those are: [rank]."""
    left: Ints
    """Chunks that a rank still lacks: [rank]."""


class _Turn(NamedTuple):
    """What a rank receives over in a round."""

    first: int
    """First link that enters the rank."""
    entering: int
    """How many links do."""
    round: int
    budget: int
    """Most chunks on each of them."""


class _Match(NamedTuple):
    """Chunks of one rank and round, and the links that bring them."""

    order: Int32s
    """Chunks on offer, that which leads farthest first."""
    chosen: Ints
    """Chunks that are taken."""
    by: Ints
    """The link that brings each of them."""
    load: Ints
    """Chunks on each link that enters: [link]."""
    parent: Ints
    """The link that would take a chunk from each link, −1 at the first and −2 where none does: [link]."""
    via: Ints
    """The place of that chunk: [link]."""


@njit(cache=True)
def distances(first_out: Ints, head: Ints, hops: Column, beyond: Column) -> None:
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
def flood(links: GridLinks, beyond: Column, pieces: int, budgets: Ints, rows: GatherRows) -> int:
    """Rounds of an all-gather in which links carry what has farthest to go; the number of rounds.

    In round r every link carries at most ``budgets[r]`` chunks, in later rounds as many as the neediest rank asks for.
    Each rank gives its incoming links the chunks that lead farthest through it, as many as a maximum matching of chunks
    and links holds.

    Args:
        beyond: as of :func:`distances`.
        budgets: chunks a link, [round].
        rows: out, [ranks · (ranks − 1) · pieces].
    """
    ranks = len(links.entering) - 1
    chunks = ranks * pieces
    state = _Flood(
        np.full((ranks, chunks), -1, np.int16),
        np.zeros((ranks, chunks), np.bool_),
        np.empty((ranks, chunks), np.int32),
        np.zeros(ranks, np.int64),
        np.full(ranks, (ranks - 1) * pieces),
    )
    for chunk in range(chunks):
        state.came[chunk // pieces, chunk] = 0
        _offer(links, state, chunk // pieces, chunk)
    entering = np.diff(links.entering)
    chosen, by = np.empty((2, chunks), np.int64)
    load, parent, via = np.empty((3, int(entering.max())), np.int64)
    match = _Match(np.empty(chunks, np.int32), chosen, by, load, parent, via)
    place = np.empty(int(beyond.max()) + 2, np.int64)
    # Integers from an array: for literal ones all that is called would be compiled once more.
    count = now = 0 * ranks
    while count < len(rows.round):
        budget = budgets[now] if now < len(budgets) else max(1, int((-(-state.left // entering)).max()))
        begin = count
        for rank in range(ranks):
            waits = state.waits[rank]
            _by_distance(state.waiting[rank, :waits], beyond[:, rank], pieces, match.order, place)
            for i in range(_take(links, state, match, rank, now, budget)):
                rows.round[count], rows.link[count], rows.chunk[count] = now, match.by[i], match.chosen[i]
                count += 1
        if count == begin:
            return -1
        now += 1
        _receive(links, state, rows, begin, count, now)
    return now


@njit(cache=True)
def _receive(links: GridLinks, state: _Flood, rows: GatherRows, begin: int, end: int, now: int) -> None:
    """Note what the rows of a round have brought, and offer it to the neighbours."""
    ranks = len(links.entering) - 1
    for row in range(begin, end):
        rank = _receiver(links, rows.link[row])
        state.came[rank, rows.chunk[row]] = now
        state.left[rank] -= 1
    for rank in range(ranks):
        still = 0
        for i in range(state.waits[rank]):
            if state.came[rank, state.waiting[rank, i]] < 0:
                state.waiting[rank, still] = state.waiting[rank, i]
                still += 1
        state.waits[rank] = still
    for row in range(begin, end):
        _offer(links, state, _receiver(links, rows.link[row]), np.int64(rows.chunk[row]))


@njit(cache=True)
def _receiver(links: GridLinks, link: int) -> int:
    return np.searchsorted(links.entering, link, side="right") - 1  # type: ignore[return-value]


@njit(cache=True)
def _offer(links: GridLinks, state: _Flood, rank: int, chunk: int) -> None:
    """Offer a chunk that a rank has to the neighbours that lack it."""
    for link in range(links.leaving[rank], links.leaving[rank + 1]):
        to = links.head[link]
        if state.came[to, chunk] < 0 and not state.offered[to, chunk]:
            state.offered[to, chunk] = True
            state.waiting[to, state.waits[to]] = chunk
            state.waits[to] += 1


@njit(cache=True)
def _by_distance(waiting: Int32s, beyond: Column, pieces: int, order: Int32s, place: Ints) -> None:
    """Sort what waits for a rank, that which leads farthest first; ``place`` is scratch."""
    place[:] = 0
    far = len(place) - 2
    for chunk in waiting:
        place[far - beyond[chunk // pieces] + 1] += 1
    for k in range(far + 1):
        place[k + 1] += place[k]
    for chunk in waiting:
        key = far - beyond[chunk // pieces]
        order[place[key]] = chunk
        place[key] += 1


@njit(cache=True)
def _take(links: GridLinks, state: _Flood, match: _Match, rank: int, now: int, budget: int) -> int:
    """A maximum matching of chunks, in order, to incoming links of equal budget; the number of chunks matched."""
    first = links.entering[rank]
    turn = _Turn(first, links.entering[rank + 1] - first, now, budget)
    match.load[:] = 0
    taken = 0 * budget
    for i in range(state.waits[rank]):
        if taken == budget * turn.entering:
            break
        chunk, best = np.int64(match.order[i]), -1
        for k in range(turn.entering):
            has_room = match.load[k] < budget and (best < 0 or match.load[k] < match.load[best])
            if has_room and _has(links, state, first + k, chunk, now):
                best = k
        if best >= 0:
            match.load[best] += 1
        else:
            best = _make_room(links, state, match, turn, taken, chunk)
            if best < 0:
                continue
        match.chosen[taken], match.by[taken] = chunk, first + best
        taken += 1
    return taken


@njit(cache=True)
def _has(links: GridLinks, state: _Flood, link: int, chunk: int, now: int) -> bool:
    """Whether the rank at which a link begins has a chunk when a round begins."""
    came = state.came[links.source[link], chunk]
    return came >= 0 and came <= now  # type: ignore[no-any-return]


@njit(cache=True)
def _make_room(links: GridLinks, state: _Flood, match: _Match, turn: _Turn, taken: int, chunk: int) -> int:
    """A link that can carry a chunk once others take some of its own, which are moved; −1 where there is none.

    Links that could carry it are full: some chunk of theirs may take another link instead.
    """
    match.parent[:] = -2
    queue, begin, end = np.empty(turn.entering, np.int64), 0, 0
    for k in range(turn.entering):
        if _has(links, state, turn.first + k, chunk, turn.round):
            match.parent[k] = -1
            queue[end] = k
            end += 1
    free = -1
    while begin < end and free < 0:
        full = queue[begin]
        begin += 1
        for j in range(taken):
            if match.by[j] - turn.first != full:
                continue
            for k in range(turn.entering):
                if match.parent[k] == -2 and _has(links, state, turn.first + k, match.chosen[j], turn.round):
                    match.parent[k], match.via[k] = full, j
                    queue[end] = k
                    end += 1
                    if match.load[k] < turn.budget and free < 0:
                        free = k
    if free < 0:
        return -1
    match.load[free] += 1
    while match.parent[free] >= 0:
        match.by[match.via[free]] = turn.first + free
        free = match.parent[free]
    return free
