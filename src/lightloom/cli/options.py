"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.models import OptionInfo

from lightloom.cli.output import read_count
from lightloom.core.errors import ConfigError


class _RefusedCount(typer.BadParameter):
    """A value that is no count; the message names the option itself."""

    def format_message(self) -> str:
        return self.message


def count_option(name: str, help: str, metavar: str = "N", least: int | None = None) -> OptionInfo:
    """Return an option that takes a whole number, of at least ``least``."""

    def parse(text: str) -> int:
        try:
            return read_count(text, name, least)
        except ConfigError as error:
            raise _RefusedCount(str(error)) from error

    option: OptionInfo = typer.Option(name, help=help, metavar=metavar, parser=parse)
    return option


def figure_option(content: str) -> OptionInfo:
    """Return the option ``--figure`` that draws ``content``."""
    option: OptionInfo = typer.Option(help=f"{content} (.svg, .png, .pdf).")
    return option


Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Kind = Annotated[str, typer.Argument(help="all-gather, all-reduce, all-to-all, broadcast, reduce or reduce-scatter.")]
FabricName = Annotated[str, typer.Option("--fabric", help="A fabric of the catalog, or a YAML file.")]
OptionalFabricName = Annotated[str | None, typer.Option("--fabric", help="A fabric of the catalog, or a YAML file.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="field=value of the fabric; repeatable.")]
Ranks = Annotated[int, count_option("--ranks", "Number of ranks.")]
Wavelengths = Annotated[int | None, count_option("--wavelengths", "Wavelengths of a fibre.", "W")]
Nbytes = Annotated[
    str | None, typer.Option(help="What every rank holds in the end (all-gather) or at the start (all others).")
]
NbytesPerRank = Annotated[str | None, typer.Option(help="The same, divided by the number of ranks.")]
Network = Annotated[Path, typer.Argument(metavar="NET.npz", help="As `onn build` and `onn train` write it.")]
NetworkOut = Annotated[Path | None, typer.Option(help="Write the network (.npz).")]
Nonlinearity = Annotated[str, typer.Option(help="relu, or clipped: units that saturate.")]
Rounding = Annotated[str, typer.Option(help="floor, or half-up.")]
MeshKind = Annotated[str, typer.Option(help="rectangular or triangular.")]
NoisyDraws = Annotated[
    int, count_option("--evaluations", "Noisy draws behind each accuracy on the way to the noise limit.", least=1)
]
