"""What communication takes from computing: while data travels, an accelerator computes at 1 − share of its rate.

    collective        [=============]
    computing   ──────~~~~~~~~~~~~~~~──────     C seconds of computing beside E of exchanges take max(E, C + share · E)

Kernels of a collective library occupy compute units and the memory's bandwidth; with a share of 1 nothing is hidden.
The exchanges themselves take as long as alone.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from lightloom.core.arrays import Floats

_LEAST_RATE = 1e-12
"""Stands for a rate of 0, at which computing beside exchanges does not go on."""


def waiting(computing: Floats, exchanging: Floats, share: float) -> Floats:
    """Return by how many seconds exchanges prolong the computing with which they begin: in the arguments' shape."""
    # An exchange that nothing serves takes infinitely long, of which no share is no number.
    prolonged: Floats = np.maximum(exchanging - computing, share * exchanging if share else 0.0)
    return prolonged


def slowing(computing: Floats, exchanging: Floats, share: float) -> Floats:
    """Return the same without what is left of the exchanges once computing has ended."""
    slower: Floats = share * np.minimum(exchanging, computing / max(1 - share, _LEAST_RATE))
    return slower


class SlowedComputing:
    """Computing of one accelerator beside exchanges that follow each other."""

    def __init__(self, share: float) -> None:
        self._rate = 1.0 - share
        self._exchanges: deque[tuple[float, float]] = deque()
        """Begin and end of exchanges that have not ended before the latest computing began."""

    def exchange(self, begin: float, end: float) -> None:
        """Add an exchange, which begins no earlier than the last one ended."""
        if self._rate < 1:
            self._exchanges.append((begin, end))

    def end(self, begin: float, seconds: float) -> float:
        """Return when computing ends that takes so many seconds undisturbed.

        All exchanges that begin before its end are known, and it begins no earlier than what was asked for before.
        """
        while self._exchanges and self._exchanges[0][1] <= begin:
            self._exchanges.popleft()
        now, left = begin, seconds
        for start, stop in self._exchanges:
            alone = max(start - now, 0.0)
            if left <= alone:
                break
            now, left = now + alone, left - alone
            beside = (stop - now) * self._rate
            if left < beside:
                return now + left / self._rate
            now, left = stop, left - beside
        return now + left
