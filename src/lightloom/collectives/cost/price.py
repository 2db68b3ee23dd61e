"""What one run of a collective costs: the figures that layers above ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lightloom.core.results import Result
from lightloom.core.units import format_energy, format_time

CostModel = Literal["paper", "physical"]
"""Every step costs d/B + a, or circuits change when they have to; see :mod:`lightloom.collectives.cost.stepped`."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cost(Result):
    """Time and energy of one run of a schedule.

    ``time = transmission + conversion + reconfiguration + encode + decode``; ``setup`` is the part of
    ``reconfiguration`` that the first step pays. When ``static`` holds, the schedule needs no other circuits than
    those, so a run that finds them in place (the same collective again, at any size) pays no reconfiguration at all.
    """

    steps: int
    time: float
    """Seconds, from dark fibres."""
    transmission: float
    """Seconds of bits on links, or through codecs in line with them where those are slower, and of propagation."""
    conversion: float
    """Seconds of conversion between light and electrons."""
    reconfiguration: float
    """Seconds of changing circuits, first set-up included."""
    setup: float
    """Seconds of the first set-up."""
    static: bool
    """Whether one set of circuits serves every step."""
    energy: float | None
    """Joules of transmission; None when the fabric's energy per bit has no source."""
    encode: float = 0.0
    """Seconds of compressing between hops, which nothing else of the collective overlaps."""
    decode: float = 0.0
    """The same for decompressing."""

    @property
    def repeated_time(self) -> float:
        """Seconds of a run after the first, circuits left in place where they can be."""
        return self.time - self.setup if self.static else self.time

    def summary(self) -> str:
        parts = {
            "transmission": self.transmission,
            "conversion": self.conversion,
            "reconfiguration": self.reconfiguration,
            "codec": self.encode + self.decode,
        }
        spent = ", ".join(f"{format_time(seconds)} {name}" for name, seconds in parts.items() if seconds)
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return (
            f"{format_time(self.time)} in {steps} ({spent or 'nothing to send'}); energy {format_energy(self.energy)}"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "time_s": self.time,
            "transmission_s": self.transmission,
            "conversion_s": self.conversion,
            "reconfiguration_s": self.reconfiguration,
            "setup_s": self.setup,
            "static_circuits": self.static,
            "energy_j": self.energy,
            "encode_s": self.encode,
            "decode_s": self.decode,
        }
