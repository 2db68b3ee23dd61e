"""The structure of a fabric: all of it but how fast its links are.

Which transfers share links, how long a bit takes and which circuits stand follow from the structure alone, so that what
was found of a schedule on one fabric holds on every other one of its structure. The fields that a fabric names as
:attr:`~lightloom.fabrics.capabilities.Capabilities.rate_fields` are left out; links of equal bandwidth and links
without any stay told apart.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Set
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

import numpy as np

from lightloom.core.arrays import Floats

R = TypeVar("R")


class Readable(Protocol):
    """What a structure is read from (:class:`lightloom.fabrics.base.Fabric`)."""

    @property
    def implementation(self) -> tuple[str, str]: ...
    @property
    def rate_fields(self) -> Set[str]: ...
    def link_bandwidth(self) -> Floats: ...
    def model_dump(self, *, mode: str, exclude: set[str]) -> dict[str, object]: ...
    def model_dump_json(self, *, exclude: set[str]) -> str: ...


@dataclass(frozen=True)
class Keyed(Generic[R]):
    """A fabric as the key of a cache, in which all fabrics of the same text are one."""

    text: Hashable
    fabric: R = field(compare=False)


def structure(fabric: Readable) -> str:
    """Return a text that is equal for fabrics whose links differ in nothing but how fast they are."""
    return _structure(Keyed((*fabric.implementation, fabric.model_dump_json(exclude={"sources"})), fabric))


@lru_cache(maxsize=256)
def _structure(by_fields: Keyed[Readable]) -> str:
    fabric = by_fields.fabric
    fields = _without(fabric.model_dump(mode="json", exclude={"sources"}), fabric.rate_fields | {"sources"})
    counts_energy = isinstance(getattr(fabric, "energy_per_bit", None), int | float)
    bandwidth = fabric.link_bandwidth()
    # Each link by the first one that is as fast.
    _, first, link_class = np.unique(bandwidth, return_index=True, return_inverse=True)
    links = blake2b(np.where(bandwidth > 0, first[link_class], -1).tobytes()).hexdigest()
    return json.dumps([*fabric.implementation, fields, counts_energy, links])


def _without(value: object, names: Set[str]) -> object:
    """Return a document without the fields of these names, at any depth."""
    if isinstance(value, dict):
        return {name: _without(field, names) for name, field in value.items() if name not in names}
    return [_without(item, names) for item in value] if isinstance(value, list | tuple) else value
