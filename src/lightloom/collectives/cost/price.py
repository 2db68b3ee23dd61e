"""What one run of a collective costs: the figures that layers above ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CostModel = Literal["paper", "physical"]
"""Every step costs d/B + a, or circuits change when they have to; see :mod:`lightloom.collectives.cost.stepped`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
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
