"""A plan's step taken apart: what each stage does, how its collectives are carried, and over which network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.derived import group_members
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.export.chakra.carriers import CarriedCollective, Line, carried
from lightloom.planner.export.chakra.network import Network, goes_around, network_of
from lightloom.planner.export.chakra.operations import CollectiveUse, Operation
from lightloom.planner.export.chakra.plain import plain_operations
from lightloom.planner.export.chakra.staged import StagedOperations, tied_use
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.placed_space import PlacedChoice
from lightloom.planner.pricing.stage_exchanges import Axis, distance
from lightloom.planner.pricing.stage_sends import send_rate
from lightloom.planner.pricing.strategy_step import StrategyStep, on_divided_channels
from lightloom.simulation.lower import Price
from lightloom.simulation.placed_step import PlacedStep

_OF_AXIS: dict[str, str] = {"expert": "data", "expert-data": "data"}
"""The axis of ranks on which groups of another axis lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTraces:
    """Everything of a step that its traces say."""

    ranks: int
    stages: tuple[tuple[Operation, ...], ...]
    """What the ranks of each stage do; ranks of a stage are neighbours."""
    carriers: dict[CollectiveUse, CarriedCollective]
    network: Network
    notes: tuple[str, ...]
    """What the traces and the network say otherwise than the plan."""

    def members(self, use: CollectiveUse) -> Ints:
        """Return the ranks of all groups of a collective: [group, rank]."""
        return group_members(self.ranks, use.ranks, use.stride)


def step_traces(job: Job, choice: Strategy | PlacedChoice, step: StrategyStep | PlacedStep) -> StepTraces:
    """Take the step of a plan apart.

    Raises:
        UnsupportedError: the step has what neither traces nor a simulator of messages can say; the line names it.
    """
    if not isinstance(choice, Strategy) or not isinstance(step, StrategyStep):
        raise UnsupportedError(
            "a placed plan sends parcels over circuits, which are not written: expected another --strategy"
        )
    if choice.exchange:
        raise UnsupportedError("its method of exchange has phases that are not written: expected no --exchange")
    return _plain(job, choice, step) if choice.plain else _staged(job, choice, step)


def _plain(job: Job, strategy: Strategy, step: StrategyStep) -> StepTraces:
    carriers, ranks = dict[CollectiveUse, CarriedCollective](), job.fabric.ranks
    operations = plain_operations(job, step, job.computing(strategy))
    assert step.prices is not None
    for operation in operations:
        if operation.use is not None and operation.use not in carriers:
            carriers[operation.use] = carried(step.prices, operation.use)
    often = _times([operations])
    lines = {"data": [(use.nbytes * often[use], carrier.line) for use, carrier in carriers.items()]}
    network, notes = network_of([("data", ranks)], lines, around=goes_around(carriers, ranks))
    return StepTraces(
        ranks=ranks, stages=(tuple(operations),), carriers=carriers, network=network, notes=(*notes, *_notes(carriers))
    )


class _Lines(NamedTuple):
    """Bytes and lines of what is sent, by axis."""

    of_axis: dict[str, list[tuple[float, Line]]]

    def add(self, axis: str, nbytes: float, line: Line) -> None:
        """Add a collective or a send."""
        self.of_axis.setdefault(_OF_AXIS.get(axis, axis), []).append((nbytes, line))


def _staged(job: Job, strategy: Strategy, step: StrategyStep) -> StepTraces:
    assert step.stages is not None
    job = on_divided_channels(job, strategy)
    staged = StagedOperations(job, strategy, step.stages)
    stages = tuple(tuple(staged.of_stage(stage)) for stage in range(strategy.pp))
    carriers: dict[CollectiveUse, CarriedCollective] = {}
    shared = {payload.use: payload.shared for payload in staged.payloads}
    lines, often = _Lines({}), _times(stages)
    for use in dict.fromkeys([*shared, *staged.gathered_sends]):
        carriers[use] = carried(_price(job, strategy, use), use, shared.get(use, 1.0))
        lines.add(use.axis, use.nbytes * max(often[use], 1), carriers[use].line)
    per_stage = strategy.replicas * strategy.tp
    sent = [operation.nbytes for stage in stages for operation in stage if operation.verb == "send"]
    if sent:
        rates, latencies = send_rate(job, Strategies.of(strategy))
        lines.add("pipeline", sum(sent), Line(float(rates[0]), float(latencies[0]), max(sent)))
    for table in staged.tied:
        use = tied_use(table)
        rate, latency = job.tied_pair(per_stage)
        carriers[use] = CarriedCollective("ring", float(table.seconds[0]), Line(rate, latency, use.nbytes / use.ranks))
        lines.add("pipeline", use.nbytes, carriers[use].line)
    sizes = [("tensor", strategy.tp), ("data", strategy.replicas), ("pipeline", strategy.pp)]
    network, notes = network_of(sizes, lines.of_axis, around=False)
    return StepTraces(
        ranks=job.fabric.ranks,
        stages=stages,
        carriers=carriers,
        network=network,
        notes=(*notes, *_notes(carriers)),
    )


def _times(stages: Sequence[Sequence[Operation]]) -> Counter[CollectiveUse]:
    """Count how often each collective occurs."""
    return Counter(operation.use for stage in stages for operation in stage if operation.use is not None)


def _price(job: Job, strategy: Strategy, use: CollectiveUse) -> Price:
    """Return the prices of a collective's group."""
    axis: Axis = use.axis
    pricing = job.pricing if job.shares is None else job.shares.pricing(axis)
    stride = int(distance(job.fabric, np.array([use.stride]))[0])
    return pricing.price(strategy.algorithm, use.ranks, 0, stride)


def _notes(carriers: dict[CollectiveUse, CarriedCollective]) -> list[str]:
    without = dict.fromkeys(carrier.algorithm for carrier in carriers.values() if carrier.schedule is None)
    notes = []
    if "library" in without:
        notes.append(
            "the fabric's collective library has no schedule: ASTRA-sim runs its own ring, over pairs that are as fast "
            "as a ring of the library's time needs"
        )
    if "ring" in without:
        notes.append("tied tables are added up by ASTRA-sim's own ring among their stages")
    return notes
