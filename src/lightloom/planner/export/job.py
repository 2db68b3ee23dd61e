"""What frameworks are told of a split: which plan they can express, and the facts that every export needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.errors import UnsupportedError
from lightloom.parallelism.loss import logits_of
from lightloom.parallelism.sharding import node_replicas
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.search.plans import Plan, PlanSearch, sequence_length
from lightloom.workloads.graph import ComputeGraph


class ExportedJob(NamedTuple):
    """A split in the terms of Megatron and torchtitan."""

    model: str
    cluster: str
    ranks: int
    strategy: Strategy
    label: str
    algorithms: tuple[str, ...]
    precision: str
    """Number format of the arithmetic, as ``training.precision`` has it."""
    sequence_length: int | None
    """Tokens of a sample; None for models that take none."""
    layers: tuple[int, ...]
    """Blocks (numbered modules) of each chunk of a stage, in the order of the model: chunk i is of stage i mod pp."""
    vocabulary: int | None
    """Rows of the table of tokens; None for models that take none."""

    node_replicas: int
    """Neighbouring replicas of a tensor shard in one node, among which hybrid sharding shards."""

    overlaps_gradients: bool
    """Whether gradients are exchanged while the last backward passes compute."""
    zero_2_exchange: str
    """How often ZeRO-2 exchanges: "step" or "micro-batch"."""

    @property
    def blocks(self) -> int:
        """Blocks of the model."""
        return sum(self.layers)

    @property
    def per_chunk(self) -> int | None:
        """Blocks of a stage's chunk; None where not all have as many."""
        return self.layers[0] if len(set(self.layers)) == 1 else None

    @property
    def origin(self) -> str:
        """One line that says what is exported."""
        return f"{self.model} on {self.cluster}, {self.ranks} ranks: {self.label}, {self.strategy.global_batch} samples"


def expressible(search: PlanSearch) -> Plan:
    """The first plan of a ranking that frameworks have settings for: any but a placed one.

    Raises:
        UnsupportedError: all plans are placed ones.
    """
    for plan in search.ranking:
        if isinstance(plan.choice, Strategy):
            return plan
    raise UnsupportedError(
        "only placed plans were searched, which no framework has settings for: expected --strategy ddp, fsdp or "
        "tensor-pipeline too"
    )


def exported(plan: Plan, graph: ComputeGraph) -> ExportedJob:
    """The facts of a plan."""
    strategy = plan.choice
    assert isinstance(strategy, Strategy)
    model, length, logits = plan.job.model, sequence_length(graph), logits_of(graph.operators)
    return ExportedJob(
        model=graph.name,
        cluster=plan.cluster.name,
        ranks=plan.cluster.ranks,
        strategy=strategy,
        label=plan.label,
        algorithms=plan.algorithms,
        precision=plan.cluster.training.precision,
        sequence_length=length,
        layers=tuple(model.units(model.chunks(Strategies.of(strategy))).tolist()),
        vocabulary=None if length is None or logits is None else logits.dimensions.get("channel"),
        overlaps_gradients=plan.cluster.training.overlap_gradients,
        zero_2_exchange=plan.cluster.training.zero_2_exchange,
        node_replicas=int(
            node_replicas(np.array(strategy.replicas), np.array(strategy.tp), plan.cluster.fabric.node_ranks)
        ),
    )


def common_notes(job: ExportedJob) -> list[str]:
    """What no framework's settings say of the split."""
    strategy = job.strategy
    notes = []
    if strategy.micro_batch:
        notes.append(
            f"the last of {strategy.micro_batches} micro-batches has {strategy.last_samples} samples instead of "
            f"{strategy.samples}: frameworks want equal ones"
        )
    if strategy.cp > 1:
        notes.append(
            "ranks of a context group are taken to have equal work: each takes one piece from either end of a causal "
            "sequence"
        )
    if strategy.exchange:
        notes.append("gradients are exchanged by a method of lightloom.exchange: attach its hook yourself")
    if job.algorithms:
        notes.append(
            f"collectives run {', '.join(job.algorithms)}; which algorithm runs is the communication library's choice"
        )
    return notes
