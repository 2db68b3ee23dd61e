"""Predictions of training steps that others measured, and how near they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lightloom.accelerators.calibrated import Calibration
from lightloom.api.calibrations import StepsCalibration
from lightloom.calibration.accuracy import Accuracy, CrossValidation, cross_validated
from lightloom.calibration.accuracy import accuracy as predict
from lightloom.calibration.document import read_calibration
from lightloom.calibration.pictures import draw_accuracy
from lightloom.calibration.rows import read_steps
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance
from lightloom.core.results import Document, Result
from lightloom.reports.html import notebook_svg
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "lightloom.accuracy/1"
CalibrationLike: TypeAlias = str | Path | Calibration | StepsCalibration
"""A file that ``calibrate`` wrote, or what it returned."""


@dataclass(frozen=True, repr=False)
class AccuracyReport(Result):
    """Tables of measured steps, each row predicted with its interval."""

    tables: tuple[Accuracy, ...]
    origin: Document
    """Version, hash of the configuration, and seed."""

    def __len__(self) -> int:
        return len(self.tables)

    def __iter__(self) -> Iterator[Accuracy]:
        return iter(self.tables)

    def __getitem__(self, index: int) -> Accuracy:
        return self.tables[index]

    def summary(self) -> str:
        return "; ".join(table.summary() for table in self.tables)

    def rows(self) -> list[Document]:
        """Return a row for each measured step, with its table."""
        return [{"table": table.steps.name, **row} for table in self.tables for row in table.rows()]

    def display_rows(self) -> list[dict[str, object]]:
        return [{"table": table.steps.name, **row} for table in self.tables for row in table.display_rows()]

    def to_json(self) -> Document:
        """Return the document that ``lightloom accuracy --json`` prints."""
        tables = [table.to_json() for table in self.tables]
        return {
            "schema": SCHEMA,
            "tables": [{key: value for key, value in table.items() if key != "rows"} for table in tables],
            "rows": self.rows(),
            "provenance": self.origin,
        }

    def figure(self) -> Figure:
        """Return a matplotlib figure: predicted against measured steps, one colour for each table."""
        return draw_accuracy(self.tables)

    def pictures(self) -> tuple[str, ...]:
        return (notebook_svg(self.figure()),)


def accuracy(
    rows: str | Path | Sequence[str | Path],
    *,
    calibration: CalibrationLike | None = None,
    cross_validate: CrossValidation | None = None,
) -> AccuracyReport:
    """Predict steps that others measured, and say how near the predictions are.

    >>> accuracy("steps.csv", cross_validate="rows")

    Args:
        rows: tables of measured steps, files or names in the folder ``LIGHTLOOM_MEASURED``.
        calibration: parameters of the predictions; the priors without it.
        cross_validate: ``rows`` or ``models``: predict each tenth of the rows, or each model size, by a calibration on
            the others.

    Raises:
        ConfigError: a file is missing, or a row cannot be expressed (names file, row and column); or the rows are of
            another accelerator than the calibration.
    """
    if cross_validate not in (None, "rows", "models"):
        raise ConfigError(f"--cross-validate {cross_validate!r}: expected rows or models")
    if calibration is not None and cross_validate is not None:
        raise ConfigError("--calibration and --cross-validate exclude one another: choose one")
    names = [rows] if isinstance(rows, str | Path) else list(rows)
    tables = [read_steps(name) for name in names]
    if cross_validate is None:
        fitted = None if calibration is None else _calibration(calibration)
        judged = [predict(steps, fitted) for steps in tables]
    else:
        with progress("Fits", None) as advance:
            judged = [cross_validated(steps, cross_validate, advance) for steps in tables]
    return AccuracyReport(tuple(judged), provenance([[entry.steps.sha256, entry.basis] for entry in judged]))


def _calibration(calibration: CalibrationLike) -> Calibration:
    if isinstance(calibration, str | Path):
        return read_calibration(Path(calibration))
    return calibration.calibration if isinstance(calibration, StepsCalibration) else calibration
