"""Counts of what averaging by light would send, and of what its emulation between processes costs, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

from lightloom.training.hooks.statistics import Counts, StepStatistics, megabytes


@dataclass(slots=True)
class OpticalCounts(Counts):
    """Counts of one rank; ``nbytes_sent`` is what it sent through the process group to emulate the averager."""

    nbytes_up: int = 0
    """Bytes of the codes that a server sends to the averager."""
    nbytes_down: int = 0
    """Bytes of the mean codes that a server receives."""
    nbytes_exponents: int = 0
    """Bytes that a server sends to agree on scales: one for each block."""

    @property
    def exponent_share(self) -> float:
        """Exponents relative to the codes sent; the paper says less than 0.4 % (at 8 bits)."""
        return self.nbytes_exponents / self.nbytes_up if self.nbytes_up else 0.0


@dataclass(slots=True)
class OpticalStatistics(StepStatistics[OpticalCounts]):
    """Statistics of the optical averaging hook. Printing them gives a summary."""

    total: OpticalCounts = field(default_factory=OpticalCounts)

    def __str__(self) -> str:
        t = self.total
        return (
            f"{self.step_count} steps: {megabytes(t.nbytes_up)} of codes up, {megabytes(t.nbytes_down)} down, "
            f"exponents {t.exponent_share:.2%}; emulated with {megabytes(t.nbytes_sent)} instead of "
            f"{megabytes(t.nbytes_raw)}, {t.seconds:.1f} s"
        )
