"""``lightloom schedule``: schedules to files and back, and files checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lightloom.app.api.collectives import VerifiedSchedule, synthesize, verify
from lightloom.app.cli.options import (
    FabricName,
    Kind,
    Options,
    Ranks,
    Settings,
    Shown,
    check_file,
    read_settings,
)
from lightloom.collectives.collective import SIZED
from lightloom.collectives.files.document import checked_suffix, read_schedule
from lightloom.collectives.files.formats import FORMATS, export_size
from lightloom.collectives.files.msccl.check import document, sentence
from lightloom.collectives.files.msccl.read import check_program
from lightloom.core.errors import ConfigError, VerificationError, needing_torch
from lightloom.core.fields import Count
from lightloom.core.results import Document, provenance
from lightloom.core.units import format_time, parse


def _check_output(output: Path) -> None:
    """Raise ConfigError unless a schedule can be written to a file of this name, whose suffix names a known form."""
    checked_suffix(output, FORMATS)
    check_file(output)


Output = Annotated[Path, _check_output]
_Read = Annotated[partial[VerifiedSchedule], Options(verify)]


def export(
    kind: Kind,
    output: Output,
    *,
    fabric: FabricName,
    ranks: Ranks,
    build: Annotated[partial[VerifiedSchedule], Options(synthesize, without=("nbytes_per_rank",))],
    set: Settings = None,
    largest: str = "1GB",
) -> Shown:
    """Build a schedule, verify it and write it.

    Args:
        output: A file, its form by its suffix: JSON (.json), Parquet (.parquet), Arrow (.arrow), Chakra traces (.et:
            one a rank), MSCCL (.xml).
        largest (SIZE): Most bytes to write; nothing is written where there are more.
    """
    return _write(build(kind, fabric, ranks, set=read_settings(set)), output, largest)


def import_(source: Path, output: Output, *, read: _Read, set: Settings = None, largest: str = "1GB") -> Shown:
    """Read a schedule, verify it and write it in another form.

    Args:
        source (FILE): A schedule: JSON (.json), Parquet (.parquet), Arrow (.arrow), Chakra traces (.et: one a rank),
            MSCCL (.xml).
        output: A file of another form, by its suffix.
        largest (SIZE): Most bytes to write; nothing is written where there are more.
    """
    return _write(_read(source, read, set), output, largest)


def check(source: Path, *, read: _Read, set: Settings = None) -> Shown:
    """Read and verify a schedule; of a program of MSCCL without --fabric, what it computes.

    Args:
        source (FILE): A schedule: JSON (.json), Parquet (.parquet), Arrow (.arrow), Chakra traces (.et: one a rank),
            MSCCL (.xml).
    """
    if source.suffix != ".xml" or "fabric" in read.keywords:
        return _report(_read(source, read, set))
    program, runs = check_program(source)
    return Shown(document(program, runs), [sentence(program, runs)], bare=True)


def _write(made: VerifiedSchedule, output: Path, largest: str) -> Shown:
    """Say on stderr how much will be written, write the schedule, and return what is shown of it."""
    typer.echo(f"{output}: {export_size(output, made.schedule).summary()}", err=True)
    return _report(made, made.save(output, largest=largest))


def _read(source: Path, read: partial[VerifiedSchedule], set: list[str] | None) -> VerifiedSchedule:
    """Read a schedule and verify it, on a fabric if one is named; ConfigError unless --fabric and --ranks come
    together."""
    if ("fabric" in read.keywords) != ("ranks" in read.keywords) or ("fabric" not in read.keywords and set):
        raise ConfigError("--fabric and --ranks go together, and --set needs both")
    return read(source, set=read_settings(set))


def _report(schedule: VerifiedSchedule, files: Sequence[Path] = ()) -> Shown:
    """Return what is shown of a verified schedule: its summary, and the first of the files that were written with the
    number of others."""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    written = [f"written: {files[0]}{more}"] if files else []
    return Shown(schedule.to_json(files), [schedule.summary(), *written], bare=True)


# ``lightloom execute``: a schedule on real tensors, in as many processes as it has ranks.


def execute(
    schedule: Path | None = None,
    *,
    algorithm: str | None = None,
    kind: str = "all-reduce",
    fabric: FabricName = "wdm-ring",
    ranks: Ranks = 8,
    set: Settings = None,
    nbytes: str | None = None,
    build: Annotated[partial[VerifiedSchedule], Options(synthesize, without=("nbytes_per_rank",))],
    dtype: str = "int64",
    rounds: Count = 5,
    seed: int = 0,
    timeout: str = "120s",
) -> Shown:
    """Execute a schedule over gloo on this host's loopback, and compare with torch.distributed's own collective.

    Args:
        schedule: A schedule's file (.json, .parquet, .arrow); or --algorithm.
        algorithm: An algorithm by name.
        kind: all-gather, all-reduce, all-to-all, all-to-all-v, barrier, broadcast, gather, permute, reduce,
            reduce-scatter, reduce-scatter-v or scatter.
        nbytes: What every rank holds in the end (all-gather) or at the start (all others); or the file's.
        dtype: int32, int64, float32, float64 or bfloat16.
        rounds: Timed executions.
        seed: Seed of the values.
        timeout: Time allowed for the whole command.
    """
    if (schedule is None) == (algorithm is None):
        raise ConfigError("give either a schedule's file or --algorithm NAME")
    patience = parse(timeout, "time")
    if patience <= 0:
        raise ConfigError(f"--timeout {timeout}: expected more than 0")
    if schedule is not None:
        moved, on = read_schedule(schedule)
    else:
        stated = kind == "barrier" or str(build.keywords.get("sizes")).endswith(".csv")
        total = nbytes if nbytes is not None or stated else "1MB"
        made = build(kind, fabric, ranks, total, algorithm=algorithm, set=read_settings(set))
        moved, on = made.schedule, made.fabric
    size = moved.collective.nbytes if nbytes is None else parse(nbytes, "size")
    moved = moved.resized(size)
    with needing_torch("executing"):
        from lightloom.exchange.execution_trial import try_schedule, values_of
        from lightloom.exchange.transport.channel import LaunchError
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
    return Shown(document, _parts(document))


def _parts(document: Document) -> Iterator[str]:
    """Yield lines on what ran, how exactly it agrees with torch.distributed's own collective, and how long both
    took."""
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
