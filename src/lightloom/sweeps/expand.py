"""Expand an experiment into its points, in its order and without repetition."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from lightloom.clusters.base import Cluster
from lightloom.clusters.load import load_cluster
from lightloom.collectives.cost.stepped import known_cost_model
from lightloom.collectives.registry import algorithms, find
from lightloom.collectives.spec import OF_SIZE
from lightloom.core.errors import ConfigError, InputError, UnknownNameError
from lightloom.core.files import cannot_read
from lightloom.core.plugins import load_plugins
from lightloom.fabrics.load import load_fabric
from lightloom.parallelism.load import STRATEGIES
from lightloom.sweeps.experiment import Block, CollectiveBlock, Experiment, PlanBlock
from lightloom.sweeps.points import CollectivePoint, PlanPoint, Point, Site
from lightloom.workloads.catalog import ZOO
from lightloom.workloads.resolve import search_path

_ALL = "all"


def points_of(experiment: Experiment) -> dict[str, Point]:
    """Return the points by key; a point that several blocks contain occurs once, at its first position.

    Raises:
        UnknownNameError: no such model, cluster, fabric, collective, strategy, algorithm or cost model.
        ConfigError: a fabric or cluster that cannot be built with any of its ranks and settings.
    """
    points_by_key: dict[str, Point] = {}
    folder = experiment.path.parent
    blocks: list[tuple[str, CollectiveBlock | PlanBlock]] = [
        *((f"collectives[{place}]", each) for place, each in enumerate(experiment.collectives)),
        *((f"plans[{place}]", each) for place, each in enumerate(experiment.plans)),
    ]
    for where, block in blocks:
        try:
            points = _collectives(block, folder) if isinstance(block, CollectiveBlock) else _plans(block, folder)
            for each in points:
                points_by_key.setdefault(each.key, each)
        except InputError as error:
            raise ConfigError(f"{experiment.path}: {where}: {error}") from error
    return points_by_key


def _collectives(block: CollectiveBlock, folder: Path) -> Iterator[Point]:
    for kind in block.kind:
        if kind not in OF_SIZE:
            raise UnknownNameError("collective", kind, OF_SIZE)
    named, models = _algorithms(block), [known_cost_model(value) for value in block.cost_model]
    for site in _sites(block, block.fabric, folder):
        sizes = [*block.nbytes, *(value * site.ranks for value in block.nbytes_per_rank)]
        for kind, nbytes, model, algorithm in product(block.kind, sizes, models, named):
            yield CollectivePoint(site=site, kind=kind, nbytes=nbytes, algorithm=algorithm, cost_model=model)


def _plans(block: PlanBlock, folder: Path) -> Iterator[Point]:
    named, costs = _algorithms(block), [known_cost_model(name) for name in block.cost_model]
    strategies = _all_of(block.strategy, STRATEGIES)
    for name in strategies:
        if name not in STRATEGIES:
            raise UnknownNameError("strategy", name, [*STRATEGIES, _ALL])
    workloads = [(name, *_workload(name, folder)) for name in block.model]
    for (model, workload, content), site in product(workloads, _sites(block, (), folder)):
        batches = block.batch or (site.place.training.batch_per_rank if isinstance(site.place, Cluster) else 1,)
        for batch, length, overlap, cost, strategy, algorithm in product(
            batches, block.sequence_length or (None,), block.overlap, costs, strategies, named
        ):
            yield PlanPoint(
                site=site,
                model=model,
                workload=workload,
                workload_content=content,
                batch=batch,
                sequence_length=length,
                strategy=strategy,
                algorithm=algorithm,
                overlap=overlap,
                cost_model=cost,
            )


def _all_of(names: tuple[str, ...], known: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(choice for name in names for choice in (known if name == _ALL else (name,))))


def _algorithms(block: Block) -> tuple[str, ...]:
    return tuple(find(name).name for name in _all_of(block.algorithm, algorithms()))


def _sites(block: Block, fabrics: tuple[str, ...], folder: Path) -> list[Site]:
    """Return every fabric or cluster with all of its ranks and settings; at least one of each can be built."""
    sites: list[Site] = []
    for name, is_fabric in [*((place, True) for place in fabrics), *((place, False) for place in block.cluster)]:
        candidates, refused = [], []
        for ranks, *values in product(block.ranks or (None,), *block.set.values()):
            settings = dict(zip(block.set, values, strict=True))
            try:
                candidates.append(_site(name, is_fabric, ranks, settings, folder))
            except UnknownNameError:
                raise
            except InputError as error:
                refused.append(error)
                candidates.append(Site.of(name, ranks or 0, _settings_text(settings), None, str(error)))
        if len(refused) == len(candidates):
            raise refused[0]
        sites += candidates
    return sites


def _site(name: str, is_fabric: bool, ranks: int | None, settings: Mapping[str, object], folder: Path) -> Site:
    path = str(folder / name) if name.endswith((".yaml", ".yml")) else name
    if is_fabric:
        assert ranks is not None
        return Site.of(name, ranks, _settings_text(settings), load_fabric(path, ranks, settings))
    cluster = load_cluster(path, {**settings, **({} if ranks is None else {"ranks": ranks})})
    return Site.of(name, cluster.ranks, _settings_text(settings), cluster)


def _settings_text(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{field}={value}" for field, value in settings.items())


def _workload(spec: str, folder: Path) -> tuple[str, str]:
    """Return what to load and the hash of the user's file, so that a changed file is computed again."""
    place, _, factory = spec.rpartition(":")
    if not place:
        if spec not in ZOO and spec not in load_plugins("models"):
            raise UnknownNameError("model", spec, [*ZOO, *load_plugins("models")])
        return spec, ""
    if place.endswith(".py"):
        file = (folder / place).resolve()
        return f"{file}:{factory}", _file_hash(file)
    return spec, _module_hash(spec, place)


def _module_hash(spec: str, module: str) -> str:
    try:
        with search_path(spec):
            spec_found = find_spec(module)
    except (ImportError, ValueError):
        spec_found = None
    if spec_found is None:
        raise ConfigError(f"model {spec!r}: there is no module {module!r} in {sys.path[0] or '.'} or installed")
    return _file_hash(Path(spec_found.origin)) if spec_found.has_location and spec_found.origin else ""


def _file_hash(file: Path) -> str:
    try:
        return sha256(file.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise cannot_read(file, error, "model file") from error
