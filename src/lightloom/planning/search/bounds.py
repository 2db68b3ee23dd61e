"""Lower bounds of step times for columns of strategies, without simulating any.

    stage s   start_s = max(gather_s, start_{s−1} + F_{s−1} + send_s)
              tail_s  = max(exchange_s + update_s, send_s + B_{s−1} + tail_{s−1})
    busy_s  = max(m Σ (F_c + B_c), ⌈m / f_s⌉ · trip_s)       at most f_s micro-batches are under way beyond chunk s,
    step   ≥  max over s of  start_s + busy_s + tail_s        each for the passes and sends of a round trip from there

exchange_s is what of the gradients' exchange the stage's last pass cannot hide, and the sum over tied tables.
F and B are passes, exchanges of tensor and expert parallelism included; the sum is over the chunks of stage s, of which
chunk s is the first and the last to run. Without interleaving f_s = p − s.
Equal chunks without communication give (m + (p − 1) / v) v (F + B), which 1F1B reaches. Data parallelism alone has its
buckets or units instead: exchange k cannot start before its data exists, and all later ones follow it on one network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from lightloom.collectives.collective import Kind
from lightloom.core.arrays import Column, Effort, Floats, Ints, Mask, packed
from lightloom.core.caches import cached_method
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.circuits.circuits import GroupCircuits
from lightloom.planning.parallelism.placement.placement import HybridPlan
from lightloom.planning.parallelism.plan import START, in_flight, make_plan
from lightloom.planning.parallelism.strategy_space import (
    HYBRID,
    KIND_OF_SHARDING,
    NONE,
    SHARDINGS,
    ZERO_3,
    Strategies,
    Strategy,
)
from lightloom.planning.pricing.group_prices import GroupPrices, circuits_stand, divides, slope
from lightloom.planning.pricing.job import Job, sent_ratio
from lightloom.planning.pricing.placed_space import PartTable, PlacedRows, blocks, shared_state_bytes, state_bytes
from lightloom.planning.pricing.price_lines import LowerPrice, PriceLine
from lightloom.planning.pricing.step import (
    Group,
    distance,
    has_ring,
    replica_groups,
    served,
    stage_times,
    unique_groups,
)
from lightloom.planning.pricing.strategy_step import stage_memory
from lightloom.planning.simulation import kernels
from lightloom.planning.simulation.link_turns import Groups
from lightloom.planning.simulation.pipelined import StageTimes
from lightloom.planning.simulation.placed_step import updated_parameters

ROUNDING = 1 - 1e-9
"""Factor that keeps a bound below sums in another order than the simulator's."""
_BLOCK: Effort = 1 << 14
_REMEMBERED: Effort = 64
"""Sets of strategies whose memory a model remembers."""
_NO_LINE = PriceLine(np.inf, 0.0, np.inf, 0.0)


def admitted(job: Job, strategies: Strategies) -> Mask:
    """Return a mask of the rows all of whose collectives the row's algorithm can serve in their groups on the fabric,
    context rings, sends of pipelines and circuits of all axes that stand at once included: [rows]. Memory does not
    count."""
    tp, exchange, none = strategies.tp, strategies.exchange, np.zeros(len(strategies), np.int64)
    replicated, hybrid = strategies.sharding == NONE, strategies.sharding == HYBRID
    (in_pass, experts), (once, _) = replica_groups(strategies, job.fabric.node_ranks)
    tensor = Groups(tp, np.ones_like(tp))
    # Groups of one rank are left out below, whatever they would exchange.
    every, neurons = np.ones(len(tp), np.bool_), np.full(len(tp), job.model.split.of_neurons)
    slices = strategies.sequence_parallel | neurons
    kinds: tuple[tuple[Kind, Mask, Groups, Ints], ...] = (
        ("all-reduce", replicated | hybrid, once, exchange),
        ("all-gather", ~replicated, in_pass, exchange),
        ("reduce-scatter", ~replicated, in_pass, exchange),
        ("all-reduce", ~neurons, tensor, none),
        ("reduce-scatter", slices, tensor, none),
        ("all-gather", slices, tensor, none),
        ("all-to-all", every, Groups(strategies.ep, tp), none),
        ("all-reduce", replicated, experts, exchange),
        ("all-gather", ~replicated, experts, exchange),
        ("reduce-scatter", ~replicated, experts, exchange),
    )
    # Light that is added up on its way cannot be sent to one rank.
    found: Mask = np.full(len(strategies), job.fabric.any_pair) | (strategies.pp == 1)
    found &= has_ring(job.fabric, strategies.cp, tp)
    if isinstance(job.pricing, GroupPrices):
        found &= circuits_stand(job.fabric, strategies)
        if divides(job.fabric):
            # Circuits that stand beside those of other axes serve one collective.
            others = np.maximum.reduce([strategies.tp, strategies.pp, strategies.ep, strategies.cp]) > 1
            found &= ~(others & job.phased(strategies.exchange))
    for kind, wanted, groups, by in kinds:
        which = np.flatnonzero(wanted & (groups.ranks > 1))
        spread = distance(job.fabric, groups.stride[which])
        columns = (strategies.algorithm[which], groups.ranks[which], spread, by[which])
        found[which] &= served(job.pricing, kind, strategies.algorithms, *columns)
    return found


def memory(job: Job, strategies: Strategies) -> Floats:
    """Return the bytes that the fullest rank of each strategy holds at the worst moment of a step: [rows]. The
    algorithm of a strategy makes no difference. Results are kept with the model, the latest 64, for all fabrics that
    have the same ranks in a node, the same strategies and exchange methods that keep the same bytes."""
    columns = [getattr(strategies, name).tobytes() for name in Strategy._fields if name != "algorithm"]
    kept = tuple(method.state_bytes for method in job.exchanges)
    key = job.fabric.node_ranks, kept, blake2b(b"".join(columns)).digest()
    known = job.model.memory
    if key not in known:
        if len(known) == _REMEMBERED:
            del known[next(iter(known))]
        known[key] = _memory(job, strategies)
    return known[key]


def _memory(job: Job, strategies: Strategies) -> Floats:
    """Return the bytes that the fullest rank of each strategy holds, computed anew: [rows]. For fully sharded data
    parallelism alone the units gathered at once are included."""
    found = np.zeros(len(strategies))
    for which in _by_stages(strategies):
        found[which] = stage_memory(job, strategies.rows(which))
    plain = np.flatnonzero(strategies.plain & (strategies.sharding == ZERO_3))
    if len(plain) and not job.accelerator.takes_in_broadcasts:
        found[plain] += job.model.gathered_bytes
    return found


def bounds(job: Job, strategies: Strategies, *, proved: bool = False) -> Floats:
    """Return lower bounds of the seconds of a simulated step of each row: [rows]; infinite where no algorithm serves a
    collective.

    With ``proved`` exchanges take what no schedule of the collective beats, so that none is built; otherwise what lines
    below the prices of schedules say, which is never less.
    """
    pricing, divided = cast(GroupPrices, job.pricing), isinstance(job.pricing, GroupPrices) and divides(job.fabric)
    lines = PriceLines(pricing, strategies.algorithms, hidden_setup=False, divided=divided, proved=proved)
    found = np.zeros(len(strategies))
    for which in _by_stages(strategies):
        rows = strategies.rows(which)
        # A smaller last micro-batch only makes the step longer than one without it.
        times = stage_times(job, rows, lambda _: lines, sharing=not divided)
        found[which] = pipeline_bound(times, rows.micro_batches - (rows.micro_batch > 0))
    lines = PriceLines(pricing, strategies.algorithms, hidden_setup=True, proved=proved)
    for sharding, kind in KIND_OF_SHARDING.items():
        which = np.flatnonzero(strategies.plain & (strategies.sharding == SHARDINGS.index(sharding)))
        if len(which):
            found[which] = _plain_bound(job, strategies.rows(which), kind, lines)
    return found * ROUNDING


def pipeline_bound(times: StageTimes, micro_batches: Ints) -> Floats:
    """Return the least seconds of a step of each row, by the recurrence of the start, work and tail of every stage of a
    1F1B pipeline (interleaved where there are more chunks than stages): [rows]. It includes the gathers before the
    first pass and, after the last, what of exchanges is not hidden, tied tables and the update.

    Args:
        times: seconds of each chunk and stage: [rows, chunks] and [rows, stages].
        micro_batches: number of micro-batches that are all alike: [rows].
    """
    forward, backward = times.passes
    both = forward + backward
    stages, chunks = times.update.shape[1], both.shape[1]
    # Of the gradients that passes hide, those of a stage's last chunk are exchanged last.
    hidden = (times.lead * times.computed_backward)[:, :stages]
    exposed = times.late_exchange[:, :stages] + np.maximum(times.early_exchange[:, :stages] - hidden, 0.0)
    closing = exposed + times.exchange + times.tied + times.update
    # From a micro-batch's first pass on a stage until its gradient has left it.
    trip = both + 2 * np.concatenate([times.send[:, 1:], np.zeros_like(both[:, :1])], axis=1)
    trip = trip[:, ::-1].cumsum(axis=1)[:, ::-1]
    # As many as many micro-batches would leave under way: with fewer there is one round either way.
    flying = np.array([each[:, 0].max() for each in in_flight(stages, 4 * stages, chunks // stages)])
    rounds = -(-micro_batches[:, None] // flying)
    work = both.reshape(-1, chunks // stages, stages).sum(axis=1)
    busy = np.maximum(micro_batches[:, None] * work, rounds * trip[:, :stages])
    start, tail = times.gather[:, 0], closing[:, 0]
    found: Floats = start + busy[:, 0] + tail
    for stage in range(1, stages):
        send = times.send[:, stage]
        start = np.maximum(times.gather[:, stage], start + forward[:, stage - 1] + send)
        tail = np.maximum(closing[:, stage], send + backward[:, stage - 1] + tail)
        found = np.maximum(found, start + busy[:, stage] + tail)
    return found


def _by_stages(strategies: Strategies) -> list[Ints]:
    """Return the indices of all rows in blocks; the rows of a block have the same numbers of stages and chunks, and are
    at most 16,384, which bounds the memory of an array."""
    blocks: list[Ints] = []
    key = packed((strategies.pp, strategies.virtual_stages))
    for each in np.unique(key):
        which = np.flatnonzero(key == each)
        blocks += [which[begin : begin + _BLOCK] for begin in range(0, len(which), _BLOCK)]
    return blocks


def _plain_bound(job: Job, rows: Strategies, kind: str, lines: PriceLines) -> Floats:
    """Return the least seconds of a step of data parallelism alone, exchanges in order on one network, each after its
    data, or, where the exchange method blocks computing, one exchange of all bytes behind it: [rows].

    Args:
        job: where the rows run.
        rows: strategies, all with as many replicas and one sharding.
        kind: "ddp" or "fsdp", that of all rows.
        lines: lower bounds of the prices of exchanges.
    """
    (replicas,) = set(rows.dp.tolist())
    plan = make_plan(kind, job.model.local_graph(job.settings.batch_per_rank), replicas, job.settings)
    forward, backward = job.operators.passes(rows.samples, rows.tp, rows.recomputation)
    # Seconds of computing up to each position, the position before the first included.
    done = np.concatenate([np.zeros((len(rows), 1)), forward, backward[:, ::-1]], axis=1).cumsum(axis=1)
    update = job.accelerator.update_time(plan.updated_parameters * job.settings.optimizer_traffic_bytes)
    if not plan.exchanges:
        return done[:, -1] + update
    group = rows.algorithm, rows.dp, rows.tp, rows.exchange
    nbytes = np.broadcast_to([each.nbytes for each in plan.exchanges], (len(rows), len(plan.exchanges)))
    durations = np.empty(nbytes.shape)
    for each in dict.fromkeys(exchange.kind for exchange in plan.exchanges):
        alike = np.array([exchange.kind == each for exchange in plan.exchanges])
        durations[:, alike] = lines(each, *group, nbytes[:, alike])
    following = durations[:, ::-1].cumsum(axis=1)[:, ::-1]
    after = np.array([each.starts_after for each in plan.exchanges])
    first = np.where(plan.exchanges[0].needed_by == 0, durations[:, :1], 0.0)
    ready = done[:, after + 1] + np.where(after == START, 0.0, first)
    found: Floats = np.maximum(first[:, 0] + done[:, -1], (ready + following).max(axis=1))
    blocking = job.blocks(rows.exchange)
    if blocking.any():
        whole = np.full((len(rows), 1), sum(each.nbytes for each in plan.exchanges))
        found = np.where(blocking, done[:, -1] + lines(plan.exchanges[0].kind, *group, whole)[:, 0], found)
    return found + update


@dataclass(eq=False)
class PriceLines:
    """Lower bounds of prices of collectives, for columns of sizes; a few prices for each kind, algorithm, group and
    exchange.

    Where an exchange chooses its algorithm, the bound is the least of the algorithms'. With ``hidden_setup`` all
    circuits of the first step are set up before the data exists, otherwise only those that can stay in place
    (``Cost.repeated_time``).
    """

    pricing: GroupPrices
    algorithms: Sequence[str]
    hidden_setup: bool
    divided: bool = False
    """True where groups have no more than a share of the channels, and bytes count once."""
    proved: bool = False
    """True where bounds of the collectives stand for those of their schedules."""

    def __call__(
        self, kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats
    ) -> Floats:
        """Return the least seconds of collectives: 0 where nothing is sent or there is one rank, infinite where no
        algorithm serves.

        Arguments broadcast; ``nbytes`` may have a last dimension more than the others.
        """
        groups, row = unique_groups(algorithm, ranks, stride, exchange)
        bound = self._table(kind, *groups).column(row.reshape(row.shape + (1,) * (nbytes.ndim - row.ndim)), nbytes)
        alone = (ranks == 1).reshape(np.shape(ranks) + (1,) * (nbytes.ndim - np.ndim(ranks)))
        return np.where((nbytes > 0) & ~alone, bound, 0.0)

    @cached_method()
    def _table(self, kind: Kind, *groups: Group) -> _LineTable:
        """Return the lower bounds for one kind of collective of several groups, each (algorithm's index, ranks, stride,
        number of the exchange method), as a table in their order; cached."""
        # What no share of the channels beats; nothing where groups have all of them.
        slopes = [slope(self.pricing, kind, *group[1:]) if self.divided else 0.0 for group in groups]
        return _LineTable.of([self._of_group(kind, group) for group in groups], np.array(slopes))

    @cached_method()
    def _of_group(self, kind: Kind, group: Group) -> Sequence[LowerPrice]:
        """Return the lower bound of the algorithms that may serve a kind of collective in a group; none where none
        serves it or the group has one rank. ``group`` is (algorithm's index, ranks, stride, number of the exchange
        method). Cached."""
        algorithm, ranks, stride, exchange = group
        if ranks == 1:
            return []
        schedules = not self.proved or not isinstance(self.pricing, GroupPrices)
        lines_of, name = self.pricing.lines if schedules else self.pricing.proved_lines, self.algorithms[algorithm]
        return lines_of(kind, name, ranks, exchange, stride, hidden_setup=self.hidden_setup)


class _LineTable(NamedTuple):
    """Lower bounds of the prices of several groups, of which each may have several."""

    lines: Floats
    """Fields of price lines, infinite where a group has fewer than others: [fields, lines, groups]."""
    others: tuple[tuple[int, LowerPrice], ...]
    """Bounds of other forms, each with its group."""
    slopes: Floats
    """Seconds for each byte at least: [groups]."""

    @classmethod
    def of(cls, groups: Sequence[Sequence[LowerPrice]], slopes: Floats) -> _LineTable:
        """Return the table of the lower bounds of several groups, which :meth:`column` reads by a group's index.
        ``groups`` has the lower bounds of each, in any number and of any form; ``slopes`` [group] are seconds a byte
        that no collective of the group beats, 0 for none."""
        straight = [[line for line in lines if isinstance(line, PriceLine)] for lines in groups]
        most = max(1, *map(len, straight))
        padded = [[*lines, *[_NO_LINE] * (most - len(lines))] for lines in straight]
        others = tuple(
            (group, line) for group, lines in enumerate(groups) for line in lines if not isinstance(line, PriceLine)
        )
        return cls(np.array(padded).transpose(2, 1, 0), others, slopes)

    def column(self, group: Ints, nbytes: Floats) -> Floats:
        """Return the lower bounds in seconds of collectives of ``nbytes`` bytes, each in the group whose index in the
        table ``group`` states: the least over the algorithms of the group, infinite where it has none. The shape is
        that in which ``group`` and ``nbytes`` broadcast. Bounds of other forms than lines, for which schedules may be
        built, are not asked for 0 bytes."""
        bound: Floats = PriceLine(*self.lines[..., group])(nbytes).min(axis=0)
        groups, sizes = np.broadcast_arrays(group, nbytes)
        for place, line in self.others:
            at = np.nonzero((groups == place) & (sizes > 0))
            if len(at[0]):
                bound[at] = np.minimum(bound[at], line(sizes[at]))
        return np.maximum(bound, self.slopes[group] * nbytes) if self.slopes.any() else bound


# Lower bounds of placed plans: for columns of rows without any partition, and of one plan before and with circuits.
#
# Rows without a partition:
#
# longest chain   each operator in the parts that the partition will make, forward and then back
# computing       all operators and the update, divided by the devices
# exchange        no gradient exists before the first parameters' backward pass; what a device then sends to the
# next group, on average, takes all circuits it can have, and on a ring all that cross each link
#
# One plan, before it has circuits and with them:
#
# device     it cannot start before its first input, computes all that it has, and updates what it holds
# path       forward and back through the placed graph, a transfer between devices at the best rate there is
# gradients  none exists before the first backward pass of an operator with parameters; sums over copies and what
# goes to the next group follow
# bytes      of each port that sends or receives, of the links of a ring, of each pipe, over their rates
#
# A bound never lies above the simulated step (:func:`~lightloom.planning.simulation.placed_step.simulate_placed`).


class FastestLink(NamedTuple):
    """Rates and latency that no circuits of a fabric exceed for a rank."""

    rate: float
    """Bytes per second out of, and into, a rank; infinite where there is no other."""
    link_rate: float
    """Bytes per second on the links between two neighbours of a WDM ring, both ways together; infinite elsewhere."""
    latency: float
    """Seconds between the two nearest ranks."""


def fastest_link(fabric: Fabric) -> FastestLink:
    """Return three bests of a fabric's links: ``rate``, the bytes per second that a rank can receive over all its
    links, the mean over the ranks, infinite for a single rank; ``latency``, the least seconds to a neighbour; and
    ``link_rate``, the bytes per second of the links between two neighbours of a WDM ring, all channels and both ways
    together, infinite on other fabrics."""
    ring = fabric.exclusive and fabric.wavelength_routed
    return FastestLink(
        rate=fabric.total_receive_bandwidth() / fabric.ranks if fabric.ranks > 1 else float("inf"),
        link_rate=2 * fabric.channels * fabric.channel_bandwidth if ring else float("inf"),
        latency=fabric.neighbour_latency(),
    )


def exchange_latency(fabric: Fabric, k: int) -> float:
    """Return the seconds of propagation in a ring all-reduce between groups of ``k`` neighbouring ranks: 2 (groups − 1)
    hops, each of the least latency between a rank and the one k further on by any route. 0 for one group, and on a
    fabric of parts, whose exchange between groups is priced otherwise."""
    if fabric.ranks == k or fabric.parts:
        return 0.0
    ranks = np.arange(fabric.ranks)
    after = (ranks + k) % fabric.ranks
    ways = [fabric.latency(ranks, after, np.full(fabric.ranks, way)).min() for way in range(fabric.routes)]
    return 2 * (fabric.ranks // k - 1) * float(min(ways))


class CoarseBound(NamedTuple):
    """Bounds of placed rows, columns [rows], that need no partition."""

    bound: Floats
    """Seconds of a step."""
    sub_operators: Ints
    memory: Floats
    """Bytes that some device holds at least."""


def coarse_bound(job: Job, table: PartTable, rows: PlacedRows) -> CoarseBound:
    """Return lower bounds of the step time and of the memory of every placed row, and its number of sub-operators
    (parts of all operators), without making any partition, as ``bound`` (seconds), ``memory`` (bytes of a device on
    average, so that some device holds at least these) and ``sub_operators``: [rows] each; ``table`` says how operators
    of the job's model are cut."""
    parts = [_bound_of_block(job, table, rows.rows(block)) for block in blocks(len(rows))]
    return CoarseBound(*map(np.concatenate, zip(*parts, strict=True) if parts else 3 * [[np.empty(0)]]))


def _bound_of_block(job: Job, table: PartTable, rows: PlacedRows) -> CoarseBound:
    """Return the bounds of some placed rows at once: a step takes at least the longest of the work spread over the
    devices, the longest chain of operators, and the exchange between groups, and earlier micro-batches besides; with
    the number of parts of all operators, and the mean bytes of a device, which some device holds at least."""
    parts, (forward, backward), totals = table.parts(rows, job.operators)
    parameters = job.model.columns["parameters"] * table.placed
    # The host of a device launches what the device computes of an operator, however little.
    total = np.zeros(len(rows))
    for seconds, launched in zip(totals, job.operators.launches(rows.recomputation), strict=True):
        launching = np.where(seconds > 0, launched, 0.0)
        total += np.maximum(seconds[:, table.placed].sum(axis=1), launching[:, table.placed].sum(axis=1))
    every_step = job.accelerator.update_time(0.0)
    update = job.accelerator.update_time(float(parameters.sum() * job.settings.optimizer_traffic_bytes)) - every_step
    last, first = _chain(job.graph, table, forward, backward, parameters)
    exchange = np.where(rows.l > 1, first + _exchange(job, rows, float(parameters.sum())), 0.0)
    settings = job.settings
    of_copy, of_owned = shared_state_bytes(settings, rows.l.astype(np.float64))
    state = np.minimum(state_bytes(settings), of_copy + of_owned)
    outside = table.placed & (job.model.columns["in_block"] == 0)
    kept = job.model.columns.kept(rows.samples)
    kept = np.where(rows.recomputation == 0, kept[:, table.placed].sum(axis=1), kept[:, outside].sum(axis=1))
    held = parameters.sum() * state + kept
    earlier = (rows.micro_batches - 1) * np.maximum(total / rows.k, last)
    working = (total + update / rows.l) / rows.k + every_step
    return CoarseBound(
        bound=(np.maximum.reduce([working, last, exchange]) + earlier) * ROUNDING,
        sub_operators=parts.sum(axis=1),
        memory=held / rows.k,
    )


def _chain(
    graph: ComputeGraph, table: PartTable, forward: Floats, backward: Floats, parameters: Ints
) -> tuple[Floats, Floats]:
    """Return the least seconds from the start of a micro-batch until the last backward pass has ended, and until the
    first that makes gradients of parameters has ended, each [rows]; both alike where no operator has parameters.

    Every part reads some part of every producer, so that no chain of operators is shorter than that of their smallest
    parts.

    Args:
        graph: the operators.
        table: of which ``placed`` marks the operators that are computed.
        forward: forward seconds of the shortest part of each operator: [rows, operators].
        backward: its backward seconds: [rows, operators].
        parameters: number of parameters of each operator: [operators].
    """
    index = {operator.name: number for number, operator in enumerate(graph.operators)}
    inputs = [[index[name] for name in operator.inputs if table.placed[index[name]]] for operator in graph.operators]
    readers: list[list[int]] = [[] for _ in inputs]
    forward_end, backward_end = np.zeros((2, len(inputs), len(forward)))
    for number in np.flatnonzero(table.placed).tolist():
        for source in inputs[number]:
            readers[source].append(number)
            np.maximum(forward_end[number], forward_end[source], out=forward_end[number])
        forward_end[number] += forward[:, number]
    for number in np.flatnonzero(table.placed)[::-1].tolist():
        backward_end[number] = forward_end[number]
        for reader in readers[number]:
            np.maximum(backward_end[number], backward_end[reader], out=backward_end[number])
        backward_end[number] += backward[:, number]
    owners = np.flatnonzero(parameters > 0)
    last = backward_end.max(axis=0, initial=0.0)
    return last, backward_end[owners].min(axis=0) if len(owners) else last


def _exchange(job: Job, rows: PlacedRows, parameters: float) -> Floats:
    """Return the least seconds of the exchange of gradients of a device with the next group over the best circuits, a
    ring all-reduce of its 1 / k of the parameters: [rows]; 0 for one group, and on a fabric of parts. ``parameters`` is
    the number of all parameters."""
    if job.fabric.parts:
        return np.zeros(len(rows))
    fabric, link = job.fabric, fastest_link(job.fabric)
    nbytes = 2 * (rows.l - 1) / rows.l * parameters * job.settings.gradient_bytes / rows.k
    stride = np.minimum(rows.k, fabric.ranks - rows.k)
    sizes, which = np.unique(rows.k, return_inverse=True)
    latency = np.array([exchange_latency(fabric, int(k)) for k in sizes])[which]
    sending = nbytes / sent_ratio(job.settings, rows.ratio) * np.maximum(1 / link.rate, stride / link.link_rate)
    return sending + np.where(nbytes > 0, latency, 0.0)


def placed_bound(job: Job, plan: HybridPlan, ratio: float, circuits: GroupCircuits | None = None) -> float:
    """Return the least seconds of a step of a placed plan, over the circuits that are granted to it or, without them,
    over any. Only the last micro-batch counts, with the exchange between groups and the update; earlier ones are left
    out.

    Args:
        job: where it runs.
        plan: the placed plan.
        ratio: bytes of a gradient as float32 for each byte sent to the next group; 1 without a codec.
        circuits: those granted; None for any.
    """
    link, k, flows = fastest_link(job.fabric), plan.k, _flows(job, plan, ratio)
    rate, latency = _Pairs.of((), (), ()), _Pairs.of((), (), ())
    if circuits is None:
        if job.fabric.parts:
            # What goes between groups takes the seconds of an exchange, and no circuits inside.
            flows = [flow.among(flow.receiver < k) for flow in flows]
        total, gradients = (_bytes(job, plan, sent) for sent in flows)
    else:
        pipes, fastest = (circuits.source, circuits.destination), circuits.bandwidth.max(axis=0)
        total, gradients = (_busiest(circuits, sent.at(*pipes, 0.0)) for sent in flows)
        rate, latency = (_Pairs.of(*pipes, each) for each in (fastest, circuits.latency))
        rate, latency = (each.among(rate.value > 0) for each in (rate, latency))
    reader = np.repeat(np.arange(plan.balanced.size), np.diff(plan.balanced.parent_start))
    ways = plan.placement.device[plan.balanced.parent], plan.placement.device[reader]
    # A gradient takes the other pipe; the better of both ways stands for both.
    forward, backward = (
        latency.at(*way, link.latency) + plan.balanced.nbytes / rate.at(*way, link.rate) for way in (ways, ways[::-1])
    )
    onward = np.arange(k), np.arange(k) + k
    sending = flows[0].at(*onward, 0.0) / rate.at(*onward, link.rate) + exchange_latency(job.fabric, k)
    step, gradient = _path(job, plan, np.minimum(forward, backward), sending)
    return ROUNDING * max(step, total, gradient + gradients)


class _Pairs(NamedTuple):
    """Numbers of some pairs of devices, each pair once, in the order of senders and then of receivers: [pair]."""

    sender: Ints
    """Device of a group."""
    receiver: Ints
    """Device of the same group or, k further on, of the next one."""
    value: Floats

    @classmethod
    def of(cls, sender: ArrayLike, receiver: ArrayLike, value: ArrayLike) -> _Pairs:
        """Return the sums of the values of equal pairs, given as [entry] each in any order."""
        ends = [np.asarray(end, np.int64) for end in (sender, receiver)]
        size = int(ends[1].max(initial=0)) + 1
        pair, place = np.unique(ends[0] * size + ends[1], return_inverse=True)
        sums = np.bincount(place, np.asarray(value, np.float64), len(pair)).astype(np.float64)
        return cls(pair // size, pair % size, sums)

    def among(self, which: Mask) -> _Pairs:
        """Return the pairs for which ``which`` [pair] is True."""
        return _Pairs(self.sender[which], self.receiver[which], self.value[which])

    def at(self, sender: Column, receiver: Column, absent: float) -> Floats:
        """Return the value of each pair that is asked for, ``absent`` where there is none: [asked]."""
        if not len(self.value):
            return np.full(len(sender), absent)
        size = max(int(end.max(initial=0)) for end in (self.receiver, receiver)) + 1
        known, asked = self.sender * size + self.receiver, np.asarray(sender, np.int64) * size + receiver
        place = np.searchsorted(known, asked)
        found = np.append(known, -1)[place] == asked
        return np.where(found, np.append(self.value, absent)[place], absent)


def _flows(job: Job, plan: HybridPlan, ratio: float) -> list[_Pairs]:
    """Return the bytes that devices of one group send in the last micro-batch of a step, exchange between groups
    included, first all of them, then those of gradients of parameters alone. What a device sends to its counterpart in
    the next group, coded by ``ratio``, counts in both."""
    balanced, device, k = plan.balanced, plan.placement.device, plan.k
    within = HybridPlan(plan.placement, balanced, k, 1).traffic.model_parallel.tocoo()
    copied = np.flatnonzero(device != np.roll(device, 1))
    one, other, summed = device[copied - 1], device[copied], balanced.synchronised[copied]
    ranks, onward = np.arange(k), plan.all_reduce_bytes / sent_ratio(job.settings, np.array(ratio))
    inside = (within.row, within.col, within.data), (np.append(one, other), np.append(other, one), np.tile(summed, 2))
    return [
        _Pairs.of(np.append(sender, ranks), np.append(receiver, ranks + k), np.append(nbytes, onward))
        for sender, receiver, nbytes in inside
    ]


def _bytes(job: Job, plan: HybridPlan, sent: _Pairs) -> float:
    """Return the least seconds in which the busiest port, sending or receiving, and on a WDM ring all links together
    (each pair by the shorter way round), carry the bytes that pairs of devices send."""
    link, k, ranks = fastest_link(job.fabric), plan.k, job.fabric.ranks
    ports = np.maximum(np.bincount(sent.sender, sent.value, k), np.bincount(sent.receiver % k, sent.value, k))
    stride = np.abs(sent.receiver - sent.sender)
    links = float((sent.value * np.minimum(stride, ranks - stride)).sum()) / k
    return max(float(ports.max()) / link.rate, links / link.link_rate)


def _path(job: Job, plan: HybridPlan, transfer: Floats, sending: Floats) -> tuple[float, float]:
    """Return two numbers of seconds. First the least that the last micro-batch and the update take, the longest of
    three over all devices: all that a device computes, from its first input on; the longest path of operators and
    transfers that ends on it; and its exchange, which follows its first gradient. Second the end of the earliest
    backward pass of operators with parameters, before which no gradient of parameters exists; 0 without parameters.

    Args:
        job: where it runs.
        plan: the placed plan.
        transfer: seconds of a transfer along each edge of the graph, were it between devices; within a device it takes
            none: [edges].
        sending: seconds of each device's exchange with the next group: [k].
    """
    balanced, device, k = plan.balanced, plan.placement.device, plan.k
    reader = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
    delay = np.where(device[balanced.parent] == device[reader], 0.0, transfer)
    forward_end, backward_end = kernels.longest_paths(
        balanced.parent_start, balanced.parent, delay, balanced.forward, balanced.backward
    )
    update = job.accelerator.update_time(updated_parameters(plan) * float(job.settings.optimizer_traffic_bytes))
    busy = np.bincount(device, balanced.forward + balanced.backward, k)
    begin, end, first = np.full(k, np.inf), np.zeros(k), np.full(k, np.inf)
    np.minimum.at(begin, device, forward_end - balanced.forward)
    np.maximum.at(end, device, backward_end)
    owner = balanced.parameters > 0
    np.minimum.at(first, device[owner], backward_end[owner])
    working = np.where(busy > 0, begin + busy, 0.0)
    exchanging = np.where(plan.all_reduce_bytes > 0, first + sending, 0.0)
    bound = np.maximum.reduce([working, end, exchanging]) + update
    # A part may hold copies and own no parameter itself.
    holds = np.bincount(balanced.operator[owner], minlength=len(balanced.operators))[balanced.operator] > 0
    return float(bound.max()), float(backward_end[holds].min()) if owner.any() else 0.0


def _busiest(circuits: GroupCircuits, nbytes: Floats) -> float:
    """Return the least seconds in which all pipes carry ``nbytes`` [pipe], so many bytes each, at once: where holds of
    circuits come round in a cycle those of the slowest pipe; else those of the busiest sending or receiving port, the
    sum over its pipes, which take turns there."""
    seconds = _shortest(circuits, nbytes)
    if circuits.timing is not None:
        return float(seconds.max(initial=0.0))
    return float(max(np.bincount(port, seconds).max(initial=0.0) for port in (circuits.port, circuits.entry)))


def _shortest(circuits: GroupCircuits, nbytes: Floats) -> Floats:
    """Return the least seconds in which each pipe carries ``nbytes`` bytes [pipe]: [pipe]; 0 for a pipe without
    circuits. Where holds come round in a cycle, all but the last cycle count whole, reconfigurations included."""
    fastest = circuits.bandwidth.max(axis=0)
    lit = np.where(fastest > 0, fastest, np.inf)
    if circuits.timing is None:
        return nbytes / lit
    cycle_bytes = circuits.bandwidth.sum(axis=0) * circuits.timing.hold
    cycles = np.maximum(np.ceil(nbytes / np.where(cycle_bytes > 0, cycle_bytes, np.inf)) - 1, 0.0)
    seconds: Floats = cycles * len(circuits.bandwidth) * circuits.timing.period + (nbytes - cycles * cycle_bytes) / lit
    return seconds
