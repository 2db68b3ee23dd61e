"""A paper's figure beside ours: the row that every study prints, asserted, never tuned in silence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Basis = Literal["reproduced", "derived", "stand-in"]
Status = Literal["match", "derived", "stand-in", "deviates", "not reproducible"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""In order of merit."""
SCHEMA = "lightloom.study/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One published figure and what we get for it.

    The status follows from the numbers and their basis. Where ``|ours − paper| <= tolerance`` it is ``match`` if the
    paper's own experiment was reproduced, ``derived`` if ours is computed from the paper's printed figures, so that
    agreement shows only that these fit together, and ``stand-in`` if another experiment stands for the paper's. It is
    ``deviates`` where the numbers differ, and ``not reproducible`` where there is nothing of ours to compare (``ours``
    is None). A row that does not match says why.
    """

    id: str
    """``study.table|figure|headline|example.what``."""
    paper: float | str | None
    ours: float | str | None
    unit: str
    tolerance: float = 0.0
    basis: Basis = "reproduced"
    """What ours rests on: the paper's experiment, its own printed figures, or another experiment in its place."""
    fitted: bool = False
    """Whether a constant was fitted to the paper to get ``ours``."""
    why: str = ""
    """What explains a deviation, or what had to be assumed."""

    def __post_init__(self) -> None:
        if self.status != "match" and not self.why:
            raise ValueError(f"{self.id}: a row that {self.status} must say why")

    @property
    def status(self) -> Status:
        """How the two compare."""
        if self.ours is None or self.paper is None:
            return "not reproducible"
        if isinstance(self.ours, str) or isinstance(self.paper, str):
            agree = self.ours == self.paper
        else:
            agree = abs(self.ours - self.paper) <= self.tolerance * (1 + 1e-9)
        if not agree:
            return "deviates"
        return "match" if self.basis == "reproduced" else self.basis

    def to_json(self) -> dict[str, Any]:
        """The row as the commands print it."""
        return asdict(self) | {"status": self.status}
