"""Compiled loops of circuit assignment on rings."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.kernels import njit_cached, njit_without_arrays


class RingPairs(NamedTuple):
    """Ordered pairs of ranks on a ring that have traffic; arrays of shape [pair]."""

    nodes: int
    """Number of ranks on the ring."""
    source: Ints
    ahead: Ints
    """Links from the source to the destination, clockwise."""
    nbytes: Floats


@njit_cached
def sweep(order: Ints, start: Ints, length: Ints, nodes: int, colour: Ints) -> int:
    """Colour arcs on a ring so that overlapping ones differ, and return the number of colours, which are numbered from
    0.

    The ring is cut before node 0, and arcs that cross the cut take a colour each, first. A colour's deadline is where
    the arc that crosses the cut with it starts again, ``nodes`` if none does; of the free colours an arc takes the one
    of the earliest deadline that it keeps.

    Args:
        order: arcs in ascending order of their starts, in which they take colours: [arc].
        start: first link of each arc: [arc].
        length: number of links of each arc, fewer than ``nodes``: [arc].
        nodes: number of links of the ring.
        colour: receives the colour of each arc: [arc].
    """
    arcs = len(start)
    deadline = np.full(arcs, nodes, np.int64)
    free = np.full(nodes + 1, -1, np.int64)
    next_free = np.empty(arcs, np.int64)
    ending = np.full(nodes + 1, -1, np.int64)
    next_ending = np.empty(arcs, np.int64)
    used = 0
    for i in range(arcs):
        end = start[i] + length[i]
        if end > nodes:
            colour[i] = used
            deadline[used] = start[i]
            next_ending[i] = ending[end - nodes]
            ending[end - nodes] = i
            used += 1
    position = -1
    for i in order:
        end = start[i] + length[i]
        if end > nodes:
            continue
        while position < start[i]:
            position += 1
            j = ending[position]
            while j >= 0:
                c = colour[j]
                if deadline[c] > position:
                    next_free[c] = free[deadline[c]]
                    free[deadline[c]] = c
                j = next_ending[j]
        chosen = -1
        for d in range(end, nodes + 1):
            if free[d] >= 0:
                chosen = free[d]
                free[d] = next_free[chosen]
                break
        if chosen < 0:
            chosen = used
            used += 1
        colour[i] = chosen
        next_ending[i] = ending[end]
        ending[end] = i
    return used


@njit_cached
def reverse_circuits(pairs: RingPairs, capacity: int, counts: Ints, load: Ints) -> int:
    """Reverse circuits, one at a time, until no link carries more than ``capacity`` in a direction, while some change
    lowers the excess, each time that which lowers it most; return the excess left, summed over links and directions.

    ``pairs`` has the number of ranks on the ring, and of each pair its source, the links from there clockwise to its
    destination, and its bytes. ``counts`` [pair, direction] and ``load`` [direction, link], the circuits over each
    link, are changed in place. ``capacity`` is the number of circuits that a link can carry in one direction. A circuit
    in direction 1 (counter-clockwise) crosses the links that the same pair leaves out in direction 0.
    """
    nodes, source, ahead = pairs.nodes, pairs.source, pairs.ahead
    over = np.zeros((2, 2 * nodes + 1), np.int64)
    full = np.zeros((2, 2 * nodes + 1), np.int64)
    excess = 0
    for direction in range(2):
        for link in range(nodes):
            excess += max(0, load[direction, link] - capacity)
    while excess > 0:
        for direction in range(2):
            for k in range(2 * nodes):
                now = load[direction, k % nodes]
                over[direction, k + 1] = over[direction, k] + (now > capacity)
                full[direction, k + 1] = full[direction, k] + (now >= capacity)
        best, pair, old_direction = 0, -1, 0
        for p in range(len(source)):
            a, b, c = source[p], source[p] + ahead[p], source[p] + nodes
            if counts[p, 0] > 0:
                gain = over[0, b] - over[0, a] - (full[1, c] - full[1, b])
                if gain > best:
                    best, pair, old_direction = gain, p, 0
            if counts[p, 1] > 0:
                gain = over[1, c] - over[1, b] - (full[0, b] - full[0, a])
                if gain > best:
                    best, pair, old_direction = gain, p, 1
        if pair < 0:
            return excess
        excess -= best
        counts[pair, old_direction] -= 1
        counts[pair, 1 - old_direction] += 1
        step = 1 if old_direction == 0 else -1
        a, b, c = source[pair], source[pair] + ahead[pair], source[pair] + nodes
        for k in range(a, b):
            load[0, k % nodes] -= step
        for k in range(b, c):
            load[1, k % nodes] += step
    return excess


@njit_without_arrays
def occupy(direction: Ints, start: Ints, length: Ints, channel: Ints, nodes: int, taken: Ints) -> None:
    """Mark the channels of arcs as taken on all their links, in ``taken`` [direction, link, word] of 64 bits, one bit a
    channel; the other arrays are [arc]: direction, first link, number of links and channel of each. The ring has
    ``nodes`` links."""
    for i in range(len(start)):
        bit = np.uint64(1) << np.uint64(channel[i] % 64)
        for k in range(length[i]):
            taken[direction[i], (start[i] + k) % nodes, channel[i] // 64] |= bit


@njit_without_arrays
def first_free(direction: int, start: int, length: int, nodes: int, channels: int, taken: Ints) -> int:
    """Return the lowest of ``channels`` channels that is free on all ``length`` links of an arc from link ``start`` on,
    or -1, on a ring of ``nodes`` links; ``taken`` [direction, link, word] has one bit for each channel, 64 a word."""
    full = ~np.uint64(0)
    for word in range(taken.shape[2]):
        mask = np.uint64(0)
        for k in range(length):
            mask |= taken[direction, (start + k) % nodes, word]
            if mask == full:
                break
        if mask == full:
            continue
        bit = 0
        while (mask >> np.uint64(bit)) & np.uint64(1):
            bit += 1
        return word * 64 + bit if word * 64 + bit < channels else -1
    return -1


@njit_cached
def fill(pairs: RingPairs, channels: int, most: Ints, counts: Ints, taken: Ints) -> Ints:
    """Give free channels one at a time to the pair with the most bytes for each circuit, the added one counted, in its
    shorter direction first (clockwise if both are equal), until every pair has enough or finds none free in either;
    return pair, direction (0 clockwise) and channel of each new circuit, in the order given: [circuit, 3].

    Args:
        pairs: number of ranks on the ring, and of each pair its source, the links from there clockwise to its
            destination, and its bytes.
        channels: channels of a link in one direction.
        most: circuits in all with which a pair has enough: [pair].
        counts: circuits that each pair has, changed in place: [pair].
        taken: one bit for each channel, 64 a word, changed in place: [direction, link, word].
    """
    nodes, source, ahead, nbytes = pairs
    queue = [(-nbytes[p] / (counts[p] + 1), p) for p in range(len(source))]
    heapq.heapify(queue)
    circuits = [(0, 0, 0) for _ in range(0)]
    while len(queue):
        pair = queue[0][1]
        placed = False
        if counts[pair] < most[pair]:
            for attempt in range(2):
                direction = attempt if 2 * ahead[pair] <= nodes else 1 - attempt
                start = source[pair] if direction == 0 else (source[pair] + ahead[pair]) % nodes
                length = ahead[pair] if direction == 0 else nodes - ahead[pair]
                channel = first_free(direction, start, length, nodes, channels, taken)
                if channel >= 0:
                    bit = np.uint64(1) << np.uint64(channel % 64)
                    for k in range(length):
                        taken[direction, (start + k) % nodes, channel // 64] |= bit
                    circuits.append((pair, direction, channel))
                    placed = True
                    break
        if placed:
            counts[pair] += 1
            heapq.heapreplace(queue, (-nbytes[pair] / (counts[pair] + 1), pair))
        else:
            heapq.heappop(queue)
    result = np.empty((len(circuits), 3), np.int64)
    for i in range(len(circuits)):
        result[i, 0], result[i, 1], result[i, 2] = circuits[i]
    return result
