"""Calibrations as files, and as parameters for predictions."""

from __future__ import annotations

from math import log
from pathlib import Path

import numpy as np
import yaml

from lightloom.accelerators.calibrated import CalibratedParameter, Calibration, is_calibration
from lightloom.accelerators.load import CATALOG
from lightloom.calibration.fit import Fit
from lightloom.calibration.priors import Priors
from lightloom.core.configfile import catalog_file, read_yaml, validate
from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically

DETERMINED = 0.7
"""Spread after over spread before the rows, below which they count as having determined a parameter."""


def fitted_parameters(calibration: Calibration, priors: Priors) -> Fit:
    """Return the parameters of a calibration in the order of ``priors``; those that it lacks stay at their priors.

    Raises:
        ConfigError: the calibration has parameters that are none.
    """
    names = list(calibration.parameters)
    if odd := ", ".join(name for name in names if name not in priors.names):
        raise ConfigError(f"calibration of {calibration.accelerator}: unknown parameters: {odd}; calibrate anew")
    logarithms, covariance = priors.center.copy(), np.diag(priors.spread**2)
    ours = [priors.names.index(name) for name in names]
    logarithms[ours] = [log(entry.value) for entry in calibration.parameters.values()]
    covariance[np.ix_(ours, ours)] = calibration.covariance
    return Fit(logarithms, covariance, calibration.noise)


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


def calibration_text(calibration: Calibration) -> str:
    """Return the content of a calibration's file, YAML."""
    document = calibration.model_dump(mode="json")
    covariance = [[rounded(entry) for entry in row] for row in document.pop("covariance")]
    head = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    rows = "".join(f"- {yaml.safe_dump(row, default_flow_style=True, width=10**6).strip()}\n" for row in covariance)
    return f"{head}covariance:\n{rows}"


def write_calibration(calibration: Calibration, path: Path) -> None:
    """Write a calibration as YAML.

    Raises:
        ConfigError: the file cannot be written.
    """
    write_atomically(path, calibration_text(calibration))


def read_calibration(path: Path) -> Calibration:
    """Read what :func:`write_calibration` wrote; calibrations of the catalog also by their name.

    Raises:
        ConfigError: the file cannot be read, or a field is missing, unknown or out of range.
    """
    file = catalog_file(str(path), CATALOG) or path
    fields = read_yaml(file)
    if not is_calibration(fields):
        raise ConfigError(f"{path}: no calibration: expected a file that `lightloom calibrate` wrote")
    calibration: Calibration = validate(Calibration, fields, str(path))
    return calibration
