"""The fastest split of a model over clusters: bound every row of every kind, refine and simulate in the order of the
bounds, stop when no bound is below the best time.

    rows of all kinds ──► first bound, all at once ──► heap ──► least? ──► next bound ──► back to the heap
                                                                  └──► last bound: simulate ──► ranking

Each cluster's own winner is found, so that clusters can be compared; the ranking is of all together. Of a kind that
cannot win the few rows with the least bounds are simulated, so that kinds can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from lightloom.clusters.base import Cluster
from lightloom.core.errors import ConfigError, UnknownNameError, UnsupportedError
from lightloom.planner.pricing.compression import Compression
from lightloom.planner.pricing.group_prices import GroupPrices
from lightloom.planner.pricing.placed_space import DEFAULT_QUANTA
from lightloom.planner.search.plans import KINDS, Counts, SplitPlan, SplitSearch
from lightloom.planner.search.rows import Asked, Row, SplitRows
from lightloom.workloads.graph import ComputeGraph

DEFAULT_ALGORITHMS = ("ring-two-way-striped", "recursive-doubling-striped", "one-stage-striped")
"""What serves rings and circuit switches well."""
COMPARED = 32
"""Rows of a kind that cannot win that are simulated at most, for comparison."""


def split_search(
    graph: ComputeGraph,
    clusters: Sequence[Cluster],
    *,
    global_batches: Sequence[int],
    quanta: Sequence[float] = DEFAULT_QUANTA,
    algorithms: Sequence[str] = DEFAULT_ALGORITHMS,
    kinds: Sequence[str] = KINDS,
    compressions: Sequence[Compression] = (),
    prices: GroupPrices | None = None,
    prune: bool = True,
    advance: Callable[[], None] = lambda: None,
) -> SplitSearch:
    """Rank the ways to split a model, over all clusters together, by seconds of a step for each of its samples.

    Args:
        graph: the model, at any batch.
        clusters: where it may run; one entry for each number of ranks.
        global_batches: samples of a step on all ranks together.
        quanta: seconds below which placed plans cut no operator.
        algorithms: of the collectives of strategies.
        kinds: some of :data:`KINDS`.
        compressions: of gradients; every row is there without, and with each.
        prices: of the one cluster's fabric, settings and compressions, where several models are searched there.
        prune: False simulates every row that fits.
        advance: called before each refinement and simulation.

    Raises:
        ConfigError: a batch or quantum is not positive, a list is empty, or prices for several clusters.
        UnknownNameError: no such kind or algorithm.
        UnsupportedError: no cluster has any row, or none that fits (says how much would do).
    """
    _check(clusters, global_batches, quanta, kinds)
    if prices is not None and len(clusters) != 1:
        raise ConfigError(f"prices for {len(clusters)} clusters: expected one cluster, whose they are")
    asked = Asked(global_batches, quanta, algorithms, kinds, compressions)
    found, why = [], []
    for cluster in clusters:
        try:
            found.append(_Search(SplitRows(graph, cluster, asked, prices), prune, advance).run())
        except UnsupportedError as error:
            why.append(str(error))
    if not found:
        raise UnsupportedError("; ".join(dict.fromkeys(why)))
    ranking = sorted((plan for each in found for plan in each.ranking), key=lambda plan: plan.sample_time)
    return SplitSearch(
        ranking=tuple(ranking),
        counts=sum((each.counts for each in found), Counts()),
        refusals=tuple(dict.fromkeys([*(line for each in found for line in each.refusals), *why])),
    )


def _check(clusters: Sequence[Cluster], batches: Sequence[int], quanta: Sequence[float], kinds: Sequence[str]) -> None:
    for name, values in (("clusters", clusters), ("global batches", batches), ("quanta", quanta), ("kinds", kinds)):
        if not len(values):
            raise ConfigError(f"no {name}: expected at least one")
    wrong = [each for each in batches if each < 1]
    if wrong:
        raise ConfigError(f"global batch of {wrong[0]}: expected at least 1 sample")
    late = [each for each in quanta if not each > 0]
    if late:
        raise ConfigError(f"quantum of {late[0]} s: expected more than 0")
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownNameError("kind of split", kind, KINDS)


class _Search:
    """On one cluster."""

    def __init__(self, rows: SplitRows, prune: bool, advance: Callable[[], None]) -> None:
        self._rows = rows
        self._prune = prune
        self._advance = advance
        self._best = float("inf")
        self._found: list[tuple[SplitPlan, Row]] = []

    def run(self) -> SplitSearch:
        """Simulate in the order of the bounds.

        Raises:
            UnsupportedError: there is no row, or none that fits.
        """
        heap = self._rows.first()
        heapify(heap)
        self._simulate(heap, until=lambda row: self._prune and row.per_sample >= self._best)
        # What is left in the heap cannot win.
        for kind in sorted({row.kind for row in heap} - {row.kind for _, row in self._found}):
            left = [row for row in heap if row.kind == kind]
            heapify(left)
            self._simulate(left, until=self._compared)
        if not self._found:
            raise UnsupportedError(self._rows.why_nothing())
        ranking = [plan for plan, _ in sorted(self._found, key=lambda each: (each[0].sample_time, each[1][1:3]))]
        ranking[0] = self._rows.placed_again(ranking[0])
        return SplitSearch(
            ranking=tuple(ranking),
            counts=self._rows.counts + Counts(simulated=len(ranking)),
            refusals=self._rows.refusals,
        )

    def _compared(self, row: Row) -> bool:
        """Whether a kind that cannot win has its best row, or rows enough to compare it by."""
        times = [plan.sample_time for plan, had in self._found if had.kind == row.kind]
        return len(times) >= COMPARED or (len(times) > 0 and row.per_sample >= min(times))

    def _simulate(self, heap: list[Row], until: Callable[[Row], bool]) -> None:
        while heap and not until(heap[0]):
            row = heappop(heap)
            self._advance()
            if not row.last:
                refined = self._rows.refined(row)
                if refined is not None:
                    heappush(heap, refined)
                continue
            plan = self._rows.simulated(row)
            self._found.append((plan, row))
            self._best = min(self._best, plan.sample_time)
