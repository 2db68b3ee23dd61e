"""Compiled list scheduling: who is sent what when, over any standing lightpaths.

What waits for a lightpath is a set of bits, one for each of its transmissions in the order of urgency, with one bit for
each word that is not empty in the level above.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, Lines, Transmissions, Trees
from lightloom.core.arrays import Column, Floats, Int32s, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays

# A compiled stable sort: NumPy's takes numba seconds to compile, wherever it is used.


@njit_without_arrays
def sort_stably(keys: Floats, order: Ints, scratch: Ints) -> None:
    """Write the order of keys to ``order``: indices by ascending key, equal keys in their order, by merging runs, O(n
    log n).

    Args:
        keys: [n] or longer.
        order: out, whose length is n: [n].
        scratch: [n] or longer.
    """
    count = len(order)
    for place in range(count):
        order[place] = place
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            left, right = low, middle
            for place in range(low, high):
                if left < middle and (right >= high or keys[order[left]] <= keys[order[right]]):
                    scratch[place] = order[left]
                    left += 1
                else:
                    scratch[place] = order[right]
                    right += 1
        for place in range(count):
            order[place] = scratch[place]
        width *= 2


@njit_cached
def list_schedule(queue: Int32s, delay: Floats, busy: Floats, sends: Transmissions, begin: Floats) -> float:
    """Return the seconds until the last arrival if every free queue sends, of the transmissions that wait for it, that
    with the longest path below.

    A tap is one rank that a lightpath reaches; a queue sends one transmission at a time, for all copies of a lightpath.

    Args:
        queue, delay: queue of each tap, and seconds from the start of a transmission until it arrives there: [tap].
        busy: seconds for which a transmission holds its queue: [queue].
        sends: receptions of trees, each released by the arrival of the one above it.
        begin: out, seconds at which each reception begins to be sent, unchanged at roots: [reception].
    """
    # Arrays as variables of their own: reading them out of a tuple in a loop takes time.
    tap, child, sibling, fellow = sends.tap, sends.child, sends.sibling, sends.fellow
    several = len(fellow) > 0
    path: Ints = np.full(len(tap), -1, np.int64)
    for reception in range(len(tap)):
        if tap[reception] >= 0:
            path[reception] = queue[tap[reception]]
    # First place of each queue, and place of each transmission in its queue.
    start, place = np.zeros(len(busy) + 1, np.int64), np.full(len(tap), -1, np.int32)
    ranked = _rank(path, sends, start, place)
    words = len(ranked) // 64 + 1
    low, high = np.zeros(words, np.uint64), np.zeros(words // 64 + 1, np.uint64)
    sending, marked = np.zeros(len(busy), np.bool_), np.zeros(len(busy), np.bool_)
    waiting, touched = np.zeros(len(busy), np.int64), np.empty(len(busy), np.int64)
    # Without copies, a lightpath's transmissions arrive in the order sent, so that only the first needs an event.
    last, following = np.full(len(busy), -1, np.int64), np.full(0 if several else len(tap), -1, np.int32)
    # An event is twice the reception that arrives, or twice the queue that is free, and 1.
    events = [(0.0, 2 * root) for root in sends.roots]
    end = 0.0
    while len(events):
        now, count = events[0][0], 0
        while len(events) and events[0][0] <= now + 1e-15:
            event = heapq.heappop(events)[1]
            if event & 1:
                which = event >> 1
                sending[which] = False
                if not marked[which]:
                    marked[which], touched[count] = True, which
                    count += 1
                continue
            end = max(end, now)
            cell = event >> 1
            if not several and path[cell] >= 0:
                behind = np.int64(following[cell])
                if behind >= 0:
                    heapq.heappush(events, (begin[behind] + delay[tap[behind]], 2 * behind))
                else:
                    last[path[cell]] = -1
            while cell >= 0:
                to = np.int64(child[cell])
                while to >= 0:
                    which = path[to]
                    let_wait(low, high, np.int64(place[to]))
                    waiting[which] += 1
                    if not marked[which]:
                        marked[which], touched[count] = True, which
                        count += 1
                    to = np.int64(sibling[to])
                cell = np.int64(fellow[cell]) if several else np.int64(-1)
                later = delay[tap[cell]] - delay[tap[event >> 1]] if cell >= 0 else 0.0
                if later > 0:
                    heapq.heappush(events, (now + later, 2 * cell))
                    break
        for k in range(count):
            which = touched[k]
            marked[which] = False
            if sending[which] or waiting[which] == 0:
                continue
            i = np.int64(ranked[take_most_urgent(low, high, start[which])])
            waiting[which] -= 1
            sending[which] = True
            heapq.heappush(events, (now + busy[which], 2 * which + 1))
            if several or last[which] < 0:
                heapq.heappush(events, (now + delay[tap[i]], 2 * i))
            else:
                following[last[which]] = i
            last[which] = i
            while i >= 0:
                begin[i] = now
                i = np.int64(fellow[i]) if several else np.int64(-1)
    return end


@njit_cached
def _rank(path: Ints, sends: Transmissions, start: Ints, place: Int32s) -> Int32s:
    """Return the transmissions of all queues, queue after queue and in each by urgency: the one with the longest path
    below first, and by number where they are equally urgent.

    Args:
        path: queue of each transmission, −1 at roots: [reception].
        sends: the receptions.
        start: zeros, out: first place of each queue: [queue + 1].
        place: −1 everywhere, out: place of each transmission that waits for another, by its first reception:
            [reception].

    Returns:
        First reception of the transmission at each place: [place].
    """
    for above in range(len(place)):
        to = sends.child[above]
        while to >= 0:
            place[to] = 0
            start[path[to] + 1] += 1
            to = sends.sibling[to]
    for which in range(len(start) - 1):
        start[which + 1] += start[which]
    ranked = np.empty(start[-1], np.int32)
    following = start[:-1].copy()
    for i in range(len(place)):
        if place[i] == 0:
            which = path[i]
            ranked[following[which]] = i
            following[which] += 1
    urgency, sent = np.empty(len(ranked)), ranked.copy()
    order, scratch = np.empty(len(ranked), np.int64), np.empty(len(ranked), np.int64)
    for which in range(len(start) - 1):
        first, count = start[which], start[which + 1] - start[which]
        for k in range(count):
            urgency[k] = -sends.left[sent[first + k]]
        sort_stably(urgency, order[:count], scratch)
        for k in range(count):
            ranked[first + k] = sent[first + order[k]]
    for k in range(len(ranked)):
        place[ranked[k]] = k
    return ranked


@njit_without_arrays
def let_wait(low: Column, high: Column, at: int) -> None:
    """Mark the transmission at place ``at`` as waiting, in place: set its bit in ``low`` (word at / 64, bit at modulo
    64) and the bit of that word in ``high`` (word at / 4096)."""
    low[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    high[at >> 12] |= np.uint64(1) << np.uint64((at >> 6) & 63)


@njit_without_arrays
def take_most_urgent(low: Column, high: Column, at: int) -> int:
    """Remove from the bit sets ``low`` and ``high``, laid out as :func:`let_wait` fills them, the first place, from
    ``at`` on, that waits, and return it; one must wait."""
    word = at >> 6
    bits = low[word] >> np.uint64(at & 63)
    if bits:
        at += _lowest(bits)
    else:
        word += 1
        group = word >> 6
        bits = high[group] >> np.uint64(word & 63)
        if bits:
            word += _lowest(bits)
        else:
            group += 1
            while high[group] == 0:
                group += 1
            word = (group << 6) + _lowest(high[group])
        at = (word << 6) + _lowest(low[word])
    low[word] &= ~(np.uint64(1) << np.uint64(at & 63))
    if low[word] == 0:
        high[word >> 6] &= ~(np.uint64(1) << np.uint64(word & 63))
    return at


@njit_without_arrays
def _lowest(word: int) -> int:
    """Return the place, from 0, of the lowest bit that is set in an unsigned 64-bit integer, found by halving; one must
    be set."""
    at = 0
    for k in range(5, -1, -1):
        half = np.uint64(1) << np.uint64(k)
        if word & ((np.uint64(1) << half) - np.uint64(1)) == 0:
            at += 1 << k
            word >>= half  # type: ignore[assignment]
    return at


# Compiled list scheduling of rows over paths of links: which goes first where several could.


class OrderedRows(NamedTuple):
    """Rows of a queued schedule in an order in which each comes after those that bring what it sends."""

    origin: Ints
    """Cell that a row reads: [row]."""
    target: Ints
    """Cell that a row writes: [row]."""
    reduces: Mask
    """True for rows that add to their target: [row]."""
    begins: Ints
    """First hop of each row: [row + 1]."""
    link: Ints
    """Link of each hop: [hop]."""
    busy: Floats
    """Seconds for which a chunk holds the link: [hop]."""
    delay: Floats
    """Seconds after its beginning at which the chunk may begin on the next link, or has arrived: [hop]."""


@njit_cached
def seconds_left(rows: OrderedRows, cells: int) -> Floats:
    """Return, for each row, its own seconds (the delays of all its hops) plus those of the longest chain of later rows
    that need its data, the first of which reads the cell that it writes: [row]. Waiting for links is not counted.

    Args:
        rows: in an order in which each comes after those that bring what it sends.
        cells: number of cells, each the place of one chunk at one rank.
    """
    left, after = np.zeros(len(rows.origin)), np.zeros(cells)
    for row in range(len(left) - 1, -1, -1):
        left[row] = after[rows.target[row]]
        for hop in range(rows.begins[row], rows.begins[row + 1]):
            left[row] += rows.delay[hop]
        after[rows.origin[row]] = max(after[rows.origin[row]], left[row])
    return left


_EQUAL = 1e-12
"""Relative difference below which two times are one."""


@njit_cached
def list_order(rows: OrderedRows, first: Ints, ranked: Ints, held: Mask, together: float, turn: Ints) -> float:
    """Choose the order of rows by list scheduling, and return the seconds until the last arrival.

    Every link, when it is free, sends the most urgent row that waits for it and need not wait for another link on its
    way. A row may begin once all rows that add to the cell it reads have arrived, and, unless it adds itself, once that
    cell holds data.

    Args:
        rows: every row can begin at some time; each crosses one link or more.
        first: first place in ``ranked`` of the rows that begin on each link: [link + 1].
        ranked: rows by the first link of their way, the most urgent first: [place].
        held: in and out, True where data lies in a cell (the place of one chunk at one rank): [cell].
        together: seconds by which a free link puts off its choice, so that more urgent rows that come by then take
            part; the row chosen still begins when the link was due.
        turn: out, place of each row, from 0, in the order in which they are sent: [row].
    """
    number, cells, links = len(rows.origin), len(held), len(first) - 1
    awaited, place = np.zeros(cells, np.int64), np.empty(number, np.int64)
    for row in range(number):
        place[ranked[row]] = row
        if rows.reduces[row]:
            awaited[rows.target[row]] += 1
    # Rows that wait for a cell, as lists, and those that wait for their first link, as bits.
    waiting, behind = np.full(cells, -1, np.int64), np.full(number, -1, np.int64)
    words = number // 64 + 1
    low, high = np.zeros(words, np.uint64), np.zeros(words // 64 + 1, np.uint64)
    # When a link chooses next, below 0 where nothing waits for it.
    free, due, ready = np.zeros(links), np.full(links, -1.0), np.zeros(links, np.int64)
    # An event is a row that may begin (0), or a link that is due to choose one (1).
    events = [(0.0, np.int64(0), np.int64(0))]
    events.pop()
    for row in range(number):
        cell = rows.origin[row]
        if awaited[cell] > 0 or not (rows.reduces[row] or held[cell]):
            behind[row] = waiting[cell]
            waiting[cell] = row
        else:
            heapq.heappush(events, (0.0, np.int64(0), np.int64(row)))
    arrived, sent = np.zeros(cells), 0
    while len(events):
        now, is_link, which = heapq.heappop(events)
        if not is_link:
            link = rows.link[rows.begins[which]]
            let_wait(low, high, place[which])
            ready[link] += 1
            if due[link] < 0:
                due[link] = max(now, free[link])
                heapq.heappush(events, (due[link] + together, np.int64(1), np.int64(link)))
            continue
        now, due[which] = due[which], -1.0
        chosen = np.int64(-1)
        while ready[which] > 0 and chosen < 0:
            chosen = ranked[take_most_urgent(low, high, first[which])]
            ready[which] -= 1
            later = _earliest(rows, chosen, now, free)
            if later > now * (1 + _EQUAL):
                heapq.heappush(events, (later, np.int64(0), chosen))
                chosen = np.int64(-1)
        if chosen < 0:
            continue
        arrives, to = _send(rows, chosen, now, free), rows.target[chosen]
        turn[chosen] = sent
        sent += 1
        if ready[which] > 0:
            due[which] = free[which]
            heapq.heappush(events, (free[which] + together, np.int64(1), which))
        arrived[to] = max(arrived[to], arrives)
        if rows.reduces[chosen]:
            awaited[to] -= 1
            if awaited[to] > 0:
                continue
        else:
            held[to] = True
        other, kept = waiting[to], np.int64(-1)
        while other >= 0:
            following = behind[other]
            if rows.reduces[other] or held[to]:
                heapq.heappush(events, (arrived[to], np.int64(0), other))
            else:
                behind[other] = kept
                kept = other
            other = following
        waiting[to] = kept
    return arrived.max()  # type: ignore[no-any-return]


@njit_without_arrays
def _earliest(rows: OrderedRows, row: int, ready: float, free: Floats) -> float:
    """Return the seconds, not before ``ready``, at which a row could begin so that every link on its way is free when
    it gets there, with no wait on the way; ``free`` has the seconds at which each link is free: [link]."""
    begin, way = ready, 0.0
    for hop in range(rows.begins[row], rows.begins[row + 1]):
        begin = max(begin, free[rows.link[hop]] - way)
        way += rows.delay[hop]
    return begin


@njit_without_arrays
def _send(rows: OrderedRows, row: int, ready: float, free: Floats) -> float:
    """Return the seconds at which a row that is sent from ``ready`` on has arrived, waiting for links that are busy,
    and set ``free`` [link] of each link on its way to the seconds at which the row has left it."""
    now = ready
    for hop in range(rows.begins[row], rows.begins[row + 1]):
        now = max(now, free[rows.link[hop]])
        free[rows.link[hop]] = now + rows.busy[hop]
        now += rows.delay[hop]
    return now


# Compiled loops over standing lightpaths: broadcast trees, their balance, and the receptions that they consist of.
#
# There is a tree for every piece of every root of one period. ``load`` counts the transmissions that pass a queue.

_TIE = 1e-13


class _Growth(NamedTuple):
    """Scratch of one growing tree."""

    root: int
    stamp: int
    """Number of the tree."""
    done: Mask
    """True for ranks whose arrival is final: [rank]."""
    run: Ints
    """Lightpaths of one line in a row up to each rank: [rank]."""
    sent: Ints
    """Tree in which a lightpath was last used: [lightpath]."""
    entry: Ints
    """Rank at which a line may begin: [line]."""


class _Balance(NamedTuple):
    """Scratch of balancing one tree."""

    below: Floats
    """Seconds of the longest path below: [rank]."""
    place: Ints
    """Place in the order of arrivals: [rank]."""
    served: Ints
    """Ranks that a lightpath serves: [lightpath]."""
    scratch: Ints
    """Room for sorting ranks: [rank]."""


@njit_cached
def grow(paths: Lightpaths, lines: Lines, walks: Ints, roots: Ints, trees: Trees, load: Floats) -> bool:
    """Grow a tree for every piece from every root, by which each rank receives as early as it can if nothing waits; of
    equal arrivals the lightpath is taken whose queue is less busy.

    Args:
        paths: lightpaths with their taps, the ranks that each reaches.
        lines: rules by which lightpaths follow each other; a line holds those of one length (a level) and direction.
        walks: ranks that a piece goes from the root at least, either way, before it enters lightpaths of the highest
            level: [piece].
        roots: ranks at which trees begin: [root].
        trees: out, tap by which each rank receives (−1 at the root), seconds of its arrival, and ranks in the order of
            arrivals: [piece, root, rank] each.
        load: in and out, transmissions in each queue, to which those of the trees are added: [queue].

    Returns:
        True if every rank is reached from every root; after False ``trees`` and ``load`` are incomplete.
    """
    pieces, period, ranks = trees.tap.shape
    done, run = np.zeros(ranks, np.bool_), np.zeros(ranks, np.int64)
    sent = np.full(_count(paths), -1, np.int64)
    entry = np.empty(len(lines.free), np.int64)
    for piece in range(pieces):
        for root in range(period):
            for line in range(len(entry)):
                highest = line // 2 == (len(entry) - 1) // 2 and line > 1
                entry[line] = -1
                if not lines.free[line]:
                    entry[line] = _first_hub(paths, lines, line, roots[root], walks[piece] if highest else 0)
            growth = _Growth(roots[root], piece * period + root, done, run, sent, entry)
            tree = Trees(trees.tap[piece, root], trees.arrival[piece, root], trees.order[piece, root])
            if not _grow_tree(paths, lines, growth, tree, load):
                return False
    return True


@njit_cached
def _count(paths: Lightpaths) -> int:
    """Return the number of lightpaths, one more than the largest number of a tap's lightpath; 0 without taps."""
    return paths.path.max() + 1 if len(paths.path) else 0


@njit_without_arrays
def _first_hub(paths: Lightpaths, lines: Lines, line: int, root: int, walk: int) -> int:
    """Return the first rank, at least ``walk`` ranks from the root in the line's direction, at which a lightpath of the
    line begins; −1 if none does.

    ``line`` is a number of ``lines.line``: even ones lead to higher ranks, odd ones to lower ranks, both around the
    ring.
    """
    ranks = len(paths.leaving) - 1
    step = 1 if line % 2 == 0 else -1
    rank = (root + step * walk) % ranks
    for _ in range(ranks):
        for tap in range(paths.leaving[rank], paths.leaving[rank + 1]):
            if lines.line[tap] == line:
                return rank
        rank = (rank + step) % ranks
    return -1


@njit_cached
def _grow_tree(paths: Lightpaths, lines: Lines, growth: _Growth, tree: Trees, load: Floats) -> bool:
    """Grow the tree of one root by earliest arrival, as Dijkstra's algorithm does, over lightpaths that the rules of
    lines allow; return False if some rank is not reached. Of equal arrivals the one over the less busy queue is taken.

    Taps, arrivals (1e300 seconds where not reached) and the order of ranks go to ``tree``, and each lightpath that is
    used adds 1 to its queue's ``load``; how busy a queue is is that load times its seconds of a transmission.
    ``growth`` has the root, the ranks at which lines may begin, and scratch.
    """
    done, arrival, came = growth.done, tree.arrival, tree.tap
    done[:] = False
    came[:] = -1
    arrival[:] = 1e300
    arrival[growth.root] = 0.0
    heap = [(0.0, growth.root)]
    count = 0
    while len(heap):
        at = heapq.heappop(heap)[1]
        if done[at]:
            continue
        done[at] = True
        tree.order[count] = at
        count += 1
        if came[at] >= 0 and growth.sent[paths.path[came[at]]] != growth.stamp:
            growth.sent[paths.path[came[at]]] = growth.stamp
            load[paths.queue[came[at]]] += 1.0
        length, seen = 0, -1
        for tap in range(paths.leaving[at], paths.leaving[at + 1]):
            to = paths.target[tap]
            if done[to]:
                continue
            if paths.path[tap] != seen:
                seen = paths.path[tap]
                length = 0 if lines.free[lines.line[tap]] else _run_length(lines, growth, at, came[at], tap)
            if length < 0:
                continue
            then = arrival[at] + paths.delay[tap]
            sooner = then < arrival[to] - _TIE
            if not sooner and then < arrival[to] + _TIE:
                queue, other = paths.queue[tap], paths.queue[came[to]]
                sooner = load[queue] * paths.busy[queue] < load[other] * paths.busy[other] - _TIE
            if sooner:
                arrival[to], came[to], growth.run[to] = then, tap, length
                heapq.heappush(heap, (then, np.int64(to)))  # type: ignore[misc]
    return count == len(done)


@njit_without_arrays
def _run_length(lines: Lines, growth: _Growth, at: int, came: int, tap: int) -> int:
    """Return the number of lightpaths of one line (those of one length and direction) that follow each other once
    ``tap`` is added to a path that reached rank ``at`` by tap ``came`` (−1 at the root).

    −1 where rules forbid it: a line goes on from the last tap of a lightpath only, begins at its rank of
    ``growth.entry`` or where a longer lightpath ends, has at most ``lines.longest`` lightpaths in a row, and on the
    highest level stops about opposite the root. ``growth`` also has the root and the run's length up to each rank.
    """
    line = lines.line[tap]
    before = lines.line[came] if came >= 0 else -1
    length = 1
    if before == line:
        if not lines.last[came]:
            return -1
        length = growth.run[at] + 1
    elif at != growth.entry[line] and not (before // 2 > line // 2 and (lines.last[came] or not lines.dense[before])):
        return -1
    if length > lines.longest[line]:
        return -1
    if line // 2 == (len(lines.free) - 1) // 2:
        # A line of the highest level ends near the opposite rank, where that of the other direction takes over.
        ranks, overhang = len(growth.done), lines.overhang[tap]
        ahead = at - growth.root if line % 2 == 0 else growth.root - at
        if 2 * ((ahead + overhang) % ranks) > ranks + overhang:
            return -1
    return length


@njit_cached
def rebalance(paths: Lightpaths, trees: Trees, load: Floats, deadline: float, sweeps: int) -> None:
    """Let ranks receive by other transmissions: by ones that exist anyway and have more receivers, or by new ones in
    less busy queues.

    Each tree is passed from the latest arrival backward, so that what hangs below a rank is settled; a parent arrives
    earlier than its child, and all below still arrives by the deadline. Ends early when nothing moves.

    Args:
        paths: lightpaths with their taps, the ranks that each reaches.
        trees: in and out, taps, arrivals and order of ranks: [piece, root, rank] each.
        load: in and out, transmissions in each queue: [queue].
        deadline: seconds from the root by which everything must arrive if nothing waits.
        sweeps: most rounds over all trees.
    """
    pieces, period, ranks = trees.tap.shape
    served = np.zeros(_count(paths), np.int64)
    balance = _Balance(np.empty(ranks), np.empty(ranks, np.int64), served, np.empty(ranks, np.int64))
    for _ in range(sweeps):
        moves = 0
        for piece in range(pieces):
            for root in range(period):
                tree = Trees(trees.tap[piece, root], trees.arrival[piece, root], trees.order[piece, root])
                moves += _rebalance_tree(paths, tree, load, balance, deadline)
        if moves == 0:
            break


@njit_without_arrays
def _rebalance_tree(paths: Lightpaths, tree: Trees, load: Floats, balance: _Balance, deadline: float) -> int:
    """Move ranks of one tree to better receptions (see :func:`_better_tap`), the latest arrival first, so that all
    still arrives by ``deadline`` in seconds, and return the number of moves.

    ``tree`` and ``load`` [queue], transmissions in each queue, are changed in place; ``balance`` is scratch.
    """
    below, served, moves = balance.below, balance.served, 0
    ranks = len(below)
    below[:] = 0.0
    for i in range(ranks):
        balance.place[tree.order[i]] = i
        if i:
            served[paths.path[tree.tap[tree.order[i]]]] += 1
    for i in range(ranks - 1, 0, -1):
        at = tree.order[i]
        tap = tree.tap[at]
        better = _better_tap(paths, tree, load, balance, deadline, at)
        if better >= 0:
            served[paths.path[tap]] -= 1
            if served[paths.path[tap]] == 0:
                load[paths.queue[tap]] -= 1.0
            if served[paths.path[better]] == 0:
                load[paths.queue[better]] += 1.0
            served[paths.path[better]] += 1
            tree.tap[at] = tap = better
            moves += 1
        parent = paths.origin[tap]
        below[parent] = max(below[parent], below[at] + paths.delay[tap])
    for i in range(1, ranks):
        at = tree.order[i]
        tap = tree.tap[at]
        served[paths.path[tap]] = 0
        tree.arrival[at] = tree.arrival[paths.origin[tap]] + paths.delay[tap]
    sort_stably(tree.arrival, balance.place, balance.scratch)
    for i in range(ranks):
        tree.order[i] = balance.place[i]
    return moves


@njit_without_arrays
def _better_tap(paths: Lightpaths, tree: Trees, load: Floats, balance: _Balance, deadline: float, at: int) -> int:
    """Return the tap (a lightpath's end at a rank) by which rank ``at`` had better receive, or −1 if none is better:
    one of the transmission with the most receivers, if they are more than those that its present one has besides
    ``at``; otherwise, if ``at`` is the only receiver of its present one, one whose queue would be less busy (load times
    seconds of a transmission).

    The rank that sends must come before ``at`` in the order of arrivals, and all below ``at`` still arrive in time.

    Args:
        load: transmissions in each queue: [queue].
        balance: what hangs below each rank, places in the order, and ranks that each lightpath serves.
        deadline: seconds by which everything must arrive.
    """
    tap = tree.tap[at]
    path, queue, best = paths.path[tap], paths.queue[tap], -1
    most = balance.served[path] - 1
    least = load[queue] * paths.busy[queue] if most == 0 else -1.0
    for k in range(paths.entering[at], paths.entering[at + 1]):
        other = paths.arriving[k]
        near, queue = paths.origin[other], paths.queue[other]
        if paths.path[other] == path or balance.place[near] >= balance.place[at]:
            continue
        fellows = balance.served[paths.path[other]]
        used = (load[queue] + 1) * paths.busy[queue]
        if fellows <= most and (fellows > 0 or used >= least - _TIE):
            continue
        if tree.arrival[near] + paths.delay[other] + balance.below[at] <= deadline:
            best = other
            if fellows > most:
                most, least = fellows, -1.0
            else:
                least = used
    return best


@njit_cached
def transmissions(paths: Lightpaths, tap: Int32s, order: Int32s) -> tuple[Int32s, Int32s, Int32s, Int32s, Floats, Ints]:
    """Return the receptions of trees as the fields of :class:`Transmissions`, in their order, for list scheduling.

    They are the tap of each reception, −1 at a root; the first reception that waits for it, and the next one that waits
    for the same, −1 for none, where of one transmission only the nearest reception is listed; the next farther one of
    the same transmission, −1 for none, empty where every lightpath has one tap; the seconds of the longest path below;
    and the receptions at the roots: [reception] each, but for the last.

    Reception (piece · roots + root) · ranks + rank is that of a rank in a tree.

    Args:
        tap: tap by which each rank receives, −1 at the root: [piece, root, rank].
        order: ranks in the order in which the piece arrives there, each after its parent: [piece, root, place].
    """
    pieces, period, ranks = tap.shape
    taps = tap.ravel()
    child, sibling = np.full(taps.size, -1, np.int32), np.full(taps.size, -1, np.int32)
    several = _count(paths) < len(paths.path)
    fellow = np.full(taps.size if several else 0, -1, np.int32)
    head = np.full(_count(paths) if several else 0, -1, np.int64)
    roots = np.empty(pieces * period, np.int64)
    hanging = Transmissions(taps, child, sibling, fellow, np.zeros(taps.size), roots)
    for tree in range(pieces * period):
        first = tree * ranks
        ranking, left = order[tree // period, tree % period], hanging.left[first : first + ranks]
        roots[tree] = first + ranking[0]
        for i in range(ranks - 1, 0, -1):
            at = ranking[i]
            by = taps[first + at]
            parent = paths.origin[by]
            left[parent] = max(left[parent], left[at] + paths.delay[by])
        if several:
            _join_fellows(paths, hanging, head, first, ranks)
        for cell in range(first, first + ranks):
            by = taps[cell]
            if by < 0 or (several and head[paths.path[by]] != cell):
                continue
            above = first + paths.origin[by]
            sibling[cell], child[above] = child[above], cell
    return taps, child, sibling, fellow, hanging.left, roots


@njit_without_arrays
def _join_fellows(paths: Lightpaths, hanging: Transmissions, head: Ints, first: int, ranks: int) -> None:
    """Chain the receptions of each transmission of one tree in ``fellow``, nearest first, and let the nearest one's
    ``left`` be the longest path below any of them.

    Args:
        hanging: receptions of all trees, changed in place.
        head: out, nearest reception of each lightpath's transmission in this tree, −1 where it has none: [lightpath].
        first: first reception of the tree.
        ranks: receptions of the tree.
    """
    taps, fellow, left = hanging.tap, hanging.fellow, hanging.left
    head[:] = -1
    for cell in range(first, first + ranks):
        if taps[cell] < 0:
            continue
        path = paths.path[taps[cell]]
        before, after = -1, head[path]
        while after >= 0 and taps[after] < taps[cell]:
            before, after = after, fellow[after]
        fellow[cell] = after
        if before < 0:
            head[path] = cell
        else:
            fellow[before] = cell
    for path in range(len(head)):
        nearest = head[path]
        cell = nearest
        while cell >= 0:
            later = paths.delay[taps[cell]] - paths.delay[taps[nearest]]
            left[nearest] = max(left[nearest], left[cell] + later)
            cell = fellow[cell]
