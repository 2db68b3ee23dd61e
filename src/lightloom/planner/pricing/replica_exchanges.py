"""What replicas exchange with each other: parameters and gradients, for columns of strategies.

    once a step      none      all-reduce of gradients after the last pass
                     zero-1/2  all-gather of parameters before the first pass, reduce-scatter after the last
                     hybrid    all-reduce of shares of gradients between nodes after the last pass
    in every pass    zero-3    gathers of unit i+1 while unit i computes; backward, reduce-scatters of unit i−1 too
                     hybrid    the same inside a node
    in every pass    zero-2    gathers forward, reduce-scatters backward, where ``zero_2_exchange`` is "micro-batch"

With ``overlap_gradients`` what is exchanged after the last pass is exchanged chunk by chunk instead, unit by unit while
the chunk's last backward pass computes the units before it, or after the pass: whichever exposes less.

A unit is a block of the model; the first one of a chunk, with which the embedding goes, may be larger than the others.
The network serves a unit while the one before it computes. The first gather of a pass and the last reduce-scatter are
exposed, and between them what takes longer than a unit computes, at least the share of the arithmetic that exchanges
take (:mod:`lightloom.simulation.contention`), or than the links that a unit's own exchanges need are free
(:mod:`lightloom.simulation.link_turns`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.clusters.settings import TrainingSettings
from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.sharding import HYBRID, NONE, ZERO_1, ZERO_2, gathers_in_passes, node_replicas
from lightloom.parallelism.strategy_space import Strategies
from lightloom.planner.pricing.divided_model import Held
from lightloom.planner.pricing.stage_exchanges import Axis, ExchangeTime, distance, interleaved, on_axis
from lightloom.simulation.link_turns import Groups, Pass


class UnitExchanges(NamedTuple):
    """Seconds of the exchanges of one unit, each [rows, chunks]; 0 where parameters stay for the whole step."""

    gather: Floats
    """All-gather of its parameters in a forward pass."""
    regather: Floats
    """All-gather of its parameters in a backward pass."""
    scatter: Floats
    """Reduce-scatter of its gradients, once in each micro-batch."""


class UnitGradients(NamedTuple):
    """Seconds of the exchange of a unit's gradients, once a step, each [rows, chunks]."""

    first: Floats
    """Of the first unit of each chunk."""
    other: Floats
    """Of each other unit, on average."""


class ReplicaExchanges(NamedTuple):
    """Seconds of exchanges between replicas."""

    first: UnitExchanges
    """Exchanges of the first unit of each chunk."""
    other: UnitExchanges
    """Exchanges of each other unit, on average."""
    gather: Floats
    """All-gather of a stage's parameters, once a step: [rows, stages]."""
    exchange: Floats
    """All-reduce or reduce-scatter of the gradients of a stage, or where they may overlap passes of a chunk, once a
    step: [rows, stages] or [rows, chunks]."""
    unit_exchange: UnitGradients | None = None
    """The same unit by unit; None where gradients are exchanged after the last pass."""


class _Group(NamedTuple):
    """Replicas that hold the same parameters."""

    held: Floats
    """Parameters of each replica: [rows, chunks] or [rows, stages]."""
    rows: Mask
    """Rows that have such replicas: [rows]."""
    ranks: Ints
    """Number of replicas: [rows]."""
    stride: Ints
    """Distance between neighbours, in ranks: [rows]."""
    axis: Axis = "data"


class ReplicaPrices:
    """Prices of the exchanges between replicas of columns of strategies."""

    def __init__(
        self,
        settings: TrainingSettings,
        rows: Strategies,
        fabric: Fabric,
        exchange_time: ExchangeTime,
        *,
        sharing: bool,
        blocking: Mask | None = None,
    ) -> None:
        """``blocking``: rows whose gradients are exchanged after the backward pass only [rows]; none without it."""
        self._blocking = np.zeros(len(rows), np.bool_) if blocking is None else blocking
        self._settings = settings
        self._rows = rows
        self._fabric = fabric
        self._exchange_time = exchange_time
        self._sharing = sharing
        self._within = node_replicas(rows.replicas, rows.tp, fabric.node_ranks)

    def exchanges(self, held: Held, first: Held, units: Ints, by_unit: Mask | None = None) -> ReplicaExchanges:
        """Return the seconds of all exchanges.

        Args:
            held: parameters of each chunk.
            first: those of its first unit.
            units: units of each chunk: [chunks].
            by_unit: chunks whose gradients are exchanged unit by unit [rows, chunks]; only what follows is priced.
                Without it both ways are, where gradients may overlap passes.
        """
        rows, settings = self._rows, self._settings
        stages = rows.stages
        gather, once = np.zeros((len(rows), stages)), (rows.sharding == ZERO_1) | self._zero_2("step")
        for group in self._holders(held.by_stage(stages)):
            self._add("all-gather", group, once, settings.sharded_parameter_bytes, gather)
        others = np.maximum(units - 1, 1)
        other = Held((held.dense - first.dense) / others, (held.experts - first.experts) / others)
        in_passes = self._units(first, other)
        if not settings.overlap_gradients:
            return ReplicaExchanges(*in_passes, gather, self._gradients(held.by_stage(stages)))
        if by_unit is not None:
            held, first, other = held.of(~by_unit), first.of(by_unit), other.of(by_unit)
        # One call for all sizes: prices of many rows cost little more than those of a few.
        of_first, of_other, after_pass = np.split(self._gradients(first.beside(other, held)), 3, axis=1)
        # What takes forever unit by unit is exchanged after the pass.
        of_first[self._blocking] = np.inf
        return ReplicaExchanges(*in_passes, gather, after_pass, UnitGradients(of_first, of_other))

    def _gradients(self, held: Held) -> Floats:
        """Return the seconds of the exchange of gradients once a step, of so many parameters: as ``held``."""
        rows, settings, seconds = self._rows, self._settings, np.zeros_like(held.dense)
        for group in self._holders(held):
            self._add("all-reduce", group, rows.sharding == NONE, settings.gradient_bytes, seconds)
            self._add("reduce-scatter", group, rows.sharding == ZERO_1, settings.gradient_bytes, seconds)
            self._add("reduce-scatter", group, self._zero_2("step"), settings.sharded_gradient_bytes, seconds)
        within, hybrid = self._within, rows.sharding == HYBRID
        across = _Group(held.dense / within[:, None], hybrid, rows.replicas // within, rows.tp * within)
        self._add("all-reduce", across, hybrid, settings.sharded_gradient_bytes, seconds)
        return seconds

    def _units(self, first: Held, other: Held) -> tuple[UnitExchanges, UnitExchanges]:
        """Return the seconds of the exchanges of the first unit of each chunk and of another one."""
        rows, settings, held = self._rows, self._settings, first.beside(other)
        gather, scatter = np.zeros_like(held.dense), np.zeros_like(held.dense)
        resharded = gathers_in_passes(rows.sharding)
        chosen = resharded | self._zero_2("micro-batch")
        for group in self._holders(held):
            inside = group._replace(ranks=np.where(rows.sharding == HYBRID, self._within, group.ranks))
            self._add("all-gather", inside, chosen, settings.sharded_parameter_bytes, gather)
            self._add("reduce-scatter", inside, chosen, settings.sharded_gradient_bytes, scatter)
        seconds = gather, np.where(resharded[:, None], gather, 0.0), scatter
        of_first, of_other = zip(*(np.split(column, 2, axis=1) for column in seconds), strict=True)
        return UnitExchanges(*of_first), UnitExchanges(*of_other)

    def _zero_2(self, often: str) -> Mask:
        """Rows that shard gradients but not parameters, if these exchange so often: [rows]."""
        chosen: Mask = (self._rows.sharding == ZERO_2) & (self._settings.zero_2_exchange == often)
        return chosen

    def _holders(self, held: Held) -> tuple[_Group, _Group]:
        """Replicas of what all hold, and of experts, whose exchanges follow."""
        rows = self._rows
        return (
            _Group(held.dense, np.ones(len(rows), np.bool_), rows.replicas, rows.tp),
            _Group(held.experts, rows.ep > 1, rows.replicas // rows.ep, rows.tp * rows.ep, "expert-data"),
        )

    def _add(self, kind: Kind, group: _Group, chosen: Mask, size: int, seconds: Floats) -> None:
        """Add the seconds of a collective of some rows, with ``size`` bytes for each parameter."""
        which = np.flatnonzero(chosen & group.rows)
        if not len(which):
            return
        stride = group.stride[which]
        shared = interleaved(self._fabric, stride, self._sharing)[:, None]
        seconds[which] += on_axis(self._exchange_time, group.axis)(
            kind,
            self._rows.algorithm[which],
            group.ranks[which],
            distance(self._fabric, stride),
            self._rows.exchange[which],
            group.held[which] * shared * size,
        )


def replica_groups(rows: Strategies, node_ranks: int) -> tuple[tuple[Groups, Groups], tuple[Groups, Groups]]:
    """Return the groups of replicas that exchange beside every pass, and of those that exchange gradients once a
    step."""
    hybrid = rows.sharding == HYBRID
    within = np.where(hybrid, node_replicas(rows.replicas, rows.tp, node_ranks), rows.replicas)
    across = np.where(hybrid, rows.replicas // within, rows.replicas)
    experts = Groups(np.where(rows.ep > 1, rows.replicas // rows.ep, 1), rows.tp * rows.ep)
    beside_gradients = Groups(across, np.where(hybrid, rows.tp * within, rows.tp))
    return (Groups(within, rows.tp), experts), (beside_gradients, experts)


def exposed_forward(beside: Pass, exchanges: ReplicaExchanges, units: Ints) -> Floats:
    """Return the seconds by which gathers of parameters prolong a forward pass of a stage: [rows, chunks].

    Args:
        beside: the pass without them.
        exchanges: those of the units.
        units: units of each chunk: [chunks].
    """
    return exchanges.first.gather + (units - 1) * beside.prolonged(1 / units, exchanges.other.gather)


def exposed_backward(beside: Pass, exchanges: ReplicaExchanges, units: Ints) -> Floats:
    """Return the seconds by which gathers and the exchange of gradients prolong a backward pass of a stage.

    Arguments as of :func:`exposed_forward`; units come in the opposite order: [rows, chunks].
    """
    first, other = exchanges.first, exchanges.other
    between = beside.prolonged(1 / units, other.regather + other.scatter)
    to_first = beside.prolonged(1 / units, first.regather + other.scatter)
    several = other.regather + (units - 2) * between + to_first + first.scatter
    prolonged: Floats = np.where(units > 1, several, first.regather + first.scatter)
    return prolonged


class Overlap(NamedTuple):
    """When the gradients of chunks are exchanged, each [rows, chunks]; as fields of ``StageTimes``."""

    early: Floats
    late: Floats
    lead: Floats


def overlapped(beside: Pass, exchanges: ReplicaExchanges, units: Ints) -> Overlap:
    """Return the exchange of gradients beside the last backward pass of each chunk, or after it where that is shorter.

    Args:
        beside: the backward pass.
        exchanges: those of the chunks and of their units.
        units: units of each chunk: [chunks].
    """
    none = np.zeros_like(beside.seconds)
    parts = exchanges.unit_exchange
    if parts is None:
        return Overlap(none, none, none)
    early, lead = (units - 1) * parts.other, 1 - 1 / units
    exposed = parts.first + beside.prolonged(lead, early)
    by_unit = (exposed <= exchanges.exchange) & (units > 1)
    early, late = beside.exchanged(lead, early), np.where(by_unit, parts.first, exchanges.exchange)
    return Overlap(np.where(by_unit, early, none), late, np.where(by_unit, lead, none))


def shares(rows: Strategies, held: Held, sharers: Ints) -> Floats:
    """Parameters whose optimizer state a rank keeps, shared out among so many replicas [rows]: [rows, stages].

    Experts, which fewer replicas hold, are shared out among those.
    """
    among_experts = np.maximum(sharers // rows.ep, 1)
    kept: Floats = held.dense / sharers[:, None] + held.experts / among_experts[:, None]
    return kept
