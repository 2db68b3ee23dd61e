"""``lightloom exchange``: gradient exchanges, what they send, and what they do to training."""

from __future__ import annotations

import typer

from lightloom.cli.lazy import Entry, lazy_group

COMMANDS = {
    "list": Entry("lightloom.cli.exchange.show", "Name all methods.", "list_methods"),
    "show": Entry("lightloom.cli.exchange.show", "Say what a method sends and computes."),
    "measure": Entry("lightloom.cli.exchange.measure", "Measure this host's kernels, for plans."),
    "break-even": Entry(
        "lightloom.cli.exchange.break_even",
        "Say in how many set-ups of models, link speeds and ranks a method shortens a step.",
        "break_even",
    ),
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
