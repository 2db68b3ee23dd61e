"""The options of ``lightloom plan``, read and checked before anything is searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lightloom.api.models import trace_with_gaps
from lightloom.cli.output import read_count, read_settings
from lightloom.cli.plan.compression import check_options, read_compression
from lightloom.clusters.load import load_cluster
from lightloom.collectives.cost.stepped import known_cost_model
from lightloom.collectives.registry import find
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable
from lightloom.core.units import parse
from lightloom.planner.pricing.placed_space import DEFAULT_QUANTA
from lightloom.planner.search.document import codec_json
from lightloom.planner.search.request import KINDS, Pins, SearchRequest
from lightloom.reports.figures.base import check_format

if TYPE_CHECKING:
    from lightloom.cli.plan.options import PlanOptions
    from lightloom.clusters.base import Cluster
    from lightloom.workloads.graph import ComputeGraph

MOST_SAMPLES = 10_000_000
_CLUSTER = "terarack-64"
_DEGREES = ("dp", "tp", "pp", "ep", "micro_batches", "virtual_stages")


class Question(NamedTuple):
    """What is searched."""

    graph: ComputeGraph
    clusters: list[Cluster]
    request: SearchRequest
    unrecorded: tuple[str, ...]
    """What the model's trace does not hold."""

    def configuration(self) -> list[Any]:
        """What provenance is made of."""
        request = self.request
        return [
            self.graph.to_json(),
            [cluster.to_json() for cluster in self.clusters],
            [list(request.global_batches or ()), request.largest_batches],
            list(request.strategies),
            list(request.algorithms),
            list(request.quanta),
            dict(request.pins),
            [request.cost_model, request.overlap],
            [codec_json(codec) for codec in request.compressions],
        ]


def read_options(options: PlanOptions) -> Question:
    """Check everything before the search begins, and load the model.

    Raises:
        InputError: anything that cannot be read, or that excludes each other.
    """
    fields = read_settings(options.settings or ())
    if options.ranks and "ranks" in fields:
        raise ConfigError(f"--set ranks={fields['ranks']} and --ranks {options.ranks[0]}: expected one of them")
    request = _request(options)
    clusters = [
        load_cluster(name, fields | ({} if ranks is None else {"ranks": ranks}))
        for name in dict.fromkeys(options.cluster or [_CLUSTER])
        for ranks in dict.fromkeys(read_count(text, "--ranks") for text in options.ranks or ()) or [None]
    ]
    request = _with_batches(request, options, clusters)
    _check_outputs(options, request.kinds)
    codec = options.compression, options.compression_profile, options.compression_ratio, options.compression_engine
    check_options(*codec)
    tokens = None if options.sequence_length is None else read_count(options.sequence_length, "--sequence-length")
    graph, unrecorded = trace_with_gaps(
        options.model, batch=clusters[0].training.batch_per_rank, sequence_length=tokens
    )
    if options.compression is not None:
        compression = read_compression(options.compression, options.model, graph, *codec[1:])
        request = replace(request, compressions=(compression,))
    return Question(graph, clusters, request, unrecorded)


def _request(options: PlanOptions) -> SearchRequest:
    quanta = [_positive(parse(text, "time"), f"--quantum {text}") for text in options.quantum or ()]
    strategies = tuple(dict.fromkeys(options.strategy or ()))
    algorithms = tuple(dict.fromkeys(find(name).name for name in options.algorithm or () if name != "all"))
    degrees = {
        name: None if text is None else _at_least_one(text, f"--{name.replace('_', '-')}")
        for name in _DEGREES
        for text in [getattr(options, name)]
    }
    return SearchRequest(
        strategies=strategies if strategies and strategies != ("all",) else KINDS,
        algorithms=algorithms,
        quanta=list(dict.fromkeys(quanta)) or DEFAULT_QUANTA,
        pins=Pins(
            **degrees,
            recomputation=options.recompute,
            sharding="ddp" if options.sharding == "none" else options.sharding,
            sequence_parallel=options.sequence_parallel,
        ),
        cost_model=known_cost_model(options.cost_model),
        overlap=options.overlap,
    )


def _with_batches(request: SearchRequest, options: PlanOptions, clusters: Sequence[Cluster]) -> SearchRequest:
    """The request with the batches that the options, or else the files of the clusters, state."""
    if options.batch is not None and options.global_batch:
        raise ConfigError(f"--batch {options.batch} and --global-batch {options.global_batch[0]}: expected one of them")
    if options.batch == "max":
        return replace(request, largest_batches=True)
    if options.global_batch:
        batches = [_samples(read_count(text, "--global-batch"), "--global-batch") for text in options.global_batch]
    elif options.batch is not None:
        samples = _samples(read_count(options.batch, "--batch"), "--batch")
        batches = [samples * cluster.ranks for cluster in clusters]
    else:
        stated = [each for each in clusters if "batch_per_rank" in each.training.model_fields_set]
        batches = [cluster.training.batch_per_rank * cluster.ranks for cluster in stated]
    return replace(request, global_batches=tuple(dict.fromkeys(batches))) if batches else request


def _samples(samples: int, option: str) -> int:
    if not 1 <= samples <= MOST_SAMPLES:
        raise ConfigError(f"{option} {samples}: expected 1 to {MOST_SAMPLES:,} samples")
    return samples


def _at_least_one(text: str, option: str) -> int:
    number = read_count(text, option)
    if number < 1:
        raise ConfigError(f"{option} {number}: expected at least 1")
    return number


def _positive(value: float, option: str) -> float:
    if not value > 0:
        raise ConfigError(f"{option}: expected more than 0")
    return value


def _check_outputs(options: PlanOptions, kinds: Sequence[str]) -> None:
    exports = [path for path in (options.export_torchtitan, options.export_megatron) if path is not None]
    if exports and tuple(kinds) == ("placed",):
        raise ConfigError(
            "--strategy placed with an export: no framework has settings for placed plans: expected another --strategy "
            "too"
        )
    files: list[Path | None] = [options.report, options.trace, options.figure, *exports]
    for path in filter(None, files):
        check_writable(path)
    if options.pictures is not None:
        if options.pictures.exists() and not options.pictures.is_dir():
            raise ConfigError(f"--pictures {options.pictures}: expected a folder")
        check_writable(options.pictures / "placement.png")
    if options.figure is not None:
        check_format(options.figure)
