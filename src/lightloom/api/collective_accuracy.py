"""Predictions of collectives that others timed, and transports fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml

from lightloom.api.calibrations import Fitted
from lightloom.calibration.systems import read_systems
from lightloom.calibration.transport_fit import System, fit_scales, predicted
from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance
from lightloom.core.results import Document, Result
from lightloom.core.units import format_size, format_time
from lightloom.reports.figures.accuracy_figure import PredictedSeries, accuracy_figure
from lightloom.reports.html import notebook_svg
from lightloom.transports.base import Transport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MEBIBYTE = 2.0**20
_LEAST_ROWS = 3


@dataclass(frozen=True, repr=False)
class CollectiveAccuracy(Result):
    """Timed collectives of systems, each predicted by the system's transport."""

    systems: tuple[System, ...]
    seconds: tuple[Floats, ...]
    """Of every system: [rows]."""
    origin: Document
    """Version and hash of the configuration."""

    def rows(self) -> list[Document]:
        """Return a row for each timed collective."""
        return [
            {
                "system": system.name,
                "nodes": row.nodes,
                "gpus": row.gpus,
                "collective": row.collective,
                "nbytes": row.nbytes,
                "measured_s": row.time_us * 1e-6,
                "predicted_s": float(time),
                "error": float(time / (row.time_us * 1e-6) - 1),
            }
            for system, seconds in zip(self.systems, self.seconds, strict=True)
            for row, time in zip(system.rows, seconds, strict=True)
        ]

    def display_rows(self) -> list[dict[str, object]]:
        return [
            {
                "system": row["system"],
                "nodes": row["nodes"],
                "GPUs": row["gpus"],
                "collective": row["collective"],
                "bytes": format_size(row["nbytes"]),
                "measured": format_time(row["measured_s"]),
                "predicted": format_time(row["predicted_s"]),
                "error": f"{row['error']:+.1%}",
            }
            for row in self.rows()
        ]

    def summary(self) -> str:
        return "; ".join(self.lines())

    def lines(self) -> list[str]:
        """Return a sentence for each system: median errors of small, middle and large collectives."""
        return [
            _errors(system, seconds / system.measured - 1)
            for system, seconds in zip(self.systems, self.seconds, strict=True)
        ]

    def to_json(self) -> Document:
        """Return the document that ``lightloom accuracy --json`` prints."""
        return {
            "schema": "lightloom.collectives-accuracy/1",
            "systems": [
                {"system": system.name, "transport": system.transport.name, "rows": len(system.rows)}
                for system in self.systems
            ],
            "rows": self.rows(),
            "provenance": self.origin,
        }

    def figure(self) -> Figure:
        """Return a matplotlib figure: predicted against measured collectives, one colour for each system."""
        series = [
            PredictedSeries(system.name, system.measured, seconds)
            for system, seconds in zip(self.systems, self.seconds, strict=True)
        ]
        return accuracy_figure(series, "collective")

    def pictures(self) -> tuple[str, ...]:
        return (notebook_svg(self.figure()),)


def _errors(system: System, errors: Floats) -> str:
    parts = []
    for words, least, below in (
        ("below 1 MiB", 0.0, _MEBIBYTE),
        ("from 1 MiB", _MEBIBYTE, np.inf),
        ("from 64 MiB", 64 * _MEBIBYTE, np.inf),
    ):
        size = np.abs(errors[(system.nbytes >= least) & (system.nbytes < below)])
        if len(size):
            parts.append(f"{words} median error {np.median(size):.1%}, mean {size.mean():.1%} ({len(size)} rows)")
    return f"{system.name}, {system.transport.name}: {'; '.join(parts)}"


def collective_accuracy(
    tables: Sequence[str | Path], *, cluster: str | None = None, transport: str | None = None, gpus: int | None = None
) -> CollectiveAccuracy:
    """Predict collectives that others timed.

    Args:
        tables: files, or names in the folder ``LIGHTLOOM_MEASURED``; ``cluster`` and ``transport`` may be columns.
        cluster: what was measured, where a table does not say it: a name of the catalog, or a YAML file.
        transport: a transport of the catalog, or a YAML file, where a table does not say it.
        gpus: number of GPUs, where a file does not say it.

    Raises:
        ConfigError: a file is missing, or a row cannot be read (names file, row and column).
        UnsupportedError: a cluster's fabric has no tiers of switches.
    """
    systems, digests = read_systems(tables, cluster=cluster, transport=transport, gpus=gpus)
    seconds = tuple(predicted(system, system.transport) for system in systems)
    return CollectiveAccuracy(tuple(systems), seconds, provenance([digests, cluster, transport]))


@dataclass(frozen=True, repr=False)
class TransportCalibration(Fitted):
    """A transport with four numbers fitted to the timed collectives of a system."""

    transport: Transport
    system: System
    """The rows that it was fitted to."""
    origin: Document
    """Version and hash of the configuration."""
    left_columns = ("number",)

    @property
    def title(self) -> str:
        return f"{self.system.transport.name} fitted to the {len(self.system.rows)} rows of {self.system.name}"

    def text(self) -> str:
        document = self.transport.model_dump(mode="json", exclude_none=True, exclude={"name"})
        document["description"] = self.title
        document["sources"] = {**self.transport.sources, "scales": f"fitted to {self.system.name}"}
        return yaml.safe_dump(document, sort_keys=False, width=120)

    def rows(self) -> list[Document]:
        """Return a row for each of the four numbers."""
        before = self.system.transport.scales.model_dump()
        after = self.transport.scales.model_dump()
        return [{"number": name, "typical": before[name], "fitted": after[name]} for name in after]

    def display_rows(self) -> list[dict[str, object]]:
        return [
            {
                "number": row["number"].replace("_", " "),
                "typical": f"× {row['typical']:.3g}",
                "fitted": f"× {row['fitted']:.3g}",
            }
            for row in self.rows()
        ]

    def remarks(self) -> list[str]:
        lines = [_errors(self.system, predicted(self.system, self.transport) / self.system.measured - 1)]
        if not self.system.across.any():
            lines.append("no row crosses domains: what is said of the network is typical of other systems")
        if self.system.across.all():
            lines.append("every row crosses domains: the latency inside a domain is typical of other systems")
        return lines

    def to_json(self) -> Document:
        """Return the document that ``lightloom calibrate --collectives --json`` prints."""
        return {
            "schema": "lightloom.transport-calibration/1",
            "rows": len(self.system.rows),
            "transport": self.transport.model_dump(mode="json"),
            "provenance": self.origin,
        }


def calibrate_transport(
    table: str | Path,
    *,
    cluster: str | None = None,
    transport: str | None = None,
    accelerator: str | None = None,
    gpus: int | None = None,
) -> TransportCalibration:
    """Fit the four numbers of a system to its timed collectives.

    Args:
        table: a file, or a name in the folder ``LIGHTLOOM_MEASURED``.
        cluster: what was measured: a name of the catalog, or a YAML file.
        transport: a name of the catalog, or a YAML file; without it the one that the accelerator names.
        accelerator: in place of a cluster, where all rows are of one node.
        gpus: number of GPUs, where the file does not say it.

    Raises:
        ConfigError: the file cannot be read, or holds several systems.
        UnsupportedError: the cluster's fabric has no tiers of switches.
    """
    systems, digests = read_systems([table], cluster=cluster, transport=transport, accelerator=accelerator, gpus=gpus)
    if len(systems) > 1:
        named = "; ".join(system.name for system in systems)
        raise ConfigError(f"{table}: {len(systems)} systems ({named}): expected one, which a transport is fitted to")
    (system,) = systems
    if len(system.rows) < _LEAST_ROWS:
        raise ConfigError(f"{table}: {len(system.rows)} rows: expected at least {_LEAST_ROWS} to fit a transport to")
    origin = provenance([digests, cluster, transport, accelerator])
    return TransportCalibration(fit_scales(system, system.transport), system, origin)
