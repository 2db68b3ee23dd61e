"""Prices on disk, keyed by the content of what was priced: schedules of a thousand ranks have millions of rows, and
every plan on the same cluster asks for the same ones.

Cached prices were verified when they were computed, and are held against their lower bound again where they are used.
The code that builds, verifies and costs is part of the key, so that no change of it meets an old price, and so is the
effort of searches; plug-ins, whose code is elsewhere, are priced each time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import cast

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.registry import Algorithm
from lightloom.collectives.spec import Kind
from lightloom.collectives.synthesis.engine.effort import effort
from lightloom.core.cache import cache_directory, read_entry, write_entry
from lightloom.core.effort import Effort
from lightloom.core.provenance import content_hash
from lightloom.core.results import Document
from lightloom.fabrics.base import Fabric
from lightloom.simulation.lower import Priced

Prices = Mapping[tuple[Kind, float, float], tuple[Priced, Bound]]
"""By kind, the size that the schedule was built for, and the size."""
_PRICING = ("core", "compression", "photonics", "fabrics", "collectives", "planner/pricing")
"""Packages that decide what a collective costs."""
_MOST: Effort = 4096
"""Prices in a file, the latest ones."""


def prices_path(algorithm: Algorithm, fabric: Fabric, model: CostModel) -> Path | None:
    """File of the prices of an algorithm on a fabric; None where they are not cached."""
    module, name = fabric.implementation
    origins = (algorithm.build.__module__, module)
    if not all(origin.startswith("lightloom.") for origin in origins):
        return None
    key: list[object] = [algorithm.name, name, fabric.model_dump(mode="json"), model, _code_hash()]
    if algorithm.by_size:
        key.append(effort(fabric.ranks))
    return cache_directory() / "prices" / f"{content_hash(key)}.json"


def read_prices(path: Path | None) -> Prices:
    """Return the prices of a file; none where there is no file, or it is damaged."""
    content = None if path is None else read_entry(path)
    if content is None:
        return {}
    try:
        return dict(_entry(row) for row in json.loads(content))
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _entry(row: Document) -> tuple[tuple[Kind, float, float], tuple[Priced, Bound]]:
    priced = Priced(cost=Cost(**row["cost"]), circuits=row["circuits"])
    key = cast(Kind, row["kind"]), float(row["built_for"]), float(row["nbytes"])
    return key, (priced, Bound(**row["bound"]))


def write_prices(path: Path | None, prices: Prices) -> None:
    """Write prices to a file."""
    if path is None or not prices:
        return
    rows = [
        {
            "kind": kind,
            "built_for": size,
            "nbytes": nbytes,
            "cost": asdict(priced.cost),
            "circuits": priced.circuits,
            "bound": asdict(bound),
        }
        for (kind, size, nbytes), (priced, bound) in islice(reversed(prices.items()), _MOST)  # type: ignore[call-overload]
    ]
    write_entry(path, json.dumps(rows[::-1]))


@cache
def _code_hash() -> str:
    """Hash of the code that builds, verifies and costs schedules."""
    digest = sha256()
    for package in _PRICING:
        for file in sorted((Path(__file__).parents[2] / package).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
