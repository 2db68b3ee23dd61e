"""The options of ``lightloom plan``, read and checked before anything is searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lightloom.api.compression import check_compression, read_compression
from lightloom.api.models import trace_with_gaps
from lightloom.api.planning import PlanQuestion, with_batches
from lightloom.cli.output import read_count, read_settings
from lightloom.clusters.load import load_cluster
from lightloom.collectives.cost.stepped import known_cost_model
from lightloom.collectives.registry import find
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable
from lightloom.core.units import parse
from lightloom.planner.pricing.placed_space import DEFAULT_QUANTA
from lightloom.planner.search.request import KINDS, Pins, SearchRequest
from lightloom.reports.figures.base import check_format

if TYPE_CHECKING:
    from lightloom.cli.plan.options import PlanOptions

_CLUSTER = "terarack-64"
_DEGREES = ("dp", "tp", "pp", "ep", "micro_batches", "virtual_stages")


def read_options(options: PlanOptions) -> PlanQuestion:
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
    batch = options.batch if options.batch in (None, "max") else read_count(str(options.batch), "--batch")
    totals = [read_count(text, "--global-batch") for text in options.global_batch or ()]
    request = with_batches(request, clusters, batch, totals)
    _check_outputs(options, request.kinds)
    codec = options.compression, options.compression_profile, options.compression_ratio, options.compression_engine
    check_compression(*codec)
    tokens = None if options.sequence_length is None else read_count(options.sequence_length, "--sequence-length")
    graph, unrecorded = trace_with_gaps(
        options.model, batch=clusters[0].training.batch_per_rank, sequence_length=tokens
    )
    if options.compression is not None:
        compression = read_compression(options.compression, options.model, graph, *codec[1:])
        request = replace(request, compressions=(compression,))
    return PlanQuestion(graph, clusters, request, unrecorded)


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
