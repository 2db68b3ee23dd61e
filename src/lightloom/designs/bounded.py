"""What is known of a design before anything is searched on it: its worth, and a proved bound of its step time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from lightloom.clusters.base import Cluster
from lightloom.clusters.load import cluster_from
from lightloom.collectives.registry import algorithms
from lightloom.core.errors import InputError, UnsupportedError
from lightloom.designs.space import Design
from lightloom.designs.worth import Worth
from lightloom.economics.site import Site
from lightloom.fabrics.load import fabric_from
from lightloom.planner.pricing.divided_model import DividedModel
from lightloom.planner.pricing.group_prices import GroupPrices
from lightloom.planner.pricing.job import Job
from lightloom.planner.search.floor import Floor
from lightloom.planner.search.request import SearchRequest
from lightloom.planner.search.rows import ClusterRows, TooLargeError
from lightloom.planner.search.search import NotFasterError, fastest
from lightloom.workloads.graph import ComputeGraph

STRATEGIES = ("ddp", "fsdp", "tensor-pipeline")
"""Strategies that are searched: placed plans are not."""
MOST_ROWS = 1 << 17
"""Rows of schedules that are built: those of an all-reduce of 256 ranks that lists every transfer."""
_SLACK = 1 + 1e-9
_FREE = {
    "kind": "two-tier-switch",
    "bandwidth": 1e21,
    "domain_bandwidth": 1e21,
    "oversubscription": 1.0,
    "hop_latency": 0.0,
    "domain_latency": 0.0,
    "transport": "ideal",
    "sources": {"hop_latency": "a bound: exchanges take no time"},
}
"""A fabric over which exchanges take no time, but for the ranks of a node."""
_floors: dict[tuple[int, int, int], tuple[DividedModel, Floor]] = {}
"""By ranks, ranks of a node and samples a rank, with the model whose they are."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What every design is asked."""

    graph: ComputeGraph
    batch_per_rank: int
    site: Site

    def request(self, ranks: int) -> SearchRequest:
        """Return the request to the planner, with one global batch for all designs of so many ranks."""
        return SearchRequest(
            global_batches=(self.batch_per_rank * ranks,), strategies=STRATEGIES, site=self.site, compare=False
        )


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """A design with its worth and the least seconds of a step for each sample."""

    design: Design
    worth: Worth | None = None
    """None where nothing states what it is built of, or it cannot be built."""
    least_time: float = 0.0
    bounded: bool = False
    """Whether the bound holds the exchanges of the design's own fabric."""
    limit: str = ""
    """What the bound does not hold for, since it was not tried; empty where it holds for all plans."""
    why: str = ""
    """Why the design has no plan; empty where it may have one."""
    too_large: bool = False
    """Whether it has none since no plan fits the memory."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """What the planner found for a design."""

    design: Design
    sample_time: float = inf
    """Seconds of the step of the fastest plan, for each sample; infinite where it is slower than was asked for."""
    sent: float = 0.0
    """Joules for each sample that sending adds to the static power."""
    label: str = ""
    """The plan."""
    step_time: float = inf
    why: str = ""
    """Why the design has no plan; empty where it has one, or only slower ones."""
    left_out: str = ""
    """What was not tried, or failed since memory ran out for instance: a faster plan may exist."""

    @property
    def plan(self) -> str:
        """The plan, and what was left out where it was searched, for people."""
        return f"{self.label} (left out: {self.left_out})" if self.left_out else self.label


@dataclass(frozen=True, kw_only=True)
class Task:
    """A design that a worker bounds, or searches for a plan below so many seconds a sample."""

    question: Question
    design: Design
    below: float | None = None
    """None: the design is bounded only."""


def work(task: Task) -> Bounded | Evaluated:
    """Return what a task asks for."""
    if task.below is not None:
        return _evaluated(task.question, task.design, task.below)
    try:
        return _bounded(task.question, task.design)
    except InputError as error:
        why = "; ".join(filter(None, (str(error), _limit(task.design.cluster()))))
        return Bounded(design=task.design, why=why, too_large=isinstance(error, TooLargeError))


def assess(question: Question, design: Design) -> Bounded:
    """Return the worth of a design, whatever it trains."""
    try:
        site = question.site
        if design.fabric_price is not None:
            # A price of the whole stands for those of all parts.
            site = site.model_copy(update={"fabric_price": design.fabric_price, "prices": {}})
        return Bounded(design=design, worth=Worth.of(design.cluster(), site))
    except InputError as error:
        return Bounded(design=design, why=str(error))


def least_time(question: Question, ranks: int, accelerator: str) -> float:
    """Return seconds of a step for each sample that no fabric makes shorter: those of ranks whose exchanges take no
    time; 0 where no plan fits."""
    fabric = _FREE | {"domain_size": ranks}
    cluster = cluster_from({"ranks": ranks, "accelerator": accelerator, "fabric": fabric}, name="without exchanges")
    try:
        # Bounds build no schedule, so that groups of any size count.
        return _least_time(question, cluster, GroupPrices(cluster.fabric, cluster.training)) / _SLACK
    except UnsupportedError:
        return 0.0


def _bounded(question: Question, design: Design) -> Bounded:
    cluster = design.cluster()
    least = _least_time(question, cluster, _prices(cluster))
    return Bounded(design=design, least_time=least, bounded=True, limit=_limit(cluster))


def _least_time(question: Question, cluster: Cluster, prices: GroupPrices) -> float:
    request = question.request(cluster.ranks)
    rows = ClusterRows(question.graph, cluster, request, prices)
    assert request.global_batches is not None
    batches = tuple(request.global_batches)
    least = _floor(question, rows.job, cluster, batches).least(rows.job)
    if least == inf and not rows.first(batches):
        raise rows.nothing()
    return least


def _floor(question: Question, job: Job, cluster: Cluster, batches: tuple[int, ...]) -> Floor:
    """The floors of all clusters with as many ranks in a node."""
    key = cluster.ranks, cluster.fabric.node_ranks, question.batch_per_rank
    if key not in _floors or _floors[key][0] is not job.model:
        fabric = fabric_from(_FREE | {"domain_size": cluster.fabric.node_ranks}, cluster.ranks, where="floor")
        free = replace(cluster, fabric=fabric)
        rows = ClusterRows(question.graph, free, question.request(free.ranks), GroupPrices(fabric, free.training))
        _floors[key] = rows.job.model, Floor.of(rows, batches)
    return _floors[key][1]


def _limit(cluster: Cluster) -> str:
    """What was not tried, for people; empty where a library or some schedule serves all ranks at once."""
    fabric = cluster.fabric
    if fabric.library is not None:
        return ""
    for each in algorithms().values():
        if not each.by_size and each.rows("all-reduce", fabric) <= MOST_ROWS and not each.refusal("all-reduce", fabric):
            return ""
    return f"no schedule among all {fabric.ranks:,} ranks was tried: each lists more than {MOST_ROWS:,} transfers"


def _left_out(cluster: Cluster, prices: GroupPrices) -> str:
    """What was not tried, and the algorithms that raised an error of their own, for people."""
    errors = [why for name, why in prices.failures.items() if why.startswith(f"{name} raises ")]
    return "; ".join(dict.fromkeys([*filter(None, [_limit(cluster)]), *errors]))


def _prices(cluster: Cluster) -> GroupPrices:
    return GroupPrices(cluster.fabric, cluster.training, most_rows=MOST_ROWS)


def _evaluated(question: Question, design: Design, below: float) -> Evaluated:
    try:
        cluster, request = design.cluster(), question.request(design.ranks)
        prices = _prices(cluster)
        plan = fastest(question.graph, cluster, request, below * _SLACK, prices=prices)
    except NotFasterError:
        return Evaluated(design=design, left_out=_left_out(cluster, prices))
    except InputError as error:
        return Evaluated(design=design, why=str(error))
    return Evaluated(
        design=design,
        sample_time=plan.sample_time,
        sent=(plan.ledger.sent_joules or 0.0) / plan.global_batch,
        label=plan.label,
        step_time=plan.step_time,
        left_out=_left_out(cluster, prices),
    )
