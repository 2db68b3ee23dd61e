"""One split of a model on one of the networks: partitioned, placed, granted circuits and simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lightloom.accelerators.base import Precision
from lightloom.accelerators.load import load_accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.parallelism.hybrid import HybridPlan
from lightloom.parallelism.placement.partition import Partitions
from lightloom.parallelism.placement.place import place
from lightloom.simulation.placed_step import PlacedStep, simulate_best
from lightloom.studies.sipml.systems import System, fabric, link, reach

PRECISIONS: dict[str, Precision] = {"a100": "bf16", "titan-xp": "fp32"}
"""Precision by accelerator."""


class Network(NamedTuple):
    """A network, its size, and the accelerator of its ranks."""

    system: System
    ranks: int
    gbps: float
    accelerator: str = "a100"


def simulate_split(on: Network, k: int, quantum: float, partitions: Callable[[int], Partitions]) -> PlacedStep:
    """Simulate one step over the circuits that make it fastest: one hold or a cycle of holds.

    Args:
        on: the network.
        k: devices of a group.
        quantum: τ in seconds.
        partitions: of a group's share of the batch, by how many parts may read one another.

    Raises:
        UnsupportedError: it does not fit the memory, or no circuits reach.
    """
    groups = on.ranks // k
    within, chip = reach(on.system, k, groups), load_accelerator(on.accelerator)
    balanced = partitions(within.clique(k))(k, quantum)
    placement = place(balanced, k, within, chip.memory, link(on.system, k, groups, on.gbps))
    plan = HybridPlan(placement, balanced, k, groups)
    training = TrainingSettings(precision=PRECISIONS[on.accelerator])
    return simulate_best(plan, fabric(on.system, on.ranks, on.gbps), chip.flat(), training)
