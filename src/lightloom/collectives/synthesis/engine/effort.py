"""How much a search may do: counted in what it tries, not in seconds, so that the same question has the same answer."""

from __future__ import annotations

SCALE = 1.0
"""Of the effort that every search here takes by itself."""
_TRANSFERS = 6_000_000
"""Of a search over schedules; about five CPU seconds."""
_RANKS = 300
"""Up to which a search has its least effort; it grows with the ranks from there."""


def effort(ranks: int) -> int:
    """Transfers that a search among so many ranks may schedule."""
    return scaled(_TRANSFERS * max(1.0, ranks / _RANKS))


def scaled(effort: float) -> int:
    """What a search may do that would do so much by itself."""
    return int(SCALE * effort)
