"""Registers of papers: every number, cell, curve, equation, algorithm and claim that one prints, and what settles it.

A study's ``register.yaml`` names the numerals of the paper's text by place. ``34.2`` is the second numeral of line 34
and ``34.2-5`` four of them, ``34-36`` is all numerals of three lines, and ``34`` is the line as such, or all of its
numerals where they state no result.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Self

from pydantic import model_validator

from lightloom.core.claims import Claim, Status
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.fields import Config

Value = float | str | None
Place = tuple[int, int]
"""Line of the text and ordinal of the numeral in it, both from 1."""

_NUMERAL = re.compile(r"(?<![A-Za-z_\d])\d+(?:,\d{3})*(?:\.\d+)?")
_PART = r"\(?\d+(?:\.\d+)*\)?(?:\s?\([a-z]\)|[a-z]\b)?"
_REFERENCE = re.compile(
    r"\[\s*\d+(?:\s*[,–-]\s*\d+)*\s*\]"
    r"|(?:figs?\.?|figures?|tables?|sections?|secs?\.?|eqs?\.?|equations?|algorithms?|theorems?|lemmas?|appendix"
    rf"|appendices|§)\s*~?{_PART}(?:(?:\s*,\s*|\s*,?\s*(?:and|to|or)\s+|\s*[–-]\s*){_PART})*",
    re.IGNORECASE,
)
"""Citations, and the numbers of figures, tables, sections, equations, algorithms, theorems and appendices."""


class Entry(Config):
    """One printed number in all of its places, several cells of a table, or something that is printed without one."""

    at: tuple[int | float | str, ...]
    where: str
    """Section, table or figure."""
    value: int | float | str | None = None
    values: tuple[int | float | str, ...] = ()
    """In the order of the numerals, for several numbers."""
    printed: str = ""
    """The text's form of a number that it does not print as a numeral, such as ``2^-10``."""
    unit: str = ""
    what: str = ""
    row: str = ""
    """Row of the study that settles it, without the study's name."""
    rows: tuple[str, ...] = ()
    """A row for each of several numbers."""
    settled: Status | None = None
    """Status of what no row settles."""
    why: str = ""
    command: str = ""
    """Command that settles it; the register's unless stated, as is the date."""
    run: date | None = None

    @model_validator(mode="after")
    def _is_settled(self) -> Self:
        """Raise ValueError unless there is a row for each number, or a status and a reason."""
        if bool(self.names) == bool(self.settled and self.why):
            raise ValueError(f"at {self.at[0]}: expected rows, or else settled and why")
        if self.names and len(self.values) not in (0, len(self.names)):
            raise ValueError(f"at {self.at[0]}: {len(self.values)} values for {len(self.names)} rows")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rows."""
        return (self.row,) if self.row else self.rows


class Register(Config):
    """All numerals of a paper's text, as entries or skipped with a reason."""

    text: str
    """Name of the file."""
    sha256: str
    command: str
    run: date
    skipped: Mapping[str, tuple[int | float | str, ...]]
    """Places that state no result, by reason."""
    entries: tuple[Entry, ...]

    @classmethod
    def load(cls, study: str) -> Self | None:
        """Return the register of a study; None if it has none.

        Raises:
            ConfigError: the file does not have this form.
        """
        path = Path(str(files(f"lightloom.papers.{study}") / "register.yaml"))
        return validate(cls, read_yaml(path), f"{study}/{path.name}") if path.is_file() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One thing that a paper prints, and what came of it."""

    where: str
    what: str
    value: Value
    unit: str
    status: Status
    why: str
    row: str
    """Id of the row that settles it; empty where none does."""
    fitted: bool
    command: str
    run: str
    """Date on which the command was run."""


def settle(register: Register, study: str, claims: Iterable[Claim]) -> tuple[Number, ...]:
    """Return everything that the paper prints, each once, with the status of its row or the stated one.

    Raises:
        ValueError: an entry names a row that the study lacks, or that another entry names.
    """
    rows = {claim.id.removeprefix(f"{study}."): claim for claim in claims}
    named = list(chain.from_iterable(entry.names for entry in register.entries))
    wrong = sorted({name for name in named if name not in rows or named.count(name) > 1})
    if wrong:
        raise ValueError(f"{study}/register.yaml: rows that do not exist, or are named twice: {', '.join(wrong)}")
    numbers = []
    for entry in register.entries:
        values: Sequence[Value] = entry.values or [entry.value] * max(len(entry.rows), 1)
        for nth, value in enumerate(values):
            row = rows[entry.names[nth]] if entry.names else None
            numbers.append(
                Number(
                    where=entry.where,
                    what=entry.what or (row.id.partition(".")[2] if row else ""),
                    value=row.paper if row and value is None else value,
                    unit=entry.unit or (row.unit if row else ""),
                    status=row.status if row else entry.settled or "not reproducible",
                    why=(row and row.why) or entry.why,
                    row=row.id if row else "",
                    fitted=row is not None and row.fitted,
                    command=entry.command or register.command,
                    run=(entry.run or register.run).isoformat(),
                )
            )
    return tuple(numbers)


def numerals(text: str) -> dict[Place, re.Match[str]]:
    """Return the numerals of a text, each as it was found in its line."""
    return {
        (line, ordinal): match
        for line, words in enumerate(text.split("\n"), start=1)
        for ordinal, match in enumerate(_NUMERAL.finditer(words), start=1)
    }


def faults(register: Register, data: bytes) -> Iterator[str]:
    """Yield what does not fit between a register and its paper's text, a line each: numerals that nothing claims or
    that are claimed twice, places without one, values that differ."""
    if sha256(data).hexdigest() != register.sha256:
        yield f"{register.text}: another text than the register's"
    found = numerals(data.decode())
    claimed = Counter[Place]()
    for skipped in chain.from_iterable(register.skipped.values()):
        claimed.update(_expand(skipped, found, whole=True))
    for entry in register.entries:
        places = [each for place in entry.at for each in _expand(place, found, whole=False)]
        claimed.update(places)
        values: Sequence[Value] = entry.values or [entry.value] * len(places)
        if not entry.printed and len(values) == len(places):
            for place, value in zip(places, values, strict=True):
                if place in found and not _equals(found[place].group(), value):
                    yield f"{place[0]}.{place[1]}: {found[place].group()} is printed, not {value}"
        elif not entry.printed:
            yield f"{entry.at[0]}: {len(values)} values for {len(places)} numerals"
    for line, ordinal in sorted(claimed):
        if (line, ordinal) not in found:
            yield f"{line}.{ordinal}: no numeral"
        elif claimed[line, ordinal] > 1:
            yield f"{line}.{ordinal}: claimed twice"
    for line, ordinal in sorted(found.keys() - claimed.keys()):
        numeral = found[line, ordinal]
        if not any(each.start() <= numeral.start() < each.end() for each in _REFERENCE.finditer(numeral.string)):
            yield f"{line}.{ordinal}: unclaimed {numeral.group()} in {around(numeral)!r}"


def around(numeral: re.Match[str]) -> str:
    """Return a numeral with what stands around it in its line."""
    return numeral.string[max(numeral.start() - 80, 0) : numeral.end() + 80]


def _expand(place: object, found: Iterable[Place], *, whole: bool) -> list[Place]:
    """Return the numerals of a place; a single line has none unless it is ``whole``."""
    line, _, ordinal = str(place).partition(".")
    first, _, last = (ordinal or line).partition("-")
    within = range(int(first), int(last or first) + 1)
    if ordinal:
        return [(int(line), each) for each in within]
    return [each for each in found if each[0] in within] if whole or last else []


def _equals(numeral: str, value: Value) -> bool:
    """Return True if a value is the numeral's, but for its sign."""
    try:
        return value is not None and abs(float(value)) == float(numeral.replace(",", ""))
    except ValueError:
        return False
