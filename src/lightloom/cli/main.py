"""The ``lightloom`` command: parse, call, print. Exit 0 done, 2 bad input (one clear line), 1 our fault."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer

from lightloom.cli.budget import budget
from lightloom.cli.catalog import catalog
from lightloom.cli.circuits.command import circuits
from lightloom.cli.collective import collective
from lightloom.cli.compress.command import compress
from lightloom.cli.damage import damage
from lightloom.cli.execute import execute
from lightloom.cli.onn.app import onn
from lightloom.cli.plan.command import plan
from lightloom.cli.reproduce import reproduce
from lightloom.cli.schedule import schedule
from lightloom.cli.schema import schema
from lightloom.cli.sweep import sweep
from lightloom.core.errors import InputError

app = typer.Typer(
    name="lightloom",
    help="From a PyTorch model and a cluster to the collective, the wavelengths, the step time and the energy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (plan, collective, circuits, damage, execute, budget, sweep, reproduce, catalog, schema):
    app.command()(command)
app.add_typer(compress, name="compress")
app.add_typer(onn, name="onn")
app.add_typer(schedule, name="schedule")


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"lightloom {installed('lightloom')}")
        raise typer.Exit


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        _refuse(str(error))
    except typer.Abort:
        _stop()
    except KeyboardInterrupt:
        _stop()
    except BrokenPipeError:
        # The reader (head, less) has gone; Python would complain once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        complaint = getattr(error, "format_message", None)
        if complaint is None:
            raise
        _refuse(str(complaint()) or "see lightloom --help")
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(message: str) -> NoReturn:
    line = " ".join(message.split())
    print(f"error: {line}", file=sys.stderr)  # noqa: T201
    sys.exit(2)


def _stop() -> NoReturn:
    print("interrupted", file=sys.stderr)  # noqa: T201
    sys.exit(130)
