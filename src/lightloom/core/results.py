"""Results that show themselves: a line in a terminal, a table in a notebook, rows in pandas, a document in JSON."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from lightloom.core.errors import UnsupportedError

if TYPE_CHECKING:
    from pandas import DataFrame

_ROWS_SHOWN = 40
"""Rows of a table in a notebook; ``rows()``, ``to_dataframe()`` and ``to_json()`` hold all."""
Document: TypeAlias = dict[str, Any]
"""A JSON object: keys spelled out, plain values in SI units."""
_CELL = "text-align: left; padding: 2px 12px 2px 0"


class Result(ABC):
    """Base of everything that the Python API returns.

    A subclass says what it is in one line (:meth:`summary`) and as a document (:meth:`to_json`); where it is a table it
    overrides :meth:`rows`, and where it can be drawn, :meth:`pictures`.
    """

    __slots__ = ()

    @abstractmethod
    def summary(self) -> str:
        """Return the result in one line."""

    @abstractmethod
    def to_json(self) -> Document:
        """Return the result in plain types and SI units, keys spelled out."""

    def rows(self) -> list[Document]:
        """Return the result as a table, one mapping from column to value for each row."""
        return [{key: value for key, value in self.to_json().items() if not isinstance(value, dict | list)}]

    def display_rows(self) -> Sequence[Mapping[str, object]]:
        """Return the rows that a notebook shows, formatted with units."""
        return self.rows()

    def pictures(self) -> Sequence[str]:
        """Return the drawings that a notebook shows, each an SVG element."""
        return ()

    def to_dataframe(self) -> DataFrame:
        """Return :meth:`rows` as a pandas ``DataFrame``.

        Raises:
            UnsupportedError: pandas is not installed.
        """
        try:
            from pandas import DataFrame
        except ModuleNotFoundError as error:
            if error.name != "pandas":
                raise
            raise UnsupportedError("to_dataframe needs pandas, which is not installed: pip install pandas") from error
        return DataFrame(self.rows())

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """The result as HTML: its line, its pictures and its table."""
        drawings = "".join(f"<div>{picture}</div>" for picture in self.pictures())
        return f"<div><p><b>{escape(self.summary())}</b></p>{drawings}{html_table(self.display_rows())}</div>"


def html_table(rows: Sequence[Mapping[str, object]], most: int = _ROWS_SHOWN) -> str:
    """Return rows as an HTML table with the first row's keys as its heading; at most ``most`` rows."""
    if not rows:
        return ""
    columns = list(rows[0])
    heading = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(_cell(row.get(name)) for name in columns) + "</tr>" for row in rows[:most])
    more = f"<p>and {len(rows) - most} more rows</p>" if len(rows) > most else ""
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
    return f'<td style="{_CELL}">{escape(text)}</td>'


def plain(value: object) -> object:
    """Return a value as JSON holds it: keys are text, tuples are lists, and numbers that JSON lacks are null."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
