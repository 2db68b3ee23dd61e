"""Bytes that a rank of a stage holds at the worst moment of a step, for columns of strategies at once."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.parallelism.pipeline import in_flight
from lightloom.parallelism.recomputation import RECOMPUTATIONS
from lightloom.parallelism.strategy_space import Strategies
from lightloom.planner.pricing.stage_times import Job, combinations, shares


def stage_memory(job: Job, rows: Strategies) -> Floats:
    """Bytes that a rank of the fullest stage holds: [rows]; all rows have the same stages and chunks.

    As ``MemoryUse`` counts; a pipeline's first stages hold the activations of as many micro-batches as there are
    stages to come (interleaved: of more), and its sharded parameters stay gathered for the whole step.
    """
    settings, edges = job.settings, job.chunks(rows)
    combination, row = combinations(rows)
    replicated, experts = (each[row] for each in job.held_parameters(combination, edges))
    kept, passing = (each[row] for each in _activations(job, combination, edges))
    whole, sharded = replicated + experts, (rows.sharding == 1)[:, None]
    replicated[:, 0] += job.graph.unused_parameters
    held = np.where(sharded, shares(rows, replicated, experts), replicated + experts)
    gradient = np.where(sharded, settings.stored_parameter_bytes, settings.gradient_bytes)
    state = held * (settings.stored_parameter_bytes + gradient + settings.optimizer_state_bytes)
    gathered = whole * (settings.sharded_parameter_bytes + settings.sharded_gradient_bytes)
    state += np.where(sharded & ~rows.plain[:, None], gathered, 0.0)
    state += _flying(rows, kept)
    found: Floats = (state + passing.reshape(len(rows), -1, state.shape[1]).max(axis=1)).max(axis=1)
    return found


def _flying(rows: Strategies, kept: Floats) -> Floats:
    """Bytes of all micro-batches in flight on each stage, where its chunks keep ``kept`` of each: [rows, stages]."""
    stages, virtual = int(rows.pp[0]), int(rows.virtual_stages[0])
    of_stage, found = kept.reshape(len(rows), virtual, stages), np.zeros((len(rows), stages))
    for micro_batches in np.unique(rows.micro_batches):
        which = np.flatnonzero(rows.micro_batches == micro_batches)
        for stage, counts in enumerate(in_flight(stages, int(micro_batches), virtual)):
            found[which, stage] = (of_stage[which, :, stage] @ counts.T).max(axis=1)
    return found


def _activations(job: Job, rows: Strategies, edges: Ints) -> tuple[Floats, Floats]:
    """Bytes kept for each micro-batch in flight, and for the one that computes: [rows, chunks]."""
    columns, starts = job.sorts[0], job.starts
    in_slices = (columns["sliced"] == 1) | ((columns["sequenced"] == 1) & rows.sequence_parallel[:, None])
    output = columns.outputs(rows.samples) / np.where(in_slices, rows.tp[:, None], 1)
    ends, first = np.append(starts, len(job.graph.operators)), np.searchsorted(starts, edges[:-1])
    dropped = np.select(
        [(rows.recomputation == RECOMPUTATIONS.index(name))[:, None] for name in ("full", "selective")],
        [columns["in_block"][None, :], columns["inside_core"][None, :]],
        0,
    )
    kept = np.add.reduceat(job.sums(output * (1 - dropped), ends), first, axis=1)
    # The block whose backward pass runs has everything again.
    passing = np.maximum.reduceat(job.sums(output * dropped, ends), first, axis=1)
    entering = np.add.reduceat(job.entering(rows, starts), first, axis=1)
    full: Mask = (rows.recomputation == RECOMPUTATIONS.index("full"))[:, None]
    return kept + np.where(full, entering, 0.0), passing
