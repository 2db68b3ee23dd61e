"""Registers claim every numeral of their papers' texts once, and count everything that is printed once."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from scripts.register import faults, main, registers, texts

from lightloom.core.claims import Claim
from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError
from lightloom.papers.register import Register, settle
from lightloom.papers.study import names

TEXT = b"""As [3] and Figs. 1 and 2 say, x2 saves 1,024 of 4096 bytes.
In 2018 it saved 25 % or -2.5 dB.
So 25 % (Eq. 1).
"""
ENTRIES: list[dict[str, Any]] = [
    {"at": [1.4, 1.5], "where": "I", "values": [1024, 4096], "rows": ["saved", "sent"]},
    {"at": [2.2, 3.1], "where": "I", "value": 25, "row": "share"},
    {"at": [2.3], "where": "I", "value": -2.5, "settled": "by construction", "why": "an input"},
    {"at": [3], "where": "II", "what": "an equation", "settled": "not reproducible", "why": "cut off"},
]


def register(*entries: dict[str, Any], year: str = "2.1") -> Register:
    fields = {"text": "a.txt", "sha256": sha256(TEXT).hexdigest(), "command": "c", "run": "2026-11-29"}
    return validate(Register, fields | {"skipped": {"year": [year]}, "entries": entries}, "a")


def row(name: str, ours: float) -> Claim:
    return Claim(id=f"a.{name}", paper=25, ours=ours, unit="%", why="because")


@pytest.mark.parametrize("study", [name for name in names() if name != "economics"])
def test_every_numeral_of_a_paper_is_claimed_once(study: str) -> None:
    folder, found = texts(), registers([study])[study]
    if folder is None or not (folder / found.text).is_file():
        pytest.skip("needs the papers' texts in LIGHTLOOM_PAPERS")
    wrong = list(faults(found, (folder / found.text).read_bytes()))
    assert not wrong, "\n".join(wrong)


def test_a_register_that_fits_has_no_faults_and_counts_each_number_once() -> None:
    whole = register(*ENTRIES)
    assert list(faults(whole, TEXT)) == []
    numbers = settle(whole, "a", [row("saved", 25), row("sent", 3), row("share", 25), row("finding", 1)])
    statuses = ["match", "deviates", "match", "by construction", "not reproducible"]
    assert [number.status for number in numbers] == statuses
    assert [number.value for number in numbers] == [1024, 4096, 25, -2.5, None]
    assert numbers[0].run == "2026-11-29" and numbers[0].what == "saved" and numbers[3].row == ""


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (register(*ENTRIES[:2], ENTRIES[3]), "2.3: unclaimed 2.5"),
        (register(*ENTRIES, ENTRIES[2]), "2.3: claimed twice"),
        (register(*ENTRIES, year="2.1-2"), "2.2: claimed twice"),
        (register(*ENTRIES[:3], {**ENTRIES[3], "at": ["3.7"], "printed": "∞"}), "3.7: no numeral"),
        (register(*ENTRIES[:2], {**ENTRIES[2], "value": 2}, ENTRIES[3]), "2.3: 2.5 is printed, not 2"),
        (register({**ENTRIES[0], "values": [1024], "rows": []} | {"settled": "match", "why": "x"}), "1.4: 1 values"),
    ],
)
def test_what_does_not_fit_is_named(wrong: Register, fault: str) -> None:
    assert any(each.startswith(fault) for each in faults(wrong, TEXT))


def test_another_text_is_no_register_s() -> None:
    assert "another text" in next(faults(register(*ENTRIES), TEXT + b"x"))


@pytest.mark.parametrize(
    "entry",
    [{"settled": "match"}, {"row": "x", "settled": "match", "why": "y"}, {"rows": ["x", "y"], "values": [1]}, {}],
)
def test_an_entry_has_rows_or_says_why(entry: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"expected rows|1 values for 2 rows"):
        register({"at": [1], "where": "I", **entry})


def test_rows_exist_and_settle_one_number() -> None:
    with pytest.raises(ValueError, match=r"twice: saved, sent, share"):
        settle(register(*ENTRIES, ENTRIES[1]), "a", [row("share", 25)])


def test_entries_are_drawn_by_the_seed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if texts() is None:
        pytest.skip("needs the papers' texts in LIGHTLOOM_PAPERS")
    drawn = []
    for seed in ("a", "a", "b"):
        assert main(["--draw", "4", "--seed", seed]) == 0
        drawn.append(capsys.readouterr().out)
    assert drawn[0] == drawn[1] != drawn[2] and drawn[0].count("\n") == 8


def test_texts_lie_beside_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIGHTLOOM_PAPERS", raising=False)
    monkeypatch.setenv("LIGHTLOOM_DATA", "/data/sets")
    assert texts() == Path("/data/papers")
