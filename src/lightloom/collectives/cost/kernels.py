"""Compiled loops of the cost models: tasks that run at once, loads of steps, changes of circuits, queued rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Column, Floats, Int32s, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays
from lightloom.machines.fabrics.derived import CellOrder, Footprint

_EQUAL = 1e-12
"""Relative difference below which two times are one."""


class TaskGraph(NamedTuple):
    """Tasks, what they wait for, and what they use."""

    waits: Ints
    """Tasks that each waits for; counted down: [task]."""
    first_follower: Ints
    """First entry of ``follower`` of each task: [task + 1]."""
    follower: Ints
    """Tasks that wait for each."""
    lead: Floats
    """Seconds before it uses anything: [task]."""
    alone: Floats
    """Seconds for which it uses resources where nothing else does: [task]."""
    tail: Floats
    """Seconds after that: [task]."""
    first_use: Ints
    """First entry of ``resource`` of each task: [task + 1]."""
    resource: Ints
    """Resource of each use: [use]."""
    busy: Floats
    """Seconds for which the task makes the resource busy, at most ``alone``: [use]."""


@njit_cached
def run_at_once(work: TaskGraph, resources: int, begin: Floats, end: Floats) -> None:
    """Compute when each task may begin and when it has ended, while tasks that use one resource at the same time share
    it max-min fairly.

    A task waits for others, takes its ``lead``, uses its resources for ``alone`` seconds, or longer where it shares
    them, and takes its ``tail``. Tasks that wait for each other in a circle never begin; their ``end`` is not set.

    Args:
        work: the tasks; ``waits`` is counted down.
        resources: number of resources.
        begin: out, 0 on entry: seconds at which the last task that this one waits for has ended: [task].
        end: out: seconds at which the task's tail has ended: [task].
    """
    tasks = len(work.alone)
    starts, running, ends = np.empty(tasks, np.int64), np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    when, left, speed = np.zeros(tasks), work.alone.copy(), np.zeros(tasks)
    used, rate = np.empty(resources), np.empty(resources)
    counts = np.zeros(3, np.int64)  # tasks that lead, run and tail
    for task in range(tasks):
        if work.waits[task] == 0:
            starts[counts[0]] = task
            counts[0] += 1
            when[task] = work.lead[task]
    now = 0.0
    while counts.sum() > 0:
        after = np.inf
        for i in range(counts[0]):
            after = min(after, when[starts[i]])
        for i in range(counts[2]):
            after = min(after, when[ends[i]])
        for i in range(counts[1]):
            after = min(after, now + left[running[i]] / speed[running[i]])
        near = after * _EQUAL
        kept = 0
        for i in range(counts[1]):
            task = running[i]
            left[task] -= (after - now) * speed[task]
            if left[task] <= max(work.alone[task] * _EQUAL, near * speed[task]):
                when[task] = after + work.tail[task]
                ends[counts[2]] = task
                counts[2] += 1
            else:
                running[kept] = task
                kept += 1
        counts[1] = kept
        now, kept = after, 0
        for i in range(counts[0]):
            task = starts[i]
            if when[task] > now + near:
                starts[kept] = task
                kept += 1
            elif work.alone[task] > 0:
                running[counts[1]] = task
                counts[1] += 1
            else:
                when[task] = now + work.tail[task]
                ends[counts[2]] = task
                counts[2] += 1
        counts[0], kept = kept, 0
        for i in range(counts[2]):
            task = ends[i]
            if when[task] > now + near:
                ends[kept] = task
                kept += 1
                continue
            end[task] = when[task]
            for k in range(work.first_follower[task], work.first_follower[task + 1]):
                waiting = work.follower[k]
                begin[waiting] = max(begin[waiting], end[task])
                work.waits[waiting] -= 1
                if work.waits[waiting] == 0:
                    when[waiting] = begin[waiting] + work.lead[waiting]
                    starts[counts[0]] = waiting
                    counts[0] += 1
        counts[2] = kept
        _speeds(work, running[: counts[1]], speed, used, rate)


@njit_cached
def _speeds(work: TaskGraph, running: Ints, speed: Floats, used: Floats, rate: Floats) -> None:
    """Compute max-min fair speeds of the tasks that run: 1 is the speed of a task that shares nothing, and the highest.

    Args:
        running: numbers of the tasks that run.
        speed: out; entries of other tasks are left as they are: [task].
        used, rate: scratch: the share of each resource that is taken, 0 to 1, and the share that tasks without a speed
            yet would add to it for each unit of speed: [resource].
    """
    used[:] = 0.0
    fixed: Mask = np.zeros(len(running), np.bool_)
    left = len(running)
    while left > 0:
        rate[:] = 0.0
        for i in range(len(running)):
            if not fixed[i]:
                for k in range(work.first_use[running[i]], work.first_use[running[i] + 1]):
                    rate[work.resource[k]] += work.busy[k] / work.alone[running[i]]
        level = 1.0
        for resource in range(len(used)):
            if rate[resource] > 0:
                level = min(level, (1.0 - used[resource]) / rate[resource])
        for i in range(len(running)):
            if fixed[i]:
                continue
            task, full = running[i], level >= 1.0
            for k in range(work.first_use[task], work.first_use[task + 1]):
                resource = work.resource[k]
                if rate[resource] * level >= (1.0 - used[resource]) * (1.0 - _EQUAL):
                    full = True
            if full:
                fixed[i] = True
                speed[task] = level
                left -= 1
        _take(work, running, fixed, speed, used)


@njit_without_arrays
def _take(work: TaskGraph, running: Ints, fixed: Mask, speed: Floats, used: Floats) -> None:
    """Compute the share of each resource that running tasks with a fixed speed take: speed times busy seconds over
    ``alone``, summed; other tasks are left out.

    Args:
        running: numbers of the tasks that run.
        fixed: True where the speed is fixed, in the order of ``running``.
        speed: speed of each task, 1 where it shares nothing: [task].
        used: out: [resource].
    """
    used[:] = 0.0
    for i in range(len(running)):
        if fixed[i]:
            for k in range(work.first_use[running[i]], work.first_use[running[i] + 1]):
                used[work.resource[k]] += speed[running[i]] * work.busy[k] / work.alone[running[i]]


# Compiled loops of the cost models: what each step carries, and whether it finds its circuits in place.


class Channels(NamedTuple):
    """The channels that rows use: arrays [row]."""

    step: Column
    first: Int32s
    width: Column
    new: Mask
    """Out: rows whose circuits are set up."""


class CodedRows(NamedTuple):
    """Rows whose chunks are encoded and decoded."""

    order: Ints
    """Rows in an order in which the steps can run."""
    step: Column
    """Step of each row: [row]."""
    lightpath: Column
    """Lightpath of each row: [row]."""
    reads: Ints
    """Rank and chunk that a row sends, as a number: [row]."""
    writes: Ints
    """Rank and chunk that it reaches: [row]."""
    sender: Ints
    """Rank that encodes: [row]."""
    receiver: Ints
    """Rank that decodes: [row]."""
    reduces: Mask
    """True where the row adds at its destination: [row]."""


@njit_without_arrays
def count_chunks(runs: Footprint, chunks: Ints, on_link: Ints, change: Ints) -> None:
    """Add the chunks of each transfer to the links that it crosses: to ``on_link`` in runs of up to two links and in
    those that go around their track more than once, to the two ends of other runs in ``change``.

    A link's chunks are then ``on_link`` plus the running sum of ``change``.

    Args:
        runs: links of the transfers.
        chunks: of each transfer: [transfer].
        on_link: in and out, chunks on single links: [link].
        change: in and out, chunks more on a link than on the one before, beside ``on_link``: [link + 1].
    """
    for i in range(len(chunks)):
        for run in range(runs.base.shape[1]):
            length, period = runs.length[i, run], runs.period[i, run]
            base, start = runs.base[i, run], runs.start[i, run] % period
            if length <= 2 or length > period:
                for k in range(length):
                    on_link[base + (start + k) % period] += chunks[i]
                continue
            change[base + start] += chunks[i]
            if start + length <= period:
                change[base + start + length] -= chunks[i]
            else:
                change[base + period] -= chunks[i]
                change[base] += chunks[i]
                change[base + start + length - period] -= chunks[i]


@njit_without_arrays
def changes(
    rows: Ints, key: Ints, used: Channels, runs: Footprint, order: CellOrder, tuned: Ints, changed: Mask
) -> bool:
    """Mark the steps that must set up or change circuits; return True if some channel ever has to serve a second
    circuit.

    A circuit stays until another needs one of its channels: ``tuned``, in the order of ``order``, remembers the circuit
    of each channel of each link.

    Args:
        rows: in the order of their steps.
        key: number of each row's circuit, above zero, in the order of ``rows``.
        used: channels of the rows; ``used.new`` is set for rows that set circuits up, of rows of one step and circuit
            that follow each other only for the first.
        runs: links of the rows, in the order of ``rows``.
        order: distances in ``tuned`` from a link to the next, and from a channel to the next.
        tuned: in and out, number of the circuit that each channel of each link serves, 0 where there is none: [cell].
        changed: out, set to True for such steps, else left: [step].
    """
    step, overwritten = used.step, False
    for i in range(len(rows)):
        row = rows[i]
        if i > 0 and key[i] == key[i - 1] and step[row] == step[rows[i - 1]]:
            continue
        circuit, width = key[i], used.width[row]
        # Without a branch in the loop the processor compares several cells at once; unsigned, no index counts from
        # the end.
        others, empty = np.uint64(0), np.uint64(0)
        for run in range(runs.base.shape[1]):
            period, left = runs.period[i, run], runs.length[i, run]
            start = runs.start[i, run] % period
            while left > 0:
                # Links of a run follow each other up to the end of its track.
                span = min(left, period - start)
                first = (runs.base[i, run] + start) * order.link + used.first[row] * order.channel
                lines, pitch, cells = (span, order.link, width) if order.channel == 1 else (width, order.channel, span)
                for line in range(lines):
                    begin = first + line * pitch
                    for c in range(np.uint64(begin), np.uint64(begin + cells)):
                        others += np.uint64(tuned[c] != circuit)
                        empty += np.uint64(tuned[c] == 0)
                        tuned[c] = circuit
                left, start = left - span, 0
        if others > 0:
            changed[step[row]] = True
            used.new[row] = True
            if others > empty:
                overwritten = True
    return overwritten


@njit_cached
def codec_work(rows: CodedRows, in_line: bool, coded_as: Int32s, count: Ints, most: Ints) -> None:
    """Count the most chunks that a rank encodes, and decodes, in each step.

    Args:
        rows: rows whose chunks are coded, in an order in which the steps can run, with the number of what each reads
            and writes, a rank and chunk, and the ranks that encode and decode.
        in_line: True: a chunk that leaves is encoded once for each lightpath, and every one that arrives is decoded.
            False: a rank encodes a chunk only where its sum has changed since, and then decodes it itself too if the
            row stores; it decodes all that arrives.
        coded_as: in and out, −1 where a rank holds a sum that was not encoded yet, else a lightpath that brought or
            took the bytes, in line the last one that took them: [rank and chunk].
        count: scratch, [2, ranks].
        most: out, in row 0 the most chunks that any rank encodes and in row 1 the most that any decodes, perhaps
            another rank; steps without rows are left as they are: [2, steps].
    """
    order, sender, receiver = rows.order, rows.sender, rows.receiver
    begin = 0
    while begin < len(order):
        end, now = begin, rows.step[order[begin]]
        while end < len(order) and rows.step[order[end]] == now:
            end += 1
        count[:] = 0
        # What a step sends is what was held before it, so all sends come before all arrivals.
        for i in range(begin, end):
            row = order[i]
            cell, path = rows.reads[row], rows.lightpath[row]
            if coded_as[cell] < 0 or (in_line and coded_as[cell] != path):
                coded_as[cell] = path
                count[0, sender[row]] += 1
                if not (in_line or rows.reduces[row]):
                    count[1, sender[row]] += 1
        for i in range(begin, end):
            row = order[i]
            count[1, receiver[row]] += 1
            if not in_line:
                coded_as[rows.writes[row]] = -1 if rows.reduces[row] else rows.lightpath[row]
        most[0, now], most[1, now] = count[0].max(), count[1].max()
        begin = end


# Compiled loops of the queued cost model: when every row is sent, and when each rank in turn is late or slow.


class PlayedRows(NamedTuple):
    """Rows of a queued schedule with their times; a cell is a chunk in a rank."""

    order: Ints
    """Rows by lightpath, and in the order of its queue; to straggle, each after all that it waits for."""
    lightpath: Column
    """Lightpath, or link, that each row holds: [row]."""
    follows: Mask
    """True where the row at a place of the order is of the same transmission as the one before it: [place]."""
    origin: Ints
    """Cell that a row reads: [row]."""
    target: Ints
    """Cell that a row writes: [row]."""
    reduces: Mask
    """True where the row adds to its target: [row]."""
    busy: Floats
    """Seconds for which a chunk holds its lightpath: [row]."""
    delay: Floats
    """Seconds after which it arrives: [row]."""


@njit_cached
def play_rows(rows: PlayedRows, place: Ints, held: Mask, begin: Floats) -> tuple[float, float]:
    """Return the seconds until the last arrival, and those of them in which the chain of rows that leads to it holds
    lightpaths; verified schedules only.

    Args:
        rows: rows by lightpath, each lightpath's in the order of its queue, with the cells that they read and write,
            the seconds that they hold the lightpath and those after which they arrive; a row begins when its lightpath
            is free, all sums into the cell that it reads have arrived and, unless it reduces, that cell holds data; one
            that follows in the same transmission begins together with it.
        place: of the first row of each lightpath in the order: [lightpath + 1].
        held: in and out, whether data lies in a cell; rows that do not reduce set it where they arrive: [cell].
        begin: out, seconds at which each row begins: [row].
    """
    cells, order = len(held), rows.order
    # Moments, and the seconds of sending on the way to each.
    ready, awaited = np.zeros((cells, 2)), np.zeros(cells, np.int32)
    for row in range(len(order)):
        if rows.reduces[row]:
            awaited[rows.target[row]] += 1
    paths = len(place) - 1
    head, free, since = place[:-1].copy(), np.zeros((paths, 2)), np.zeros(paths)
    waiting, behind = np.full(cells, -1, np.int32), np.full(paths, -1, np.int32)
    stack, top = np.arange(paths), paths
    end = sending = 0.0
    while top > 0:
        top -= 1
        path = stack[top]
        # What a path goes on with is kept at hand while it sends: nothing else changes it meanwhile.
        at, last = head[path], place[path + 1]
        free_from, free_sent, since_start = free[path, 0], free[path, 1], since[path]
        while at < last:
            row = order[at]
            cell, to, reduces = rows.origin[row], rows.target[row], rows.reduces[row]
            if awaited[cell] > 0 or not (reduces or held[cell]):
                behind[path] = waiting[cell]
                waiting[cell] = path
                break
            busy = rows.busy[row]
            if rows.follows[at]:
                start = begin[order[at - 1]]
            else:
                if free_from >= ready[cell, 0]:
                    start, since_start = free_from, free_sent
                else:
                    start, since_start = ready[cell, 0], ready[cell, 1]
                free_from, free_sent = start + busy, since_start + busy
            begin[row] = start
            at += 1
            arrives, sent = start + rows.delay[row], since_start + busy
            if arrives > end:
                end, sending = arrives, sent
            if not reduces or arrives > ready[to, 0]:
                ready[to, 0], ready[to, 1] = arrives, sent
            if reduces:
                awaited[to] -= 1
            else:
                held[to] = True
            woken, waiting[to] = waiting[to], -1
            while woken >= 0:
                stack[top] = woken
                top += 1
                woken = behind[woken]
        head[path], free[path, 0], free[path, 1], since[path] = at, free_from, free_sent, since_start
    return end, sending


@njit_cached
def straggle(
    rows: PlayedRows, source: Column, cells: int, stragglers: Ints, late: float, slower: float, end: Floats
) -> None:
    """Compute the seconds until the last arrival if one rank sends nothing before ``late``, and holds lightpaths longer
    (so that chunks arrive later by as much), for each rank that straggles in turn.

    Args:
        rows: in an order in which each comes after all that it waits for.
        source: rank that sends a row: [row].
        cells: number of cells, each a chunk at a rank.
        stragglers: the ranks; −1 for a run in which none straggles: [straggler].
        late: seconds from the start of the schedule.
        slower: times longer that the rank holds lightpaths.
        end: out, [straggler].
    """
    paths = rows.lightpath.max() + 1
    for i in range(len(stragglers)):
        free, ready = np.zeros(paths), np.zeros(cells)
        begin, last = 0.0, 0.0
        for place in range(len(rows.order)):
            row = rows.order[place]
            path, to = rows.lightpath[row], rows.target[row]
            straggles = source[row] == stragglers[i]
            more = rows.busy[row] * (slower - 1) if straggles else 0.0
            if not rows.follows[place]:
                begin = max(free[path], ready[rows.origin[row]])
                if straggles:
                    begin = max(begin, late)
                free[path] = begin + rows.busy[row] + more
            arrives = begin + rows.delay[row] + more
            ready[to] = max(ready[to], arrives)
            last = max(last, arrives)
        end[i] = last
