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
from lightloom.planner.search.explain import explain
from lightloom.planner.search.plans import Plan, PlanSearch
from lightloom.planner.search.request import KINDS, SearchRequest
from lightloom.planner.search.search import search
from lightloom.reports.figures.breakdown_figure import breakdown_figure
from lightloom.reports.notebook import notebook_svg
from lightloom.workloads.graph import ComputeGraph

ALL = "all"

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
    def winner(self) -> Plan:
        """The fastest plan."""
        return self.search.winner

    def __len__(self) -> int:
        return len(self.search.ranking)

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.search.ranking)

    def __getitem__(self, index: int) -> Plan:
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
                "algorithm": candidate.algorithm,
                "step": format_time(candidate.step_time),
                "samples a second": f"{candidate.samples_per_second:,.4g}",
                "memory": format_size(candidate.memory),
                "fits": {True: "yes", False: "no", None: "unknown"}[candidate.fits],
                "energy": format_energy(candidate.energy.total_j),
            }
            for candidate in self.search.ranking
        ]

    def figure(self) -> Figure:
        """Return a matplotlib figure: where the step time of the fastest plans goes."""
        return breakdown_figure(
            [
                (f"{candidate.strategy} · {candidate.algorithm}", candidate.breakdown)
                for candidate in self.search.ranking[:_DRAWN]
            ]
        )

    def pictures(self) -> tuple[str, ...]:
        return (notebook_svg(self.figure()),)


def _row(candidate: Plan) -> Document:
    return {
        "strategy": candidate.strategy,
        "algorithm": candidate.algorithm,
        "iteration_time_s": candidate.step_time,
        "samples_per_second": candidate.samples_per_second,
        "communication_time_s": candidate.communication_time,
        "memory_bytes": candidate.memory,
        "fits_memory": candidate.fits,
        "energy_j": candidate.energy.total_j,
        **candidate.breakdown,
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
    settings = {**(set or {}), **fields}
    on = load_cluster(cluster, set=settings)
    graph = trace(model, batch=on.training.batch_per_rank, sequence_length=sequence_length)
    found = search(
        graph,
        on,
        SearchRequest(
            global_batches=None if batch is None else (batch * on.ranks,),
            strategies=KINDS if strategy == ALL else (strategy,),
            algorithms=() if algorithm == ALL else (algorithm,),
            cost_model=known_cost_model(cost_model),
            overlap=overlap,
        ),
    )
    return PlanRanking(graph=graph, cluster=on, search=found)
