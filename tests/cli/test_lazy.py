"""Commands load when they are called; the list of commands says what their own help says."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module

import pytest

from lightloom.app.cli.main import COMMANDS, Entry, load_command


def entries(commands: Mapping[str, Entry], words: str = "") -> Iterator[tuple[str, Entry]]:
    """Every command with the words that call it, but for groups."""
    for name, entry in commands.items():
        yield from entries(entry.commands, f"{words}{name} ") if entry.commands else [(words + name, entry)]


ENTRIES = dict(entries(COMMANDS))
HEAVY = {"torch", "numba", "matplotlib", "pandas", "pyarrow", "joblib", "distributed"}


@pytest.mark.parametrize("name", ENTRIES)
def test_the_list_says_what_the_command_says(name: str) -> None:
    entry: Entry = ENTRIES[name]
    text = inspect.getdoc(getattr(import_module(entry.module), entry.function))
    assert isinstance(text, str)
    assert entry.help == " ".join(text.split("\n\n")[0].split())
    command = load_command(name.split()[-1], entry)
    assert command.name == name.split()[-1] and "Args:" not in command.help


@pytest.mark.parametrize("name", ENTRIES)
def test_every_option_says_what_it_does(name: str) -> None:
    command = load_command(name.split()[-1], ENTRIES[name])
    assert [each.name for each in command.params if not (each.help and each.help.endswith("."))] == []


def test_help_loads_no_command() -> None:
    script = (
        "import sys, contextlib\nfrom lightloom.app.cli.main import main\nsys.argv = ['lightloom', '--help']\n"
        "with contextlib.suppress(SystemExit): main()\nprint('|'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.strip().split("|"))
    assert all(f" {name} " in done.stdout for name in COMMANDS)
    assert not loaded & {entry.module for entry in ENTRIES.values()}
    assert not loaded & {*HEAVY, "numpy", "pydantic"}


@pytest.mark.long
def test_no_command_module_loads_a_heavy_library() -> None:
    modules = sorted({entry.module for entry in ENTRIES.values()} - {"lightloom.app.cli.exchange_training"})
    script = (
        f"import sys, importlib\nfor name in {modules}: importlib.import_module(name)\nprint('|'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(done.stdout.strip().split("|")) & HEAVY
