"""What the commands write where nobody reads on, nothing more fits, or characters are missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

_COMMAND = [sys.executable, "-c", "from lightloom.app.cli.main import main; main()"]
_COLLECTIVE = ["collective", "all-gather", "--fabric", "ring", "--ranks", "4", "--nbytes", "1MB"]


def _run(
    arguments: list[str], stdout: IO[str] | int, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_COMMAND, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120, check=False, env=env
    )


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [["catalog"], ["catalog", "h100", "--json"], [*_COLLECTIVE, "--json"]])
def test_a_full_disk_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = _run(arguments, stdout=full)
    assert done.returncode == 2 and done.stderr == "error: cannot write the output: No space left on device\n"


@pytest.mark.long
@pytest.mark.parametrize("arguments", [["catalog"], ["catalog", "h100"], _COLLECTIVE, [*_COLLECTIVE, "--json"]])
def test_a_reader_that_has_left_ends_the_command_well(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = _run(arguments, stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.parametrize("arguments", [["catalog", "--all"], _COLLECTIVE, [*_COLLECTIVE, "--json"]])
def test_a_terminal_of_few_characters_shows_the_numbers_of_others(arguments: list[str]) -> None:
    environment = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = _run(arguments, stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii() and done.stdout
