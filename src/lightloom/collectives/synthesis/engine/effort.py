"""How much a search may do: counted in what it tries, not in seconds, so that the same question has the same answer."""

from __future__ import annotations

SCALE = 1.0
"""Factor by which every search's effort is multiplied; tests and examples lower it."""
_TRANSFERS = 6_000_000
"""Transfers that a search over schedules may schedule; about five CPU seconds."""
_RANKS = 300
"""Ranks up to which a search has its least effort; it grows with the ranks from there."""


def effort(ranks: int) -> int:
    """Return the number of transfers that a search among so many ranks may schedule."""
    return scaled(_TRANSFERS * max(1.0, ranks / _RANKS))


def scaled(effort: float) -> int:
    """Return an effort multiplied by :data:`SCALE`, rounded down."""
    return int(SCALE * effort)
