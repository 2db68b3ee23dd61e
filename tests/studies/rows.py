"""Laws that the rows of every study keep."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lightloom.core.claims import Claim, counts_in_words

_PAGES = Path(__file__).parents[2] / "docs" / "papers"


def assert_sound(name: str, claims: Iterable[Claim]) -> None:
    """Agreement shows something in every row, and the page of the study states the counts that the command prints.

    A match needs a tolerance that the answer without any experiment would miss; an agreeing row of another kind says
    what it rests on.
    """
    rows = list(claims)
    for row in rows:
        if row.status in ("match", "stand-in") and isinstance(row.paper, int | float):
            assert abs(row.paper - row.trivial) > row.tolerance, row.id
        assert row.why or row.status == "match", row.id
    assert counts_in_words(rows) in (_PAGES / f"{name}.md").read_text().replace("\n", " "), counts_in_words(rows)
