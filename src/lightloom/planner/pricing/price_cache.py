"""Prices kept on disk by the content of what was priced: schedules of a thousand ranks have millions of rows, and every
plan on the same cluster asks for the same ones.

What is kept was verified when it was priced. The code that builds, verifies and costs is part of the content, so that
none of it changes behind a price; plug-ins, whose code is elsewhere, and algorithms that keep their own designs are
priced each time. Files are written aside and renamed; one that cannot be read is priced again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.registry import Algorithm
from lightloom.collectives.spec import Kind
from lightloom.core.errors import ConfigError
from lightloom.core.files import cache_directory, write_atomically
from lightloom.core.provenance import content_hash
from lightloom.fabrics.base import Fabric
from lightloom.simulation.lower import Priced

Prices = Mapping[tuple[Kind, float], tuple[Priced, Bound]]
"""By kind and bytes."""


def prices_path(
    algorithm: Algorithm, fabric: Fabric, model: CostModel, wanted: Iterable[tuple[Kind, float]]
) -> Path | None:
    """Where the prices of these collectives are kept; None where they are not."""
    module, name = fabric.implementation
    ours = (algorithm.build.__module__, module)
    if algorithm.by_size or not all(source.startswith("lightloom.") for source in ours):
        return None
    asked = [algorithm.name, name, fabric.model_dump(mode="json"), model, sorted(wanted), _code_hash()]
    return cache_directory() / "prices" / f"{content_hash(asked)}.json"


def read_prices(path: Path | None) -> Prices:
    """What was kept there; nothing where there is none, or it is damaged."""
    if path is None:
        return {}
    try:
        return dict(_entry(each) for each in json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}


def _entry(said: Any) -> tuple[tuple[Kind, float], tuple[Priced, Bound]]:
    cost = Cost(**said["cost"])
    found = Priced(cost=cost, circuits=said["circuits"])
    return (cast(Kind, said["kind"]), float(said["nbytes"])), (found, Bound(**said["bound"]))


def keep_prices(path: Path | None, prices: Prices) -> None:
    """Keep them; a folder that cannot be written costs time, nothing else."""
    if path is None or not prices:
        return
    rows = [
        {
            "kind": kind,
            "nbytes": nbytes,
            "cost": asdict(priced.cost),
            "circuits": priced.circuits,
            "bound": asdict(bound),
        }
        for (kind, nbytes), (priced, bound) in prices.items()
    ]
    with contextlib.suppress(ConfigError):
        write_atomically(path, json.dumps(rows))


def _plain(priced: Priced, bound: Bound) -> dict[str, Any]:
    return {"cost": asdict(priced.cost), "bound": asdict(bound)}


@cache
def _code_hash() -> str:
    """Changes whenever anything does that builds, verifies or costs."""
    digest = sha256()
    for package in ("collectives", "fabrics", "photonics"):
        for file in sorted((Path(__file__).parents[2] / package).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
