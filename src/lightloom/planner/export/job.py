"""What frameworks are told of a split: which plan they can express, and the facts that every export needs."""

from __future__ import annotations

from typing import NamedTuple

from lightloom.core.errors import UnsupportedError
from lightloom.parallelism.pipeline import block_starts
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.search.plans import SplitPlan, SplitSearch
from lightloom.workloads.graph import ComputeGraph


class ExportedJob(NamedTuple):
    """A split in the terms of Megatron and torchtitan."""

    model: str
    cluster: str
    ranks: int
    strategy: Strategy
    label: str
    precision: str
    """Number format of the arithmetic, as ``training.precision`` has it."""
    sequence_length: int | None
    """Tokens of a sample; None for models that take none."""
    blocks: int
    """Numbered modules between which stages may be cut."""

    @property
    def per_chunk(self) -> int | None:
        """Blocks of a stage's chunk; None where they do not divide evenly."""
        chunks = self.strategy.pp * self.strategy.virtual_stages
        return self.blocks // chunks if self.blocks % chunks == 0 else None

    @property
    def origin(self) -> str:
        """One line that says what is exported."""
        return f"{self.model} on {self.cluster}, {self.ranks} ranks: {self.label}, {self.strategy.global_batch} samples"


def expressible(found: SplitSearch) -> SplitPlan:
    """The fastest split that frameworks have settings for: any but a placed one.

    Raises:
        UnsupportedError: all splits found are placed ones.
    """
    for each in found.ranking:
        if isinstance(each.choice, Strategy):
            return each
    raise UnsupportedError(
        "only placed splits were searched, which no framework has settings for: expected --kind ddp, fsdp or "
        "tensor-pipeline too"
    )


def exported(plan: SplitPlan, graph: ComputeGraph) -> ExportedJob:
    """The facts of a split."""
    strategy = plan.choice
    assert isinstance(strategy, Strategy)
    lengths = [
        each.dimensions["sequence"]
        for each in graph.operators
        if each.kind == "attention" and "sequence" in each.dimensions
    ]
    return ExportedJob(
        model=graph.name,
        cluster=plan.cluster.name,
        ranks=plan.cluster.ranks,
        strategy=strategy,
        label=plan.label,
        precision=plan.cluster.training.precision,
        sequence_length=max(lengths, default=None),
        blocks=len(block_starts(graph)),
    )


def common_notes(job: ExportedJob) -> list[str]:
    """What no framework's settings say of the split."""
    strategy = job.strategy
    notes = []
    if strategy.ratio != 1:
        notes.append(f"gradients are sent {strategy.ratio:.3g} times smaller by a codec: register its hook yourself")
    if strategy.dp > 1 or strategy.tp > 1:
        notes.append(
            f"collectives run {strategy.algorithm}; which algorithm runs is the communication library's choice"
        )
    return notes
