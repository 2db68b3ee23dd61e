"""Find studies by name; the modules of a study are imported when it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from lightloom.core.errors import UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from lightloom.studies.base import Study


@dataclass(frozen=True, slots=True)
class Measurements:
    """Long measurements that a study can repeat instead of using those of the package."""

    module: str
    """Module with ``job_count()`` and ``measure(work, data, advance)``."""

    def job_count(self) -> int:
        """Return the number of jobs."""
        return int(import_module(self.module).job_count())

    def run(self, work: Path, data: Path | None, advance: Callable[[int], None]) -> None:
        """Run the jobs without results in ``work``; ``advance`` is called with the number of finished jobs."""
        import_module(self.module).measure(work, data, advance)


@dataclass(frozen=True, slots=True)
class Entry:
    """A study that can be run."""

    name: str
    measurements: Measurements | None = None

    def __call__(self, work: Path | None = None) -> Study:
        """Run the study, with the measurements in ``work`` if it is given.

        Raises:
            ConfigError: measurements in ``work`` cannot be read.
            UnsupportedError: the study has no measurements to repeat.
        """
        run = import_module(f"lightloom.studies.{self.name}.study").study
        if self.measurements is None and work is not None:
            raise UnsupportedError("this study has no long measurements: leave out --work")
        study: Study = run() if self.measurements is None else run(work)
        return study


STUDIES: Mapping[str, Entry] = MappingProxyType(
    {
        "dadiannao": Entry("dadiannao"),
        "economics": Entry("economics"),
        "inceptionn": Entry("inceptionn", Measurements("lightloom.studies.inceptionn.runs")),
        "optinc": Entry("optinc", Measurements("lightloom.studies.optinc.runs")),
        "optree": Entry("optree"),
        "sipml": Entry("sipml", Measurements("lightloom.studies.sipml.runs")),
    }
)
"""Every study by name."""


def names() -> list[str]:
    """Return the names of all studies."""
    return sorted(STUDIES)


def find(name: str) -> Entry:
    """Return the study of that name.

    Raises:
        UnknownNameError: the study does not exist; the message lists all.
    """
    if name not in STUDIES:
        raise UnknownNameError("study", name, STUDIES)
    return STUDIES[name]
