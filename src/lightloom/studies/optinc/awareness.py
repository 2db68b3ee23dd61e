"""Section III-B's hardware-aware training, with what the paper leaves open: errors of the devices themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lightloom.core.claims import Claim
from lightloom.studies.base import Record
from lightloom.studies.canvas import BLUE, GREEN, GREY, ORANGE, canvas
from lightloom.studies.optinc import PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PHASES = {"phase 1e-3": 1e-3, "phase 3e-3": 3e-3, "phase 5e-3": 5e-3, "phase 1e-2": 1e-2}
_LEAST = 1e-5
"""Smallest share drawn; of 169 points and 50 fabrications one is 1.2e-4."""


def claims(aware: Any) -> Iterator[Claim]:
    """Yield the row on training that knows its devices' errors, from its record or None."""
    template = "example.aware_training_fewer_wrong"
    if aware is None:
        yield PAPER.claim(template, None)
        return
    verdict = aware["verdict"]
    shares = {arm: _shares(aware, arm, verdict["at"]) for arm in ("unaware", "aware")}
    means = {arm: sum(values) / len(values) for arm, values in shares.items()}
    built = min(row["wrong"][verdict["at"]] for row in aware["constructed"])
    why = (
        f"{verdict['seeds']} seeds in pairs, {aware['budget_cpu_seconds']:g} CPU seconds each, 4 servers of 4 bits, "
        f"phase errors of 3e-3 rad: {100 * means['unaware']:.2g} % wrong without errors in training, "
        f"{100 * means['aware']:.2g} % with them; {100 * built:.2g} % constructed. The paper trains for Σ·U alone"
    )
    yield PAPER.claim(template, verdict["fewer_wrong_with_awareness"], why=why)


def aware_training(aware: Record) -> Figure:
    """Draw wrong averages against phase errors, and for every seed with and without errors in training."""
    figure, (left, right) = canvas(2)
    phases = list(_PHASES.values())
    for arm, colour in (("unaware", ORANGE), ("aware", BLUE)):
        for index, row in enumerate(row for row in aware["trainings"] if row["arm"] == arm):
            rates = [max(row["wrong"][name], _LEAST) for name in _PHASES]
            label = f"trained, {arm} of errors, {row['mzi_count']:,} MZIs" if index == 0 else None
            left.plot(phases, rates, "o-", color=colour, lw=1, ms=3, label=label)
    for row, style in zip(aware["constructed"], ("--", ":"), strict=False):
        rates = [max(row["wrong"][name], _LEAST) for name in _PHASES]
        left.plot(phases, rates, style, color=GREEN, lw=1.6, label=f"{row['name']}, {row['mzi_count']:,} MZIs")
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("phase error, rad (none wrong is drawn at the bottom)")
    left.set_ylabel("share of wrong averages")
    left.legend(loc="upper left", fontsize=7)
    at = aware["verdict"]["at"]
    for before, after in zip(_shares(aware, "unaware", at), _shares(aware, "aware", at), strict=False):
        right.plot([0, 1], [100 * before, 100 * after], "o-", color=GREY, lw=1, ms=4)
    right.set_xticks([0, 1], ["unaware", "aware"])
    right.set_xlim(-0.3, 1.3)
    right.set_ylim(bottom=0)
    right.set_ylabel("wrong at 3e-3 rad, %, each seed a line")
    return figure


def _shares(aware: Record, arm: str, name: str) -> list[float]:
    rows = sorted((row for row in aware["trainings"] if row["arm"] == arm), key=lambda row: row["seed"])
    return [row["wrong"][name] for row in rows]
