"""Compiled loops of the verifier: queued rows sent as soon as they can be, occupancy of links, replay of chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Column, Effort, Int32s, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays
from lightloom.machines.fabrics.derived import CellOrder, Footprint

OK, STUCK, TWICE, WRONG_END, AGAIN, WAITS, NOT_HELD, RACE, LOST, EMPTY, UNORDERED, INCOMPLETE = range(12)
"""Codes of what a replay found; ``verifier`` has the messages."""


class QueuedRows(NamedTuple):
    """Rows of a queued schedule; a cell is a rank of the first period and a chunk."""

    order: Ints
    """Rows by lightpath, and in the order of its queue."""
    place: Ints
    """Place in the order at which the queue of each lightpath begins: [lightpath + 1]."""
    origin: Ints
    """Cell that a row reads: [row]."""
    target: Ints
    """Cell that a row writes: [row]."""
    reduces: Mask
    """True where the row adds to its target: [row]."""


class _Cells(NamedTuple):
    """The contributions that cells hold: arrays [cell]."""

    parts: Ints
    """Contributions that are summed."""
    awaited: Ints
    """Sums that are still to arrive."""
    given: Mask
    """True where the parts have been sent on, so that the cell holds none until the complete chunk comes."""


@njit_cached
def replay(rows: QueuedRows, parts: Ints, complete: int, ends: Ints) -> tuple[int, int]:
    """Send every row of a queued schedule as soon as its lightpath's queue and its source allow, and return (code, what
    is wrong first).

    The code is ``OK``, ``STUCK`` (a row is never sent), ``TWICE``, ``AGAIN`` (both as in :func:`_send`) or
    ``WRONG_END``. The second is a row; the index in ``ends`` of a cell that is not complete, with ``WRONG_END``; or −1,
    with ``OK``.
    Rows of one multicast count one by one: none changes what the next one reads.

    Args:
        rows: rows by lightpath, each lightpath's in the order of its queue, with the cells that they read and write.
        parts: in and out, number of contributions that are summed in each cell, a chunk on a rank: [cell].
        complete: number of contributions of a complete chunk.
        ends: cells that must be complete in the end.
    """
    cells = _Cells(parts, np.zeros(len(parts), np.int64), np.zeros(len(parts), np.bool_))
    for row in range(len(rows.order)):
        if rows.reduces[row]:
            cells.awaited[rows.target[row]] += 1
    place, paths = rows.place, len(rows.place) - 1
    head = place[:-1].copy()
    # Lightpaths whose next row waits for a cell hang on that cell.
    waiting, behind = np.full(len(parts), -1, np.int64), np.full(paths, -1, np.int64)
    stack, top = np.arange(paths), paths
    while top > 0:
        top -= 1
        path = stack[top]
        while head[path] < place[path + 1]:
            row = rows.order[head[path]]
            code = _send(rows, cells, row, complete)
            if code == WAITS:
                behind[path] = waiting[rows.origin[row]]
                waiting[rows.origin[row]] = path
                break
            if code != OK:
                return code, row
            head[path] += 1
            woken = waiting[rows.target[row]]
            waiting[rows.target[row]] = -1
            while woken >= 0:
                stack[top] = woken
                top += 1
                woken = behind[woken]
    for path in range(paths):
        if head[path] < place[path + 1]:
            return STUCK, rows.order[head[path]]
    for i in range(len(ends)):
        if parts[ends[i]] != complete:
            return WRONG_END, i
    return OK, -1


@njit_without_arrays
def _send(rows: QueuedRows, cells: _Cells, row: int, complete: int) -> int:
    """Send one row of a queued schedule if it can be sent, and return ``OK``; otherwise change nothing and return a
    code.

    A row that stores needs a complete source cell (else ``WAITS``) and an empty target for which no sum is under way
    (else ``TWICE``). A row that adds waits (``WAITS``) until all sums have arrived at its source; it gives the source's
    parts away, which it may do once (else ``AGAIN``), and must not add to a cell that has given its own away
    (``TWICE``).

    Args:
        cells: what ranks hold of chunks, in and out.
        row: row number.
        complete: contributions of a complete chunk.
    """
    cell, to = rows.origin[row], rows.target[row]
    if not rows.reduces[row]:
        if cells.parts[cell] != complete or cells.awaited[cell] != 0:
            return WAITS
        if cells.parts[to] != 0 or cells.awaited[to] != 0:
            return TWICE
        cells.parts[to] = complete
        return OK
    if cells.given[cell]:
        return AGAIN
    if cells.awaited[cell] != 0:
        return WAITS
    if cells.given[to]:
        return TWICE
    cells.parts[to] += cells.parts[cell]
    cells.awaited[to] -= 1
    cells.parts[cell] = 0
    cells.given[cell] = True
    return OK


# Occupancy of links, and replay of every chunk of a schedule of steps.

_CARRIED, _TWICE, _DIFFERS, _LOST, _HELD, _MISSING = 1, 2, 4, 8, 16, 32
"""Bits of what is found of a send: it carries something; what arrives is there already, differs from what is there,
lacks some of it, meets something; and is not complete."""
_WORDS: Effort = 64
"""Words of 64 contributions that are replayed at once."""


class Transfers(NamedTuple):
    """The channels that rows occupy: arrays [row]."""

    lightpath: Column
    step: Int32s
    destination: Column
    channel: Int32s
    """fibre · wavelengths + wavelength, the first of ``width``."""
    width: Column


class Sends(NamedTuple):
    """Rows to replay, chunk by chunk and in each in an order in which the steps can run."""

    rows: Int32s
    first: Ints
    """Place of each chunk's first row in ``rows``: [chunk + 1]."""
    step: Int32s
    """Position of each row's step: [row]."""
    source: Column
    """Rank that sends each row: [row]."""
    destination: Column
    """Rank that receives each row: [row]."""
    reduces: Mask
    """True where the row adds at its destination: [row]."""


class _Copies(NamedTuple):
    """The contributions that every rank holds of one chunk while its sends are replayed."""

    state: Column
    """Contributions as bits: [rank, word]."""
    last_write: Int32s
    """Step of the last arrival, or −1: [rank]."""
    last_copy: Int32s
    """Step of the last arrival that was stored, or −1: [rank]."""
    head: Ints
    """Last send that read a rank since it was written to, or −1: [rank]."""
    carried: Column
    """Contributions that each send of a step carries: [send of the step, word]."""
    following: Ints
    """Send that read the same rank before, or −1: [send]."""
    found: Column
    """Bits of what was found of the contributions of each send: [send]."""
    complete: Column
    """All of the contributions that are replayed at once: [word]."""


@njit_without_arrays
def ordered(before: int, after: int, reach: Column) -> bool:
    """Return True if step ``before`` has ended when step ``after`` begins, or ``before`` is below 0, for none.

    ``reach`` says it of steps a and b in [a, b]; where it is empty steps run in their order.
    """
    if before < 0:
        return True
    if len(reach) == 0:
        return before < after
    return bool(reach[before, after])


@njit_without_arrays
def occupy(
    rows: Ints, transfers: Transfers, runs: Footprint, order: CellOrder, holder: Int32s, held: Int32s, reach: Column
) -> tuple[int, int, int, int]:
    """Mark every (link, channel) that the rows hold, one row after the other; return the first row with a clash as
    (row, link, channel, lightpath that holds it), −1 four times where there is none.

    Args:
        rows: row numbers, in an order in which their steps can run.
        transfers: lightpath, step, destination, first channel and number of channels of every row of the schedule.
        runs: links of the rows, in the order of ``rows``.
        order: distances in ``holder`` and ``held`` from a link to the next, and from a channel to the next.
        holder: in and out, lightpath that last held each channel of each link, −1: none.
        held: in and out, the step in which it did.
        reach: True where step a ends before step b begins: [a, b]; empty where steps follow each other.
    """
    lightpath, destination = transfers.lightpath, transfers.destination
    for i in range(len(rows)):
        row = rows[i]
        if i > 0 and lightpath[row] == lightpath[rows[i - 1]] and destination[row] == destination[rows[i - 1]]:
            continue
        path, step, width = lightpath[row], transfers.step[row], transfers.width[row]
        for run in range(runs.base.shape[1]):
            period, left = runs.period[i, run], runs.length[i, run]
            start = runs.start[i, run] % period
            while left > 0:
                # Links of a run follow each other up to the end of its track.
                span = min(left, period - start)
                first = (runs.base[i, run] + start) * order.link + transfers.channel[row] * order.channel
                lines, pitch, cells = (span, order.link, width) if order.channel == 1 else (width, order.channel, span)
                for line in range(lines):
                    begin = first + line * pitch
                    cell = _clash(begin, begin + cells, path, step, holder, held, reach)
                    if cell >= 0:
                        one, other = cell // pitch, cell % pitch
                        link, channel = (one, other) if order.channel == 1 else (other, one)
                        return row, link, channel, holder[cell]
                    for c in range(np.uint64(begin), np.uint64(begin + cells)):
                        holder[c] = path
                        held[c] = step
                left, start = left - span, 0
    return -1, -1, -1, -1


@njit_without_arrays
def _clash(begin: int, end: int, path: int, step: int, holder: Int32s, held: Int32s, reach: Column) -> int:
    """Return the first cell from ``begin`` to ``end``, excluded, that another lightpath than ``path`` holds in a step
    that need not end before ``step`` begins; −1 if there is none.

    ``holder`` and ``held`` are the lightpath that last held each cell, −1 for none, and its step; ``reach`` is 1 where
    step a ends before step b begins, [a, b], and empty where steps run in their order.
    """
    if len(reach) == 0:
        # Without a branch in the loop the processor compares several cells at once; unsigned, no index counts from
        # the end.
        clashes = np.uint64(0)
        for c in range(np.uint64(begin), np.uint64(end)):
            clashes |= np.uint64((holder[c] != path) & (held[c] >= step))
        if clashes == 0:
            return -1
    for c in range(begin, end):
        if holder[c] != path and holder[c] >= 0 and not ordered(held[c], step, reach):
            return c
    return -1


@njit_without_arrays
def first_blocked(runs: Footprint, channel: Ints, count: Ints, blocked: Mask) -> tuple[int, int, int]:
    """Return the first transfer over a channel that is ``blocked`` [link, channel], as (transfer, link, channel); −1
    three times where there is none.

    Args:
        runs: links of the transfers.
        channel, count: first channel of each transfer, and number of its channels: [transfer].
    """
    for i in range(len(channel)):
        for run in range(runs.base.shape[1]):
            for k in range(runs.length[i, run]):
                link = runs.base[i, run] + (runs.start[i, run] + k) % runs.period[i, run]
                for c in range(channel[i], channel[i] + count[i]):
                    if blocked[link, c]:
                        return i, link, c
    return -1, -1, -1


@njit_cached
def by_chunk(chunk: Column, rows: Ints, chunks: int) -> tuple[Int32s, Ints]:
    """Return the row numbers ``rows`` sorted by chunk, in their order where chunks are equal, and the place at which
    the rows of each chunk begin: [row] and [chunk + 1]. ``chunk`` is that of every row, by row number."""
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


class Lists(NamedTuple):
    """Lists of chunks that rows carry."""

    chunks: Int32s
    """Chunks of all lists: [entry]."""
    first: Int32s
    """Entry of each list's first chunk: [list]."""
    size: Int32s
    """Chunks of each list: [list]."""


@njit_cached
def count_listed(number: Column, lists: Lists, chunks: int) -> Ints:
    """Return the times that rows carry each chunk, [chunk]; ``number`` [row] is that of the list of chunks that each
    carries."""
    used, times = np.zeros(len(lists.first), np.int64), np.zeros(chunks, np.int64)
    for row in range(len(number)):
        used[number[row]] += 1
    for i in range(len(used)):
        if used[i]:
            for entry in range(lists.first[i], lists.first[i] + lists.size[i]):
                times[lists.chunks[entry]] += used[i]
    return times


@njit_cached
def by_listed_chunk(number: Column, rows: Ints, lists: Lists, first_chunk: int, begins: Ints) -> Int32s:
    """Return rows that carry lists of chunks, sorted by chunk as :func:`by_chunk` does, for the chunks from
    ``first_chunk`` on; a row comes once for each of these chunks.

    Args:
        number: number of each row's list: [row].
        rows: row numbers in the order that they keep where chunks are equal.
        lists: chunks of each list.
        first_chunk: first of the chunks that are wanted.
        begins: places at which the rows of each chunk begin, for as many chunks as are wanted: [chunk + 1].
    """
    position, some = begins[:-1].copy(), len(begins) - 1
    result = np.empty(begins[-1], np.int32)
    for row in rows:
        i = number[row]
        for entry in range(lists.first[i], lists.first[i] + lists.size[i]):
            place = lists.chunks[entry] - first_chunk
            if 0 <= place < some:
                result[position[place]] = row
                position[place] += 1
    return result


@njit_cached
def replay_gather(sends: Sends, owner: Ints, reader: Ints, ranks: int, reach: Column) -> tuple[int, int, int]:
    """Replay what only copies, chunk by chunk, and return (code, row or chunk, rank): ``OK`` and zeros, or what is
    wrong first and where: a chunk with ``WRONG_END``, else a row.

    ``owner`` [chunk] has a chunk at first, and ``reader`` [chunk] must end with it, every rank where that is −1. A rank
    receives each chunk at most once (else ``TWICE``), and passes it on (else ``NOT_HELD``) in steps that begin after
    that in which it came has ended (else ``UNORDERED``), as ``reach`` says of steps a and b in [a, b]; where that is
    empty steps run in their order, and ``NOT_HELD`` stands for both. The rank is the sender, with ``TWICE`` the
    receiver, and with ``WRONG_END`` the one that lacks the chunk. ``sends`` has the rows chunk by chunk, those of a
    chunk in an order in which the steps can run.
    """
    rows, first, step, source, destination = sends.rows, sends.first, sends.step, sends.source, sends.destination
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


@njit_cached
def replay_reduce(sends: Sends, reader: Ints, ranks: int, reach: Column, cut_through: int) -> tuple[int, int, int]:
    """Replay any collective in which every rank holds its own contribution at first, and return (code, row or chunk,
    rank): ``OK`` and zeros, or what is wrong first and where: a chunk with ``WRONG_END``, else a row.

    Codes of rows are ``EMPTY`` (nothing to send), ``TWICE`` (a contribution comes that is there), ``LOST`` (a sum is
    overwritten), ``INCOMPLETE`` (a part of the sum is stored over something), ``RACE`` (two sends of a step write one
    rank and do not both add) and ``UNORDERED`` (no dependency orders it after what wrote or read the chunk there); the
    rank is the one that sends or receives, whichever is at fault.

    Where steps follow each other, a chunk whose sends lead up a tree to its reader needs no replay (:func:`_climb`).
    Contributions are replayed some thousand at a time, so that memory grows with the ranks and not with their square.
    Sends of one step read what was there before the step; only rank ``cut_through`` (the switch, or -1) passes on what
    enters in the same step.

    Args:
        sends: rows chunk by chunk, those of a chunk in an order in which the steps can run.
        reader: rank that must end with all contributions, every rank where it is -1: [chunk].
        reach: whether step a ends before step b begins: [a, b]; empty where steps follow each other.
    """
    first, nodes = sends.first, ranks if cut_through < 0 else ranks + 1
    words = (ranks + 63) // 64
    width, longest = min(words, _WORDS), np.diff(first).max()
    copies = _Copies(
        np.empty((nodes, width), np.uint64),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int64),
        np.empty((longest, width), np.uint64),
        np.empty(longest, np.int64),
        np.empty(longest, np.uint8),
        np.empty(width, np.uint64),
    )
    gone, arrived = np.empty(ranks, np.bool_), np.empty(ranks, np.int64)
    for chunk in range(len(first) - 1):
        missing = -1
        if len(reach) == 0 and _climb(sends, first[chunk], first[chunk + 1], reader[chunk], gone, arrived):
            continue
        copies.found[:] = 0
        for word in range(0, words, width):
            copies.state[:] = 0
            copies.complete[:] = 0
            for rank in range(64 * word, min(64 * (word + width), ranks)):
                bit = np.uint64(1) << np.uint64(rank % 64)
                copies.state[rank, rank // 64 - word] = bit
                copies.complete[rank // 64 - word] |= bit
            copies.last_write[:] = -1
            copies.last_copy[:] = -1
            copies.head[:] = -1
            outcome: tuple[int, int, int] = _replay_chunk(
                sends, copies, first[chunk], first[chunk + 1], reach, cut_through, width == words
            )
            if outcome[0] != OK:
                return outcome
            begin, end = (0, ranks) if reader[chunk] < 0 else (reader[chunk], reader[chunk] + 1)
            for rank in range(begin, end):
                for w in range(width):
                    if missing < 0 and copies.state[rank, w] != copies.complete[w]:
                        missing = rank
        for send in range(first[chunk + 1] - first[chunk]):
            row = sends.rows[first[chunk] + send]
            code = _verdict(copies.found[send], sends.reduces[row])
            if code != OK:
                return code, row, sends.source[row] if code == EMPTY else sends.destination[row]
        if missing >= 0:
            return WRONG_END, chunk, missing
    return OK, 0, 0


@njit_without_arrays
def _climb(sends: Sends, begin: int, stop: int, reader: int, gone: Mask, arrived: Ints) -> bool:
    """Return True where the sends of a chunk, from ``begin`` to ``stop`` in ``sends.rows``, surely bring ``reader``
    every contribution once, and break no other promise; False where that is not so, or not seen here.

    It is so where all sends add, every rank but the reader sends once, after all steps in which something arrives
    there: then each contribution takes one way, over ever later steps, which ends at the reader.

    Args:
        gone: True for ranks that have sent, overwritten: [rank].
        arrived: last step in which something arrives at each rank, overwritten: [rank].
    """
    rows, step, source, destination, reduces = sends.rows, sends.step, sends.source, sends.destination, sends.reduces
    if reader < 0 or stop - begin != len(gone) - 1:
        return False
    gone[:] = False
    arrived[:] = -1
    for i in range(begin, stop):
        row = rows[i]
        at, to, now = source[row], destination[row], step[row]
        if max(at, to) >= len(gone) or at == reader or gone[at] or gone[to] or not reduces[row] or arrived[at] >= now:
            return False
        gone[at] = True
        arrived[to] = max(arrived[to], now)
    return True


@njit_without_arrays
def _replay_chunk(
    sends: Sends, copies: _Copies, begin: int, stop: int, reach: Column, cut_through: int, at_once: bool
) -> tuple[int, int, int]:
    """Replay the sends of one chunk, which lie from ``begin`` to ``stop`` in ``sends.rows``, and return (code, row,
    rank): ``OK`` and zeros, or what is wrong first and where.

    With ``at_once`` the contributions at hand are all there are, and the first send that breaks a promise ends it; else
    only what is wrong whatever is carried (``UNORDERED``, ``RACE``) ends it, and ``copies.found`` says of each send,
    counted from ``begin``, what was found of them.

    Args:
        copies: contributions that ranks hold, those at hand in ``state`` at first; changed in place.
        reach: True where step a ends before step b begins: [a, b]; empty where steps follow each other.
        cut_through: rank that passes on what enters in the same step, or −1.
    """
    # Arrays are taken out of the tuples once: numba counts the references of all of them at each call.
    rows, step, source, destination, reduces = sends.rows, sends.step, sends.source, sends.destination, sends.reduces
    state, carried, last_write, last_copy = copies.state, copies.carried, copies.last_write, copies.last_copy
    head, following, found, complete = copies.head, copies.following, copies.found, copies.complete
    i = begin
    while i < stop:
        j, now = i, step[rows[i]]
        through = source[rows[i]] == cut_through
        while j < stop and step[rows[j]] == now and (source[rows[j]] == cut_through) == through:
            at, send = source[rows[j]], j - begin
            if last_write[at] != now and not ordered(last_write[at], now, reach):
                return UNORDERED, rows[j], at
            found[send] |= _carry(state, at, carried, j - i)
            if at_once and found[send] == 0:
                return EMPTY, rows[j], at
            following[send], head[at] = head[at], send
            j += 1
        for k in range(i, j):
            row, at = rows[k], destination[rows[k]]
            if last_write[at] != now:
                if not ordered(last_write[at], now, reach):
                    return UNORDERED, row, at
                reader = head[at]
                while reader >= 0:
                    read_at = step[rows[begin + reader]]
                    if read_at != now and not ordered(read_at, now, reach):
                        return UNORDERED, row, at
                    reader = following[reader]
                head[at] = -1
            elif last_copy[at] == now or not reduces[row]:
                return RACE, row, at
            found[k - begin] |= _arrive(state, at, carried, k - i, reduces[row], complete)
            if at_once:
                code = _verdict(found[k - begin], reduces[row])
                if code != OK:
                    return code, row, at
            last_write[at] = now
            if not reduces[row]:
                last_copy[at] = now
        i = j
    return OK, 0, 0


@njit_without_arrays
def _carry(state: Column, at: int, carried: Column, send: int) -> int:
    """Copy the contributions that rank ``at`` holds, bits of 64-bit words, to row ``send`` of ``carried``; return
    ``_CARRIED`` if there is any, else 0."""
    held = np.uint64(0)
    for w in range(state.shape[1]):
        carried[send, w] = state[at, w]
        held |= state[at, w]
    return _CARRIED if held != 0 else 0


@njit_without_arrays
def _arrive(state: Column, at: int, carried: Column, send: int, adds: bool, complete: Column) -> int:
    """Add the contributions that a send carries, its row of ``carried`` [send, word], to those of rank ``at`` in
    ``state`` [rank, word], or store them there in their place, and return flags of what was found.

    The flags are ``_TWICE`` (some of what comes was there already), ``_DIFFERS`` (what comes is not what was there),
    ``_LOST`` (some of what was there does not come), ``_HELD`` (something was there) and ``_MISSING`` (what comes is
    not complete). No branch stops the loop over words.
    """
    twice, differs, lost, held, missing = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
    for w in range(state.shape[1]):
        have, come = state[at, w], carried[send, w]
        twice |= have & come
        differs |= have ^ come
        lost |= have & ~come
        held |= have
        missing |= come ^ complete[w]
        state[at, w] = have | come if adds else come
    found = _TWICE if twice != 0 else 0
    found |= _DIFFERS if differs != 0 else 0
    found |= _LOST if lost != 0 else 0
    found |= _HELD if held != 0 else 0
    return found | (_MISSING if missing != 0 else 0)


@njit_without_arrays
def _verdict(found: int, adds: bool) -> int:
    """Return the code of what is wrong with a send by the flags of what was found of it: ``EMPTY`` (it carries
    nothing), ``TWICE`` (it adds something that is there, or stores exactly what is there), ``LOST`` (it overwrites
    something that it does not bring), ``INCOMPLETE`` (it stores a part of the sum over something), or ``OK``.

    What is stored over something must be complete, so that every rank counts its own contribution from itself.

    Args:
        found: flags of all its contributions.
        adds: True for a send that adds at its destination.
    """
    if not found & _CARRIED:
        return EMPTY
    if adds:
        return TWICE if found & _TWICE else OK
    if not found & _DIFFERS:
        return TWICE
    if found & _LOST:
        return LOST
    return INCOMPLETE if found & _HELD and found & _MISSING else OK
