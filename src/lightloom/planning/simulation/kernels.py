"""Compiled loop of a pipelined step: when each stage ends, and what it waits for.

A stage runs its passes in the order of ``parallelism.plan.one_forward_one_backward``, each once its
input has arrived; a link carries the outputs of a stage in the order in which they are computed. These are the tasks of
:func:`~lightloom.planning.simulation.pipelined.lower_pipelined` without the objects.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Ints
from lightloom.core.kernels import njit_cached, njit_without_arrays
from lightloom.planning.simulation.placed_state import Holds, Nodes, Ports, State, Stretches

FORWARD, BACKWARD = 0, 1
"""Directions of a pass."""
START, PASSES, LEAD, LAST, GRADIENTS, TAIL, WAITS_FOR_SEND, EXCHANGE, TIED = range(9)
"""Rows of the turns of a circuit switch (``SwitchTurns``)."""


@njit_cached
def play(
    passes: Floats, send: Floats, reduction: Floats, gather: Floats, closing: Floats, turns: Floats, micro_batches: int
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Play the 1F1B passes of all stages, and return five arrays [stages]: the second, from the start of the step, at
    which each stage has updated its parameters, and its seconds until then of waiting for inputs that are under way, of
    waiting for other stages, of the gradient exchanges of ``reduction`` that outlast its passes, and of waiting for a
    circuit switch that is set anew. The sends of a stage to another one follow each other.

    Args:
        passes: seconds of a pass by direction (forward 0), by whether it is that of the last micro-batch, and by chunk:
            [2, 2, chunks]. Chunk c belongs to stage c mod stages.
        send: seconds from the chunk before a chunk, or back to it, by whether the micro-batch is the last: [2, chunks];
            nothing is sent to or from before the first chunk.
        reduction: of the gradients of each chunk, seconds before the end of its last backward pass from which they are
            exchanged, of the exchange from then on, and of that after the pass: [3, chunks].
        gather: seconds before the first pass of a stage: [stages].
        closing: seconds after its last pass, of the exchange of gradients, of the sums over tied tables, which all
            stages with such seconds begin together, and of the optimizer: [3, stages].
        turns: seconds of turns of a circuit switch, a row for each field of ``SwitchTurns`` (start, passes, lead, last,
            gradients, tail, waits_for_send, exchange, tied, update): [10, stages]; all 0 where circuits stand.
        micro_batches: micro-batches of the step; a multiple of the stages where these are interleaved.

    Raises:
        RuntimeError: stages wait for each other.
    """
    stages, chunks = len(gather), passes.shape[2]
    total = micro_batches * (chunks // stages)
    left, arrived = _inputs(chunks, micro_batches)
    free = np.zeros((stages, stages))
    # From when on circuits for the passes stand, and what the first pass, which begins with computing, waits for them.
    stands = turns[START] + gather + turns[PASSES]
    late = np.maximum(turns[PASSES] - turns[LEAD], 0.0)
    clock, done = turns[START] + gather + late, np.zeros(stages, np.int64)
    sending, waiting, network = np.zeros(stages), np.zeros(stages), np.zeros(stages)
    # The network's end if the switch took no time, and that of the last send where planes of the pipeline turn.
    still, sent, turning = np.zeros(stages), np.zeros(stages), turns[START] + late
    remaining, sweep = 2 * total * stages, 0
    while remaining:
        before = remaining
        for place in range(stages):
            # Activations travel down the stages, gradients up.
            stage = place if sweep % 2 == 0 else stages - 1 - place
            while done[stage] < 2 * total:
                direction, chunk, micro = _pass(done[stage], stage, stages, total, chunks // stages)
                ready = arrived[direction, chunk, micro]
                if ready == np.inf:
                    break
                if ready > clock[stage]:
                    travelling = ready - max(clock[stage], left[direction, chunk, micro])
                    sending[stage] += travelling
                    waiting[stage] += ready - clock[stage] - travelling
                    clock[stage] = ready
                last = 1 if micro == micro_batches - 1 else 0
                begin = clock[stage]
                clock[stage] += passes[direction, last, chunk]
                target, gone = chunk + 1 if direction == FORWARD else chunk - 1, clock[stage] - turns[TAIL, stage]
                if 0 <= target < chunks:
                    left[direction, target, micro] = clock[stage]
                    end = max(clock[stage], free[stage, target % stages], stands[target % stages])
                    end += send[last, max(chunk, target)]
                    free[stage, target % stages] = end
                    arrived[direction, target, micro] = end
                    if turns[WAITS_FOR_SEND, stage] > 0:
                        gone = max(gone, end)
                        if direction == BACKWARD and last and chunk < stages:
                            sent[stage] = end
                if direction == BACKWARD and last and reduction[1, chunk] + reduction[2, chunk] > 0:
                    network[stage], still[stage] = _exchange_gradients(
                        (network[stage], still[stage]),
                        (begin, clock[stage], gone),
                        reduction[:, chunk],
                        turns[:, stage],
                        chunks == stages,
                    )
                done[stage] += 1
                remaining -= 1
        if remaining == before:
            raise RuntimeError("stages wait for each other")
        sweep += 1
    exchanging = np.maximum(still - clock, 0.0)
    ends = np.maximum(np.maximum(network, clock), sent)
    turning += ends - clock - exchanging + turns[EXCHANGE]
    ends += turns[EXCHANGE] + closing[0]
    _sum_tied_tables(ends, waiting, turning, closing[1], turns[TIED])
    return ends + closing[2], sending, waiting, exchanging, turning


@njit_cached
def _inputs(chunks: int, micro_batches: int) -> tuple[Floats, Floats]:
    """Return two arrays [direction, chunk, micro-batch] of seconds as they are before any pass has run: when the input
    of each pass left its source, all 0, and when it arrived, infinity, but 0 for the forward passes of the first chunk
    and the backward passes of the last one, which wait for nobody."""
    left = np.zeros((2, chunks, micro_batches))
    arrived = np.full((2, chunks, micro_batches), np.inf)
    arrived[FORWARD, 0] = 0.0
    arrived[BACKWARD, chunks - 1] = 0.0
    return left, arrived


@njit_without_arrays
def _exchange_gradients(
    network: tuple[float, float], times: tuple[float, float, float], reduction: Floats, turns: Floats, alone: bool
) -> tuple[float, float]:
    """Return the second at which the exchanges of a chunk's gradients end, and the second at which they would if the
    switch took no time.

    Args:
        network: the same two ends of the exchanges before, on this stage.
        times: begin and end of the chunk's last backward pass, and the second from which its planes can be set anew
            for the exchange after it: when the pass exchanges nothing within its groups any more and, where that counts
            (``waits_for_send``), the stage's last send has ended.
        reduction: seconds before the end of the pass from which gradients are exchanged, seconds of that exchange, and
            of the one after the pass: [3].
        turns: seconds of the turns of the stage's planes, in the order of the fields of ``SwitchTurns``, of which
            ``last``, ``gradients`` and ``waits_for_send`` count here: [10].
        alone: True when the stage has no other chunk; else gradients have planes of their own, which need not be set
            anew for the exchange after the pass.
    """
    begin, pass_end, gone = times
    ready = pass_end - reduction[0]
    still = max(max(network[1], ready) + reduction[1], pass_end) + reduction[2]
    ready, pass_end = max(ready, begin + turns[LAST]), max(pass_end, begin + turns[LAST])
    if reduction[2] > 0 and alone and turns[GRADIENTS] + turns[WAITS_FOR_SEND] > 0:
        pass_end = max(pass_end, gone + turns[GRADIENTS])
    return max(max(network[0], ready) + reduction[1], pass_end) + reduction[2], still


@njit_without_arrays
def _sum_tied_tables(ends: Floats, waiting: Floats, turning: Floats, seconds: Floats, turn: Floats) -> None:
    """Let the stages that hold copies of tied tables (those with ``seconds``) add up gradients together, once the
    circuits of all of them are set: ``ends``, ``waiting`` and ``turning`` are changed in place, those of all other
    stages left as they are.

    All arrays are [stages], in seconds: ends of the stages, their waiting for others and for turns so far, the duration
    of the sum, and that of the turn before it.
    """
    together = 0.0
    for stage in range(len(ends)):
        if seconds[stage] > 0:
            ends[stage] += turn[stage]
            turning[stage] += turn[stage]
            together = max(together, ends[stage])
    for stage in range(len(ends)):
        if seconds[stage] > 0:
            waiting[stage] += together - ends[stage]
            ends[stage] = together + seconds[stage]


@njit_without_arrays
def _pass(number: int, stage: int, stages: int, total: int, virtual_stages: int) -> tuple[int, int, int]:
    """Return direction (0 forward, 1 backward), chunk and micro-batch of a stage's pass ``number``, from 0 on, of
    ``2 · total`` in 1F1B order.

    Chunks are numbered over the whole model; ``total`` is the micro-batches times ``virtual_stages``, the chunks of a
    stage.
    """
    ahead = stages - 1 - stage
    if virtual_stages > 1:
        ahead = 2 * ahead + (virtual_stages - 1) * stages
    ahead = min(ahead, total)
    if number < ahead:
        direction, index = FORWARD, number
    elif number >= 2 * total - ahead:
        direction, index = BACKWARD, number - total
    elif (number - ahead) % 2 == 0:
        direction, index = FORWARD, ahead + (number - ahead) // 2
    else:
        direction, index = BACKWARD, (number - ahead) // 2
    turn, within = index // (stages * virtual_stages), index % (stages * virtual_stages)
    chunk, micro = within // stages, turn * stages + within % stages
    if direction == BACKWARD:
        chunk = virtual_stages - 1 - chunk
    return direction, stage + chunk * stages, micro


# Compiled queues of placed steps: heaps in the rows of a state, the smallest key first, then the smallest item.


@njit_without_arrays
def push(state: State, queue: int, key: float, item: int) -> None:
    """Insert an item into a queue of the state, a binary heap ordered by key, then by item, in place; its rows must
    have room.

    Of d devices and p pipes, ``queue`` 0 to d - 1 are the devices' nodes that are ready (key: the node), d + p the ends
    of computing and arrivals (key: seconds; item: the node), d + p + 1 the ends of hops (seconds; the pipe, d more than
    its number), and d + p + 2 the pipes that can send (seconds since when; the pipe's turn). The queues between, of the
    pipes, are no heaps and not for this function."""
    base, at = state.first_row[queue], state.size[queue]
    state.size[queue] += 1
    while at > 0:
        up = (at - 1) // 2
        above = state.key[base + up]
        if above < key or (above == key and state.item[base + up] < item):
            break
        state.key[base + at], state.item[base + at] = above, state.item[base + up]
        at = up
    state.key[base + at], state.item[base + at] = key, item


@njit_without_arrays
def pop(state: State, queue: int) -> int:
    """Remove the item of the least key from a queue of the state that is a heap (numbered as in :func:`push`), the
    smallest of equal ones, and return it; the queue must not be empty."""
    base = state.first_row[queue]
    state.size[queue] -= 1
    size = state.size[queue]
    top = state.item[base]
    key, item = state.key[base + size], state.item[base + size]
    at = 0
    while 2 * at + 1 < size:
        down = 2 * at + 1
        other = down + 1
        if other < size:
            a, b = state.key[base + down], state.key[base + other]
            if b < a or (b == a and state.item[base + other] < state.item[base + down]):
                down = other
        if key < state.key[base + down] or (key == state.key[base + down] and item < state.item[base + down]):
            break
        state.key[base + at], state.item[base + at] = state.key[base + down], state.item[base + down]
        at = down
    state.key[base + at], state.item[base + at] = key, item
    return int(np.int64(top))


# Compiled loops of placed steps: what is sent to whom, and the events.
#
# Nodes are computing (on a device), hops (one parcel on one pipe) or neither (they only join what others wait for).
# Pipes take turns where they leave one port and where they enter one: of the hops that could begin at a moment those
# go first that have been ready longest, of equally long ones those to the nearest devices, counted upwards and
# around.

_NO_RESOURCE = -1
_ROUNDING = 1e-9
"""Share of a parcel below which the rest is round-off."""


@njit_cached
def parcels(parent_start: Ints, parent: Int32s, content: Ints, device: Ints, devices: int) -> tuple[Ints, Int32s, Ints]:
    """Gather the edges that cross devices into parcels: those that leave one sub-operator for one device with equal
    content are sent once.

    Returns three arrays: the parcel of every edge (-1 where both ends are on one device), the sub-operator that reads
    every edge, and for every parcel the first edge that it stands for. Parcels are numbered in the order of the
    sub-operators that they leave, then of their first edges.

    Args:
        parent_start: the edges to sub-operator x are rows ``parent_start[x]`` to ``parent_start[x + 1]``:
            [sub-operators + 1].
        parent: sub-operator that each edge leaves: [edges].
        content: edges that leave one sub-operator with equal content carry the same elements: [edges].
        device: device of each sub-operator: [sub-operators].
        devices: number of devices.
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
    """Add resource ``at``, a device or a pipe, once to the list of those that may begin something at this moment."""
    if not state.listed[at]:
        state.listed[at] = True
        state.idle[state.counts[1]] = at
        state.counts[1] += 1


@njit_without_arrays
def _make_ready(nodes: Nodes, state: State, devices: int, node: int, now: float, until: float, rate: Floats) -> None:
    """Queue a node, for which everything that it waited for has ended at the moment ``now``, on its resource; or finish
    it at once, and make ready what waited only for it, if it has no resource and so takes no time.

    Args:
        nodes: the work of the step.
        state: the step's state, changed in place.
        devices: number of devices; larger resources are pipes.
        node: number of the node.
        now: the moment, in seconds.
        until: end of the current stretch: what is queued on a pipe of rate 0 counts as waiting in the dark until then.
        rate: bytes per second of each pipe: [pipe].
    """
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
    """Count a node as done at the moment ``now``, and make ready the nodes that waited only for it; what becomes ready
    on a pipe of ``rate`` 0 counts as waiting in the dark until ``until``. ``state`` is changed in place."""
    state.counts[0] += 1
    for i in range(nodes.first[node], nodes.first[node + 1]):
        y = np.int64(nodes.follower[i])
        state.waits[y] -= 1
        if state.waits[y] == 0:
            _make_ready(nodes, state, devices, y, now, until, rate)


@njit_cached
def begin(nodes: Nodes, state: State, devices: int) -> None:
    """Make ready at time 0 the nodes of a step that wait for nothing, changing ``state``; resources below ``devices``
    are devices, all others pipes."""
    dark = np.zeros(max(nodes.pipe.max(), 0) + 1)
    waiting = state.waits.copy()
    for x in range(len(waiting)):
        if waiting[x] == 0:
            _make_ready(nodes, state, devices, x, 0.0, 0.0, dark)


@njit_without_arrays
def _dispatch(nodes: Nodes, ports: Ports, state: State, devices: int, at: int, now: float, rate: Floats) -> None:
    """Begin the first node in the queue of resource ``at`` (a device below ``devices``, else a pipe) at the moment
    ``now`` if the resource is idle, and schedule its end; a pipe begins none while it is dark (``rate`` 0) or one of
    its ports is busy."""
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
    """Begin, at the moment ``now``, what can begin on the resources that are listed as idle, and clear the list; of
    pipes that share ports first what has waited longest, of equals by the pipes' turns."""
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
    """Free the two ports of ``pipe``, numbered from 0 among the pipes, on which a hop has ended, and list the pipes on
    these ports that have something queued, as they may begin now."""
    for port in (ports.leaves[pipe], ports.enters[pipe]):
        state.busy[port] = False
        for i in range(ports.first[port], ports.first[port + 1]):
            at = devices + np.int64(ports.member[i])
            if state.size[at] > 0:
                _list_idle(state, at)


@njit_without_arrays
def _spend(state: State, seconds: float, dark: bool) -> None:
    """Add ``seconds`` to what the step spends on the one cause that counts: computing if any device computes, else
    sending if any pipe does, else reconfiguration if ``dark``, else idling."""
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
    """Run the events of a step from the start of ``span`` to its end, in seconds, while every pipe sends at its
    ``rate`` [pipe] in bytes per second; return True when all nodes are done.

    What happens at the end itself is left to the next call. Of events at one moment, ends of computing and arrivals
    come first, in the order of nodes, then ends of hops, in the order of pipes; only then does anything begin.
    ``state`` is changed in place; ``dark`` says that time in which nothing computes or sends counts as reconfiguration.
    Without an end (infinity) False means that nodes wait for each other.
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
def run_holds(
    nodes: Nodes, ports: Ports, state: State, devices: int, now: float, holds: Holds, first: int, cuts: Stretches
) -> tuple[float, int, int, bool]:
    """Run a step hold after hold (periods in which one set of circuits stands) from number ``first`` on, each after a
    dark reconfiguration, up to ``holds.most`` or as long as ``cuts`` has room for the hops that the end of a hold cuts
    off.

    Returns the moment reached in seconds (the end of the hold, or of its dark beginning, in which the last node ended,
    not that node's end), the number of holds begun since the step's start, the number of cuts noted, and whether all is
    done. False with fewer than ``holds.most`` begun says that ``cuts`` had fewer rows left than there are pipes.

    Args:
        nodes, ports: the work of the step.
        state: the step's state, changed in place.
        devices: number of devices; larger resources are pipes.
        now: the moment until which the step has run, in seconds.
        holds: rates and lengths of the holds that come round; ``most`` counts from the step's start.
        first: number of the next hold, counted from the step's start.
        cuts: receives the stretches that the ends of holds cut off, from its first row on.
    """
    count = 0
    for hold in range(first, holds.most):
        if count + len(holds.dark) > len(cuts.node):
            return now, hold, count, False
        start, rate = hold * holds.period, holds.rates[hold % len(holds.rates)]
        if holds.reconfiguration > 0.0:
            lit = max(start + holds.reconfiguration, now)
            if advance(nodes, ports, state, devices, (now, lit), holds.dark, True):
                return lit, hold + 1, count, True
            now = lit
        end = max(start + holds.period, now)
        if advance(nodes, ports, state, devices, (now, end), rate, False):
            return end, hold + 1, count, True
        now = end
        for at in range(devices, len(state.current)):
            x = state.current[at]
            if x >= 0 and rate[nodes.pipe[x]] > 0.0 and state.piece[x] < end:
                cuts.node[count], cuts.start[count], cuts.end[count] = x, state.piece[x], end
                cuts.nbytes[count] = rate[nodes.pipe[x]] * (end - state.piece[x])
                count += 1
    return now, holds.most, count, False


@njit_without_arrays
def _resume(nodes: Nodes, state: State, devices: int, now: float, until: float, rate: Floats) -> None:
    """Set the ends of the hops that are under way anew, from ``now`` on at the rates ``rate`` [pipe] in bytes per
    second, and list all resources as ones that may begin something; hops of dark pipes, queued ones too, count as
    waiting until ``until``."""
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
    """End the nodes whose computing ends at the moment ``now``, let what arrives then count as done, and make ready
    what waited only for these; what becomes ready on a pipe of ``rate`` 0 counts as waiting in the dark until
    ``until``. ``state`` is changed in place."""
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
    """End the hops that end at the moment ``now`` and free their ports, in ``state``; what they carry arrives after the
    delay of its node, or at once, which makes ready what waited only for it. What becomes ready on a pipe of ``rate`` 0
    counts as waiting in the dark until ``until``."""
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


# Compiled loop of the longest path through a placed graph, forward and back.


@njit_cached
def longest_paths(start: Any, parent: Any, delay: Any, forward: Any, backward: Any) -> tuple[Any, Any]:
    """Return the seconds at which each sub-operator's forward pass, and its backward pass, can have ended at the
    earliest, if each had a device to itself: [sub-operators] each, counted from the start of the forward pass.

    The backward pass of a sub-operator waits for its own forward pass and for the gradients from its readers, which
    take as long as what they read.

    Args:
        start: parents of x are rows ``start[x]`` to ``start[x + 1]`` of ``parent`` and ``delay``: [sub-operators + 1].
        parent: sub-operator that each edge comes from, of a smaller number than its reader: [edges].
        delay: seconds of the way from a parent: [edges].
        forward, backward: seconds of each pass: [sub-operators].
    """
    size = len(forward)
    there, back = forward.copy(), np.zeros(size)
    for x in range(size):
        ready = 0.0
        for e in range(start[x], start[x + 1]):
            ready = max(ready, there[parent[e]] + delay[e])
        there[x] = ready + forward[x]
    for x in range(size - 1, -1, -1):
        back[x] = max(back[x], there[x]) + backward[x]
        for e in range(start[x], start[x + 1]):
            back[parent[e]] = max(back[parent[e]], back[x] + delay[e])
    return there, back
