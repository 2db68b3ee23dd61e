"""Studies by name; each is imported only when it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from lightloom.core.errors import UnknownNameError, UnsupportedError
from lightloom.studies.base import Study


@dataclass(frozen=True, slots=True)
class Measuring:
    """Long measurements that a study can repeat here instead of using those that come with the package."""

    jobs: Callable[[], int]
    run: Callable[[Path, Path | None, Callable[[int], None]], object]
    """Takes the folder for results and checkpoints, the data folder, and what to tell of each finished job."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How a study is run."""

    study: Callable[[Path | None], Study]
    """Takes the folder with the user's own measurements, or None."""
    measuring: Measuring | None = None

    def __call__(self, work: Path | None = None) -> Study:
        """Run it.

        Raises:
            ConfigError: measurements in ``work`` cannot be read.
            UnsupportedError: the study measures nothing.
        """
        if work is not None and self.measuring is None:
            raise UnsupportedError("this study has no long measurements: leave out --work")
        return self.study(work)


def studies() -> Mapping[str, Entry]:
    """Every study by name."""
    return MappingProxyType(
        {
            "dadiannao": Entry(lambda _: _dadiannao()),
            "inceptionn": Entry(_inceptionn, Measuring(_inceptionn_jobs, _inceptionn_measure)),
            "optinc": Entry(_optinc, Measuring(_optinc_jobs, _optinc_measure)),
            "optree": Entry(lambda _: _optree()),
            "sipml": Entry(_sipml, Measuring(_sipml_jobs, _sipml_measure)),
        }
    )


def names() -> list[str]:
    """Names of the studies."""
    return sorted(studies())


def find(name: str) -> Entry:
    """The study of that name.

    Raises:
        UnknownNameError: no such study (lists all).
    """
    known = studies()
    if name not in known:
        raise UnknownNameError("study", name, known)
    return known[name]


def _dadiannao() -> Study:
    from lightloom.studies.dadiannao.study import study

    return study()


def _optree() -> Study:
    from lightloom.studies.optree.study import study

    return study()


def _sipml(work: Path | None) -> Study:
    from lightloom.studies.sipml.study import study

    return study(work)


def _sipml_jobs() -> int:
    from lightloom.studies.sipml.runs import jobs

    return jobs()


def _sipml_measure(work: Path, _: Path | None, advance: Callable[[int], None]) -> object:
    from lightloom.studies.sipml.runs import measure

    return measure(work, advance)


def _inceptionn(work: Path | None) -> Study:
    from lightloom.studies.inceptionn.study import study

    return study(work)


def _inceptionn_jobs() -> int:
    from lightloom.studies.inceptionn.training_runs import jobs

    return len(jobs())


def _inceptionn_measure(work: Path, data: Path | None, advance: Callable[[int], None]) -> object:
    from lightloom.studies.inceptionn.training_runs import measure
    from lightloom.training.datasets.folder import data_folder

    return measure(work, data_folder(data), advance)


def _optinc(work: Path | None) -> Study:
    from lightloom.studies.optinc.study import study

    return study(work)


def _optinc_jobs() -> int:
    from lightloom.studies.optinc.runs import jobs

    return jobs()


def _optinc_measure(work: Path, data: Path | None, advance: Callable[[int], None]) -> object:
    from lightloom.studies.optinc.runs import measure
    from lightloom.training.datasets.folder import data_folder

    return measure(work, data_folder(data), advance)
