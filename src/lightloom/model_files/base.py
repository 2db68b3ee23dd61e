"""What a file is asked for, and what it says of a model and of the run that trains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lightloom.clusters.base import Cluster
from lightloom.clusters.settings import StageBlocks
from lightloom.core.errors import ConfigError
from lightloom.planner.search.request import Pins, SearchRequest
from lightloom.workloads.graph import ComputeGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    """What the caller wants of a model file; None where the file decides."""

    batch: int
    """Samples in one forward pass."""
    sequence_length: int | None = None
    """Tokens in a sample."""
    step: int | None = None
    """Step of a trace, as its profiler counts."""
    definitions: Mapping[str, str] = field(default_factory=dict)
    """Values that the file leaves open, by their names there: variables of a script, dimensions of a graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReading:
    """A model as its file describes it, with the choices that the file pins."""

    graph: ComputeGraph
    unrecorded: tuple[str, ...] = ()
    """What the file does not say and what is assumed instead, a sentence each."""
    unused: tuple[str, ...] = ()
    """Settings of the file that the plan does not use, by their names there."""
    pins: Pins = field(default_factory=Pins)
    """Choices of a strategy that the file states."""
    global_batch: int | None = None
    """Samples of a step that the file states."""
    replica_batch: int | None = None
    """Samples that a replica takes at once; all replicas' are a step where no ``global_batch`` is stated."""
    stage_blocks: StageBlocks | None = None
    """How the file's framework cuts the blocks into the stages that are pinned; None where none are."""

    def lines(self) -> tuple[str, ...]:
        """What the file does not say, and which of its settings are not used."""
        if not self.unused:
            return self.unrecorded
        return (*self.unrecorded, f"not used of the file: {', '.join(self.unused)}")


def with_choices(
    request: SearchRequest,
    clusters: Sequence[Cluster],
    reading: ModelReading,
    source: str | Path,
    ranks: Sequence[int] | None = None,
) -> tuple[SearchRequest, list[Cluster]]:
    """Return a request with the strategy and the batch that a model's file states, and clusters cut as it states.

    Args:
        ranks: those that train on each cluster; all of them without it.

    Raises:
        ConfigError: the request and the file state the same choice, and differently.
    """
    pins = merged_pins(request.pins, reading.pins, source)
    ranks = [cluster.ranks for cluster in clusters] if ranks is None else ranks
    batches = merged_batches(request.global_batches, reading, ranks, source)
    return replace(request, pins=pins, global_batches=batches), [with_stages(each, reading) for each in clusters]


def with_stages(cluster: Cluster, reading: ModelReading) -> Cluster:
    """Return a cluster whose stages are cut as a model's file states, unless the cluster states it itself."""
    training = cluster.training
    if reading.stage_blocks is None or "stage_blocks" in training.model_fields_set:
        return cluster
    cut = training.model_copy(update={"stage_blocks": reading.stage_blocks})
    return replace(cluster, training=cut)


def merged_pins(given: Pins, stated: Pins, source: str | Path) -> Pins:
    """Return the pins of a file with those that the caller adds.

    Raises:
        ConfigError: both pin the same choice, and differently.
    """
    pins = stated
    for name, value in given:
        own = getattr(stated, name)
        if value is None:
            continue
        if own is not None and own != value:
            raise ConfigError(
                f"--{name.replace('_', '-')} {value}: {source} states {own}: expected one of them, or --model-only, "
                "which takes the model of the file and not its strategy"
            )
        pins = replace(pins, **{name: value})  # type: ignore[arg-type]
    return pins


def merged_batches(
    given: Sequence[int] | None, reading: ModelReading, ranks: Sequence[int], source: str | Path
) -> tuple[int, ...] | None:
    """Return the global batches of the caller, else the one that a file states or that follows from its replicas.

    Args:
        ranks: of each cluster.

    Raises:
        ConfigError: both state one, and differently.
    """
    stated = reading.global_batch
    if given is None and stated is None and reading.replica_batch is not None:
        split = (reading.pins.tp or 1) * (reading.pins.pp or 1) * (reading.pins.cp or 1)
        return tuple(dict.fromkeys(max(number // split, 1) * reading.replica_batch for number in ranks))
    if given is None:
        return None if stated is None else (stated,)
    if stated is not None and tuple(given) != (stated,):
        raise ConfigError(
            f"global batch of {', '.join(map(str, given))}: {source} states {stated}: expected one of them, or "
            "--model-only, which takes the model of the file and not its strategy"
        )
    return tuple(given)
