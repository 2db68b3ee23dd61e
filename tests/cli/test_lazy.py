"""Commands load when they are called; the list of commands says what their own help says."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest
import typer

from lightloom.app.cli.main import COMMANDS, Entry, load_command
from lightloom.app.cli.onn.app import COMMANDS as ONN_COMMANDS

ENTRIES = {**COMMANDS, **{f"onn {name}": entry for name, entry in ONN_COMMANDS.items()}}
HEAVY = {"torch", "numba", "matplotlib", "pandas", "pyarrow", "joblib", "distributed"}


@pytest.mark.parametrize("name", ENTRIES)
def test_the_list_says_what_the_command_says(name: str) -> None:
    entry: Entry = ENTRIES[name]
    target = getattr(import_module(entry.module), entry.attribute or name.split()[-1])
    text = target.info.help if isinstance(target, typer.Typer) else inspect.getdoc(target)
    assert isinstance(text, str)
    assert entry.help == " ".join(text.split("\n\n")[0].split())
    assert load_command(name.split()[-1], entry).name == name.split()[-1]


def test_help_loads_no_command() -> None:
    script = (
        "import sys, contextlib\nfrom lightloom.app.cli.main import main\nsys.argv = ['lightloom', '--help']\n"
        "with contextlib.suppress(SystemExit): main()\nprint('|'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.strip().split("|"))
    assert all(f" {name} " in done.stdout for name in COMMANDS)
    assert not loaded & {entry.module for entry in COMMANDS.values()}
    assert not loaded & {*HEAVY, "numpy", "pydantic"}


def test_no_command_module_loads_a_heavy_library() -> None:
    modules = sorted({entry.module for entry in ENTRIES.values()})
    script = (
        f"import sys, importlib\nfor name in {modules}: importlib.import_module(name)\nprint('|'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(done.stdout.strip().split("|")) & HEAVY
