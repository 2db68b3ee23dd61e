"""What ranks of stages hold, counted operator by operator, and what does not depend on how a model is cut."""

from __future__ import annotations

from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np
import pytest

from lightloom.planning.parallelism.operators import bytes_of_logit
from lightloom.planning.parallelism.plan import SCORE_TENSORS, in_flight, repetitions
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import exact_stage_times, stage_memory
from tests.planner.jobs import job, mixture, transformer, with_model


def state_of(of: Job, strategy: Strategy, stage: int) -> float:
    """Bytes that a rank keeps throughout."""
    settings, rows = of.settings, Strategies.of(strategy)
    edges = of.model.chunks(rows)
    blocks = of.model.held_blocks(rows)
    dense = experts = largest = 0.0
    for chunk, (begin, end) in enumerate(pairwise(edges)):
        for block, start in enumerate(of.model.starts):
            if begin <= start < end and chunk % strategy.pp == stage:
                dense += blocks[0, 0, block]
                experts += blocks[1, 0, block]
                largest = max(largest, blocks[0, 0, block] + blocks[1, 0, block])
    dense += of.graph.unused_parameters if stage == 0 else 0
    node = of.fabric.node_ranks
    inside = gcd(strategy.replicas, node // strategy.tp) if node % strategy.tp == 0 else 1
    count = {"none": 1, "hybrid": inside}.get(strategy.sharding, strategy.replicas)
    shared, held = dense / count + experts / max(count // strategy.ep, 1), dense + experts
    optimizer = settings.stored_parameter_bytes + settings.optimizer_state_bytes
    parameter, gradient = settings.sharded_parameter_bytes, settings.sharded_gradient_bytes
    if strategy.sharding == "none":
        return held * (optimizer + settings.gradient_bytes)
    if strategy.sharding == "zero-1":
        return shared * optimizer + held * (parameter + settings.gradient_bytes)
    everything = shared * (optimizer + settings.stored_parameter_bytes)
    if strategy.sharding == "zero-2":
        return everything + held * parameter + (held if settings.zero_2_exchange == "step" else largest) * gradient
    gathered = 0.0 if strategy.plain else largest * ((settings.prefetch + 1) * parameter + gradient)
    return everything + gathered


def activations_of(of: Job, strategy: Strategy, stage: int) -> float:
    """Bytes of micro-batches in flight at the worst moment, and of the pass that runs."""
    rows, columns = Strategies.of(strategy), of.model.columns
    edges, starts = of.model.chunks(rows).tolist(), [*of.model.starts.tolist(), len(of.graph.operators)]
    again = strategy.recomputation != "none"
    dropped = repetitions(columns["in_block"], columns["inside_core"], rows.recomputation)[0]
    saved, regenerated = columns.kept(rows.samples, rows.cp)[0], columns.regenerated(rows.samples, rows.cp)[0]
    outputs, element = columns.outputs(rows.samples, rows.cp)[0], columns.element_bytes
    kept, passing = [], 0.0
    for chunk, (begin, end) in enumerate(pairwise(edges)):
        if chunk % strategy.pp != stage:
            continue
        held = 0.0
        for first, after in pairwise(starts):
            if not begin <= first < end:
                continue
            back = loss = 0.0
            if strategy.recomputation == "full":
                held += of.model.entering(rows, np.array([first]))[0, 0]
            for at in range(first, after):
                sliced = columns["sliced"][at] or (columns["sequenced"][at] and strategy.sequence_parallel)
                part = strategy.tp if sliced else 1
                share = strategy.samples / columns.batch / strategy.tp / strategy.cp
                scores = columns["scores"][at] * share * SCORE_TENSORS * element
                held += saved[at] / part * (1 - dropped[at]) + (0 if again else scores)
                back += saved[at] / part * dropped[at] + regenerated[at] / part + (scores if again else 0)
                loss += columns["kernel_losses"][at] * outputs[at] / element / part * bytes_of_logit(element)
            passing = max(passing, back, loss)
        kept.append(held)
    counts = in_flight(strategy.pp, strategy.micro_batches, strategy.virtual_stages)[stage]
    return float(max(sum(n * nbytes for n, nbytes in zip(moment, kept, strict=True)) for moment in counts)) + passing


SHAPES = [(4, 1, 2, 1, False), (2, 2, 2, 1, True), (2, 2, 2, 2, False), (8, 1, 1, 1, False), (1, 2, 4, 1, True)]


@pytest.mark.parametrize("model", [transformer, mixture])
@pytest.mark.parametrize("often", ["step", "micro-batch"])
def test_the_fullest_rank_holds_its_share_of_every_operator(model: Any, often: str) -> None:
    usual = job(4, 8, model=model)
    settings = usual.settings.model_copy(update={"zero_2_exchange": often, "attention": "unfused"})
    of = with_model(usual, settings=settings)
    for number, (dp, tp, pp, virtual, sliced) in enumerate(SHAPES):
        for place, sharding in enumerate(("none", "zero-1", "zero-2", "zero-3", "hybrid")):
            recomputation = ("none", "selective", "full")[(number + place) % 3]
            strategy = Strategy(dp, tp, pp, 2 * pp, 16 * pp * dp, sharding, recomputation, "ring", 0, sliced, virtual)
            if model is mixture and dp > 1:
                strategy = strategy._replace(ep=2)
            fullest = max(state_of(of, strategy, stage) + activations_of(of, strategy, stage) for stage in range(pp))
            assert stage_memory(of, Strategies.of(strategy))[0] == pytest.approx(fullest, rel=1e-9), strategy


@pytest.mark.parametrize("model", [transformer, mixture])
def test_stages_compute_and_exchange_together_what_one_stage_does(model: Any) -> None:
    """In passes, and of gradients and parameters but for the copies of the tied table."""
    of = job(4, 8, model=model)
    alone = Strategy(2, 2, 1, 2, 16, "zero-1", "selective", "ring", 0, True, ep=2 if model is mixture else 1)
    whole = exact_stage_times(of, alone)
    for pp, virtual in ((2, 1), (2, 2), (4, 1)):
        cut = exact_stage_times(of, alone._replace(pp=pp, micro_batches=2, virtual_stages=virtual))
        for name in ("forward", "backward", "forward_exchange", "backward_exchange"):
            assert getattr(cut, name).sum() == pytest.approx(getattr(whole, name).sum()), name
        assert len(cut.forward) == pp * virtual and len(cut.gather) == pp
        assert cut.gather.sum() > whole.gather.sum() > 0 and cut.update.sum() > whole.update.sum()


def test_host_launches_bound_passes_of_a_chunk() -> None:
    flat, launched = job(4, 4), job(4, 4, kernels=True)
    strategy = Strategy(2, 1, 2, 2, 4, "none", "none", "ring", 0)
    edges = launched.model.chunks(Strategies.of(strategy))
    host = launched.operators.launches(np.zeros(1, np.int64))
    computed = launched.operators.of_sorts(Strategies.of(strategy))
    found = exact_stage_times(launched, strategy)
    for direction, seconds, least in zip((found.forward, found.backward), computed, host, strict=True):
        for chunk, (begin, end) in enumerate(pairwise(edges)):
            work = sum(seconds[0, launched.model.sort[begin:end]])
            assert direction[chunk] == pytest.approx(max(work, sum(np.atleast_2d(least)[0, begin:end])))
    assert (found.forward > exact_stage_times(flat, strategy).forward).all()
