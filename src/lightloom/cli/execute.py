"""``lightloom execute``: a schedule on real tensors, in as many processes as it has ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lightloom.api.collectives import synthesize
from lightloom.cli.options import (
    KIND_HELP,
    FabricName,
    Json,
    Permutation,
    Ranks,
    Settings,
    Sizes,
    count_option,
    option,
)
from lightloom.cli.output import print_result, read_settings
from lightloom.collectives.spec import SIZED
from lightloom.core.errors import ConfigError, UnsupportedError, VerificationError
from lightloom.core.provenance import provenance
from lightloom.core.results import Document
from lightloom.core.units import format_time, parse
from lightloom.interchange.files import read_schedule
from lightloom.workloads.resolve import INSTALL_TORCH

if TYPE_CHECKING:
    from lightloom.collectives.schedule.columns import Schedule
    from lightloom.training.schedules.trial import Trial


_Schedule = Annotated[Path | None, typer.Argument(help="A schedule's file (.json, .parquet, .arrow); or --algorithm.")]
_Nbytes = Annotated[
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
    nbytes: _Nbytes = None,
    dtype: Annotated[str, option("int32, int64, float32, float64 or bfloat16.")] = "int64",
    rounds: Annotated[int, count_option("--rounds", "Timed executions.", least=1)] = 5,
    seed: Annotated[int, count_option("--seed", "Seed of the values.")] = 0,
    timeout: Annotated[str, option("Time allowed for the whole command.")] = "120s",
    as_json: Json = False,
) -> None:
    """Execute a schedule over gloo on this host's loopback, and compare with torch.distributed's own collective."""
    if (schedule is None) == (algorithm is None):
        raise ConfigError("give either a schedule's file or --algorithm NAME")
    patience = parse(timeout, "time")
    if patience <= 0:
        raise ConfigError(f"--timeout {timeout}: expected more than 0")
    if schedule is not None:
        moved, on = read_schedule(schedule)
    else:
        stated = kind == "barrier" or (sizes is not None and sizes.endswith(".csv"))
        made = synthesize(
            kind,
            fabric,
            ranks,
            nbytes if nbytes is not None or stated else "1MB",
            permutation=permutation,
            sizes=sizes,
            algorithm=str(algorithm),
            set=read_settings(settings),
        )
        moved, on = made.schedule, made.fabric
    size = moved.collective.nbytes if nbytes is None else parse(nbytes, "size")
    moved = moved.resized(size)
    try:
        from lightloom.training.schedules.trial import try_schedule, values_of
        from lightloom.training.transport.errors import LaunchError
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
    document = _document(moved, trial) | {"provenance": provenance([trial.content, values, dtype, rounds], seed)}
    print_result(document, as_json, _parts(document))


def _document(schedule: Schedule, trial: Trial) -> Document:
    return {
        "schema": "lightloom.execution/1",
        "algorithm": schedule.algorithm,
        "kind": schedule.collective.kind,
        "ranks": schedule.collective.ranks,
        "chunks": schedule.chunks,
        "queued": schedule.queued,
        "right": trial.right,
        **asdict(trial),
    }


def _parts(document: Document) -> Iterator[str]:
    """What ran, how exactly it agrees, and how long it took."""
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
