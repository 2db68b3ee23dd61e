"""The request for a search of plans: batches, what may vary, and what is pinned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np

from lightloom.collectives.cost.price import CostModel
from lightloom.core.arrays import Mask
from lightloom.core.errors import ConfigError, UnknownNameError, UnsupportedError
from lightloom.core.units import format_time
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Cluster
from lightloom.models.files.model_file import ModelReading, StatedStrategy
from lightloom.models.graph import ComputeGraph, MeasuredTimes
from lightloom.planning.economics.ledger import Site
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.parallelism.plan import RECOMPUTATIONS
from lightloom.planning.parallelism.strategy_space import (
    MOST_MICRO_BATCHES,
    MOST_VIRTUAL_STAGES,
    SHARDINGS,
    Strategies,
    canonical,
)
from lightloom.planning.parallelism.tensor_parallel import searched_degrees
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.library_prices import carrier
from lightloom.planning.pricing.placed_space import DEFAULT_QUANTA

DATA_PARALLEL = ("ddp", "fsdp")
"""Data parallelism alone: all of the model in every rank, or sharded."""
STRATEGIES = (*DATA_PARALLEL, "tensor-pipeline")
"""Data parallelism alone, and with tensor, pipeline or expert parallelism, micro-batches or other shardings."""
KINDS = (*STRATEGIES, "placed")
"""Strategies of practitioners, and SiP-ML's partition and placement."""
PLACED_PINS = ("micro_batches", "micro_batch", "recomputation")
"""Pins that placed plans can have."""
LARGEST = 32
"""Samples of a rank that a search without a batch tries at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins(StatedStrategy):
    """Choices of a strategy that are given instead of searched; None where they are searched."""

    def __post_init__(self) -> None:
        """Replace the sharding, which may be an alias, by its canonical name."""
        object.__setattr__(self, "sharding", canonical(self.sharding))

    @classmethod
    def of(cls, stated: StatedStrategy) -> Self:
        """Return as pins the choices (degrees, micro-batches, recomputation and the like) that a model's file states,
        None for every choice that it leaves open."""
        return cls(**dict(stated))  # type: ignore[arg-type]

    @property
    def allow_placed(self) -> bool:
        """True where placed plans can have all that is pinned: nothing but the number or size of micro-batches, and
        recomputation "none" or "full"."""
        others = any(value is not None for name, value in self if name not in PLACED_PINS)
        return not others and self.recomputation in (None, "none", "full")

    def allows(self, **choices: int | str | bool) -> bool:
        """Return True where every pin that is set equals the choice of its name in ``choices`` (``tp=2``,
        ``sharding="zero-1"``); pins whose names are not among these do not count."""
        return all(value in (None, choices.get(name, value)) for name, value in self)

    def match(self, rows: Strategies) -> Mask:
        """Return a mask of the rows that have everything that is pinned: [rows]; a pinned sharding holds for any row
        with one replica, a pinned ``micro_batch`` for rows whose micro-batches have so many samples."""
        matching = np.ones(len(rows), np.bool_)
        for name, value in self:
            if value is not None:
                names = {"recomputation": RECOMPUTATIONS, "sharding": SHARDINGS}.get(name)
                number = value if names is None else names.index(str(value))
                # One replica is neither sharded nor not.
                free = (rows.replicas == 1) if name == "sharding" else False
                matching &= ((rows.samples if name == "micro_batch" else getattr(rows, name)) == number) | free
        return matching

    def contradiction(self, job: Job, batches: Sequence[int]) -> str | None:
        """Return a sentence with the first reason why no strategy of the job has all that is pinned at any of these
        global batches (samples of a step; they must not be empty), in terms of the command line's options; None where
        one may have."""
        return next((reason for reason in self._contradictions(job, batches) if reason), None)

    def _contradictions(self, job: Job, batches: Sequence[int]) -> Iterator[str | None]:
        """Yield a sentence for each reason why no strategy of the job has all that is pinned at any of these global
        batches; nothing where one may have. Checked are degrees that do not multiply to the ranks or divide what the
        model can be split into (blocks, parts of a block, experts, slices of a sequence), pins that exclude each other,
        and batches that the pins do not divide; not whether plans fit the memory or are served."""
        model, ranks = job.model, job.fabric.ranks
        given = {name: value for name, value in self if isinstance(value, int)}
        degrees = {name: given[name] for name in ("dp", "tp", "pp", "cp") if name in given}
        product, text = int(np.prod([*degrees.values()])), " ".join(f"--{name} {n}" for name, n in degrees.items())
        slices = self.cp or (1 if len(searched_degrees(job.graph)) == 1 else None)
        all_given = {"dp", "tp", "pp"} <= degrees.keys() and slices
        if ranks % product or (all_given and product != ranks):
            yield f"{text}: {product} ranks in all, expected {'' if all_given else 'a divisor of '}{ranks}"
        if self.tp and job.tensor_degree % self.tp:
            yield f"--tp {self.tp}: expected a divisor of {job.tensor_degree}, the parts that every block can have"
        chunks = (self.pp or 1) * (self.virtual_stages or 1)
        if chunks > len(model.starts):
            yield f"{chunks} stages: the model has {len(model.starts)} blocks, expected at most one stage for each"
        if self.virtual_stages and self.virtual_stages > 1 and self.pp == 1:
            yield f"--pin virtual_stages={self.virtual_stages} and --pp 1: expected more than one stage to interleave"
        if self.virtual_stages and self.virtual_stages > 1 and (self.micro_batches or 0) % (self.pp or 1):
            yield f"--pin micro_batches={self.micro_batches}: interleaved stages expect a multiple of --pp {self.pp}"
        if self.micro_batch and self.micro_batches:
            both = f"--pin micro_batch={self.micro_batch} and --pin micro_batches={self.micro_batches}"
            yield f"{both}: expected one of them"
        if self.ep and model.experts.degree % self.ep:
            yield f"--ep {self.ep}: expected a divisor of {model.experts.degree}, the experts that the model can spread"
        if self.cp and model.context_degree % self.cp:
            yield f"--cp {self.cp}: expected a divisor of {model.context_degree}, the slices that a sequence can have"
        if self.ep and self.dp and self.dp * (self.cp or 1) % self.ep:
            yield f"--ep {self.ep} and --dp {self.dp}: expected experts to divide the replicas"
        if self.sequence_parallel and self.tp and (self.tp == 1 or model.split.sequence_degree % self.tp):
            degree = model.split.sequence_degree
            yield f"--pin sequence_parallel=yes and --tp {self.tp}: expected a divisor of {degree} above 1"
        dp = self.dp or (ranks // (self.tp * self.pp * slices) if self.tp and self.pp and slices else 1)
        parts = dp * (self.micro_batches or 1)
        if self.micro_batch and all(batch // dp < self.micro_batch for batch in batches):
            yield f"--pin micro_batch={self.micro_batch}: expected at most a replica's batch, {max(batches) // dp}"
        if all(batch % parts for batch in batches):
            yield (
                f"global batch of {', '.join(map(str, batches))}: expected a multiple of {parts}, {dp} replicas with "
                f"{self.micro_batches or 1} micro-batches each"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """Choices that a search tries; without arguments all of them.

    Raises:
        ConfigError: a list is empty, or a batch or quantum is not positive.
        UnknownNameError: no such strategy, algorithm, sharding or recomputation.
        UnsupportedError: none of the strategies that are asked for can be searched.
    """

    global_batches: Sequence[int] | None = None
    """Samples of a step on all ranks together; None for the ranks times the largest power of two up to 32 samples that
    some plan fits."""
    largest_batches: bool = False
    """True for plans that each run with their own largest batch instead: a power of two for each rank."""
    strategies: Sequence[str] = KINDS
    """Kinds of plans that are searched, of :data:`KINDS`."""
    algorithms: Sequence[str] = ()
    """Algorithms that exchanges choose among, "library" among them; without any, the fabric's collective library where
    it states one, otherwise all."""
    site: Site = field(default_factory=Site)
    """Prices and rates that turn parts and watts into dollars; they decide no ranking."""
    exchanges: Sequence[PricedExchange] = ()
    """Methods by which replicas exchange gradients; every plan is ranked with gradients as they are, and with each."""
    quanta: Sequence[float] = DEFAULT_QUANTA
    """Seconds below which placed plans cut no operator."""
    pins: Pins = Pins()
    cost_model: CostModel = "physical"
    overlap: bool = True
    """True where data parallelism communicates while computing."""
    reconfigure_in_step: bool = False
    """True where the planes of a circuit switch are shared out among the groups of a plan, and set anew between the
    phases of a step where that is faster."""
    prune: bool = True
    """False simulates every row that fits."""
    compare: bool = True
    """True to rank data parallelism with each algorithm alone too, and on the cluster's electrical reference."""
    divisions: int = 0
    """Divisions of the job among the ranks whose best plans are found, the winner's among them; from 1 on the winner is
    found among synthesized schedules too, as with ``compare``."""
    must_fit: bool = True
    """True for a search that fails where no plan fits the memory, instead of ranking what does not fit."""

    def __post_init__(self) -> None:
        lists = {"global batches": self.global_batches, "quanta": self.quanta, "strategies": self.strategies}
        for name, values in lists.items():
            if values is not None and not len(values):
                raise ConfigError(f"no {name}: expected at least one")
        for batch in self.global_batches or ():
            if batch < 1:
                raise ConfigError(f"global batch of {batch}: expected at least 1 sample")
        for quantum in self.quanta:
            if not quantum > 0:
                raise ConfigError(f"quantum of {quantum} s: expected more than 0")
        named = [("strategy", strategy, KINDS) for strategy in self.strategies]
        pins = (("recomputation", self.pins.recomputation, RECOMPUTATIONS), ("sharding", self.pins.sharding, SHARDINGS))
        for name, value, known in (*named, *pins):
            if value is not None and value not in known:
                raise UnknownNameError(name, value, known)
        for algorithm in self.algorithms:
            carrier(algorithm)
        degrees = {name: value for name, value in self.pins if name in ("tp", "pp", "cp", "ep")}
        split = [f"--{name} {value}" for name, value in degrees.items() if isinstance(value, int) and value > 1]
        if split and set(self.strategies) <= set(DATA_PARALLEL):
            raise UnsupportedError(
                f"{' '.join(split)} and --strategy {' '.join(self.strategies)}, which splits no model: expected "
                "--strategy tensor-pipeline too, or none"
            )
        if self.reconfigure_in_step and (self.cost_model == "paper" or not self.overlap):
            given = "--cost-model paper" if self.cost_model == "paper" else "--pin overlap=no"
            raise UnsupportedError(f"--reconfigure-in-step and {given}: expected the physical model and overlap")
        kinds, reason = self._searched()
        if not kinds:
            raise UnsupportedError(f"{reason} is not for --strategy {' '.join(self.strategies)}")

    def exchanges_on(self, accelerator: Accelerator) -> tuple[PricedExchange, ...]:
        """Return the request's exchange methods, each with the engine that codes for it on a cluster of this
        accelerator.

        Raises:
            ConfigError: an engine has to be assumed, and the accelerator states no memory bandwidth.
        """
        return tuple(exchange.on(accelerator) for exchange in self.exchanges)

    @property
    def brief(self) -> bool:
        """True in a search for the best plan of each of several divisions, which compares no algorithms."""
        return bool(self.divisions) and not self.compare

    @property
    def most_micro_batches(self) -> int:
        """Largest number of micro-batches of a step that is tried: 256, or the pinned number where that is larger."""
        return max(self.pins.micro_batches or MOST_MICRO_BATCHES, MOST_MICRO_BATCHES)

    @property
    def most_virtual_stages(self) -> int:
        """Largest number of chunks of a stage that is tried: 4, or the pinned number where that is larger."""
        return max(self.pins.virtual_stages or MOST_VIRTUAL_STAGES, MOST_VIRTUAL_STAGES)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of plans that are searched, of those asked for: only data parallelism alone with the paper's cost model
        or without overlap, no placed plans where anything is pinned that they cannot have."""
        return self._searched()[0]

    def _searched(self) -> tuple[tuple[str, ...], str]:
        """Return the kinds of plans that are searched, and in words what may leave out others that are asked for: the
        cost model, no overlap or a pin; "" where nothing does."""
        kinds = tuple(dict.fromkeys(self.strategies))
        if self.cost_model == "paper" or not self.overlap:
            reason = "the paper cost model" if self.cost_model == "paper" else "--pin overlap=no"
            return tuple(kind for kind in kinds if kind in DATA_PARALLEL), reason
        if not self.pins.allow_placed:
            return tuple(kind for kind in kinds if kind != "placed"), "a pinned degree or sharding"
        return kinds, ""


def with_choices(
    request: SearchRequest,
    clusters: Sequence[Cluster],
    reading: ModelReading,
    source: str | Path,
    ranks: Sequence[int] | None = None,
) -> tuple[SearchRequest, list[Cluster]]:
    """Return a request with the strategy and the batch that a model's file states, and the clusters with the stages
    that it states.

    Args:
        request: its choices take the place of those that the file leaves open.
        clusters: where plans are searched.
        reading: what the file states.
        source: the file, for messages.
        ranks: number of ranks that train on each cluster; None for all of them.

    Raises:
        ConfigError: the request and the file state the same choice, and differently.
    """
    pins = merged_pins(request.pins, Pins.of(reading.pins), source)
    ranks = [cluster.ranks for cluster in clusters] if ranks is None else ranks
    batches = merged_batches(request.global_batches, reading, ranks, source)
    return replace(request, pins=pins, global_batches=batches), [with_stages(each, reading) for each in clusters]


def with_stages(cluster: Cluster, reading: ModelReading) -> Cluster:
    """Return a cluster whose training settings have the blocks of each pipeline stage that a model's file states; the
    cluster itself where the file states none or the cluster's settings state them already."""
    training = cluster.training
    if reading.stage_blocks is None or "stage_blocks" in training.model_fields_set:
        return cluster
    return replace(cluster, training=training.model_copy(update={"stage_blocks": reading.stage_blocks}))


_ONE_OF_THEM = "expected one of them, or --model-only, which takes the model of the file and not its strategy"


def merged_pins(given: Pins, stated: Pins, source: str | Path) -> Pins:
    """Return the pins that a file states (``stated``), with those of the caller (``given``) where the file leaves a
    choice open; ``source`` is the file, for messages.

    Raises:
        ConfigError: both pin the same choice, and differently.
    """
    pinned = {name: value for name, value in given if value is not None}
    for name, value in pinned.items():
        if (own := getattr(stated, name)) not in (None, value):
            raise ConfigError(f"{_option(name, value)}: {source} states {own}: {_ONE_OF_THEM}")
    return replace(stated, **pinned)  # type: ignore[arg-type]


def _option(name: str, value: object) -> str:
    """Return the option that pins a choice, as the command line spells it: ``--tp 4`` for names of two letters, else
    ``--pin NAME=VALUE``, with ``recompute`` for "recomputation"."""
    return f"--{name} {value}" if len(name) == 2 else f"--pin {name.replace('recomputation', 'recompute')}={value}"


def merged_batches(
    given: Sequence[int] | None, reading: ModelReading, ranks: Sequence[int], source: str | Path
) -> tuple[int, ...] | None:
    """Return the global batches of the caller, else the one that a file states, else those that follow from the batch
    of one replica that it states: that times the ranks over its degrees tp · pp · cp (rounded down, at least 1), for
    each number of ranks, without repetition; None where nobody states any.

    Args:
        given: global batches of the caller, None for none.
        reading: what the file states.
        ranks: number of ranks of each cluster.
        source: the file, for messages.

    Raises:
        ConfigError: the file states one, and the caller anything but that one alone.
    """
    stated = reading.global_batch
    if given is None and stated is None and reading.replica_batch is not None:
        split = (reading.pins.tp or 1) * (reading.pins.pp or 1) * (reading.pins.cp or 1)
        return tuple(dict.fromkeys(max(number // split, 1) * reading.replica_batch for number in ranks))
    if given is None:
        return None if stated is None else (stated,)
    if stated is not None and tuple(given) != (stated,):
        raise ConfigError(f"global batch of {', '.join(map(str, given))}: {source} states {stated}: {_ONE_OF_THEM}")
    return tuple(given)


# Plans from measured durations: the machine they were measured on, how they are scaled, and lines that say so.

UNSCALED, NONE = "unscaled", "none"


_CHOICES = (
    f"expected --measured-on with an accelerator of the catalog or a YAML file, {UNSCALED!r} to take the durations as "
    f"the plan's accelerator's, or {NONE!r} to price every operator"
)


def on_machine(graph: ComputeGraph, measured_on: str | None, clusters: Sequence[Cluster]) -> ComputeGraph:
    """Return a graph whose measured times, if it has any, name the accelerator from which they are scaled to those of
    clusters: ``measured_on``, or what the trace names for None; no accelerator, so that times stay as they are, for
    ``unscaled``. For ``none`` the graph has no measured times.

    Args:
        graph: of a trace, or of any model.
        measured_on: an accelerator of the catalog or a YAML file, ``unscaled`` or ``none``; None for what the trace
            names.
        clusters: where plans are searched.

    Raises:
        ConfigError: ``measured_on`` is given and nothing was measured, or the trace names a machine that the catalog
            lacks.
        UnknownNameError: ``measured_on`` is neither of the catalog nor a file.
        UnsupportedError: operators that state durations alone are to be scaled to another accelerator.
    """
    measured = graph.measured
    if measured is None:
        if measured_on is None:
            return graph
        raise ConfigError(f"--measured-on {measured_on}: {graph.name} states no durations: expected no --measured-on")
    if measured_on == NONE:
        return replace(graph, measured=None)
    if measured_on is not None:
        named = None if measured_on == UNSCALED else measured_on
        measured = replace(measured, accelerator=named, machine=measured.machine or named or "")
    elif measured.machine and measured.accelerator is None:
        raise ConfigError(
            f"{graph.name}: its durations are those of {measured.machine}, which the catalog lacks: {_CHOICES}"
        )
    if measured.accelerator is not None:
        machine = load_accelerator(measured.accelerator)
        for cluster in clusters:
            if cluster.accelerator.chip != machine.chip:
                _check_priced(graph, measured, machine, cluster.accelerator)
    return replace(graph, measured=measured)


def _check_priced(graph: ComputeGraph, measured: MeasuredTimes, machine: Accelerator, other: Accelerator) -> None:
    """Raise UnsupportedError where any operator has a measured forward duration but neither FLOPs nor bytes, by which
    it could be scaled from ``machine`` to the accelerator ``other``."""
    unknown = [
        seconds or 0.0
        for operator, seconds in zip(graph.operators, measured.forward, strict=True)
        if not operator.forward_flops and not operator.forward_bytes and seconds
    ]
    if unknown:
        raise UnsupportedError(
            f"{graph.name}: {len(unknown)} operators ({format_time(sum(unknown))} of the forward pass) state durations "
            f"on {machine.name} and neither FLOPs nor bytes, by which durations are scaled to {other.name}: {_CHOICES}"
        )


def measured_lines(graph: ComputeGraph, clusters: Sequence[Cluster]) -> list[str]:
    """Return lines of text on the measured durations that plans rest on: how many operators take them, how they become
    those of each accelerator, and an assumption; empty where the graph has no measured times."""
    measured = graph.measured
    if measured is None:
        return []
    count = sum(seconds is not None for seconds in measured.forward)
    place = measured.machine or "a machine that the trace does not name"
    lines = [
        f"{count} of {len(graph.operators)} operators take durations of the trace, {format_time(measured.seconds)} "
        f"forward and backward at {measured.batch} samples: {measured.clock}, on {place}"
    ]
    lines += [_rule(measured, name) for name in dict.fromkeys(cluster.accelerator.chip for cluster in clusters)]
    lines.append("assumption: for other batches and splits a duration changes as the operator's price does")
    return lines


def _rule(measured: MeasuredTimes, name: str) -> str:
    """Return a line on how measured durations become those of the accelerator of chip ``name``: unscaled, taken as they
    are, or changed as the operator's price does."""
    if measured.accelerator is None:
        return f"assumption: what was measured on computes as {name} does in the plan's format: nothing is scaled"
    if load_accelerator(measured.accelerator).chip == name:
        change = "where the number format differs, they change as the operator's price does"
        return f"durations on {name} are taken as they are; {change}"
    return (
        f"assumption: from {measured.accelerator} to {name}, and from {measured.precision or 'the same format'} to the "
        "plan's number format, a duration changes as the operator's price does"
    )
