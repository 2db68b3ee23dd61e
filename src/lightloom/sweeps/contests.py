"""The contests of a sweep: rows that answer the same question, ranked by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lightloom.sweeps.compute import DONE, Row

_QUESTION: Mapping[str, tuple[str, ...]] = {
    "collective": ("collective", "cost_model", "site", "ranks", "settings", "nbytes"),
    "plan": ("model", "cost_model", "site", "ranks", "settings", "batch_per_rank", "sequence_length", "overlap"),
}
_ROUNDING = 1e-9
"""Relative difference below which two times count as equal."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One collective or one model on one fabric or cluster, with every algorithm that was tried."""

    ranking: tuple[Row, ...]
    """Rows by time, equal times by name; never empty."""

    @property
    def winner(self) -> Row:
        """The fastest row."""
        return self.ranking[0]

    @property
    def equals(self) -> int:
        """Number of other rows that are as fast as the winner."""
        return sum(_as_fast(row, self.winner["time_s"]) for row in self.ranking) - 1

    @property
    def next(self) -> Row | None:
        """The fastest row that is slower than the winner."""
        return next((row for row in self.ranking if not _as_fast(row, self.winner["time_s"])), None)

    @property
    def place(self) -> str:
        """The fabric or cluster and its settings, in words."""
        row = self.winner
        words = [f"{row['site']}, {row['ranks']} ranks", row["settings"]]
        if row["what"] == "plan":
            tokens = row["sequence_length"]
            words += [f"batch {row['batch_per_rank']}", "" if tokens is None else f"{tokens} tokens"]
            words += ["" if row["overlap"] else "no overlap"]
        return ", ".join(filter(None, words))


def contests(rows: Iterable[Row], what: str) -> list[Contest]:
    """Return the contests of the finished rows of a kind (``collective`` or ``plan``), in their order."""
    entrants: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row["what"] == what and row["status"] == DONE:
            entrants.setdefault(tuple(row[name] for name in _QUESTION[what]), []).append(row)
    return [_ranked(rivals) for rivals in entrants.values()]


def _ranked(rows: list[Row]) -> Contest:
    best = min(row["time_s"] for row in rows)
    return Contest(tuple(sorted(rows, key=lambda row: (not _as_fast(row, best) and row["time_s"], entrant(row)))))


def _as_fast(row: Row, best: float) -> bool:
    return bool(row["time_s"] <= best * (1 + _ROUNDING))


def entrant(row: Row) -> str:
    """Return the name of what was tried: an algorithm, preceded by the strategy in a plan."""
    return f"{row['strategy']} · {row['algorithm']}" if row["what"] == "plan" else str(row["algorithm"])


def exposed(row: Row) -> float:
    """Return the time that a training step waits for communication and for circuits, in seconds."""
    return float(row["exposed_communication_s"] + row["exposed_reconfiguration_s"])


def fastest(contests: Iterable[Contest]) -> Counter[str]:
    """Count how often each entrant is fastest; equally fast ones all count."""
    return Counter(entrant(row) for contest in contests for row in contest.ranking[: contest.equals + 1])


def grouped(contests: Iterable[Contest], *names: str) -> list[tuple[tuple[Any, ...], list[Contest]]]:
    """Group contests by the values of their rows in the columns ``names``."""
    groups: dict[tuple[Any, ...], list[Contest]] = {}
    for contest in contests:
        groups.setdefault(tuple(contest.winner[name] for name in names), []).append(contest)
    return list(groups.items())
