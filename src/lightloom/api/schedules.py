"""A verified schedule with its fabric, cost and lower bound: what ``synthesize`` and ``verify`` return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.cost.price import Cost
from lightloom.collectives.evaluate import Evaluation, costed
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.core.provenance import provenance
from lightloom.core.results import Document, Result, plain
from lightloom.core.units import format_energy, format_size, format_time, parse
from lightloom.fabrics.base import Fabric
from lightloom.interchange.formats import LARGEST, export_schedule, export_size
from lightloom.reports.figures.wavelength_map import wavelength_map
from lightloom.reports.html import notebook_svg
from lightloom.reports.numbers import format_ratio
from lightloom.reports.progress import progress
from lightloom.reports.report import CollectiveRow, collective_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class VerifiedSchedule(Result):
    """A schedule that passed the verifier on a fabric, with what it costs there and what no schedule can beat."""

    schedule: Schedule
    """Who sends which chunk, when, along which lightpath."""
    fabric: Fabric
    """The fabric on which it was verified."""
    cost: Cost
    """Time and energy of one run."""
    lower_bound: Bound
    """The proved lower bound on the time."""

    @classmethod
    def of(cls, schedule: Schedule, fabric: Fabric) -> VerifiedSchedule:
        """Return a schedule that was verified on ``fabric``, costed and held against its bound."""
        return cls(schedule, fabric, *costed(schedule, fabric))

    @classmethod
    def evaluated(cls, evaluation: Evaluation, fabric: Fabric) -> VerifiedSchedule:
        """Return an evaluation on ``fabric``."""
        return cls(evaluation.schedule, fabric, evaluation.cost, evaluation.bound)

    @property
    def collective(self) -> Collective:
        """The collective that the schedule carries."""
        return self.schedule.collective

    @property
    def algorithm(self) -> str:
        """Name of the algorithm that made the schedule."""
        return self.schedule.algorithm

    @property
    def time(self) -> float:
        """Duration of one run, in seconds."""
        return self.cost.time

    @property
    def ratio(self) -> float | None:
        """Time over lower bound; None where the bound is zero."""
        return self.lower_bound.ratio(self.cost)

    @property
    def repeated_ratio(self) -> float | None:
        """The same without the first set-up of circuits in either; None where a repeated run pays as much."""
        return self.lower_bound.repeated_ratio(self.cost)

    def save(self, path: str | Path, *, largest: str | float = LARGEST) -> list[Path]:
        """Write the schedule in the form that the suffix names: .json, .parquet, .arrow, .et (Chakra), .xml (MSCCL).

        Args:
            path: the file; of Chakra traces one a rank is written.
            largest: bytes above which nothing is written (``"20GB"``).

        Raises:
            UnsupportedError: another suffix, the form cannot hold this schedule, or it takes more than ``largest``.
            ConfigError: the file cannot be written.
        """
        target = Path(path)
        with progress(f"Rows of {target.name}", 2 * export_size(target, self.schedule).rows) as advance:
            return export_schedule(target, self.schedule, self.fabric, parse(largest, "size"), advance)

    def figure(self) -> Figure:
        """Return a matplotlib figure: wavelengths of a ring, circuits of a switch, or bytes on the links of packets."""
        return wavelength_map(self.schedule, self.fabric)

    def summary(self) -> str:
        collective, bound = self.collective, self.lower_bound
        return (
            f"{self.algorithm}: {collective.kind} of {format_size(collective.nbytes)} over {collective.ranks} ranks, "
            f"{len(self.schedule)} rows, verified; {format_time(self.time)}, "
            f"lower bound {format_time(bound.time)} ({bound.bound_by})"
        )

    def to_json(self, files: Sequence[Path] = ()) -> Document:
        """Return the document that ``lightloom schedule check --json`` prints; ``files`` names what was written."""
        collective, fabric = self.collective, self.fabric.model_dump(mode="json")
        document = {
            "schema": "lightloom.schedule-report/1",
            "algorithm": self.algorithm,
            "kind": collective.kind,
            "ranks": collective.ranks,
            "nbytes": collective.nbytes,
            "rows": len(self.schedule),
            "verified": True,
            "time_s": self.time,
            "lower_bound_s": self.lower_bound.time,
            "bound_by": self.lower_bound.bound_by,
            "fabric": fabric,
            "files": [str(path) for path in files],
            "provenance": provenance([collective.kind, collective.nbytes, fabric, self.algorithm]),
        }
        return {str(key): plain(value) for key, value in document.items()}

    def row(self) -> Document:
        """Return the schedule's row in a ranking of algorithms."""
        cost = self.cost
        return {
            "algorithm": self.algorithm,
            "steps": cost.steps,
            "time_s": cost.time,
            "lower_bound_s": self.lower_bound.time,
            "bound_by": self.lower_bound.bound_by,
            "energy_j": cost.energy,
            "verified": True,
            "transmission_s": cost.transmission,
            "conversion_s": cost.conversion,
            "reconfiguration_s": cost.reconfiguration,
            "static_circuits": cost.static,
            "setup_s": cost.setup,
            "ratio": self.ratio,
            "ratio_without_setup": self.repeated_ratio,
            "notes": list(self.schedule.notes),
        }

    def rows(self) -> list[Document]:
        """Return the rows of all ranks and pieces: one for each chunk that reaches a destination.

        Raises:
            UnsupportedError: they do not fit in the memory that is free.
        """
        whole = self.schedule.unfolded(self.fabric.fibre_channels)
        columns = {name: column.tolist() for name, column in whole.columns().items()}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def display_rows(self) -> list[dict[str, object]]:
        return [
            {
                "algorithm": self.algorithm,
                "steps": self.cost.steps,
                "time": format_time(self.time),
                "vs bound": format_ratio(self.ratio),
                "steady": format_ratio(self.repeated_ratio),
                "lower bound": format_time(self.lower_bound.time),
                "energy": format_energy(self.cost.energy),
                "bound set by": self.lower_bound.bound_by,
                "notes": "; ".join(self.schedule.notes),
            }
        ]

    def report_row(self) -> CollectiveRow:
        """Return the schedule's row in the tables of terminals and pages."""
        return collective_row(self.algorithm, self.cost, self.lower_bound)

    @cached_property
    def _drawing(self) -> str:
        return notebook_svg(self.figure())

    def pictures(self) -> tuple[str, ...]:
        return (self._drawing,)
