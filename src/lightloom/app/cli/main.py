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
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from lightloom.core.errors import InputError
from lightloom.core.files import visible

if TYPE_CHECKING:
    from collections.abc import Callable


# Groups of commands that import the module of a command only when that command is called.


class Entry(NamedTuple):
    """A command that is not imported yet."""

    module: str
    help: str
    """First sentence of the help, for the list of commands; equal to the docstring's (a test compares them)."""
    attribute: str = ""
    """Name in the module of the function, or of the ``typer.Typer`` with subcommands; the command's without it."""


class LazyGroup(TyperGroup):
    """A group whose commands stand in its table; :func:`lazy_group` makes one."""

    entries: ClassVar[Mapping[str, Entry]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, entry in self.entries.items():
            self.add_command(TyperCommand(name=name, help=entry.help), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in self.entries:
            command = load_command(name, self.entries[name])
        return name, command, rest


def lazy_group(entries: Mapping[str, Entry]) -> type[LazyGroup]:
    """Return the class of a group with these commands, for ``typer.Typer(cls=...)``."""
    return type("LazyCommands", (LazyGroup,), {"entries": entries})


def load_command(name: str, entry: Entry) -> Any:
    """Import a command's module and return the command."""
    target: Callable[..., None] | typer.Typer = getattr(import_module(entry.module), entry.attribute or name)
    if not isinstance(target, typer.Typer):
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(name)(target)
        target = app
    command = get_command(target)
    command.name = name
    return command


_HELP = {
    "plan": "Rank every plan for training this model on these clusters.",
    "collective": "Build, verify and cost schedules of one collective.",
    "circuits": "Assign circuits to a traffic matrix, verify them, and play the traffic through them.",
    "traffic": "Place several jobs on one cluster: each one's step alone, and while the others use the same links.",
    "compare": "Compare two saved plans: what was asked differently, which plans changed, and by which part of the "
    "step.",
    "damage": "Synthesize around failures; every rank's share stays as large as it was.",
    "goodput": "Show how much of a month trains, what interrupts it, and what spares and faster checkpoints are worth.",
    "execute": "Execute a schedule over gloo on this host's loopback, and compare with torch.distributed's own "
    "collective.",
    "budget": "Power, losses and errors of a lightpath: its reach, its taps, and the laser that it needs.",
    "bill": "Count the parts of a fabric or a cluster for each rank, with prices, watts and failures, and what lacks "
    "them.",
    "design": "Search fabrics and their fields for the most samples per dollar and per joule, after failures.",
    "sweep": "Compute every point of an experiment that its folder lacks; results as Parquet, and one page.",
    "reproduce": "Regenerate what a paper printed and set it beside the paper; rows that deviate stay and say why.",
    "accuracy": "Predict steps, collectives or a profiled step that were measured, and show how near the predictions "
    "are.",
    "calibrate": "Fit an accelerator's parameters to measured steps or a profile, or a transport to timed collectives.",
    "catalog": "List models, clusters, fabrics, accelerators, parts, codecs, algorithms; or show one entry with its "
    "sources.",
    "schema": "Print the JSON Schema of a cluster file, of an experiment, or of a schedule.",
    "compress": "Measure codecs on gradients; compress files of floats.",
    "exchange": "Compare the ways in which replicas exchange gradients.",
    "onn": "Build, train, verify, map, disturb and calibrate networks that average inside the light (OptINC).",
    "schedule": "Write schedules to files that other tools read, read them back, check them.",
}
_MODULES = {"damage": "collective", "execute": "schedule", "bill": "goodput", "calibrate": "accuracy", "onn": "onn.app"}
"""Modules of commands that have none of their own names."""
COMMANDS = {name: Entry(f"lightloom.app.cli.{_MODULES.get(name, name)}", words) for name, words in _HELP.items()}

app = typer.Typer(
    name="lightloom",
    cls=lazy_group(COMMANDS),
    help="From a PyTorch model and a cluster to the collective, the wavelengths, the step time and the energy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"lightloom {installed_version('lightloom')}")
        raise typer.Exit


def main() -> NoReturn:
    """Run the command line and exit."""
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
    """End well where the reader (head, less) has closed the pipe."""
    _drop_output()
    sys.exit(0)


def _drop_output() -> None:
    """Write what is left to nowhere: Python would complain once more while it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_garbage() -> None:
    """Do not look for garbage once more at the end, which takes a fifth of a short command.

    Libraries that PyTorch loads complain of objects that are left.
    """
    if "torch" not in sys.modules:
        gc.freeze()


def _refuse(message: str) -> NoReturn:
    line = visible(" ".join(message.split()))
    print(f"error: {line}", file=sys.stderr)  # noqa: T201
    sys.exit(2)
