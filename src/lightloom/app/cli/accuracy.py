"""``lightloom accuracy``: steps and collectives that others measured, predicted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from lightloom.app.api.accuracy import AccuracyReport, StepComparison, compare_step
from lightloom.app.api.accuracy import accuracy as predict_steps
from lightloom.app.api.calibrating import CollectiveAccuracy, Fitted, collective_accuracy
from lightloom.app.api.calibrating import calibrate as fit_parameters
from lightloom.app.cli.options import FigureFile, Options, OutFile, Shown, draw
from lightloom.core.answer import MOST_ROWS
from lightloom.core.errors import ConfigError
from lightloom.planning.calibration.collectives import is_collectives
from lightloom.reports.console import Parts, screen


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

    ``collectives`` is the function that predicts timed collectives, with its options ``cluster`` and ``gpus`` bound to
    it; rows count as collectives if either is given.

    Returns:
        The result to print: predictions beside the measurements.

    Raises:
        ConfigError: a file or an option that cannot be read or does not go with the rows.
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
    report: CollectiveAccuracy | AccuracyReport
    if stated or any(map(is_collectives, rows)):
        if fits:
            raise ConfigError(f"--calibration {calibration}: of steps: expected a transport for collectives")
        report = collectives(rows, transport=calibration)
    else:
        chosen: dict[str, Any] = {"cross_validate" if fits else "calibration": calibration}
        report = predict_steps(rows, **chosen)
    document = report.to_json()
    return Shown(document, _furthest(report, all), {"figure": draw(figure, report.figure, document)})


def _is_profile(path: Path) -> bool:
    """Return whether a file counts as a profile by its suffix, .json or .json.gz; it is not read."""
    return path.suffix == ".json" or path.suffixes[-2:] == [".json", ".gz"]


def _without(rows: Iterable[Mapping[str, object]], *names: str) -> list[dict[str, object]]:
    """Return copies of rows without the columns of these names."""
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def _profiled(step: StepComparison, all: bool) -> Parts:
    """Yield what the terminal shows of a profiled step: the summary and a line on where it was measured, a table of its
    parts (computing, exposed communication, idle), measured beside predicted, and with ``all`` the other lines:
    operators and exchanges that differ or take most, and what is not priced or left out."""
    best, *said = step.lines()
    question = f"Is a step of {step.profile.name} predicted?"
    yield from screen(question, (best, said[0]), _without(step.display_rows(), "how"), all=all, more=("--all",))
    yield from said[1:] if all else ()


def _furthest(report: AccuracyReport | CollectiveAccuracy, all: bool) -> Parts:
    """Return what the terminal shows: lines on the errors (one for each of the first three tables of steps, or systems
    of timed collectives), then the rows with the largest absolute relative error first: eight of them, or with ``all``
    every row, those of steps also with the columns "table", "90 % interval" and "assumed"."""
    shown: Sequence[Mapping[str, object]] = report.display_rows()
    order = sorted(zip(report.rows(), shown, strict=True), key=lambda pair: -abs(pair[0]["error"]))
    rows = [row for _, row in order]
    said = [table.summary() for table in report] if isinstance(report, AccuracyReport) else report.lines()
    outside = any(not exact.get("inside", True) for exact, _ in order[: len(order) if all else MOST_ROWS])
    return screen(
        f"How near are predictions of {len(rows)} measurements? Those that are furthest off:",
        said[:3],
        rows if all else _without(rows, "table", "90 % interval", "assumed"),
        all=all,
        legend="outside: of its 90 % interval" if outside else "",
        more=("--calibration FILE", "--figure picture.png", "--all"),
    )


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

    ``fit`` is :func:`lightloom.calibrate` with its options bound to it: accelerator, cluster, transport and gpus.

    Returns:
        The result to print: the fitted parameters; with ``out`` they are written, too.

    Raises:
        InputError: a file or a row that cannot be read, or options that do not go with it.
    """
    source = "profile" if _is_profile(rows) else "collectives" if is_collectives(rows) else "rows"
    fitted = fit(**{source: rows})
    if out is not None:
        fitted.save(out)
    *others, last = fitted.remarks()
    said = [last, *others] if source == "profile" else [*others, last]  # The last one is the outcome of a profile.
    # What the rows determine comes before what stays at its prior.
    table = sorted(fitted.display_rows(), key=lambda row: row.get("rests on") == "prior")
    legend = "×: a factor on the transport's own constant" if "typical" in table[0] else ""
    shown = table if all else _without(table, "meaning", "inputs", "format")
    parts = screen(fitted.title, said[:3], shown, all=all, legend=legend, more=("--out my.yaml",))
    return Shown(fitted.to_json(), parts, {"calibration": out})
