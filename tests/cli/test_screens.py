"""The answers of commands fit one screen of a terminal, and explain every mark that they print."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

COMMANDS = (
    "plan gpt2-355m --cluster dgx-h100-64",
    "plan hdc --cluster inceptionn-4 --vs optinc-4",
    "compose hdc --ranks 4 --bandwidth 10Gbps --global-batch 100",
    "collective all-gather --fabric wdm-ring --ranks 16 --nbytes-per-rank 1MB --set wavelengths=2",
    "collective all-gather --fabric wdm-ring --ranks 12 --nbytes-per-rank 10kB --without cable:7 --without node:5",
    "traffic --cluster terarack-64 --job hdc@0-31 --job hdc@32-63",
    "goodput dgx-h100-64",
    "bill dgx-h100-64",
    "budget --ranks 64",
    "exchange break-even --model hdc",
    "onn build --servers 4 --bits 8",
    "reproduce optree",
    "catalog h100",
    "catalog int4:block=128",
)
MARKS = ("=", "*", "?", "≤", "≥", "≈", "–", "◆")
LINES = 25


def screen(command: str, columns: int) -> list[str]:
    """What a command prints on a terminal of so many columns; progress goes elsewhere."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = os.environ | {"TERM": "xterm", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    call = [sys.executable, "-c", "from lightloom.app.cli.main import main; main()", *command.split()]
    process = subprocess.Popen(call, stdout=theirs, stderr=subprocess.PIPE, env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        if not part:
            break
        text += part
    _, errors = process.communicate()
    os.close(ours)
    assert process.returncode == 0, errors.decode()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.decode()).replace("\r", "")
    return [line.rstrip() for line in plain.rstrip("\n").split("\n")]


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_an_answer_fits_one_screen_and_explains_its_marks(command: str) -> None:
    for columns in (80, 120) if command.startswith(("plan gpt2", "budget", "catalog h100")) else (80,):
        lines = screen(command, columns)
        most = LINES + 10 * (" --vs " in command)
        assert len(lines) <= most, "\n".join(lines)
        assert all(len(line) <= columns for line in lines), max(lines, key=len)
        words = {word for line in lines for word in line.split()}
        for mark in MARKS:
            legend = rf"(^|; | {{4}}){re.escape(mark)}(:| (too|an|no|is)\b)"
            assert mark not in words or any(re.search(legend, line) for line in lines), (command, mark)
