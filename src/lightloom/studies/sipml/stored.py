"""What the results of the comparison are made from, and whether stored ones were made from the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, get_args

from pydantic import BaseModel

from lightloom.accelerators.load import load_accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.provenance import content_hash
from lightloom.studies.sipml.paper import BANDWIDTHS, JOBS, RANKS, SCALING, TODAY
from lightloom.studies.sipml.rivals import ALGORITHMS
from lightloom.studies.sipml.split import PRECISIONS
from lightloom.studies.sipml.systems import SYSTEMS, System, fabric
from lightloom.studies.sipml.witness import placed_outcomes, rival_outcomes
from lightloom.workloads.catalog import ZOO

Part = Literal["placed", "rivals"]
"""Steps of placed plans, and of the planner's other splits on the same networks."""
PARTS: tuple[Part, ...] = get_args(Part)
VERSIONS: Mapping[Part, int] = {"placed": 2, "rivals": 2}
"""Version of the code that makes each part, raised when it gives other results. Of placed steps: in 1, parcels that
meet at a receiver of a packet switch had the whole of its port each; in 2, they take turns. Of rivals: in 1, every
group had all circuits; in 2, the groups of a step divide them, and exchanges that share packet links take turns."""
QUANTA = (1e-6, 10e-6)
"""Quanta τ in seconds: the authors' value, and one ten times as long."""
MOST_DEVICES = 128
"""Largest k that is tried: beyond it no samples of a group are left to split, and edges grow with k squared."""


def ports(system: System) -> tuple[float, ...]:
    """Return the measured bandwidths of a GPU, in Gb/s."""
    return (*TODAY, *BANDWIDTHS) if system == "electrical" else BANDWIDTHS


@cache
def inputs_hash(part: Part) -> str:
    """Return a hash of all that decides a part: jobs, models, accelerators, networks, training, the code's constants
    and version, and what the code makes of a small network."""
    own = [QUANTA, MOST_DEVICES, SCALING] if part == "placed" else [ALGORITHMS]
    models = {job.model: ZOO[job.model] for job in JOBS.values()}
    return content_hash(
        {
            "code": [VERSIONS[part], own],
            "jobs": JOBS,
            "models": {name: [zoo.parameters, zoo.path, zoo.arguments, zoo.example] for name, zoo in models.items()},
            "accelerators": [_fields(load_accelerator(name).flat()) for name in PRECISIONS],
            "precisions": PRECISIONS,
            "networks": [_fields(fabric(system, RANKS, gbps)) for system in SYSTEMS for gbps in ports(system)],
            "training": TrainingSettings().model_dump(mode="json"),
            "witness": placed_outcomes() if part == "placed" else rival_outcomes(),
        }
    )


def _fields(part: BaseModel) -> object:
    """Fields that are not at their defaults, so that a new field alone changes no hash; the small network tells where
    a default has changed."""
    return part.model_dump(mode="json", exclude={"sources", "description"}, exclude_defaults=True)


def stale(stored: Mapping[str, str], parts: tuple[Part, ...] = PARTS) -> str:
    """Return a sentence that names the parts whose stored hash is not that of their inputs; empty where there is none.

    Args:
        stored: hash of the inputs of each part, as stored with its results.
        parts: those that are asked about.
    """
    old = [part for part in parts if stored.get(part) != inputs_hash(part)]
    if not old:
        return ""
    return (
        f"STALE: the stored results of {' and '.join(old)} were made from other inputs or by an earlier version of the "
        "code; `lightloom reproduce sipml --work DIR` makes them anew"
    )
