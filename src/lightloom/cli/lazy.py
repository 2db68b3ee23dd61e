"""Groups of commands that import the module of a command only when that command is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Callable


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
