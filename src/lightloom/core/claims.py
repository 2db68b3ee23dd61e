"""A paper's figure beside ours: the row that every study prints, asserted, never tuned in silence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["match", "deviates", "not reproducible"]
SCHEMA = "lightloom.study/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One published figure and what we get for it.

    The status follows from the numbers: ``match`` when ``|ours − paper| <= tolerance``, ``deviates`` when not, and
    ``not reproducible`` when there is nothing of ours to compare (``ours`` is None). A row that does not match says
    why.
    """

    id: str
    """``study.table|figure|headline|example.what``."""
    paper: float | str | None
    ours: float | str | None
    unit: str
    tolerance: float = 0.0
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
            return "match" if self.ours == self.paper else "deviates"
        return "match" if abs(self.ours - self.paper) <= self.tolerance * (1 + 1e-9) else "deviates"

    def to_json(self) -> dict[str, Any]:
        """The row as the commands print it."""
        return asdict(self) | {"status": self.status}
