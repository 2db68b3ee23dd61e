"""Studies: the reproduction of a paper as rows, figures and assumptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lightloom.core.claims import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
"""A measurement as read from a JSON file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFigure:
    """A reproduced figure of the paper."""

    title: str
    caption: str
    """What the paper says about the figure, and what ours shows."""
    draw: Callable[[], Figure]
    """Draws the figure; imports matplotlib when it is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The claims of one paper, and our results.

    Raises:
        ValueError: two rows share an id.
    """

    name: str
    paper: str
    """Authors, title and venue."""
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
