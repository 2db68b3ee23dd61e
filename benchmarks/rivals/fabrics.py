"""Fabrics on which tools are compared, and the links that they are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.collectives.synthesis.grid_links import GridLinks
from lightloom.collectives.synthesis.switch import kautz
from lightloom.core.arrays import Ints
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import CircuitSwitch

BANDWIDTH = 50e9
"""Bytes a second of every link between ranks."""
HOP = 0.5e-6
"""Seconds from rank to rank."""


@dataclass(frozen=True, slots=True)
class Links:
    """Links from rank to rank, all alike: arrays [link]."""

    source: Ints
    destination: Ints
    plane: Ints
    """Plane of a circuit switch; 0 elsewhere."""


@dataclass(frozen=True, slots=True)
class Case:
    """A fabric, and its links where no packet switch stands between ranks."""

    name: str
    fabric: Fabric
    links: Links | None
    set_up: float = 0.0
    """Seconds until circuits stand, which no figure counts."""


def cases() -> list[Case]:
    """A mesh, a torus, circuit switches whose circuits stand, and nodes of 8 GPUs."""
    grids = [grid(ranks=64, rows=8, bandwidth=BANDWIDTH, hop_latency=HOP) for grid in (Mesh, Torus)]
    found = [Case(f"{grid.kind_name} of 8 × 8", grid, _neighbours(grid)) for grid in grids]
    for degree in (2, 4):
        switch = CircuitSwitch(ranks=64, degree=degree, bandwidth=BANDWIDTH, hop_latency=HOP / 2)
        circuits = kautz(64, degree)
        links = Links(circuits.source, circuits.destination, circuits.channel)
        name = f"circuit switch of degree {degree}, 64 ranks"
        found.append(Case(name, switch, links, switch.reconfiguration_time))
    return found + [Case(f"DGX A100, {ranks} GPUs", load_fabric("dgx-a100", ranks), None) for ranks in (8, 16)]


def _neighbours(grid: Fabric) -> Links:
    links = GridLinks.of(grid)
    return Links(links.source, links.destination, np.zeros(len(links.source), np.int64))
