"""Hold and reconfiguration periods: how long circuits stand, and what share of the time carries data."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Timing:
    """One period: a reconfiguration, in which no data moves, then a hold, in which circuits stand."""

    hold: float
    """Duration of a hold, in seconds."""
    reconfiguration: float
    """Duration of the reconfiguration before each hold, in seconds."""
    controller_latency: float = 0.0
    """Seconds from reading the senders' counters to the start of the reconfiguration that answers them."""

    def __post_init__(self) -> None:
        if not self.hold > 0:
            raise ConfigError(f"hold period of {self.hold} s: expected more than 0")
        if not self.reconfiguration >= 0:
            raise ConfigError(f"reconfiguration period of {self.reconfiguration} s: expected 0 or more")
        if not 0 <= self.controller_latency <= self.hold + self.reconfiguration:
            raise ConfigError(
                f"controller latency of {self.controller_latency} s: expected 0 to {self.hold + self.reconfiguration} "
                "s, one period"
            )

    @property
    def period(self) -> float:
        """Seconds from one reconfiguration to the next."""
        return self.hold + self.reconfiguration

    @property
    def duty_cycle(self) -> float:
        """Share of the time that carries data: 10/11 for a hold of ten reconfigurations (SiP-ML, section 3.1)."""
        return self.hold / self.period
