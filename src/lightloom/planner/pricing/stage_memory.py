"""Bytes that a rank of a stage holds at the worst moment of a step, for columns of strategies at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.parallelism.loss import bytes_of_logit
from lightloom.parallelism.pipeline import in_flight
from lightloom.parallelism.recomputation import RECOMPUTATIONS, SCORE_TENSORS, repetitions
from lightloom.parallelism.sharding import NONE, ZERO_1, ZERO_2, state_sharers
from lightloom.parallelism.strategy_space import Strategies
from lightloom.planner.pricing.divided_model import Held
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.replica_exchanges import shares
from lightloom.planner.pricing.stage_exchanges import combinations


class MemoryParts(NamedTuple):
    """Bytes that ranks of stages hold."""

    state: Floats
    """Parameters, gradients, the optimizer's state and what exchanges keep, throughout: [rows, stages]."""
    kept: Floats
    """For each micro-batch in flight: [rows, chunks]."""
    passing: Floats
    """For the micro-batch whose pass runs, at most: [rows, stages]."""


def memory_parts(job: Job, rows: Strategies) -> MemoryParts:
    """Return what :func:`stage_memory` adds up."""
    edges = job.model.chunks(rows)
    combination, row = combinations(rows)
    kept, passing = (nbytes[row] for nbytes in _activations(job, combination, edges))
    state = _state(job, rows, edges)
    return MemoryParts(state, kept, passing.reshape(len(rows), -1, state.shape[1]).max(axis=1))


def stage_memory(job: Job, rows: Strategies) -> Floats:
    """Bytes that a rank of the fullest stage holds: [rows]; all rows have the same stages and chunks.

    As ``MemoryUse`` counts; a pipeline's first stages hold the activations of as many micro-batches as there are
    stages to come (interleaved: of more).
    """
    parts = memory_parts(job, rows)
    state = parts.state + _flying(rows, parts.kept)
    fullest: Floats = (state + parts.passing).max(axis=1)
    return fullest


def _state(job: Job, rows: Strategies, edges: Ints) -> Floats:
    """Bytes of parameters, gradients, optimizer state and what exchanges of gradients keep: [rows, stages].

    Gathered units of data parallelism alone are left out.
    """
    settings, stages = job.settings, rows.stages
    combination, row = combinations(rows)
    begins = np.searchsorted(job.model.starts, edges[:-1])
    chunks = Held(*(np.add.reduceat(held, begins, axis=1) for held in job.model.held_blocks(combination)))
    held = Held(*(column[row] for column in chunks.by_stage(stages)))
    held.dense[:, 0] += job.graph.unused_parameters
    sharers = state_sharers(rows.sharding, rows.replicas, rows.tp, job.fabric.node_ranks)
    shared = shares(rows, held, sharers)
    parameter, gradient = settings.sharded_parameter_bytes, settings.sharded_gradient_bytes
    master = settings.stored_parameter_bytes + settings.optimizer_state_bytes
    alike = shared * (master + settings.stored_parameter_bytes)
    largest, once = _largest_unit(job, rows, edges), settings.zero_2_exchange == "step"
    states = [
        (NONE, held.total * (master + settings.gradient_bytes)),
        (ZERO_1, shared * master + held.total * (parameter + settings.gradient_bytes)),
        (ZERO_2, alike + held.total * parameter + (held.total if once else largest) * gradient),
    ]
    # Units that are gathered for the moment, and the gradients of one that are reduced.
    at_once = (settings.prefetch + 1) * parameter + gradient
    gathered = np.where(rows.plain[:, None], 0.0, largest * at_once)
    choices = [(rows.sharding == sharding)[:, None] for sharding, _ in states]
    kept = held.total * job.kept_bytes(rows.exchange)[:, None]
    return kept + np.select(choices, [nbytes for _, nbytes in states], alike + gathered)


def _largest_unit(job: Job, rows: Strategies, edges: Ints) -> Floats:
    """Parameters of the largest block of each stage: [rows, stages]."""
    combination, row = combinations(rows)
    blocks = job.model.held_blocks(combination).total
    chunks = np.maximum.reduceat(blocks, np.searchsorted(job.model.starts, edges[:-1]), axis=1)
    largest: Floats = chunks.reshape(len(chunks), -1, rows.stages).max(axis=1)[row]
    return largest


def _flying(rows: Strategies, kept: Floats) -> Floats:
    """Bytes of all micro-batches in flight on each stage, where its chunks keep ``kept`` of each: [rows, stages]."""
    stages, virtual = rows.stages, int(rows.virtual_stages[0])
    of_stage, found = kept.reshape(len(rows), virtual, stages), np.zeros((len(rows), stages))
    for micro_batches in np.unique(rows.micro_batches):
        which = np.flatnonzero(rows.micro_batches == micro_batches)
        for stage, counts in enumerate(in_flight(stages, int(micro_batches), virtual)):
            found[which, stage] = (of_stage[which, :, stage] @ counts.T).max(axis=1)
    return found


def _activations(job: Job, rows: Strategies, edges: Ints) -> tuple[Floats, Floats]:
    """Bytes kept for each micro-batch in flight, and for the one that computes: [rows, chunks]."""
    model = job.model
    columns, starts = model.sorts, model.starts
    in_slices = (columns["sliced"] == 1) | ((columns["sequenced"] == 1) & rows.sequence_parallel[:, None])
    divisor = np.where(in_slices, rows.tp[:, None], 1)
    saved, regenerated = (nbytes(rows.samples, rows.cp) / divisor for nbytes in (columns.kept, columns.regenerated))
    ends, first = np.append(starts, len(job.graph.operators)), np.searchsorted(starts, edges[:-1])
    # What is recomputed is dropped, except outputs of attention's inside that other operators read.
    dropped = repetitions(columns["in_block"], columns["inside_core"], rows.recomputation)
    scores = columns["scores"] * (rows.samples / columns.batch / rows.tp / rows.cp)[:, None]
    score_bytes = scores * (SCORE_TENSORS * columns.element_bytes)
    again = (rows.recomputation != RECOMPUTATIONS.index("none"))[:, None]
    kept_bytes = saved * (1 - dropped) + np.where(again, 0.0, score_bytes)
    kept = np.add.reduceat(model.sums(kept_bytes, ends), first, axis=1)
    # The block whose backward pass runs has everything again.
    passing_bytes = saved * dropped + regenerated + np.where(again, score_bytes, 0.0)
    # The loss is gone by then.
    logits = columns["kernel_losses"] * columns.outputs(rows.samples, rows.cp) / columns.element_bytes / divisor
    loss_bytes = logits * bytes_of_logit(columns.element_bytes)
    worst = np.maximum(model.sums(passing_bytes, ends), model.sums(loss_bytes, ends))
    passing = np.maximum.reduceat(worst, first, axis=1)
    entering = np.add.reduceat(model.entering(rows, starts), first, axis=1)
    full: Mask = (rows.recomputation == RECOMPUTATIONS.index("full"))[:, None]
    return kept + np.where(full, entering, 0.0), passing
