"""A calibration as a file: values, what they rest on, and how uncertain they are."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import yaml
from pydantic import Field, model_validator

from lightloom.calibration.fit import Fit
from lightloom.calibration.priors import Priors
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Config
from lightloom.core.files import write_atomically

DETERMINED = 0.7
"""Spread after over spread before the rows, below which they count as having determined a parameter."""
Positive = Annotated[float, Field(gt=0)]


class CalibratedParameter(Config):
    """One parameter: its value, and what was believed before."""

    value: Positive
    prior: Positive
    """Value before any row."""
    prior_spread: Positive
    """Standard deviation of the logarithm before any row."""
    spread: Positive
    """The same with the rows."""
    determined: bool
    """Whether the rows say much about it; otherwise it stays near its prior."""
    unit: str = ""
    meaning: str = ""
    source: str = ""
    """Source of the prior."""


class CalibrationRows(Config):
    """The rows that a calibration rests on."""

    table: str
    """Name of the file."""
    sha256: str
    count: int


class CrossValidatedError(Config):
    """Relative errors of rows that were left out of the fit in turn."""

    folds: int
    mean: float
    median: float
    bias: float
    percentile_90: float
    coverage: float
    """Share of the rows in their 90 % interval."""


class Calibration(Config):
    """Parameters fitted to measured steps of one accelerator."""

    description: str = ""
    accelerator: str
    rows: CalibrationRows
    cross_validated: CrossValidatedError
    noise: Positive
    """Standard deviation of the logarithm of a typical row around the model."""
    scatter: Positive
    """Size of the logarithm's error that nine of ten held-out rows stay below."""
    parameters: dict[str, CalibratedParameter]
    covariance: list[list[float]]
    """Of the logarithms of the parameters, in their order."""

    @model_validator(mode="after")
    def _square(self) -> Self:
        size = len(self.parameters)
        if len(self.covariance) != size or any(len(row) != size for row in self.covariance):
            raise ValueError(f"covariance: expected {size} rows of {size} numbers, one for each parameter")
        matrix = np.array(self.covariance)
        if not np.allclose(matrix, matrix.T, rtol=1e-4, atol=1e-9) or np.linalg.eigvalsh(matrix).min() < -1e-6:
            raise ValueError("covariance: expected a symmetric matrix without negative eigenvalues")
        return self

    def fitted(self, priors: Priors) -> Fit:
        """Return the parameters in the order of ``priors``.

        Raises:
            ConfigError: the file has other parameters.
        """
        names = list(self.parameters)
        if set(names) != set(priors.names):
            odd = ", ".join(sorted(set(names) ^ set(priors.names)))
            raise ConfigError(
                f"calibration of {self.accelerator}: parameters missing or unknown: {odd}; calibrate anew"
            )
        order = [names.index(name) for name in priors.names]
        logarithms = np.array([log(self.parameters[name].value) for name in priors.names])
        return Fit(logarithms, np.array(self.covariance)[np.ix_(order, order)], self.noise)

    def undetermined(self) -> list[str]:
        """Return the parameters that the rows leave at their priors."""
        return [name for name, parameter in self.parameters.items() if not parameter.determined]


def parameters_of(fitted: Fit, priors: Priors) -> dict[str, CalibratedParameter]:
    """Return the entries of a calibration file for fitted parameters."""
    spread = np.sqrt(np.diag(fitted.covariance))
    return {
        name: CalibratedParameter(
            value=rounded(value),
            prior=prior.value,
            prior_spread=prior.spread,
            spread=rounded(after),
            determined=bool(after < DETERMINED * prior.spread),
            unit=prior.unit,
            meaning=prior.meaning,
            source=prior.source,
        )
        for (name, prior), value, after in zip(priors.by_name.items(), np.exp(fitted.logarithms), spread, strict=True)
    }


def rounded(value: float) -> float:
    """Return a value as files of calibrations show it, to six digits."""
    return float(f"{value:.6g}")


def write_calibration(calibration: Calibration, path: Path) -> None:
    """Write a calibration as YAML.

    Raises:
        ConfigError: the file cannot be written.
    """
    document = calibration.model_dump(mode="json")
    covariance = [[rounded(entry) for entry in row] for row in document.pop("covariance")]
    head = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    rows = "".join(f"- {yaml.safe_dump(row, default_flow_style=True, width=10**6).strip()}\n" for row in covariance)
    write_atomically(path, f"{head}covariance:\n{rows}")


def read_calibration(path: Path) -> Calibration:
    """Read what :func:`write_calibration` wrote.

    Raises:
        ConfigError: the file cannot be read, or a field is missing, unknown or out of range.
    """
    calibration: Calibration = validate(Calibration, read_yaml(path), str(path))
    return calibration
