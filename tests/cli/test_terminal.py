"""Output in a real terminal of 80 columns, with colour and without, and in a pipe."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from unicodedata import east_asian_width

import pytest

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COMMANDS = {
    # Without synthesis, which takes its time; of the names of algorithms these are among the longest.
    "ranking": [
        "collective",
        *("all-gather", "--fabric", "wdm-ring", "--ranks", "4", "--nbytes", "1MB"),
        *("--algorithm", "ring-two-way-striped", "--algorithm", "neighbour-exchange-striped"),
    ],
    "catalog": ["catalog"],
    "exchanges": ["catalog", "exchanges", "--all"],
}


def in_terminal(arguments: list[str], columns: int = 80, **environment: str) -> str:
    """What a command writes into a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
    child = subprocess.Popen(
        [sys.executable, "-m", "lightloom", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=kept | {"TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    written = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # closed when the child ends
        while read := terminal.read(1 << 16):
            written += read
    assert child.wait() == 0, written.decode()
    return written.decode()


def width(line: str) -> int:
    """Columns of a terminal that a line takes."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in line)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [name if name == "ranking" else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]
)
def test_no_line_is_wider_than_the_terminal_and_colour_can_be_left_out(name: str) -> None:
    coloured = in_terminal(COMMANDS[name])
    plain = in_terminal(COMMANDS[name], NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38;)[0-9;]*m", plain), "colours"
    for text in (coloured, plain):
        # Progress writes over its own line.
        lines = re.split(r"[\r\n]+", _ESCAPE.sub("", text))
        assert any(lines) and max(map(width, lines)) <= 80
