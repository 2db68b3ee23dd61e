"""Terminal tables fit their terminal, lose no row, and use colour only where it can be seen."""

from __future__ import annotations

import io
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from lightloom.app.cli.options import Shown
from lightloom.core.claims import Claim
from lightloom.reports import progress as module
from lightloom.reports.console import claims_table, make_console
from lightloom.reports.progress import progress
from tests.reports.samples import CLAIMS, to_text


@pytest.mark.parametrize("width", [60, 76, 80, 100, 120, 200])
def test_tables_fit_and_lose_no_row(width: int) -> None:
    text = to_text(claims_table(CLAIMS, width), width)
    assert max(len(line) for line in text.splitlines()) <= width
    for claim in CLAIMS:
        assert claim.status in text
    assert "\x1b" not in text


def test_a_pipe_breaks_no_id_and_keeps_every_reason(capsys: pytest.CaptureFixture[str]) -> None:
    name = "optinc.figure12.resnet50_inc_c_over_inc_fitted_with_a_host_and_without_one"
    long = Claim(
        id=name, paper="grows with the servers", ours="at most 0.018 more", unit="images a server", why="a b " * 40
    )
    origin = {"lightloom": "0.1.0", "configuration": "abc", "seed": None}
    Shown({"provenance": origin}, [claims_table([*CLAIMS, long], None)]).show(False)
    out = capsys.readouterr().out
    assert any(line.startswith(f"{name} ") for line in out.splitlines())
    assert "needs the testbed" in out and "why" in out.splitlines()[0]


def test_markup_in_names_is_text() -> None:
    assert "[red]x[/red]" in to_text(claims_table([replace(CLAIMS[0], unit="[red]x[/red]")], 120))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    pipe, terminal = io.StringIO(), Terminal()
    for file in (pipe, terminal):
        console = make_console(file)
        console.print(claims_table(CLAIMS, console.width))
    assert "\x1b" not in pipe.getvalue()
    assert "figure" in pipe.getvalue()
    assert "\x1b[" in terminal.getvalue()
    assert isinstance(make_console(), Console)


def test_progress_is_silent_in_pipes_and_when_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for file in (io.StringIO(), Terminal()):
        monkeypatch.setattr(sys, "stderr", file)
        with progress("searching", 3) as advance:
            advance(1)
        assert file.getvalue() == ""


def test_progress_shows_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    file = Terminal()
    monkeypatch.setattr(sys, "stderr", file)
    with progress("searching [all]", 3) as advance:
        deadline = time.monotonic() + 5
        while "searching [all]" not in file.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
            advance(1)
    assert "searching [all]" in file.getvalue()


def test_progress_ends_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(KeyError), progress("searching", None):
        raise KeyError


@given(st.lists(st.from_regex(r"[a-z]{1,9}([._][a-z0-9]{1,9}){1,5}", fullmatch=True), min_size=1, max_size=4))
def test_names_are_broken_after_dots_and_underscores_only(names: list[str]) -> None:
    claims = [Claim(id=name, paper=1, ours=1, unit="s") for name in names]
    lines = to_text(claims_table(claims, 50), 50).splitlines()[1:]
    parts = [line.split("  ")[0].strip() for line in lines]
    assert "".join(parts) == "".join(names)
    assert all(part.endswith((".", "_")) or any(name.endswith(part) for name in names) for part in parts)
    piped = to_text(claims_table(claims, None), 200)
    assert all(name in piped for name in names)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=30), st.booleans())
def test_names_cannot_control_the_terminal(name: str, terminal: bool) -> None:
    file = io.StringIO()
    file.isatty = lambda: terminal  # type: ignore[method-assign]
    console = make_console(file)
    console.print(Text(f"{name}\x1b[2J\x07\u202e"), style="none")
    printed = file.getvalue()
    assert not any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in printed if sign not in "\n\t")
    assert "\\x1b[2J" in printed.replace("\n", "")
