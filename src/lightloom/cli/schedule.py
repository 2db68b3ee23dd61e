"""``lightloom schedule``: schedules to files and back, and files checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lightloom.api.arguments import load_fabric
from lightloom.api.collectives import synthesize
from lightloom.api.schedules import VerifiedSchedule
from lightloom.cli.options import (
    FabricName,
    Json,
    Kind,
    Nbytes,
    OptionalFabricName,
    Permutation,
    Ranks,
    Settings,
    Sizes,
    count_option,
    option,
)
from lightloom.cli.output import check_outputs, print_json, read_settings
from lightloom.core.errors import ConfigError
from lightloom.core.units import parse
from lightloom.fabrics.base import Fabric
from lightloom.interchange.files import checked_suffix
from lightloom.interchange.formats import FORMATS, export_size, import_schedule
from lightloom.interchange.msccl.read import check_program
from lightloom.interchange.msccl.summary import document, sentence

schedule = typer.Typer(
    add_completion=False, help="Write schedules to files that other tools read, read them back, check them."
)

_FORMATS = "JSON (.json), Parquet (.parquet), Arrow (.arrow), Chakra traces (.et: one a rank), MSCCL (.xml)"
_Source = Annotated[Path, typer.Argument(metavar="FILE", help=f"A schedule: {_FORMATS}.")]
_OptionalRanks = Annotated[int | None, count_option("--ranks", "Number of ranks, with --fabric.")]
_Largest = Annotated[str, option("Most bytes to write; nothing is written where there are more.", metavar="SIZE")]
_Nbytes = Annotated[str | None, option("Size of the collective, for a program of MSCCL.")]


@schedule.command()
def export(
    *,
    kind: Kind,
    output: Annotated[Path, typer.Argument(help=f"A file, its form by its suffix: {_FORMATS}.")],
    fabric: FabricName,
    ranks: Ranks,
    nbytes: Nbytes = None,
    permutation: Permutation = None,
    sizes: Sizes = None,
    algorithm: Annotated[str, option("An algorithm by name.")] = "synthesized",
    settings: Settings = None,
    largest: _Largest = "1GB",
    as_json: Json = False,
) -> None:
    """Build a schedule, verify it and write it."""
    _check_output(output)
    made = synthesize(
        kind,
        fabric,
        ranks,
        nbytes,
        permutation=permutation,
        sizes=sizes,
        algorithm=algorithm,
        set=read_settings(settings),
    )
    _write(made, output, largest, as_json)


@schedule.command("import")
def import_(
    *,
    source: _Source,
    output: Annotated[Path, typer.Argument(help="A file of another form, by its suffix.")],
    fabric: OptionalFabricName = None,
    ranks: _OptionalRanks = None,
    nbytes: _Nbytes = None,
    settings: Settings = None,
    largest: _Largest = "1GB",
    as_json: Json = False,
) -> None:
    """Read a schedule, verify it and write it in another form."""
    _check_output(output)
    read = VerifiedSchedule.of(*import_schedule(source, _fabric(fabric, ranks, settings), _size(nbytes)))
    _write(read, output, largest, as_json)


@schedule.command()
def check(
    *,
    source: _Source,
    fabric: OptionalFabricName = None,
    ranks: _OptionalRanks = None,
    nbytes: _Nbytes = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Read and verify a schedule; of a program of MSCCL without --fabric, what it computes."""
    if source.suffix != ".xml" or fabric is not None:
        read = import_schedule(source, _fabric(fabric, ranks, settings), _size(nbytes))
        _report(VerifiedSchedule.of(*read), [], as_json)
        return
    program, runs = check_program(source)
    if as_json:
        print_json(document(program, runs))
    else:
        typer.echo(sentence(program, runs))


def _write(made: VerifiedSchedule, output: Path, largest: str, as_json: bool) -> None:
    typer.echo(f"{output}: {export_size(output, made.schedule).summary()}", err=True)
    _report(made, made.save(output, largest=largest), as_json)


def _check_output(output: Path) -> None:
    checked_suffix(output, FORMATS)
    check_outputs(files=[output])


def _fabric(name: str | None, ranks: int | None, settings: list[str] | None) -> Fabric | None:
    if name is None and ranks is None and not settings:
        return None
    if name is None or ranks is None:
        raise ConfigError("--fabric and --ranks go together, and --set needs both")
    return load_fabric(name, ranks, set=read_settings(settings))


def _size(nbytes: str | None) -> float | None:
    return None if nbytes is None else parse(nbytes, "size")


def _report(schedule: VerifiedSchedule, files: Sequence[Path], as_json: bool) -> None:
    if as_json:
        print_json(schedule.to_json(files))
        return
    typer.echo(schedule.summary())
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        typer.echo(f"written: {files[0]}{more}")
