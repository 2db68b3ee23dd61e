"""``lightloom schedule``: schedules to files and back, and files checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from lightloom.collectives.schedule.columns import Schedule
    from lightloom.fabrics.base import Fabric

schedule = typer.Typer(help="Write schedules to files that other tools read, read them back, check them.")

_FORMATS = "JSON (.json), Parquet (.parquet), Arrow (.arrow), Chakra traces (.et: one a rank), MSCCL (.xml)"
_FabricName = Annotated[str | None, typer.Option("--fabric", help="A fabric of the catalog, or a YAML file.")]
_Ranks = Annotated[str | None, typer.Option(metavar="N", help="Number of ranks, with --fabric.")]
_Nbytes = Annotated[str | None, typer.Option(help="Size of the collective, for a program of MSCCL.")]
_Settings = Annotated[list[str] | None, typer.Option("--set", help="field=value of the fabric; repeatable.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@schedule.command()
def export(
    kind: Annotated[
        str, typer.Argument(help="all-gather, all-reduce, all-to-all, broadcast, reduce or reduce-scatter.")
    ],
    output: Annotated[Path, typer.Argument(help=f"A file, its form by its suffix: {_FORMATS}.")],
    fabric: Annotated[str, typer.Option(help="A fabric of the catalog, or a YAML file.")],
    ranks: Annotated[str, typer.Option(metavar="N", help="Number of ranks.")],
    nbytes: Annotated[str, typer.Option(help="What every rank holds in the end (all-gather) or at the start.")],
    algorithm: Annotated[str, typer.Option(help="An algorithm by name.")] = "synthesized",
    settings: _Settings = None,
    as_json: _Json = False,
) -> None:
    """Build a schedule, verify it and write it."""
    from lightloom.cli.output import read_count
    from lightloom.collectives.registry import build, find
    from lightloom.collectives.spec import Collective
    from lightloom.core.files import check_writable
    from lightloom.core.units import parse
    from lightloom.interchange.formats import check_suffix, export_schedule

    check_suffix(output)
    check_writable(output)
    on = _fabric(fabric, ranks, settings)
    assert on is not None
    wanted = Collective(cast(Any, kind), read_count(ranks, "--ranks"), parse(nbytes, "size"))
    made = build(find(algorithm), wanted, on)
    _report(made, on, export_schedule(output, made, on), as_json)


@schedule.command("import")
def import_(
    source: Annotated[Path, typer.Argument(metavar="FILE", help=f"A schedule: {_FORMATS}.")],
    output: Annotated[Path, typer.Argument(help="A file of another form, by its suffix.")],
    fabric: _FabricName = None,
    ranks: _Ranks = None,
    nbytes: _Nbytes = None,
    settings: _Settings = None,
    as_json: _Json = False,
) -> None:
    """Read a schedule, verify it and write it in another form."""
    from lightloom.core.files import check_writable
    from lightloom.interchange.formats import check_suffix, export_schedule, import_schedule

    check_suffix(output)
    check_writable(output)
    made, on = import_schedule(source, _fabric(fabric, ranks, settings), _size(nbytes))
    _report(made, on, export_schedule(output, made, on), as_json)


@schedule.command()
def check(
    source: Annotated[Path, typer.Argument(metavar="FILE", help=f"A schedule: {_FORMATS}.")],
    fabric: _FabricName = None,
    ranks: _Ranks = None,
    nbytes: _Nbytes = None,
    settings: _Settings = None,
    as_json: _Json = False,
) -> None:
    """Read and verify a schedule; of a program of MSCCL without --fabric, its rules and that it runs."""
    from lightloom.cli.output import print_json
    from lightloom.interchange.formats import import_schedule
    from lightloom.interchange.msccl_import import check_program

    if source.suffix != ".xml" or fabric is not None:
        made, on = import_schedule(source, _fabric(fabric, ranks, settings), _size(nbytes))
        _report(made, on, [], as_json)
        return
    program, done = check_program(source)
    if as_json:
        document = {"name": program.name, "collective": program.collective, "gpus": len(program.gpus)}
        print_json({"schema": "lightloom.msccl-check/1", **document, "messages": len(done.messages)})
    else:
        typer.echo(
            f"{program.name}: {program.collective} over {len(program.gpus)} GPUs; keeps the rules, "
            f"{len(done.messages)} messages, no step waits for ever, none races"
        )


def _fabric(name: str | None, ranks: str | None, settings: list[str] | None) -> Fabric | None:
    from lightloom.cli.output import read_count, read_settings
    from lightloom.core.errors import ConfigError
    from lightloom.fabrics.load import load_fabric

    if name is None and ranks is None and not settings:
        return None
    if name is None or ranks is None:
        raise ConfigError("--fabric and --ranks go together, and --set needs both")
    return load_fabric(name, read_count(ranks, "--ranks"), read_settings(settings or []))


def _size(nbytes: str | None) -> float | None:
    from lightloom.core.units import parse

    return None if nbytes is None else parse(nbytes, "size")


def _report(made: Schedule, on: Fabric, written: list[Path], as_json: bool) -> None:
    from lightloom.cli.output import print_json
    from lightloom.collectives.evaluate import costed
    from lightloom.core.provenance import provenance
    from lightloom.core.units import format_size, format_time

    price, bound = costed(made, on)
    wanted = made.collective
    if as_json:
        print_json(
            {
                "schema": "lightloom.schedule-report/1",
                "algorithm": made.algorithm,
                "kind": wanted.kind,
                "ranks": wanted.ranks,
                "nbytes": wanted.nbytes,
                "rows": len(made),
                "verified": True,
                "time_s": price.time,
                "lower_bound_s": bound.time,
                "bound_by": bound.bound_by,
                "fabric": on.model_dump(mode="json"),
                "files": [str(path) for path in written],
                "provenance": provenance([wanted.kind, wanted.nbytes, on.model_dump(mode="json"), made.algorithm]),
            }
        )
        return
    typer.echo(
        f"{made.algorithm}: {wanted.kind} of {format_size(wanted.nbytes)} over {wanted.ranks} ranks, {len(made)} rows, "
        f"verified; {format_time(price.time)}, lower bound {format_time(bound.time)} ({bound.bound_by})"
    )
    if written:
        more = f" and {len(written) - 1} more" if len(written) > 1 else ""
        typer.echo(f"written: {written[0]}{more}")
