"""A step of a strategy: what its ranks compute and exchange, and what each part costs, for columns of strategies.

    forward, backward      passes of a micro-batch            operators of a chunk, at least their launches
      forward_exchange     tensor and expert groups           all-reduces or gathers and scatters; all-to-alls
      forward_ring         context groups                     attention waits for blocks of keys and values
      forward_gather       replicas, in every pass            shards of parameters, unit by unit beside computing
    send                   from stage to stage                whole activations, or slices and an all-gather
    early, late_exchange   replicas, once a step              gradients beside the last backward pass, or after it
    gather, exchange       replicas, once a step              parameters before the first pass, gradients at the end
    tied                   stages that hold a table, once     a ring all-reduce of its gradients
    update                 once a step                        the optimizer on the parameters that a rank owns

:func:`stage_times` puts these together; the parts stand above it, in this order but for passes and sends. Each
collective is priced by a function that the caller gives: exactly for one strategy, by lower bounds for many. Where
groups of neighbours leave other groups interleaved, these share a ring's wavelengths: with ``sharing`` their bytes
count as often as there are groups between their ranks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import Kind
from lightloom.core.arrays import Floats, Ints, Mask, first_rows
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.operators import OperatorColumns
from lightloom.planning.parallelism.strategy_space import (
    HYBRID,
    NONE,
    ZERO_1,
    ZERO_2,
    ZERO_3,
    Strategies,
    node_replicas,
    state_sharers,
)
from lightloom.planning.parallelism.tensor_parallel import TiedTable, holding_stages
from lightloom.planning.pricing.group_prices import Axis, GroupPrices, Pricing, undivided_pair
from lightloom.planning.pricing.job import Crossing, Job, by_stage
from lightloom.planning.simulation.engine import waiting
from lightloom.planning.simulation.link_turns import Groups, Pass
from lightloom.planning.simulation.pipelined import StageTimes

ExchangeTime = Callable[[Kind, Ints, Ints, Ints, Ints, Floats], Floats]
"""Seconds of collectives by kind, algorithm, ranks, how far apart these lie, exchange and bytes."""
AxisTimes = Callable[[Axis], ExchangeTime]
"""Seconds of the exchanges of an axis, which may have a part of the fabric of its own."""
Group = tuple[int, int, int, int]
"""Algorithm (an index), ranks, stride, exchange."""


class PassExchanges(NamedTuple):
    """Seconds of every operator's exchanges in groups of one axis, each [rows, operators]."""

    forward: Floats
    backward: Floats


def pass_exchanges(
    columns: OperatorColumns, rows: Strategies, fabric: Fabric, axis_times: AxisTimes, *, sharing: bool
) -> dict[Axis, PassExchanges]:
    """Return, by axis, the seconds of every operator's collectives in one pass of a micro-batch: "tensor" always,
    "expert" only where some row has an ep above 1; each as (forward, backward), [rows, operators], without the passes
    that recomputation repeats.

    Args:
        columns: the operators, or one of each sort.
        rows: strategies.
        fabric: where they run.
        axis_times: returns, for an axis, the function that gives the seconds of collectives in its groups.
        sharing: whether interleaved expert groups share a ring's wavelengths, so that their bytes count as often as
            there are groups.
    """
    exchanges: dict[Axis, PassExchanges] = {"tensor": _tensor_exchanges(columns, rows, axis_times)}
    if (rows.ep > 1).any():
        exchanges["expert"] = _expert_exchanges(columns, rows, fabric, axis_times, sharing=sharing)
    return exchanges


def _tensor_exchanges(columns: OperatorColumns, rows: Strategies, axis_times: AxisTimes) -> PassExchanges:
    """Return the seconds of every operator's collectives in tensor groups, for one forward and one backward pass of a
    micro-batch, nothing repeated, as (forward, backward): each [rows, operators]; 0 where tp is 1. Outputs of
    row-parallel layers and embeddings are all-reduced forward, gradients of the inputs of column-parallel layers
    backward. With sequence parallelism outputs of the former are reduce-scattered forward and their gradients gathered
    backward, inputs of the latter gathered forward and their gradients reduce-scattered backward. Layers split by
    neurons gather their input in both passes and reduce-scatter its gradient, without sequence parallelism alone.
    ``columns`` are the operators, or one of each sort; ``axis_times`` returns, for an axis, the function that gives the
    seconds of collectives in its groups."""
    output, read = columns.outputs(rows.samples, rows.cp), columns.inputs(rows.samples, rows.cp)
    there, back = np.zeros_like(output), np.zeros_like(output)
    at, behind, gathered = (columns.where(name) for name in ("forward", "backward", "gathered"))
    # What goes forward comes back: the gradients of embeddings need no exchange, those of whole inputs do; in slices of
    # the sequence, what is scattered one way is gathered the other way, embeddings included.
    whole, slices = np.flatnonzero((rows.tp > 1) & ~rows.sequence_parallel), np.flatnonzero(rows.sequence_parallel)
    exchanges: tuple[tuple[Kind, Ints, Floats, Ints, Floats], ...] = (
        ("all-reduce", whole, there, at, output),
        ("all-reduce", whole, back, behind, read),
        ("reduce-scatter", slices, there, at, output),
        ("all-gather", slices, there, behind, read),
        ("reduce-scatter", slices, back, behind, read),
        ("all-gather", slices, back, at, output),
        ("all-gather", whole, there, gathered, read),
        ("all-gather", whole, back, gathered, read),
        ("reduce-scatter", whole, back, gathered, read),
    )
    for kind, which, out, of, nbytes in exchanges:
        if len(which) and len(of):
            place = np.ix_(which, of)
            out[place] += tensor_exchange(kind, rows.rows(which), nbytes[place], axis_times)
    return PassExchanges(there, back)


def _expert_exchanges(
    columns: OperatorColumns, rows: Strategies, fabric: Fabric, axis_times: AxisTimes, *, sharing: bool
) -> PassExchanges:
    """Return the seconds of the all-to-alls that dispatch and combine tokens in expert groups, as (forward, backward),
    one array [rows, operators] for both, as the gradients take the same ways back: of the whole input of operators that
    dispatch and the whole output of those that combine; 0 where ep is 1. With sequence parallelism each rank of a
    tensor group sends its 1 / tp of these bytes, else all of them.

    Args:
        columns: the operators, or one of each sort.
        rows: strategies.
        fabric: where they run.
        axis_times: returns, for an axis, the function that gives the seconds of collectives in its groups.
        sharing: whether bytes count as often as there are interleaved groups on the same wavelengths
            (:func:`interleaved`).
    """
    output, read = columns.outputs(rows.samples, rows.cp), columns.inputs(rows.samples, rows.cp)
    either_way = np.zeros_like(output)
    which = np.flatnonzero(rows.ep > 1)
    groups, as_it_is = rows.rows(which), np.zeros(len(which), np.int64)
    of_groups = groups.algorithm, groups.ep, distance(fabric, groups.tp), as_it_is
    # Each rank of a tensor group sends its slice of the tokens, or all of them to its like.
    slices = np.where(groups.sequence_parallel, groups.tp, 1)[:, None]
    share = interleaved(fabric, groups.tp, sharing)[:, None] / slices
    for of, nbytes in ((columns.where("dispatch"), read), (columns.where("combine"), output)):
        place = np.ix_(which, of)
        either_way[place] += axis_times("expert")("all-to-all", *of_groups, nbytes[place] * share)
    return PassExchanges(either_way, either_way)


def token_gradients(rows: Strategies, nbytes: Floats, axis_times: AxisTimes) -> Floats:
    """Return the seconds of the all-reduce, after the last pass, of gradients that each rank of a tensor group with
    slices of the sequence has of its own tokens only: [rows, stages]; 0 in rows without sequence parallelism.

    ``nbytes`` are the bytes of these gradients on each stage: [stages]; ``axis_times`` returns, for an axis, the
    function that gives the seconds of collectives in its groups.
    """
    found = np.zeros((len(rows), len(nbytes)))
    which = np.flatnonzero(rows.sequence_parallel)
    if len(which):
        found[which] = tensor_exchange("all-reduce", rows.rows(which), np.tile(nbytes, (len(which), 1)), axis_times)
    return found


def tensor_exchange(kind: Kind, rows: Strategies, nbytes: Floats, axis_times: AxisTimes) -> Floats:
    """Return the seconds of collectives of ``kind`` in tensor groups, whose ranks are neighbours, in the shape of
    ``nbytes`` [rows, ...], the bytes of each collective's whole vector; they are never coded. ``axis_times`` returns,
    for an axis, the function that gives the seconds of collectives in its groups."""
    beside, as_it_is = np.ones(len(rows), np.int64), np.zeros(len(rows), np.int64)
    return axis_times("tensor")(kind, rows.algorithm, rows.tp, beside, as_it_is, nbytes)


def distance(fabric: Fabric, stride: Ints) -> Ints:
    """Return the stride to price groups by: ``stride`` itself where the fabric's prices depend on how far apart ranks
    lie, else 1: [rows]."""
    return stride if fabric.distance_matters else np.ones_like(stride)


def interleaved(fabric: Fabric, stride: Ints, sharing: bool) -> Floats:
    """Return how many interleaved groups of this stride divide the same channels of the fabric, by which their bytes
    are multiplied: [rows], as ``stride``; 1 without ``sharing``."""
    return fabric.channel_sharing(stride).astype(np.float64) if sharing else np.ones(len(stride))


def served(
    pricing: Pricing, kind: Kind, algorithms: Sequence[str], algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints
) -> Mask:
    """Return a mask of the rows whose groups the pricing does not refuse a collective of ``kind``: [rows].

    Args:
        pricing: prices of groups.
        kind: of the collective.
        algorithms: names of algorithms.
        algorithm: index in ``algorithms``: [rows].
        ranks: ranks of a group: [rows].
        stride: distance between neighbouring ranks of a group: [rows].
        exchange: number of the method of exchanging gradients, from 1, 0 for gradients as they are: [rows].
    """
    groups, row = unique_groups(algorithm, ranks, stride, exchange)
    refusals = [pricing.refusal(kind, algorithms[name], count, sent, away) for name, count, away, sent in groups]
    return np.array([refusal is None for refusal in refusals], np.bool_)[row]


def unique_groups(algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints) -> tuple[list[Group], Ints]:
    """Return the distinct groups as tuples (algorithm, ranks, stride, exchange), and for each row the index of its own
    group among them: [rows]. The columns, [rows] each, are broadcast against each other; algorithm and exchange are
    indices."""
    columns = np.broadcast_arrays(algorithm, ranks, stride, exchange)
    if len(columns[0]) == 1:
        (group,) = zip(*(column.tolist() for column in columns), strict=True)
        return [group], np.zeros(1, np.int64)
    first, row = first_rows((*columns[:3], np.unique(columns[3], return_inverse=True)[1]))
    return list(zip(*(column[first].tolist() for column in columns), strict=True)), row


def combinations(rows: Strategies) -> tuple[Strategies, Ints]:
    """Return two things: one of the rows, the first, for each distinct combination of the columns that the times of a
    micro-batch depend on (samples, tp, ep, cp, recomputation, sequence parallelism and algorithm; not dp, pp, sharding
    or exchange), and for each row the index of its combination among these: [rows]."""
    if len(rows) == 1:
        return rows, np.zeros(1, np.int64)
    degrees = (rows.samples, rows.tp, rows.ep, rows.cp)
    first, row = first_rows((*degrees, rows.recomputation, rows.sequence_parallel, rows.algorithm))
    return rows.rows(first), row


# Exchanges between replicas: parameters and gradients.
#
#     once a step     none       all-reduce of gradients after the last pass
#                     zero-1/2   all-gather of parameters before the first pass, reduce-scatter after the last
#                     hybrid     all-reduce of shares of gradients between nodes after the last pass
#     in every pass   zero-3     gathers of unit i+1 while unit i computes; backward, reduce-scatters of unit i−1 too
#                     hybrid     the same inside a node
#                     zero-2     gathers forward, reduce-scatters backward, where ``zero_2_exchange`` is "micro-batch"
#
# With ``overlap_gradients`` what is exchanged after the last pass is exchanged chunk by chunk instead, unit by unit
# while the chunk's last backward pass computes the units before it, or after the pass: whichever exposes less.
#
# A unit is a block of the model; the first one of a chunk, with which the embedding goes, may be larger than the
# others. The network serves a unit while the one before it computes. The first gather of a pass and the last
# reduce-scatter are exposed, and between them what takes longer than a unit computes, at least the share of the
# arithmetic that exchanges take (:mod:`lightloom.planning.simulation.engine`), or than the links that a unit's own
# exchanges need are free (:mod:`lightloom.planning.simulation.link_turns`).


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
    """Seconds of the first unit of each chunk."""
    other: Floats
    """Seconds of each other unit, on average."""


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
    """Exchange of gradients unit by unit; None where gradients are exchanged after the last pass."""


REPLICA_AXES: tuple[Axis, Axis] = ("data", "expert-data")
"""Axes of the replicas of what all hold, and of those of experts."""


@dataclass(frozen=True)
class ReplicaPrices:
    """Prices of the exchanges of parameters and gradients between replicas, of columns of strategies."""

    settings: TrainingSettings
    rows: Strategies
    fabric: Fabric
    axis_times: AxisTimes
    sharing: bool
    """True where groups that interleave share a ring's wavelengths."""
    blocking: Mask
    """Rows whose gradients are exchanged after the backward pass only: [rows]."""

    @cached_property
    def groups(self) -> tuple[tuple[Groups, Groups], tuple[Groups, Groups]]:
        """Groups of replicas that exchange in every pass, and those that exchange once a step; each as (replicas of
        what all hold, replicas of experts) with columns of ranks and stride, [rows]. They differ with hybrid sharding
        alone."""
        return replica_groups(self.rows, self.fabric.node_ranks)

    def exchanges(self, held: Floats, first: Floats, units: Ints, by_unit: Mask | None = None) -> ReplicaExchanges:
        """Return the seconds of all exchanges between replicas: ``first`` and ``other``, in every pass, of the first
        unit of each chunk and of each other one on average, as (gather, regather backward, scatter), each [rows,
        chunks], 0 unless gradients or parameters are exchanged in every pass; ``gather`` of parameters once a step
        (ZeRO-1, and ZeRO-2 that exchanges once a step), [rows, stages]; ``exchange`` of gradients once a step, [rows,
        stages], or [rows, chunks] where the settings overlap gradients with passes; ``unit_exchange``, the same unit by
        unit, None unless the settings overlap, and infinite in its first units for rows of ``blocking``, whose method
        waits for the whole backward pass.

        Args:
            held: number of parameters of each chunk, first those that all replicas hold, then those of experts: [2,
                rows, chunks].
            first: number of parameters of the first unit of each chunk, in the same form: [2, rows, chunks].
            units: number of units (blocks of the model) of each chunk: [chunks].
            by_unit: chunks whose gradients are exchanged unit by unit, [rows, chunks]: these are priced that way alone,
                the others as exchanged after the pass alone. None to price both ways for all. Not used unless the
                settings overlap gradients with passes.
        """
        rows, settings = self.rows, self.settings
        stages = rows.stages
        gather, once = np.zeros((len(rows), stages)), (rows.sharding == ZERO_1) | self._zero_2("step")
        in_pass, _ = self.groups
        self._add("all-gather", in_pass, by_stage(held, stages), once, settings.sharded_parameter_bytes, gather)
        other = (held - first) / np.maximum(units - 1, 1)
        in_passes = self._units(first, other)
        if not settings.overlap_gradients:
            return ReplicaExchanges(*in_passes, gather, self._gradients(by_stage(held, stages)))
        if by_unit is not None:
            held, first, other = held * ~by_unit, first * by_unit, other * by_unit
        # One call for all sizes: prices of many rows cost little more than those of a few.
        gradients = self._gradients(np.concatenate([first, other, held], axis=2))
        of_first, of_other, after_pass = np.split(gradients, 3, axis=1)
        # What takes forever unit by unit is exchanged after the pass.
        of_first[self.blocking] = np.inf
        return ReplicaExchanges(*in_passes, gather, after_pass, UnitGradients(of_first, of_other))

    def _gradients(self, held: Floats) -> Floats:
        """Return the seconds of the exchange of gradients once a step: [rows, chunks or stages]: an all-reduce without
        sharding, a reduce-scatter with ZeRO-1 and ZeRO-2 by step, with hybrid sharding only the all-reduce of shares
        between nodes; 0 in rows that exchange them in every pass (ZeRO-3, and ZeRO-2 by micro-batch). ``held`` is the
        number of parameters of each chunk or stage, of all replicas and of experts: [2, rows, chunks or stages]."""
        rows, settings = self.rows, self.settings
        seconds: Floats = np.zeros_like(held[0])
        in_pass, once = self.groups
        self._add("all-reduce", once, held, rows.sharding == NONE, settings.gradient_bytes, seconds)
        self._add("reduce-scatter", once, held, rows.sharding == ZERO_1, settings.gradient_bytes, seconds)
        self._add("reduce-scatter", once, held, self._zero_2("step"), settings.sharded_gradient_bytes, seconds)
        shares = held / in_pass[0].ranks[:, None]
        self._add("all-reduce", once, shares, rows.sharding == HYBRID, settings.sharded_gradient_bytes, seconds)
        return seconds

    def _units(self, first: Floats, other: Floats) -> tuple[UnitExchanges, UnitExchanges]:
        """Return the seconds of the exchanges in every pass of the first unit of each chunk, and of another one, each
        as (gather, regather backward, scatter), [rows, chunks]; 0 in rows other than of ZeRO-3, hybrid sharding and
        ZeRO-2 by micro-batch, the last of which gathers nothing again backward.

        Args:
            first: number of parameters of the first unit, of all replicas and of experts: [2, rows, chunks].
            other: number of parameters of another unit, in the same form: [2, rows, chunks].
        """
        rows, settings, held = self.rows, self.settings, np.concatenate([first, other], axis=2)
        gather, scatter = np.zeros_like(held)
        resharded = np.isin(rows.sharding, (ZERO_3, HYBRID))
        chosen = resharded | self._zero_2("micro-batch")
        in_pass, _ = self.groups
        self._add("all-gather", in_pass, held, chosen, settings.sharded_parameter_bytes, gather)
        self._add("reduce-scatter", in_pass, held, chosen, settings.sharded_gradient_bytes, scatter)
        seconds = gather, np.where(resharded[:, None], gather, 0.0), scatter
        of_first, of_other = zip(*(np.split(column, 2, axis=1) for column in seconds), strict=True)
        return UnitExchanges(*of_first), UnitExchanges(*of_other)

    def _zero_2(self, often: str) -> Mask:
        """Return a mask of the rows of ZeRO-2, all False unless the setting ``zero_2_exchange`` equals ``often``
        ("step" or "micro-batch"): [rows]."""
        chosen: Mask = (self.rows.sharding == ZERO_2) & (self.settings.zero_2_exchange == often)
        return chosen

    def _add(
        self, kind: Kind, groups: tuple[Groups, Groups], held: Floats, chosen: Mask, size: int, seconds: Floats
    ) -> None:
        """Add to ``seconds`` [rows, ...], in place, those of two collectives, one after the other: among replicas of
        the parameters that all replicas hold, and among replicas of experts; a group of one rank adds nothing. The
        bytes of a collective's whole vector are ``held`` times ``size``, times the number of groups that interleave on
        the same channels where these prices count that.

        Args:
            kind: kind of both collectives.
            groups: groups of both, in this order.
            held: number of parameters of both: [2, rows, ...].
            chosen: mask of the rows that have the collectives; others stay as they are: [rows].
            size: bytes for each parameter.
            seconds: changed in place.
        """
        for axis, group, parameters in zip(REPLICA_AXES, groups, held, strict=True):
            which = np.flatnonzero(chosen & (group.ranks > 1))
            if len(which):
                stride, exchange = group.stride[which], self.rows.exchange[which]
                nbytes = parameters[which] * interleaved(self.fabric, stride, self.sharing)[:, None] * size
                of_groups = self.rows.algorithm[which], group.ranks[which], distance(self.fabric, stride), exchange
                seconds[which] += self.axis_times(axis)(kind, *of_groups, nbytes)


def replica_groups(rows: Strategies, node_ranks: int) -> tuple[tuple[Groups, Groups], tuple[Groups, Groups]]:
    """Return two pairs of groups, each as (replicas of what all ranks hold, replicas of experts), with columns of ranks
    of a group and stride (how far apart neighbours of the group lie): those that exchange beside every pass (with
    hybrid sharding inside a node), and those that exchange gradients once a step (with hybrid sharding across nodes).
    Replicas of experts are the same in both, and a single rank where ep is 1. ``node_ranks`` is the number of ranks of
    a node."""
    hybrid = rows.sharding == HYBRID
    within = np.where(hybrid, node_replicas(rows.replicas, rows.tp, node_ranks), rows.replicas)
    across = np.where(hybrid, rows.replicas // within, rows.replicas)
    experts = Groups(np.where(rows.ep > 1, rows.replicas // rows.ep, 1), rows.tp * rows.ep)
    return (Groups(within, rows.tp), experts), (Groups(across, np.where(hybrid, rows.tp * within, rows.tp)), experts)


def exposed_forward(beside: Pass, exchanges: ReplicaExchanges, units: Ints) -> Floats:
    """Return the seconds by which gathers of parameters prolong a chunk's forward pass of a micro-batch: the whole
    gather of the first unit, and of each other unit what the computing of the unit before it (1 / units of the pass)
    cannot hide: [rows, chunks]. What the passes hide is less where they load the same links, and exchanges prolong the
    computing beside them by at least the share of the arithmetic that they take.

    Args:
        beside: the forward pass without these gathers.
        exchanges: exchanges between replicas, those of units included.
        units: number of units (blocks of the model) of each chunk: [chunks].
    """
    return exchanges.first.gather + (units - 1) * beside.prolonged(1 / units, exchanges.other.gather)


def exposed_backward(beside: Pass, exchanges: ReplicaExchanges, units: Ints) -> Floats:
    """Return the seconds by which gathers of parameters and reduce-scatters of gradients prolong a chunk's backward
    pass of a micro-batch, which takes the units in the opposite order: the gather of the last unit, the reduce-scatter
    of the first, and between them what the computing of one unit (1 / units of the pass) cannot hide of the next unit's
    gather and the last one's reduce-scatter: [rows, chunks]. What the passes hide is less where they load the same
    links, and exchanges prolong the computing beside them by at least the share of the arithmetic that they take.

    Args:
        beside: the backward pass without these exchanges.
        exchanges: exchanges between replicas, those of units included.
        units: number of units (blocks of the model) of each chunk: [chunks].
    """
    first, other = exchanges.first, exchanges.other
    between = beside.prolonged(1 / units, other.regather + other.scatter)
    to_first = beside.prolonged(1 / units, first.regather + other.scatter)
    several = other.regather + (units - 2) * between + to_first + first.scatter
    return np.where(units > 1, several, first.regather + first.scatter)


def overlapped(beside: Pass, exchanges: ReplicaExchanges, units: Ints) -> tuple[Floats, Floats, Floats]:
    """Return three arrays [rows, chunks] on the exchange of each chunk's gradients: seconds of exchange beside its last
    backward pass (longer where the pass loads the same links), seconds after it (of the first unit alone), and the
    share of that pass beside which the former run, 1 - 1 / units: all units but the first, whose gradients are ready
    last.

    Where unit by unit would expose more than the exchange of all gradients at once after the pass, or a chunk has one
    unit, all of it is after the pass, and the other two are 0; all three are 0 where gradients are never exchanged unit
    by unit.

    Args:
        beside: the backward pass.
        exchanges: exchanges between replicas, of chunks and of their units.
        units: number of units (blocks of the model) of each chunk: [chunks].
    """
    none = np.zeros_like(beside.seconds)
    parts = exchanges.unit_exchange
    if parts is None:
        return none, none, none
    early, lead = (units - 1) * parts.other, 1 - 1 / units
    by_unit = (parts.first + beside.prolonged(lead, early) <= exchanges.exchange) & (units > 1)
    early, late = beside.exchanged(lead, early), np.where(by_unit, parts.first, exchanges.exchange)
    return np.where(by_unit, early, none), late, np.where(by_unit, lead, none)


def shares(rows: Strategies, held: Floats, sharers: Ints) -> Floats:
    """Return the number of parameters whose optimizer state a rank keeps: [rows, stages].

    Args:
        rows: strategies.
        held: number of parameters that a rank holds, of all replicas and of experts: [2, rows, stages].
        sharers: number of replicas among which each parameter's state is shared out: [rows]. Experts, which only every
            ep-th replica holds, are shared out among ``sharers`` / ep of them, rounded down, at least one.
    """
    kept: Floats = held[0] / sharers[:, None] + held[1] / np.maximum(sharers // rows.ep, 1)[:, None]
    return kept


# Waits of attention in a context group: keys and values go around a ring.
#
# forward    (cp − 1) · wait(send of K, V)
# backward   (cp − 1) · wait(send of K, V and their gradients) + send of the gradients
# wait(s)    max(s − attention / cp, share of the arithmetic that sends take · s)


def has_ring(fabric: Fabric, cp: Ints, tp: Ints) -> Mask:
    """Return a mask of the rows whose cp is 1, or whose context groups (cp ranks that lie tp apart) are a part of the
    fabric, where any two of its ranks can send to each other: [rows]."""
    groups = cp, distance(fabric, tp)
    first, row = first_rows(groups)
    served = [
        ranks == 1 or (fabric.any_pair and _group(fabric, ranks, stride) is not None)
        for ranks, stride in zip(*(column[first].tolist() for column in groups), strict=True)
    ]
    return np.array(served, np.bool_)[row]


def ring_waits(
    columns: OperatorColumns, rows: Strategies, fabric: Fabric, times: tuple[Floats, Floats], *, sharing: bool
) -> PassExchanges:
    """Return the seconds that attention waits in one pass of a micro-batch for blocks of keys and values that go around
    its context group, forward and backward, each [rows, operators]; 0 where cp is 1 and for other operators. A pass
    computes on cp blocks and waits cp - 1 times for what a send takes longer than computing on one, at least for the
    share of the arithmetic that the send takes; backward a send carries the gradients too, twice the bytes, and those
    go one step further at the end. Nothing is repeated.

    Args:
        columns: the operators.
        rows: strategies.
        fabric: where they run.
        times: seconds of the operators forward and backward, each [rows, operators].
        sharing: whether interleaved groups share a ring's wavelengths.
    """
    waits = PassExchanges(*(np.zeros_like(seconds) for seconds in times))
    which, attention = np.flatnonzero(rows.cp > 1), np.flatnonzero(columns["key_values"])
    if not len(which):
        return waits
    groups = rows.rows(which)
    send, latency = block_send(columns, groups, fabric, sharing=sharing)
    send, latency = send[:, attention], latency[:, None]
    place, blocks, share = np.ix_(which, attention), groups.cp[:, None], fabric.arithmetic_share
    forward, backward = (seconds[place] / blocks for seconds in times)
    waits.forward[place] = (blocks - 1) * waiting(forward, send + latency, share)
    waits.backward[place] = (blocks - 1) * waiting(backward, 2 * send + latency, share) + send + latency
    return waits


def block_send(columns: OperatorColumns, rows: Strategies, fabric: Fabric, *, sharing: bool) -> tuple[Floats, Floats]:
    """Return the seconds of sending a rank's block of keys and values to the next rank of its context group, without
    latency, [rows, operators], infinite where the fabric has no such group; and the seconds of latency of one send,
    [rows], 0 there.

    Args:
        columns: the operators.
        rows: strategies.
        fabric: where they run.
        sharing: whether bytes count as often as there are interleaved groups on the same wavelengths.
    """
    parts = map(partial(_group, fabric), rows.cp.tolist(), distance(fabric, rows.tp).tolist())
    lines = [(0.0, 0.0) if part is None else part.message(1) for part in parts]
    rate, latency = np.array(lines, np.float64).reshape(-1, 2).T
    nbytes = columns.key_value_bytes(rows.samples, rows.tp, rows.cp) * interleaved(fabric, rows.tp, sharing)[:, None]
    return np.divide(nbytes, rate[:, None], out=np.full_like(nbytes, np.inf), where=rate[:, None] > 0), latency


def _group(fabric: Fabric, ranks: int, stride: int) -> Fabric | None:
    """Return the part of a fabric with ``ranks`` ranks that lie ``stride`` apart, the fabric itself for all its ranks;
    None where it has no such part."""
    return fabric if ranks == fabric.ranks else fabric.group(ranks, stride)


# Exchanges of stages that hold copies of a tied table: a ring all-reduce of its gradients among them.

Pair = Callable[[int], tuple[float, float]]
"""Bytes per second and seconds of latency between stages whose ranks lie so far apart."""


class TiedSum(NamedTuple):
    """The sum, once a step, of the gradients of one table of which several stages hold copies."""

    stages: list[int]
    """Stages that hold the table, at least two."""
    nbytes: Floats
    """Bytes that each of their ranks sends: [rows]."""
    seconds: Floats
    """Seconds from when all of them have their gradients: [rows]."""


def tied_sums(
    tables: Sequence[TiedTable], edges: Ints, rows: Strategies, fabric: Fabric, settings: TrainingSettings, pair: Pair
) -> list[TiedSum]:
    """Return one sum for each tied table that at least two stages hold, taken after the last exchange of gradients: the
    stages that hold it, from 0; the bytes that each of their ranks sends and the seconds, both [rows]. All rows must
    have the same stages and chunks.

    A ring of g holders sends 2 (g − 1)/g of a rank's part of the gradients, the table's parameters / tp, in 2 (g - 1)
    steps over the least rate and the largest latency among its pairs of neighbours. Where gradients are sharded (from
    ``zero-2`` on), that part is divided among those that share it too; Megatron's distributed optimizer (``zero-1``)
    sums all of them.

    Args:
        tables: tied tables of the model.
        edges: first operator of each chunk and, last, the number of operators: [chunks + 1].
        rows: strategies.
        fabric: where they run.
        settings: training settings, for the bytes of a gradient.
        pair: returns the bytes per second and seconds of latency between ranks at a stride.
    """
    whole = (rows.sharding == NONE) | (rows.sharding == ZERO_1)
    sharers = np.where(whole, 1, state_sharers(rows.sharding, rows.replicas, rows.tp, fabric.node_ranks))
    size = np.where(whole, settings.gradient_bytes, settings.sharded_gradient_bytes)
    sums = []
    for table in tables:
        stages = holding_stages(table, edges, rows.stages)
        if len(stages) == 1:
            continue
        steps = 2 * (len(stages) - 1)
        nbytes = steps / len(stages) * table.parameters / rows.tp / sharers * size
        # The slowest of the pairs of neighbours in the ring of stages, the last and the first too.
        apart = [*np.diff(stages).tolist(), stages[-1] - stages[0]]
        rate, latency = _pairs(pair, distance(fabric, np.multiply.outer(apart, rows.replicas * rows.tp)))
        sums.append(TiedSum(stages, nbytes, nbytes / rate.min(axis=0) + steps * latency.max(axis=0)))
    return sums


def tied_seconds(sums: Sequence[TiedSum], rows: int, stages: int) -> Floats:
    """Return the seconds of all sums on each stage, those of several tables added up, 0 on stages that hold none:
    [rows, stages]; ``rows`` and ``stages`` are their numbers."""
    seconds = np.zeros((rows, stages))
    for each in sums:
        seconds[:, each.stages] += each.seconds[:, None]
    return seconds


def _pairs(pair: Pair, strides: Ints) -> tuple[Floats, Floats]:
    """Return the bytes per second and the seconds of latency between stages at each stride, each in the shape of
    ``strides``; ``pair``, which returns both for one stride, is called once for each different stride."""
    different, place = np.unique(strides, return_inverse=True)
    rate, latency = np.array([pair(int(stride)) for stride in different], np.float64).T
    return rate[place].reshape(strides.shape), latency[place].reshape(strides.shape)


# Sends of a stage to the next.
#
# every rank sends the whole activation        ─►  n bytes on each rank's link
# every rank sends its 1/tp, then all-gather   ─►  n / tp bytes on each rank's link, n within the tensor group
#
# A tensor group takes the faster way. The second is Megatron's scatter/gather. Source: Narayanan et al., SC 2021,
# section 4.1.

GATHER: Kind = "all-gather"
"""Makes the slices whole again."""


class Sends(NamedTuple):
    """Activations sent to each chunk from the one before, or their gradients back, each [rows, chunks]; 0 for the
    first."""

    seconds: Floats
    nbytes: Floats
    """Bytes on the link of each rank."""
    gathered: Floats
    """Bytes that a tensor group gathers from slices afterwards."""


def stage_sends(job: Job, rows: Strategies, axis_times: AxisTimes) -> Sends:
    """Return the sends of a micro-batch's activations to each chunk from the one before it: seconds, with the gather
    where there is one, the bytes on each rank's link and the bytes that a tensor group gathers afterwards, each [rows,
    chunks] and 0 for the first chunk. They go whole or in slices of 1 / tp that a tensor group gathers, whichever is
    faster: whole where no algorithm gathers or where channels are divided among axes, whose tensor groups are busy
    meanwhile. All rows must have the same stages and chunks. ``axis_times`` returns, for an axis, the function that
    gives the seconds of collectives in its groups, here of the gathers."""
    combination, row = combinations(rows)
    crossing = job.model.crossing(combination, job.model.chunks(rows)[:-1])
    gathered = crossing.total - crossing.sliced
    seconds = np.full(gathered.shape, np.inf)
    which = np.flatnonzero((combination.tp > 1) & (combination.pp > 1))
    one, groups = np.ones(len(which), np.int64), combination.rows(which)
    which = which[served(job.pricing, GATHER, rows.algorithms, groups.algorithm, groups.tp, one, np.zeros_like(one))]
    if len(which):
        seconds[which] = tensor_exchange(GATHER, combination.rows(which), gathered[which], axis_times)
    if job.shares is not None:
        # The tensor group's planes serve a pass meanwhile.
        seconds[:] = np.inf
    return _faster(rows, Crossing(*(column[row] for column in crossing)), seconds[row], *send_rate(job, rows))


def send_rate(job: Job, rows: Strategies) -> tuple[Floats, Floats]:
    """Return each rank's bytes per second and the seconds of latency when it sends to the next stage, all ranks sending
    at once, each [rows]; infinite and 0 for a single stage."""
    if rows.stages == 1:
        return np.full(len(rows), np.inf), np.zeros(len(rows))
    ranks = rows.replicas * rows.tp
    if job.shares is not None:
        return _pairs(job.shares.shift, ranks)
    pair = partial(undivided_pair, job.fabric) if isinstance(job.pricing, GroupPrices) else job.fabric.message
    return _pairs(pair, distance(job.fabric, ranks))


def _faster(rows: Strategies, crossing: Crossing, gathering: Floats, rate: Floats, latency: Floats) -> Sends:
    """Return the faster sends to each chunk: seconds with the gathering, bytes on each rank's link and bytes gathered
    (0 where sent whole), each [rows, chunks], 0 for the first chunk. Sent whole (also where both take as long), each
    rank sends all that crosses, but only its own 1 / tp of what lies in slices of the sequence; in slices, each sends 1
    / tp of everything and what did not lie in slices is gathered.

    Args:
        rows: strategies.
        crossing: bytes that cross into each chunk.
        gathering: seconds in which a tensor group gathers slices, infinite where it cannot: [rows, chunks].
        rate: bytes per second of each rank's link: [rows].
        latency: seconds of latency of the link: [rows].
    """
    tp = rows.tp[:, None]
    whole, slices = crossing.total - (1 - 1 / tp) * crossing.sliced, crossing.total / tp
    direct, scattered = (nbytes / rate[:, None] + latency[:, None] for nbytes in (whole, slices))
    scattered = scattered + gathering
    chosen = scattered < direct
    gathered = np.where(chosen, crossing.total - crossing.sliced, 0)
    columns = np.where(chosen, scattered, direct), np.where(chosen, slices, whole), gathered
    for column in columns:
        column[:, 0] = 0.0
    return Sends(*columns)


# Stages put together from what they compute, exchange and wait for.
#
# Work, bytes and parameters of the operators are columns too; a stage is a sum over consecutive operators. Exchanges
# are priced by a function that the caller gives: exactly for one strategy, by lower bounds for many.


class StageExchanges(NamedTuple):
    """Seconds of the exchanges among the ranks of a stage, and of tied tables among stages."""

    tensor: PassExchanges
    """Collectives of tensor parallelism in a pass, repeated forward passes included: [rows, chunks] each."""
    experts: PassExchanges
    """Those of expert parallelism."""
    held: Floats
    """Parameters of a rank when nothing is sharded, of all replicas and of experts: [2, rows, chunks]."""
    replicas: ReplicaExchanges
    token_gradients: Floats
    """Once a step, gradients that the ranks of a tensor group have of their own tokens only: [rows, stages]."""
    tied: list[TiedSum]
    """Once a step, after these, gradients of tables of which several stages hold copies."""

    @property
    def forward(self) -> Floats:
        """Seconds of the collectives of tensor and expert parallelism in a forward pass: [rows, chunks]."""
        return self.tensor.forward + self.experts.forward

    @property
    def backward(self) -> Floats:
        """Seconds of the collectives of tensor and expert parallelism in a backward pass, those of forward passes that
        recomputation repeats included: [rows, chunks]."""
        return self.tensor.backward + self.experts.backward


def stage_times(
    job: Job, rows: Strategies, axis_times: AxisTimes, sends: Sends | None = None, *, sharing: bool = True
) -> StageTimes:
    """Return the seconds of each chunk and stage of strategies. Of one micro-batch, [rows, chunks]: computing
    (``forward``, ``backward``), tensor and expert collectives (``forward_exchange``, ``backward_exchange``), waits for
    blocks of keys and values (``forward_ring``, ``backward_ring``), what gathers and reduce-scatters between replicas
    prolong passes by (``forward_gather``, ``backward_gather``) and the ``send`` to the chunk from the one before. Once
    a step, [rows, chunks]: gradients exchanged beside the last backward pass and after it (``early_exchange``,
    ``late_exchange``), and ``lead``, the share of that pass beside which the former run. Once a step, [rows, stages]:
    the ``gather`` of parameters, the ``exchange`` at the end (where gradients overlap passes only those that ranks of a
    tensor group have of their own tokens), ``tied`` tables and the optimizer's ``update``. All rows must have the same
    number of stages and chunks.

    Args:
        job: where the strategies run.
        rows: strategies.
        axis_times: returns, for an axis, the function that gives the seconds of collectives in its groups.
        sends: sends between chunks; None for those of :func:`stage_sends`.
        sharing: where neighbouring groups share a ring's wavelengths, count a group's bytes as often as there are
            groups.
    """
    edges, stages = job.model.chunks(rows), rows.stages
    forward, backward, forward_ring, backward_ring = _passes(job, rows, edges, sharing=sharing)
    exchanges = stage_exchanges(job, rows, axis_times, sharing=sharing)
    within, units = exchanges.replicas, job.model.units(edges)
    after = exchanges.token_gradients if within.unit_exchange else within.exchange + exchanges.token_gradients
    # Passes behind which replicas gather parameters, forward and backward, and the one that gradients leave.
    share, turns = job.fabric.arithmetic_share, job.turns
    groups, gradient_groups = replica_groups(rows, job.fabric.node_ranks)
    sent = exchanges.tensor.forward, exchanges.experts.forward, forward_ring
    sent_back = exchanges.tensor.backward, exchanges.experts.backward, backward_ring
    whole, whole_back = forward + (exchanges.forward + forward_ring), backward + (exchanges.backward + backward_ring)
    beside_forward = turns.pass_of(rows, whole, share, sent, groups)
    beside_backward = turns.pass_of(rows, whole_back, share, sent_back, groups)
    early, late, lead = overlapped(turns.pass_of(rows, whole_back, share, sent_back, gradient_groups), within, units)
    return StageTimes(
        forward=forward,
        backward=backward,
        forward_exchange=exchanges.forward,
        backward_exchange=exchanges.backward,
        forward_ring=forward_ring,
        backward_ring=backward_ring,
        forward_gather=exposed_forward(beside_forward, within, units),
        backward_gather=exposed_backward(beside_backward, within, units),
        send=(stage_sends(job, rows, axis_times) if sends is None else sends).seconds,
        early_exchange=early,
        late_exchange=late,
        lead=lead,
        gather=within.gather,
        exchange=after,
        tied=tied_seconds(exchanges.tied, len(rows), stages),
        update=_update(job, rows, by_stage(exchanges.held, stages)),
    )


def _passes(job: Job, rows: Strategies, edges: Ints, *, sharing: bool) -> tuple[Floats, Floats, Floats, Floats]:
    """Return four arrays [rows, chunks]: the seconds that each chunk computes of a micro-batch forward and backward, at
    least those of launching its operators, and the seconds that its attention waits for blocks of its context group
    forward and backward. What recomputation repeats is counted backward.

    ``edges`` are the first operators of the chunks and, last, the number of operators; with ``sharing``, bytes count as
    often as there are interleaved groups on the same wavelengths.
    """
    model, times = job.model, job.operators
    combination, row = combinations(rows)
    seconds = times.of_sorts(combination)
    ring = ring_waits(model.sorts, combination, job.on("context"), seconds, sharing=sharing)
    launches = times.repeating(times.launches_of_sorts, combination.recomputation)
    forward, backward = (
        np.maximum(model.sums(computed, edges), model.sums(np.atleast_2d(launched), edges))[row]
        for computed, launched in zip(times.repeating(seconds, combination.recomputation), launches, strict=True)
    )
    waits, waits_back = (model.sums(waited, edges)[row] for waited in times.repeating(ring, combination.recomputation))
    return forward, backward, waits, waits_back


def _update(job: Job, rows: Strategies, held: Floats) -> Floats:
    """Return the seconds of the optimizer on the parameters that a rank of each stage owns, its share where replicas
    share out the optimizer state, from the memory traffic of these alone: [rows, stages]. Parameters that no operator
    uses are on the first stage. ``held`` is the number of parameters that a rank holds, of all replicas and of experts:
    [2, rows, stages]; those that no operator uses are not in it."""
    sharers = state_sharers(rows.sharding, rows.replicas, rows.tp, job.fabric.node_ranks)
    updated = shares(rows, held, sharers)
    updated[:, 0] += job.graph.unused_parameters / sharers
    return job.accelerator.update_time(updated * float(job.settings.optimizer_traffic_bytes))


def stage_exchanges(
    job: Job, rows: Strategies, axis_times: AxisTimes, *, sharing: bool = True, by_unit: Mask | None = None
) -> StageExchanges:
    """Return the seconds of what the ranks of a stage exchange with each other in strategies of equally many stages and
    chunks, and of the sums of tied tables among stages; without the blocks of keys and values in context groups and the
    sends between stages: ``tensor`` and ``experts``, each (forward, backward), [rows, chunks]; ``replicas``, gathers of
    parameters and exchanges of gradients, in every pass or once a step; ``token_gradients``, once a step, the
    all-reduce in tensor groups of gradients that ranks have of their own tokens, [rows, stages]; ``tied``, a list with
    the stages, bytes and seconds of each tied table; besides, ``held``, the number of parameters of a rank when nothing
    is sharded, first those that all replicas hold, then those of experts, [2, rows, chunks]. Tensor and expert
    collectives are those of one pass of a micro-batch, forward and backward, where the backward pass holds what
    recomputation repeats.

    Args:
        job: where the strategies run.
        rows: strategies.
        axis_times: returns, for an axis, the function that gives the seconds of collectives in its groups; one that
            gives another amount makes the results sums of that.
        sharing: where neighbouring groups share a ring's wavelengths, count a group's bytes as often as there are
            groups.
        by_unit: chunks that exchange gradients unit by unit, [rows, chunks]: these are priced that way alone, the
            others as exchanged after the pass alone. None to price both for all.
    """
    model, fabric, settings = job.model, job.fabric, job.settings
    edges, columns, stages = model.chunks(rows), model.sorts, rows.stages
    combination, row = combinations(rows)
    of_axes = pass_exchanges(columns, combination, fabric, axis_times, sharing=sharing)
    sums = {
        axis: [model.sums(part, edges)[row] for part in job.operators.repeating(seconds, combination.recomputation)]
        for axis, seconds in of_axes.items()
    }
    tensor = PassExchanges(*sums["tensor"])
    experts = PassExchanges(*sums.get("expert", [np.zeros_like(tensor.forward)] * 2))
    begins = np.searchsorted(model.starts, edges[:-1])
    blocks = model.held_blocks(combination)
    held, first = np.add.reduceat(blocks, begins, axis=2)[:, row], blocks[:, :, begins][:, row]
    prices = ReplicaPrices(settings, rows, fabric, axis_times, sharing, job.blocks(rows.exchange))
    alone = np.where(columns["sequenced"] & ~columns["divided"] & 1, columns["parameters"], 0)[None, :]
    nbytes = model.sums(alone, edges).reshape(-1, stages).sum(axis=0) * float(settings.gradient_bytes)
    return StageExchanges(
        tensor=tensor,
        experts=experts,
        held=held,
        replicas=prices.exchanges(held, first, model.units(edges), by_unit),
        token_gradients=token_gradients(combination, nbytes, axis_times)[row],
        tied=tied_sums(model.tied, edges, rows, fabric, settings, job.tied_pair),
    )
