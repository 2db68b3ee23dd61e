"""How much a search may do: counted in transfers that it schedules, so that the same question has the same answer."""

from __future__ import annotations

EFFORT = 6_000_000
"""Transfers that a search may schedule; about ten CPU seconds."""
_RANKS = 300
"""Up to which a search has its least effort; it grows with the ranks from there."""


def effort(ranks: int) -> int:
    """Transfers that a search among so many ranks may schedule."""
    return int(EFFORT * max(1.0, ranks / _RANKS))
