"""The command line called in this process, as its own process would."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from lightloom.app.cli.main import main


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


def lightloom(*arguments: str, folder: Path | None = None) -> Done:
    """Exit code, stdout and stderr of a command that runs in a folder."""
    out, err = io.StringIO(), io.StringIO()
    place = contextlib.chdir(folder) if folder else contextlib.nullcontext()
    with (
        place,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["lightloom", *arguments]),
        pytest.raises(SystemExit) as stopped,
    ):
        main()
    code = stopped.value.code
    assert code is None or isinstance(code, int)
    return Done(code or 0, out.getvalue(), err.getvalue())


def assert_refused(done: Done, complaint: str) -> None:
    """One line on stderr that holds the complaint, nothing on stdout, exit status 2."""
    assert done.code == 2, done.err
    assert done.out == ""
    lines = done.err.strip().splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("error: ")
    assert complaint.lower() in lines[0].lower(), lines[0]
