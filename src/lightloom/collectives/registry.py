"""Every algorithm by name; and the only door for schedules: verified, priced and held against their bounds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.lower_bound import Bound, lower_bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.loads import StepLoads, at_size, digest, fabric_key, step_loads
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.cost.stepped import CodecTimes, cost, loads_cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.core.caches import Latest
from lightloom.core.errors import BoundError, LightloomError, UnknownNameError
from lightloom.core.plugins import plugins_of
from lightloom.core.results import Document, attributes
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import Failure, damaged

ROUNDING = 1e-9
"""Relative difference of equal times that were computed in two ways."""
T = TypeVar("T")


@cache
def algorithms() -> dict[str, Algorithm]:
    """Return every algorithm by name, plug-ins included and last, which replace others of their name; they are found
    once for each process.

    Raises:
        ConfigError: a plug-in cannot be imported, or registered something that is not an :class:`Algorithm`.
    """
    return {algorithm.name: algorithm for algorithm in [*_built_in(), *plugins_of("algorithms", Algorithm)]}


def _built_in() -> list[Algorithm]:
    """Return the algorithms that come with the package: plain ones, then in the same order their striped forms (all
    wavelengths that a transfer can get bundled), then those that exist in one form only."""
    from lightloom.collectives.algorithms import direct, doubling, optree, ring, trees, wrht
    from lightloom.collectives.synthesis.synthesized import SYNTHESIZED

    plain = [
        ring.RING,
        ring.RING_TWO_WAY,
        doubling.RECURSIVE_DOUBLING,
        doubling.HALVING_DOUBLING,
        doubling.BRUCK,
        ring.NEIGHBOUR_EXCHANGE,
        direct.ONE_STAGE,
        trees.BINOMIAL_TREE,
        trees.WORKER_AGGREGATOR,
        wrht.WRHT,
        optree.OPTREE,
        direct.SERPENTINE,
    ]
    alone = [ring.NEIGHBOUR_EXCHANGE_PAIRS, SYNTHESIZED, direct.IN_NETWORK, doubling.HIERARCHICAL]
    alone += [trees.DOUBLE_TREE, direct.MESH_BROADCAST, direct.BOTH_AXES]
    return [*plain, *(algorithm.bundled() for algorithm in plain), *alone]


def find(name: str) -> Algorithm:
    """Return an algorithm by name.

    Raises:
        UnknownNameError: no such algorithm; the message says which names are near, and the command that lists all.
    """
    if name not in algorithms():
        raise UnknownNameError("algorithm", name, algorithms())
    return algorithms()[name]


def admitted(kind: str, fabric: Fabric, model: CostModel = "physical") -> list[Algorithm]:
    """Return the algorithms that can serve ``kind`` on this fabric under a cost model, those that
    :meth:`Algorithm.refusal` does not refuse, in the order of :func:`algorithms`."""
    return [algorithm for algorithm in algorithms().values() if algorithm.refusal(kind, fabric, model) is None]


def build(algorithm: Algorithm, collective: Collective, fabric: Fabric) -> Schedule:
    """Return the verified schedule of an algorithm, a pipeline in the number of pieces that takes the least time under
    the physical cost model.

    Raises:
        UnsupportedError: the algorithm cannot serve this (says why).
        VerificationError: the algorithm is wrong.
    """
    schedule = algorithm.schedule(collective, fabric)
    verify(schedule, fabric)
    if schedule.pipeline is None:
        return schedule
    return at_size(schedule, collective.nbytes, step_loads(schedule, fabric), fabric)


def build_with_loads(
    algorithm: Algorithm, collective: Collective, fabric: Fabric, model: CostModel = "physical"
) -> tuple[Schedule, StepLoads | None]:
    """Return the verified schedule of an algorithm, and its loads (what each step puts on channels or links) under a
    cost model; None in place of the loads of a queued schedule, which is priced row by row instead.

    A pipeline comes in the number of pieces that takes the least time. A schedule on circuits with the content of one
    of the last 16 that were verified, at any size, is not verified again.

    Raises:
        UnsupportedError: the algorithm cannot serve this (says why).
        VerificationError: the algorithm is wrong.
    """
    schedule = algorithm.schedule(collective, fabric)
    content = _content(schedule, fabric, model)
    loads = None if content is None else _latest.get(content)
    if loads is None:
        verify(schedule, fabric)
        if schedule.queued:
            return schedule, None
        loads = step_loads(schedule, fabric, model)
        if content is not None:
            _latest[content] = loads
    loads = loads.at_size(collective.nbytes, fabric)
    return at_size(schedule, collective.nbytes, loads, fabric), loads


_latest: Latest[bytes, StepLoads] = Latest(16)
"""Loads of the schedules of circuits that were verified last: bundling wavelengths often changes nothing."""


def _content(schedule: Schedule, fabric: Fabric, model: CostModel) -> bytes | None:
    """Return a hash of all on which a schedule's verification and its loads under a cost model depend; the number of
    bytes does not enter it.

    None where verifying costs no more than the hash: for a queued or a folded schedule, one whose steps have explicit
    dependencies, and any on a fabric without circuits (``Fabric.exclusive``).
    """
    if not fabric.exclusive or schedule.queued or schedule.folding is not None or schedule.dependencies is not None:
        return None
    collective, lists = schedule.collective, schedule.lists
    fields = (fabric_key(fabric), model, collective.resized(0.0), hash(collective.sizes), schedule.chunks)
    columns = [*schedule.columns().values(), *(() if lists is None else (lists.chunks, lists.first, lists.count))]
    return digest((*fields, schedule.steps), columns)


# What a schedule costs, beside its lower bound: one algorithm, or all of them with those that fail beside.


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A verified schedule with its cost and the bound it was held against."""

    algorithm: Algorithm
    schedule: Schedule
    cost: Cost
    bound: Bound


def evaluate(algorithm: Algorithm, collective: Collective, fabric: Fabric, model: CostModel = "physical") -> Evaluation:
    """Return the verified schedule of an algorithm, with its cost and the lower bound that the cost was held against.

    Raises:
        UnsupportedError: the algorithm cannot serve this.
        VerificationError: the schedule is wrong.
        BoundError: the cost lies below the bound, so that one of the two is wrong.
    """
    schedule, loads = build_with_loads(algorithm, collective, fabric, model)
    priced = costed(schedule, fabric, model) if loads is None else loads_costed(algorithm, loads, fabric)
    return Evaluation(algorithm, schedule, *priced)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An algorithm that has no schedule for a collective on a fabric, and why."""

    algorithm: str
    why: str
    failed: bool = False
    """True where the algorithm serves the collective there and yet has no schedule: its rows do not fit in memory, or
    it raised, or built a schedule that the verifier rejects."""

    def to_json(self) -> dict[str, str]:
        """Return the row of a document: ``algorithm`` and ``why``; ``failed`` is left out."""
        return {"algorithm": self.algorithm, "why": self.why}


def attempt(algorithm: Algorithm, make: Callable[[], T]) -> T | Refusal:
    """Return the result of ``make()``, which builds this algorithm's schedule; or a refusal with ``failed`` set and the
    error's text as ``why``, after "NAME raises TYPE: " where it is no error of this package's own kinds.

    Any algorithm may come from a plug-in, so every exception is its failure, except a cost below its lower bound: there
    the fabric or the bound is wrong, and with it the cost of every other algorithm.

    Raises:
        BoundError: a cost lies below its lower bound.
    """
    try:
        return make()
    except BoundError:
        raise
    except Exception as error:
        raised = "" if isinstance(error, LightloomError) else f"{algorithm.name} raises {type(error).__name__}: "
        return Refusal(algorithm.name, f"{raised}{error}", failed=True)


def evaluate_all(
    collective: Collective,
    fabric: Fabric,
    model: CostModel = "physical",
    candidates: Iterable[Algorithm] | None = None,
    *,
    advance: Callable[[], None] = lambda: None,
) -> tuple[list[Evaluation], list[Refusal]]:
    """Return the evaluations of every algorithm, or of the ``candidates`` alone, fastest first, and the refusals of
    those of them that have no schedule here.

    Refused are those that cannot serve the collective on this fabric and those that raise or fail verification.
    Evaluations of equal time are in the order of names, refusals in that of the algorithms. ``advance`` is called after
    each algorithm.

    Raises:
        BoundError: a cost lies below its lower bound.
    """
    outcomes: list[Evaluation | Refusal] = []
    for algorithm in algorithms().values() if candidates is None else candidates:
        why = algorithm.refusal(collective.kind, fabric, model)
        outcomes.append(
            Refusal(algorithm.name, why, failed=why == algorithm.beyond_memory(collective.kind, fabric))
            if why
            else attempt(algorithm, partial(evaluate, algorithm, collective, fabric, model))
        )
        advance()
    evaluations = [outcome for outcome in outcomes if isinstance(outcome, Evaluation)]
    refusals = [outcome for outcome in outcomes if isinstance(outcome, Refusal)]
    return sorted(evaluations, key=lambda evaluation: (evaluation.cost.time, evaluation.algorithm.name)), refusals


def costed(
    schedule: Schedule,
    fabric: Fabric,
    model: CostModel = "physical",
    codec: CodecTimes | None = None,
    bound: Bound | None = None,
) -> tuple[Cost, Bound]:
    """Return the cost of a schedule that was verified, and the lower bound of its collective, which the cost is checked
    against.

    ``codec`` has the seconds of coding in each step, of a schedule of steps; None without a codec. ``bound`` is the
    lower bound where it is known; None to find it.

    Raises:
        BoundError: the cost lies below the bound.
    """
    price, collective = cost(schedule, fabric, model, codec), schedule.collective
    return with_bound(schedule.algorithm, price, collective, fabric, model, bound)


def loads_costed(
    algorithm: Algorithm,
    loads: StepLoads,
    fabric: Fabric,
    codec: CodecTimes | None = None,
    bound: Bound | None = None,
) -> tuple[Cost, Bound]:
    """Return the cost of the loads of a verified schedule, and the lower bound of its collective, which the cost is
    checked against.

    Args:
        algorithm: its name is for the message.
        codec: seconds of coding in each step; None without a codec.
        bound: the lower bound, where it is known; None to find it.

    Raises:
        BoundError: the cost lies below the bound.
    """
    price = loads_cost(loads, fabric, codec)
    return with_bound(algorithm.name, price, loads.collective, fabric, loads.model, bound)


def with_bound(
    name: str, price: Cost, collective: Collective, fabric: Fabric, model: CostModel, bound: Bound | None
) -> tuple[Cost, Bound]:
    """Return a cost, unchanged, and the lower bound of its collective, found here where it is None; ``name`` is that of
    the algorithm, for the message.

    Raises:
        BoundError: the cost lies below the bound.
    """
    bound = bound or lower_bound(collective, fabric, model)
    if not keeps_to(price, bound):
        raise BoundError(
            f"{name} on {fabric.ranks} ranks costs {price.time} s, below the lower bound of {bound.time} s set by "
            f"{bound.bound_by}"
        )
    return price, bound


def keeps_to(price: Cost, bound: Bound) -> bool:
    """Return True if the time of a cost is at least that of a lower bound, or below it by at most 1e-9 of the bound."""
    return price.time >= bound.time * (1 - ROUNDING)


# Prices of a collective on what failures leave of a fabric, each schedule synthesized anew and verified.


def around_failures(
    request: Collective, sound: Fabric, cases: Sequence[Sequence[Failure]], advance: Callable[[int], None] | None = None
) -> list[Document]:
    """Return a row for each case of failures: the cost of the collective synthesized for what is left, with its
    slowdown against the first case.

    Every rank's share (bytes over ranks) stays as large as it was, so fewer ranks exchange fewer bytes in all. Keys of
    a row: ``failures`` (texts), ``ranks`` (how many are left), ``time_s`` (under the physical cost model), ``slowdown``
    (its time over that of the first case), ``lower_bound_s``, ``bound_by``, ``verified`` (always true) and ``notes``.

    Args:
        request: the collective before anything fails; kind and bytes count, and a permute is one to the next rank.
        sound: the fabric then.
        cases: what has failed, case by case; nothing has in the first, as a rule.
        advance: called with 1 after every case.

    Raises:
        ConfigError: something failed that the fabric does not have, parts of it cannot reach each other, or a kind
            whose parts have sizes.
        UnsupportedError: the kind cannot be synthesized on what is left of the fabric.
        VerificationError, BoundError: a schedule is wrong, or its cost lies below its bound.
    """
    fabrics = [damaged(sound, case) if case else sound for case in cases]
    rows: list[Document] = []
    for case, fabric in zip(cases, fabrics, strict=True):
        remaining = Collective(request.kind, fabric.ranks, request.nbytes_per_rank * fabric.ranks)
        result = evaluate(find("synthesized"), remaining, fabric)
        rows.append(
            {
                "failures": [failure.text() for failure in case],
                "ranks": fabric.ranks,
                "time_s": result.cost.time,
                "slowdown": result.cost.time / rows[0]["time_s"] if rows else 1.0,
                **attributes(result.bound, "lower_bound_s=time bound_by"),
                "verified": True,
                "notes": list(result.schedule.notes),
            }
        )
        if advance is not None:
            advance(1)
    return rows
