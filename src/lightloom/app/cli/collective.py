"""``lightloom collective``: one collective on one fabric, every algorithm beside its lower bound; around failures."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, Field
from rich.text import Text

from lightloom.app.api.arguments import collective_of
from lightloom.app.api.collectives import CollectiveRanking, VerifiedSchedule, synthesize
from lightloom.app.api.collectives import collective as rank_algorithms
from lightloom.app.cli import options
from lightloom.app.cli.schedule import ScheduleFile, write_schedule
from lightloom.collectives.collective import OF_SIZE, SIZED, Collective
from lightloom.collectives.cost.stepped import straggling
from lightloom.collectives.registry import Refusal, admitted, around_failures, attempt, build
from lightloom.core.answer import MOST_ROWS
from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Seconds
from lightloom.core.results import Document, cells, in_groups, provenance
from lightloom.core.units import format_ratio, format_size, format_time
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import Failure, damaged
from lightloom.machines.fabrics.load import load_fabric
from lightloom.planning.economics.ledger import TITLE, ledger_notes, ledger_rows
from lightloom.reports.console import Parts, plain_table, rows_table, screen
from lightloom.reports.figures.comparisons import damage_figure
from lightloom.reports.progress import progress


def collective(
    kind: options.Kind,
    *,
    fabric: options.FabricName,
    ranks: options.Ranks,
    set: options.Settings = None,
    rank: Annotated[partial[CollectiveRanking], options.Options(rank_algorithms)],
    without: list[str] | None = None,
    straggler: list[str] | None = None,
    out: ScheduleFile = None,
    largest: str = "1GB",
    all: bool = False,
    explain: bool = False,
    worth: bool = False,
    site: options.SiteFields = None,
    figure: options.FigureFile = None,
    as_json: bool = False,
) -> options.Shown:
    """Rank the algorithms that carry a collective on a fabric, each verified and held against its bound.

    For example: lightloom collective all-reduce --fabric torus --ranks 64 --nbytes 64MiB

    Args:
        algorithm: Rank this algorithm alone; repeatable.
        without (FAILURE): Synthesize around wavelength:3, transceiver:9:2, segment:17:clockwise, cable:17, link:3:4,
            plane:2, node:5 or dark-node:5, or several that fail together, joined by commas; repeatable for another
            case. Every rank's share stays as large as it was.
        straggler (late=TIME|slow=TIMES): Also play every rank in turn as one that starts so much later, or sends so
            many times slower; repeatable.
        out (FILE): Write the fastest schedule: JSON (.json), Parquet (.parquet), Arrow (.arrow), Chakra traces (.et:
            one a rank), MSCCL (.xml: the fastest that fits a program of MSCCL).
        largest (SIZE): Most bytes to write; nothing is written where there are more.
        all: Show every algorithm, and every case.
        explain: Show where the time of each goes, and why others cannot serve.
        worth: Show dollars, watts and joules of the fabric.
        figure: Draw the fastest schedule, wavelength, link and time, or times around failures (.svg, .png, .pdf).

    ``kind`` is the collective, such as all-reduce; ``fabric`` a name of the catalog or a YAML file, with ``ranks``
    ranks and the ``field=value`` texts of ``set``. ``rank`` is :func:`lightloom.collective` with its other options
    bound to it, such as ``nbytes``. ``site`` are ``field=value`` texts of what turns parts and watts into dollars;
    ``as_json`` asks for the document.

    Returns:
        The result to print: the ranking, or with ``without`` or ``straggler`` the times around failures; files that are
            asked for are written.

    Raises:
        InputError: options that cannot be read or exclude each other, or no algorithm that serves.
    """
    fields = options.read_settings(set)
    if without or straggler:
        sound = load_fabric(fabric, ranks, set=fields)
        asked = {**rank.keywords, "explain": explain, "worth": worth, "site": site}
        document, made = _around(kind, sound, asked, without or (), straggler, saved=out is not None)
        drawn = options.draw(figure, partial(damage_figure, document["rows"], kind), document)
        parts = _damage_parts(document, all)
    else:
        ranking = rank(
            kind, fabric, ranks, site=options.site_inputs({}, site, fields=options.SITE_FIELDS[:4]), set=fields
        )
        document, made = ranking.to_json() if as_json or figure is not None else {}, ranking.ranking
        drawn = options.draw(figure, ranking.figure, document)
        question = f"{ranking.title.partition(', ')[0]} of {', '.join([fabric, *(set or ())])}"
        parts = _ranking_parts(ranking, question, all, explain, worth or site is not None)
    written, files = write_schedule(made, out, largest)
    document |= {"files": [*map(str, files)]} if files else {}
    return options.Shown(document, parts, {"drawn": drawn, **written})


def _ranking_parts(ranking: CollectiveRanking, question: str, all: bool, explain: bool, worth: bool) -> Parts:
    """Yield what the terminal shows of a ranking: the winner's time against the lower bound (with the share of set-ups,
    the time of a collective library, which algorithms failed, and the fabric's warnings, where there are any), a table
    of algorithms with steps, time and ratio to the bound, the fastest first, changed questions, and what sets the
    bound; with ``explain`` where the time of each shown goes and why the refused cannot serve, with ``worth`` dollars
    and joules of the fastest schedule.

    ``question`` is the heading; ``all`` shows every algorithm instead of the fastest of each family (variants of one
    algorithm, such as both ways around a ring), eight at most.
    """
    winner, bound, setup = ranking.winner, ranking.winner.lower_bound, ranking.winner.cost.setup
    shown = [*ranking] if all else ranking.families()[:MOST_ROWS]
    steady = any(schedule.repeated_ratio for schedule in shown)
    columns = ["algorithm", "steps", "time", "vs bound", *(["steady"] if steady else [])]
    ratio = format_ratio(winner.ratio)
    against = "no schedule is faster" if ratio == "1×" else f"{ratio} the lower bound"
    meaning = [f"{100 * setup / winner.time:.0f} % of it sets up circuits, once"] if setup else []
    if (seconds := ranking.library_time) is not None:
        meaning.append(f"the fabric's collective library takes {format_time(seconds)}, by a closed form")
    failed = [refusal.algorithm for refusal in ranking.refused if refusal.failed]
    meaning += [f"failed, --explain says why: {', '.join(failed)}"] if failed else []
    yield from screen(
        question + (", in the cost model of papers" if ranking.cost_model == "paper" else ""),
        [
            f"{winner.algorithm}   {format_time(winner.time)}, verified; {against}",
            *filter(None, ["; ".join(meaning), *ranking.fabric.warnings]),
        ],
        [{name: schedule.display_rows()[0][name] for name in columns} for schedule in shown],
        all=True,
        legend="vs bound: 1× is the proved lower bound"
        + ("; steady: without the first set-up; –: new circuits at each step" if steady else ""),
        hidden=len(ranking) - len(shown),
        what_if=[*_what_ifs(ranking)],
        limit=f"no schedule takes less than {format_time(bound.time)}, set by {bound.bound_by}",
        more=["--out FILE.json, .xml, .et saves it", "--figure FILE.png draws it", "--explain", "--worth"],
    )
    if explain:
        yield from ("", *(f"{schedule.algorithm}: {schedule.cost.summary()}" for schedule in shown))
        reasons = in_groups(ranking.refused, lambda refusal: refusal.why.removeprefix(f"{refusal.algorithm} "))
        for why, refusals in reasons.items():
            yield f"refused {', '.join(refusal.algorithm for refusal in refusals)}: {why}"
    if worth:
        ledger = {winner.algorithm: ranking.ledger_of(winner)}
        yield from ("", Text(f"{TITLE} of the fabric", "bold"))
        yield plain_table(("", *ledger), ledger_rows(ledger, "run"), left=("", *ledger))
        yield from (Text(line, style="dim") for line in ledger_notes(ledger))


def _what_ifs(ranking: CollectiveRanking) -> Iterator[str]:
    """Yield a text for each change of the question (twice the bandwidth, half the set-up time, ten times and a tenth of
    the bytes), as ``twice the bandwidth: 1.2 ms, -48 % by ring``: the change, the fastest time, its difference in per
    cent from the winner's (only where the collective is of the same size), and the algorithm where another is the
    fastest. Changes that nothing serves are left out; none are tried among more than 64 ranks."""
    was = ranking.winner
    for words, changed in ranking.what_ifs():
        now = changed.winner
        change = "" if changed.collective != ranking.collective else f", {100 * (now.time / was.time - 1):+.0f} %"
        yield f"{words}: {format_time(now.time)}{change}" + (f" by {now.algorithm}" * (now.algorithm != was.algorithm))


# What failures cost a collective, and what one straggler does.

_KINDS = (*OF_SIZE, "barrier")
_PLAYED = ("synthesized", "ring-two-way-striped", "optree-striped", "wrht-striped", "one-stage-striped")
"""Algorithms whose stragglers are compared, where they serve."""


class _Straggler(BaseModel, frozen=True, extra="forbid"):
    """The rank that starts late or sends slowly: fields that ``--straggler`` takes."""

    late: Seconds = 0.0
    slow: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0


def _around(
    kind: str, sound: Fabric, asked: Mapping[str, Any], without: Sequence[str], straggler: list[str] | None, saved: bool
) -> tuple[Document, Sequence[VerifiedSchedule]]:
    """Return (document of a collective around failures and beside a straggler, schedules to write).

    The document has ``kind``, ``nbytes_per_rank``, ``fabric``, ``rows``, one for each case (``failures``, ``ranks``
    that are left, ``time_s``, ``slowdown``, that over the time of nothing failed, ``lower_bound_s`` on what is left and
    what sets it, ``bound_by``, ``verified``, always True, ``notes``; a rank's bytes stay the same), ``late_s`` and
    ``slower`` of the straggler (0 seconds and the factor 1 without one), ``stragglers`` and ``refused``, the rows and
    refusals of :func:`_stragglers`, both empty without one.

    Args:
        kind: of the collective.
        sound: the fabric without failures.
        asked: options of a ranking of algorithms by name, of which only the size goes with failures.
        without: texts of ``--without``, a case of failures each; nothing failed is the first case always.
        straggler: texts of ``--straggler``.
        saved: whether the schedule of the only case of ``without`` is to be written, which then is the one in the
            result; otherwise there are none.

    Raises:
        ConfigError: other options or a kind that do not go with failures, texts that cannot be read, something failed
            that the fabric does not have, parts of it that cannot reach each other, or other than one different case in
            ``without`` where one is ``saved``.
        UnsupportedError: failures of this fabric are not modelled, the kind cannot be synthesized on what is left, or a
            straggler on a fabric that switches packets.
    """
    damaged(sound, [])  # Refuses a fabric whose failures are not modelled.
    if kind in SIZED:
        raise ConfigError(f"{kind} has sizes of its own: expected one of {', '.join(_KINDS)}")
    for name in ("algorithm", "cost_model", "permutation", "explain", "worth", "site"):
        if asked.get(name) not in (None, False, "physical"):
            raise ConfigError(f"--{name.replace('_', '-')}: schedules around failures are synthesized: expected none")
    request = collective_of(kind, sound.ranks, asked.get("nbytes"), asked.get("nbytes_per_rank"))
    texts = [*dict.fromkeys(["", *without])]
    cases = [[Failure.parse(part.strip()) for part in text.split(",") if text] for text in texts]
    if saved and len(cases) != 2:
        raise ConfigError("--out writes one schedule: expected one --without, e.g. node:5,cable:17")
    delay = validate(
        _Straggler, options.read_pairs(straggler, "--straggler {!r}", "late=TIME or slow=TIMES"), "--straggler"
    )
    with progress("Failures", len(cases)) as advance:
        rows = around_failures(request, sound, cases, advance)
    stragglers, refused = _stragglers(request, sound, delay.late, delay.slow) if delay != _Straggler() else ([], [])
    document = {
        "schema": "lightloom.damage/1",
        "kind": kind,
        "nbytes_per_rank": request.nbytes_per_rank,
        "fabric": sound.model_dump(mode="json"),
        "rows": rows,
        "late_s": delay.late,
        "slower": delay.slow,
        "stragglers": stragglers,
        "refused": refused,
        "provenance": provenance([kind, request.nbytes, sound.model_dump(mode="json"), texts, delay.late, delay.slow]),
    }
    if not saved:
        return document, []
    left = damaged(sound, cases[-1])
    return document, [synthesize(kind, left, nbytes=request.nbytes_per_rank * left.ranks)]


def _stragglers(
    request: Collective, sound: Fabric, late: float, slower: float
) -> tuple[list[Document], list[dict[str, str]]]:
    """Return (rows, refusals): a row for each of the five algorithms that are compared (``synthesized`` and four
    striped ones) that serves, and ``algorithm`` and ``why`` of those that fail; one that cannot serve the kind on the
    fabric is in neither.

    A row has ``algorithm`` and ``time_s``, the seconds with no straggler, and how many seconds more one rank adds that
    starts ``late`` seconds later and sends ``slower`` times slower, each rank in turn: by rank (``later_s``), the most
    (``worst_s``, of ``worst_rank``), and the mean (``mean_s``). The fastest with its worst rank comes first. An
    algorithm fails by any Exception while its schedule is built, except BoundError, a cost below its lower bound.
    UnsupportedError on a fabric that switches packets.
    """
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
        row = {"algorithm": algorithm.name, "time_s": delays.time, "worst_rank": delays.worst}
        row |= {"worst_s": float(delays.later.max()), "mean_s": float(delays.later.mean())}
        rows.append({**row, "later_s": delays.later.tolist()})
    return sorted(rows, key=lambda row: row["time_s"] + row["worst_s"]), refused


def _damage_parts(document: Document, all: bool) -> Parts:
    """Yield what the terminal shows of the document of :func:`_around`: the case that slows most and what one straggler
    adds, then each case of failures (the first eight, or with ``all`` every one) with the ranks that are left, its
    time, its slowdown against nothing failed and its ratio to the bound of what is left; where there are only
    stragglers and no failures, a row for each algorithm instead, with its time and the seconds that the worst and a
    mean rank add.

    Beside cases the table of stragglers is shown with ``all`` only. Algorithms that failed come last.
    """
    cases, played = document["rows"], document["stragglers"]
    late = [f"{format_time(document['late_s'])} late"] if document["late_s"] else []
    late += [f"{document['slower']:g} times slower"] if document["slower"] != 1 else []
    columns = "algorithm: {algorithm} | time: {time_s:time} | worst rank adds: {worst_s:time} | "
    straggling_rows = cells(f"{columns}mean rank adds: {{mean_s:time}}", played)
    rows = cells(
        "failed: {what} | ranks: {ranks:,} | time: {time_s:time} | slowdown: {slowdown:ratio} | vs bound: {off:ratio}",
        [
            {"what": ", ".join(row["failures"]) or "nothing", "off": row["time_s"] / row["lower_bound_s"], **row}
            for row in cases
        ],
    )
    worst = max(cases, key=lambda row: row["slowdown"])
    failed = ", ".join(worst["failures"])
    against = f"{worst['slowdown']:.3g} times the {format_time(cases[0]['time_s'])} of the sound fabric"
    best = [f"{format_time(worst['time_s'])} " + (f"without {failed}: {against}" if failed else "where nothing fails")]
    if played:
        adds = f"at most {straggling_rows[0]['worst rank adds']}, {straggling_rows[0]['mean rank adds']} on average"
        best.append(f"one rank {' and '.join(late)} adds {adds} ({straggling_rows[0]['algorithm']})")
    alone = len(cases) == 1 and bool(played)
    shown = straggling_rows if alone else rows if all else rows[:MOST_ROWS]
    yield from screen(
        f"{document['kind']} of {format_size(document['nbytes_per_rank'])} a rank over "
        f"{cases[0]['ranks']:,} ranks of a {document['fabric']['kind']}, "
        f"{'one a straggler' if alone else 'around failures'}, verified",
        best,
        shown,
        all=True,
        legend="" if alone else "slowdown: against nothing failed; vs bound: 1× is the bound of what is left",
        hidden=0 if alone or all else len(rows) - len(shown) + len(played),
        limit=f"no schedule{' around that' if failed else ''} takes less than "
        f"{format_time(worst['lower_bound_s'])}, set by {worst['bound_by']}",
        more=["--figure FILE.png draws the times", "--out FILE.json, .xml, .et saves a schedule of one case"],
    )
    if played and all and not alone:
        yield from ("", rows_table(straggling_rows, title=f"one rank {' and '.join(late)}, nothing failed"))
    yield from (f"refused {refusal['algorithm']}: {refusal['why']}" for refusal in document["refused"])
