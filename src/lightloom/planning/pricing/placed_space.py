"""Placed plans as columns: k devices a group, l groups, quantum, batch; and into how many parts each cuts operators.

A row that would cut every operator as another one does is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints, first_rows
from lightloom.core.errors import UnsupportedError
from lightloom.machines.accelerators.accelerator import Amount
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.fabric import NEEDS_OWN_LINKS, Fabric
from lightloom.models.graph import TENSOR_KINDS
from lightloom.planning.parallelism.operators import COLUMNS, DEPTH, OTHERS, ROWS, Parts
from lightloom.planning.parallelism.placement.cuts import SPLITS, PartSeconds, Split, bounds, split_size
from lightloom.planning.parallelism.placement.place import reads_everything
from lightloom.planning.parallelism.placement.placement import Reach
from lightloom.planning.parallelism.plan import RECOMPUTATIONS
from lightloom.planning.parallelism.strategy_space import columns_of
from lightloom.planning.pricing.job import DividedModel, Job, OperatorTimes

RING_PEERS = 16
"""Δ on a WDM ring, as in the SiP-ML authors' published scripts; fewer where a node has fewer transceivers."""
MOST_SUB_OPERATORS = 30_000
"""Placed rows with more are left out."""
SMALLER_FROM = 0.5
"""Share of the memory from which a placed row, whose devices hold so much on average, is searched with micro-batches
and recomputation too; an assumption."""
DEFAULT_QUANTA = (1e-6, 1e-5, 1e-4)
"""Seconds; the first is SiP-ML's."""


class PlacedChoice(NamedTuple):
    """SiP-ML's split: k-way model times l-way data parallelism, operators cut to the quantum."""

    k: int
    """Devices of a group (model parallelism)."""
    l: int  # noqa: E741
    """Number of groups (data parallelism)."""
    quantum: float
    """τ, seconds; operators are cut no finer."""
    global_batch: int
    """Samples of a step on all ranks together."""
    most_exchanging: int
    """Most parts of an operator whose parts read all of its input."""
    ratio: float
    """Bytes of a gradient for each byte sent between groups; 1 without a codec."""
    micro_batches: int = 1
    """Parts of a group's batch, one after the other."""
    recomputation: str = "none"
    """``none`` or ``full``: each device repeats its passes of a block."""

    @property
    def samples(self) -> int:
        """Number of samples of one micro-batch of a group."""
        return self.global_batch // (self.l * self.micro_batches)

    @property
    def group(self) -> PlacedChoice:
        """Choice that keeps k, l and recomputation, with the micro-batches of all groups together as its whole batch (l
        times ``samples``), one micro-batch, quantum and most parts 0 and ratio 1: equal for all choices whose groups
        run alike, however operators are cut and gradients coded."""
        samples = self.l * self.samples
        return self._replace(quantum=0.0, global_batch=samples, most_exchanging=0, ratio=1.0, micro_batches=1)


def state_bytes(settings: TrainingSettings) -> int:
    """Return the bytes of one parameter with its gradient and optimizer state on a rank, nothing shared out among
    replicas."""
    return settings.stored_parameter_bytes + settings.gradient_bytes + settings.optimizer_state_bytes


def shared_state_bytes(settings: TrainingSettings, groups: Amount) -> tuple[int, Amount]:
    """Return two numbers of bytes a parameter where ``groups`` groups share out the optimizer state (ZeRO stage 1):
    what each device that holds a copy of the parameter keeps, the copy (in the format of computing) and its gradient;
    and what its owner in each group keeps besides, the stored parameter and the optimizer state divided by the number
    of groups."""
    of_copy = settings.sharded_parameter_bytes + settings.gradient_bytes
    return of_copy, (settings.stored_parameter_bytes + settings.optimizer_state_bytes) / groups


def placed_on(fabric: Fabric) -> Fabric:
    """Return the fabric that carries what operators send each other: of a fabric of parts the inside one, else the
    fabric itself."""
    return fabric.parts[0] if fabric.parts else fabric


def peers(fabric: Fabric) -> int:
    """Return the degree D, the number of ranks that one rank can hold circuits to at once, the next group's counterpart
    included: on a WDM ring 17 or, where it has fewer, the transceivers of a rank; on other circuits the channels of a
    rank's link; on a packet fabric the number of all its ranks. Of a fabric of parts the inside one counts.

    Raises:
        UnsupportedError: placed plans are not simulated on this kind of fabric: not any two ranks can send to each
            other, or packets pass no ports of a rank's own.
    """
    fabric, ends = placed_on(fabric), np.arange(2)
    if not fabric.any_pair or not (fabric.exclusive or fabric.ports(ends, 1 - ends)):
        raise UnsupportedError(f"placed plans on {fabric.kind_name}: {NEEDS_OWN_LINKS}")
    if not fabric.exclusive:
        return fabric.ranks
    if fabric.wavelength_routed:
        circuits = fabric.transmitters
        return RING_PEERS + 1 if circuits is None else min(RING_PEERS + 1, circuits)
    return fabric.channels


def reach(fabric: Fabric, groups: int) -> Reach:
    """Return which devices of a group may communicate: those that lie within half of the reach Δ of each other on the
    group's ring, all where Δ is at least k - 1. Δ is the number of ranks inside the group to which a device can hold
    circuits at once: that of :func:`peers`, less one where there are several ``groups`` on the same fabric, as one
    circuit goes to the next group; on a fabric of parts, that of :func:`peers` of the inside part.

    Raises:
        UnsupportedError: placed plans are not simulated on this kind of fabric.
    """
    return Reach(peers(fabric) - (groups > 1 and not fabric.parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRows:
    """Placed plans as columns of shape [rows]; see :class:`PlacedChoice`."""

    k: Ints
    l: Ints  # noqa: E741
    quantum: Floats
    global_batch: Ints
    most_exchanging: Ints
    ratio: Floats
    micro_batches: Ints
    recomputation: Ints
    """Index of the recomputation in ``RECOMPUTATIONS``: [rows]."""

    @classmethod
    def of(cls, choices: Sequence[PlacedChoice]) -> PlacedRows:
        """Return one row for each choice, in their order; recomputation as its index in ``RECOMPUTATIONS``."""
        return cls(**columns_of(choices, PlacedChoice._fields, {"recomputation": RECOMPUTATIONS}))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.k)

    def __getitem__(self, row: int) -> PlacedChoice:
        """Return one row as a choice, with the recomputation by name."""
        values = {name: getattr(self, name)[row].item() for name in PlacedChoice._fields}
        return PlacedChoice(**values | {"recomputation": RECOMPUTATIONS[values["recomputation"]]})

    @property
    def samples(self) -> Ints:
        """Samples of one group's micro-batch: [rows]."""
        return self.global_batch // (self.l * self.micro_batches)

    def rows(self, which: Any) -> PlacedRows:
        """Return the rows that a mask [rows] or indices choose, in the order of the indices."""
        return replace(self, **{name: getattr(self, name)[which] for name in PlacedChoice._fields})


def placed_space(
    fabric: Fabric, batches: Iterable[int], quanta: Iterable[float], ratios: Iterable[float] = (1.0,)
) -> tuple[PlacedRows, int]:
    """Return placed plans with every k that divides the ranks, and how many more (rows, not values of k) are refused
    because no two devices of a group may communicate. Batches that the groups do not divide are left out and not
    counted. On a fabric of parts, k is the number of ranks inside.

    Each k and batch comes with every quantum, ratio and limit on the parts of operators that read all of their input
    (:func:`exchanging`), with one micro-batch and no recomputation. With one device a group nothing is cut, and one
    group exchanges nothing with others: such rows come with the first quantum, or with ratio 1, only. Rows are ordered
    by k, batch, quantum, limit and ratio, each in the order given, the last fastest.

    Args:
        fabric: whose ranks run the plans.
        batches: samples of a step over all ranks.
        quanta: seconds below which no operator is cut.
        ratios: bytes of a gradient for each byte sent between groups.

    Raises:
        UnsupportedError: placed plans are not simulated on this kind of fabric.
    """
    found, refused = [], 0
    quanta, ratios = tuple(quanta), tuple(ratios)
    sizes = [placed_on(fabric).ranks] if fabric.parts else range(1, fabric.ranks + 1)
    for k, batch in product([k for k in sizes if fabric.ranks % k == 0], batches):
        groups = fabric.ranks // k
        if batch % groups:
            continue
        limits = exchanging(reach(fabric, groups), k)
        wanted = list(product(quanta if k > 1 else quanta[:1], limits, ratios if groups > 1 else (1.0,)))
        if k > 1 and reach(fabric, groups).span(k) == 1:
            refused += len(wanted)
            continue
        found += [PlacedChoice(k, groups, quantum, batch, limit, ratio) for quantum, limit, ratio in wanted]
    return PlacedRows.of(found), refused


def smaller(rows: PlacedRows, pins: Mapping[str, int | str | None]) -> PlacedRows:
    """Return the rows once more with each number of micro-batches and each recomputation, without the unchanged rows
    themselves unless something is pinned: row after row, numbers of micro-batches ascending, "none" before "full".

    Micro-batches are powers of two that divide a group's batch, at most 64; recomputation is "none" or "full". ``pins``
    must have the keys ``micro_batches`` (number of micro-batches of a step), ``micro_batch`` (samples of one) and
    ``recomputation``; what is not None is the only choice, and may be no power of two and above 64. Rows whose group's
    batch a pinned number does not divide are left out.
    """
    made, pinned = [], any(pins[name] is not None for name in ("micro_batches", "micro_batch", "recomputation"))
    for row in map(rows.__getitem__, range(len(rows))):
        batch = row.global_batch // row.l
        counts = {1 << power for power in range(7)} | {max(batch // int(pins["micro_batch"] or batch), 1)}
        wanted = [int(pins["micro_batches"])] if pins["micro_batches"] else sorted(counts)
        divisors = [count for count in wanted if batch % count == 0 and pins["micro_batch"] in (None, batch // count)]
        kinds = [str(pins["recomputation"])] if pins["recomputation"] else ["none", "full"]
        choices = [row._replace(micro_batches=count, recomputation=kind) for count, kind in product(divisors, kinds)]
        made += [choice for choice in choices if choice != row or pinned]
    return PlacedRows.of(made)


def exchanging(within: Reach, k: int) -> list[int]:
    """Return the limits to try on the parts of operators that read all of their input, ascending and distinct: 1 (none
    is cut), 2, half of the devices that may all send to one another within the reach, and all of those, of ``k``
    devices in a group; halves are rounded down, and none exceeds the number of these devices. One device gives 1 alone.

    The partition exchanges as few bytes in all as it can, but the makespan waits for activations alone, so that a
    tighter limit may be faster.
    """
    if k == 1:
        return [1]
    clique = within.clique(k)
    return sorted({1, min(2, clique), max(1, clique // 2), clique})


class CutOperators(NamedTuple):
    """Parts that placed plans cut operators into, with their seconds: columns of shape [rows, operators]."""

    parts: Ints
    least: tuple[Floats, Floats]
    """Seconds of the shortest part that the cut may give, forward and backward."""
    total: tuple[Floats, Floats]
    """Seconds of all parts together at least, forward and backward."""


class PartTable:
    """Number of parts into which a partition cuts each operator of a model, for columns of rows, as ``Partitions``
    does; and how long each part takes by its own shape. ``model`` is the model at any batch."""

    def __init__(self, model: DividedModel) -> None:
        operators = model.graph.operators
        self.placed = np.array([operator.kind != "input" for operator in operators])
        self._splits = [SPLITS[operator.kind] for operator in operators]
        sizes = [
            tuple(split_size(each, split) for split in ways) for each, ways in zip(operators, self._splits, strict=True)
        ]
        numbers: dict[object, int] = {}
        keys = zip(model.sort.tolist(), (operator.kind for operator in operators), sizes, strict=True)
        self._cut = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        """By operator: which of those it is cut like, whose times and sizes are the same."""
        _, self._first = np.unique(self._cut, return_index=True)
        shape = len(self._first), max(map(len, self._splits))
        self._sizes, self._shape, self._groups = np.zeros((3, *shape), np.int64)
        self._exchanges, self._by_sample, self._whole, self._copied, self._sums = np.zeros((5, *shape), np.bool_)
        for row, number in enumerate(self._first.tolist()):
            operator = operators[number]
            for column, split in enumerate(self._splits[number]):
                at, product = (row, column), operator.kind in TENSOR_KINDS
                self._sizes[at] = sizes[number][column]
                self._exchanges[at] = reads_everything(split)
                self._by_sample[at] = split.dimension == "sample" and sizes[number][column] > 0
                self._shape[at] = _shape_of(operator.kind, split)
                self._whole[at] = product and "whole" in split.inputs
                self._groups[at] = operator.dimensions.get("groups", 1) if "group" in split.inputs else 0
                self._copied[at], self._sums[at] = split.copied, split.partial

    def ways(self, rows: PlacedRows, forward: Floats) -> tuple[Ints, Ints]:
        """Return two arrays [rows, cuts, splits]: the number of parts that each possible split of an operator would
        give, and the size of the dimension that it divides. Operators that are cut alike share one entry along "cuts",
        where the first of them gives the seconds.

        The parts are as many as whole quanta of the row fit into the operator's seconds, at least 1 (a quantum of 0
        gives k) and at most k, the size of the dimension and, for splits whose parts read all of the input, the row's
        limit; rounded down to a power of two; both are 0 where the operator has no such dimension, or fewer splits than
        others.

        Args:
            rows: placed plans.
            forward: seconds of every operator's forward pass, undivided: [rows, operators].
        """
        forward = forward[:, self._first]
        wish = np.where(
            rows.quantum[:, None] * rows.k[:, None] <= forward,
            rows.k[:, None],
            np.maximum(forward / np.maximum(rows.quantum[:, None], 1e-300), 1.0),
        ).astype(np.int64)
        sizes = np.where(self._by_sample, rows.samples[:, None, None], self._sizes)
        parts = np.minimum(_power_of_two(wish)[:, :, None], sizes)
        parts = np.where(self._exchanges, np.minimum(parts, rows.most_exchanging[:, None, None]), parts)
        return _power_of_two(parts), sizes

    def parts(self, rows: PlacedRows, times: OperatorTimes) -> CutOperators:
        """Return how rows cut each operator, in columns [rows, operators]: ``parts``, the most parts that any of its
        splits gives, 1 where it is not cut and 0 for inputs; and lower bounds ``least`` (seconds of the shortest part)
        and ``total`` (seconds of all parts together), each as (forward, backward with what is repeated). The seconds
        are those of the whole operator where it is not cut; of splits with equally many parts, which the partition
        chooses among by what they exchange, the smallest of each counts."""
        whole = times.kernels(rows.samples, rows.recomputation)
        ways, sizes = self.ways(rows, whole[0])
        most: Ints = ways.max(axis=2, initial=1)
        row, cut, split = np.nonzero((ways == most[:, :, None]) & (most[:, :, None] > 1))
        parts, size = most[row, cut], sizes[row, cut, split]
        forward, backward = self._seconds(times, cut, split, parts, rows.samples[row])
        repeats = times.repeats(rows.recomputation)[row, self._first[cut]]
        least, total, larger = list[Floats](), list[Floats](), size % parts
        for undivided, seconds in zip(whole, (forward, backward + repeats[:, None] * forward), strict=True):
            every = seconds[:, 0] * (parts - larger) + seconds[:, 1] * larger
            for found, each in ((least, seconds.min(axis=1)), (total, every)):
                column = np.where(most > 1, np.inf, undivided[:, self._first])
                np.minimum.at(column, (row, cut), each)
                found.append(column[:, self._cut])
        return CutOperators(np.where(self.placed, most[:, self._cut], 0), (least[0], least[1]), (total[0], total[1]))

    def part_seconds(self, times: OperatorTimes, samples: int, recomputation: str) -> PartSeconds:
        """Return a function of (operator's index in the graph, split, number of parts) that returns the seconds of each
        part, in the order in which the parts lie along the dimension: [parts, 2], forward and backward, the backward
        pass with the forward pass that recomputation repeats. The split must be one of those of the operator's kind
        (ValueError otherwise). The seconds depend on the size of a part, and sizes differ by at most 1.

        Args:
            times: times of the model's operators.
            samples: samples of a micro-batch.
            recomputation: its name, "none" or "full".
        """
        repeats = times.repeats(np.array([RECOMPUTATIONS.index(recomputation)]))[0]
        known: dict[tuple[int, int, int], Floats] = {}

        def seconds(operator: int, split: Split, parts: int) -> Floats:
            """Return the forward and backward seconds of each part of an operator: [parts, 2]."""
            cut, column = int(self._cut[operator]), self._splits[operator].index(split)
            if (cut, column, parts) not in known:
                entry = (np.array([value]) for value in (cut, column, parts, samples))
                forward, backward = (each[0] for each in self._seconds(times, *entry))
                backward = backward + repeats[operator] * forward
                size = samples if self._by_sample[cut, column] else int(self._sizes[cut, column])
                larger = np.diff(bounds(size, parts)) - size // parts
                known[cut, column, parts] = np.stack((forward[larger], backward[larger]), axis=1)
            return known[cut, column, parts]

        return seconds

    def _seconds(
        self, times: OperatorTimes, cut: Ints, split: Ints, parts: Ints, samples: Ints
    ) -> tuple[Floats, Floats]:
        """Return the seconds forward, and the seconds backward without what is repeated, of parts of operators: two
        arrays [entries, 2], of the smallest part of each entry and of its largest. Sizes of parts differ by at most 1.

        Args:
            times: times of the model's operators.
            cut: index of the operator among those that are cut differently: [entries].
            split: index of one of its splits: [entries].
            parts: number of parts: [entries].
            samples: samples of a micro-batch: [entries].
        """
        first, entry = first_rows((cut, split, parts, samples))
        cut, split, parts, samples = (np.repeat(column[first], 2) for column in (cut, split, parts, samples))
        at, by_sample = (cut, split), self._by_sample[cut, split]
        size = np.where(by_sample, samples, self._sizes[at])
        slices = size // parts + (np.arange(len(size)) % 2) * (size % parts > 0)
        groups = self._groups[at]
        described = Parts(
            operator=self._first[cut],
            samples=np.where(by_sample, slices, samples),
            shape=self._shape[at],
            size=np.where(by_sample, 1, size),
            slice=np.where(by_sample, 1, slices),
            reads_all=self._whole[at] | ((groups > 0) & (groups % parts != 0)),
            copies=self._copied[at],
            sums=self._sums[at],
        )
        forward, backward = times.parts(described)
        return forward.reshape(-1, 2)[entry], backward.reshape(-1, 2)[entry]


def _shape_of(kind: str, split: Split) -> int:
    """Return the code of the dimension of an operator's matrix products that a split divides: ``ROWS`` for the sequence
    of attention, ``COLUMNS`` for channels, ``DEPTH`` for input channels, else ``OTHERS``. ``kind`` is the
    operator's."""
    if kind == "attention" and split.dimension == "sequence":
        return ROWS
    return {"channel": COLUMNS, "in_channel": DEPTH}.get(split.dimension, OTHERS)


def _power_of_two(counts: Ints) -> Ints:
    """Return counts rounded down to a power of two; 0 stays."""
    _, exponent = np.frexp(counts)
    return np.where(counts > 0, np.int64(1) << np.maximum(exponent - 1, 0), 0).astype(np.int64)


def distinct(job: Job, table: PartTable, rows: PlacedRows) -> PlacedRows:
    """Return the rows, in their order, without those that would cut every operator of the job's model (by ``table``) as
    an earlier one does and equal it in k, batch, ratio, micro-batches and recomputation; the quantum and the limit on
    exchanging parts may differ."""
    seen: set[tuple[Any, ...]] = set()
    kept = np.zeros(len(rows), np.bool_)
    for block in blocks(len(rows)):
        some = rows.rows(block)
        forward, _ = job.operators.kernels(some.samples, some.recomputation)
        ways, _ = table.ways(some, forward)
        for offset, row in enumerate(block.tolist()):
            choice = some[offset]
            divided = choice.micro_batches, choice.recomputation
            key = (choice.k, choice.global_batch, choice.ratio, divided, hash(ways[offset].astype(np.int32).tobytes()))
            kept[row] = key not in seen
            seen.add(key)
    return rows.rows(kept)


def blocks(count: int, size: int = 256) -> list[Ints]:
    """Return row numbers 0 to count - 1 in consecutive blocks, one array each, of at most ``size``, which bound the
    memory of an array."""
    return [np.arange(begin, min(begin + size, count)) for begin in range(0, count, size)]
