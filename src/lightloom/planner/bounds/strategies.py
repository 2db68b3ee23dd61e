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
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.effort import Effort
from lightloom.core.keys import packed
from lightloom.parallelism.load import make_plan
from lightloom.parallelism.pipeline import in_flight
from lightloom.parallelism.plan import START
from lightloom.parallelism.sharding import HYBRID, KIND_OF_SHARDING, NONE, SHARDINGS, ZERO_3, node_replicas
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.pricing.context_ring import has_ring
from lightloom.planner.pricing.divided_prices import slope
from lightloom.planner.pricing.division import circuits_stand, divides
from lightloom.planner.pricing.group_prices import GroupPrices, Pricing
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.price_line import LowerPrice, PriceLine, undominated
from lightloom.planner.pricing.stage_exchanges import Group, distance, served, unique_groups
from lightloom.planner.pricing.stage_memory import stage_memory
from lightloom.planner.pricing.stage_times import stage_times
from lightloom.simulation.pipelined import StageTimes

_ROUNDING = 1 - 1e-9
"""Sums in another order than the simulator's."""
_BLOCK: Effort = 1 << 14
_REMEMBERED: Effort = 64
"""Sets of strategies whose memory a model remembers."""
_NO_LINE = PriceLine(np.inf, 0.0, np.inf, 0.0)


def admitted(job: Job, strategies: Strategies) -> Mask:
    """Rows whose collectives their groups can have: [rows]."""
    replicas = strategies.replicas
    none, holders, shared = np.zeros(len(strategies), np.int64), replicas // strategies.ep, strategies.ep > 1
    beside, tp, stride = np.ones_like(replicas), strategies.tp, strategies.tp * strategies.ep
    replicated, hybrid = strategies.sharding == NONE, strategies.sharding == HYBRID
    sharded, exchange = ~replicated & ~hybrid, strategies.exchange
    within = node_replicas(replicas, tp, job.fabric.node_ranks)
    kinds: tuple[tuple[Kind, Mask, Ints, Ints, Ints], ...] = (
        ("all-reduce", replicated, replicas, tp, exchange),
        ("all-gather", sharded, replicas, tp, exchange),
        ("reduce-scatter", sharded, replicas, tp, exchange),
        ("all-gather", hybrid, within, tp, exchange),
        ("reduce-scatter", hybrid, within, tp, exchange),
        ("all-reduce", hybrid, replicas // within, tp * within, exchange),
        ("all-reduce", strategies.tp > 1, strategies.tp, beside, none),
        ("reduce-scatter", strategies.sequence_parallel, strategies.tp, beside, none),
        ("all-gather", strategies.sequence_parallel, strategies.tp, beside, none),
        ("all-to-all", shared, strategies.ep, tp, none),
        ("all-reduce", shared & replicated, holders, stride, exchange),
        ("all-gather", shared & sharded, holders, stride, exchange),
        ("reduce-scatter", shared & sharded, holders, stride, exchange),
    )
    # Light that is added up on its way cannot be sent to one rank.
    found: Mask = np.full(len(strategies), not job.fabric.in_network_reduction) | (strategies.pp == 1)
    found &= has_ring(job.fabric, strategies.cp, tp)
    if isinstance(job.pricing, GroupPrices):
        found &= circuits_stand(job.fabric, strategies)
        if divides(job.fabric):
            # Circuits that stand beside those of other axes serve one collective.
            others = np.maximum.reduce([strategies.tp, strategies.pp, strategies.ep, strategies.cp]) > 1
            found &= ~(others & job.phased(strategies.exchange))
    for kind, wanted, ranks, between, by in kinds:
        which = np.flatnonzero(wanted & (ranks > 1))
        spread = distance(job.fabric, between[which])
        columns = (strategies.algorithm[which], ranks[which], spread, by[which])
        found[which] &= served(job.pricing, kind, strategies.algorithms, *columns)
    return found


def memory(job: Job, strategies: Strategies) -> Floats:
    """Bytes that the fullest rank holds: [rows]; what fabrics have in common is found once."""
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
    found = np.zeros(len(strategies))
    for which in _by_stages(strategies):
        found[which] = stage_memory(job, strategies.rows(which))
    plain = np.flatnonzero(strategies.plain & (strategies.sharding == ZERO_3))
    if len(plain):
        found[plain] += job.model.gathered_bytes
    return found


def bounds(job: Job, strategies: Strategies, *, proved: bool = False) -> Floats:
    """Seconds that no simulated step of each row falls below: [rows].

    With ``proved`` exchanges take what no schedule of the collective beats, so that none is built; otherwise what lines
    below the prices of schedules say, which is never less.
    """
    divided = isinstance(job.pricing, GroupPrices) and divides(job.fabric)
    lines = PriceLines(job.pricing, strategies.algorithms, hidden_setup=False, divided=divided, proved=proved)
    found = np.zeros(len(strategies))
    for which in _by_stages(strategies):
        rows = strategies.rows(which)
        # A smaller last micro-batch only makes the step longer than one without it.
        times = stage_times(job, rows, lines, sharing=not divided)
        found[which] = pipeline_bound(times, rows.micro_batches - (rows.micro_batch > 0))
    lines = PriceLines(job.pricing, strategies.algorithms, hidden_setup=True, proved=proved)
    for sharding, kind in KIND_OF_SHARDING.items():
        which = np.flatnonzero(strategies.plain & (strategies.sharding == SHARDINGS.index(sharding)))
        if len(which):
            found[which] = _plain_bound(job, strategies.rows(which), kind, lines)
    return found * _ROUNDING


def pipeline_bound(times: StageTimes, micro_batches: Ints) -> Floats:
    """The recurrence above, arrays of ``times`` [rows, chunks] and [rows, stages]: [rows]."""
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
    """Row numbers with the same stages and chunks, in blocks that bound the memory of an array."""
    blocks: list[Ints] = []
    key = packed((strategies.pp, strategies.virtual_stages))
    for each in np.unique(key):
        which = np.flatnonzero(key == each)
        blocks += [which[begin : begin + _BLOCK] for begin in range(0, len(which), _BLOCK)]
    return blocks


def _plain_bound(job: Job, rows: Strategies, kind: str, lines: PriceLines) -> Floats:
    (replicas,) = set(rows.dp.tolist())
    plan = make_plan(kind, job.graph, replicas, job.settings)
    forward, backward = job.operators.passes(rows.samples, rows.tp, rows.recomputation)
    # Seconds of computing up to each position, the position before the first included.
    done = np.concatenate([np.zeros((len(rows), 1)), forward, backward[:, ::-1]], axis=1).cumsum(axis=1)
    update = job.accelerator.update_time(plan.updated_parameters * job.settings.optimizer_traffic_bytes)
    if not plan.exchanges:
        computing: Floats = done[:, -1] + update
        return computing
    group = rows.algorithm, rows.dp, rows.tp, rows.exchange
    sizes = [(each.kind, np.full((len(rows), 1), each.nbytes)) for each in plan.exchanges]
    durations = np.stack([lines(kind, *group, nbytes)[:, 0] for kind, nbytes in sizes], axis=1)
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


class PriceLines:
    """Lower bounds of prices, for columns of sizes; a few prices for each kind, algorithm, group and exchange.

    Where an exchange chooses its algorithm, the bound is the least of the algorithms'. With ``hidden_setup`` all
    circuits of the first step are set up before the data exists, otherwise only those that can stay in place
    (``Cost.repeated_time``).
    """

    def __init__(
        self,
        pricing: Pricing,
        algorithms: Sequence[str],
        *,
        hidden_setup: bool,
        divided: bool = False,
        proved: bool = False,
    ) -> None:
        """``divided``: whether groups have no more than a share of the channels, and bytes count once; ``proved``:
        whether bounds of the collectives stand for those of their schedules."""
        self._pricing = pricing
        self._proved = proved
        self._algorithms = algorithms
        self._hidden_setup = hidden_setup
        self._lines: dict[tuple[Kind, Group], list[LowerPrice]] = {}
        self._tables: dict[tuple[Kind, tuple[Group, ...]], _LineTable] = {}
        self._slopes: dict[tuple[Kind, Group], float] = {}
        self._divided = divided

    def __call__(
        self, kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats
    ) -> Floats:
        """Seconds: 0 where nothing is sent or there is one rank, infinite where no algorithm serves.

        Arguments broadcast; ``nbytes`` may have a last dimension more than the others.
        """
        groups, row = unique_groups(algorithm, ranks, stride, exchange)
        shape = row.shape + (1,) * (nbytes.ndim - row.ndim)
        bound = self._table(kind, groups).column(row.reshape(shape), nbytes)
        if self._divided:
            slopes = np.array([self._slope(kind, group) for group in groups])[row]
            np.maximum(bound, slopes.reshape(shape) * nbytes, out=bound)
        alone = (ranks == 1).reshape(np.shape(ranks) + (1,) * (nbytes.ndim - np.ndim(ranks)))
        return np.where((nbytes > 0) & ~alone, bound, 0.0)

    def _slope(self, kind: Kind, group: Group) -> float:
        if (kind, group) not in self._slopes:
            assert isinstance(self._pricing, GroupPrices)
            _, ranks, stride, exchange = group
            self._slopes[kind, group] = slope(self._pricing, kind, ranks, exchange, stride)
        return self._slopes[kind, group]

    def _table(self, kind: Kind, groups: list[Group]) -> _LineTable:
        key = kind, tuple(groups)
        if key not in self._tables:
            self._tables[key] = _LineTable.of([self._of_group(kind, group) for group in groups])
        return self._tables[key]

    def _of_group(self, kind: Kind, group: Group) -> list[LowerPrice]:
        if group[1] == 1:
            return []
        if (kind, group) not in self._lines:
            algorithm, ranks, stride, exchange = group
            name = self._algorithms[algorithm]
            lines_of = self._pricing.lines
            if self._proved and isinstance(self._pricing, GroupPrices):
                lines_of = self._pricing.proved_lines
            lines = lines_of(kind, name, ranks, exchange, stride, hidden_setup=self._hidden_setup)
            self._lines[kind, group] = undominated(lines)
        return self._lines[kind, group]


class _LineTable(NamedTuple):
    """Lower bounds of the prices of several groups, of which each may have several."""

    lines: Floats
    """Fields of price lines, infinite where a group has fewer than others: [fields, lines, groups]."""
    others: tuple[tuple[int, LowerPrice], ...]
    """Bounds of other forms, each with its group."""

    @classmethod
    def of(cls, groups: Sequence[Sequence[LowerPrice]]) -> _LineTable:
        """Return the table of the bounds of each group."""
        straight = [[line for line in lines if isinstance(line, PriceLine)] for lines in groups]
        most = max(1, *map(len, straight))
        padded = [[*lines, *[_NO_LINE] * (most - len(lines))] for lines in straight]
        others = tuple(
            (group, line) for group, lines in enumerate(groups) for line in lines if not isinstance(line, PriceLine)
        )
        return cls(np.array(padded).transpose(2, 1, 0), others)

    def column(self, group: Ints, nbytes: Floats) -> Floats:
        """Least bounds of collectives of so many bytes, each of a group, which broadcast with ``nbytes``; infinite
        where a group has none."""
        bound: Floats = PriceLine(*self.lines[..., group]).column(nbytes).min(axis=0)
        for place, line in self.others:
            bound = np.where(group == place, np.minimum(bound, line.column(nbytes)), bound)
        return bound
