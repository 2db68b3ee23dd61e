"""Plans: every way to train a model on a cluster, ranked by the time of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightloom.api.arguments import ClusterLike, Settings, load_cluster
from lightloom.api.models import ModelLike, trace
from lightloom.clusters.base import Cluster
from lightloom.collectives.cost.stepped import known_cost_model
from lightloom.core.results import Document, Result, plain
from lightloom.core.units import format_energy, format_size, format_time
from lightloom.parallelism.load import STRATEGIES
from lightloom.planner.search.explain import explain
from lightloom.planner.search.ranked import ALL, Candidate, PlanSearch, search
from lightloom.reports.figures.breakdown_figure import breakdown_figure
from lightloom.reports.notebook import notebook_svg
from lightloom.workloads.graph import ComputeGraph

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWN = 8
"""Plans in the picture; rows and documents hold all."""


@dataclass(frozen=True, repr=False, kw_only=True)
class PlanRanking(Result):
    """Every plan of a model on a cluster, fastest first."""

    graph: ComputeGraph
    cluster: Cluster
    search: PlanSearch

    @property
    def winner(self) -> Candidate:
        """The fastest plan."""
        return self.search.winner

    def __len__(self) -> int:
        return len(self.search.ranking)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.search.ranking)

    def __getitem__(self, index: int) -> Candidate:
        return self.search.ranking[index]

    def summary(self) -> str:
        return f"{self.graph.name} on {self.cluster.name}: {explain(self.search)}"

    def rows(self) -> list[Document]:
        return [_row(candidate) for candidate in self.search.ranking]

    def to_json(self) -> Document:
        document = {
            "model": self.graph.name,
            "cluster": self.cluster.to_json(),
            "explanation": explain(self.search),
            "ranking": self.rows(),
        }
        return {name: plain(value) for name, value in document.items()}

    def display_rows(self) -> list[dict[str, object]]:
        return [
            {
                "strategy": candidate.strategy,
                "algorithm": candidate.algorithm.name,
                "step": format_time(candidate.result.step_time),
                "samples a second": f"{candidate.result.samples_per_second:,.4g}",
                "memory": format_size(candidate.result.memory.total),
                "fits": {True: "yes", False: "no", None: "unknown"}[candidate.result.fits],
                "energy": format_energy(candidate.result.energy.total_j),
            }
            for candidate in self.search.ranking
        ]

    def figure(self) -> Figure:
        """Return a matplotlib figure: where the step time of the fastest plans goes."""
        return breakdown_figure(
            [
                (f"{candidate.strategy} · {candidate.algorithm.name}", candidate.result.breakdown)
                for candidate in self.search.ranking[:_DRAWN]
            ]
        )

    def pictures(self) -> tuple[str, ...]:
        return (notebook_svg(self.figure()),)


def _row(candidate: Candidate) -> Document:
    result = candidate.result
    return {
        "strategy": candidate.strategy,
        "algorithm": candidate.algorithm.name,
        "iteration_time_s": result.step_time,
        "samples_per_second": result.samples_per_second,
        "communication_time_s": result.communication_time,
        "memory_bytes": result.memory.total,
        "fits_memory": result.fits,
        "energy_j": result.energy.total_j,
        **result.breakdown,
    }


def plan(
    model: ModelLike,
    cluster: ClusterLike = "terarack-64",
    *,
    batch: int | None = None,
    sequence_length: int | None = None,
    strategy: str = ALL,
    algorithm: str = ALL,
    cost_model: str = "physical",
    overlap: bool = True,
    set: Settings | None = None,
    **fields: object,
) -> PlanRanking:
    """Rank the ways to train a model on a cluster.

    >>> plan("resnet50", cluster="terarack-64", set={"fabric.wavelengths": 16})
    """
    settings = {**(set or {}), **fields} | ({} if batch is None else {"training.batch_per_rank": batch})
    on = load_cluster(cluster, set=settings)
    graph = trace(model, batch=on.training.batch_per_rank, sequence_length=sequence_length)
    found = search(
        graph,
        on,
        strategies=tuple(STRATEGIES) if strategy == ALL else (strategy,),
        algorithm=algorithm,
        model=known_cost_model(cost_model),
        overlap=overlap,
    )
    return PlanRanking(graph=graph, cluster=on, search=found)
