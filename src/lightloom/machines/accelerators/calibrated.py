"""A calibration of an accelerator: parameters fitted to measurements, what they rest on, and how uncertain they are.

``lightloom calibrate`` writes one as a YAML file, which names its accelerator and serves in its place: where these
are loaded, its parameters of kernels are laid over the fields of the accelerator.
"""

from collections.abc import Iterable
from html import escape
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.fields import Config
from lightloom.core.results import Described
from lightloom.machines.accelerators.kernels import PRIORS

Positive = Annotated[float, Field(gt=0)]
_DIGITS = 12
"""Digits of a checksum in a line for people."""


class CalibratedParameter(Config):
    """One parameter: its value, and what was believed before."""

    value: Positive
    prior: Positive
    """Value before any row."""
    prior_spread: Positive
    """Standard deviation of the logarithm before any row."""
    spread: Positive
    """Standard deviation of the logarithm once the rows are taken into account."""
    determined: bool
    """True if the rows say much about it; otherwise it stays near its prior."""
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
    kind: Literal["steps", "operators", "collectives"] = "steps"
    """Kind of measurement that each row of the table holds."""

    def line(self) -> str:
        """Return the rows in words: ``55 steps of megatron-a100 (SHA-256 0c5a99e6d2a1...)``."""
        return f"{self.count:,} {self.kind} of {self.table} (SHA-256 {self.sha256[:_DIGITS]}...)"


class CrossValidatedError(Config):
    """Relative errors of rows that were left out of the fit in turn."""

    folds: int
    mean: float
    median: float
    bias: float
    percentile_90: float
    coverage: float
    """Share of the rows in their 90 % interval."""


class Calibration(Described):
    """Parameters of one accelerator, fitted to measurements."""

    description: str = ""
    accelerator: str
    """The accelerator whose parameters were fitted: a name of the catalog, or a YAML file."""
    rows: CalibrationRows
    cross_validated: CrossValidatedError
    noise: Positive
    """Standard deviation of the logarithm of a typical row around the model."""
    scatter: Positive
    """Size of the logarithm's error that nine of ten held-out rows stay below."""
    parameters: dict[str, CalibratedParameter]
    covariance: list[list[float]]
    """Covariance matrix of the parameters' logarithms, in the order of ``parameters``."""

    @model_validator(mode="after")
    def _square(self) -> Self:
        """Raise ValueError for a covariance that has not a row and a column for each parameter, is not symmetric to a
        relative 1e-4, or has an eigenvalue below -1e-6; otherwise return the calibration unchanged."""
        size = len(self.parameters)
        if len(self.covariance) != size or any(len(row) != size for row in self.covariance):
            raise ValueError(f"covariance: expected {size} rows of {size} numbers, one for each parameter")
        matrix = np.array(self.covariance)
        if not np.allclose(matrix, matrix.T, rtol=1e-4, atol=1e-9) or np.linalg.eigvalsh(matrix).min() < -1e-6:
            raise ValueError("covariance: expected a symmetric matrix without negative eigenvalues")
        return self

    @property
    def source(self) -> str:
        """Source of fitted values, in words: ``fitted to 55 steps of megatron-a100 (SHA-256 0c5a99e6d2a1...)``."""
        return f"fitted to {self.rows.line()}"

    def fitted(self, known: Iterable[str]) -> tuple[dict[str, float], dict[str, float], dict[str, str]]:
        """Return three mappings by name, of those parameters of the calibration that ``known`` lists (other names in it
        are passed over): fitted values, standard deviations of their logarithms after the fit, and sources;
        the source is that of the prior where the rows do not determine the parameter."""
        entries = {name: entry for name, entry in self.parameters.items() if name in set(known)}
        sources = {name: self.source if entry.determined else entry.source for name, entry in entries.items()}
        values, spreads = ({name: getattr(e, field) for name, e in entries.items()} for field in ("value", "spread"))
        return values, spreads, sources

    def __repr__(self) -> str:
        """Return rows and cross-validated error in one line."""
        error = self.cross_validated
        return (
            f"{self.rows.line()}, cross-validated error {error.mean:.1%}, median {error.median:.1%} "
            f"({error.folds} folds)"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the line of :func:`str`, rows and cross-validated error, escaped in a ``<p>`` within a ``<div>``."""
        return f"<div><p>{escape(str(self))}</p></div>"

    def at_priors(self, transport: Iterable[str] = ()) -> list[str]:
        """Return the names of the parameters that stay at their priors since the calibration does not have them, as in
        a file written before they were known: of those of kernels (all of :data:`PRIORS`), then of ``transport``.

        Args:
            transport: names of the parameters of the transport that is used with the calibration, if one is.
        """
        return [name for name in (*PRIORS, *transport) if name not in self.parameters]

    def undetermined(self) -> list[str]:
        """Return the names of the calibration's parameters that its rows leave near their priors (``determined`` is
        False), in the order of ``parameters``; those that it lacks are in :meth:`at_priors`."""
        return [name for name, parameter in self.parameters.items() if not parameter.determined]
