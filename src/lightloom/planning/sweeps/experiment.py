"""The YAML file of a sweep: blocks of collectives and of plans, each field a value or a list of values.

A block stands for the product of its lists.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, cast

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, StrictBool, model_validator
from pydantic.json_schema import models_json_schema
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from lightloom.collectives.collective import OF_SIZE
from lightloom.collectives.cost.price import CostModel, known_cost_model
from lightloom.collectives.registry import algorithms, find
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError, InputError, UnknownNameError
from lightloom.core.fields import Config, Count, FewRanks, Ranks, Size
from lightloom.core.files import cannot_read
from lightloom.core.plugins import load_plugins
from lightloom.core.results import attributes, content_hash
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.models.zoo import ZOO, search_path
from lightloom.planning.parallelism.plan import STRATEGIES

T = TypeVar("T")
M = TypeVar("M", bound=Config)


def _as_list(value: object) -> list[object]:
    """Return a list as it is, and any other value as the only item of one; ValueError for None and for an empty
    list."""
    if value is None or value == []:
        raise ValueError("expected a value, or a list of at least one")
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True)
class _OneOrMore:
    """Read a single value as a list of one, and document both forms in the JSON Schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the validation of the tuple, behind one that makes a single value a list."""
        return no_info_before_validator_function(_as_list, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON Schema of one value, or of an array of at least one."""
        several = handler(schema)
        return {"anyOf": [several["items"], several | {"minItems": 1}]}


Several = Annotated[tuple[T, ...], _OneOrMore()]
"""One value or a list of them."""
Text = Annotated[str, Field(strict=True, min_length=1)]


class Block(Config):
    """Fields that blocks of collectives and of plans share."""

    cluster: Several[Text] = ()
    """Clusters of the catalog, or YAML files relative to the experiment's."""
    ranks: Several[Ranks] = ()
    """Numbers of ranks; by default the cluster's own."""
    set: dict[Text, Several[Any]] = Field(default_factory=dict)
    """Fields of the fabric (``wavelengths``) or of the cluster (``fabric.wavelengths``) and the values they take."""
    algorithm: Several[Text] = ("all",)
    """Names of algorithms; ``all`` stands for every algorithm."""
    cost_model: Several[Text] = ("physical",)
    """Cost models: ``physical`` or ``paper``."""


class CollectiveBlock(Block):
    """Collectives on fabrics: kind x fabric or cluster x ranks x set x size x cost model x algorithm."""

    kind: Several[Text]
    """Kinds of collectives: all-gather, reduce-scatter, all-reduce, ..."""
    fabric: Several[Text] = ()
    """Fabrics of the catalog, or YAML files relative to the experiment's."""
    nbytes: Several[Size] = ()
    """Bytes that every rank holds at the end (all-gather) or at the start (all other kinds)."""
    nbytes_per_rank: Several[Size] = ()
    """``nbytes`` divided by the number of ranks."""

    @model_validator(mode="after")
    def _complete(self) -> CollectiveBlock:
        """Return the block; ValueError where it has neither a fabric nor a cluster, a fabric without ranks, no sizes,
        or ``set`` together with both a fabric and a cluster, whose fields it could each name."""
        if not self.fabric and not self.cluster:
            raise ValueError("expected 'fabric' or 'cluster'")
        if self.fabric and not self.ranks:
            raise ValueError("expected 'ranks': a fabric has none of its own")
        if self.fabric and self.cluster and self.set:
            raise ValueError("'set' names fields of a fabric or of a cluster: expected one of them, not both")
        if not self.nbytes and not self.nbytes_per_rank:
            raise ValueError("expected 'nbytes' or 'nbytes_per_rank'")
        return self


class PlanBlock(Block):
    """Training steps: model x cluster x ranks x set x batch x sequence length x strategy x algorithm, ..."""

    ranks: Several[FewRanks] = ()
    """Numbers of ranks; by default the cluster's own."""
    model: Several[Text]
    """Zoo names, package.module:factory, or file.py:factory relative to the experiment's file."""
    strategy: Several[Text] = ("all",)
    """Strategies: ``ddp``, ``fsdp``; ``all`` stands for every strategy."""
    batch: Several[Count] = ()
    """Samples per rank; by default the cluster's."""
    sequence_length: Several[Count] = ()
    """Tokens per sample, for models that take tokens; by default the model's own."""
    overlap: Several[StrictBool] = (True,)
    """True to run communication beside computation."""

    @model_validator(mode="after")
    def _complete(self) -> PlanBlock:
        """Return the block; ValueError without a cluster."""
        if not self.cluster:
            raise ValueError("expected 'cluster'")
        return self


class _Head(Config):
    name: Annotated[str, Field(strict=True, pattern=r"^[^./][^/]*$")]
    """Name of the sweep, without a slash; a folder holds the results of one name."""
    description: str = ""
    """Description of the sweep in one line."""
    collectives: list[dict[str, Any]] = Field(default_factory=list)
    plans: list[dict[str, Any]] = Field(default_factory=list)


class Experiment(Config):
    """An experiment that was read from a file and checked."""

    name: str
    description: str
    collectives: tuple[CollectiveBlock, ...]
    plans: tuple[PlanBlock, ...]
    path: Path
    """Path of the file; paths inside it are relative to its folder."""


def read_experiment(path: Path) -> Experiment:
    """Return the experiment of a YAML file, with all of its blocks checked; names of clusters, fabrics, models and
    algorithms are not looked up yet.

    Raises:
        ConfigError: unreadable, not YAML, a field that is unknown, missing or malformed, or no block at all; one line
            that names file, block, field, value and expectation.
    """
    head: _Head = validate(_Head, read_yaml(path), str(path))
    if not head.collectives and not head.plans:
        raise ConfigError(f"{path}: nothing to compute: expected a block under 'collectives' or 'plans'")
    collectives = _blocks(CollectiveBlock, head.collectives, f"{path}: collectives")
    plans = _blocks(PlanBlock, head.plans, f"{path}: plans")
    return Experiment(path=path, collectives=collectives, plans=plans, **attributes(head, "name description"))


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the YAML file of an experiment."""
    _, document = models_json_schema([(kind, "validation") for kind in (_Head, CollectiveBlock, PlanBlock)])
    head = document["$defs"].pop(_Head.__name__)
    for field, block in (("collectives", CollectiveBlock), ("plans", PlanBlock)):
        head["properties"][field]["items"] = {"$ref": f"#/$defs/{block.__name__}"}
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **head, "title": "lightloom experiment", **document}


def _blocks(kind: type[M], blocks: list[dict[str, Any]], where: str) -> tuple[M, ...]:
    """Return the blocks validated as ``kind``, in their order.

    Raises:
        ConfigError: a field is unknown, missing or malformed; names the place ``where[index]``.
    """
    return tuple(validate(kind, block, f"{where}[{place}]") for place, block in enumerate(blocks))


# The version of the code that computes a row, so that results of different versions are never mixed.

_GROUPS = ("algorithms", "fabrics", "accelerators", "models")
"""Groups of plug-ins that can change a result."""


@cache
def code_version() -> str:
    """Return 16 hexadecimal digits that change with the package's version, with any of its source files and catalogs,
    and with the version of any plug-in that can change a result; cached."""
    root = Path(__file__).parents[2]
    digest = sha256(version("lightloom").encode())
    for file in sorted((*root.rglob("*.py"), *root.rglob("*.yaml"))):
        digest.update(f"\n{file.relative_to(root)}\n".encode())
        digest.update(file.read_bytes())
    plugins = [plugin for group in _GROUPS for plugin in entry_points(group=f"lightloom.{group}")]
    for name in sorted(f"{plugin.value} {plugin.dist.version if plugin.dist else ''}" for plugin in plugins):
        digest.update(name.encode())
    return digest.hexdigest()[:16]


# The points of a sweep: one collective or one plan each, with everything that the result depends on.


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSite:
    """Where points run: a fabric with its ranks or a cluster, or the reason why it cannot be built."""

    name: str
    """Name in the experiment."""
    ranks: int
    settings: str
    """Settings as ``field=value, ...``; may be empty."""
    place: Fabric | Cluster | None
    """The fabric or cluster; None if it cannot be built with these ranks and settings."""
    why: str
    """Reason why it cannot be built; empty if it can."""
    content: str
    """Hash of the name, ranks, settings and definition."""

    @classmethod
    def of(cls, name: str, ranks: int, settings: str, place: Fabric | Cluster | None, why: str = "") -> SweepSite:
        """Return a site with a hash of everything given: its name, ranks, settings in words (``field=value, ...``), the
        fabric or cluster, and ``why`` it cannot be built where ``place`` is None."""
        description = place.to_json() if isinstance(place, Cluster) else place and place.model_dump(mode="json")
        content = content_hash([name, ranks, settings, description, why])
        return cls(name=name, ranks=ranks, settings=settings, place=place, why=why, content=content)

    @property
    def fabric(self) -> Fabric:
        """The site's fabric, or that of its cluster; the site must be one that can be built."""
        assert self.place is not None
        return self.place.fabric if isinstance(self.place, Cluster) else self.place


_COLUMNS = {"kind": "collective", "batch": "batch_per_rank"}
"""Columns of a row whose fields have another name."""
_NO_COLUMNS = ("site", "workload", "workload_content")


@dataclass(frozen=True, slots=True, kw_only=True)
class _SitePoint:
    """One row of a sweep at a site."""

    site: SweepSite
    what: ClassVar[str]
    """Kind of question that the row answers, as its columns name it."""
    workload_content: str = ""
    """Hash of the user's file of a model; empty without one."""

    def columns(self) -> dict[str, Any]:
        """Return the columns that identify the point in its row, by name: ``what`` it is ("collective" or "plan"), the
        site's name, ranks and settings, and its own fields, ``kind`` as "collective" and ``batch`` as "batch_per_rank",
        without the path and the hash of a model's file."""
        place = {"site": self.site.name, "ranks": self.site.ranks, "settings": self.site.settings}
        names = [field.name for field in fields(self) if field.name not in _NO_COLUMNS]
        return {"what": self.what} | place | {_COLUMNS.get(name, name): getattr(self, name) for name in names}

    @property
    def key(self) -> str:
        """Hash, 16 hexadecimal digits, of the code and of everything that the point's result depends on: points of one
        key have one result."""
        return content_hash([code_version(), self.site.content, self.workload_content, self.columns()])


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivePoint(_SitePoint):
    """One collective, built by one algorithm."""

    what = "collective"
    kind: str
    nbytes: float
    algorithm: str
    cost_model: CostModel

    @property
    def family(self) -> tuple[object, ...]:
        """Key that is equal for points that share a schedule: site, kind, algorithm and cost model."""
        return (self.site.content, self.kind, self.algorithm, self.cost_model)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPoint(_SitePoint):
    """One training step of one model by one strategy and algorithm."""

    what = "plan"
    model: str
    """Name in the experiment."""
    workload: str
    """Name for :func:`load_workload`, with the path of a file resolved."""
    batch: int
    """Number of samples per rank."""
    sequence_length: int | None
    strategy: str
    algorithm: str
    overlap: bool
    cost_model: CostModel

    @property
    def family(self) -> tuple[object, ...]:
        """Key that is equal for points that share a traced model: site, model, batch and sequence length."""
        return (self.site.content, self.workload, self.batch, self.sequence_length)


Point = CollectivePoint | PlanPoint


# Expand an experiment into its points, in its order and without repetition.

_ALL = "all"


def points_of(experiment: Experiment) -> dict[str, Point]:
    """Return the points of an experiment by key, in its order, those of sites that cannot be built included; a point
    that several blocks contain occurs once, at its first position.

    Raises:
        ConfigError: no such model, cluster, fabric, collective, strategy, algorithm or cost model, or a fabric or
            cluster that cannot be built with any of its ranks and settings; names the block.
    """
    points_by_key: dict[str, Point] = {}
    folder = experiment.path.parent
    expanded = {
        "collectives": (_collective_points(block, folder) for block in experiment.collectives),
        "plans": (_plan_points(block, folder) for block in experiment.plans),
    }
    for kind, blocks in expanded.items():
        for place, points in enumerate(blocks):
            try:
                for point in points:
                    points_by_key.setdefault(point.key, point)
            except InputError as error:
                raise ConfigError(f"{experiment.path}: {kind}[{place}]: {error}") from error
    return points_by_key


def _collective_points(block: CollectiveBlock, folder: Path) -> Iterator[Point]:
    """Yield the points of a block: every site, size, kind, cost model and algorithm. Sites that cannot be built are
    among them, with the reason; sizes for each rank are multiplied by the ranks. Files that the block names are
    relative to ``folder``.

    Raises:
        UnknownNameError: no such kind, algorithm, cost model, fabric or cluster.
        InputError: a fabric or cluster that cannot be built with any of its ranks and settings.
    """
    for kind in block.kind:
        if kind not in OF_SIZE:
            raise UnknownNameError("collective", kind, OF_SIZE)
    named, models = _algorithm_names(block), [known_cost_model(value) for value in block.cost_model]
    for site in _sites(block, block.fabric, folder):
        sizes = [*block.nbytes, *(value * site.ranks for value in block.nbytes_per_rank)]
        for kind, nbytes, model, algorithm in product(block.kind, sizes, models, named):
            yield CollectivePoint(site=site, kind=kind, nbytes=nbytes, algorithm=algorithm, cost_model=model)


def _plan_points(block: PlanBlock, folder: Path) -> Iterator[Point]:
    """Yield the points of a block: every model, site, batch, sequence length, overlap, cost model, strategy and
    algorithm. Sites that cannot be built are among them, with the reason. Where the block names none, the batch is the
    cluster's (1 where it cannot be built) and the sequence length None. Files that the block names are relative to
    ``folder``.

    Raises:
        UnknownNameError: no such strategy, algorithm, cost model, model or cluster.
        InputError: a cluster that cannot be built with any of its ranks and settings, or a model whose file cannot be
            read.
    """
    named, costs = _algorithm_names(block), [known_cost_model(name) for name in block.cost_model]
    strategies = _all_of(block.strategy, STRATEGIES)
    for name in strategies:
        if name not in STRATEGIES:
            raise UnknownNameError("strategy", name, [*STRATEGIES, _ALL])
    workloads = [(name, *_workload(name, folder)) for name in block.model]
    for (model, workload, content), site in product(workloads, _sites(block, (), folder)):
        batches = block.batch or (site.place.training.batch_per_rank if isinstance(site.place, Cluster) else 1,)
        columns = ("batch", "sequence_length", "overlap", "cost_model", "strategy", "algorithm")
        where = {"site": site, "model": model, "workload": workload, "workload_content": content}
        for chosen in product(batches, block.sequence_length or (None,), block.overlap, costs, strategies, named):
            yield PlanPoint(**cast(Any, where | dict(zip(columns, chosen, strict=True))))


def _all_of(names: tuple[str, ...], known: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names without repetition, "all" replaced by every key of ``known``; other names are not checked."""
    return tuple(dict.fromkeys(choice for name in names for choice in (known if name == _ALL else (name,))))


def _algorithm_names(block: Block) -> tuple[str, ...]:
    """Return the full names of a block's algorithms, "all" replaced by every one of the registry.

    Raises:
        UnknownNameError: no such algorithm.
    """
    return tuple(find(name).name for name in _all_of(block.algorithm, algorithms()))


def _sites(block: Block, fabrics: tuple[str, ...], folder: Path) -> list[SweepSite]:
    """Return every one of the ``fabrics`` and of the block's clusters with all of its ranks and settings; those that
    cannot be built have the reason, and 0 ranks where the block states none. Files are relative to ``folder``.

    Raises:
        UnknownNameError: no such fabric or cluster.
        InputError: one of them cannot be built with any of its ranks and settings; the first reason.
    """
    sites: list[SweepSite] = []
    for name, is_fabric in [*product(fabrics, (True,)), *product(block.cluster, (False,))]:
        candidates, refused = [], []
        path = str(folder / name) if name.endswith((".yaml", ".yml")) else name
        for ranks, *values in product(block.ranks or (None,), *block.set.values()):
            settings = dict(zip(block.set, values, strict=True))
            place: Fabric | Cluster | None = None
            why = ""
            try:
                if is_fabric:
                    assert ranks is not None
                    place = load_fabric(path, ranks, set=settings)
                else:
                    place = load_cluster(path, set=settings if ranks is None else settings | {"ranks": ranks})
            except UnknownNameError:
                raise
            except InputError as error:
                refused.append(error)
                why = str(error)
            text = ", ".join(f"{field}={value}" for field, value in settings.items())
            candidates.append(SweepSite.of(name, ranks or (0 if place is None else place.ranks), text, place, why))
        if len(refused) == len(candidates):
            raise refused[0]
        sites += candidates
    return sites


def _workload(spec: str, folder: Path) -> tuple[str, str]:
    """Return the name by which to load a model ``spec`` (``FILE.py:FACTORY``, ``MODULE:FACTORY`` or a name), with the
    path of a file resolved relative to ``folder``, and the hash of its file or module, so that a changed file is
    computed again; the hash is empty for the zoo and plug-ins.

    Raises:
        UnknownNameError: ``spec`` has no file or module and names no model of the zoo or a plug-in.
        ConfigError: the file cannot be read, or there is no such module.
    """
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
    """Return the first 16 hexadecimal digits of the SHA-256 of a module's file, which is found but not imported; empty
    where the module has no file. ``spec`` is the model ``module:factory``, for the search path and messages.

    Raises:
        ConfigError: there is no such module, or its file cannot be read.
    """
    try:
        with search_path(spec):
            spec_found = find_spec(module)
    except (ImportError, ValueError):
        spec_found = None
    if spec_found is None:
        raise ConfigError(f"model {spec!r}: there is no module {module!r} in {sys.path[0] or '.'} or installed")
    return _file_hash(Path(spec_found.origin)) if spec_found.has_location and spec_found.origin else ""


def _file_hash(file: Path) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return sha256(file.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise cannot_read(file, error, "model file") from error
