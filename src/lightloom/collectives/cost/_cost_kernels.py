"""Compiled loops of the cost models: what each step carries, and whether it finds its circuits in place."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True)
def lightpath_chunks(lightpath: Any, destination: Any, chunks: Any, first_row: Any) -> None:
    """Count the chunks on each lightpath; a multicast chunk counts once."""
    for row in range(len(lightpath)):
        path = lightpath[row]
        if first_row[path] < 0:
            first_row[path] = row
        if destination[row] == destination[first_row[path]]:
            chunks[path] += 1


@njit(cache=True)
def slowest(step: Any, lightpath: Any, chunks: Any, count: Any, latency: Any, per_chunk: float, result: Any) -> None:
    """Per step, the longest of ``chunks · per_chunk / count + latency`` over its rows."""
    for row in range(len(step)):
        time = chunks[lightpath[row]] * per_chunk / count[row] + latency[row]
        if time > result[step[row]]:
            result[step[row]] = time


@njit(cache=True)
def busiest(
    rows: Any,
    step: Any,
    base: Any,
    start: Any,
    length: Any,
    period: Any,
    per_chunk: Any,
    load: Any,
    load_step: Any,
    result: Any,
) -> None:
    """Per step, the longest any shared link needs; ``per_chunk`` [link] is seconds a chunk, rows come step by step."""
    for i in range(len(rows)):
        row = rows[i]
        now = step[row]
        for run in range(base.shape[1]):
            for k in range(length[i, run]):
                link = base[i, run] + (start[i, run] + k) % period[i, run]
                if load_step[link] != now:
                    load_step[link] = now
                    load[link] = 0.0
                load[link] += per_chunk[link]
                if load[link] > result[now]:
                    result[now] = load[link]


@njit(cache=True)
def changes(
    rows: Any,
    step: Any,
    key: Any,
    channel: Any,
    count: Any,
    base: Any,
    start: Any,
    length: Any,
    period: Any,
    channels: int,
    tuned: Any,
    changed: Any,
) -> bool:
    """Mark the steps that must change circuits; True if some channel ever has to serve a second circuit.

    A circuit stays until another needs one of its channels: ``tuned`` [link * channels] remembers the circuit of each.
    """
    overwritten = False
    for i in range(len(rows)):
        row = rows[i]
        if i > 0 and key[i] == key[i - 1] and step[row] == step[rows[i - 1]]:
            continue
        for run in range(base.shape[1]):
            for k in range(length[i, run]):
                link = base[i, run] + (start[i, run] + k) % period[i, run]
                cell = link * channels + channel[row]
                for c in range(cell, cell + count[row]):
                    if tuned[c] != key[i]:
                        overwritten = overwritten or tuned[c] != 0
                        tuned[c] = key[i]
                        changed[step[row]] = True
    return overwritten


@njit(cache=True)
def codec_work(
    rows: Any,
    step: Any,
    lightpath: Any,
    source: Any,
    destination: Any,
    chunk: Any,
    reduces: Any,
    chunks: int,
    in_line: bool,
    coded_as: Any,
    count: Any,
    encoded: Any,
    decoded: Any,
) -> None:
    """Per step, the most chunks that a rank encodes, and decodes; rows come step by step.

    ``coded_as`` [rank * chunks]: −1 where a rank holds a sum that was not encoded yet, −2 where it holds the bytes, and
    in line the last lightpath that took the chunk. ``count`` [2, ranks] is scratch.
    """
    begin = 0
    while begin < len(rows):
        end, now = begin, step[rows[begin]]
        while end < len(rows) and step[rows[end]] == now:
            end += 1
        count[:] = 0
        # What a step sends is what was held before it, so all sends come before all arrivals.
        for i in range(begin, end):
            row = rows[i]
            cell = source[row] * chunks + chunk[row]
            if in_line:
                if coded_as[cell] != lightpath[row]:
                    coded_as[cell] = lightpath[row]
                    count[0, source[row]] += 1
            elif coded_as[cell] == -1:
                coded_as[cell] = -2
                count[0, source[row]] += 1
                if not reduces[row]:
                    count[1, source[row]] += 1
        for i in range(begin, end):
            row = rows[i]
            count[1, destination[row]] += 1
            if not in_line:
                coded_as[destination[row] * chunks + chunk[row]] = -1 if reduces[row] else -2
        encoded[now], decoded[now] = count[0].max(), count[1].max()
        begin = end
