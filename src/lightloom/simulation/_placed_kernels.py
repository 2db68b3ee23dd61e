"""Compiled loops of placed steps: what is sent to whom, and the events.

Nodes are computing (on a device), hops (one parcel on one pipe) or neither (they only join what others wait for). Pipes
take turns where they leave one port and where they enter one: of the hops that could begin at a moment those go first
that have been ready longest, of equally long ones those to the nearest devices, counted upwards and around.
"""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Ints
from lightloom.core.kernels import njit_cached, njit_without_arrays
from lightloom.simulation._queue_kernels import pop, push
from lightloom.simulation.placed_state import Nodes, Ports, State

_NO_RESOURCE = -1
_ROUNDING = 1e-9
"""Share of a parcel below which the rest is round-off."""


@njit_cached
def parcels(parent_start: Ints, parent: Int32s, content: Ints, device: Ints, devices: int) -> tuple[Ints, Int32s, Ints]:
    """Gather the edges that cross devices: what one sub-operator sends to one device is sent once.

    Returns the parcel of every edge (−1 where none is needed), the reader of every edge, and for every parcel an edge
    that it stands for.
    """
    size = len(parent_start) - 1
    reader = np.empty(len(parent), np.int32)
    start = np.zeros(size + 1, np.int64)
    for x in range(size):
        for e in range(parent_start[x], parent_start[x + 1]):
            reader[e] = x
            start[parent[e] + 1] += 1
    for x in range(size):
        start[x + 1] += start[x]
    place = start[:-1].copy()
    leaving = np.empty(len(parent), np.int64)
    for e in range(len(parent)):
        leaving[place[parent[e]]] = e
        place[parent[e]] += 1
    parcel = np.full(len(parent), -1, np.int64)
    stands, before = np.empty(len(parent), np.int64), np.empty(len(parent), np.int64)
    latest, owner = np.empty(devices, np.int64), np.full(devices, -1, np.int64)
    count = 0
    for y in range(size):
        for i in range(start[y], start[y + 1]):
            e = leaving[i]
            to = device[reader[e]]
            if to == device[y]:
                continue
            if owner[to] != y:
                owner[to], latest[to] = y, -1
            p = latest[to]
            while p >= 0 and content[stands[p]] != content[e]:
                p = before[p]
            if p < 0:
                p = count
                stands[p], before[p], latest[to] = e, latest[to], p
                count += 1
            parcel[e] = p
    return parcel, reader, stands[:count].copy()


@njit_without_arrays
def _list_idle(state: State, at: int) -> None:
    if not state.listed[at]:
        state.listed[at] = True
        state.idle[state.counts[1]] = at
        state.counts[1] += 1


@njit_without_arrays
def _make_ready(nodes: Nodes, state: State, devices: int, node: int, now: float, until: float, rate: Floats) -> None:
    """Queue a node, or finish it and all after it that take no time."""
    stack, height = state.stack, 1
    stack[0] = node
    while height > 0:
        height -= 1
        x = np.int64(stack[height])
        state.ready[x] = now
        at = np.int64(nodes.resource[x])
        if at == _NO_RESOURCE:
            state.start[x] = state.piece[x] = state.end[x] = now
            state.counts[0] += 1
            # From the last to the first, since the last on the stack goes first.
            for i in range(nodes.first[x + 1] - 1, nodes.first[x] - 1, -1):
                y = nodes.follower[i]
                state.waits[y] -= 1
                if state.waits[y] == 0:
                    stack[height] = y
                    height += 1
            continue
        if at < devices:
            push(state, at, float(x), x)
        else:
            state.item[state.first_row[at] + state.head[at] + state.size[at]] = x
            state.size[at] += 1
            if rate[nodes.pipe[x]] == 0.0:
                state.totals[0] += until - now
        _list_idle(state, at)


@njit_without_arrays
def _finish(nodes: Nodes, state: State, devices: int, node: int, now: float, until: float, rate: Floats) -> None:
    """Make ready what waited only for a node that has ended and arrived."""
    state.counts[0] += 1
    for i in range(nodes.first[node], nodes.first[node + 1]):
        y = np.int64(nodes.follower[i])
        state.waits[y] -= 1
        if state.waits[y] == 0:
            _make_ready(nodes, state, devices, y, now, until, rate)


@njit_cached
def begin(nodes: Nodes, state: State, devices: int) -> None:
    """Queue at time 0 what waits for nothing."""
    dark = np.zeros(max(nodes.pipe.max(), 0) + 1)
    waiting = state.waits.copy()
    for x in range(len(waiting)):
        if waiting[x] == 0:
            _make_ready(nodes, state, devices, x, 0.0, 0.0, dark)


@njit_without_arrays
def _dispatch(nodes: Nodes, ports: Ports, state: State, devices: int, at: int, now: float, rate: Floats) -> None:
    """Begin what is first in the queue of an idle device or pipe, unless the pipe is dark or one of its ports busy."""
    events, hops = len(state.current), len(state.current) + 1
    if state.current[at] >= 0 or state.size[at] == 0:
        return
    if at < devices:
        x = pop(state, at)
        push(state, events, now + nodes.amount[x], x)
    else:
        x = np.int64(state.item[state.first_row[at] + state.head[at]])
        pipe = np.int64(nodes.pipe[x])
        speed = rate[pipe]
        if speed == 0.0 or state.busy[ports.leaves[pipe]] or state.busy[ports.enters[pipe]]:
            return
        state.busy[ports.leaves[pipe]] = state.busy[ports.enters[pipe]] = True
        state.head[at] += 1
        state.size[at] -= 1
        state.remaining[at] = nodes.amount[x]
        push(state, hops, now + nodes.amount[x] / speed, at)
    state.current[at] = x
    state.counts[2 if at < devices else 3] += 1
    state.start[x] = state.piece[x] = now


@njit_without_arrays
def _begin(nodes: Nodes, ports: Ports, state: State, devices: int, now: float, rate: Floats) -> None:
    """Begin what can begin at this moment on the resources that are listed."""
    waiting = len(state.current) + 2
    for i in range(state.counts[1]):
        at = np.int64(state.idle[i])
        state.listed[at] = False
        if at < devices or not ports.shared:
            _dispatch(nodes, ports, state, devices, at, now, rate)
        elif state.size[at] > 0 and not (
            state.busy[ports.leaves[at - devices]] or state.busy[ports.enters[at - devices]]
        ):
            ready = state.ready[state.item[state.first_row[at] + state.head[at]]]
            push(state, waiting, ready, ports.turn[at - devices])
    state.counts[1] = 0
    while state.size[waiting] > 0:
        pipe = np.int64(ports.pipe[pop(state, waiting)])
        _dispatch(nodes, ports, state, devices, devices + pipe, now, rate)


@njit_without_arrays
def _release(ports: Ports, state: State, devices: int, pipe: int) -> None:
    """List the pipes that a hop which has ended kept from sending."""
    for port in (ports.leaves[pipe], ports.enters[pipe]):
        state.busy[port] = False
        for i in range(ports.first[port], ports.first[port + 1]):
            at = devices + np.int64(ports.member[i])
            if state.size[at] > 0:
                _list_idle(state, at)


@njit_without_arrays
def _spend(state: State, seconds: float, dark: bool) -> None:
    """Add time to the total of what the step waits for."""
    if state.counts[2] > 0:
        state.totals[2] += seconds
    elif state.counts[3] > 0:
        state.totals[3] += seconds
    elif dark:
        state.totals[4] += seconds
    else:
        state.totals[5] += seconds


@njit_without_arrays
def advance(
    nodes: Nodes, ports: Ports, state: State, devices: int, span: tuple[float, float], rate: Floats, dark: bool
) -> bool:
    """Run from the start of ``span`` to its end while every pipe sends at its ``rate``; True when all is done.

    What happens at the end itself is left to the next call. Of events at one moment, ends of computing and arrivals
    come first, in the order of nodes, then ends of hops, in the order of pipes; only then does anything begin.
    """
    now, until = span
    resources = len(state.current)
    events, hops = resources, resources + 1
    _resume(nodes, state, devices, now, until, rate)
    while True:
        _begin(nodes, ports, state, devices, now, rate)
        soon = np.inf
        if state.size[events] > 0:
            soon = state.key[state.first_row[events]]
        if state.size[hops] > 0:
            soon = min(soon, state.key[state.first_row[hops]])
        if soon >= until:
            break
        _spend(state, soon - now, dark)
        now = soon
        state.totals[1] = max(state.totals[1], now)
        _end_computing(nodes, state, devices, now, until, rate)
        _end_hops(nodes, ports, state, devices, now, until, rate)
    if state.counts[0] == len(state.waits) or until == np.inf:
        return bool(state.counts[0] == len(state.waits))
    _spend(state, until - now, dark)
    for at in range(devices, resources):
        x = state.current[at]
        if x >= 0:
            state.remaining[at] -= rate[nodes.pipe[x]] * (until - state.piece[x])
            # Of what ends at ``until`` rounding may leave a rest, for which nothing should wait another hold.
            if state.remaining[at] <= _ROUNDING * nodes.amount[x]:
                state.remaining[at] = 0.0
    return False


@njit_without_arrays
def _resume(nodes: Nodes, state: State, devices: int, now: float, until: float, rate: Floats) -> None:
    """Time the hops under way at the new rates, and count the waiting of those whose pipe is dark until ``until``."""
    resources = len(state.current)
    hops = resources + 1
    state.size[hops] = 0
    state.counts[3] = 0
    for at in range(resources):
        _list_idle(state, at)
    for at in range(devices, resources):
        if state.current[at] >= 0:
            x = state.current[at]
            state.piece[x] = now
            if state.remaining[at] == 0.0:
                push(state, hops, now, at)
                state.counts[3] += 1
            elif rate[nodes.pipe[x]] > 0.0:
                push(state, hops, now + state.remaining[at] / rate[nodes.pipe[x]], at)
                state.counts[3] += 1
            else:
                state.totals[0] += until - now
        for i in range(state.size[at]):
            if rate[nodes.pipe[state.item[state.first_row[at] + state.head[at] + i]]] == 0.0:
                state.totals[0] += until - now


@njit_without_arrays
def _end_computing(nodes: Nodes, state: State, devices: int, now: float, until: float, rate: Floats) -> None:
    """End the computing, and take the arrivals, of this moment."""
    events = len(state.current)
    while state.size[events] > 0 and state.key[state.first_row[events]] == now:
        x = pop(state, events)
        at = np.int64(nodes.resource[x])
        if at < devices:
            state.end[x] = now
            state.current[at] = -1
            state.counts[2] -= 1
            _list_idle(state, at)
        _finish(nodes, state, devices, x, now, until, rate)


@njit_without_arrays
def _end_hops(nodes: Nodes, ports: Ports, state: State, devices: int, now: float, until: float, rate: Floats) -> None:
    """End the hops of this moment; what they carry arrives after their delay."""
    events, hops = len(state.current), len(state.current) + 1
    while state.size[hops] > 0 and state.key[state.first_row[hops]] == now:
        at = pop(state, hops)
        x = np.int64(state.current[at])
        state.end[x] = now
        state.current[at] = -1
        state.counts[3] -= 1
        _list_idle(state, at)
        _release(ports, state, devices, np.int64(nodes.pipe[x]))
        if nodes.delay[x] > 0.0:
            push(state, events, now + nodes.delay[x], x)
        else:
            _finish(nodes, state, devices, x, now, until, rate)
