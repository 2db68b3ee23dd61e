"""Studies: the reproduction of a paper as rows, figures and assumptions."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from lightloom.core.claims import Basis, Claim, counts_in_words
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import InputError, UnknownNameError, UnsupportedError
from lightloom.core.fields import Config
from lightloom.core.files import cannot_read
from lightloom.core.results import Advance, cells, provenance
from lightloom.papers.register import Number, Register, Value, settle

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Record = Mapping[str, Any]
"""A measurement as read from a JSON file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """Title and caption of a figure, as texts."""

    title: str
    caption: str
    """Statement of the paper about the figure, and the result of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFigure(Legend):
    """A reproduced figure of the paper."""

    draw: Callable[[], Figure]
    """Draws the figure; imports matplotlib when it is called."""


@dataclass(frozen=True, slots=True)
class Study:
    """The claims of one paper, and our results.

    Raises:
        ValueError: two rows share an id.
    """

    name: str
    paper: str
    """Authors, title and venue."""
    claims: tuple[Claim, ...]
    figures: tuple[StudyFigure, ...]
    assumptions: tuple[str, ...]
    """Assumptions where the paper leaves something open; none was chosen to meet a printed number, but for
    those that say that they are fitted or inferred."""
    numbers: tuple[Number, ...] = ()
    """Everything that the paper prints, each once, settled by a row or without one."""

    def __post_init__(self) -> None:
        """Raise ValueError where two rows share an id."""
        ids = [claim.id for claim in self.claims]
        if twice := next((name for place, name in enumerate(ids) if name in ids[:place]), None):
            raise ValueError(f"study {self.name!r}: two rows are called {twice!r}")

    @property
    def settling(self) -> tuple[Claim, ...]:
        """Rows that settle something printed, in the order of the rows; none where the paper has no register of what it
        prints."""
        named = {number.row for number in self.numbers}
        return tuple(claim for claim in self.claims if claim.id in named)

    @property
    def findings(self) -> tuple[Claim, ...]:
        """Rows that settle nothing printed: findings of our own, other readings, and what goes beyond the paper; all
        rows where the paper has no register."""
        settling = self.settling
        return tuple(claim for claim in self.claims if claim not in settling)

    def counts(self) -> str:
        """Return the counts of printed numbers by status, and of findings, in words: "31 match, 18 deviates, of 49
        printed numbers; 7 findings of ours"."""
        return counts_in_words(self.numbers, len(self.findings))

    def stated(self) -> list[dict[str, str]]:
        """Return the printed numbers that no row settles, each as texts by column: ``where``, ``what``, ``printed``,
        ``unit``, ``status`` and ``why``."""
        return cells(
            "where: {where} | what: {what} | printed: {value:claim} | unit: {unit} | status: {status} | why: {why}",
            (number for number in self.numbers if not number.row),
        )


class Printed(Config):
    """Published value of one row, or for several whose ids differ in a field such as ``{ranks}``."""

    paper: int | float | str | None = None
    unit: str = ""
    tolerance: float = 0.0
    basis: Basis = "reproduced"
    trivial: float = 0.0
    fitted: bool = False
    why: str = ""
    """Explanation of a deviation; fields in braces are filled in with computed values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """Published values of a paper and the texts of its study, as in the study's ``paper.yaml``."""

    name: str
    title: str
    """Authors, title and venue."""
    assumptions: tuple[str, ...]
    figures: Mapping[str, Legend]
    """Title and caption by the function that draws."""
    rows: Mapping[str, Printed]
    """Published value and explanation by id, without the name of the study.

    What the entry of an id such as ``ring_4`` states replaces what the entry of ``ring_{ranks}`` states.
    """
    commands: Mapping[str, str] = field(default_factory=dict)
    """Commands that made the stored measurements, by what they made."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """Tables of the paper that several rows use."""

    @classmethod
    def load(cls, package: str) -> Self:
        """Load ``paper.yaml`` of a study's package, given by its full name such as ``lightloom.papers.optree``.

        Raises:
            ConfigError: the file cannot be read, or does not have this form.
        """
        path = Path(str(files(package) / "paper.yaml"))
        return validate(cls, {"name": package.rpartition(".")[2], **read_yaml(path)}, path.name)

    def measured(self, name: str, folder: Path | None = None, *, optional: bool = False) -> Any:
        """Return the content of a JSON file of measurements.

        Args:
            name: of the file, without suffix.
            folder: where to look first; where it is not there, or for None, the package's file is read.
            optional: return None if there is no such file in either.

        Raises:
            ConfigError: the file cannot be read, or is not JSON.
        """
        path = Path(str(files(f"lightloom.papers.{self.name}") / "measured")) / f"{name}.json"
        if folder is not None and (folder / path.name).is_file():
            path = folder / path.name
        if optional and not path.is_file():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise cannot_read(path, str(error)) from error

    def claim(self, template: str, ours: Value, /, **values: Any) -> Claim:
        """Return a row: ``ours`` beside the published value of ``rows[template]``.

        Args:
            template: key of :attr:`rows`, an id without the study's name whose fields in braces ``values`` fill. Where
                the id that results is itself a key, what its entry states replaces what that of the template states.
            ours: our result; None where there is none.
            values: fields of id and explanation; ``paper``, ``unit``, ``tolerance``, ``basis``, ``trivial``, ``fitted``
                and ``why`` among them replace what the file says, and such a ``why`` is taken as it is, without fields
                filled.

        Raises:
            KeyError: the file has no such row, or ``values`` lack a field.
            ValueError: the row does not match and says nothing, or its tolerance accepts the trivial answer.
        """
        name = template.format(**values)
        printed = self.rows[template].model_dump()
        if name in self.rows:
            printed |= self.rows[name].model_dump(exclude_unset=True)
        printed |= {field: values[field] for field in Printed.model_fields if field in values}
        if "why" not in values:
            printed["why"] = printed["why"].format(**values | printed)
        return Claim(id=f"{self.name}.{name}", ours=ours, **printed)

    def study(self, claims: tuple[Claim, ...], *draws: Callable[[], Figure], **values: Any) -> Study:
        """Return the study of this paper, its printed numbers settled by the rows where it has a register, none
        otherwise.

        Args:
            claims: all rows.
            draws: functions, or partial calls of functions, that draw a figure each; title and caption are found by the
                function's name.
            values: fields of captions and assumptions; ``commands``, the commands that made the measurements, is added
                to them.

        Raises:
            ValueError: two rows share an id, or the register names a row that is missing or named twice.
        """
        values["commands"] = "; ".join(f"{name}: {command}" for name, command in self.commands.items())
        figures = []
        for draw in draws:
            legend = self.figures[(draw.func if isinstance(draw, partial) else draw).__name__]
            figures.append(StudyFigure(title=legend.title, caption=legend.caption.format(**values), draw=draw))
        assumptions = tuple(text.format(**values) for text in self.assumptions)
        register = Register.load(self.name)
        numbers = settle(register, self.name, claims) if register else ()
        return Study(self.name, self.title, claims, tuple(figures), assumptions, numbers)


# Studies by name.


class Experiment(NamedTuple):
    """A long measurement of a study, in jobs; a job whose result is in the folder already is not repeated."""

    jobs: Callable[[], int]
    """Returns the number of jobs."""
    measure: Callable[[Path, Path, Advance], object]
    """Runs the jobs without results in a folder, with the data sets of a second one, and writes the measurements there;
    the last argument is called with the number of jobs finished, or left out, since its last call."""
    data: bool = True
    """False if no data set is needed; the second folder then says nothing."""


def origin(configuration: object, seed: int | None = None) -> dict[str, Any]:
    """Return the provenance of a measurement that is stored: the package's version (``lightloom``), a hash of the
    configuration (``configuration``) and the ``seed``, as every result has them, and the processor's architecture with
    its number of cores (``machine``, "x86_64, 2 cores") and today's date (``run``, ISO)."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    return provenance(configuration, seed) | {"machine": machine, "run": date.today().isoformat()}


@dataclass(frozen=True, slots=True)
class Entry:
    """A study that can be run; its modules are imported then."""

    name: str
    measures: bool = False
    """True if the study has long measurements that can be repeated (``runs.py``) instead of using the package's."""

    def experiments(self, name: str | None = None) -> list[Experiment]:
        """Return the long measurements of this study, in order (``EXPERIMENTS`` of its ``runs.py``), or a list of the
        one of that name.

        Raises:
            UnknownNameError: there is none of that name; the message lists all.
            UnsupportedError: the study has none.
        """
        if not self.measures:
            raise UnsupportedError("this study has no long measurements: leave out --work and --run")
        found: Mapping[str, Experiment] = import_module(f"lightloom.papers.{self.name}.runs").EXPERIMENTS
        if name is not None and name not in found:
            raise UnknownNameError("experiment", name, found)
        return list(found.values()) if name is None else [found[name]]

    def __call__(self, work: Path | None = None) -> Study:
        """Run the study, with the measurements in ``work`` in the place of the package's if it is given.

        Raises:
            ConfigError: measurements in ``work`` cannot be read.
        """
        run = import_module(f"lightloom.papers.{self.name}.study").study
        study: Study = run(work) if self.measures else run()
        return study


_STUDIES = {"dadiannao": False, "economics": False, "inceptionn": True, "optinc": True, "optree": False, "sipml": True}
STUDIES: Mapping[str, Entry] = MappingProxyType({name: Entry(name, measures) for name, measures in _STUDIES.items()})
"""Every study by name."""


def names() -> list[str]:
    """Return the names of all studies, sorted."""
    return sorted(STUDIES)


def find(name: str) -> Entry:
    """Return the entry of the study of that name, by which it is run.

    Raises:
        UnknownNameError: the study does not exist; the message lists all.
    """
    if name not in STUDIES:
        raise UnknownNameError("study", name, STUDIES)
    return STUDIES[name]


def refusal(ask: Callable[[], object]) -> str:
    """Return the message of the InputError that calling ``ask`` raises; empty if it raises none. Other errors pass."""
    try:
        ask()
    except InputError as error:
        return str(error)
    return ""


def rounded(value: Any) -> Any:
    """Return a JSON value with all floats, also inside lists and mappings, rounded to six significant digits; tuples
    stay as they are; what is not finite, such as the loss of a run that diverged, becomes None."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


# Runs compared in pairs: equal seeds start from equal weights and see equal batches.

BASE = "float32"
"""Name of the runs that others are compared with."""


class Pairs(NamedTuple):
    """Mean difference of runs from those of the baseline with the same seed, and its 95 % interval."""

    mean: float
    half: float
    """Half width of the 95 % interval; NaN for one pair."""
    seeds: int

    def text(self, digits: int) -> str:
        """Return the signed mean ± half width with so many decimals, and the number of seeds, as in "-0.12 ± 0.05 (95
        %), 3 seeds in pairs"; for one seed no half width."""
        spread = f" ± {self.half:.{digits}f} (95 %)" if self.seeds > 1 else ""
        return f"{self.mean:+.{digits}f}{spread}, {self.seeds} {'seeds' if self.seeds > 1 else 'seed'} in pairs"


def differences(runs: Record, name: str, key: str, scale: float = 1.0) -> list[float]:
    """Return the differences (run − baseline of the same seed) of the last entry of a field, times ``scale``, in the
    order of the runs, for the seeds that both have.

    Args:
        runs: lists of runs by name, one for each seed, among them the baseline's under ``float32``; each run has its
            ``recipe`` with the ``seed``.
        name: of the runs that are compared.
        key: field of the runs, a list over training, such as ``accuracy``.
        scale: factor of the differences, such as 100 for points.
    """
    first = {run["recipe"]["seed"]: run[key][-1] for run in runs.get(BASE, ())}
    return [
        scale * (run[key][-1] - first[run["recipe"]["seed"]])
        for run in runs.get(name, ())
        if run["recipe"]["seed"] in first
    ]


def paired(runs: Record, name: str, key: str, scale: float = 1.0) -> Pairs | None:
    """Return the mean of :func:`differences`, half the width of their 95 % interval by Student's t (NaN for one pair)
    and their number, as ``mean``, ``half`` and ``seeds``; None without a pair. Arguments are those of
    :func:`differences`: lists of runs by name, the runs that are compared, the field, and the factor."""
    if not (values := differences(runs, name, key, scale)):
        return None
    from scipy.special import stdtrit

    n = len(values)
    half = float(stdtrit(n - 1, 0.975)) * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Pairs(float(np.mean(values)), half, n)
