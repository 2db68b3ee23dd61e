"""Compiled loop of a pipelined step: when each stage ends, and what it waits for.

A stage runs its passes in the order of :func:`~lightloom.parallelism.pipeline.one_forward_one_backward`, each once its
input has arrived; a link carries the outputs of a stage in the order in which they are computed. These are the tasks of
:func:`~lightloom.simulation.pipelined_tasks.lower_pipelined` without the objects.
"""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.kernels import njit_cached, njit_without_arrays

FORWARD, BACKWARD = 0, 1
"""Directions of a pass."""
START, PASSES, LEAD, LAST, GRADIENTS, TAIL, WAITS_FOR_SEND, EXCHANGE, TIED = range(9)
"""Rows of the turns of a circuit switch (``SwitchTurns``)."""


@njit_cached
def play(
    passes: Floats,
    send: Floats,
    reduction: Floats,
    gather: Floats,
    closing: Floats,
    turns: Floats,
    micro_batches: int,
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return the second at which each stage ends, and its seconds of waiting for sends, for other stages, for the
    gradients that it exchanges beside its passes, and for a switch that is set anew: [stages].

    Args:
        passes: seconds of a pass by direction, by whether it is that of the last micro-batch, and by chunk:
            [2, 2, chunks].
        send: seconds from the chunk before a chunk, by whether the micro-batch is the last: [2, chunks].
        reduction: of the gradients of each chunk, seconds before the end of its last backward pass from which they are
            exchanged, of the exchange from then on, and of that after the pass: [3, chunks].
        gather: seconds before the first pass of a stage: [stages].
        closing: seconds after its last pass, of the exchange of gradients, of the sums over tied tables, which all
            stages with such seconds begin together, and of the optimizer: [3, stages].
        turns: seconds of turns of a circuit switch, as the columns of ``SwitchTurns``: [10, stages].
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
    """Return when the input of a pass has left its source, and when it has arrived: [direction, chunk, micro-batch]."""
    left = np.zeros((2, chunks, micro_batches))
    arrived = np.full((2, chunks, micro_batches), np.inf)
    arrived[FORWARD, 0] = 0.0
    arrived[BACKWARD, chunks - 1] = 0.0
    return left, arrived


@njit_without_arrays
def _exchange_gradients(
    network: tuple[float, float],
    times: tuple[float, float, float],
    reduction: Floats,
    turns: Floats,
    alone: bool,
) -> tuple[float, float]:
    """Return the ends of the exchanges of gradients, with the turns of a switch and if it took no time.

    Args:
        network: ends of the exchanges before, likewise.
        times: begin and end of the chunk's last backward pass, and the end of what else holds planes.
        reduction: as that of :func:`play`, of the chunk.
        turns: as that of :func:`play`, of the stage.
        alone: whether the stage has no other chunk; gradients of interleaved chunks have planes of their own.
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
    """Let the stages that hold copies of tied tables begin to add up gradients together, once their circuits are set:
    all arrays are [stages]."""
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
    """Return direction, chunk and micro-batch of a stage's pass ``number``, of ``2 · total``."""
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
