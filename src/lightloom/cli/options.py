"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.models import OptionInfo

from lightloom.cli.output import read_count
from lightloom.core.errors import ConfigError


def option(help: str, metavar: str | None = None, name: str | None = None) -> OptionInfo:
    """Return an option with its help; ``name`` where the parameter's own does not do."""
    info: OptionInfo = typer.Option(*([] if name is None else [name]), help=help, metavar=metavar)
    return info


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

    info: OptionInfo = typer.Option(name, help=help, metavar=metavar, parser=parse)
    return info


def figure_option(content: str) -> OptionInfo:
    """Return the option ``--figure`` that draws ``content``."""
    return option(f"{content} (.svg, .png, .pdf).")


Json = Annotated[bool, option("One JSON document on stdout.", name="--json")]
KIND_HELP = (
    "all-gather, all-reduce, all-to-all, all-to-all-v, barrier, broadcast, gather, permute, reduce, reduce-scatter, "
    "reduce-scatter-v or scatter."
)
Kind = Annotated[str, typer.Argument(help=KIND_HELP)]
Permutation = Annotated[
    str | None, option("To whom each rank sends in a permute: shift:K, reverse, or ranks as 1,0,3,2; else the next.")
]
Sizes = Annotated[
    str | None,
    option("Of the parts of an all-to-all-v or a reduce-scatter-v: zipf:EXPONENT[:SEED], or bytes in a .csv file."),
]
FabricName = Annotated[str, option("A fabric of the catalog, or a YAML file.", name="--fabric")]
OptionalFabricName = Annotated[str | None, option("A fabric of the catalog, or a YAML file.", name="--fabric")]
Settings = Annotated[list[str] | None, option("field=value of the fabric; repeatable.", name="--set")]
Ranks = Annotated[int, count_option("--ranks", "Number of ranks.")]
Wavelengths = Annotated[int | None, count_option("--wavelengths", "Wavelengths of a fibre.", "W")]
Nbytes = Annotated[
    str | None,
    option(
        "What every rank holds in the end (all-gather) or at the start (all others); the root (gather, scatter); all "
        "ranks together (permute)."
    ),
]
NbytesPerRank = Annotated[str | None, option("The same, divided by the number of ranks.")]
_COMPONENTS = "--components/--whole"
Network = Annotated[Path, typer.Argument(metavar="NET.npz", help="As `onn build` and `onn train` write it.")]
NetworkOut = Annotated[Path | None, option("Write the network (.npz).")]
Nonlinearity = Annotated[str, option("relu, or clipped: units that saturate.")]
Rounding = Annotated[str, option("floor, or half-up.")]
MeshKind = Annotated[str | None, option("rectangular (also the default) or triangular.")]
Components = Annotated[
    bool | None,
    option("Meshes of a matrix's connected components, whose waveguides cross, or of it whole.", name=_COMPONENTS),
]
Gains = Annotated[
    str | None, option("rows (also the default): a gain for each output; common: one for all of a matrix.")
]
NoisyDraws = Annotated[
    int, count_option("--evaluations", "Noisy draws behind each accuracy on the way to the noise limit.", least=1)
]
