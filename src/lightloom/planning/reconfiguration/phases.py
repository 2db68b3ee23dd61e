"""The phases of a step in which different groups exchange, and their seconds on the planes that each group has.

gather      parameters before the first pass          data
passes      all but the last backward pass            tensor, expert, context, pipeline (data: shards)
last        the last backward pass                    the same, and gradients beside it
gradients   those that the last pass does not hide    data
closing     gradients of a tensor group's tokens      tensor
tied        gradients of tied tables                  pipeline
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise, product
from math import comb
from typing import Literal, get_args

import numpy as np

from lightloom.collectives.collective import Kind
from lightloom.core.arrays import Effort, Floats, Ints, Mask
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.parallelism.tensor_parallel import holding_stages
from lightloom.planning.pricing.group_prices import Axis, PlanePrices, Planes, divisions, live_axes
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.step import AxisTimes, ExchangeTime, StageExchanges, pass_exchanges, stage_exchanges
from lightloom.planning.pricing.strategy_step import exact_stage_times, exchange_seconds
from lightloom.planning.simulation.pipelined import StageTimes

# Computing of a stage beside which a switch can turn, and whether stages exchange tied tables.


def collective_bytes(kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats) -> Floats:  # noqa: ARG001
    """Return the bytes of collectives, ``nbytes`` [rows, ...] as given (``Collective.nbytes``), 0 for groups of one
    rank (``ranks`` [rows]).

    It has the arguments of a function that returns the seconds of exchanges, in whose place it counts bytes; the others
    are not used.
    """
    return np.where(_beside(ranks, nbytes) > 1, nbytes, 0.0)


def sent_bytes(kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats) -> Floats:  # noqa: ARG001
    """Return the least bytes that a rank sends in collectives of ``nbytes`` [rows, ...] among n ``ranks`` [rows]: (n -
    1) / n of them, twice that for an all-reduce, 0 for one rank.

    It has the arguments of a function that returns the seconds of exchanges, in whose place it counts bytes; algorithm,
    stride and exchange are not used.
    """
    count = _beside(ranks, nbytes)
    return (2 if kind == "all-reduce" else 1) * (count - 1) / count * nbytes


def _beside(ranks: Ints, nbytes: Floats) -> Ints:
    """Return the ranks of groups [rows] in a shape that broadcasts with their bytes [rows, ...]."""
    return ranks.reshape(ranks.shape + (1,) * (nbytes.ndim - ranks.ndim))


nothing: ExchangeTime = lambda kind, algorithm, ranks, stride, exchange, nbytes: np.zeros_like(nbytes)  # noqa: E731, ARG005


def ties_stages(job: Job, rows: Strategies) -> bool:
    """Return whether several pipeline stages hold copies of any one tied table; all rows must have the same stages and
    chunks."""
    edges, stages = job.model.chunks(rows), rows.stages
    return any(len(holding_stages(table, edges, stages)) > 1 for table in job.model.tied)


def margins(job: Job, rows: Strategies) -> tuple[Floats, Floats]:
    """Return the seconds of computing of every stage before the first exchange of its first pass, and after the last
    exchange of its last backward pass: two arrays [stages], both of a stage's first chunk. Where nothing is exchanged
    in the pass, that is all of it.

    Only exchanges of tensor, expert and context groups count. The seconds are least ones: passes that wait for kernel
    launches take longer, and forward passes that are repeated for recomputation are left out. ``rows`` has one
    strategy.
    """
    model, edges = job.model, job.model.chunks(rows)
    columns = model.columns
    forward, backward = (seconds[:, model.sort] for seconds in job.operators.of_sorts(rows))
    by_axis = pass_exchanges(columns, rows, job.fabric, lambda _: collective_bytes, sharing=False).values()
    exchanging = [sum(way) for way in zip(*by_axis, strict=True)]
    rings = columns["key_values"] * (rows.cp[0] > 1) > 0
    leads, tails = np.zeros(rows.stages), np.zeros(rows.stages)
    for stage in range(len(leads)):
        chunk = slice(int(edges[stage]), int(edges[stage + 1]))
        for found, seconds, exchanges in zip((leads, tails), (forward, backward), exchanging, strict=True):
            waits = (exchanges[0, chunk] > 0) | rings[chunk]
            first = int(waits.argmax()) if waits.any() else len(waits)
            found[stage] = seconds[0, chunk][:first].sum()
    return leads, tails


Phase = Literal["gather", "passes", "last", "gradients", "closing", "tied"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""In their order in a step."""
REPLICAS: tuple[Axis, ...] = ("data", "expert-data")
"""Axes of gradients and parameters."""
WITHIN: tuple[Axis, ...] = ("tensor", "expert")
"""Axes of the collectives within a pass."""
_EXCHANGING = (*WITHIN, *REPLICAS)


class PhasedTimes:
    """Seconds of one strategy's step for every way to share out the planes of a switch. ``prices`` give the seconds of
    exchanges by the planes that an axis has."""

    def __init__(self, job: Job, strategy: Strategy, prices: PlanePrices) -> None:
        self.job, self.strategy, self.prices = job, strategy, prices
        self.axes: tuple[Axis, ...] = tuple(axis.name for axis in live_axes(strategy))
        """Along which the strategy exchanges anything."""
        self._times: dict[tuple[tuple[Axis, int], ...], tuple[StageTimes, StageTimes]] = {}

    def times(self, division: Planes) -> tuple[StageTimes, StageTimes]:
        """Return two sets of times of stages, those of a micro-batch and those of the last one, which may be smaller
        (else both are the same), with the number of planes of each axis that ``division`` says, all of them for axes
        that it lacks; computed once for each division."""
        key = tuple(division.items())
        if key not in self._times:
            job, strategy = self._shared(division), self.strategy
            times = last = exact_stage_times(job, strategy)
            if strategy.last_samples != strategy.samples:
                last = exact_stage_times(job, strategy.last_micro_batch)
            self._times[key] = times, last
        return self._times[key]

    def gradients(self, division: Planes, by_unit: Mask) -> Floats:
        """Return the seconds of the exchange of gradients after the last pass, with ``division`` planes of each axis:
        [chunks]. For chunks of the mask ``by_unit`` [chunks] they are those of the first unit only, as the others go
        before. The settings must overlap gradients with passes."""
        job, rows = self._shared(division), Strategies.of(self.strategy)
        seconds = exchange_seconds(job, self.strategy.algorithm)
        replicas = stage_exchanges(job, rows, seconds, by_unit=by_unit[None]).replicas
        assert replicas.unit_exchange is not None
        late: Floats = np.where(by_unit, replicas.unit_exchange.first[0], replicas.exchange[0])
        return late

    def _shared(self, division: Planes) -> Job:
        """Return the job with the prices of a division of the planes (number of planes by axis), in which axes that it
        lacks have all planes."""
        return replace(self.job, shares=self.prices.shared(self.strategy, division))

    @cached_property
    def least(self) -> Planes:
        """Least planes by axis, over the axes that exchange anything: those that circuits of the axis' groups need,
        one, or two for a pipeline, one each way."""
        return {axis.name: axis.unit(self.prices.fabric) for axis in live_axes(self.strategy)}

    @cached_property
    def fastest(self) -> StageTimes:
        """Times of a micro-batch (not of a smaller last one) if every axis had all planes of the switch to itself."""
        return self.times(dict.fromkeys(self.axes, self.prices.planes))[0]

    def active(self, *, beside: bool) -> dict[Phase, tuple[Axis, ...]]:
        """Return the axes that exchange in each of the phases ``gather``, ``passes``, ``last``, ``gradients``,
        ``closing`` and ``tied``, in this order, an empty tuple for an idle phase; ``beside`` says whether gradients
        leave beside the last backward pass, so that their axes are in ``last`` too. In ``passes`` and ``last`` these
        are all but the replicas' axes, and these too where shards are gathered within passes; in ``gather`` and
        ``gradients`` the replicas'; in ``closing`` tensor with sequence parallelism, and the replicas' where gradients
        do not overlap passes; in ``tied`` the pipeline's where several stages hold one table."""
        times, replicas = self.fastest, tuple(axis for axis in self.axes if axis in REPLICAS)
        sharded = bool((times.forward_gather + times.backward_gather).any())
        passes = tuple(axis for axis in self.axes if axis not in REPLICAS) + (replicas if sharded else ())
        exchanged = bool((times.early_exchange + times.late_exchange).any())
        after = bool(times.exchange.any())
        closing: tuple[Axis, ...] = ("tensor",) if self.strategy.sequence_parallel and after else ()
        if after and not self.job.settings.overlap_gradients:
            closing += replicas
        return {
            "gather": replicas if times.gather.any() else (),
            "passes": passes,
            "last": tuple(dict.fromkeys((*passes, *(replicas if beside and exchanged else ())))),
            "gradients": replicas if exchanged else (),
            "closing": closing,
            "tied": ("pipeline",) if ties_stages(self.job, Strategies.of(self.strategy)) else (),
        }

    @cached_property
    def margins(self) -> tuple[Floats, Floats]:
        """Seconds of computing of each stage before the first exchange of its first forward pass, and after the last
        exchange of its last backward pass, both of the stage's first chunk: [stages] each. Exchanges of tensor, expert
        and context groups count; where there are none, it is all of the pass. 0 where shards are gathered and gradients
        scattered within passes."""
        times = self.fastest
        if (times.forward_gather + times.backward_gather).any():
            return np.zeros_like(times.gather), np.zeros_like(times.gather)
        return margins(self.job, Strategies.of(self.strategy))


def after_the_passes(times: StageTimes, late: Floats) -> StageTimes:
    """Return the times of a step whose gradients are all exchanged after the last pass, in ``late`` seconds: [chunks];
    nothing is exchanged beside the last pass, and all other times are kept."""
    none = np.zeros_like(late)
    return replace(times, early_exchange=none, lead=none, late_exchange=late)


# Bytes of a step along each axis, in the places of the seconds that their exchanges take.

StepBytes = dict[str, dict[Axis, Floats]]
"""Bytes by field of ``StageTimes`` and by axis: [chunks] or [stages]."""


def step_bytes(
    job: Job, strategy: Strategy, early: Floats, sends: Floats, bytes_of: ExchangeTime = sent_bytes
) -> StepBytes:
    """Return the bytes that a rank of every stage sends, by field of ``StageTimes`` and then by axis, arrays [chunks]
    or [stages] as the field: of ``forward_exchange``, ``backward_exchange`` and ``send`` those of one micro-batch; of
    ``gather``, ``early_exchange``, ``late_exchange``, ``exchange`` and ``tied`` those of the step. Rings of context
    groups and gathers within passes are left out.

    Args:
        job: where the strategy runs; how its channels are divided does not count.
        strategy: other than data parallelism alone.
        early: seconds of the gradients that leave unit by unit, beside the last pass, of which only whether they are
            above 0 counts: [chunks].
        sends: bytes sent to each chunk from the one before: [chunks].
        bytes_of: bytes of a collective, in the place of its seconds; the least that a rank sends if not given. Bytes of
            ``tied`` are always those that a rank sends.
    """
    rows, by_unit = Strategies.of(strategy), early > 0

    def along(axis: Axis) -> StageExchanges:
        """Return the exchanges of the step with the bytes of one axis in place of seconds; those of all others are
        0."""
        prices: AxisTimes = lambda asked: bytes_of if asked == axis else nothing  # noqa: E731
        return stage_exchanges(replace(job, shares=None), rows, prices, sharing=False, by_unit=by_unit[None])

    units, exchanges = job.model.units(job.model.chunks(rows)), {axis: along(axis) for axis in _EXCHANGING}
    tokens, tied = exchanges["tensor"], np.zeros(strategy.pp)
    for table in tokens.tied:
        tied[table.stages] += table.nbytes[0]
    nbytes: StepBytes = {
        "forward_exchange": {axis: exchanges[axis].forward[0] for axis in WITHIN},
        "backward_exchange": {axis: exchanges[axis].backward[0] for axis in WITHIN},
        "send": {"pipeline": sends},
        "gather": {axis: exchanges[axis].replicas.gather[0] for axis in REPLICAS},
        "early_exchange": {},
        "late_exchange": {},
        "exchange": {"tensor": tokens.token_gradients[0]},
        "tied": {"pipeline": tied},
    }
    for axis in REPLICAS:
        replicas = exchanges[axis].replicas
        if replicas.unit_exchange is None:
            nbytes["exchange"][axis] = replicas.exchange[0]
            continue
        first, other = replicas.unit_exchange
        nbytes["early_exchange"][axis] = np.where(by_unit, (units - 1) * other[0], 0.0)
        nbytes["late_exchange"][axis] = np.where(by_unit, first[0], replicas.exchange[0])
    return nbytes


# Settings of a circuit switch along a step: which phases share a division of the planes, and which division it is.
#
# phases      gather │ passes  last │ gradients  closing │ tied        neighbouring phases that share a division are a
# planes a    0        5       5      0          0         0           segment; the switch turns between segments
# planes b    8        3       3      8          8         0
#
# A division minimises the seconds of the phases of its segment, which add up over the groups. The step is a cycle, so
# that the last segment may go on in the first.

Seconds = Callable[[Phase, Axis, int], float]
"""Seconds of a phase by the planes of one of its axes."""
Settings = Mapping[Phase, Planes]
"""The division that stands in each phase in which something is exchanged."""
MOST_DIVISIONS: Effort = 5000
"""Number of divisions of a segment up to which all are compared; of more, planes are given one by one to the axis that
gains most."""


def gains(before: Planes, after: Planes) -> bool:
    """Return whether any axis has more planes ``after`` than ``before``; one absent from ``before`` had none, one
    absent from ``after`` gains nothing."""
    return any(count > before.get(axis, 0) for axis, count in after.items())


def turning(settings: Settings) -> tuple[Phase, ...]:
    """Return the phases before which some axis gets more planes, so that planes are set anew; the last phase comes
    before the first, since steps follow each other. ``settings`` must not be empty, and is in the order of the
    phases."""
    phases = list(settings)
    pairs = zip([phases[-1], *phases], phases, strict=False)
    return tuple(phase for before, phase in pairs if gains(settings[before], settings[phase]))


def segmentations(phases: Sequence[Phase]) -> Iterator[list[list[Phase]]]:
    """Yield every way to part a cycle of phases into segments of consecutive phases, a single segment of all first; a
    segment may go on from the last phase to the first. Nothing is yielded without phases."""
    if not phases:
        return
    yield [list(phases)]
    for turns in product((False, True), repeat=len(phases)):
        # Place p turns before phase p; one turn alone changes nothing.
        begins = [place for place, turn in enumerate(turns) if turn]
        if len(begins) > 1:
            cycle = [*phases[begins[0] :], *phases[: begins[0]]]
            edges = [begin - begins[0] for begin in begins] + [len(phases)]
            yield [cycle[a:b] for a, b in pairwise(edges)]


def best_division(
    planes: int, active: Mapping[Phase, Sequence[Axis]], seconds: Seconds, least: Planes, pinned: Planes
) -> Planes | None:
    """Return the number of planes of each axis that exchanges in the phases of ``active``, and of each pinned one: of
    all divisions of the planes the one that takes the least seconds; None where the planes are too few.

    All planes are given out, unless every axis is pinned. Past :data:`MOST_DIVISIONS` (5,000) divisions, planes go one
    by one to the axis that gains most.

    Args:
        planes: planes of the switch.
        active: the axes that exchange, by phase.
        seconds: function of a phase, one of its axes and the planes of that axis that returns seconds; those of all
            phases and axes are added up.
        least: the fewest planes of each axis.
        pinned: number of planes of the axes for which it is given; these are not searched.
    """
    axes = [axis for axis in dict.fromkeys(axis for names in active.values() for axis in names) if axis not in pinned]
    free = planes - sum(pinned.values()) - sum(least[axis] - 1 for axis in axes)
    if len(axes) > free:
        return None

    def cost(axis: Axis, count: int) -> float:
        """Return the seconds of an axis, summed over its phases, with ``count`` - 1 planes more than its least."""
        return sum(seconds(phase, axis, least[axis] - 1 + count) for phase, names in active.items() if axis in names)

    if not axes:
        return dict(pinned)
    if comb(free - 1, len(axes) - 1) <= MOST_DIVISIONS:
        shares = min(divisions(free, len(axes)), key=lambda counts: sum(map(cost, axes, counts)))
        counts = dict(zip(axes, shares, strict=True))
    else:
        counts = dict.fromkeys(axes, 1)
        for _ in range(free - len(axes)):
            gains = {axis: cost(axis, count) - cost(axis, count + 1) for axis, count in counts.items()}
            counts[max(gains, key=lambda axis: gains[axis])] += 1
    return {**pinned, **{axis: least[axis] - 1 + count for axis, count in counts.items()}}


# Which planes every axis holds in each phase of a step, by number.
#
# An axis keeps its planes from a phase to the next as far as it may, and planes that none needs stay with their last
# holder, so that no plane turns without need.

Numbers = Mapping[Phase, Mapping[int, Axis]]
"""The axis that holds each plane, by phase and plane."""


def plane_numbers(settings: Settings, planes: int) -> Numbers:
    """Return the axis that holds each of the ``planes`` planes, by phase and plane number from 0 on. Before a phase at
    which nothing turns the holders are those of the phase before it; planes that a phase does not need stay with their
    last holder."""
    phases = list(settings)
    first = phases.index(next(iter(turning(settings)), phases[0]))
    numbers: dict[Phase, Mapping[int, Axis]] = {}
    holders: dict[int, Axis] = {}
    for phase in [*phases[first:], *phases[:first]]:
        holders = _next_holders(holders, settings[phase], planes)
        numbers[phase] = holders
    return {phase: numbers[phase] for phase in phases}


def _next_holders(holders: Mapping[int, Axis], division: Mapping[Axis, int], planes: int) -> dict[int, Axis]:
    """Return the axis that holds each plane, by plane number in ascending order, in the next phase.

    Axes keep their own as far as the division lets them; an axis that gains planes takes the spare ones of lowest
    number; planes that are still spare stay with their last holder, at first with the first axis.

    Args:
        holders: axis of each plane before, by plane number; empty at first.
        division: number of planes that each axis has next.
        planes: number of planes.
    """
    kept: dict[int, Axis] = {}
    for axis, count in division.items():
        kept |= dict.fromkeys([plane for plane, holder in holders.items() if holder == axis][:count], axis)
    spare = [plane for plane in range(planes) if plane not in kept]
    for axis, count in division.items():
        missing = count - sum(holder == axis for holder in kept.values())
        kept |= {spare.pop(0): axis for _ in range(missing)}
    idle = {plane: holders.get(plane, next(iter(division))) for plane in spare}
    return dict(sorted({**idle, **kept}.items()))
