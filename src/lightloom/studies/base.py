"""Studies: the reproduction of a paper as rows, figures and assumptions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from lightloom.core.claims import Basis, Claim
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.fields import Config
from lightloom.core.files import cannot_read

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
"""A measurement as read from a JSON file."""
Value = float | str | None
"""Value of a row; None where there is none to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFigure:
    """A reproduced figure of the paper."""

    title: str
    caption: str
    """What the paper says about the figure, and what ours shows."""
    draw: Callable[[], Figure]
    """Draws the figure; imports matplotlib when it is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """What the paper leaves open and what was taken instead; none was chosen to meet a printed number, but for
    those that say that they are fitted or inferred."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for claim in self.claims:
            if claim.id in seen:
                raise ValueError(f"study {self.name!r}: two rows are called {claim.id!r}")
            seen.add(claim.id)


class Printed(Config):
    """What a paper prints for one row, or for several whose ids differ in a field such as ``{ranks}``."""

    paper: int | float | str | None = None
    unit: str = ""
    tolerance: float = 0.0
    basis: Basis = "reproduced"
    trivial: float = 0.0
    fitted: bool = False
    why: str = ""
    """What explains a deviation; fields in braces are filled in with computed values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """Title and caption of a figure."""

    title: str
    caption: str


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
        """Load ``paper.yaml`` of a study's package.

        Raises:
            ConfigError: the file does not have this form.
        """
        path = Path(str(files(package) / "paper.yaml"))
        paper: Self = validate(cls, {"name": package.rpartition(".")[2], **read_yaml(path)}, path.name)
        return paper

    def measured(self, name: str, folder: Path | None = None, *, optional: bool = False) -> Any:
        """Return the content of a JSON file of measurements.

        Args:
            name: of the file, without suffix.
            folder: where to look instead of among the measurements that come with the package.
            optional: return None if there is no such file.

        Raises:
            ConfigError: the file cannot be read, or is not JSON.
        """
        path = (folder or Path(str(files(f"lightloom.studies.{self.name}") / "measured"))) / f"{name}.json"
        if optional and not path.is_file():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise cannot_read(path, str(error)) from error

    def claim(self, template: str, ours: Value, /, **values: Any) -> Claim:
        """Return a row: ``ours`` beside the published value of ``rows[template]``.

        ``values`` fill the fields in id and explanation; ``paper``, ``unit``, ``tolerance``, ``basis``,
        ``trivial``, ``fitted`` and ``why`` among them replace what the file says.
        """
        name = template.format(**values)
        printed = self.rows[template].model_dump()
        if name in self.rows:
            printed |= self.rows[name].model_dump(exclude_unset=True)
        printed |= {field: values[field] for field in Printed.model_fields if field in values}
        if "why" not in values:
            printed["why"] = printed["why"].format(**values | printed)
        return Claim(id=f"{self.name}.{name}", ours=ours, **printed)

    def figure(self, draw: Callable[[], Figure], **values: str) -> StudyFigure:
        """Return a figure with its title and caption; ``values`` fill the fields of the caption."""
        function = draw.func if isinstance(draw, partial) else draw
        legend = self.figures[function.__name__]
        return StudyFigure(title=legend.title, caption=legend.caption.format(**values), draw=draw)

    def study(self, claims: tuple[Claim, ...], figures: tuple[StudyFigure, ...], **values: Any) -> Study:
        """Return the study; ``values`` and the commands fill the fields of the assumptions."""
        commands = "; ".join(f"{name}: {command}" for name, command in self.commands.items())
        assumptions = tuple(text.format(commands=commands, **values) for text in self.assumptions)
        return Study(name=self.name, paper=self.title, claims=claims, figures=figures, assumptions=assumptions)
