"""``lightloom exchange``: gradient exchanges, what they send, and what they do to training."""

from __future__ import annotations

import typer

from lightloom.cli.lazy import Entry, lazy_group

COMMANDS = {
    "compare": Entry(
        "lightloom.cli.exchange.compare",
        "Train a small task with each exchange, in real processes: bytes against loss, and loss after equal time.",
    ),
}

exchange = typer.Typer(
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    help="Compare the ways in which replicas exchange gradients.",
)


@exchange.callback()
def _group() -> None:
    """Makes a group of commands that are not registered."""
