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
    rows: Any, step: Any, base: Any, start: Any, length: Any, period: Any, per_chunk: Any, load: Any, load_step: Any,
    result: Any,
) -> None:  # fmt: skip
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
    rows: Any, step: Any, key: Any, channel: Any, count: Any,
    base: Any, start: Any, length: Any, period: Any, channels: int, tuned: Any, changed: Any,
) -> bool:  # fmt: skip
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
