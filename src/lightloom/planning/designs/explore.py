"""The search over designs: bound all of them, evaluate those that no evaluated one beats already, keep the front.

    designs ──► worth ──► most promising first ──► beaten at its bound? ──► left out
                                 ├──► bound with exchanges ──► back to the others
                                 └──► fastest plan below the time at which it is beaten ──► front

Electrical and optical designs have fronts of their own, so that the better technology can be set against the best of
the other one; the front of all is taken from both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import get_args

from lightloom.collectives.registry import algorithms
from lightloom.core.errors import InputError, UnsupportedError
from lightloom.core.journal import Journal, open_journal
from lightloom.core.results import Advance, Document, attributes, content_hash, ignore, in_groups
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import cluster_from
from lightloom.models.graph import ComputeGraph
from lightloom.planning.designs.space import Design, Front, Technology, Worth
from lightloom.planning.economics.ledger import Site
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import DividedModel, Job
from lightloom.planning.search.request import LARGEST, SearchRequest
from lightloom.planning.search.rows import ClusterRows, TooLargeError
from lightloom.planning.search.search import FREE, Floor, NotFasterError, fastest, free_rows
from lightloom.planning.sweeps.experiment import code_version

# A design before anything is searched on it: its worth, and a proved bound of its step time.

STRATEGIES = ("ddp", "fsdp", "tensor-pipeline")
"""Strategies that are searched: placed plans are not."""
MOST_ROWS = 1 << 17
"""Rows of schedules that are built: those of an all-reduce of 256 ranks that lists every transfer."""
_SLACK = 1 + 1e-9
_floors: dict[tuple[int, int, int, bool], tuple[DividedModel, Floor]] = {}
"""By ranks, ranks of a node, samples a rank and whether neurons are split, with the model whose they are."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """The training job and the site for which all designs are compared."""

    graph: ComputeGraph
    batch_per_rank: int
    site: Site

    def request(self, ranks: int) -> SearchRequest:
        """Return the planner's request for a design with so many ranks: one global batch of ``batch_per_rank`` ·
        ``ranks`` samples, the strategies "ddp", "fsdp" and "tensor-pipeline" (no placed plans), the question's site,
        and no comparison of the plans."""
        batches = (self.batch_per_rank * ranks,)
        return SearchRequest(global_batches=batches, strategies=STRATEGIES, site=self.site, compare=False)


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """A design with its worth and a lower bound of the seconds of a step for each sample."""

    design: Design
    worth: Worth | None = None
    """None where nothing states what it is built of, or it cannot be built."""
    least_time: float = 0.0
    bounded: bool = False
    """True if the bound includes the exchanges of the design's own fabric."""
    limit: str = ""
    """Plans that were not tried, for which the bound does not hold; empty where it holds for all plans."""
    why: str = ""
    """Why the design has no plan; empty where it may have one."""
    too_large: bool = False
    """True if no plan fits the memory."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """Fastest plan that the planner found for a design."""

    design: Design
    sample_time: float = inf
    """Seconds of the step of the fastest plan, for each sample; infinite where it is slower than was asked for."""
    sent: float = 0.0
    """Joules for each sample that sending adds to the static power."""
    label: str = ""
    """Name of the plan."""
    step_time: float = inf
    why: str = ""
    """Why the design has no plan; empty where it has one, or only slower ones."""
    left_out: str = ""
    """Algorithms that were not tried or failed, so that a faster plan may exist."""

    @property
    def plan(self) -> str:
        """Label of the plan, with what the search left out behind it: ``LABEL (left out: WHY)``; empty where no plan
        was found and nothing was left out."""
        return f"{self.label} (left out: {self.left_out})" if self.left_out else self.label


@dataclass(frozen=True, kw_only=True)
class Task:
    """A design that a worker bounds, or for which it searches the fastest plan below so many seconds a sample."""

    question: Question
    design: Design
    below: float | None = None
    """None: the design is bounded only."""


def solve_task(task: Task) -> Bounded | Evaluated:
    """Return a lower bound of a task's design, in seconds of a step for each sample (``least_time`` of a
    :class:`Bounded`), where ``task.below`` is None, else the fastest plan of at most ``below`` seconds a sample (an
    :class:`Evaluated`, with an infinite time where every plan is slower).

    A design that cannot be built or has no plan comes back with the reason in ``why``, and, if only bounded, with
    ``too_large`` where the memory is the reason; no InputError is raised. A bound does not hold for plans that
    ``limit`` names as not tried. A :class:`Bounded` result has no worth. Worker processes call it.
    """
    if task.below is not None:
        return _evaluated(task.question, task.design, task.below)
    limit = ""
    try:
        cluster = task.design.cluster()
        limit = _limit(cluster)
        least = _least_time(task.question, cluster, _prices(cluster))
        return Bounded(design=task.design, least_time=least, bounded=True, limit=limit)
    except InputError as error:
        why = "; ".join(filter(None, (str(error), limit)))
        return Bounded(design=task.design, why=why, too_large=isinstance(error, TooLargeError))


def assess(question: Question, design: Design) -> Bounded:
    """Return a design with its worth at the question's site: prices, power and goodput of its cluster, which do not
    depend on the model; its step time is not bounded yet. Where the design states a price of the whole fabric, that
    replaces the prices of all parts. A design that cannot be built or has no price comes back without worth, and with
    the reason in ``why``."""
    try:
        site = question.site
        if design.fabric_price is not None:
            # A price of the whole stands for those of all parts.
            site = site.model_copy(update={"fabric_price": design.fabric_price, "prices": {}})
        return Bounded(design=design, worth=Worth.of(design.cluster(), site))
    except InputError as error:
        return Bounded(design=design, why=str(error))


def least_time(question: Question, ranks: int, accelerator: str) -> float:
    """Return the seconds of a step for each sample (of a batch of the question's samples a rank) that no fabric makes
    shorter: the least bound of ``ranks`` ranks of an accelerator in one node whose exchanges take no time; 0 where no
    plan fits or is served. It is taken a billionth lower, so that rounding makes no design seem faster."""
    fields, one_node = {"ranks": ranks, "accelerator": accelerator, "fabric": FREE}, {"fabric.tiers.node.size": ranks}
    cluster = cluster_from(fields, one_node, name="without exchanges")
    try:
        # Bounds build no schedule, so that groups of any size count.
        prices = GroupPrices(cluster.fabric, cluster.training)
        return _least_time(question, cluster, prices, splits_neurons=True) / _SLACK
    except UnsupportedError:
        return 0.0


def _least_time(question: Question, cluster: Cluster, prices: GroupPrices, *, splits_neurons: bool = False) -> float:
    """Return a lower bound of the step time on a cluster, in seconds for each sample: the least of the bounds, which
    take no schedule into account, of all strategies. With ``splits_neurons``, strategies that split layers among
    tensor-parallel ranks by their outputs count whatever the fabric; else only where the cluster's job has them.

    Raises:
        UnsupportedError: no strategy is served or fits; with the reason.
    """
    request = question.request(cluster.ranks)
    rows = ClusterRows(question.graph, cluster, request, prices)
    rows.job = replace(rows.job, splits_neurons=splits_neurons or rows.job.splits_neurons)
    assert request.global_batches is not None
    batches = tuple(request.global_batches)
    least = _shared_floor(question, rows.job, cluster, batches).least(rows.job)
    if least == inf and not rows.first(batches):
        raise rows.nothing()
    return least


def _shared_floor(question: Question, job: Job, cluster: Cluster, batches: tuple[int, ...]) -> Floor:
    """Return the floors (bounds without the fabric's exchanges) of strategies of these global batches, cached for all
    clusters of one model with as many ranks, as many of them in a node and as many samples a rank, that split layers
    alike."""
    key = cluster.ranks, cluster.fabric.node_ranks, question.batch_per_rank, job.splits_neurons
    if key not in _floors or _floors[key][0] is not job.model:
        rows = free_rows(question.graph, cluster, question.request(cluster.ranks), splits_neurons=job.splits_neurons)
        _floors[key] = rows.job.model, Floor.of(rows, batches)
    return _floors[key][1]


def _limit(cluster: Cluster) -> str:
    """Return a clause, without a full stop, that no all-reduce schedule among all ranks of a cluster was small enough
    to try, of at most 131,072 transfers; empty where a library or some schedule serves all ranks at once; algorithms
    that choose by size do not count."""
    fabric = cluster.fabric
    if fabric.library is not None:
        return ""
    for each in algorithms().values():
        if not each.by_size and each.rows("all-reduce", fabric) <= MOST_ROWS and not each.refusal("all-reduce", fabric):
            return ""
    return f"no schedule among all {fabric.ranks:,} ranks was tried: each lists more than {MOST_ROWS:,} transfers"


def _left_out(cluster: Cluster, prices: GroupPrices) -> str:
    """Return clauses, joined by semicolons, on schedules that were too large to try, and on algorithms that raised an
    error of their own in ``prices``; empty where there are neither."""
    errors = [why for name, why in prices.failures.items() if why.startswith(f"{name} raises ")]
    return "; ".join(dict.fromkeys([*filter(None, [_limit(cluster)]), *errors]))


def _prices(cluster: Cluster) -> GroupPrices:
    """Return the prices of collectives on a cluster's fabric, without schedules of more than :data:`MOST_ROWS`
    (131,072) rows."""
    return GroupPrices(cluster.fabric, cluster.training, most_rows=MOST_ROWS)


def _evaluated(question: Question, design: Design, below: float) -> Evaluated:
    """Return the fastest plan of a design that takes no more than ``below`` seconds a sample (a billionth more for
    rounding): its seconds for each sample (``sample_time``) and for a step, its ``label``, and the joules that sending
    adds for each sample (``sent``, 0 where they are not known). The times are infinite where every plan is slower; the
    reason is in ``why`` where there is no plan or the design cannot be built. ``left_out`` says which schedules were
    not tried or failed."""
    try:
        cluster, request = design.cluster(), question.request(design.ranks)
        prices = _prices(cluster)
        plan = fastest(question.graph, cluster, request, below * _SLACK, prices=prices)
    except NotFasterError:
        return Evaluated(design=design, left_out=_left_out(cluster, prices))
    except InputError as error:
        return Evaluated(design=design, why=str(error))
    sent = (plan.ledger.sent_joules or 0.0) / plan.global_batch
    found = attributes(plan, "sample_time label step_time")
    return Evaluated(design=design, sent=sent, left_out=_left_out(cluster, prices), **found)


TECHNOLOGIES: tuple[Technology, ...] = get_args(Technology)
Runner = Callable[[Sequence[Task]], Iterable[Bounded | Evaluated]]
"""Does tasks in any order, at once or one by one."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A design that was evaluated, with its worth and its place beside the others."""

    design: Design
    worth: Worth
    least_time: float
    """Proved lower bound of the seconds of a step for each sample."""
    evaluated: Evaluated
    on_front: bool = False
    """True if no design of any technology beats it."""
    leads: bool = False
    """True if no design of its own technology beats it."""

    @property
    def point(self) -> tuple[float, float, float]:
        """Samples per dollar, per joule at the meter and per second by the design's fastest plan, after goodput, with
        unknown prices, watts and failure rates as 0; the first two also pay for spare nodes."""
        return self.worth.point(self.evaluated.sample_time, self.evaluated.sent)

    @property
    def share(self) -> float:
        """Dollars or joules for each sample that one dollar a second, or one watt at the meter, more for every rank
        adds: ranks · seconds a sample, over the share of the work that failures and spare nodes leave."""
        return self.worth.ranks / self.worth.kept * self.evaluated.sample_time

    def assuming(self, figures: Mapping[str, float]) -> Candidate:
        """Return this candidate with the given figures in place of unknown prices and powers: dollars or watts (before
        the meter) of one part or rank, by names of ``worth.variables`` (``{"price of wdm-engine": 119.0}``); what they
        do not name stays unknown. AssertionError for other names."""
        return replace(self, worth=self.worth.assuming(figures))


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """Everything that a search over designs found."""

    question: Question
    candidates: tuple[Candidate, ...]
    """Designs that were evaluated, most samples per dollar first."""
    beaten: tuple[Bounded, ...]
    """Designs that the bounds leave out."""
    refused: tuple[Bounded, ...]
    """Designs without a plan, each with why."""
    over_budget: int = 0
    """Designs that cost or draw more than the budget."""
    unsearched: tuple[Design, ...] = ()
    """Designs that a search which was stopped has neither evaluated nor left out."""

    def distinct(self, chosen: Iterable[Candidate]) -> list[tuple[Candidate, int]]:
        """Return the candidates without those that equal an earlier one in all objectives, technology, ranks and
        unknown figures of the fabric; each with the number of candidates that it stands for, itself included."""
        alike = in_groups(
            chosen, lambda one: (one.point, one.design.technology, one.design.ranks, (*one.worth.unknown.items(),))
        )
        return [(each[0], len(each)) for each in alike.values()]

    @property
    def front(self) -> tuple[Candidate, ...]:
        """Evaluated designs of any technology that no other one beats by samples per dollar and joule, and per second
        where numbers of ranks differ (:class:`Front`), whatever the prices and powers are that nobody states, most
        samples per dollar first."""
        return tuple(candidate for candidate in self.candidates if candidate.on_front)

    def best(
        self, technology: Technology, objective: int, *, known: bool = False, dear: bool = False
    ) -> Candidate | None:
        """Return the evaluated design of a technology with the most samples per dollar (0), joule (1) or second (2);
        None where none was evaluated.

        Args:
            technology: "electrical" or "optical".
            objective: number of what counts; unknown figures count as 0. Of equal designs, the first is taken.
            known: only designs count whose fabric has all its prices, watts and energies of a bit known.
            dear: unknown prices and watts of boards and hosts count as if they outweighed everything known, instead of
                as 0, so that the design with the least :attr:`Candidate.share` is best; ``objective`` is then ignored.
        """
        own = [each for each in self.candidates if each.design.technology == technology]
        own = [each for each in own if not (known and each.worth.unknown)]
        if dear:
            return min(own, key=lambda candidate: candidate.share, default=None)
        return max(own, key=lambda candidate: candidate.point[objective], default=None)


def explore(
    question: Question,
    designs: Sequence[Design],
    run: Runner,
    *,
    dollars: float = inf,
    watts: float = inf,
    prune: bool = True,
    jobs: int = 1,
    advance: Advance = ignore,
    tell: Callable[[Candidate, int], None] = lambda *_: None,
) -> Exploration:
    """Search the designs that train most samples for a dollar and for a joule, and return all that were evaluated, most
    samples per dollar first and marked where none beats them, those that bounds leave out, those without a plan, and
    the number over the budget; after Ctrl-C what is found by then, with the designs not searched.

    Args:
        question: model, batch and site; a batch of 0 stands for the largest power of two, up to 32 samples a rank, that
            fits.
        designs: of one accelerator, and of one number of ranks or of several, of which speed is then an objective too.
        run: does tasks, up to ``jobs`` at a time, and gives results in any order; :func:`solve_task` does one.
        dollars, watts: budgets for the purchase and for the static power at the meter of all ranks. Designs with
            unknown prices are held to what is known.
        prune: leave out designs that others beat even at their bounds; False evaluates every design.
        jobs: number of designs that are evaluated at once.
        advance: called with the number of designs that are done since the last call.
        tell: called after each round of tasks with the design that trains most samples for a dollar so far, and the
            number of all designs.

    Raises:
        UnsupportedError: no design is within the budget and has a plan.
        KeyboardInterrupt: Ctrl-C before any design is evaluated.
    """
    by_speed = len({design.ranks for design in designs}) > 1
    assessed = [assess(question, design) for design in designs]
    possible = [each for each in assessed if each.worth is not None]
    affordable = [each for each in possible if _worth(each).capital <= dollars and _worth(each).watts <= watts]
    if not affordable:
        raise _no_design_left(assessed, possible, dollars, watts)
    question = _with_batch(question, affordable)
    accelerator, counts = affordable[0].design.accelerator, {each.design.ranks for each in affordable}
    least = {ranks: least_time(question, ranks, accelerator) for ranks in counts}
    affordable = [replace(each, least_time=least[each.design.ranks]) for each in affordable]
    advance(len(designs) - len(affordable))
    found: list[Candidate] = []
    beaten: list[Bounded] = []
    refused = [each for each in assessed if each.worth is None]
    try:
        for technology in TECHNOLOGIES:
            own = [each for each in affordable if each.design.technology == technology]
            front = Front(by_speed=by_speed) if prune else None
            for candidates, left_out, without in _waves(question, own, run, front, jobs):
                found += candidates
                beaten += left_out
                refused += without
                advance(len(candidates) + len(left_out) + len(without))
                if found:
                    tell(max(found, key=lambda each: each.point[0]), len(designs))
    except KeyboardInterrupt:
        if not found:
            raise
    if not found:
        raise _no_design_left(refused, [], dollars, watts)
    searched = {each.key for each in (*(one.design for one in found), *(one.design for one in (*beaten, *refused)))}
    ranked = tuple(sorted(_marked(found, by_speed), key=lambda each: -each.point[0]))
    left = {"beaten": tuple(beaten), "refused": tuple(refused)}
    unsearched = tuple(each.design for each in affordable if each.design.key not in searched)
    over_budget = len(possible) - len(affordable)
    return Exploration(question=question, candidates=ranked, **left, over_budget=over_budget, unsearched=unsearched)


def _with_batch(question: Question, designs: Sequence[Bounded]) -> Question:
    """Return the question with its batch of a rank. Where that is 0, it becomes the largest power of two up to 32
    samples that fits for every number of ranks, judged by the first design that has a plan; 1 where none fits."""
    if question.batch_per_rank:
        return question
    asked = (replace(question, batch_per_rank=1 << power) for power in reversed(range(LARGEST.bit_length())))
    return next(each for each in asked if each.batch_per_rank == 1 or _fits(each, [one.design for one in designs]))


def _fits(question: Question, designs: Sequence[Design]) -> bool:
    """Return False where for some number of ranks a design is too large for the memory before one has a plan at the
    question's batch; otherwise True."""
    for alike in in_groups(designs, attrgetter("ranks")).values():
        for design in alike:
            result = solve_task(Task(question=question, design=design))
            assert isinstance(result, Bounded)
            if result.too_large:
                return False
            if not result.why:
                break
    return True


def _no_design_left(
    bounded: Sequence[Bounded], possible: Sequence[Bounded], dollars: float, watts: float
) -> UnsupportedError:
    """Return (not raise) the error that says why no design is left: none has a plan (with the reason of the first
    design), or no design is within the budget (with the least price and watts of all).

    Args:
        bounded: all designs, none with a plan; at least one.
        possible: designs that have a worth; empty where the budget is not the reason.
        dollars, watts: budgets, infinite for none.
    """
    if not possible:
        why = f"none of {len(bounded)} designs has a plan: {bounded[0].design.name}: {bounded[0].why}"
        return UnsupportedError(why)
    worths = [_worth(each) for each in possible]
    capital, power = min(worth.capital for worth in worths), min(worth.watts for worth in worths)
    least = "at least " if any(worth.variables for worth in worths) else ""
    budget = [f"${dollars:,.0f}"] * (dollars < inf) + [f"{watts:,.0f} W"] * (watts < inf)
    return UnsupportedError(
        f"budget of {' and '.join(budget)}: the cheapest of {len(possible)} designs costs {least}${capital:,.0f} "
        f"and the least draws {power:,.0f} W at the meter: expected a larger budget or fewer ranks"
    )


def _waves(
    question: Question, designs: Sequence[Bounded], run: Runner, front: Front | None, jobs: int
) -> Iterator[tuple[list[Candidate], list[Bounded], list[Bounded]]]:
    """Bound and evaluate designs of one technology, the most promising first, ``jobs`` at once: a design is bounded in
    one wave and, unless beaten at its bound, evaluated in a later one; yield after each wave three lists: candidates
    that it evaluated, designs left out as beaten, and designs refused (without a plan, or beaten only as far as they
    were tried). ``run`` does the tasks of a wave, in any order. Without a ``front`` none is left out; a front is
    extended in place."""
    waiting = list(designs)
    while waiting:
        cutoffs = {id(each): inf if front is None else front.cutoff(_worth(each)) for each in waiting}
        beyond = [each for each in waiting if each.least_time >= cutoffs[id(each)]]
        beaten = [each for each in beyond if not each.limit]
        waiting = sorted((each for each in waiting if each.least_time < cutoffs[id(each)]), key=_promise)
        wave, waiting = waiting[:jobs], waiting[jobs:]
        limits = [(each.design, cutoffs[id(each)] if each.bounded else None) for each in wave]
        tasks = [Task(question=question, design=design, below=below) for design, below in limits]
        results = {each.design.key: each for each in run(tasks)}
        candidates, refused = [], [_unfinished(each, each.limit) for each in beyond if each.limit]
        for each in wave:
            result = results[each.design.key]
            if result.why:
                refused.append(replace(each, why=result.why))
            elif isinstance(result, Bounded):
                least = max(each.least_time, result.least_time)
                waiting.append(replace(each, bounded=True, least_time=least, limit=result.limit))
            elif result.sample_time == inf and result.left_out:
                refused.append(_unfinished(each, result.left_out))
            elif result.sample_time == inf:
                beaten.append(each)
            else:
                worth, least = _worth(each), each.least_time
                if front is not None:
                    front.add(worth, result.sample_time, result.sent)
                candidates.append(Candidate(design=each.design, worth=worth, least_time=least, evaluated=result))
        yield candidates, beaten, refused


def _unfinished(bounded: Bounded, left_out: str) -> Bounded:
    """Return the design with the reason "beaten as far as it was tried: LEFT_OUT" in ``why``; ``left_out`` says which
    plans were not tried, of which one may be faster."""
    return replace(bounded, why=f"beaten as far as it was tried: {left_out}")


def _promise(bounded: Bounded) -> tuple[float, str]:
    """Return the sort key by which designs are searched, smallest first: dollars of a sample at the bound, multiplied
    by one more than the number of unknown figures of the fabric; then the design's key."""
    worth = _worth(bounded)
    return worth.dollar_rate * bounded.least_time / worth.kept * (1 + len(worth.unknown)), bounded.design.key


def _worth(bounded: Bounded) -> Worth:
    """Return the worth of a design, which must have one (AssertionError otherwise)."""
    assert bounded.worth is not None
    return bounded.worth


def _marked(found: Sequence[Candidate], by_speed: bool) -> list[Candidate]:
    """Return the candidates, in their order, marked with whether each is on the front of all (``on_front``: no other
    beats it) and on that of its technology (``leads``); with ``by_speed`` samples per second count as an objective
    too."""

    def fronts(chosen: Sequence[Candidate]) -> set[str]:
        """Return the keys of the designs that no other of ``chosen`` beats."""
        front = Front(by_speed=by_speed)
        for each in chosen:
            front.add(each.worth, each.evaluated.sample_time, each.evaluated.sent)
        return {each.design.key for each, kept in zip(chosen, front.on_front(), strict=True) if kept}

    every = fronts(found)
    own = set[str]().union(*map(fronts, in_groups(found, lambda each: each.design.technology).values()))
    return [replace(each, on_front=each.design.key in every, leads=each.design.key in own) for each in found]


# Searches over designs that resume: a folder's journal holds the result of each task, by everything that decides it.


@contextmanager
def resumed(run: Runner, folder: Path, graph: ComputeGraph) -> Iterator[Runner]:
    """Yield a runner like ``run`` that takes the results that the folder holds of earlier searches of this model (with
    the same code, cluster, site and batch), and computes and stores there what it lacks; a context manager.

    Args:
        run: does tasks, in any order.
        folder: of searches of this model alone; made where there is none.
        graph: the model.

    Raises:
        ConfigError: the folder cannot be written to (also where the block itself raises an OSError), holds other files
            or another run, or is in use.
    """
    model = content_hash(graph.to_json())
    with open_journal(folder, f"designs for {graph.name}") as journal:
        yield lambda tasks: _results(run, journal, model, tasks)


_NOT_STORED = ("design", "worth")


def _results(run: Runner, journal: Journal, model: str, tasks: Sequence[Task]) -> Iterable[Bounded | Evaluated]:
    """Return a list of results in the order of the tasks, once all are done: those in the journal, the others computed
    by ``run`` and appended to the journal as they come. ``model`` is a hash of the model's graph."""
    keys = {task.design.key: _task_key(model, task) for task in tasks}
    for result in run([task for task in tasks if keys[task.design.key] not in journal.rows]):
        stored = {field.name: getattr(result, field.name) for field in fields(result) if field.name not in _NOT_STORED}
        row = {name: None if value == inf else value for name, value in stored.items()}
        journal.append([(keys[result.design.key], row)])
    return [_result(task, journal.rows[keys[task.design.key]]) for task in tasks]


def _task_key(model: str, task: Task) -> str:
    """Return the hash under which a task's result is stored: of everything that decides it, which is the code, the
    model (a hash of its graph), the cluster, the site and what is asked (the batch of a rank, and a bound or a plan
    below which time). InputError for a design that cannot be built."""
    question, cluster = task.question, task.design.cluster()
    parts = (cluster.fabric, cluster.accelerator, cluster.training, question.site)
    inputs = [part.model_dump(mode="json") for part in parts]
    return content_hash([code_version(), model, task.design.key, question.batch_per_rank, inputs, repr(task.below)])


def _result(task: Task, row: Document) -> Bounded | Evaluated:
    """Return the result of a task, with the task's design, that a journal's row holds, where None stands for infinite;
    a bounded design comes without its worth."""
    stored: Document = {name: inf if value is None else value for name, value in row.items()}
    return (Bounded if "least_time" in stored else Evaluated)(design=task.design, **stored)
