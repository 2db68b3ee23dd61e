"""``lightloom schedule``: schedules to files and back, and files checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lightloom.app.api.arguments import load_fabric
from lightloom.app.api.collectives import VerifiedSchedule, synthesize
from lightloom.app.cli.options import (
    KIND_HELP,
    FabricName,
    Json,
    Kind,
    Nbytes,
    OptionalFabricName,
    Permutation,
    Ranks,
    Settings,
    Sizes,
    arguments,
    check_outputs,
    count_option,
    option,
    print_json,
    print_result,
    read_settings,
)
from lightloom.collectives.collective import SIZED
from lightloom.collectives.files.document import checked_suffix, read_schedule
from lightloom.collectives.files.formats import FORMATS, export_size, import_schedule
from lightloom.collectives.files.msccl.check import document, sentence
from lightloom.collectives.files.msccl.read import check_program
from lightloom.core.errors import INSTALL_TORCH, ConfigError, UnsupportedError, VerificationError
from lightloom.core.results import Document, provenance
from lightloom.core.units import format_time, parse

if TYPE_CHECKING:
    pass


schedule = typer.Typer(
    add_completion=False, help="Write schedules to files that other tools read, read them back, check them."
)

_FORMATS = "JSON (.json), Parquet (.parquet), Arrow (.arrow), Chakra traces (.et: one a rank), MSCCL (.xml)"
_Source = Annotated[Path, typer.Argument(metavar="FILE", help=f"A schedule: {_FORMATS}.")]
_OptionalRanks = Annotated[int | None, count_option("--ranks", "Number of ranks, with --fabric.")]
_Largest = Annotated[str, option("Most bytes to write; nothing is written where there are more.", metavar="SIZE")]
_ScheduleNbytes = Annotated[str | None, option("Size of the collective, for a program of MSCCL.")]


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
    given = locals()
    _check_output(output)
    made = synthesize(**arguments(synthesize, given | {"set": read_settings(settings)}))
    _write(made, output, largest, as_json)


@schedule.command("import")
def import_(
    *,
    source: _Source,
    output: Annotated[Path, typer.Argument(help="A file of another form, by its suffix.")],
    fabric: OptionalFabricName = None,
    ranks: _OptionalRanks = None,
    nbytes: _ScheduleNbytes = None,
    settings: Settings = None,
    largest: _Largest = "1GB",
    as_json: Json = False,
) -> None:
    """Read a schedule, verify it and write it in another form."""
    _check_output(output)
    _write(_read(source, fabric, ranks, nbytes, settings), output, largest, as_json)


@schedule.command()
def check(
    *,
    source: _Source,
    fabric: OptionalFabricName = None,
    ranks: _OptionalRanks = None,
    nbytes: _ScheduleNbytes = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Read and verify a schedule; of a program of MSCCL without --fabric, what it computes."""
    if source.suffix != ".xml" or fabric is not None:
        _report(_read(source, fabric, ranks, nbytes, settings), [], as_json)
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


def _read(
    source: Path, fabric: str | None, ranks: int | None, nbytes: str | None, settings: list[str] | None
) -> VerifiedSchedule:
    """Read a schedule and verify it, on a fabric if one is named."""
    if (fabric is None) != (ranks is None) or (fabric is None and settings):
        raise ConfigError("--fabric and --ranks go together, and --set needs both")
    on = None if fabric is None else load_fabric(fabric, ranks, set=read_settings(settings))
    return VerifiedSchedule.of(*import_schedule(source, on, None if nbytes is None else parse(nbytes, "size")))


def _report(schedule: VerifiedSchedule, files: Sequence[Path], as_json: bool) -> None:
    if as_json:
        print_json(schedule.to_json(files))
        return
    typer.echo(schedule.summary())
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        typer.echo(f"written: {files[0]}{more}")


# ``lightloom execute``: a schedule on real tensors, in as many processes as it has ranks.

_Schedule = Annotated[Path | None, typer.Argument(help="A schedule's file (.json, .parquet, .arrow); or --algorithm.")]
_ExecuteNbytes = Annotated[
    str | None, option("What every rank holds in the end (all-gather) or at the start (all others); or the file's.")
]


def execute(
    *,
    schedule: _Schedule = None,
    algorithm: Annotated[str | None, option("An algorithm by name.")] = None,
    kind: Annotated[str, option(KIND_HELP)] = "all-reduce",
    permutation: Permutation = None,
    sizes: Sizes = None,
    fabric: FabricName = "wdm-ring",
    ranks: Ranks = 8,
    settings: Settings = None,
    nbytes: _ExecuteNbytes = None,
    dtype: Annotated[str, option("int32, int64, float32, float64 or bfloat16.")] = "int64",
    rounds: Annotated[int, count_option("--rounds", "Timed executions.", least=1)] = 5,
    seed: Annotated[int, count_option("--seed", "Seed of the values.")] = 0,
    timeout: Annotated[str, option("Time allowed for the whole command.")] = "120s",
    as_json: Json = False,
) -> None:
    """Execute a schedule over gloo on this host's loopback, and compare with torch.distributed's own collective."""
    given = locals()
    if (schedule is None) == (algorithm is None):
        raise ConfigError("give either a schedule's file or --algorithm NAME")
    patience = parse(timeout, "time")
    if patience <= 0:
        raise ConfigError(f"--timeout {timeout}: expected more than 0")
    if schedule is not None:
        moved, on = read_schedule(schedule)
    else:
        stated = kind == "barrier" or (sizes is not None and sizes.endswith(".csv"))
        given |= {"nbytes": nbytes if nbytes is not None or stated else "1MB", "set": read_settings(settings)}
        made = synthesize(**arguments(synthesize, given))
        moved, on = made.schedule, made.fabric
    size = moved.collective.nbytes if nbytes is None else parse(nbytes, "size")
    moved = moved.resized(size)
    try:
        from lightloom.exchange.execution_trial import try_schedule, values_of
        from lightloom.exchange.transport.channel import LaunchError
    except ModuleNotFoundError as error:
        raise UnsupportedError(f"executing {INSTALL_TORCH}") from error
    values = values_of(moved, size, dtype)
    try:
        trial = try_schedule(moved, on, dtype, values, rounds=rounds, seed=seed, timeout=patience)
    except LaunchError as error:
        if "no result within" not in str(error):
            raise
        raise ConfigError(f"--timeout {timeout}: {error}: expected a time in which all is done") from error
    if not trial.right:
        raise VerificationError(f"{moved.algorithm} does not bring what its {moved.collective.kind} promises")
    document = {
        "schema": "lightloom.execution/1",
        "algorithm": moved.algorithm,
        "kind": moved.collective.kind,
        "ranks": moved.collective.ranks,
        "chunks": moved.chunks,
        "queued": moved.queued,
        "right": trial.right,
        **asdict(trial),
        "provenance": provenance([trial.content, values, dtype, rounds], seed),
    }
    print_result(document, as_json, _parts(document))


def _parts(document: Document) -> Iterator[str]:
    """Yield lines on what ran, how exactly it agrees, and how long it took."""
    each = "each" if document["kind"] not in (*SIZED, "scatter") else "at most"
    padding = f", {document['padding']} zeros added to each block" if document["padding"] else ""
    yield (
        f"{document['kind']} by {document['algorithm']} in {document['ranks']} processes: {document['values']} values "
        f"of {document['dtype']} {each}, {document['chunks']} chunks{padding}, {document['messages']} messages"
    )
    share = f"{document['error_over_bound']:.2g} of what rounding allows"
    yield (
        "every rank has the bits of torch.distributed's own collective"
        if document["same_bits"]
        else f"sums are off by at most {share}; another order of additions than torch.distributed's own"
    )
    ours, theirs = format_time(document["seconds"]), format_time(document["reference_seconds"])
    yield f"{ours} over loopback, torch.distributed's own {theirs}: a loopback has no circuits, so neither says more"
