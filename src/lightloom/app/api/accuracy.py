"""Predictions of training steps that others measured, and how near they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lightloom.app.api.calibrating import StepsCalibration
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, Result, attributes, cells, plain, provenance
from lightloom.core.units import format_difference, format_size, format_time
from lightloom.machines.accelerators.calibrated import Calibration
from lightloom.machines.accelerators.load import accelerator_of_device, load_accelerator
from lightloom.machines.clusters.load import ClusterLike, load_cluster
from lightloom.models.traces.kineto import Profile, read_profile
from lightloom.planning.calibration.accuracy import (
    Accuracy,
    CrossValidation,
    cross_validated,
    draw_accuracy,
    read_calibration,
)
from lightloom.planning.calibration.accuracy import accuracy as predict
from lightloom.planning.calibration.profile import ProfiledStep, profiled_step
from lightloom.planning.calibration.rows import read_steps
from lightloom.reports.html import DrawnResult
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CalibrationLike: TypeAlias = str | Path | Calibration | StepsCalibration
"""A file that ``calibrate`` wrote, or what it returned."""


@dataclass(frozen=True, repr=False)
class AccuracyReport(DrawnResult):
    """Tables of measured steps, each row predicted with its interval."""

    tables: tuple[Accuracy, ...]
    origin: Document
    """Version, hash of the configuration, and seed."""

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self.tables)

    def __iter__(self) -> Iterator[Accuracy]:
        """Yield the tables in the order in which they were given."""
        return iter(self.tables)

    def __getitem__(self, index: int) -> Accuracy:
        """Return the table of an index, counted from 0."""
        return self.tables[index]

    def summary(self) -> str:
        """Return one line on each table, ``TABLE, BASIS: SCORES``, joined by semicolons: its name; in words what
        predicted it ("priors only", "calibrated on TABLE"); and its number of rows, mean and median of the errors'
        sizes, mean error with its sign (bias), the size that nine of ten errors stay below, the share of rows inside
        their 90 % intervals and the median of half an interval's width over the prediction, all in per cent. Where a
        model has five rows or more, the rank agreement of predicted and measured throughput (Spearman's coefficient)
        follows."""
        return "; ".join(table.summary() for table in self.tables)

    def rows(self) -> list[Document]:
        """Return a row for each measured step of all tables, in the order of tables and of their rows: ``table``, the
        table's name, the step's ``row``, ``model`` and ``gpus``, ``measured_s`` and ``predicted_s``, both ends of the
        90 % interval of the prediction (``low_s``, ``high_s``), the relative ``error`` (predicted over measured, minus
        1), whether the measurement lies ``inside`` the interval, and what was ``assumed`` of choices that the row
        leaves open, as text: of micro-batch and virtual stages the fastest, such as "micro-batch 4, virtual stages 2";
        empty where it leaves none. ``row`` is the name that the table gives the step, no number."""
        return [{"table": table.steps.name, **row} for table in self.tables for row in table.rows()]

    def display_rows(self) -> list[dict[str, object]]:
        """Return the rows of all tables as text for people, by heading: table (its name), row, model, GPUs, measured
        and predicted time with units, 90 % interval, error (signed per cent, with " outside" where the measurement
        lies outside of the interval) and assumed."""
        return [{"table": table.steps.name, **row} for table in self.tables for row in table.display_rows()]

    def to_json(self) -> Document:
        """Return the document that ``lightloom accuracy --json`` prints: ``tables``, each with its name (``table``),
        checksum (``sha256``), in words what predicted it (``basis``) and ``scores`` (the number of ``rows``; ``mean``
        and ``median`` of the relative errors' sizes, ``bias``, ``percentile_90``, ``coverage`` and ``half_width`` of
        the 90 % intervals, as shares; and ``rank_agreement``, a coefficient or None); and ``rows``, those of all tables
        in one list as :meth:`rows` returns them; with schema and provenance."""
        return {
            "schema": "lightloom.accuracy/1",
            "tables": [{key: value for key, value in each.to_json().items() if key != "rows"} for each in self.tables],
            "rows": self.rows(),
            "provenance": self.origin,
        }

    def figure(self) -> Figure:
        """Return a matplotlib figure of steps: predicted (upwards) against measured seconds (across) on logarithmic
        axes, with the 90 % intervals, the line of equality and a band within 10 % of it, one colour for each table."""
        return draw_accuracy(self.tables)


def accuracy(
    rows: str | Path | Sequence[str | Path],
    *,
    calibration: CalibrationLike | None = None,
    cross_validate: CrossValidation | None = None,
) -> AccuracyReport:
    """Predict steps that others measured, and return tables of them, one for each file, that say how near the
    predictions are.

    >>> accuracy("steps.csv", cross_validate="rows")

    Args:
        rows: tables of measured steps, files or names in the folder ``LIGHTLOOM_MEASURED``.
        calibration: a file of parameters that `calibrate` wrote, or what it returned; the priors without it. Not with
            ``cross_validate``.
        cross_validate (WHAT): ``rows`` or ``models``: predict each tenth of the rows, or each model size, by a
            calibration on the others.

    Raises:
        ConfigError: a file is missing, or a row cannot be expressed (names file, row and column); the rows are of
            another accelerator than the calibration; ``cross_validate`` is another word, or both are given.
        UnsupportedError: an accelerator of the rows has no kernel model, or names no transport.
    """
    if cross_validate not in (None, "rows", "models"):
        raise ConfigError(f"--cross-validate {cross_validate!r}: expected rows or models")
    if calibration is not None and cross_validate is not None:
        raise ConfigError("--calibration and --cross-validate exclude one another: choose one")
    tables = [read_steps(name) for name in ([rows] if isinstance(rows, str | Path) else rows)]
    if cross_validate is None:
        fitted = read_calibration(Path(calibration)) if isinstance(calibration, str | Path) else calibration
        fitted = fitted.calibration if isinstance(fitted, StepsCalibration) else fitted
        judged = [predict(steps, fitted) for steps in tables]
    else:
        with progress("Fits", None) as advance:
            judged = [cross_validated(steps, cross_validate, advance) for steps in tables]
    return AccuracyReport(tuple(judged), provenance([[entry.steps.sha256, entry.basis] for entry in judged]))


# What ``accuracy`` returns for a profile: a measured step beside its prediction, and where they differ.

_NAMED = 3
"""Operators and exchanges that a line names."""


@dataclass(frozen=True, repr=False, kw_only=True)
class StepComparison(Result):
    """A profiled step as it was measured and as it is predicted."""

    profile: Profile
    machine: str
    """The accelerator that it is predicted for."""
    where: str
    """Machine on which the step was measured, in words."""
    step: ProfiledStep
    origin: Document
    """Version, hash of the configuration, and seed."""

    def summary(self) -> str:
        """Return a sentence: the time of a mean step measured and predicted, with units, the error (predicted over
        measured, minus 1, in signed per cent; left out where nothing was measured), and the parts (computing, exposed
        communication, idle) that differ by 0.5 % of the measured step or more, each with its difference, predicted
        minus measured, the largest first; or that no part does."""
        measured, predicted = self.step.measured, self.step.predicted
        error = f" ({predicted / measured - 1:+.1%})" if measured else ""
        apart = [part for part in self.step.parts if abs(part.difference) >= 0.005 * measured]
        apart.sort(key=lambda part: -abs(part.difference))
        words = ", ".join(f"{part.name} ({format_difference(part.difference)})" for part in apart)
        told = f"the difference is in {words}" if words else "no part differs by 0.5 % of the step"
        return f"measured {format_time(measured)}, predicted {format_time(predicted)}{error}; {told}"

    def rows(self) -> list[Document]:
        """Return three rows, by ``part`` of a step: "computing" (time in which anything is computed), "exposed
        communication" (exchanges beside no computing) and "idle" (neither), each with seconds of a mean step,
        ``measured_s`` and ``predicted_s``, ``difference_s``, predicted minus measured, and a ``note`` in words on what
        of it is priced; the rest is predicted as measured, idle time always."""
        names = "part=name measured_s=measured predicted_s=predicted difference_s=difference note"
        return [attributes(part, names) for part in self.step.parts]

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row for each part of a step (computing, exposed communication, idle) as text, by heading: "part",
        "measured" and "predicted" time with units, "difference", predicted minus measured with its sign, and "how" it
        was predicted: what of it is priced, and what is taken as measured."""
        columns = "part: {part} | measured: {measured_s:time} | predicted: {predicted_s:time} | difference: "
        return cells(f"{columns}{{difference_s:difference}} | how: {{note}}", self.rows())

    def lines(self) -> list[str]:
        """Return the lines beside the table: the summary; how many steps were measured where, for what they are
        predicted, and how long exchanges overlap computing; the three operators, of those with a price, whose
        prediction changes a step most; how many operators are not priced, if any, with the first six names; the three
        kinds of exchanges that take longest in all, measured and predicted, and how many more there are; and how many
        events of each category are left out."""
        return [*self._lines()]

    def _lines(self) -> Iterator[str]:
        """Yield the lines beside the table: the summary; how many steps were measured where, for what they are
        predicted, and how long exchanges overlap computing; a line for each of the three operators, of those with a
        price, whose calls together change a step most, whichever way; if any are not priced, one with their number,
        seconds of a step and names (those of the first six, each once); one for each of the three kinds of exchanges
        (kind, size and group) that take longest in all, with the seconds of one, measured and predicted, and one on the
        number of further kinds, if any; one for each category of events that are left out."""
        yield self.summary()
        steps = f"{self.step.steps} steps" if self.step.steps > 1 else "one step"
        yield f"mean of {steps} on {self.where}, predicted for {self.machine}; overlap as it was: " + (
            f"{format_time(self.step.overlapped)} of exchanges beside computing"
        )
        apart = [
            (operator.calls / self.step.steps * (price - operator.mean_seconds), operator)
            for operator, price in self.step.operators
            if price is not None
        ]
        for change, operator in sorted(apart, key=lambda entry: -abs(entry[0]))[:_NAMED]:
            shapes = " ".join("x".join(map(str, shape)) or "1" for shape in operator.key.shapes)
            yield (
                f"{format_difference(change)} in {operator.calls / self.step.steps:.4g} x {operator.key.name} "
                f"({shapes}, {operator.key.step_pass}), measured {format_time(operator.mean_seconds)} each"
            )
        unpriced = [operator for operator, price in self.step.operators if price is None]
        if unpriced:
            names = ", ".join(dict.fromkeys(operator.key.name for operator in unpriced[: 2 * _NAMED]))
            seconds = sum(operator.seconds for operator in unpriced) / self.step.steps
            yield f"not priced, taken as measured: {len(unpriced)} operators, {format_time(seconds)} ({names}, ...)"
        for row in self.step.exchanges[:_NAMED]:
            exchange = row.exchange
            size = "bytes not recorded" if exchange.nbytes is None else f"{format_size(exchange.nbytes)} put in"
            among = "" if exchange.ranks is None else f" among {exchange.ranks} ranks"
            took = "not predicted" if row.predicted is None else f"predicted {format_time(row.predicted)}"
            measured = f"measured {format_time(row.measured)} each, {took}"
            yield f"{row.times:.4g} x {exchange.kind}{among}, {size}: {measured}"
        if len(self.step.exchanges) > _NAMED:
            yield f"... and {len(self.step.exchanges) - _NAMED} more kinds of exchanges, in --json"
        yield from (f"{count} events of category {name} are left out" for name, count in self.profile.left_out.items())

    def to_json(self) -> Document:
        """Return the document that ``lightloom accuracy PROFILE --json`` prints: ``profile`` (its file's name) and
        ``sha256``; ``accelerator``, what it is predicted for (``NAME on CLUSTER`` with a cluster), and ``where`` it was
        measured, in words; ``steps`` (their number), ``measured_s``, ``predicted_s`` and ``overlapped_s`` (exchanges
        while computing) of a mean step; ``parts``, the rows of :meth:`rows`; ``exchanges``, a row for each kind
        (``exchange``), ``ranks``, ``group`` and ``nbytes`` that a rank puts in (None where the trace does not say), and
        ``operators`` by name (``operator``), shapes of ``inputs`` and ``pass``, with the mean number of times that they
        occur in a step (``count_per_step``, ``calls_per_step``) and ``measured_s`` and ``predicted_s`` of one of them,
        the latter None where there is no price; ``summary``; and ``left_out``, numbers of unread events by category;
        with schema and provenance."""
        document = {
            "schema": "lightloom.profiled-step/1",
            **attributes(self, "profile=profile.name sha256=profile.sha256 accelerator=machine where"),
            **attributes(self.step, "steps measured_s=measured predicted_s=predicted overlapped_s=overlapped"),
            "parts": self.rows(),
            "exchanges": [
                attributes(row.exchange, "exchange=kind ranks group nbytes")
                | attributes(row, "count_per_step=times measured_s=measured predicted_s=predicted")
                for row in self.step.exchanges
            ],
            "operators": [
                {
                    "operator": operator.key.name,
                    "inputs": [list(shape) for shape in operator.key.shapes],
                    "pass": operator.key.step_pass,
                    "calls_per_step": operator.calls / self.step.steps,
                    "measured_s": operator.mean_seconds,
                    "predicted_s": price,
                }
                for operator, price in self.step.operators
            ],
            "summary": self.summary(),
            "left_out": dict(self.profile.left_out),
            "provenance": self.origin,
        }
        return {name: plain(value) for name, value in document.items()}


def compare_step(profile: str | Path, cluster: ClusterLike | None = None) -> StepComparison:
    """Predict the mean step of a profile, and return its measured and predicted seconds beside each other, part by
    part: computing, exposed communication and idle time, which is taken as measured.

    >>> compare_step("trace.json.gz", cluster="dgx-a100-64")

    Args:
        profile: what ``torch.profiler`` wrote (.json, .json.gz).
        cluster: what it ran on: a name of the catalog, a YAML file or a cluster; without it the device that the profile
            names, and exchanges as measured.

    Raises:
        ConfigError: unreadable, or neither a cluster nor a device of the catalog says what it ran on.
        UnsupportedError: the accelerator has no kernel model.
        WorkloadError: the file holds no profile, or one without operators or shapes, or a malformed event.
    """
    read = read_profile(Path(profile))
    place = None if cluster is None else load_cluster(cluster)
    devices = read.devices if read.on_device else ()
    if place is None:
        name = accelerator_of_device(devices[0], read.memory) if devices else None
        if name is None:
            told = f"{devices[0]}, which the catalog lacks" if devices else "a machine that the profile does not name"
            raise ConfigError(f"{read.name}: measured on {told}: expected --cluster, what it ran on")
        machine = load_accelerator(name)
    else:
        machine = place.accelerator
    unnamed = "an accelerator that the profile does not name" if read.on_device else "the host alone"
    return StepComparison(
        profile=read,
        machine=machine.name if place is None else f"{machine.name} on {place.name}",
        where=" and ".join(devices) or unnamed,
        step=profiled_step(read, machine, place),
        origin=provenance([read.sha256, machine.name, None if place is None else place.to_json()], seed=0),
    )
