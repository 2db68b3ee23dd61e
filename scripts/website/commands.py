"""One page for each command, from what the commands themselves say: arguments, options, defaults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from typer.cli import get_docs_for_click
from typer.core import TyperGroup
from typer.main import get_command

from lightloom.app.cli.main import COMMANDS as COMMANDS
from lightloom.app.cli.main import LazyGroup, app, load_command

if TYPE_CHECKING:
    from collections.abc import Iterator


def whole_command() -> TyperGroup:
    """Return ``lightloom`` with the modules of all commands and subcommands loaded."""
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    return _load(command)


def command_pages() -> dict[str, str]:
    """Return the Markdown of each command's page, by the command's name."""
    command = whole_command()
    return {name: _markdown(command.commands[name], name) for name in COMMANDS}


def subcommands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that can be called beneath a group, with the words that call it."""
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from subcommands(below, (*path, name))
        if not command.invoke_without_command:
            return
    yield path, command


def _load(group: TyperGroup) -> TyperGroup:
    entries = group.entries if isinstance(group, LazyGroup) else {}
    for name, command in list(group.commands.items()):
        loaded = load_command(name, entries[name]) if name in entries else command
        group.commands[name] = _load(loaded) if isinstance(loaded, TyperGroup) else loaded
    return group


def _markdown(command: Any, name: str) -> str:
    context = command.make_context(f"lightloom {name}", [], resilient_parsing=True)
    text = get_docs_for_click(obj=command, ctx=context, name=name, call_prefix="lightloom")
    return re.sub(r"^(#+) `(.+)`$", r"\1 \2", text, flags=re.MULTILINE)
