"""The YAML file of a sweep: blocks of collectives and of plans, each field a value or a list of values.

A block stands for the product of its lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, StrictBool, model_validator
from pydantic.json_schema import models_json_schema
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Config, Count, FewRanks, Ranks, Size

T = TypeVar("T")
M = TypeVar("M", bound=Config)


def _listed(value: object) -> list[object]:
    if value is None or value == []:
        raise ValueError("expected a value, or a list of at least one")
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True)
class _OneOrMore:
    """Read a single value as a list of one, and document both forms in the JSON Schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(_listed, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
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
    """The same, divided by the number of ranks."""

    @model_validator(mode="after")
    def _complete(self) -> CollectiveBlock:
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
    """Whether communication runs beside computation."""

    @model_validator(mode="after")
    def _complete(self) -> PlanBlock:
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
    """Read an experiment from a YAML file.

    Raises:
        ConfigError: unreadable, not YAML, a field that is unknown, missing or malformed, or no block at all; one line
            that names file, block, field, value and expectation.
    """
    head: _Head = validate(_Head, read_yaml(path), str(path))
    if not head.collectives and not head.plans:
        raise ConfigError(f"{path}: nothing to compute: expected a block under 'collectives' or 'plans'")
    return Experiment(
        name=head.name,
        description=head.description,
        collectives=_blocks(CollectiveBlock, head.collectives, f"{path}: collectives"),
        plans=_blocks(PlanBlock, head.plans, f"{path}: plans"),
        path=path,
    )


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an experiment's file."""
    _, document = models_json_schema([(kind, "validation") for kind in (_Head, CollectiveBlock, PlanBlock)])
    head = document["$defs"].pop(_Head.__name__)
    for field, block in (("collectives", CollectiveBlock), ("plans", PlanBlock)):
        head["properties"][field]["items"] = {"$ref": f"#/$defs/{block.__name__}"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **head,
        "title": "lightloom experiment",
        **document,
    }


def _blocks(kind: type[M], blocks: list[dict[str, Any]], where: str) -> tuple[M, ...]:
    return tuple(validate(kind, block, f"{where}[{place}]") for place, block in enumerate(blocks))
