"""Laws that the rows of every study keep."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from scripts.register import stated

from lightloom.core.claims import Claim, counts_in_words
from lightloom.papers.register import Register, settle


def assert_sound(name: str, claims: Iterable[Claim]) -> None:
    """Agreement shows something in every row, printed numbers are the register's, and the page of the study states the
    counts that the command prints.

    A match needs a tolerance that the answer without any experiment would miss; an agreeing row of another kind says
    what it rests on.
    """
    rows = {row.id: row for row in claims}
    for row in rows.values():
        if row.status in ("match", "stand-in") and isinstance(row.paper, int | float):
            assert abs(row.paper - row.trivial) > row.tolerance, row.id
        assert row.why or row.status == "match" or row.paper is None, row.id
    register = Register.load(name)
    numbers = settle(register, name, rows.values()) if register else ()
    for number in numbers:
        assert number.why or number.status == "match", number
        paper = rows[number.row].paper if number.row else None
        if isinstance(paper, int | float) and isinstance(number.value, int | float):
            assert abs(paper) == pytest.approx(abs(number.value), rel=1e-9), number
    words = counts_in_words(numbers, len(rows) - sum(bool(number.row) for number in numbers))
    assert words == stated(name), f"python -m scripts.register --write: {words}"
