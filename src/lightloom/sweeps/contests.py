"""What a sweep decides: rows that answer the same question, fastest first."""

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
        words = [f"{row['site']}, {row['ranks']} ranks", row["settings"]]
        if row["what"] == "plan":
            tokens = row["sequence_length"]
            words += [f"batch {row['batch_per_rank']}", "" if tokens is None else f"{tokens} tokens"]
            words += ["" if row["overlap"] else "no overlap"]
        return ", ".join(filter(None, words))


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


def exposed(row: Row) -> float:
    """Seconds that a training step waits for communication and for circuits."""
    return float(row["exposed_communication_s"] + row["exposed_reconfiguration_s"])


def fastest(found: Iterable[Contest]) -> Counter[str]:
    """How often each is fastest, equals counted each."""
    return Counter(entrant(row) for each in found for row in each.ranking[: each.equals + 1])


def grouped(found: Iterable[Contest], *names: str) -> list[tuple[tuple[Any, ...], list[Contest]]]:
    """Contests by what their rows say in the columns ``names``."""
    groups: dict[tuple[Any, ...], list[Contest]] = {}
    for each in found:
        groups.setdefault(tuple(each.winner[name] for name in names), []).append(each)
    return list(groups.items())
