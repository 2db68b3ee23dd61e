"""The command line called in this process, as its own process would."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

from lightloom.cli.main import main


class Done(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> Done:
    """Exit code, stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["lightloom", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    out, err = capsys.readouterr()
    code = stopped.value.code
    assert code is None or isinstance(code, int)
    return Done(code or 0, out, err)
