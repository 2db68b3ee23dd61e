"""``lightloom accuracy``: steps and collectives that others measured, predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from rich.text import Text

from lightloom.app.api.accuracy import StepComparison, compare_step
from lightloom.app.api.accuracy import accuracy as predict_steps
from lightloom.app.api.calibrating import CollectiveAccuracy, Fitted, collective_accuracy
from lightloom.app.api.calibrating import calibrate as fit_parameters
from lightloom.app.cli.options import FigureFile, Options, OutFile, Shown, draw
from lightloom.core.answer import MOST_ROWS, Answer
from lightloom.core.errors import ConfigError
from lightloom.planning.calibration.collectives import is_collectives
from lightloom.reports.console import answer_parts, rows_table

if TYPE_CHECKING:
    from lightloom.planning.calibration.accuracy import Accuracy

_Parts = Iterator[str | Text | Table]


def accuracy(
    rows: list[Path],
    *,
    calibration: str | None = None,
    collectives: Annotated[partial[CollectiveAccuracy], Options(collective_accuracy, without=("transport",))],
    figure: FigureFile = None,
    all: bool = False,
) -> Shown:
    """Predict steps, collectives or a profiled step that were measured, and show how near the predictions are.

    `lightloom accuracy steps.csv --calibration rows` predicts each tenth of the rows by a fit to the others.

    Args:
        rows (ROWS.csv): Tables of measured steps or of timed collectives, also names in the folder
            $LIGHTLOOM_MEASURED; or a profile of torch.profiler (.json, .json.gz).
        calibration (FILE|NAME): What predicts: parameters that `calibrate` wrote, a transport such as nccl-hopper for
            collectives, or rows or models: fits that have not seen a tenth of the steps, or a model size. Data sheets
            and publications predict if not given.
        cluster: The cluster on which collectives or a profile were measured, if the file lacks it.
        figure: Draw predicted against measured (.svg, .png, .pdf).
        all: Show every row, and all that is known of a profile.
    """
    stated = collectives.keywords
    if any(map(_is_profile, rows)):
        if len(rows) > 1:
            raise ConfigError(f"{rows[0]} and {rows[1]}: expected one profile at a time")
        for name, value in {"calibration": calibration, "gpus": stated.get("gpus"), "figure": figure}.items():
            if value is not None:
                raise ConfigError(f"--{name}: of tables: expected --cluster alone with a profile")
        step = compare_step(rows[0], stated.get("cluster"))
        return Shown(step.to_json(), _profiled(step, all))
    fits = calibration in ("rows", "models")
    if stated or any(map(is_collectives, rows)):
        if fits:
            raise ConfigError(f"--calibration {calibration}: of steps: expected a transport for collectives")
        timed = collectives(rows, transport=calibration)
        document, drawn, parts = timed.to_json(), timed.figure, _timed(timed, all)
    else:
        chosen: dict[str, Any] = {"cross_validate" if fits else "calibration": calibration}
        report = predict_steps(rows, **chosen)
        document, drawn = report.to_json(), report.figure
        parts = _every_step(report.tables) if all else _steps(report.tables)
    return Shown(document, parts, {"figure": draw(figure, drawn, document)})


def _is_profile(path: Path) -> bool:
    """Return whether a file has the suffix of a profile."""
    return path.suffix == ".json" or path.suffixes[-2:] == [".json", ".gz"]


def _shown(
    rows: Sequence[Mapping[str, object]], all: bool, without: Sequence[str] = (), *, best: Sequence[str], **parts: Any
) -> _Parts:
    """Yield an answer of at most three lines with the first eight rows, or all of them, without some columns."""
    shown = [{name: str(value) for name, value in row.items() if name not in without} for row in rows]
    shown = shown if all else shown[:MOST_ROWS]
    yield from answer_parts(Answer(best=best[:3], rows=shown, hidden=len(rows) - len(shown), **parts))


def _profiled(step: StepComparison, all: bool) -> _Parts:
    """Yield a step part by part, predicted beside measured; with ``all`` everything that is said beside the table."""
    said = step.lines()
    best = list(islice(said, 2))
    rows = step.display_rows()
    yield from _shown(
        rows, all, ("how",), question=f"Is a step of {step.profile.name} predicted?", best=best, more=("--all",)
    )
    if all:
        yield from said


def _timed(report: CollectiveAccuracy, all: bool) -> _Parts:
    """Yield timed collectives, those first whose predictions are furthest off."""
    errors = [-abs(row["error"]) for row in report.rows()]
    rows = [row for _, row in sorted(zip(errors, report.display_rows(), strict=True), key=lambda entry: entry[0])]
    question = f"How near are predictions of {len(rows)} collectives? The furthest off:"
    yield from _shown(rows, all, question=question, best=report.lines(), more=("--figure picture.png",))


def _steps(judged: Sequence[Accuracy]) -> _Parts:
    """Yield the scores and the rows of one table that are furthest off, or the scores of each of several tables."""
    first, *others = judged
    scores = [table.scores for table in judged]
    mean = sum(each.rows * each.mean for each in scores) / sum(each.rows for each in scores)
    held = sum(each.rows * each.coverage for each in scores) / sum(each.rows for each in scores)
    best = (f"a mean error of {mean:.1%}; 90 % intervals hold {held:.0%} of the rows",)
    more = ("--calibration rows", "--figure picture.png", "--all")
    if others:
        rows = [
            {
                "table": table.steps.name,
                "rows": str(table.scores.rows),
                "mean error": f"{table.scores.mean:.1%}",
                "median": f"{table.scores.median:.1%}",
                "nine of ten below": f"{table.scores.percentile_90:.1%}",
                "intervals hold": f"{table.scores.coverage:.0%}",
            }
            for table in judged
        ]
        question = f"How near are predictions of the steps of {len(judged)} tables, {first.basis}?"
        yield from _shown(rows, False, question=question, best=best, more=more)
        return
    score = first.scores
    worst = {row["row"]: place for place, row in enumerate(first.worst(MOST_ROWS))}
    shown = [row for row in first.display_rows() if row["row"] in worst]
    answer = Answer(
        question=f"How near are predictions of {first.scores.rows} steps of {first.steps.name}, {first.basis}? The "
        "furthest off:",
        best=(*best, f"median {score.median:.1%}, bias {score.bias:+.1%}, nine of ten below {score.percentile_90:.1%}"),
        rows=[
            {name: str(value) for name, value in row.items() if name not in ("90 % interval", "assumed")}
            for row in sorted(shown, key=lambda row: worst[str(row["row"])])
        ],
        hidden=first.scores.rows - len(shown),
        legend="outside: of its 90 % interval" if any(not row["inside"] for row in first.worst(MOST_ROWS)) else "",
        more=more,
    )
    yield from answer_parts(answer)


def _every_step(judged: Sequence[Accuracy]) -> _Parts:
    """Yield for each file a table of all its rows, without columns that are empty throughout, and its scores."""
    for entry in judged:
        rows = entry.display_rows()
        columns = [column for column in rows[0] if any(row[column] for row in rows)]
        shown = [{column: row[column] for column in columns} for row in rows]
        yield rows_table(shown, title=f"{entry.steps.name}, {entry.basis}", left=("row", "assumed"))
        yield entry.scores.line()


# ``lightloom calibrate``: an accelerator's parameters, fitted to what was measured on it.


def calibrate(
    rows: Path,
    *,
    fit: Annotated[partial[Fitted], Options(fit_parameters, without=("collectives", "profile"))],
    out: OutFile = None,
    all: bool = False,
) -> Shown:
    """Fit an accelerator's parameters to measured steps or a profile, or a transport to timed collectives.

    `lightloom calibrate steps.csv --accelerator a100 --out my-a100.yaml` writes a file that stands for the accelerator.

    Args:
        rows (ROWS.csv): A table of measured steps or of timed collectives, also a name in the folder
            $LIGHTLOOM_MEASURED; what nccl-tests prints; or a profile of torch.profiler (.json, .json.gz).
        accelerator: The accelerator that was measured, a name of the catalog or a YAML file.
        cluster: The cluster on which collectives were timed, where they leave a node, in place of the accelerator.
        transport: The transport of the collectives, such as nccl-hopper, if not what the accelerator names.
        gpus: Number of GPUs of the collectives, if their file does not say it.
        out: Write the calibration (.yaml).
        all: Show every row, and what each parameter means.
    """
    source = "profile" if _is_profile(rows) else "collectives" if is_collectives(rows) else "rows"
    fitted = fit(**{source: rows})
    if out is not None:
        fitted.save(out)
    *others, last = fitted.remarks()
    said = [last, *others] if source == "profile" else [*others, last]  # The last one is the outcome of a profile.
    # What the rows determine comes before what stays at its prior.
    table = sorted(fitted.display_rows(), key=lambda row: row.get("rests on") == "prior")
    parts = _shown(
        table,
        all,
        () if all else ("meaning", "inputs", "format"),
        question=fitted.title,
        legend="×: a factor on the transport's own constant" if "typical" in table[0] else "",
        best=said,
        more=("--out my.yaml",),
    )
    return Shown(fitted.to_json(), parts, {"calibration": out})
