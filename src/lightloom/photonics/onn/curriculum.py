"""Schedule of the training noise, controlled by the share of noisy inputs received correctly."""

from __future__ import annotations

from dataclasses import dataclass

START = 5e-4
RISING = 0.9995
"""Share of noisy inputs received correctly above which the noise rises; below it the noise falls. The noise limit is
defined at 0.9999 (`averaging.proved.noise.TARGET`); at slightly more noise, training sees the errors that set it."""
_STEP = 2e-3
_MEMORY = 0.02


@dataclass
class Curriculum:
    """The noise to train with, between `START` and ``largest``."""

    largest: float
    sigma: float = START
    right: float = 0.0
    """Running share of noisy inputs received correctly."""

    def observe(self, right: float) -> None:
        """Update the noise after a batch of which the share ``right`` was received correctly."""
        self.right += _MEMORY * (right - self.right)
        self.sigma *= 1 + _STEP if self.right > RISING else 1 - _STEP
        self.sigma = min(max(self.sigma, min(START, self.largest)), self.largest)
