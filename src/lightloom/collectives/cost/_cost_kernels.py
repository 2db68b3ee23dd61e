"""Compiled loops of the cost models: what each step carries, and whether it finds its circuits in place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Column, Floats, Int32s, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays
from lightloom.fabrics.footprint import CellOrder, Footprint


class Channels(NamedTuple):
    """The channels that rows use: arrays [row]."""

    step: Column
    first: Int32s
    width: Column
    new: Mask
    """Out: rows whose circuits are set up."""


class SentRows(NamedTuple):
    """Rows that send over circuits: arrays [row]."""

    step: Column
    lightpath: Column
    width: Column
    latency: Floats


class CodedRows(NamedTuple):
    """Rows whose chunks are encoded and decoded."""

    order: Ints
    """Rows in an order in which the steps can run."""
    step: Column
    """[row]."""
    lightpath: Column
    """[row]."""
    reads: Ints
    """Rank and chunk that a row sends, as a number: [row]."""
    writes: Ints
    """Rank and chunk that it reaches: [row]."""
    sender: Ints
    """Rank that encodes: [row]."""
    receiver: Ints
    """Rank that decodes: [row]."""
    reduces: Mask
    """[row]."""


@njit_without_arrays
def lightpath_chunks(lightpath: Column, destination: Column, carried: Int32s, chunks: Ints, first_row: Ints) -> None:
    """Count the chunks on each lightpath, of rows that carry so many; a multicast chunk counts once."""
    for row in range(len(lightpath)):
        path = lightpath[row]
        if first_row[path] < 0:
            first_row[path] = row
        if destination[row] == destination[first_row[path]]:
            chunks[path] += carried[row]


@njit_cached
def distinct_sends(rows: SentRows, chunks: Ints, steps: int) -> tuple[Int32s, Ints, Ints, Floats]:
    """Sends that differ in step, chunks or width, each with its longest latency: columns of ``CircuitLoads``.

    Args:
        rows: what is sent.
        chunks: chunks on each lightpath: [lightpath].
        steps: of the schedule.
    """
    step, lightpath, width, latency = rows.step, rows.lightpath, rows.width, rows.latency
    # Of each step, the sends so far as a list, the latest first.
    latest, following = np.full(steps, -1, np.int64), np.empty(len(step), np.int64)
    first_row, longest, count = np.empty(len(step), np.int64), np.empty(len(step), np.float64), 0
    for row in range(len(step)):
        send = latest[step[row]]
        while send >= 0:
            other = first_row[send]
            if chunks[lightpath[other]] == chunks[lightpath[row]] and width[other] == width[row]:
                break
            send = following[send]
        if send < 0:
            send, count = count, count + 1
            first_row[send], longest[send] = row, latency[row]
            following[send], latest[step[row]] = latest[step[row]], send
        longest[send] = max(longest[send], latency[row])
    one = first_row[:count]
    return step[one], chunks[lightpath[one]], width[one].astype(np.int64), longest[:count].copy()


@njit_without_arrays
def count_chunks(runs: Footprint, chunks: Ints, on_link: Ints, change: Ints) -> None:
    """Add the chunks of each transfer to the links that it crosses; runs of many links by their two ends.

    Args:
        runs: links of the transfers.
        chunks: of each transfer.
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
def most_chunks(on_link: Ints, change: Ints, link_class: Ints, most: Ints) -> None:
    """Raise ``most`` [class] to the most chunks on a link of each class, of what :func:`count_chunks` counted."""
    along = 0
    for link in range(len(on_link)):
        along += change[link]
        most[link_class[link]] = max(most[link_class[link]], on_link[link] + along)


@njit_without_arrays
def add_loads(runs: Footprint, chunks: Ints, load: Floats) -> int:
    """Add the chunks of each transfer to ``load`` [link] of the links that it crosses; return the sum of all."""
    crossings = 0
    for i in range(len(chunks)):
        for run in range(runs.base.shape[1]):
            crossings += runs.length[i, run] * chunks[i]
            for k in range(runs.length[i, run]):
                load[runs.base[i, run] + (runs.start[i, run] + k) % runs.period[i, run]] += chunks[i]
    return crossings


@njit_without_arrays
def changes(
    rows: Ints, key: Ints, used: Channels, runs: Footprint, order: CellOrder, tuned: Ints, changed: Mask
) -> bool:
    """Mark the steps that must change circuits; True if some channel ever has to serve a second circuit.

    A circuit stays until another needs one of its channels: ``tuned``, in the order of ``order``, remembers the circuit
    of each channel of each link.

    Args:
        key: number of each row's circuit, above zero, in the order of ``rows``.
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
    """Per step, the most chunks that a rank encodes, and decodes.

    Args:
        coded_as: −1 where a rank holds a sum that was not encoded yet, else a lightpath that brought or took the bytes,
            in line the last one that took them: [rank and chunk].
        count: scratch, [2, ranks].
        most: out, [2, steps].
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
