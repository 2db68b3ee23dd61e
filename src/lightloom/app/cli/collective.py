"""``lightloom collective``: one collective on one fabric, every algorithm beside its lower bound."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from rich.table import Table
from rich.text import Text

from lightloom.app.api.arguments import collective_of
from lightloom.app.api.collectives import CollectiveRanking
from lightloom.app.api.collectives import collective as rank_algorithms
from lightloom.app.cli.options import (
    SITE_FIELDS,
    FabricName,
    FigureFile,
    Kind,
    Options,
    Ranks,
    Settings,
    Shown,
    SiteFields,
    Wavelengths,
    draw,
    read_settings,
    site_inputs,
)
from lightloom.collectives.collective import OF_SIZE, SIZED, Collective
from lightloom.collectives.cost.stepped import straggling
from lightloom.collectives.registry import Refusal, admitted, around_failures, attempt, build
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, provenance
from lightloom.core.units import format_ratio, format_size, format_time, parse
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import Failure, damaged
from lightloom.machines.fabrics.load import load_fabric
from lightloom.planning.economics.ledger import TITLE, ledger_notes, ledger_rows
from lightloom.reports.console import collective_table, make_console, plain_table, rows_table
from lightloom.reports.figures.comparisons import damage_figure
from lightloom.reports.progress import progress
from lightloom.reports.report import CollectiveRow


def collective(
    kind: Kind,
    *,
    fabric: FabricName,
    ranks: Ranks,
    wavelengths: Wavelengths = None,
    set: Settings = None,
    rank: Annotated[partial[CollectiveRanking], Options(rank_algorithms)],
    site: SiteFields = None,
    figure: FigureFile = None,
) -> Shown:
    """Build, verify and cost schedules of one collective.

    Args:
        figure: Draw the fastest schedule: wavelength, link, time (.svg, .png, .pdf).
    """
    ranking = rank(
        kind, fabric, ranks, site=site_inputs({}, site, fields=SITE_FIELDS[:4]), set=read_settings(set, wavelengths)
    )
    document = ranking.to_json()
    written = {"drawn": draw(figure, ranking.winner.figure, document)}
    return Shown(document, _collective_parts(ranking), written)


def _collective_parts(ranking: CollectiveRanking) -> Iterator[str | Text | Table]:
    """Yield the table of algorithms, the bound, the library's time, dollars and joules of the fastest schedule,
    warnings, and the algorithms that failed."""
    bound = ranking.winner.lower_bound
    rows = [CollectiveRow(schedule.algorithm, schedule.cost, schedule.lower_bound) for schedule in ranking]
    yield collective_table(rows, make_console().width, title=ranking.title)
    yield f"every schedule verified; lower bound {format_time(bound.time)}, set by {bound.bound_by}"
    if any(schedule.repeated_ratio for schedule in ranking):
        setup = ranking.winner.cost.setup
        yield (
            f"steady: times the bound of {format_time(bound.time - setup)} without the first set-up of circuits, which "
            f"takes {format_time(setup)}"
        )
    if (seconds := ranking.library_time) is not None:
        yield f"the fabric's collective library takes {format_time(seconds)}, by a closed form that is no schedule"
    elif not ranking.fabric.exclusive and ranking.fabric.library is None:
        yield "software adds nothing: the fabric states no transport"
    ledger = {f"{ranking.fabric.kind_name}, {ranking.winner.algorithm}": ranking.ledger_of(ranking.winner)}
    yield plain_table(
        ("", *ledger), ledger_rows(ledger, "run"), title=f"{TITLE.lower()} of the fabric", left=("", *ledger)
    )
    yield from (Text(line, style="dim") for line in ledger_notes(ledger))
    yield from (f"warning: {line}" for line in ranking.fabric.warnings)
    yield from (f"refused {refusal.algorithm}: {refusal.why}" for refusal in ranking.refused if refusal.failed)


# ``lightloom damage``: what failures cost a collective, and what one straggler does.

_KINDS = (*OF_SIZE, "barrier")
_PLAYED = ("synthesized", "ring-two-way-striped", "optree-striped", "wrht-striped", "one-stage-striped")
"""Algorithms whose stragglers are compared, where they serve."""


def damage(
    kind: str,
    *,
    ranks: int,
    fabric: str = "wdm-ring",
    wavelengths: Wavelengths = None,
    nbytes: str | None = None,
    nbytes_per_rank: str | None = None,
    set: Settings = None,
    kill: list[str] | None = None,
    together: bool = False,
    late: str | None = None,
    slow: str | None = None,
    figure: FigureFile = None,
) -> Shown:
    """Synthesize around failures; every rank's share stays as large as it was.

    Args:
        kind: all-gather, reduce-scatter, all-reduce, all-to-all, broadcast, reduce, gather, scatter, permute or
            barrier.
        ranks: Nodes before anything fails.
        fabric: A fabric of the catalog, or a YAML file.
        nbytes: What every rank holds in the end, or at the start.
        nbytes_per_rank: The same, divided by the number of ranks.
        kill: wavelength:3, transceiver:9:2, segment:17:clockwise, cable:17, link:3:4, plane:2, node:5 or dark-node:5;
            repeatable.
        together: All failures at once, besides one by one.
        late (TIME): One rank starts so much later.
        slow (TIMES): One rank sends so many times slower.
        figure: Draw times and bounds (.svg, .png, .pdf).
    """
    failures = [Failure.parse(text) for text in kill or []]
    sound = load_fabric(fabric, ranks, read_settings(set, wavelengths))
    damaged(sound, [])  # Refuses a fabric whose failures are not modelled.
    if kind in SIZED:
        raise ConfigError(f"{kind} has sizes of its own: expected one of {', '.join(_KINDS)}")
    request = collective_of(kind, ranks, nbytes, nbytes_per_rank)
    try:
        slower = 1.0 if slow is None else float(slow)
    except ValueError as error:
        raise ConfigError(f"--slow {slow!r}: expected a number of times") from error
    straggler = 0.0 if late is None else parse(late, "time"), slower
    cases = [[], *([failure] for failure in failures), *([failures] if together and len(failures) > 1 else [])]
    with progress("Failures", len(cases)) as advance:
        rows = around_failures(request, sound, cases, advance)
    broken = [[failure.text() for failure in failures], together]
    stragglers, refused = _stragglers(request, sound, *straggler) if straggler != (0.0, 1.0) else ([], [])
    document = {
        "schema": "lightloom.damage/1",
        "kind": kind,
        "nbytes_per_rank": request.nbytes_per_rank,
        "fabric": sound.model_dump(mode="json"),
        "rows": rows,
        "late_s": straggler[0],
        "slower": straggler[1],
        "stragglers": stragglers,
        "refused": refused,
        "provenance": provenance([kind, request.nbytes, sound.model_dump(mode="json"), broken, straggler]),
    }
    written = {"drawn": draw(figure, partial(damage_figure, rows, kind), document)}
    return Shown(document, _damage_parts(document), written)


def _stragglers(
    request: Collective, sound: Fabric, late: float, slower: float
) -> tuple[list[Document], list[dict[str, str]]]:
    """Return a row for each algorithm that is compared, and the refusals of those that fail. A row has the seconds of
    the sound fabric and how many more one late or slow rank adds: by rank, the most, and the mean; the fastest with its
    worst rank comes first."""
    rows: list[Document] = []
    refused: list[dict[str, str]] = []
    for algorithm in admitted(request.kind, sound):
        if algorithm.name not in _PLAYED:
            continue
        schedule = attempt(algorithm, partial(build, algorithm, request, sound))
        if isinstance(schedule, Refusal):
            refused.append(schedule.to_json())
            continue
        delays = straggling(schedule, sound, late=late, slower=slower)
        row = {
            "algorithm": algorithm.name,
            "time_s": delays.time,
            "worst_rank": delays.worst,
            "worst_s": float(delays.later.max()),
            "mean_s": float(delays.later.mean()),
            "later_s": delays.later.tolist(),
        }
        rows.append(row)
    return sorted(rows, key=lambda row: row["time_s"] + row["worst_s"]), refused


def _damage_parts(document: Document) -> Iterator[str | Table]:
    """Yield the tables of the cases (slowdown and bound are those of what is left) and of the stragglers, and the
    algorithms that failed."""
    rows = [
        {
            "failed": ", ".join(row["failures"]) or "nothing",
            "ranks": row["ranks"],
            "time": format_time(row["time_s"]),
            "slowdown": format_ratio(row["slowdown"]),
            "lower bound": format_time(row["lower_bound_s"]),
            "vs bound": format_ratio(row["time_s"] / row["lower_bound_s"]),
            "bound set by": row["bound_by"],
        }
        for row in document["rows"]
    ]
    yield rows_table(
        rows, title=f"{document['kind']} of {format_size(document['nbytes_per_rank'])} a rank around failures"
    )
    yield "every schedule verified; bounds are those of what is left"
    if document["stragglers"]:
        causes = [f"{format_time(document['late_s'])} late"] if document["late_s"] else []
        causes += [f"{document['slower']:g} times slower"] if document["slower"] != 1 else []
        played = [
            (row["algorithm"], *map(format_time, (row["time_s"], row["worst_s"], row["mean_s"])))
            for row in document["stragglers"]
        ]
        yield ""
        names = ("algorithm", "time", "worst rank adds", "mean rank adds")
        yield plain_table(names, played, title=f"one rank {' and '.join(causes)}, nothing failed")
    yield from (f"refused {refusal['algorithm']}: {refusal['why']}" for refusal in document["refused"])
