"""What ``calibrate`` returns: parameters fitted to steps, and links fitted to collectives."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

import yaml

from lightloom.accelerators.base import Accelerator
from lightloom.accelerators.calibrated import Calibration
from lightloom.accelerators.load import calibrated_accelerator
from lightloom.calibration.document import calibration_text
from lightloom.clusters.measured_links import FittedLinks
from lightloom.core.files import write_atomically
from lightloom.core.results import Document, Result
from lightloom.core.units import format_bandwidth, format_time


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


@dataclass(frozen=True, repr=False)
class LinksCalibration(Fitted):
    """Links of the tiers of a node, fitted to timed collectives."""

    links: FittedLinks
    origin: Document
    left_columns = ("tier",)

    @property
    def title(self) -> str:
        return f"links fitted to {self.links.tiers[0].rows.table}"

    def text(self) -> str:
        return yaml.safe_dump(self.links.model_dump(mode="json"), sort_keys=False, width=120)

    def rows(self) -> list[Document]:
        """Return a row for each tier."""
        return [
            {"tier": tier.tier, "gpus": tier.gpus, "rows": tier.rows.count}
            | tier.values.model_dump()
            | {"mean_error": tier.mean_error}
            for tier in self.links.tiers
        ]

    def display_rows(self) -> list[dict[str, object]]:
        return [
            {
                "tier": tier.tier,
                "rows": tier.rows.count,
                "base latency": format_time(tier.values.base_latency),
                "latency per peer": format_time(tier.values.latency_per_peer),
                "bandwidth": format_bandwidth(tier.values.bandwidth),
                "pass bandwidth": format_bandwidth(tier.values.pass_bandwidth),
                "mean error": f"{tier.mean_error:.1%}",
            }
            for tier in self.links.tiers
        ]

    def remarks(self) -> list[str]:
        return [
            f"{tier.tier}: the rows say little about {', '.join(undetermined)}: near their priors"
            for tier in self.links.tiers
            if (undetermined := tier.undetermined())
        ]

    def to_json(self) -> Document:
        """Return the document that ``lightloom calibrate --collectives --json`` prints."""
        document = {"schema": "lightloom.collectives-calibration/1", **self.links.model_dump(mode="json")}
        return {**document, "provenance": self.origin}
