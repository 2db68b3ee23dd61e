"""Joules that sending takes, beside what the network draws busy or idle."""

from __future__ import annotations

from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric


def sending_energy(fabric: Fabric, nbytes: Floats, source: Ints, destination: Ints) -> float | None:
    """Joules of bytes [pair] from ranks to ranks: once a lightpath, on packet fabrics once a link; None without a
    source for the energy of a bit."""
    if fabric.energy_per_bit is None:
        return None
    crossed = 1 if fabric.exclusive else fabric.hops(source, destination, fabric.route(source, destination))
    return float((nbytes * crossed).sum()) * fabric.wire_bytes(1.0) * 8 * fabric.energy_per_bit
