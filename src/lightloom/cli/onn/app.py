"""``lightloom onn``: averaging networks, from their weights to the phases of their meshes and back to accuracy."""

from __future__ import annotations

import typer

from lightloom.cli.onn.build import build
from lightloom.cli.onn.disturb import disturb
from lightloom.cli.onn.map import map_to_meshes
from lightloom.cli.onn.train import train
from lightloom.cli.onn.verify import verify

onn = typer.Typer(
    no_args_is_help=True, help="Build, train, verify, map and disturb networks that average inside the light (OptINC)."
)
onn.command()(build)
onn.command()(train)
onn.command()(verify)
onn.command("map")(map_to_meshes)
onn.command()(disturb)
