"""The search for the fastest plan: bound every row of every kind, refine and simulate in the order of the bounds, stop
when no bound is below the best time.

    rows of all kinds ──► first bound, all at once ──► heap ──► least? ──► next bound ──► back to the heap
                                                                  └──► last bound: simulate ──► ranking

Data parallelism alone is simulated with every algorithm, so that algorithms can be compared. Each cluster's own winner
is found, so that clusters can be compared; the ranking is of all together. Of a kind that cannot win the few rows with
the least bounds are simulated, so that kinds can be compared. Plans that a framework can run are searched first; the
others, placed ones, as far as they are faster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import product
from math import inf

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import Kind
from lightloom.collectives.registry import Refusal, algorithms, attempt
from lightloom.core.arrays import Effort, Floats, Mask, first_rows
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.results import in_groups
from lightloom.core.units import format_time
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.fabrics.load import fabric_from
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.strategy_space import KIND_OF_SHARDING, Strategies, Strategy
from lightloom.planning.parallelism.tensor_parallel import tensor_split
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices
from lightloom.planning.pricing.job import Job, is_mesh
from lightloom.planning.pricing.library_prices import LIBRARY, carrier
from lightloom.planning.pricing.strategy_step import simulate
from lightloom.planning.search.bounds import admitted, bounds, memory
from lightloom.planning.search.plans import Counts, Plan, PlanSearch, RefusedPlan, division, label, order
from lightloom.planning.search.published import default_batch
from lightloom.planning.search.request import DATA_PARALLEL, KINDS, LARGEST, SearchRequest
from lightloom.planning.search.rows import ClusterRows, Row, TooLargeError, verify_winner

COMPARED = 32
"""Rows of a kind that cannot win that are simulated at most, for comparison."""
_REFINED: Effort = 12
"""Bounds of such rows that are refined at most, once one row is simulated."""
_REFINED_IN_VAIN: Effort = 32
"""Bounds of such rows that are refined at most before one of the refined rows is simulated."""
_TOGETHER: Effort = 8
"""Strategies whose second bounds are taken together at first; later as many as were refined before."""
_OF_A_DIVISION: Effort = 3
"""Rows of a division other than the winner's that are simulated at most."""
_MANY: Effort = 256
"""Ranks from which on circuits for every division take long to find."""
_OF_MANY: Effort = 3
"""Divisions whose best plans are found among more ranks; of each but the winner's one row is simulated."""
_MOST_SAMPLES = 1024
"""Samples of a rank that a search for the largest batches tries at most."""


class NotFasterError(UnsupportedError):
    """No plan is as fast as was asked for."""


def fastest(
    graph: ComputeGraph, cluster: Cluster, request: SearchRequest, below: float, *, prices: GroupPrices
) -> Plan:
    """Return the fastest plan that fits on a cluster, if its step takes no more than ``below`` seconds a sample.

    The plan is the first of :func:`search` before schedules are synthesized for it; no other row is simulated that
    cannot be the fastest. Cheap where ``below`` is tight: what cannot be faster is bounded only. Prices that were
    computed are written to the cache on disk.

    Args:
        graph: the model, at any batch.
        cluster: where it runs.
        request: with exactly one global batch. Where it searches strategies that a framework can run, placed plans are
            left out.
        below: seconds a sample.
        prices: of the cluster's fabric and of the request.

    Raises:
        ConfigError: the request has not one global batch.
        NotFasterError: every plan takes longer, or none that was simulated fits the memory.
        UnsupportedError: there is no plan that fits.
    """
    if request.global_batches is None or len(set(request.global_batches)) != 1:
        raise ConfigError(f"global batches {request.global_batches}: expected one")
    rows = ClusterRows(graph, cluster, request, prices)
    found = _Search(rows, lambda: None, below=below).fastest(tuple(request.global_batches))
    prices.save()
    return found


def search(
    graph: ComputeGraph,
    clusters: Cluster | Sequence[Cluster],
    request: SearchRequest | None = None,
    *,
    prices: GroupPrices | None = None,
    may_win: Callable[[Strategies], Mask] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> PlanSearch:
    """Return the search of a model's plans. Its ``ranking`` has those that were simulated, on all clusters together:
    those that fit first, of these those that a framework can run, then least seconds a sample. Simulated are the plans
    whose bounds do not rule out that they win, and what the request compares (algorithms, kinds, divisions of the job).
    Where the request states no batch, smaller ones are tried as long as no plan fits. Prices that were computed are
    written to the cache on disk.

    Args:
        graph: the model, at any batch.
        clusters: where it may run; one entry for each number of ranks.
        request: batches, what may vary, and what is pinned; None to search everything.
        prices: of the one cluster's fabric and of the request, to share them among searches; None to make new ones.
        may_win: returns True for the strategies that are looked at, [strategies]; None to look at all.
        advance: called before each refinement and simulation.

    Raises:
        ConfigError: no cluster, prices for several clusters, or pins that contradict each other.
        UnsupportedError: no cluster has any plan, or none that fits (says how much would do).
    """
    clusters = (clusters,) if isinstance(clusters, Cluster) else tuple(clusters)
    request = request or SearchRequest()
    if not clusters:
        raise ConfigError("no clusters: expected at least one")
    if prices is not None and len(clusters) != 1:
        raise ConfigError(f"prices for {len(clusters)} clusters: expected one cluster, whose they are")
    choices = {} if prices is None else {0: prices}
    *larger, least = _batches(graph, clusters, request)
    for batches in larger:
        with suppress(TooLargeError):
            return _searched(graph, clusters, request, batches, choices, may_win, advance)
    return _searched(graph, clusters, request, least, choices, may_win, advance)


def prices_for(cluster: Cluster, request: SearchRequest, known: GroupPrices | None = None) -> GroupPrices:
    """Return prices of a cluster's fabric and of a request, all new, or with what holds of ``known`` too, the prices of
    another question at the same cost model."""
    exchanges, training = request.exchanges_on(cluster.accelerator), cluster.training
    if known is None:
        return GroupPrices(cluster.fabric, training, request.cost_model, exchanges, request.algorithms)
    return known.asked_again(cluster.fabric, training, exchanges, request.algorithms)


def _batches(graph: ComputeGraph, clusters: Sequence[Cluster], request: SearchRequest) -> list[tuple[int, ...]]:
    """Return the global batches to search (samples of a step), one entry for each attempt, which searches its batches
    together; the next entry counts only where no plan fits those of the one before.

    That is one entry where the request states them; with ``largest_batches`` one entry of the ranks of the largest
    cluster times each power of two up to 1,024. Otherwise entries of one batch: the ranks of the largest cluster times
    a power of two, from the largest that is not above what is published or assumed of the model (32 samples a rank
    where nothing is) down to a sample a rank, by halves, and further, as long as they halve evenly, where all clusters
    are meshes whose ranks may share a sample.
    """
    if request.global_batches is not None:
        return [tuple(dict.fromkeys(request.global_batches))]
    least = max(cluster.ranks for cluster in clusters)
    if request.largest_batches:
        return [tuple(least << power for power in range(_MOST_SAMPLES.bit_length()))]
    published = default_batch(graph, least)
    most = LARGEST if published is None else published.samples // least
    batches = [least << power for power in reversed(range(most.bit_length()))]
    if all(is_mesh(cluster.fabric) for cluster in clusters) and tensor_split(graph).of_neurons:
        while batches[-1] % 2 == 0:
            batches.append(batches[-1] // 2)
    return [(batch,) for batch in batches]


def _searched(
    graph: ComputeGraph,
    clusters: tuple[Cluster, ...],
    request: SearchRequest,
    batches: tuple[int, ...],
    choices: dict[int, GroupPrices],
    may_win: Callable[[Strategies], Mask] | None,
    advance: Callable[[], None],
) -> PlanSearch:
    """Return the search of these global batches on every cluster. ``choices`` holds the prices of each cluster by its
    index; those that are missing are added to it in place, so that later searches share them, and all are written to
    the cache on disk. ``may_win`` returns True for the strategies that are looked at, None for all. ``advance`` is
    called before each refinement and simulation.

    Raises:
        TooLargeError: no cluster has a plan, and on some one plans do not fit the memory.
        UnsupportedError: no cluster has a plan for other reasons.
        ConfigError: a pin that no strategy can have.
    """
    ranking: list[Plan] = []
    refused: list[RefusedPlan] = []
    refusals: list[str] = []
    errors: list[UnsupportedError] = []
    counts = Counts()
    for index, cluster in enumerate(clusters):
        if index not in choices:
            choices[index] = prices_for(cluster, request)
        try:
            rows = ClusterRows(graph, cluster, request, choices[index], may_win)
            plans, others, counted, lines = _Search(rows, advance).run(batches)
        except UnsupportedError as error:
            errors.append(error)
            continue
        ranking, refused, counts, refusals = ranking + plans, refused + others, counts + counted, [*refusals, *lines]
    if not ranking:
        kind = TooLargeError if any(isinstance(error, TooLargeError) for error in errors) else UnsupportedError
        raise kind("; ".join(dict.fromkeys(map(str, errors))))
    for shared in choices.values():
        shared.save()
    ranking.sort(key=order)
    return PlanSearch(
        graph=graph,
        clusters=clusters,
        request=request,
        global_batches=batches,
        ranking=tuple(ranking),
        reference=_reference(graph, clusters, request, ranking[0].global_batch),
        refused=tuple(refused),
        counts=counts,
        refusals=tuple(dict.fromkeys([*refusals, *map(str, errors)])),
    )


def _reference(
    graph: ComputeGraph, clusters: tuple[Cluster, ...], request: SearchRequest, batch: int
) -> tuple[Plan, ...]:
    """Return the plans of data parallelism alone on the electrical reference of the one cluster, with each registered
    algorithm (or its collective library alone, where it has one), at one global batch, best first, those that do not
    fit behind; empty without comparison in the request, with several clusters, without a reference, or where no
    data-parallel kind is asked for."""
    if not request.compare or len(clusters) > 1 or not set(DATA_PARALLEL) & set(request.kinds):
        return ()
    (own,) = clusters
    if own.reference is None:
        return ()
    cluster = replace(own, fabric=own.reference, reference=None)
    exchanges = request.exchanges_on(cluster.accelerator)
    prices = GroupPrices(cluster.fabric, cluster.training, request.cost_model, exchanges)
    # A price of a whole fabric is that of the cluster's own.
    site = request.site.model_copy(update={"fabric_price": None})
    request = replace(request, site=site, algorithms=(), reconfigure_in_step=False)
    plans, _ = compared_plans(ClusterRows(graph, cluster, request, prices), (batch,))
    prices.save()
    return tuple(sorted(plans, key=order))


class _Search:
    """The search of a model's plans on one cluster, of which ``rows`` are all. ``advance`` is called once for each row
    that is taken up; ``below`` is the seconds a sample above which no plan counts."""

    def __init__(self, rows: ClusterRows, advance: Callable[[], None], *, below: float = float("inf")) -> None:
        self._rows = rows
        self._request = rows.request
        self._advance = advance
        self._best = below
        """Least seconds a sample of what is searched so far."""
        self._refined = 0
        self._found: list[tuple[Plan, Row]] = []

    def run(self, batches: tuple[int, ...]) -> tuple[list[Plan], list[RefusedPlan], Counts, tuple[str, ...]]:
        """Search these global batches in the order of the bounds and return four things: the simulated plans, best
        first; data-parallel plans that were refused; counts; and the reasons why rows were left out. The winner and the
        fastest plan that fits are refined (:meth:`ClusterRows.refine_winner`), and the winner that results is verified.

        Where plans are computed by DaDianNao's equations (:attr:`ClusterRows.by_equations`), these are all there is:
        none is refined or verified.

        Raises:
            UnsupportedError: there is no row, or none that fits where the request asks that plans fit.
            ConfigError: no strategy has all that is pinned.
            VerificationError: the circuits of the winner cannot stand at once, or follow its step.
        """
        if self._rows.by_equations:
            plans = sorted(self._rows.broadcast_plans(batches), key=order)
            return plans, [], Counts(rows=len(plans), simulated=len(plans)), ()
        heap = self._rows.first(batches)
        compared, refused = self._compared_algorithms(batches, heap)
        self._best = min((plan.sample_time for plan in compared if plan.fits is not False), default=float("inf"))
        # A placed plan leaves no runnable one out, however fast it is.
        runnable, heap = _by_kind(heap)
        for part in (runnable, heap):
            heapify(part)
            self._simulate(part, until=self._settled)
            if part is runnable and self._request.brief:
                compared = self._synthesized(batches)
        # What is left in the heaps cannot win.
        heap += runnable
        divided = {division(plan.choice) for plan, _ in self._found}
        if not self._request.compare:
            self._compare_divisions(runnable, divided)
        # A search for the winner alone compares no other kinds.
        compared_kinds = {row.kind for row in heap} if self._request.compare or self._request.divisions != 1 else set()
        for kind in sorted(compared_kinds - {row.kind for _, row in self._found}):
            self._refined = 0
            left = [row for row in heap if row.kind == kind]
            if self._request.brief:
                left = self._rows.of_one_quantum(left)
            heapify(left)
            self._simulate(left, until=self._known_best)
            # Of rows whose bounds were refined in vain, the one of the least bound is followed to its end.
            for row in sorted(row for row in left if row.bounded > 1):
                if any(found.kind == kind for _, found in self._found):
                    break
                self._simulate([row], until=lambda _: False)
        if self._request.compare:
            self._compare_divisions(runnable, divided)
        # The least bounds may all be of rows that turn out slow: one of those that nothing is cut for is simulated.
        if compared_kinds and not any(self._rows.undivided(row) for _, row in self._found):
            self._simulate(sorted(row for row in heap if self._rows.undivided(row))[:1], until=lambda _: False)
        plans = sorted(_distinct([plan for plan, _ in self._found], compared), key=order)
        if not plans or (self._request.must_fit and plans[0].fits is False):
            raise self._rows.nothing(refused)
        # The winner, and what is faster than it though no framework runs it.
        fitting = [plan for plan in plans if plan.fits is not False]
        firsts = [plans[0], min(fitting, key=lambda plan: plan.sample_time)] if plans[0] in fitting else []
        for plan in {id(plan): plan for plan in firsts}.values():
            refined = self._rows.refine_winner(plan)
            # A split with other schedules is another plan: its row stays, so that pinning it finds the same again.
            if refined is not plan:
                plans = sorted([refined, *(each for each in plans if each is not plan or plan.runnable)], key=order)
        verify_winner(plans[0])
        if plans[0].in_step is not None:
            # Circuits that follow the step are proved on its timeline.
            _ = plans[0].timeline
        simulated = Counts(rows=len(compared) + len(refused), refused=len(refused), simulated=len(plans))
        return plans, refused, self._rows.counts + simulated, self._rows.refusals

    def fastest(self, batches: tuple[int, ...]) -> Plan:
        """Return the fastest plan of all rows, after simulating only those that may be it; of plans that a framework
        can run where any is searched, else of placed ones.

        Raises:
            NotFasterError: no plan takes as little time a sample as was asked for, or none of those simulated fits the
                memory.
            UnsupportedError: there is no row, or none that fits.
            ConfigError: no strategy has all that is pinned.
        """
        rows, below = self._rows.first(batches), self._best
        runnable, placed = _by_kind(rows)
        heap = runnable or placed
        heapify(heap)
        self._simulate(heap, until=lambda row: row.per_sample >= self._best)
        plans = sorted((plan for plan, _ in self._found), key=order)
        if not plans or plans[0].fits is False or plans[0].sample_time > below:
            if not plans and not heap:
                raise self._rows.nothing()
            name = self._rows.cluster.name
            raise NotFasterError(f"cluster {name}: every plan takes more than {below:.4g} s a sample")
        verify_winner(plans[0])
        return plans[0]

    def _compared_algorithms(
        self, batches: tuple[int, ...], heap: Sequence[Row]
    ) -> tuple[list[Plan], list[RefusedPlan]]:
        """Return the plans and refusals of data parallelism alone with each algorithm by itself; where the request is
        for the largest batches, of each kind, algorithm and method only the largest batch that fits, or the largest
        where none fits. Both are empty where the request does not compare. ``heap`` are the rows of the search.

        Raises:
            UnsupportedError: there is no row, some do not fit, and the request asks that plans fit.
        """
        if not self._request.compare or not set(DATA_PARALLEL) & set(self._request.kinds):
            return [], []
        if not heap and self._request.must_fit and self._rows.too_large:
            raise self._rows.nothing()
        plans, refused = compared_plans(self._rows, batches, self._advance)
        if self._request.largest_batches:
            largest: dict[tuple[str, str, int], Plan] = {}
            for plan in sorted(plans, key=lambda plan: (plan.fits is not False, plan.global_batch)):
                assert isinstance(plan.choice, Strategy)
                largest[plan.strategy, plan.choice.algorithm, plan.choice.exchange] = plan
            plans = list(largest.values())
        return plans, list(dict.fromkeys(refused))

    def _synthesized(self, batches: tuple[int, ...]) -> list[Plan]:
        """Return the plans of data parallelism alone with synthesized schedules, which no row of the search has, that
        may be faster than the best plan so far; the best time of the search is lowered to theirs. Empty where no
        data-parallel kind is searched or the fabric has a collective library."""
        if not set(DATA_PARALLEL) & set(self._request.kinds) or self._rows.job.fabric.library:
            return []
        plans, _ = compared_plans(self._rows, batches, self._advance, below=lambda: self._best)
        self._best = min([self._best, *(plan.sample_time for plan in plans if plan.fits is not False)])
        return plans

    def _compare_divisions(self, rows: list[Row], known: set[Hashable]) -> None:
        """Simulate, of ``rows``, the fastest plan of the divisions of the job with the least bounds, until as many
        divisions as the request asks for are in ``known``, the keys of :func:`division`, which is extended in place.
        Rows of a division are simulated until no bound is below its best time, at most three. With exclusive circuits
        among more than 256 ranks, at most three divisions are known in the end, and one row of each is simulated."""
        if self._request.divisions < 2:
            return
        wanted, many = self._request.divisions, self._rows.job.fabric.exclusive and self._rows.cluster.ranks > _MANY
        most, rows_of_each = (min(wanted, _OF_MANY), 1) if many else (wanted, _OF_A_DIVISION)
        for key, group in in_groups(sorted(rows), lambda row: division(self._rows.choice(row))).items():
            if len(known) >= most:
                return
            if key in known:
                continue
            known.add(key)
            before = len(self._found)

            def enough(row: Row, before: int = before) -> bool:
                """Return True where the row's bound is above the division's best time, or enough were simulated."""
                times = [plan.sample_time for plan, _ in self._found[before:]]
                return len(times) >= rows_of_each or (bool(times) and row.per_sample >= min(times))

            self._simulate(group, until=enough)

    def _settled(self, row: Row) -> bool:
        """Return True where no row with this one's bound or a larger one can be the fastest, since its bound is not
        below the best time of the search; False where the request does not prune.

        In a search for divisions without comparison that has found a plan that fits, placed plans are judged otherwise
        once 12 bounds of placed plans were refined: True where a plan of another kind that fits was found, since a
        placed plan does not win against that, else False.
        """
        if self._request.brief and self._best < inf and KINDS[row.kind] == "placed" and self._refined >= _REFINED:
            return any(found.kind != row.kind and plan.fits is not False for plan, found in self._found)
        return self._request.prune and row.per_sample >= self._best

    def _known_best(self, row: Row) -> bool:
        """Return True where the row's kind, which cannot win, has been compared enough: at least one of its rows was
        simulated, and this row's bound is not below the best of them, or 32 of them were simulated (three in a search
        for divisions without comparison), or 12 bounds of placed rows were refined since this kind's turn began. Before
        any was simulated it is False, but in a search for divisions without comparison True after 32 such bounds."""
        times = [plan.sample_time for plan, found in self._found if found.kind == row.kind]
        if not times:
            return self._request.brief and self._refined >= _REFINED_IN_VAIN
        most = _OF_A_DIVISION if self._request.brief else COMPARED
        return len(times) >= most or self._refined >= _REFINED or row.per_sample >= min(times)

    def _simulate(self, heap: list[Row], until: Callable[[Row], bool]) -> None:
        """Refine the bound of the least row of the heap, or simulate it where no bound is left, over and over until the
        heap is empty or ``until`` returns True for its least row. The heap is changed in place: rows that were not
        needed stay. Plans that were simulated are appended to those found, and those that fit lower the best time of
        the search."""
        refined_rows = 0
        while heap and not until(heap[0]):
            row = heappop(heap)
            self._advance()
            if not row.last:
                self._refined += KINDS[row.kind] == "placed"
                refined = self._rows.refined(row, heap, max(_TOGETHER, refined_rows))
                refined_rows += 1
                if refined is not None:
                    heappush(heap, refined)
            elif (plan := self._rows.simulated(row)) is not None:
                self._found.append((plan, row))
                if plan.fits is not False:
                    self._best = min(self._best, plan.sample_time)


def _by_kind(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return two lists: the rows of plans that a framework can run, and those of placed plans."""
    placed = KINDS.index("placed")
    return [row for row in rows if row.kind != placed], [row for row in rows if row.kind == placed]


def _distinct(plans: Sequence[Plan], compared: Sequence[Plan]) -> list[Plan]:
    """Return the compared plans, then the other plans, without duplicates: a plan of the algorithm "auto" is left out
    where an earlier plan has the same strategy and ends up with the same algorithms; a compared plan where that holds
    and nothing is exchanged."""
    seen: set[tuple[object, tuple[str, ...]]] = set()
    distinct = []
    for place, plan in enumerate((*compared, *plans)):
        is_compared = place < len(compared)
        if isinstance(plan.choice, Strategy) and (is_compared or plan.choice.algorithm == AUTO):
            key = plan.choice._replace(algorithm=""), plan.algorithms
            if key in seen and not (is_compared and plan.algorithms):
                continue
            seen.add(key)
        distinct.append(plan)
    return distinct


# The least first bound of all strategies on a cluster, found by bounding few of them.
#
# No strategy is faster than where its exchanges take no time. That floor is the same on all clusters whose nodes have
# as many ranks, so it is found once for all of them; on each only the strategies of the least floors are bounded,
# until no other floor lies below a bound that was found.

_AT_ONCE: Effort = 64
"""Strategies that are bounded together at first; then twice as many."""
FREE = {
    "kind": "tiers",
    "tiers": [
        {"name": "node", "shape": "switch", "bandwidth": 1e21, "latency": 0.0},
        {"name": "network", "shape": "switch", "bandwidth": 1e21, "taper": 1.0},
    ],
    "hop_latency": 0.0,
    "transport": "ideal",
    "sources": {"hop_latency": "a bound: exchanges take no time"},
}
"""A fabric over which exchanges take no time, but for the ranks of a node."""


def free_rows(graph: ComputeGraph, cluster: Cluster, request: SearchRequest, *, splits_neurons: bool) -> ClusterRows:
    """Return the rows of a copy of the cluster, with as many ranks and as many of them in a node, on a fabric over
    which exchanges take no time. ``splits_neurons`` says whether layers of convolutional networks may be split by their
    outputs."""
    fabric = fabric_from(FREE, cluster.ranks, {"tiers.node.size": cluster.fabric.node_ranks}, where="floor")
    rows = ClusterRows(graph, replace(cluster, fabric=fabric), request, GroupPrices(fabric, cluster.training))
    rows.job = replace(rows.job, splits_neurons=splits_neurons)
    return rows


@dataclass(frozen=True)
class Floor:
    """Strategies that fit the memory, with the least time that each takes on any network, smallest first."""

    strategies: Strategies
    per_sample: Floats
    """Seconds of a step for each sample where exchanges take no time: [strategies]."""

    @classmethod
    def of(cls, free: ClusterRows, batches: tuple[int, ...]) -> Floor:
        """Return the strategies of these global batches (samples of a step) that fit, with their floors, the least
        seconds of a step for each sample on any network, smallest first. ``free`` are the rows of a cluster whose
        exchanges take no time (:func:`free_rows`); a strategy that its fabric does not serve has floor 0."""
        space = free.strategies(batches)
        space = space.rows(memory(free.job, space) <= free.capacity)
        floor, known = np.zeros(len(space)), np.flatnonzero(admitted(free.job, space))
        rows = space.rows(known)
        floor[known] = bounds(free.job, rows, proved=True) / rows.global_batch
        # What this fabric does not serve another one may.
        floor[~np.isfinite(floor)] = 0.0
        order = np.argsort(floor, kind="stable")
        return cls(space.rows(order), floor[order])

    def below(self, seconds: float) -> Callable[[Strategies], Mask]:
        """Return a function that returns, for other strategies, True where the floor is at most so many seconds a
        sample, False for those that do not fit: [strategies]. Algorithms and exchange methods make no difference."""

        def mask(space: Strategies) -> Mask:
            """Return True for the strategies that may take at most so long."""
            names = [name for name in Strategy._fields if name not in ("algorithm", "exchange")]
            both = [np.concatenate([getattr(each, name) for each in (self.strategies, space)]) for name in names]
            first, number = first_rows(both)
            least = np.full(len(first), inf)
            least[number[: len(self.per_sample)]] = self.per_sample
            own = least[number[len(self.per_sample) :]]
            return np.asarray((own <= seconds) & np.isfinite(own))

        return mask

    def least(self, job: Job) -> float:
        """Return the least first bound, in seconds a sample, of these strategies in ``job``, which differs from that of
        the floors in its fabric and prices alone, with as many ranks in a node; infinite where its fabric serves none
        of them."""
        least, begin, count = inf, 0, _AT_ONCE
        while begin < len(self.per_sample) and self.per_sample[begin] < least:
            rows = self.strategies.rows(np.arange(begin, min(begin + count, len(self.per_sample))))
            rows = rows.rows(admitted(job, rows))
            if len(rows):
                least = min(least, float((bounds(job, rows, proved=True) / rows.global_batch).min()))
            begin, count = begin + count, 2 * count
        return least


# Data parallelism alone with every algorithm by itself, so that algorithms can be compared.

_KINDS: tuple[Kind, ...] = ("all-reduce", "all-gather", "reduce-scatter")


_PLAIN = dict.fromkeys(("tp", "pp", "ep", "cp", "micro_batches", "virtual_stages"), 1)


def compared_plans(
    rows: ClusterRows,
    batches: Sequence[int],
    advance: Callable[[], None] = lambda: None,
    *,
    below: Callable[[], float] | None = None,
) -> tuple[list[Plan], list[RefusedPlan]]:
    """Return the simulated plans of data parallelism alone with each algorithm, batch and exchange method, those that
    do not fit included, and the plans that are refused. The schedules of each algorithm are dropped from memory once
    its plans are simulated. Both are empty for one rank, on a fabric of parts, whose levels each have their own
    algorithm, or where pins exclude data parallelism alone.

    Args:
        rows: of the cluster.
        batches: global batches, samples of a step.
        advance: called before each algorithm.
        below: returns the seconds a sample below which plans count at that moment; with it only algorithms that build
            schedules by size are tried, for strategies that fit and whose bound is below. None to try all.
    """
    plans: list[Plan] = []
    refused: list[RefusedPlan] = []
    request, prices, fabric, ranks = rows.request, rows.prices, rows.job.fabric, rows.cluster.ranks
    if ranks == 1 or fabric.parts or not request.pins.allows(**_PLAIN, dp=ranks, recomputation="none"):
        return plans, refused
    for algorithm in _carriers(rows):
        if below is not None and not algorithm.by_size:
            continue
        advance()
        for outcome in _with_algorithm(rows, algorithm, batches, below):
            (plans if isinstance(outcome, Plan) else refused).append(outcome)  # type: ignore[arg-type]
        # Price what bounds will need while the schedules exist.
        for kind in _KINDS if not algorithm.by_size else ():
            if prices.refusal(kind, algorithm.name, ranks, 0) is None:
                prices.failure(kind, algorithm, fabric)
        if algorithm is not LIBRARY:
            prices.schedules(algorithm, fabric).drop_schedules()
    return plans, refused


def _carriers(rows: ClusterRows) -> list[Algorithm]:
    """Return the algorithms that data parallelism is compared with: those that the request names, else the library
    alone where the fabric has one, as schedules do not pay for software, else all that are registered."""
    if rows.request.algorithms:
        return [*map(carrier, rows.request.algorithms)]
    return [LIBRARY] if rows.job.fabric.library else [*algorithms().values()]


def _with_algorithm(
    rows: ClusterRows, algorithm: Algorithm, batches: Sequence[int], below: Callable[[], float] | None
) -> Iterator[Plan | RefusedPlan]:
    """Yield the plan, or the refusal, of data parallelism alone with one algorithm: for each requested kind and batch,
    with gradients as they are and, unless that was refused, with each method of exchange.

    Batches that the ranks do not divide or the pins exclude are skipped; with ``below``, which returns seconds a
    sample, so are strategies that do not fit or whose bound is not below.
    """
    ranks, request = rows.cluster.ranks, rows.request
    shardings = [sharding for sharding, kind in KIND_OF_SHARDING.items() if kind in request.kinds]
    for sharding, batch in product(shardings, batches):
        if batch % ranks or not request.pins.allows(sharding=sharding, micro_batch=batch // ranks):
            continue
        strategy = Strategy(ranks, 1, 1, 1, batch, sharding, "none", algorithm.name, 0)
        if below is not None and not _may_be_faster(rows, strategy, below()):
            continue
        plain = _simulated(rows, algorithm, strategy)
        yield plain
        if isinstance(plain, RefusedPlan):
            continue
        for number in range(1, len(rows.job.exchanges) + 1):
            coded = strategy._replace(exchange=number)
            if below is not None and not _may_be_faster(rows, coded, below()):
                continue
            other = _simulated(rows, algorithm, coded)
            yield replace(other, uncompressed=plain) if isinstance(other, Plan) else other


def _may_be_faster(rows: ClusterRows, strategy: Strategy, below: float) -> bool:
    """Return True where a strategy fits the memory, is served, and its first bound is below so many seconds a sample:
    with any algorithm, or, where a method exchanges the gradients, with that of the strategy."""
    row = Strategies.of(strategy if strategy.exchange else strategy._replace(algorithm=AUTO))
    if not rows.can_run(row):
        return False
    return float(bounds(rows.job, row, proved=True).item() / strategy.global_batch) < below


def _simulated(rows: ClusterRows, algorithm: Algorithm, strategy: Strategy) -> Plan | RefusedPlan:
    """Return the plan of a strategy that is data parallelism alone, simulated by one algorithm whether it fits the
    memory or not, with the seconds that it computes as its lower bound; a RefusedPlan, with the reason, where the
    algorithm refuses or fails."""
    job, method = rows.job, rows.job.exchange(strategy)
    kinds = dict.fromkeys(each.kind for each in job.model.data_parallel_plan(strategy).exchanges)
    reasons = [rows.prices.refusal(kind, algorithm.name, strategy.dp, strategy.exchange) for kind in kinds]
    why = next(filter(None, reasons), None)
    step = Refusal(algorithm.name, why) if why else attempt(algorithm, partial(simulate, job, strategy))
    if isinstance(step, Refusal):
        kind, name = KIND_OF_SHARDING[strategy.sharding], None if method is None else method.name
        return RefusedPlan(strategy=kind, algorithm=algorithm.name, compression=name, why=step.why)
    result = step.result
    assert result is not None
    held = memory(job, Strategies.of(strategy)).item()
    return rows.plan(job, strategy, step, result.compute_time, held, result.sent_joules, method)


# Sensitivity of a winner to the latency of a hop: the smallest one at which another plan wins.
#
# Plans are searched anew with latencies between the fabric's own and ten microseconds, by bisection: where the same
# plan wins at the largest latency, it is taken to win at all smaller ones too. A plan is its degrees and the
# algorithm of its largest exchange. One that takes as long as the new winner has not lost.

_SAME_STEP = 1e-9
"""Share by which the first winner may be slower and still wins."""
LATENCIES = (50e-9, 100e-9, 200e-9, 400e-9, 700e-9, 1e-6, 2e-6, 5e-6, 10e-6)
"""Seconds a hop that are tried."""


@dataclass(frozen=True, slots=True)
class LatencySensitivity:
    """Dependence of a winner on the latency of a hop."""

    own: float
    """Seconds a hop of the fabric."""
    latency: float | None
    """Smallest seconds a hop among those tried at which another plan wins; None where none does."""
    winner: Plan | None
    """The plan that wins there."""
    slower: float | None
    """How many times as long the first winner takes there; None where it was not simulated."""

    def __str__(self) -> str:
        """Return in words at which latency the winner changes and to what, or that it stays."""
        if self.winner is None or self.latency is None:
            return f"the winner stays the winner up to {format_time(max(LATENCIES))} a hop"
        first = "" if self.slower is None else f", the first {self.slower:.4g} times as long"
        return (
            f"the winner changes at {format_time(self.latency)} a hop: {self.winner.short_label} then takes "
            f"{format_time(self.winner.step_time)}{first}"
        )

    def to_json(self) -> dict[str, object]:
        """Return plain types in SI units: ``own_hop_latency_s`` and ``changes_at_hop_latency_s``, seconds a hop; the
        label (``winner``) and the step time (``iteration_time_s``) of the plan that wins there; and ``slower``, how
        many times as long the first winner takes, None where it was not simulated. All but the fabric's own latency are
        None where no other plan wins."""
        return {
            "own_hop_latency_s": self.own,
            "changes_at_hop_latency_s": self.latency,
            "winner": None if self.winner is None else self.winner.label,
            "iteration_time_s": None if self.winner is None else self.winner.step_time,
            "slower": self.slower,
        }


def latency_sensitivity(ranked: PlanSearch, latencies: Sequence[float] = LATENCIES) -> LatencySensitivity:
    """Return the smallest of the ``latencies`` above the fabric's own at which another plan wins on the winner's
    cluster, with that plan, found by bisection, and how many times as long the first winner takes there (None where it
    was not simulated), beside the fabric's own latency. All but the own latency are None where no latency lies above
    the own one, or where the first winner wins at the largest latency, and so, it is taken, at all smaller ones. The
    first winner still wins where it takes at most 1e-9 more than the best.

    Args:
        ranked: a search; its graph, pins and kinds are searched again at the winner's batch.
        latencies: seconds a hop, ascending, nine from 50 ns to 10 us if not given; those above the fabric's own are
            tried.
    """
    own = ranked.winner.cluster.fabric.hop_latency
    tried = [seconds for seconds in latencies if seconds > own]
    found: dict[float, LatencySensitivity] = {}

    def changes(seconds: float) -> bool:
        """Return whether another plan wins at this latency, and note which in ``found``."""
        winner, slower = _winner_at(ranked, seconds)
        found[seconds] = LatencySensitivity(own, seconds, winner, slower)
        return slower is None or slower > 1 + _SAME_STEP

    if not tried or not changes(tried[-1]):
        return LatencySensitivity(own, None, None, None)
    return found[tried[bisect_left(tried, True, hi=len(tried) - 1, key=changes)]]


def _winner_at(ranked: PlanSearch, seconds: float) -> tuple[Plan, float | None]:
    """Return the plan that wins on the first winner's cluster with ``seconds`` of latency a hop, and how many times as
    long a sample the same plan as the first winner takes there, 1 where it wins still.

    The second is None where the first winner is so much slower that it was not simulated.
    """
    first = ranked.winner
    cluster = replace(first.cluster, fabric=first.cluster.fabric.with_hop_latency(seconds), reference=None)
    request = replace(ranked.request, global_batches=[first.global_batch], largest_batches=False)
    again = search(ranked.graph, cluster, request)
    times = [plan.sample_time for plan in again.ranking if _identity(plan) == _identity(first)]
    return again.winner, min(times) / again.winner.sample_time if times else None


def _identity(plan: Plan) -> tuple[str, str, str]:
    """Return the key by which two plans count as the same one: kind, label of the choice and algorithm of the largest
    exchange."""
    return plan.strategy, label(plan.choice), plan.algorithm
