"""What the stages of strategies compute, exchange and wait for, for columns of strategies at once.

Work, bytes and parameters of the operators are columns too; a stage is a sum over consecutive operators. Exchanges are
priced by a function that the caller gives: exactly for one strategy, by lower bounds for many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.parallelism.sharding import state_sharers
from lightloom.parallelism.strategy_space import Strategies
from lightloom.planner.pricing.context_ring import ring_waits
from lightloom.planner.pricing.divided_model import Held
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.replica_exchanges import (
    ReplicaExchanges,
    ReplicaPrices,
    exposed_backward,
    exposed_forward,
    overlapped,
    replica_groups,
    shares,
)
from lightloom.planner.pricing.stage_exchanges import (
    ExchangeTime,
    PassExchanges,
    combinations,
    pass_exchanges,
    token_gradients,
)
from lightloom.planner.pricing.stage_sends import Sends, stage_sends
from lightloom.planner.pricing.tied_exchange import TiedSum, tied_seconds, tied_sums
from lightloom.simulation.link_turns import Pass
from lightloom.simulation.pipelined import StageTimes


class StageExchanges(NamedTuple):
    """Seconds of what the ranks of a stage exchange with each other."""

    tensor: PassExchanges
    """Collectives of tensor parallelism in a pass, repeated forward passes included: [rows, chunks] each."""
    experts: PassExchanges
    """Those of expert parallelism."""
    held: Held
    """Parameters of a rank when nothing is sharded, each [rows, chunks]."""
    replicas: ReplicaExchanges
    token_gradients: Floats
    """Once a step, gradients that the ranks of a tensor group have of their own tokens only: [rows, stages]."""
    tied: list[TiedSum]
    """Once a step, after these, gradients of tables of which several stages hold copies."""

    @property
    def forward(self) -> Floats:
        """Collectives of tensor and expert parallelism in a forward pass: [rows, chunks]."""
        return self.tensor.forward + self.experts.forward

    @property
    def backward(self) -> Floats:
        """The same in a backward pass."""
        return self.tensor.backward + self.experts.backward


class _Passes(NamedTuple):
    """Seconds of one micro-batch, each [rows, chunks]."""

    forward: Floats
    backward: Floats
    forward_ring: Floats
    """What attention waits for in a context group."""
    backward_ring: Floats


def stage_times(
    job: Job, rows: Strategies, exchange_time: ExchangeTime, sends: Sends | None = None, *, sharing: bool = True
) -> StageTimes:
    """Seconds of each chunk and stage; all rows have the same number of both.

    Where neighbouring groups share a ring's wavelengths, a group's bytes count as often as there are groups, unless
    not ``sharing``. ``sends`` takes the place of :func:`stage_sends`.
    """
    edges, stages = job.model.chunks(rows), rows.stages
    passes = _passes(job, rows, edges, sharing=sharing)
    exchanges = stage_exchanges(job, rows, exchange_time, sharing=sharing)
    within, units = exchanges.replicas, job.model.units(edges)
    after = exchanges.token_gradients if within.unit_exchange else within.exchange + exchanges.token_gradients
    forward, backward, closing = _beside(job, rows, passes, exchanges)
    gradients = overlapped(closing, within, units)
    return StageTimes(
        forward=passes.forward,
        backward=passes.backward,
        forward_exchange=exchanges.forward,
        backward_exchange=exchanges.backward,
        forward_ring=passes.forward_ring,
        backward_ring=passes.backward_ring,
        forward_gather=exposed_forward(forward, within, units),
        backward_gather=exposed_backward(backward, within, units),
        send=(stage_sends(job, rows, exchange_time) if sends is None else sends).seconds,
        early_exchange=gradients.early,
        late_exchange=gradients.late,
        lead=gradients.lead,
        gather=within.gather,
        exchange=after,
        tied=tied_seconds(exchanges.tied, len(rows), stages),
        update=_update(job, rows, exchanges.held.by_stage(stages)),
    )


def _passes(job: Job, rows: Strategies, edges: Ints, *, sharing: bool) -> _Passes:
    """What each chunk computes of a micro-batch; no pass is shorter than the launches of its operators."""
    model, times = job.model, job.operators
    combination, row = combinations(rows)
    seconds = times.of_sorts(combination)
    ring = ring_waits(model.sorts, combination, job.on("context"), seconds, sharing=sharing)
    launches = times.repeating(times.launches_of_sorts, combination.recomputation)
    passes = [
        np.maximum(model.sums(computed, edges), model.sums(np.atleast_2d(launched), edges))[row]
        for computed, launched in zip(times.repeating(seconds, combination.recomputation), launches, strict=True)
    ]
    waits = [model.sums(waited, edges)[row] for waited in times.repeating(ring, combination.recomputation)]
    return _Passes(*passes, *waits)


def _beside(job: Job, rows: Strategies, passes: _Passes, exchanges: StageExchanges) -> tuple[Pass, Pass, Pass]:
    """The passes behind which replicas gather parameters, forward and backward, and the one that gradients leave."""
    share, turns = job.fabric.arithmetic_share, job.turns
    groups, gradient_groups = replica_groups(rows, job.fabric.node_ranks)
    forward = exchanges.tensor.forward, exchanges.experts.forward, passes.forward_ring
    backward = exchanges.tensor.backward, exchanges.experts.backward, passes.backward_ring
    there, back = (
        passes.forward + (exchanges.forward + forward[2]),
        passes.backward + (exchanges.backward + backward[2]),
    )
    return (
        turns.pass_of(rows, there, share, forward, groups),
        turns.pass_of(rows, back, share, backward, groups),
        turns.pass_of(rows, back, share, backward, gradient_groups),
    )


def _update(job: Job, rows: Strategies, held: Held) -> Floats:
    """Seconds of the optimizer on the parameters of each stage: [rows, stages]."""
    sharers = state_sharers(rows.sharding, rows.replicas, rows.tp, job.fabric.node_ranks)
    updated = shares(rows, held, sharers)
    updated[:, 0] += job.graph.unused_parameters / sharers
    return job.accelerator.update_time(updated * float(job.settings.optimizer_traffic_bytes))


def stage_exchanges(
    job: Job, rows: Strategies, exchange_time: ExchangeTime, *, sharing: bool = True, by_unit: Mask | None = None
) -> StageExchanges:
    """Seconds of everything that the ranks of a stage exchange with each other; as :func:`stage_times`.

    Where ``by_unit`` says which chunks exchange gradients unit by unit, the other way is not priced.
    """
    model, fabric, settings = job.model, job.fabric, job.settings
    edges, columns, stages = model.chunks(rows), model.sorts, rows.stages
    combination, row = combinations(rows)
    of_axes = pass_exchanges(columns, combination, fabric, exchange_time, sharing=sharing)
    sums = {
        axis: [model.sums(part, edges)[row] for part in job.operators.repeating(seconds, combination.recomputation)]
        for axis, seconds in of_axes.items()
    }
    tensor = PassExchanges(*sums["tensor"])
    experts = PassExchanges(*sums.get("expert", [np.zeros_like(tensor.forward)] * 2))
    begins = np.searchsorted(model.starts, edges[:-1])
    blocks = model.held_blocks(combination)
    held = Held(*(np.add.reduceat(parameters, begins, axis=1)[row] for parameters in blocks))
    first = Held(*(parameters[:, begins][row] for parameters in blocks))
    blocking = job.blocks(rows.exchange)
    prices = ReplicaPrices(settings, rows, fabric, exchange_time, sharing=sharing, blocking=blocking)
    alone = np.where(columns["sequenced"] & ~columns["divided"] & 1, columns["parameters"], 0)[None, :]
    nbytes = model.sums(alone, edges).reshape(-1, stages).sum(axis=0) * float(settings.gradient_bytes)
    return StageExchanges(
        tensor=tensor,
        experts=experts,
        held=held,
        replicas=prices.exchanges(held, first, model.units(edges), by_unit),
        token_gradients=token_gradients(combination, nbytes, exchange_time)[row],
        tied=tied_sums(model.tied, edges, rows, fabric, settings, job.tied_pair),
    )
