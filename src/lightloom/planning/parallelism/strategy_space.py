"""Strategies as columns: a row is one full assignment of degrees, batch, sharding, recomputation, collective and codec.

    rank = ((stage · dp + replica) · cp + slice) · tp + shard     tensor shards are neighbours, stages farthest apart

Columns let a bound take a hundred thousand strategies at once. Names are those of Megatron and torchtitan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import gcd, isqrt
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from lightloom.core.arrays import Ints, Mask
from lightloom.planning.parallelism.plan import RECOMPUTATIONS

# What replicas keep of parameters, gradients and optimizer state: everything, or each its share.
#
# none      everything in every replica; gradients are all-reduced
# zero-1    optimizer state is shared out: gradients are reduce-scattered, updated parameters gathered, once a step
# zero-2    gradients too
# zero-3    parameters too: gathered unit by unit for every pass of a micro-batch, gradients reduce-scattered after it
# hybrid    as zero-3 among the replicas of a node; shares of gradients are all-reduced between nodes, once a step
#
# Sources: Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.2.2 (hybrid
# sharding).

Sharding = Literal["none", "zero-3", "zero-1", "zero-2", "hybrid"]
SHARDINGS: tuple[Sharding, ...] = get_args(Sharding)
"""The first two are those of data parallelism alone, exchange by exchange."""
NONE, ZERO_3, ZERO_1, ZERO_2, HYBRID = range(len(SHARDINGS))
"""Their places in :data:`SHARDINGS`."""
SYNONYMS = {"ddp": "none", "fsdp": "zero-3"}
"""Other names by which users may call them."""
KIND_OF_SHARDING = {"none": "ddp", "zero-3": "fsdp"}
"""Kinds of data parallelism alone by sharding."""


def canonical(sharding: str | None) -> str | None:
    """Return the name in :data:`SHARDINGS` of a sharding that a user names (``ddp`` is ``none``, ``fsdp`` is
    ``zero-3``); None, or a name that is no synonym, as it is, whether it is known or not."""
    return None if sharding is None else SYNONYMS.get(sharding, sharding)


def state_sharers(sharding: Ints, dp: Ints, tp: Ints, node_ranks: int) -> Ints:
    """Return the number of replicas that share out the optimizer's state: [rows]; 1 without sharding, those in a node
    with hybrid sharding, else all.

    Args:
        sharding: index in :data:`SHARDINGS` (none, zero-3, zero-1, zero-2, hybrid): [rows].
        dp: number of ranks that hold the same parameters, those of context groups included: [rows].
        tp: tensor-parallel degree: [rows].
        node_ranks: ranks of a node.
    """
    replicas: Ints = np.where(sharding == NONE, 1, dp)
    return np.where(sharding == HYBRID, node_replicas(dp, tp, node_ranks), replicas)


def node_replicas(dp: Ints, tp: Ints, node_ranks: int) -> Ints:
    """Return how many neighbouring replicas of a tensor shard lie in one node of ``node_ranks`` ranks: [rows], the
    greatest common divisor of ``dp`` and ``node_ranks / tp``; 1 where ``tp`` does not divide the node's ranks.

    ``dp`` [rows] is the number of ranks that hold the same parameters, those of context groups included.
    """
    divides = node_ranks % tp == 0
    return np.where(divides, np.gcd(dp, np.where(divides, node_ranks // tp, 1)), 1)


MOST_MICRO_BATCHES = 256
"""Micro-batches of a step that a search tries at most."""
MOST_VIRTUAL_STAGES = 4
"""Chunks of a stage that a search tries at most."""


class Strategy(NamedTuple):
    """Degrees, batch and choices of one strategy."""

    dp: int
    tp: int
    pp: int
    micro_batches: int
    global_batch: int
    sharding: str
    recomputation: str
    algorithm: str
    exchange: int
    """Number of the method by which replicas exchange gradients; 0 for gradients as they are."""
    sequence_parallel: bool = False
    virtual_stages: int = 1
    ep: int = 1
    micro_batch: int = 0
    """Samples of a micro-batch where they do not divide a replica's batch, so that the last one is smaller; 0 where all
    are alike."""
    cp: int = 1

    @property
    def replicas(self) -> int:
        """Ranks that hold the same parameters, dp · cp: those that share a sample's tokens do too."""
        return self.dp * self.cp

    @property
    def samples(self) -> int:
        """Samples of one micro-batch of a replica, other than a smaller last one: ``micro_batch`` where that is stated,
        else the replica's batch over ``micro_batches``."""
        return self.micro_batch or self.global_batch // (self.dp * self.micro_batches)

    @property
    def last_samples(self) -> int:
        """Samples of a replica's last micro-batch: those that the others leave of its batch, as many as :attr:`samples`
        where all are alike."""
        return self.global_batch // self.dp - (self.micro_batches - 1) * self.samples

    @property
    def last_micro_batch(self) -> Strategy:
        """Strategy of which the last micro-batch alone is a whole step: one micro-batch of :attr:`last_samples` samples
        a replica, and a global batch of dp times as many; all degrees and choices alike."""
        return self._replace(micro_batch=0, micro_batches=1, global_batch=self.dp * self.last_samples)

    @property
    def plain(self) -> bool:
        """True where the strategy is data parallelism alone, replicated (``none``) or fully sharded (``zero-3``), with
        one micro-batch and all other degrees 1."""
        return self.sharding in KIND_OF_SHARDING and max(self.tp, self.pp, self.cp, self.micro_batches, self.ep) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategies:
    """Strategies as columns of shape [rows]."""

    algorithms: tuple[str, ...]
    """The names that column ``algorithm`` indexes."""
    dp: Ints
    """Data-parallel degree: replicas of the model."""
    tp: Ints
    """Tensor-parallel degree: ranks that share every operator of a block."""
    pp: Ints
    """Number of pipeline stages."""
    micro_batches: Ints
    """Parts of a replica's batch, in 1F1B order."""
    global_batch: Ints
    """Samples of a step on all ranks together."""
    sharding: Ints
    """Sharding, as an index in :data:`SHARDINGS`."""
    recomputation: Ints
    """Recomputation, as an index in :data:`RECOMPUTATIONS`."""
    algorithm: Ints
    """Index in ``algorithms``, for the exchanges of data and of tensor parallelism alike."""
    exchange: Ints
    """Number of the method by which replicas exchange gradients; 0 for gradients as they are."""
    sequence_parallel: Mask
    """True when the operators between the split layers work on slices of the sequence; only where tp > 1."""
    virtual_stages: Ints
    """Chunks of the model that a stage holds, in interleaved 1F1B order; 1 without."""
    ep: Ints
    """Expert-parallel degree: replicas that share the experts of a mixture; divides dp · cp."""
    micro_batch: Ints
    """Samples of a micro-batch where the last one is smaller; 0 where all are alike."""
    cp: Ints
    """Context-parallel degree: ranks that share the tokens of every sample."""

    @classmethod
    def of(cls, *strategies: Strategy) -> Strategies:
        """Return columns with one row for each strategy, in their order. Names become indices: of shardings and
        recomputations by their place in the module's tuples, of algorithms in the order of first use. ValueError for a
        sharding or recomputation that the tuples do not have."""
        algorithms = tuple(dict.fromkeys(strategy.algorithm for strategy in strategies))
        return cls(algorithms=algorithms, **columns_of(strategies, Strategy._fields, _names(algorithms)))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.dp)

    def __getitem__(self, row: int) -> Strategy:
        """Return one row as a strategy, its indices as names."""
        values: dict[str, Any] = {name: getattr(self, name)[row].item() for name in Strategy._fields}
        return Strategy(**values | {name: known[values[name]] for name, known in _names(self.algorithms).items()})

    @property
    def replicas(self) -> Ints:
        """Ranks of each row that hold the same parameters, dp · cp: those that share a sample's tokens do too."""
        return self.dp * self.cp

    @property
    def samples(self) -> Ints:
        """Samples of one micro-batch of a replica, other than a smaller last one: [rows]."""
        return np.where(self.micro_batch > 0, self.micro_batch, self.global_batch // (self.dp * self.micro_batches))

    @property
    def stages(self) -> int:
        """Number of pipeline stages of all rows, which must have equally many.

        Raises:
            ValueError: they differ, or there is no row.
        """
        (stages,) = set(self.pp.tolist())
        return int(stages)

    @property
    def plain(self) -> Mask:
        """Mask of the rows of data parallelism alone (sharding ``none`` or ``zero-3``, one micro-batch, all other
        degrees 1), whose buckets and units are simulated one by one: [rows]."""
        alone: Mask = (self.tp == 1) & (self.pp == 1) & (self.cp == 1) & (self.micro_batches == 1) & (self.ep == 1)
        alone &= (self.sharding == NONE) | (self.sharding == ZERO_3)
        return alone

    def rows(self, which: Any) -> Strategies:
        """Return the strategies, as columns, of the rows that a mask [rows] or indices choose, with the same names of
        algorithms."""
        return replace(self, **{name: getattr(self, name)[which] for name in Strategy._fields})


def columns_of(rows: Sequence[tuple[Any, ...]], names: Sequence[str], named: Mapping[str, Sequence[str]]) -> Any:
    """Return rows as a dictionary of arrays by column name, [rows] each, of the type that NumPy finds for the values;
    without rows they are empty and of int64.

    Args:
        rows: one tuple a row, its values in the order of ``names``.
        names: names of the columns.
        named: by column name, the values whose positions stand for them: such a column holds these indices.

    Raises:
        ValueError: a value of such a column is not among them, or a row has not one value for each name.
    """
    columns, by_name = dict[str, Any](), zip(*rows, strict=True) if rows else [()] * len(names)
    for name, values in zip(names, by_name, strict=True):
        numbers = [named[name].index(value) for value in values] if name in named else values
        columns[name] = np.array(numbers, None if numbers else np.int64)
    return columns


def _names(algorithms: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return, by column, the names that the indices in it stand for: ``sharding``, ``recomputation`` and
    ``algorithm``."""
    return {"sharding": SHARDINGS, "recomputation": RECOMPUTATIONS, "algorithm": algorithms}


def strategy_space(
    ranks: int,
    batches: Iterable[int],
    *,
    tensor_degree: int,
    blocks: int,
    algorithms: Sequence[str],
    sequence_degree: int = 1,
    expert_degree: int = 1,
    contexts: Sequence[int] = (1,),
    exchanges: Iterable[int] = (0,),
    recomputations: Sequence[str] = ("none", "full"),
    shardings: Sequence[str] = SHARDINGS,
    node_ranks: int = 1,
    micro_batch: int | None = None,
    most_micro_batches: int = MOST_MICRO_BATCHES,
    most_virtual_stages: int = MOST_VIRTUAL_STAGES,
) -> Strategies:
    """Return one row for each strategy whose degrees dp, tp, pp and cp multiply to ``ranks`` and whose dp divides the
    batch, as columns of indices and numbers (dp, tp, pp, micro_batches, global_batch, sharding, recomputation,
    algorithm, exchange and so on, the fields of :class:`Strategy`).

    Args:
        ranks: ranks of the job.
        batches: samples of a step on all ranks together; each is tried.
        tensor_degree: what tp must divide (``TensorSplit.degree``).
        blocks: number of blocks of the model, the most chunks of all stages: pp · virtual_stages.
        algorithms: names that column ``algorithm`` indexes; each is tried.
        sequence_degree: what tp must divide with sequence parallelism (``TensorSplit.sequence_degree``), which is tried
            with and without where it does and tp > 1.
        expert_degree: what ep must divide, as well as dp · cp (``ExpertSplit.degree``).
        contexts: context-parallel degrees that are tried.
        exchanges: how replicas exchange gradients: numbers, 0 for gradients as they are.
        recomputations: some of :data:`RECOMPUTATIONS`.
        shardings: some of :data:`SHARDINGS`.
        node_ranks: ranks of a node, inside which hybrid sharding shards (``Fabric.node_ranks``).
        micro_batch: samples of every micro-batch; where they do not divide a replica's batch, the last one is smaller
            and stages are not interleaved. Without it all divisions into equal ones.
        most_micro_batches: any divisor of a replica's batch up to this, 256 if not given, is a number of micro-batches;
            those that pp divides may be interleaved.
        most_virtual_stages: the most chunks a stage, 4 if not given.

    Rows that say the same twice are left out: a choice of algorithm where nothing is exchanged (one replica and tp 1),
    of sharding or of a codec where there is one replica; the first stated choice stays. Hybrid sharding is kept only
    without expert parallelism and where replicas lie in several nodes, several in each; codecs are not combined with it
    or with ``zero-1``. Rows lie in the order of batches, tp, pp, cp, sequence parallelism, virtual stages,
    micro-batches and ep; those that are alike in these, of shardings, recomputations, algorithms and exchanges, the
    last varying fastest. Their number: O(divisors³ · the other choices).

    Raises:
        ValueError: no such sharding or recomputation.
    """
    choices = [SHARDINGS.index(name) for name in shardings], [RECOMPUTATIONS.index(name) for name in recomputations]
    degrees: list[Strategy] = []
    for batch, tp, pp, cp in product(batches, _divisors(tensor_degree), range(1, blocks + 1), contexts):
        dp, rest = divmod(ranks, tp * pp * cp)
        if rest or batch % dp:
            continue
        sliced = (False, True) if tp > 1 and sequence_degree % tp == 0 else (False,)
        chunks = range(1, min(most_virtual_stages, blocks // pp) + 1 if pp > 1 else 2)
        splits = _micro_batches(batch // dp, micro_batch, most_micro_batches)
        experts = _divisors(gcd(expert_degree, ranks // (tp * pp)))
        degrees += [
            Strategy(dp, tp, pp, number, batch, "none", "none", "", 0, slices, virtual, ep, size, cp)
            for slices, virtual, (number, size), ep in product(sliced, chunks, splits, experts)
            if virtual == 1 or (number % pp == 0 and not size)
        ]
    # Every sharding, recomputation, algorithm and exchange for all degrees, the exchange varying fastest.
    numbers = range(len(degrees)), *choices, range(len(algorithms)), [*exchanges]
    grid = np.meshgrid(*(np.array(each, np.int64) for each in numbers), indexing="ij")
    row, *chosen = (column.ravel() for column in grid)
    columns: dict[str, Any] = dict(zip(("sharding", "recomputation", "algorithm", "exchange"), chosen, strict=True))
    space = replace(Strategies.of(*degrees).rows(row), algorithms=tuple(algorithms), **columns)
    first = choices[0][0] if choices[0] else 0, space.exchange[:1]
    alone = (space.replicas == 1) & ((space.sharding != first[0]) | (space.exchange != first[1]))
    silent = (space.replicas == 1) & (space.tp == 1) & (space.algorithm > 0)
    # Hybrid sharding needs several replicas in a node and several nodes.
    within = node_replicas(space.replicas, space.tp, node_ranks)
    shardable = (space.sharding != HYBRID) | ((within > 1) & (within < space.replicas) & (space.ep == 1))
    # Codecs know the gradients of none, zero-2 and zero-3 only.
    codec = (space.exchange == 0) | ((space.sharding != HYBRID) & (space.sharding != ZERO_1))
    return space.rows(~alone & ~silent & shardable & codec)


def _micro_batches(samples: int, size: int | None, most: int) -> list[tuple[int, int]]:
    """Return the divisions of a replica's batch into micro-batches, each as (number of micro-batches, samples of each
    where the last one is smaller, else 0).

    Args:
        samples: samples of a replica's batch.
        size: samples of a micro-batch: the one division with it is returned, none where it is larger than the batch;
            None for every division into equal ones.
        most: the most micro-batches of a division into equal ones.
    """
    if size is None:
        return [(number, 0) for number in _divisors(samples, most)]
    number, rest = divmod(samples, size)
    return [(number + 1, size) if rest else (number, 0)] if number else []


@cache
def _divisors(number: int, most: int | None = None) -> tuple[int, ...]:
    """Return the divisors of a number in ascending order; those above ``most`` are left out, where it is given."""
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    divisors = dict.fromkeys([*small, *(number // divisor for divisor in reversed(small))])
    return tuple(divisor for divisor in divisors if most is None or divisor <= most)
