"""Planners of the next hold, from what is still to send."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import InputError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.capabilities import NEEDS_CIRCUITS
from lightloom.parallelism.circuits import ring, switch
from lightloom.parallelism.circuits.circuits import Circuits
from lightloom.parallelism.circuits.play import Planner
from lightloom.parallelism.circuits.traffic import Traffic


def longest_first(fabric: Fabric) -> Planner:
    """Each circuit to the pair whose transfer is still the longest with it, and none that a pair cannot fill.

    Raises:
        InputError: the fabric has neither wavelengths around a ring nor switch planes.
    """

    def plan(traffic: Traffic, circuit_bytes: float) -> Circuits:
        most = _usable(traffic, circuit_bytes)
        if fabric.wavelength_routed:
            return ring.assign_longest(traffic, fabric, most)
        none = np.zeros(len(traffic), np.int64)
        return switch.realise(traffic, fabric, switch.fill_ports(traffic, fabric.channels, none, most))

    if not fabric.assigns_circuits:
        raise InputError(f"circuits on a {fabric.kind_name}: {NEEDS_CIRCUITS}")
    return plan


def most_bytes(fabric: Fabric) -> Planner:
    """The circuits of a switch that move the most bytes in the hold, exactly (`switch.served_counts`)."""

    def plan(traffic: Traffic, circuit_bytes: float) -> Circuits:
        return switch.realise(traffic, fabric, switch.served_counts(traffic, fabric.channels, circuit_bytes))

    return plan


def _usable(traffic: Traffic, circuit_bytes: float) -> Ints:
    """Circuits that each pair can fill in a hold, shape [pair]."""
    return np.ceil(traffic.nbytes / circuit_bytes).astype(np.int64)
