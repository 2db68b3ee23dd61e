"""What ``plan --split`` is asked: its options read and checked before anything is searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from lightloom.clusters.base import Cluster
    from lightloom.planner.pricing.compression import Compression
    from lightloom.workloads.graph import ComputeGraph

_SAMPLES_A_RANK = (1, 2, 4, 8, 16)
"""Of the largest cluster, where no global batch is given."""
MOST_SAMPLES = 10_000_000


class SplitOptions(NamedTuple):
    """What the command line says."""

    model: str
    clusters: Sequence[str]
    ranks: Sequence[str]
    settings: Sequence[str]
    global_batches: Sequence[str]
    quanta: Sequence[str]
    algorithms: Sequence[str]
    kinds: Sequence[str]
    sequence_length: str | None
    compression: str | None
    compression_profile: Path | None
    compression_ratio: str | None
    compression_engine: str | None
    report: Path | None
    trace: Path | None
    figure: Path | None
    pictures: Path | None
    export_torchtitan: Path | None
    export_megatron: Path | None
    as_json: bool

    @property
    def files(self) -> dict[str, Path]:
        """What is to be written, by the option's name."""
        names = ("report", "trace", "figure", "export_torchtitan", "export_megatron")
        return {name: path for name in names if (path := getattr(self, name)) is not None}


class Asked(NamedTuple):
    """What is searched."""

    graph: ComputeGraph
    clusters: list[Cluster]
    batches: list[int]
    quanta: list[float]
    algorithms: list[str]
    kinds: list[str]
    compressions: list[Compression]
    lost: tuple[str, ...]
    """What the model's trace does not say."""


def read_options(options: SplitOptions) -> Asked:
    """Check everything before the search begins, and load the model.

    Raises:
        InputError: anything that cannot be read, or that excludes each other.
    """
    from lightloom.cli.output import read_count, read_settings
    from lightloom.cli.plan.compression import check_options, read_compression
    from lightloom.cli.plan.model import load_model
    from lightloom.clusters.load import load_cluster
    from lightloom.core.units import parse

    chosen = read_settings(options.settings)
    kinds, algorithms = _kinds(options.kinds), _algorithms(options.algorithms)
    _check_together(options, chosen, kinds)
    quanta = [_positive(parse(text, "time"), f"--quantum {text}") for text in options.quanta]
    clusters = [
        load_cluster(name, chosen | ({} if ranks is None else {"ranks": ranks}))
        for name in dict.fromkeys(options.clusters)
        for ranks in dict.fromkeys(read_count(text, "--ranks") for text in options.ranks) or [None]
    ]
    batches = [_batch(read_count(text, "--global-batch")) for text in options.global_batches]
    _check_outputs(options)
    check_options(
        options.compression, options.compression_profile, options.compression_ratio, options.compression_engine
    )
    tokens = None if options.sequence_length is None else read_count(options.sequence_length, "--sequence-length")
    graph, lost = load_model(options.model, batch=clusters[0].training.batch_per_rank, sequence_length=tokens)
    compressions = []
    if options.compression is not None:
        compressions.append(
            read_compression(
                options.compression,
                options.model,
                graph,
                options.compression_profile,
                options.compression_ratio,
                options.compression_engine,
            )
        )
    most = max(cluster.ranks for cluster in clusters)
    return Asked(
        graph,
        clusters,
        list(dict.fromkeys(batches)) or [most * each for each in _SAMPLES_A_RANK],
        list(dict.fromkeys(quanta)),
        algorithms,
        kinds,
        compressions,
        lost,
    )


def _check_together(options: SplitOptions, settings: Mapping[str, Any], kinds: Sequence[str]) -> None:
    from lightloom.core.errors import ConfigError

    if options.ranks and "ranks" in settings:
        raise ConfigError(f"--set ranks={settings['ranks']} and --ranks {options.ranks[0]}: expected one of them")
    if kinds == ["placed"] and (options.export_torchtitan or options.export_megatron):
        raise ConfigError(
            "--kind placed with an export: no framework has settings for placed splits: expected another --kind too"
        )


def _kinds(names: Sequence[str]) -> list[str]:
    from lightloom.core.errors import UnknownNameError
    from lightloom.planner.search.plans import KINDS

    for name in names:
        if name not in KINDS:
            raise UnknownNameError("kind of split", name, KINDS)
    return list(dict.fromkeys(names)) or list(KINDS)


def _algorithms(names: Sequence[str]) -> list[str]:
    from lightloom.collectives.registry import find
    from lightloom.planner.search.search import DEFAULT_ALGORITHMS

    if not names or "all" in names:
        return list(DEFAULT_ALGORITHMS)
    return [find(name).name for name in dict.fromkeys(names)]


def _batch(samples: int) -> int:
    from lightloom.core.errors import ConfigError

    if not 1 <= samples <= MOST_SAMPLES:
        raise ConfigError(f"--global-batch {samples}: expected 1 to {MOST_SAMPLES:,} samples")
    return samples


def _positive(value: float, option: str) -> float:
    from lightloom.core.errors import ConfigError

    if not value > 0:
        raise ConfigError(f"{option}: expected more than 0")
    return value


def _check_outputs(options: SplitOptions) -> None:
    from lightloom.core.errors import ConfigError
    from lightloom.core.files import check_writable
    from lightloom.reports.figures.base import check_format

    for path in options.files.values():
        check_writable(path)
    if options.pictures is not None:
        if options.pictures.exists() and not options.pictures.is_dir():
            raise ConfigError(f"--pictures {options.pictures}: expected a folder")
        check_writable(options.pictures / "placement.png")
    if options.figure is not None:
        check_format(options.figure)


def configuration(asked: Asked) -> list[Any]:
    """What provenance is made of."""
    from lightloom.cli.plan.compression import codec_json

    return [
        asked.graph.to_json(),
        [each.to_json() for each in asked.clusters],
        asked.batches,
        asked.quanta,
        asked.algorithms,
        asked.kinds,
        [codec_json(each) for each in asked.compressions],
    ]
