"""A paper's figure beside ours: the row that every study prints, asserted, never tuned in silence."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, get_args

Basis = Literal["reproduced", "derived", "stand-in", "by construction"]
Status = Literal["match", "derived", "stand-in", "by construction", "deviates", "not reproducible"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""In order of merit."""
MEANINGS: Mapping[Status, str] = {
    "match": "the paper's experiment, measurement or count was reproduced",
    "derived": "it follows from other rows or printed figures, so that agreement shows that these fit together",
    "stand-in": "another experiment stands for the paper's",
    "by construction": "the paper's own figure, formula or definition, or what no experiment is needed for, so that "
    "agreement shows nothing",
    "deviates": "the numbers differ",
    "not reproducible": "there is nothing to compare",
}
"""Meaning of each status, in words."""
SCHEMA = "lightloom.study/2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One published figure and what we get for it.

    The status follows from the numbers and their basis. Where ``|ours − paper| <= tolerance`` it is

    * ``match`` if the paper's own experiment, measurement or count was reproduced,
    * ``derived`` if ours combines figures that the paper prints in a way that it does not print, or follows from the
      numbers of other rows, so that agreement shows only that these fit together,
    * ``stand-in`` if another experiment stands for the paper's,
    * ``by construction`` if ours is the paper's printed number, its printed formula on its own inputs, or true by a
      definition, so that agreement shows nothing but that it was copied and calculated rightly.

    It is ``deviates`` where the numbers differ, and ``not reproducible`` where there is nothing to compare (``ours`` or
    ``paper`` is None). A row that does not match says why, but for a finding of ours, which has no ``paper``.

    Raises:
        ValueError: a row that does not match says nothing, or the tolerance accepts the trivial answer. A tolerance of
            0 accepts a printed figure that is the trivial answer itself: such a row is no experiment's.
    """

    id: str
    """Name of the row: ``study.table|figure|headline|example.what``."""
    paper: float | str | None
    ours: float | str | None
    unit: str
    tolerance: float = 0.0
    basis: Basis = "reproduced"
    """Origin of ours: the paper's experiment, its printed figures, another experiment, or the paper's formula."""
    trivial: float = 0.0
    """The answer that needs no experiment, in the row's unit: a tolerance that accepts it would show nothing."""
    fitted: bool = False
    """True when a constant was fitted to the paper to get ``ours``."""
    why: str = ""
    """Explanation of a deviation, or the assumptions that had to be made."""

    def __post_init__(self) -> None:
        """Raise ValueError for a row that does not match and says nothing, or whose tolerance accepts the trivial
        answer."""
        if self.status != "match" and not self.why and self.paper is not None:
            raise ValueError(f"{self.id}: a row that {self.status} must say why")
        shows = self.tolerance or self.status in ("match", "stand-in")
        if shows and isinstance(self.paper, int | float) and self._agrees(self.paper, self.trivial):
            remedy = f"a tolerance below {abs(self.paper - self.trivial):g}"
            raise ValueError(
                f"{self.id}: a tolerance of {self.tolerance:g} around {self.paper:g} accepts {self.trivial:g}, which "
                f"needs no experiment: expected {remedy if self.paper != self.trivial else 'another trivial answer'}"
            )

    @property
    def status(self) -> Status:
        """Status by which the two figures compare: where they agree (numbers within the tolerance, texts where they are
        equal) ``match`` for the basis ``reproduced``, for another its name (``derived``, ``stand-in`` or ``by
        construction``); ``deviates`` where they do not, a text and a number included; ``not reproducible`` where either
        figure is None."""
        if self.ours is None or self.paper is None:
            return "not reproducible"
        if isinstance(self.ours, str) or isinstance(self.paper, str):
            agree = self.ours == self.paper
        else:
            agree = self._agrees(self.paper, self.ours)
        if not agree:
            return "deviates"
        return "match" if self.basis == "reproduced" else self.basis

    def _agrees(self, paper: float, value: float) -> bool:
        """Return True if two numbers differ by at most ``tolerance``, in the row's unit, and a billionth of it for
        rounding; with a tolerance of 0 they must be equal."""
        return abs(value - paper) <= self.tolerance * (1 + 1e-9)

    def to_json(self) -> dict[str, Any]:
        """Return the row as the commands print it, the fields as they are and the status: ``id``, ``paper``, ``ours``,
        ``unit``, ``tolerance``, ``basis``, ``trivial``, ``fitted``, ``why`` and ``status``."""
        return asdict(self) | {"status": self.status}


class Settled(Protocol):
    """A row, or a printed number."""

    @property
    def status(self) -> Status:
        """Return how the number compares with the paper's: ``match``, ``derived``, ``stand-in``, ``by construction``,
        ``deviates`` or ``not reproducible``."""

    @property
    def fitted(self) -> bool:
        """Return True if a constant was fitted to the paper to get our number."""


def status_counts(numbers: Iterable[Settled]) -> dict[Status, int]:
    """Return how many of the numbers have each status, by status, in the order of :data:`STATUSES`, ``match`` first;
    statuses that none has are left out."""
    statuses = [number.status for number in numbers]
    return {status: count for status in STATUSES if (count := statuses.count(status))}


def counts_in_words(numbers: Iterable[Settled], findings: int) -> str:
    """Return the counts of statuses as a sentence reads them: ``31 match (4 with fitted constants), 18 deviates, of 49
    printed numbers; 7 findings of ours``.

    Args:
        numbers: the numbers that a paper prints; the words in brackets come where some match by a fitted constant.
        findings: count of our findings, which no paper prints; named where it is 0 too, and alone where ``numbers`` is
            empty: ``7 findings of ours``.
    """
    printed = list(numbers)
    words = [f"{count} {status}" for status, count in status_counts(printed).items()]
    if fitted := sum(number.fitted and number.status == "match" for number in printed):
        words[0] += f" ({fitted} with fitted constants)"
    settled = f"{', '.join(words)}, of {len(printed)} printed numbers; " if printed else ""
    return f"{settled}{findings} findings of ours"
