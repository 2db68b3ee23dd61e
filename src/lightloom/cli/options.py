"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.models import OptionInfo

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Kind = Annotated[str, typer.Argument(help="all-gather, all-reduce, all-to-all, broadcast, reduce or reduce-scatter.")]
FabricName = Annotated[str, typer.Option("--fabric", help="A fabric of the catalog, or a YAML file.")]
OptionalFabricName = Annotated[str | None, typer.Option("--fabric", help="A fabric of the catalog, or a YAML file.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="field=value of the fabric; repeatable.")]
Ranks = Annotated[str, typer.Option(metavar="N", help="Number of ranks.")]
Wavelengths = Annotated[str | None, typer.Option(metavar="W", help="Wavelengths of a fibre.")]
NbytesPerRank = Annotated[str | None, typer.Option(help="The same, divided by the number of ranks.")]
Network = Annotated[Path, typer.Argument(metavar="NET.npz", help="As `onn build` and `onn train` write it.")]
NetworkOut = Annotated[Path | None, typer.Option(help="Write the network (.npz).")]
Nonlinearity = Annotated[str, typer.Option(help="relu, or clipped: units that saturate.")]
Rounding = Annotated[str, typer.Option(help="floor, or half-up.")]
MeshKind = Annotated[str, typer.Option(help="rectangular or triangular.")]


def figure_option(content: str) -> OptionInfo:
    """Return the option ``--figure`` that draws ``content``."""
    option: OptionInfo = typer.Option(help=f"{content} (.svg, .png, .pdf).")
    return option
