"""``lightloom schedule``: a schedule's file, verified, written in another form, or executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lightloom.app.api.collectives import VerifiedSchedule, verify
from lightloom.app.cli.options import Options, Settings, Shown, check_file, read_settings
from lightloom.collectives.collective import SIZED
from lightloom.collectives.files.document import checked_suffix
from lightloom.collectives.files.formats import FORMATS, export_size
from lightloom.collectives.files.msccl.check import document, sentence
from lightloom.collectives.files.msccl.read import check_program
from lightloom.collectives.files.msccl.write import NAMES
from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError, UnsupportedError, VerificationError, needing_torch
from lightloom.core.fields import Count, Seconds
from lightloom.core.results import Document, attributes, provenance
from lightloom.core.units import format_ratio, format_size, format_time, parse
from lightloom.reports.console import Parts, screen


def _check_output(output: Path) -> None:
    """Check before the work that a schedule can be written to a file of this name.

    Raises:
        UnsupportedError: the suffix is that of no form of schedules.
        ConfigError: a place that cannot be written to.
    """
    checked_suffix(output, FORMATS)
    check_file(output)


ScheduleFile = Annotated[Path | None, _check_output]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a schedule is executed: fields that ``--set`` takes with ``--execute``."""

    dtype: str = "int64"
    rounds: Count = 5
    """Number of timed executions."""
    seed: int = 0
    """Seed of the values."""
    timeout: Seconds = 120.0
    """Seconds in which all of it must be done."""


def schedule(
    source: Path,
    *,
    read: Annotated[partial[VerifiedSchedule], Options(verify)],
    set: Settings = None,
    out: ScheduleFile = None,
    largest: str = "1GB",
    execute: bool = False,
) -> Shown:
    """Verify a schedule's file; write it in another form; execute it.

    For example: lightloom schedule all-gather.json --out all-gather.xml

    Args:
        source (FILE): A schedule: JSON (.json), Parquet (.parquet), Arrow (.arrow), Chakra traces (.et: one a rank),
            MSCCL (.xml), of which without --fabric is said what it computes.
        nbytes (SIZE): Size of the collective, for a program of MSCCL, which states none, and for --execute.
        set: field=value of the fabric; with --execute also dtype (int32, int64, float32, float64 or bfloat16), rounds,
            seed or timeout; repeatable.
        out (FILE): Write the schedule in the form that the name's suffix says.
        largest (SIZE): Most bytes to write; nothing is written where there are more.
        execute: Execute it in a process for each rank over gloo on this host's loopback, and compare the result with
            torch.distributed's own collective.

    ``read`` is :func:`lightloom.verify` with its options bound to it: fabric, ranks and nbytes.

    Returns:
        The result to print: the verified schedule, what a program computes, or with ``execute`` the outcome of the
            execution.

    Raises:
        ConfigError: options that exclude each other, or a malformed file.
        VerificationError: a schedule, or its execution, that does not do what its collective promises.
        UnsupportedError: the form cannot hold the schedule, it takes more than ``largest``, or PyTorch is missing for
            the execution.
    """
    settings = read_settings(set)
    chosen = {each.name: settings.pop(each.name) for each in fields(Execution) if execute and each.name in settings}
    how = validate(Execution, chosen, "--set")
    if not how.timeout:
        raise ConfigError("--set timeout=0: expected more than 0")
    is_program, on_fabric = source.suffix == ".xml", "fabric" in read.keywords
    if on_fabric != ("ranks" in read.keywords) or (settings and not on_fabric):
        raise ConfigError("--fabric and --ranks go together, and --set needs both")
    if is_program and not (on_fabric or out or execute):
        program, runs = check_program(source)
        parts = screen(f"program of MSCCL in {source.name}", sentence(program, runs).splitlines())
        return Shown(document(program, runs), parts)
    nbytes = read.keywords.get("nbytes") if execute else None
    found = read(source, set=settings, **({} if nbytes is None or is_program else {"nbytes": None}))
    written, files = write_schedule([found], out, largest)
    if not execute:
        return Shown(found.to_json(files), _verified(found), written)
    result = _execute(found, nbytes, how)
    return Shown(result, _executed(result), written)


def write_schedule(
    made: Sequence[VerifiedSchedule], out: Path | None, largest: str
) -> tuple[dict[str, Path], list[Path]]:
    """Write the first of the schedules that a program of MSCCL can hold, or the first in any other form, to ``out``,
    and say on stderr how much it will be; return (first file by words such as ``written, with 3 more``, which also name
    the algorithm of another schedule than the first; all files).

    Without ``out`` nothing is written, and both are empty. ``largest`` is the most bytes to write, as text. Where a
    program of MSCCL (.xml) cannot hold a schedule, a warning goes to stderr and the next schedule is tried, unless the
    kind of collective or the size is what is refused.

    Raises:
        UnsupportedError: the form cannot hold the last schedule that is tried, an unknown suffix, or it takes more than
            ``largest``.
    """
    if out is None:
        return {}, []
    for number, each in enumerate(made, 1):
        size = export_size(out, each.schedule)
        typer.echo(f"{out}: {size.summary()}", err=True)
        try:
            files = each.save(out, largest=largest)
        except UnsupportedError as error:
            others = number < len(made) and out.suffix == ".xml" and each.collective.kind in NAMES
            if not others or size.nbytes > parse(largest, "size"):
                raise
            typer.echo(f"warning: {error}; the next fastest is tried", err=True)
            continue
        words = "written" if number == 1 else f"{each.algorithm} written"
        return {f"{words}, with {len(files) - 1} more" if len(files) > 1 else words: files[0]}, files
    return {}, []


def _verified(found: VerifiedSchedule) -> Parts:
    """Return what the terminal shows of a schedule that was verified: its collective, fabric, algorithm and number of
    rows (transfers); its time and how many times its lower bound that is; and what sets that bound."""
    moved, bound = found.collective, found.lower_bound
    return screen(
        f"{moved.kind} of {format_size(moved.nbytes)} over {moved.ranks} ranks ({found.fabric.kind_name}), "
        f"{len(found.schedule):,} rows of {found.algorithm}",
        [
            f"verified, and takes {format_time(found.time)}, {format_ratio(found.ratio)} its lower bound",
            "every contribution arrives exactly once, and no link or node is used beyond what it can do",
        ],
        limit=f"no schedule takes less than {format_time(bound.time)}, set by {bound.bound_by}",
        more=["--out FILE writes it in another form", "--execute runs it on real tensors"],
    )


# A schedule on real tensors, in as many processes as it has ranks.


def _execute(found: VerifiedSchedule, nbytes: str | None, how: Execution) -> Document:
    """Return the document of an execution over processes of this host, each of which compares its result with that of
    torch.distributed: the schedule (``algorithm``, ``kind``, ``ranks``, ``chunks``, ``queued``), ``right`` (True), and
    all fields of the trial, such as ``values`` of a rank, ``messages``, ``seconds`` and ``reference_seconds`` (medians
    over the rounds, of the slowest rank, of ours and of torch.distributed), ``same_bits``, and ``error_over_bound``,
    the largest error of a sum over what rounding allows.

    Args:
        found: the schedule.
        nbytes: size of the collective as text; None for the schedule's own.
        how: type and seed of the values, timed executions, and seconds in which all must be done.

    Raises:
        VerificationError: the results differ by more than rounding allows.
        ConfigError: it is not done within ``how.timeout``, or a size that cannot be read.
        UnsupportedError: PyTorch is missing.
        LaunchError: a process fails for another reason.
    """
    moved = found.schedule
    size = moved.collective.nbytes if nbytes is None else parse(nbytes, "size")
    moved = moved.resized(size)
    with needing_torch("executing"):
        from lightloom.exchange.execution_trial import try_schedule, values_of
        from lightloom.exchange.transport.channel import LaunchError
    values = values_of(moved, size, how.dtype)
    play = partial(try_schedule, rounds=how.rounds, seed=how.seed, timeout=how.timeout)
    try:
        trial = play(moved, found.fabric, how.dtype, values)
    except LaunchError as error:
        if "no result within" not in str(error):
            raise
        raise ConfigError(f"--set timeout={how.timeout:g}s: {error}: expected a time in which all is done") from error
    if not trial.right:
        raise VerificationError(f"{moved.algorithm} does not bring what its {moved.collective.kind} promises")
    return {
        "schema": "lightloom.execution/1",
        **attributes(moved, "algorithm kind=collective.kind ranks=collective.ranks chunks queued"),
        "right": trial.right,
        **asdict(trial),
        "provenance": provenance([trial.content, values, how.dtype, how.rounds], how.seed),
    }


def _executed(result: Document) -> Parts:
    """Return what the terminal shows of an execution: that it has the bits of torch.distributed's own collective, or by
    what share of what rounding allows its sums are off; how long both took; and the number of values of a rank, their
    type, chunks, zeros added and messages."""
    each = "each" if result["kind"] not in (*SIZED, "scatter") else "at most"
    padding = f", {result['padding']} zeros added to each block" if result["padding"] else ""
    ours, theirs = format_time(result["seconds"]), format_time(result["reference_seconds"])
    off = (
        f"sums are off by at most {result['error_over_bound']:.2g} of what rounding allows: another order of additions"
    )
    return screen(
        f"{result['kind']} by {result['algorithm']} in {result['ranks']} processes: {result['values']} values "
        f"of {result['dtype']} {each}, {result['chunks']} chunks{padding}, {result['messages']} messages",
        [
            "every rank has the bits of torch.distributed's own collective" if result["same_bits"] else off,
            f"it takes {ours} over loopback, torch.distributed's own {theirs}",
        ],
        limit="a loopback has no circuits, so that neither time says more",
    )
