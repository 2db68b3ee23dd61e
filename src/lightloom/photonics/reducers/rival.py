"""What the comparison says of one rival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A way to average the codes of N servers, with its costs for one set of constants."""

    name: str
    title: str
    energy: Mapping[str, float]
    """Joules by part, for each bit that a server sends and gets back as a mean."""
    latency: Mapping[str, float]
    """Seconds by part from the light of the senders to the mean's code; what is alike for all is left out."""
    launched: float
    """Watts of light at the modulators of a server for one instance; what a reducer's own lasers add is not in it."""
    lanes: int
    """Lanes of a server to one instance."""
    detected: float | None = None
    """Watts of a lane's highest level at the reducer's detector; None where fields are not detected there."""
    enob: float | None = None
    """Effective bits that a converter needs; None without converters."""
    limits: tuple[str, ...] = ()
    """What keeps this rival from so many servers, or from existing; empty where nothing does."""
    needs: tuple[str, ...] = ()
    """What it asks of the world."""
    area: float = 0.0
    """Square metres of photonics of one instance."""

    @property
    def energy_per_bit(self) -> float:
        """Joules for each bit of a server; infinite where no light suffices."""
        return sum(self.energy.values())

    @property
    def total_latency(self) -> float:
        """Seconds of all parts of the latency together."""
        return sum(self.latency.values())
