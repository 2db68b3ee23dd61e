"""What the joint search ranks and finds: ways to split a model over the ranks of clusters.

    kind              choice            simulated
    ddp, fsdp         Strategy          bucket by bucket, unit by unit
    tensor-pipeline   Strategy          stage by stage
    placed            PlacedChoice      sub-operator by sub-operator, over the circuits granted

Everything is ranked by seconds of a step for each of its samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightloom.clusters.base import Cluster
from lightloom.core.units import format_time
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.pricing.placed_space import PlacedChoice
from lightloom.simulation.energy import StepEnergy
from lightloom.simulation.timeline import Timeline

if TYPE_CHECKING:
    from lightloom.simulation.placed_step import PlacedStep

STRATEGIES = ("ddp", "fsdp", "tensor-pipeline")
"""Data parallelism alone (all of the model in every rank, or sharded), and with stages, tensor or expert groups."""
KINDS = (*STRATEGIES, "placed")
"""Kinds of split: practitioners' strategies, and SiP-ML's partition and placement."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SplitPlan:
    """One split that was simulated."""

    cluster: Cluster
    """With the ranks that the split uses."""
    choice: Strategy | PlacedChoice
    bound: float
    """Seconds of a step: the last bound before it was simulated."""
    step: Timeline | PlacedStep
    """What was simulated."""
    breakdown: Mapping[str, float]
    """As :meth:`Timeline.breakdown`."""
    energy: StepEnergy
    """Of a step over all ranks."""
    memory: float
    """Bytes of the fullest rank."""

    @property
    def step_time(self) -> float:
        """Seconds."""
        return self.step.step_time

    @property
    def placed(self) -> PlacedStep | None:
        """The step of a placed plan."""
        return None if isinstance(self.step, Timeline) else self.step

    @property
    def timeline(self) -> Timeline:
        """What happened when; one group stands for all."""
        return self.step if isinstance(self.step, Timeline) else self.step.timeline

    @property
    def kind(self) -> str:
        """One of :data:`KINDS`."""
        return kind_of(self.choice)

    @property
    def global_batch(self) -> int:
        """Samples of a step."""
        return self.choice.global_batch

    @property
    def sample_time(self) -> float:
        """Seconds of a step for each of its samples."""
        return self.step_time / self.global_batch

    @property
    def samples_per_second(self) -> float:
        """Throughput of all ranks together; infinite for a step that takes no time."""
        return self.global_batch / self.step_time if self.step_time else float("inf")

    @property
    def energy_per_sample(self) -> float:
        """Joules over all ranks; only parts that have a source."""
        return self.energy.known_j / self.global_batch

    @property
    def label(self) -> str:
        """The split in a few words."""
        return label(self.choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows of a search, by what became of them."""

    rows: int = 0
    refused: int = 0
    """Whose collectives or circuits their groups cannot have."""
    too_fine: int = 0
    """Placed rows with more sub-operators than are searched."""
    too_large: int = 0
    """That do not fit the memory."""
    bounded: int = 0
    """Whose step time was bounded."""
    partitioned: int = 0
    """Partitions made, each for all rows that share it."""
    placed: int = 0
    """Placements made."""
    simulated: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.__dataclass_fields__})


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSearch:
    """What a search found."""

    ranking: tuple[SplitPlan, ...]
    """Those that were simulated, least seconds a sample first."""
    counts: Counts
    refusals: tuple[str, ...]
    """Why whole kinds were left out, a line each."""

    @property
    def winner(self) -> SplitPlan:
        """The fastest split."""
        return self.ranking[0]

    def best_of(self, kind: str) -> SplitPlan | None:
        """The fastest of a kind."""
        return next((each for each in self.ranking if each.kind == kind), None)

    @property
    def front(self) -> tuple[SplitPlan, ...]:
        """Pareto front of seconds against joules a sample, fastest first: nothing simulated is better in both."""
        return pareto_front(self.ranking)


def pareto_front(plans: Iterable[SplitPlan]) -> tuple[SplitPlan, ...]:
    """The plans that none is at least as good as in seconds and joules a sample; of equal ones the first."""
    found: list[SplitPlan] = []
    for each in sorted(plans, key=lambda plan: (plan.sample_time, plan.energy_per_sample)):
        if not found or each.energy_per_sample < found[-1].energy_per_sample:
            found.append(each)
    return tuple(found)


def kind_of(choice: Strategy | PlacedChoice) -> str:
    """The kind of a row."""
    if isinstance(choice, PlacedChoice):
        return "placed"
    return choice.sharding if choice.plain else "tensor-pipeline"


def label(choice: Strategy | PlacedChoice) -> str:
    """A row in a few words: degrees, and what is not the default."""
    if isinstance(choice, PlacedChoice):
        parts = [f"k {choice.k}", f"l {choice.l}"]
        if choice.k > 1:
            parts += [f"τ {format_time(choice.quantum)}", f"at most {choice.most_exchanging} read all"]
    else:
        degrees = (("dp", choice.dp), ("tp", choice.tp), ("pp", choice.pp), ("ep", choice.ep))
        parts = [f"{name} {degree}" for name, degree in degrees if degree > 1 or name == "dp"]
        parts += [
            "sequence" if choice.sequence_parallel else "",
            f"{choice.virtual_stages} chunks a stage" if choice.virtual_stages > 1 else "",
            f"{choice.micro_batches} micro-batches" if choice.micro_batches > 1 else "",
            choice.sharding if choice.dp > 1 else "",
            "recomputing" if choice.recomputation == "full" else "",
            choice.algorithm if choice.dp > 1 or choice.tp > 1 else "",
        ]
    parts.append(f"{choice.ratio:.3g} × compressed" if choice.ratio != 1 else "")
    return " · ".join(filter(None, parts))
