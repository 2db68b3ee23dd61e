"""Which part of a link causes its wrong words: each part made ideal in turn, and each part alone.

Where hardly a word is wrong, all errors are enlarged together until enough are, since a table of zeros names nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lightloom.core.results import Document
from lightloom.photonics.link.chip import Chip
from lightloom.photonics.link.settings import RANGES, Link, erring, only, without
from lightloom.photonics.link.word_errors import WordErrors, word_errors

ENOUGH = 50
"""Wrong words from which parts can be compared."""
FACTORS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)
"""Factors by which errors are enlarged, in turn."""
_SPREADS = (
    "phase_lock",
    "power_error",
    "polarisation",
    "skew",
    "bias_error",
    "gain_error",
    "threshold_error",
    "phase_error",
    "coupler_error",
    "loss_db",
    "loss_spread_db",
    "crossing_loss_db",
    "thermal_crosstalk",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contribution:
    """What one part does."""

    part: str
    without: WordErrors
    """Word errors with this part ideal."""
    alone: WordErrors
    """Word errors with every other part ideal."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contributions:
    """The parts of a link, the one whose removal helps most first."""

    factor: float
    """Factor by which all errors were enlarged."""
    together: WordErrors
    """Word errors of all parts with the enlarged errors."""
    parts: tuple[Contribution, ...]

    @property
    def weakest(self) -> str | None:
        """The part whose removal leaves the fewest wrong words; None if too few are wrong to tell."""
        return self.parts[0].part if self.parts and self.together.wrong.sum() >= ENOUGH else None

    def to_json(self) -> Document:
        """Return all rates with their intervals."""
        rows = [
            {"part": row.part, "without": row.without.to_json(), "alone": row.alone.to_json()} for row in self.parts
        ]
        return {
            "errors_enlarged_by": self.factor,
            "together": self.together.to_json(),
            "weakest_part": self.weakest,
            "parts": rows,
        }


def enlarged(link: Link, factor: float) -> Link:
    """Return the link with every error and all noise larger by ``factor``; full scale falls by its square, and
    phase settings lose the bits that this takes.

    What would be out of its range stops there.
    """
    changed: dict[str, Any] = {name: min(getattr(link, name) * factor, RANGES[name][1]) for name in _SPREADS}
    changed["full_scale"] = max(link.full_scale / factor**2, RANGES["full_scale"][0])
    changed["dac_bits"] = max(link.dac_bits - round(math.log2(factor)), 1) if link.dac_bits else 0
    changed["swing"] = min(link.swing * factor, math.pi / 2)
    if link.rin_db is not None:
        changed["rin_db"] = min(link.rin_db + 20 * math.log10(factor), -80.0)
    return replace(link, **changed)


def contributions(
    chip: Chip,
    link: Link,
    together: WordErrors,
    *,
    advance: Callable[[int], object] | None = None,
    **tried: Any,
) -> Contributions:
    """Compare the parts of a link.

    Args:
        chip: the chip.
        link: the link.
        together: its word errors.
        advance: called with the number of fabrications done.
        tried: words, fabrications and seed of every comparison, as `word_errors` takes them.
    """
    factor, errors = FACTORS[0], together
    for factor in FACTORS:
        errors = together if factor == 1 else word_errors(chip, enlarged(link, factor), advance=advance, **tried)
        if errors.wrong.sum() >= ENOUGH:
            break
    larger = enlarged(link, factor)
    rows = [
        Contribution(
            part=part,
            without=word_errors(chip, without(larger, part), advance=advance, **tried),
            alone=word_errors(chip, only(larger, part), advance=advance, **tried),
        )
        for part in erring(larger)
    ]
    rows.sort(key=lambda row: (int(row.without.wrong.sum()), -int(row.alone.wrong.sum())))
    return Contributions(factor=factor, together=errors, parts=tuple(rows))
