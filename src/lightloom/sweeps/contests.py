"""What a sweep decides: rows that answer the same question, fastest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lightloom.sweeps.compute import DONE, Row

_QUESTION: Mapping[str, tuple[str, ...]] = {
    "collective": ("collective", "cost_model", "site", "ranks", "settings", "nbytes"),
    "plan": ("model", "cost_model", "site", "ranks", "settings", "batch_per_rank", "sequence_length", "overlap"),
}


@dataclass(frozen=True, slots=True)
class Contest:
    """One collective or one model at one place, and all that were tried for it."""

    ranking: tuple[Row, ...]
    """Fastest first; never empty."""

    @property
    def winner(self) -> Row:
        """The fastest."""
        return self.ranking[0]

    @property
    def next(self) -> Row | None:
        """The fastest by another name."""
        return next((row for row in self.ranking[1:] if entrant(row) != entrant(self.winner)), None)

    @property
    def place(self) -> str:
        """Where it is, in words."""
        row = self.winner
        return ", ".join(part for part in (f"{row['site']}, {row['ranks']} ranks", row["settings"]) if part)


def contests(rows: Iterable[Row], what: str) -> list[Contest]:
    """The contests of all rows of a kind (``collective`` or ``plan``), in their order; those that nobody enters are
    left out."""
    entrants: dict[Any, list[Row]] = {}
    for row in rows:
        if row["what"] == what and row["status"] == DONE:
            entrants.setdefault(tuple(row[name] for name in _QUESTION[what]), []).append(row)
    return [Contest(tuple(sorted(each, key=lambda row: (row["time_s"], entrant(row))))) for each in entrants.values()]


def entrant(row: Row) -> str:
    """What was tried: an algorithm, of a plan with its strategy."""
    return f"{row['strategy']} · {row['algorithm']}" if row["what"] == "plan" else str(row["algorithm"])
