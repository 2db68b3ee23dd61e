"""A study: one paper regenerated, its numbers as rows, its figures as drawings, its gaps as assumptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightloom.core.claims import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFigure:
    """One figure of the paper, drawn anew."""

    title: str
    caption: str
    """What the paper says the figure shows, and what ours shows."""
    draw: Callable[[], Figure]
    """Draws on demand; only then is the drawing library imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What one paper claims and what we get.

    Raises:
        ValueError: two rows share an id.
    """

    name: str
    paper: str
    """Authors, title, venue."""
    claims: tuple[Claim, ...]
    figures: tuple[StudyFigure, ...]
    assumptions: tuple[str, ...]
    """What the paper leaves open and what was taken instead; none was chosen to meet a printed number, but for
    those that say that they are fitted or inferred."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for claim in self.claims:
            if claim.id in seen:
                raise ValueError(f"study {self.name!r}: two rows are called {claim.id!r}")
            seen.add(claim.id)
