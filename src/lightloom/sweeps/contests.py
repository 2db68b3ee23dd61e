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
_ROUNDING = 1e-9
"""Relative difference of times that says nothing."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One collective or one model at one place, and all that were tried for it."""

    ranking: tuple[Row, ...]
    """Fastest first, equally fast ones by name; never empty."""

    @property
    def winner(self) -> Row:
        """The fastest."""
        return self.ranking[0]

    @property
    def equals(self) -> int:
        """How many others are as fast as the winner."""
        return sum(_as_fast(row, self.winner["time_s"]) for row in self.ranking) - 1

    @property
    def next(self) -> Row | None:
        """The fastest of those that are slower."""
        return next((row for row in self.ranking if not _as_fast(row, self.winner["time_s"])), None)

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
    return [_ranked(each) for each in entrants.values()]


def _ranked(rows: list[Row]) -> Contest:
    best = min(row["time_s"] for row in rows)
    return Contest(tuple(sorted(rows, key=lambda row: (not _as_fast(row, best) and row["time_s"], entrant(row)))))


def _as_fast(row: Row, best: float) -> bool:
    return bool(row["time_s"] <= best * (1 + _ROUNDING))


def entrant(row: Row) -> str:
    """What was tried: an algorithm, of a plan with its strategy."""
    return f"{row['strategy']} · {row['algorithm']}" if row["what"] == "plan" else str(row["algorithm"])
