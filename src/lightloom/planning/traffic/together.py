"""Seconds of jobs alone and together.

Packets. While exchanges of several jobs are under way their flows share links by max-min fairness. Jobs are not
aligned: at any time another job is in each of its exchanges with the chance that is their share of its step, so that
an exchange is slowed down by the mean over what the others may be doing; steps grow with it until shares and slowdowns
agree.

Circuits. Jobs whose lightpaths could meet divide the wavelengths, every division in eighths is tried, and the one of
the least worst slowdown wins. The lightpaths of all jobs are verified together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product

import numpy as np

from lightloom.collectives.collective import CLASSIC, Collective
from lightloom.collectives.joint import GroupPart, Part, max_min_rates
from lightloom.collectives.registry import build, evaluate_all, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.verifier import verify_joint, verify_light
from lightloom.core.arrays import Effort, Floats, Ints
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.clusters.cluster import Cluster, TrainingSettings
from lightloom.machines.fabrics.fabric import AxisShare, Fabric
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import (
    StrategyStep,
    joint_parts,
    on_divided_channels,
    simulate,
    strategy_seconds,
)
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.search import search
from lightloom.planning.traffic.jobs import (
    SENDS,
    SlowedPrices,
    TrafficJob,
    Work,
    collective_exchange,
    held_links,
    job_fabric,
    neighbours,
    plan_exchanges,
    splits,
)

# Proof that the lightpaths of all jobs are legal together: no wavelength is used twice on a link.


_KEPT_COLUMNS = ("route", "wavelength_count", "chunk", "reduces")
"""Columns of a job's schedule that are the same among other jobs."""


def verify_jobs(works: Sequence[Work], fabric: Fabric) -> Schedule:
    """Return the lightpaths of all jobs in one schedule of the whole fabric, whose steps are those of one job after the
    other, proved to be there at once: no wavelength is used twice on a link.

    Each job's parts are proved on its own fabric first. Jobs that meet hold one range of channels after the other, in
    the order of ``works``, which are works on circuits. The schedule's collective, an all-gather of 0 bytes, means
    nothing.

    Raises:
        VerificationError: the first violation found.
    """
    first = np.zeros(len(works), np.int64)
    for numbers in neighbours([work.job for work in works], fabric):
        first[numbers] = np.cumsum([0, *(works[number].channels or 0 for number in numbers[:-1])])
    parts: list[dict[str, Ints]] = []
    steps = paths = 0
    for work, begin in zip(works, first.tolist(), strict=True):
        local = work.fabric.embedding()
        joint = verify_joint(work.parts, local)
        assert joint.dependencies is not None
        members = np.array(work.job.ranks, np.int64)
        channel = joint.fibre.astype(np.int64) * local.fibre_channels + joint.first_wavelength + begin
        parts.append(
            {
                **{name: getattr(joint, name).astype(np.int64) for name in _KEPT_COLUMNS},
                "step": joint.step + steps,
                "dependencies": joint.dependencies.astype(np.int64) + steps,
                "lightpath": joint.lightpath + paths,
                "source": members[joint.source],
                "destination": members[joint.destination],
                "fibre": channel // fabric.fibre_channels,
                "first_wavelength": channel % fabric.fibre_channels,
            }
        )
        steps, paths = steps + joint.steps, paths + int(joint.lightpath.max(initial=-1)) + 1
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    collective, chunks = Collective("all-gather", fabric.ranks, 0.0), fabric.ranks
    together = Schedule(algorithm="jobs", collective=collective, chunks=chunks, steps=steps, **columns)  # type: ignore[arg-type]
    verify_light(together, fabric)
    return together


_ROUNDS: Effort = 40
_CLOSE = 1e-6
_MOST_STATES: Effort = 4096


@dataclass(frozen=True, kw_only=True)
class JobTraffic:
    """One job alone and beside the others."""

    alone: Work
    together: Work
    """With the channels that it holds then; the same on packet fabrics."""
    seconds: float
    """Seconds of a step beside the other jobs."""
    slowdowns: Mapping[str, float]
    """How many times longer its exchanges take on average, by sort."""

    @property
    def slowdown(self) -> float:
        """How many times as long a step takes beside the others as alone, 1 for no longer; 1 where a step takes no
        time."""
        return self.seconds / self.alone.seconds if self.alone.seconds else 1.0


@dataclass(frozen=True, kw_only=True)
class Request:
    """A job with its model traced; ``graph`` is None for a collective."""

    job: TrafficJob
    graph: ComputeGraph | None
    search: SearchRequest | None
    training: TrainingSettings | None = None
    """How it trains, where that is not as the cluster says."""
    nbytes: float = 0.0
    algorithm: str | None = None


def traffic(requests: Sequence[Request], cluster: Cluster, advance: Callable[[], None]) -> list[JobTraffic]:
    """Return every job alone and beside the others, in the order of the requests; steps on circuits take longer by the
    channels that they share out, and have no ``slowdowns``, those on packets by shared links.

    Args:
        requests: the jobs, each on ranks of its own.
        cluster: the whole cluster.
        advance: called without arguments after every job that was planned alone, and on circuits after every group of
            jobs that divide channels, a job alone included.

    Raises:
        InputError: a job that its ranks cannot run, or jobs that cannot share the fabric.
        VerificationError: the lightpaths of the jobs on circuits are not legal together.
    """
    fabric = cluster.fabric
    alone = []
    for request in requests:
        alone.append(_work(request, cluster, None))
        advance()
    if not fabric.exclusive:
        return _on_packets(alone)
    together = list(alone)
    for numbers in neighbours([request.job for request in requests], fabric):
        if len(numbers) > 1:
            for number, work in zip(numbers, _divided(requests, alone, numbers, cluster), strict=True):
                together[number] = work
            advance()
    verify_jobs(together, fabric)
    both = zip(alone, together, strict=True)
    return [JobTraffic(alone=one, together=work, seconds=work.seconds, slowdowns={}) for one, work in both]


def _work(request: Request, cluster: Cluster, channels: int | None, same: Work | None = None) -> Work:
    """Return a job on its part of the fabric.

    Args:
        request: the job, with its model.
        cluster: the whole cluster.
        channels: channels of each link that the job holds on circuits; None for all.
        same: the job at another time, whose plan is taken; None for a search. A collective is chosen anew in either
            case.

    Raises:
        InputError: the ranks cannot run the job.
    """
    part = job_fabric(request.job, cluster.fabric, channels)
    held = None if not cluster.fabric.exclusive else (channels or cluster.fabric.shared_channels)
    if request.graph is None:
        return _collective(request, part, held)
    on = replace(cluster, fabric=part, ranks=part.ranks, reference=None, training=request.training or cluster.training)
    return _plan(request, on, held, same)


def _collective(request: Request, part: Fabric, held: int | None) -> Work:
    """Return a job that repeats a collective on its part of the fabric, by the algorithm that the request names, else
    by the one of least seconds when repeated; ``held`` are its channels, None on packets.

    Raises:
        InputError: no algorithm has the collective on this part, or the named one does not or is unknown.
    """
    kind = request.job.what
    assert kind in CLASSIC
    collective = Collective(kind, part.ranks, request.nbytes)
    candidates = None if request.algorithm is None else [find(request.algorithm)]
    evaluations, refused = evaluate_all(collective, part, candidates=candidates)
    if not evaluations:
        raise UnsupportedError(f"job {request.job.label}: {refused[0].why}")
    best = min(evaluations, key=lambda each: (each.cost.repeated_time, each.algorithm.name))
    seconds = best.cost.repeated_time
    return Work(
        job=request.job,
        fabric=part,
        seconds=seconds,
        label=best.algorithm.name,
        exchanges=[] if held is not None else [collective_exchange(best, part, seconds)],
        slowed=lambda slowdown: seconds * slowdown.get("data", 1.0),
        parts=[] if held is None else [_whole(best.schedule, part)],
        channels=held,
    )


def _whole(schedule: Schedule, part: Fabric) -> GroupPart:
    """Return a collective of all ranks of a job as the one part of a joint schedule, on all channels of its fabric."""
    return GroupPart("data", AxisShare(part.ranks, 1, 0, part.shared_channels), schedule)


def _plan(request: Request, cluster: Cluster, held: int | None, same: Work | None) -> Work:
    """Return a model's step on the fabric of ``cluster``, which is the job's part of the whole: by the winner of a
    search, or by the choice of ``same``, simulated again at the prices of this part. ``held`` are the job's channels,
    None on packets.

    Raises:
        UnsupportedError: the search finds no plan, or the choice cannot run.
    """
    assert request.graph is not None and request.search is not None
    fabric = cluster.fabric
    if same is None:
        try:
            plan = search(request.graph, cluster, request.search).winner
        except UnsupportedError as error:
            raise UnsupportedError(f"job {request.job.label}: {error}") from error
        choice, step, job, label = plan.choice, plan.step, plan.job, plan.label
    else:
        assert same.job_priced is not None and same.choice is not None
        prices = GroupPrices(fabric, cluster.training, choices=request.search.algorithms)
        job = replace(same.job_priced, fabric=fabric, pricing=prices, shares=None)
        choice, label = same.choice, same.label
        step = simulate(job, choice)
    assert isinstance(choice, Strategy) and isinstance(step, StrategyStep)
    return Work(
        job=request.job,
        fabric=fabric,
        seconds=step.step_time,
        label=label,
        exchanges=[] if held is not None else plan_exchanges(job, choice, step, fabric),
        slowed=partial(_slowed, job, choice),
        parts=[] if held is None else _parts(job, choice, step),
        channels=held,
        job_priced=job,
        choice=choice,
    )


def _slowed(job: Job, choice: Strategy, slowdown: Mapping[str, float]) -> float:
    """Return the seconds of a step of a strategy on packet links where the exchanges of each sort take so many times
    longer as ``slowdown`` says, 1 for a sort that it does not name."""
    slower = job.fabric.model_copy(update={"slowed": slowdown.get(SENDS, 1.0)})
    return strategy_seconds(replace(job, pricing=SlowedPrices(job.pricing, choice, slowdown), fabric=slower), choice)


def _parts(job: Job, choice: Strategy, step: StrategyStep) -> Sequence[Part]:
    """Return the largest collective of each axis, and sends of stages, of a step on circuits, as parts of a joint
    schedule; of data parallelism alone its largest collective, none where nothing is exchanged."""
    if not choice.plain:
        return joint_parts(on_divided_channels(job, choice), choice, step)
    if not step.exchanges:
        return []
    use = step.exchanges[0]
    return [_whole(build(find(use.algorithm), Collective(use.kind, use.ranks, use.nbytes), job.fabric), job.fabric)]


def _divided(
    requests: Sequence[Request], alone: Sequence[Work], numbers: Sequence[int], cluster: Cluster
) -> list[Work]:
    """Return the works of jobs that divide the wavelengths, models by the plan that they have alone, collectives by an
    algorithm chosen anew: of the divisions by :func:`splits` that serve all of them, the one whose largest ratio of
    seconds to those ``alone`` is least.

    Args:
        requests: all jobs.
        alone: the work of every job on all channels.
        numbers: positions of the jobs that divide wavelengths; the works come in their order.
        cluster: the whole cluster.

    Raises:
        ConfigError: no division serves all of them.
    """

    @cache
    def work(number: int, channels: int) -> Work | None:
        """Return a job with so many channels, by the plan that it has alone; None where it cannot run on them."""
        try:
            return _work(requests[number], cluster, channels, alone[number])
        except UnsupportedError:
            return None

    divisions: list[list[Work]] = []
    for channels in splits(cluster.fabric.shared_channels, len(numbers)):
        works = [work(number, count) for number, count in zip(numbers, channels, strict=True)]
        if all(works):
            divisions.append([each for each in works if each is not None])
    if not divisions:
        names = " and ".join(requests[number].job.label for number in numbers)
        raise ConfigError(
            f"jobs {names} meet on links of {cluster.fabric.shared_channels} channels, too few for the circuits of "
            "all: expected other ranks, or more wavelengths"
        )

    def worst(works: list[Work]) -> float:
        """Return the largest ratio, over the jobs, of the seconds in this division to those alone."""
        return max(each.seconds / alone[number].seconds for number, each in zip(numbers, works, strict=True))

    return min(divisions, key=worst)


def _on_packets(works: Sequence[Work]) -> list[JobTraffic]:
    """Return every job with the slowdowns of its exchanges and the seconds of its step beside the others on packet
    links, repeated until the seconds change by no more than a millionth, at most 40 times. A step is never shorter than
    alone.

    Raises:
        ConfigError: the jobs have more than 4,096 states together.
    """
    slowdown = [dict.fromkeys((each.sort for each in work.exchanges), 1.0) for work in works]
    seconds = [work.seconds for work in works]
    scale = [work.seconds / work.slowed({}) if work.slowed({}) else 1.0 for work in works]
    for _ in range(_ROUNDS):
        shares = [_shares(work, own, total) for work, own, total in zip(works, slowdown, seconds, strict=True)]
        slowdown = _mean_slowdowns(works, shares)
        slowed = zip(works, slowdown, scale, strict=True)
        before, seconds = seconds, [max(work.seconds, work.slowed(own) * factor) for work, own, factor in slowed]
        if np.allclose(seconds, before, rtol=_CLOSE, atol=0):
            break
    steps = zip(works, slowdown, seconds, strict=True)
    return [JobTraffic(alone=work, together=work, seconds=total, slowdowns=own) for work, own, total in steps]


def _shares(work: Work, slowdown: Mapping[str, float], seconds: float) -> Floats:
    """Return the share of a step of ``seconds`` in which each exchange of a job is under way, and last that in which
    none is: [exchange + 1], which add up to 1; where the exchanges take longer than the step, all are cut down by one
    factor. ``slowdown`` says how many times longer exchanges of each sort take."""
    busy = np.array([each.busy * slowdown[each.sort] for each in work.exchanges]) / (seconds or 1.0)
    busy = busy / max(float(busy.sum()), 1.0)
    return np.append(busy, max(1 - float(busy.sum()), 0.0))


def _mean_slowdowns(works: Sequence[Work], shares: Sequence[Floats]) -> list[dict[str, float]]:
    """Return for each job how many times longer its exchanges take, by sort, on average over what the other jobs do at
    any time.

    ``shares`` are those of each job (:func:`_shares`), taken as independent chances. A job has no entry for sorts that
    it does not exchange.

    Raises:
        ConfigError: the jobs have more than 4,096 states together, the product of their numbers of exchanges + 1.
    """
    if np.prod([len(each) for each in shares]) > _MOST_STATES:
        raise ConfigError(f"{len(works)} jobs have more than {_MOST_STATES} states together: expected fewer jobs")
    slowdowns: list[dict[str, float]] = []
    for number, work in enumerate(works):
        others = [other for other in range(len(works)) if other != number]
        states = [list(zip(shares[other], (*works[other].exchanges, None), strict=True)) for other in others]
        mean = dict.fromkeys((each.sort for each in work.exchanges), 0.0)
        for state in product(*states):
            chance = float(np.prod([share for share, _ in state]))
            active = [exchange for _, exchange in state if exchange is not None]
            for each in work.exchanges if chance > 0 else ():
                usage = np.stack([one.usage for one in (each, *active)])
                flow_rates = np.stack([one.flow_rate for one in (each, *active)])
                mean[each.sort] += chance / float(max_min_rates(usage, flow_rates)[0])
        slowdowns.append(mean)
    return slowdowns


# Shares of every link that jobs take: what their exchanges load on average, or the wavelengths that they hold.


def link_shares(jobs: Sequence[JobTraffic], fabric: Fabric) -> Floats:
    """Return the share, 0 to 1, of each link that each job takes: [job, link]. On circuits it is the channels that the
    job holds beside the others over those of the fabric, on the links of :func:`held_links` alone; on packets what its
    exchanges load on average over its step alone."""
    shares = np.zeros((len(jobs), fabric.links))
    for row, each in zip(shares, jobs, strict=True):
        work = each.together
        if work.channels is not None:
            row[held_links(work.job, fabric)] = work.channels / fabric.shared_channels
        for exchange in work.exchanges:
            row += exchange.usage * exchange.busy / (work.seconds or 1.0)
    return shares
