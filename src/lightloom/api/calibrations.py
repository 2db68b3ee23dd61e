"""What ``calibrate`` returns: parameters fitted to steps."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

from lightloom.accelerators.base import Accelerator
from lightloom.accelerators.calibrated import Calibration
from lightloom.accelerators.load import calibrated_accelerator
from lightloom.calibration.document import calibration_text
from lightloom.core.files import write_atomically
from lightloom.core.results import Document, Result


class Fitted(Result):
    """Base of what ``calibrate`` returns: a table of fitted values that can be written to a file."""

    __slots__ = ()
    left_columns: tuple[str, ...] = ()
    """Columns of :meth:`display_rows` that hold words."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What was fitted to what, the heading of the table."""

    @abstractmethod
    def remarks(self) -> list[str]:
        """Return sentences to read below the table."""

    @abstractmethod
    def text(self) -> str:
        """Return the file's content, YAML."""

    def save(self, path: str | Path) -> Path:
        """Write the file (.yaml).

        Raises:
            ConfigError: the file cannot be written.
        """
        return write_atomically(Path(path), self.text())

    def summary(self) -> str:
        return "; ".join([self.title, *self.remarks()])


@dataclass(frozen=True, repr=False)
class StepsCalibration(Fitted):
    """Parameters of an accelerator, fitted to measured steps."""

    calibration: Calibration
    origin: Document
    """Version, hash of the configuration, and seed."""
    left_columns = ("parameter", "rests on", "meaning")

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator with these parameters, for clusters and plans."""
        return calibrated_accelerator(self.calibration)

    @property
    def title(self) -> str:
        return self.calibration.description

    def text(self) -> str:
        return calibration_text(self.calibration)

    def rows(self) -> list[Document]:
        """Return a row for each parameter."""
        return [
            {"parameter": name, **parameter.model_dump(mode="json")}
            for name, parameter in self.calibration.parameters.items()
        ]

    def display_rows(self) -> list[dict[str, object]]:
        return [
            {
                "parameter": name,
                "prior": f"{parameter.prior:.4g} {parameter.unit}".strip(),
                "spread": f"{parameter.prior_spread:.0%}",
                "fitted": f"{parameter.value:.4g} {parameter.unit}".strip(),
                "left open": f"{parameter.spread:.0%}",
                "rests on": "rows" if parameter.determined else "prior",
                "meaning": parameter.meaning,
            }
            for name, parameter in self.calibration.parameters.items()
        ]

    def remarks(self) -> list[str]:
        error = self.calibration.cross_validated
        lines = [
            f"held out in {error.folds} folds: mean error {error.mean:.1%}, median {error.median:.1%}, bias "
            f"{error.bias:+.1%}, nine of ten below {error.percentile_90:.1%}; 90 % intervals hold {error.coverage:.0%}"
        ]
        if undetermined := self.calibration.undetermined():
            lines.append(f"the rows say little about {', '.join(undetermined)}: near their priors")
        return lines

    def to_json(self) -> Document:
        """Return the document that ``lightloom calibrate --json`` prints."""
        document = {"schema": "lightloom.calibration/1", **self.calibration.model_dump(mode="json")}
        return {**document, "provenance": self.origin}
