"""The ``lightloom`` command: parse, call, print. Exit 0 done, 2 bad input (one clear line), 1 our fault."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from lightloom.app.cli.former import renewed
from lightloom.core.documents import parse_yaml, read_text
from lightloom.core.errors import InputError
from lightloom.core.files import visible

# Commands whose modules are imported only when they are called.


class Entry(NamedTuple):
    """A command that is not imported yet, or a group of such."""

    module: str
    function: str
    help: str
    """First sentence of the help, for the list of commands; equal to the docstring's (a test compares them)."""
    commands: Mapping[str, Entry] = MappingProxyType({})
    """Commands of a group, which has no module."""


def _entry(words: str, stated: str | Mapping[str, Any]) -> Entry:
    """Return the entry of a command in ``commands.yaml``.

    Args:
        words: of the command, such as "onn map".
        stated: its help, or a mapping with ``help``, a ``place`` ("module:function") where either is not named as the
            command, and the ``commands`` of a group, stated likewise.

    Without a ``place``, the module in ``lightloom.app.cli`` is ``onn.NAME`` for a command of the group onn, the group's
    own for one of another group, and the command's else; the function is the command's last word, with underscores.
    """
    row: Mapping[str, Any] = {"help": stated} if isinstance(stated, str) else stated
    group, _, name = words.rpartition(" ")
    usual = f"onn.{name}" if group == "onn" else group or name
    module, _, function = row.get("place", usual).replace("-", "_").partition(":")
    commands = {below: _entry(f"{words} {below}", each) for below, each in row.get("commands", {}).items()}
    return Entry(f"lightloom.app.cli.{module}", function or name.replace("-", "_"), row["help"], commands)


_FILE = Path(__file__).with_name("commands.yaml")
COMMANDS = {name: _entry(name, stated) for name, stated in parse_yaml(read_text(_FILE), str(_FILE)).items()}


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are called; without ``entries`` that of all commands."""

    def __init__(self, *, entries: Mapping[str, Entry] = MappingProxyType(COMMANDS), **attributes: Any) -> None:
        """Add a placeholder with a help text for each command, so that the list of commands imports none."""
        super().__init__(**attributes)
        self.entries = entries
        for name, entry in entries.items():
            self.add_command(TyperCommand(name=name, help=entry.help), name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return what is left of the arguments as Click does; of the program's (not of a group's within) former
        spellings are replaced before, with a line of warning for each on stderr. InputError for a former option that
        nothing replaces."""
        if ctx.parent is None:
            args, warnings = renewed(args)
            for line in warnings:
                typer.echo(f"warning: {line}; the former spelling works in this release", err=True)
        return list(super().parse_args(ctx, args))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return name, command and remaining arguments as Typer does, with the real command in place of the
        placeholder."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in self.entries:
            command = load_command(name, self.entries[name])
        return name, command, rest


def load_command(name: str, entry: Entry) -> Any:
    """Import a command's module and return the command as Click calls it; for an entry with commands of its own return
    their group, which imports none of them yet."""
    if entry.commands:
        return LazyGroup(name=name, help=entry.help, entries=entry.commands, no_args_is_help=True)
    from lightloom.app.cli.options import with_options

    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name)(with_options(getattr(import_module(entry.module), entry.function)))
    return get_command(single)


app = typer.Typer(
    name="lightloom",
    cls=LazyGroup,
    help="From a PyTorch model and a cluster to the collective, the wavelengths, the step time and the energy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    """Print the program's name and version, and exit, if ``--version`` is given."""
    if version:
        typer.echo(f"lightloom {installed_version('lightloom')}")
        raise typer.Exit


def main() -> NoReturn:
    """Run the command line and exit: 2 for a refused input, no memory or no space for the output, 130 for an
    interruption, 0 where the reader of the output has gone, else with the command's own code.

    Errors of other classes, which are our faults, are raised, so that Python exits with 1.
    """
    # What a command makes lives until it ends: looking for garbage as often as Python does takes a tenth of a plan.
    gc.set_threshold(50_000, 20, 20)
    atexit.register(_leave_garbage)
    for stream in (sys.stdout, sys.stderr):
        # A terminal without some characters shows their numbers.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        _refuse(str(error))
    except (typer.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except MemoryError as error:
        _refuse(f"out of memory: {error or 'nothing more can be taken'}: expected fewer ranks or a smaller model")
    except BrokenPipeError:
        _end_unread()
    except SystemExit as stop:
        # Typer ends so where the reader has closed the pipe.
        if isinstance(stop.__context__, BrokenPipeError):
            _end_unread()
        raise
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        _refuse(f"cannot write the output: {error.strerror}")
    except Exception as error:
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        _refuse(str(format_message()) or "see lightloom --help")
    sys.exit(code if isinstance(code, int) else 0)


def _end_unread() -> NoReturn:
    """Exit with code 0 where the reader (head, less) has closed the pipe."""
    _drop_output()
    sys.exit(0)


def _drop_output() -> None:
    """Point stdout to nowhere, so that what is still buffered is not written: Python would complain once more while it
    closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_garbage() -> None:
    """Freeze all objects, unless PyTorch is loaded, so that Python does not look for garbage once more at the end,
    which takes a fifth of a short command.

    Libraries that PyTorch loads complain of objects that are left.
    """
    if "torch" not in sys.modules:
        gc.freeze()


def _refuse(message: str) -> NoReturn:
    """Print a message on one line of stderr, after "error:", and exit with code 2."""
    line = visible(" ".join(message.split()))
    print(f"error: {line}", file=sys.stderr)  # noqa: T201
    sys.exit(2)
