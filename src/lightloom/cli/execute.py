"""``lightloom execute``: a schedule on real tensors, in as many processes as it has ranks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from lightloom.collectives.schedule.columns import Schedule
    from lightloom.fabrics.base import Fabric
    from lightloom.training.schedules.trial import Trial


def execute(
    schedule: Annotated[
        Path | None, typer.Argument(help="A schedule's file (.json, .parquet, .arrow); or --algorithm.")
    ] = None,
    algorithm: Annotated[str | None, typer.Option(help="An algorithm by name.")] = None,
    kind: Annotated[str, typer.Option(help="all-gather, reduce-scatter, all-reduce or all-to-all.")] = "all-reduce",
    fabric: Annotated[str, typer.Option(help="A fabric of the catalog, or a YAML file.")] = "wdm-ring",
    ranks: Annotated[str, typer.Option(metavar="N", help="Number of ranks.")] = "8",
    settings: Annotated[list[str] | None, typer.Option("--set", help="field=value of the fabric; repeatable.")] = None,
    nbytes: Annotated[
        str | None,
        typer.Option(help="What every rank holds in the end (all-gather) or at the start (all others); or the file's."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="int32, int64, float32, float64 or bfloat16.")] = "int64",
    rounds: Annotated[str, typer.Option(metavar="N", help="Timed executions.")] = "5",
    seed: Annotated[str, typer.Option(metavar="N", help="Of what ranks bring.")] = "0",
    timeout: Annotated[str, typer.Option(help="For everything.")] = "120s",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Execute a schedule over gloo on this host's loopback, and compare with torch.distributed's own collective."""
    from lightloom.cli.output import print_json, read_count, read_settings
    from lightloom.core.errors import ConfigError, UnsupportedError, VerificationError
    from lightloom.core.provenance import provenance
    from lightloom.core.units import parse
    from lightloom.interchange.files import read_schedule
    from lightloom.training.transport.errors import LaunchError

    if (schedule is None) == (algorithm is None):
        raise ConfigError("give either a schedule's file or --algorithm NAME")
    times, number = read_count(rounds, "--rounds"), read_count(seed, "--seed")
    patience = parse(timeout, "time")
    if times < 1 or patience <= 0:
        raise ConfigError(f"--rounds {times}, --timeout {timeout}: expected at least one round, and some time")
    if schedule is not None:
        moved, on = read_schedule(schedule)
    else:
        size = parse(nbytes or "1MB", "size")
        chosen, members = read_settings(settings or []), read_count(ranks, "--ranks")
        moved, on = _build(str(algorithm), kind, fabric, members, chosen, size)
    size = moved.collective.nbytes if nbytes is None else parse(nbytes, "size")
    try:
        from lightloom.training.schedules.trial import try_schedule, values_of
    except ModuleNotFoundError as error:
        from lightloom.workloads.resolve import INSTALL_TORCH

        raise UnsupportedError(f"executing {INSTALL_TORCH}") from error
    values = values_of(moved, size, dtype)
    try:
        found = try_schedule(moved, on, dtype, values, rounds=times, seed=number, timeout=patience)
    except LaunchError as error:
        if "no result within" not in str(error):
            raise
        raise ConfigError(f"--timeout {timeout}: {error}: expected a time in which all is done") from error
    if not found.right:
        raise VerificationError(f"{moved.algorithm} does not bring what its {moved.collective.kind} promises")
    document = _document(moved, found) | {"provenance": provenance([found.content, values, dtype, times], number)}
    if as_json:
        print_json(document)
    else:
        _print(document)


def _build(
    algorithm: str, kind: str, fabric: str, ranks: int, settings: dict[str, Any], nbytes: float
) -> tuple[Schedule, Fabric]:
    from lightloom.collectives.registry import build, find
    from lightloom.collectives.spec import Collective
    from lightloom.fabrics.load import load_fabric

    on = load_fabric(fabric, ranks, settings)
    wanted = Collective(cast(Any, kind), ranks, nbytes)
    return build(find(algorithm), wanted, on), on


def _document(schedule: Schedule, found: Trial) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "schema": "lightloom.execution/1",
        "algorithm": schedule.algorithm,
        "kind": schedule.collective.kind,
        "ranks": schedule.collective.ranks,
        "chunks": schedule.chunks,
        "queued": schedule.queued,
        **asdict(found),
    }


def _print(document: dict[str, Any]) -> None:
    from lightloom.core.units import format_time
    from lightloom.reports.console import make_console

    say = make_console().print
    padding = f", {document['padding']} zeros added to each block" if document["padding"] else ""
    say(
        f"{document['kind']} by {document['algorithm']} in {document['ranks']} processes: {document['values']} values "
        f"of {document['dtype']} each, {document['chunks']} chunks{padding}, {document['messages']} messages"
    )
    share = f"{document['error_over_bound']:.2g} of what rounding allows"
    say(
        "every rank has the bits of torch.distributed's own collective"
        if document["equal"]
        else f"sums are off by at most {share}; another order of additions than torch.distributed's own"
    )
    ours, theirs = format_time(document["seconds"]), format_time(document["reference_seconds"])
    say(f"{ours} over loopback, torch.distributed's own {theirs}: a loopback has no circuits, so neither says more")
    origin = document["provenance"]
    say(f"lightloom {origin['lightloom']}, configuration {origin['configuration']}, seed {origin['seed']}", style="dim")
