"""``lightloom damage``: what failures cost a collective on a ring of wavelengths, and what one straggler does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from lightloom.collectives.spec import Collective
    from lightloom.fabrics.damage import Failure
    from lightloom.fabrics.wdm_ring import WdmRing

_PLAYED = ("synthesized", "ring-two-way-striped", "optree-striped", "wrht-striped", "one-stage-striped")
"""Algorithms whose stragglers are compared, where they serve."""


def damage(
    kind: Annotated[str, typer.Argument(help="all-gather, reduce-scatter or all-reduce.")],
    ranks: Annotated[str, typer.Option(metavar="N", help="Nodes of the ring before anything fails.")],
    fabric: Annotated[str, typer.Option(help="A ring of wavelengths of the catalog, or a YAML file.")] = "wdm-ring",
    wavelengths: Annotated[str | None, typer.Option(metavar="W", help="Wavelengths of a fibre.")] = None,
    nbytes: Annotated[str | None, typer.Option(help="What every rank holds in the end, or at the start.")] = None,
    nbytes_per_rank: Annotated[str | None, typer.Option(help="The same, divided by the number of ranks.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="field=value of the fabric; repeatable.")] = None,
    kill: Annotated[
        list[str] | None,
        typer.Option(
            help="wavelength:3, transceiver:9:2, segment:17:clockwise, cable:17, node:5 or dark-node:5; repeatable."
        ),
    ] = None,
    together: Annotated[bool, typer.Option("--together", help="All failures at once, besides one by one.")] = False,
    late: Annotated[str | None, typer.Option(metavar="TIME", help="One rank starts so much later.")] = None,
    slow: Annotated[str | None, typer.Option(metavar="TIMES", help="One rank sends so many times slower.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw times and bounds (.svg, .png, .pdf).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Synthesize around failures; every rank's share stays as large as it was."""
    from lightloom.cli.collective import _total
    from lightloom.cli.output import print_json, read_count
    from lightloom.collectives.spec import Collective
    from lightloom.core.files import check_writable
    from lightloom.core.provenance import provenance, provenance_line
    from lightloom.fabrics.damage import Failure
    from lightloom.reports.figures.base import check_format, save

    failures = [Failure.parse(text) for text in kill or []]
    members = read_count(ranks, "--ranks")
    on = _ring(fabric, members, wavelengths, settings or [])
    wanted = Collective(cast(Any, kind), members, _total(nbytes, nbytes_per_rank, members))
    straggler = _straggler(late, slow)
    if figure is not None:
        check_format(figure)
        check_writable(figure)
    rows = _measured(wanted, on, failures, together)
    origin = provenance([kind, wanted.nbytes, on.model_dump(mode="json"), [each.text() for each in failures]])
    document = {
        "schema": "lightloom.damage/1",
        "kind": kind,
        "nbytes_per_rank": wanted.nbytes_per_rank,
        "fabric": on.model_dump(mode="json"),
        "rows": rows,
        "late_s": straggler[0],
        "slower": straggler[1],
        "stragglers": _stragglers(wanted, on, *straggler) if straggler != (0.0, 1.0) else [],
        "provenance": origin,
    }
    if figure is not None:
        from lightloom.reports.figures.damage_figure import damage_figure

        save(damage_figure(rows, kind), figure, provenance_line(origin))
    if as_json:
        print_json(document)
    else:
        _print(document, figure, provenance_line(origin))


def _ring(name: str, ranks: int, wavelengths: str | None, settings: list[str]) -> WdmRing:
    from lightloom.cli.output import read_count, read_settings
    from lightloom.core.errors import UnsupportedError
    from lightloom.fabrics.load import load_fabric
    from lightloom.fabrics.wdm_ring import WdmRing

    chosen = read_settings(settings)
    if wavelengths is not None:
        chosen["wavelengths"] = read_count(wavelengths, "--wavelengths")
    on = load_fabric(name, ranks, chosen)
    if not isinstance(on, WdmRing):
        raise UnsupportedError(f"damage to a {type(on).__name__}: expected a ring of wavelengths (wdm-ring)")
    return on


def _straggler(late: str | None, slow: str | None) -> tuple[float, float]:
    from lightloom.core.errors import ConfigError
    from lightloom.core.units import parse

    try:
        slower = 1.0 if slow is None else float(slow)
    except ValueError as error:
        raise ConfigError(f"--slow {slow!r}: expected a number of times") from error
    return (0.0 if late is None else parse(late, "time")), slower


def _measured(wanted: Collective, on: WdmRing, failures: list[Failure], together: bool) -> list[dict[str, Any]]:
    """The sound ring first, then each case."""
    from lightloom.collectives.evaluate import evaluate
    from lightloom.collectives.registry import find
    from lightloom.collectives.spec import Collective
    from lightloom.fabrics.damage import damaged
    from lightloom.reports.progress import progress

    cases = [[], *([each] for each in failures), *([failures] if together and len(failures) > 1 else [])]
    fabrics = [damaged(on, case) if case else on for case in cases]
    rows: list[dict[str, Any]] = []
    with progress("Failures", len(cases)) as advance:
        for case, left in zip(cases, fabrics, strict=True):
            asked = Collective(wanted.kind, left.ranks, wanted.nbytes_per_rank * left.ranks)
            found = evaluate(find("synthesized"), asked, left)
            rows.append(
                {
                    "failures": [each.text() for each in case],
                    "ranks": left.ranks,
                    "time_s": found.cost.time,
                    "slowdown": found.cost.time / rows[0]["time_s"] if rows else 1.0,
                    "lower_bound_s": found.bound.time,
                    "bound_by": found.bound.bound_by,
                    "verified": True,
                    "notes": list(found.schedule.notes),
                }
            )
            advance(1)
    return rows


def _stragglers(wanted: Collective, on: WdmRing, late: float, slower: float) -> list[dict[str, Any]]:
    """What the worst and the average rank delay on the sound ring, by algorithm."""
    from lightloom.collectives.cost.straggling import straggling
    from lightloom.collectives.registry import admitted, build

    rows = []
    for each in admitted(wanted.kind, on):
        if each.name in _PLAYED:
            found = straggling(build(each, wanted, on), on, late=late, slower=slower)
            rows.append(
                {
                    "algorithm": each.name,
                    "time_s": found.time,
                    "worst_rank": found.worst,
                    "worst_s": float(found.later.max()),
                    "mean_s": float(found.later.mean()),
                    "later_s": found.later.tolist(),
                }
            )
    return sorted(rows, key=lambda row: row["time_s"] + row["worst_s"])


def _print(document: dict[str, Any], figure: Path | None, origin: str) -> None:
    from lightloom.core.units import format_size, format_time
    from lightloom.reports.console import make_console, plain_table
    from lightloom.reports.numbers import format_ratio

    console = make_console()
    rows = [
        (
            ", ".join(row["failures"]) or "nothing",
            str(row["ranks"]),
            format_time(row["time_s"]),
            format_ratio(row["slowdown"]),
            format_time(row["lower_bound_s"]),
            format_ratio(row["time_s"] / row["lower_bound_s"]),
            row["bound_by"],
        )
        for row in document["rows"]
    ]
    title = f"{document['kind']} of {format_size(document['nbytes_per_rank'])} a rank around failures"
    columns = ("failed", "ranks", "time", "slowdown", "lower bound", "vs bound", "bound set by")
    console.print(plain_table(columns, rows, title=title))
    console.print("every schedule verified; bounds are those of the damaged ring")
    if document["stragglers"]:
        said = [f"{format_time(document['late_s'])} late"] if document["late_s"] else []
        said += [f"{document['slower']:g} times slower"] if document["slower"] != 1 else []
        played = [
            (row["algorithm"], *map(format_time, (row["time_s"], row["worst_s"], row["mean_s"])))
            for row in document["stragglers"]
        ]
        console.print("")
        names = ("algorithm", "time", "worst rank adds", "mean rank adds")
        console.print(plain_table(names, played, title=f"one rank {' and '.join(said)}, nothing failed"))
    console.print(origin, style="dim")
    if figure is not None:
        console.print(f"drawn: {figure}", soft_wrap=True)
