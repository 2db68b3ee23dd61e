"""Joules of a step over all ranks, and which values have no source.

* ``compute_j``: board power x step time x ranks, an upper bound: a board that waits draws less than its rated power;
* ``transmission_j``: energy per bit x bits, as each collective's cost counts them;
* ``interface_j``: the network interfaces' power x step time x ranks, busy or not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lightloom.accelerators.base import Accelerator
from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnergy:
    """Joules of one step over all ranks; None where the catalog has no sourced value."""

    compute_j: float | None
    """Upper bound for the accelerators, memory included."""
    transmission_j: float | None
    interface_j: float | None
    missing: tuple[str, ...]
    """Fields without a source, hence left out."""

    @property
    def known_j(self) -> float:
        """Sum of the parts that have a source."""
        return sum(part for part in (self.compute_j, self.transmission_j, self.interface_j) if part is not None)

    @property
    def total_j(self) -> float | None:
        """Joules altogether; None when a part is missing."""
        return None if self.missing else self.known_j

    def to_json(self) -> dict[str, Any]:
        """Return every part, the sums, and what is missing."""
        sums = {"total_j": self.total_j, "known_j": self.known_j}
        return sums | asdict(self) | {"missing": list(self.missing)}


def step_energy(accelerator: Accelerator, fabric: Fabric, transmission: float | None, step_time: float) -> StepEnergy:
    """Joules of one step of ``step_time`` seconds, in which sending takes ``transmission`` joules over all ranks."""
    ranks = fabric.ranks
    parts = {
        "accelerator.power": None if accelerator.power is None else accelerator.power * ranks * step_time,
        "fabric.energy_per_bit": transmission,
        "fabric.power_per_rank": None if fabric.power_per_rank is None else fabric.power_per_rank * ranks * step_time,
    }
    compute, transmission, interface = parts.values()
    return StepEnergy(
        compute_j=compute,
        transmission_j=transmission,
        interface_j=interface,
        missing=tuple(name for name, joules in parts.items() if joules is None),
    )


def sending_energy(fabric: Fabric, nbytes: Floats, source: Ints, destination: Ints) -> float | None:
    """Joules of bytes [pair] from ranks to ranks: once a lightpath, on packet fabrics once a link; None without a
    source for the energy of a bit."""
    if fabric.energy_per_bit is None:
        return None
    crossed = 1 if fabric.exclusive else fabric.hops(source, destination, fabric.route(source, destination))
    return float((nbytes * crossed).sum()) * fabric.wire_bytes(1.0) * 8 * fabric.energy_per_bit
