"""Registers of papers: every number, cell, curve, equation, algorithm and claim that one prints, and what settles it.

A study's ``register.yaml`` names the numerals of the paper's text by place. ``34.2`` is the second numeral of line 34
and ``34.2-5`` four of them, ``34-36`` is all numerals of three lines, and ``34`` is the line as such, or all of its
numerals where they state no result.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Self

from pydantic import model_validator

from lightloom.core.claims import Claim, Status
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.fields import Config

Value = float | str | None


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
        """Return the entry; raise ValueError unless it names rows, or else has a status and a reason, not both; and,
        where it has rows and lists several numbers, unless there is a row for each number."""
        if bool(self.names) == bool(self.settled and self.why):
            raise ValueError(f"at {self.at[0]}: expected rows, or else settled and why")
        if self.names and len(self.values) not in (0, len(self.names)):
            raise ValueError(f"at {self.at[0]}: {len(self.values)} values for {len(self.names)} rows")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rows that settle the entry, without the study's name: one, or one for each number; empty where
        none does."""
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
        """Return the register of a study, named by its package such as ``optree``, from its ``register.yaml``; None if
        it has none.

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
    """Return everything that the paper prints, each number once, in the order of the register's entries, with the
    status of its row or the stated one ("not reproducible" where none is). What an entry leaves out is its row's
    (value: the printed one beside ours; unit; name: the id without the study) or the register's (command and date); the
    reason is the row's, else the entry's.

    Args:
        register: what the paper prints.
        study: name of the study.
        claims: all rows of the study.

    Raises:
        ValueError: an entry names a row that the study lacks, or one that is named twice.
    """
    rows = {claim.id.removeprefix(f"{study}."): claim for claim in claims}
    named = list(chain.from_iterable(entry.names for entry in register.entries))
    if wrong := sorted({name for name in named if name not in rows or named.count(name) > 1}):
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
