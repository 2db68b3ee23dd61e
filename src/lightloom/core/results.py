"""Results that show themselves: a line in a terminal, a table in a notebook, rows in pandas, a document in JSON."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.metadata import version
from operator import attrgetter
from string import Formatter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_args

from lightloom.core import units
from lightloom.core.errors import needing
from lightloom.core.fields import Config, Quantity

if TYPE_CHECKING:
    from pandas import DataFrame


_ROWS_SHOWN = 40
"""Rows of a table in a notebook; ``rows()``, ``to_dataframe()`` and ``to_json()`` hold all."""
Document: TypeAlias = dict[str, Any]
"""A JSON object: keys spelled out, plain values in SI units."""
_Value = TypeVar("_Value")
_Key = TypeVar("_Key")
Advance: TypeAlias = Callable[[int], object]
"""Told how many steps of a long computation are finished since it was last told."""
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
        """Return the result as a document: plain types of JSON in SI units, keys spelled out."""

    def rows(self) -> list[Document]:
        """Return the result as a table, one mapping from column to value, unformatted, for each row; by default a
        single row: the entries of :meth:`to_json` at its top level that are neither lists nor mappings."""
        return [{key: value for key, value in self.to_json().items() if not isinstance(value, dict | list)}]

    def display_rows(self) -> Sequence[Mapping[str, object]]:
        """Return the rows of the table that a notebook shows, from column to value: those of :meth:`rows`, unformatted,
        unless a subclass overrides it to format with units."""
        return self.rows()

    def lines(self) -> Sequence[str]:
        """Return the lines with which a notebook opens, plain texts of which it shows the first in bold: the summary
        alone unless a subclass has the answer that the terminal shows."""
        return (self.summary(),)

    def pictures(self) -> Sequence[str]:
        """Return the drawings that a notebook shows, each an SVG element; none unless a subclass has some."""
        return ()

    def to_dataframe(self) -> DataFrame:
        """Return :meth:`rows` as a pandas ``DataFrame``, a row for each, its keys as columns.

        Raises:
            UnsupportedError: pandas is not installed.
        """
        with needing("to_dataframe needs pandas", "pandas", "pandas"):
            from pandas import DataFrame
        return DataFrame(self.rows())

    def __repr__(self) -> str:
        """Return the result in one line, its summary."""
        return self.summary()

    def _repr_html_(self) -> str:
        """Return the result as HTML, a ``<div>``: its lines (:meth:`lines`, escaped, the first in bold, each on its own
        line), its pictures as they are, and the table of :meth:`display_rows`, of at most 40 rows."""
        first, *others = map(escape, self.lines())
        rest = "".join(f"<br>{line}" for line in others)
        drawings = "".join(f"<div>{picture}</div>" for picture in self.pictures())
        return f"<div><p><b>{first}</b>{rest}</p>{drawings}{html_table(self.display_rows())}</div>"


def html_table(rows: Sequence[Mapping[str, object]], most: int = _ROWS_SHOWN) -> str:
    """Return rows as a ``<table>`` element with the first row's keys as its heading, texts escaped; a key that a later
    row lacks is an empty cell, one that only later rows have is left out. At most ``most`` rows (40 by default) are
    shown, the rest as ``<p>and 3 more rows</p>`` behind the table. Empty text for no rows."""
    if not rows:
        return ""
    columns = list(rows[0])
    heading = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(_cell(row.get(name)) for name in columns) + "</tr>" for row in rows[:most])
    more = f"<p>and {len(rows) - most} more rows</p>" if len(rows) > most else ""
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    """Return a value as a ``<td>`` element, its text escaped: floats with six significant digits, None as empty, other
    values as ``str``."""
    text = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
    return f'<td style="{_CELL}">{escape(text)}</td>'


def ignore(count: int) -> None:
    """Do nothing with the number of steps that were finished; stands for a progress bar where none is shown."""


def attributes(source: object, names: str) -> Document:
    """Return attributes of ``source`` by name, in the order of ``names``, which are separated by blanks: ``"ranks
    time_s=cost.time"`` gives ``ranks``, and ``cost.time`` under the name ``time_s``; without ``=`` a path is its own
    name. The values are as they are; AttributeError where one is missing."""
    pairs = (name.rpartition("=") for name in names.split())
    return {name or path: attrgetter(path)(source) for name, _, path in pairs}


def in_groups(values: Iterable[_Value], key: Callable[[_Value], _Key]) -> dict[_Key, list[_Value]]:
    """Return values in lists by their keys (``key`` of each value): keys in the order of their first values, values in
    their given order."""
    groups: dict[_Key, list[_Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def plain(value: object) -> object:
    """Return a value as JSON holds it, at any depth: keys of mappings are text, tuples are lists, and numbers that JSON
    lacks (NaN, infinities) are None; other values are returned as they are."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Rows of documents from attributes of objects, and rows of text from either.

_UNITS = (
    units.format_time,
    units.format_difference,
    units.format_size,
    units.format_energy,
    units.format_bandwidth,
    units.format_rate,
    units.format_ratio,
    units.format_claim,
)
FORMS: dict[str, Callable[[Any], str]] = {form.__name__.removeprefix("format_"): form for form in _UNITS}
"""How a number of a unit is formatted, by the words that stand for it in forms of :func:`cells` and on pages."""


class _RowFormatter(Formatter):
    """Formats a row, a mapping or an object, in the form of a cell."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the value of the row, ``args[0]``, under ``key``: an entry of a mapping, otherwise an attribute.
        ``kwargs`` is not used."""
        return args[0][key] if isinstance(args[0], Mapping) else getattr(args[0], str(key))

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value as text, in the form of a unit (:data:`FORMS`, such as ``time``) or by Python's format
        specification, whichever ``format_spec`` is. None is ``not sourced`` as ``energy``, – as ``ratio`` or ``claim``,
        the word ``None`` with an empty ``format_spec``, else empty text."""
        if value is None and format_spec not in ("", "energy", "ratio", "claim"):
            return ""
        return FORMS[format_spec](value) if format_spec in FORMS else format(value, format_spec)


def cells(columns: str, rows: Iterable[object]) -> list[dict[str, str]]:
    """Return rows as texts by column, a mapping for each.

    Args:
        columns: name and form of each column, as ``part: {name} | takes: {run.seconds:time}``, with ``|`` between
            columns. A form is a format string of Python whose fields are values of the row by name; behind a colon
            stands a unit (``time``, ``difference``, ``size``, ``energy``, ``bandwidth``, ``rate``, ``ratio`` or
            ``claim``), in whose form the value is written, or a format specification of Python. With either, None is
            empty text, but ``not sourced`` as ``energy`` and – as ``ratio`` or ``claim``; with neither, ``None``.
        rows: mappings, whose entries a form names, or objects, whose attributes it names.
    """
    forms, formatter = [column.split(": ", 1) for column in columns.split(" | ")], _RowFormatter()
    return [{name: formatter.format(form, row) for name, form in forms} for row in rows]


# Configurations that show themselves: a line in a terminal, a table of fields and sources in a notebook.

_OMITTED = ("name", "kind", "ranks", "sources")
"""Fields that the line's beginning states, and the sources, which the table lists beside the values."""
_COSTS = ("energy_per_bit", "power", "power_per_rank")
"""Fields that only the table shows."""


class Described(Config):
    """A configuration whose fields are printed with their units."""

    def heading(self) -> str:
        """Return what the object is, in a few words, with which its one-line text begins; its class's name unless a
        subclass says more."""
        return type(self).__name__

    def unused_fields(self) -> tuple[str, ...]:
        """Return the names of the fields whose value means nothing because of other fields' values; the one-line text
        leaves them out, the table of the notebook does not. No field by default."""
        return ()

    def __repr__(self) -> str:
        """Return the heading and the fields with their units in one line; costs, zeros and fields without a meaning are
        left out."""
        fields = formatted_fields(self)
        omitted = {*_COSTS, *self.unused_fields()}
        named = [name for name in fields if name not in omitted and _belongs_in_line(getattr(self, name))]
        return f"{self.heading()}: " + "; ".join(f"{name.replace('_', ' ')} {fields[name]}" for name in named)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the configuration as HTML, a ``<div>``: its heading in bold, and a table of its fields with the
        columns ``field`` (with blanks for underscores), ``value`` (:func:`formatted_fields`) and ``source``, the
        sources that ``sources`` states for the field or a part of it, each once, or nothing."""
        sources: Mapping[str, str] = getattr(self, "sources", {})
        rows = []
        for name, text in formatted_fields(self).items():
            # Sources of the field's parts (``peak.bf16``) are its own.
            own = dict.fromkeys(text for key, text in sources.items() if key.partition(".")[0] == name)
            rows.append({"field": name.replace("_", " "), "value": text, "source": "; ".join(own)})
        return f"<div><p><b>{escape(self.heading())}</b></p>{html_table(rows)}</div>"


def formatted_fields(config: Config) -> dict[str, str]:
    """Return the fields of a configuration that have a value, by name as in the class, in its order, each as text:
    floats with at most four significant digits and the unit of the field where it has one, zeros too. The fields
    ``name``, ``kind``, ``ranks`` and ``sources`` are left out, and so are those that are None or empty texts."""
    return {
        name: _format_value(value, _dimension(field.annotation, *field.metadata))
        for name, field in type(config).model_fields.items()
        if name not in _OMITTED and (value := getattr(config, name)) not in (None, "")
    }


def _belongs_in_line(value: object) -> bool:
    """Return True if a field's value is shown in the one-line text of a configuration: it is neither 0 nor False, nor
    a configuration without a one-line text of its own (a Config that is not :class:`Described`)."""
    return value != 0 and (isinstance(value, Described) or not isinstance(value, Config))


def _dimension(*annotations: object) -> units.Dimension | None:
    """Return the dimension (``time``, ``bandwidth``, ...) of the first ``Quantity`` among annotations of a field, also
    inside of their type arguments (``dict[str, Time]``, ``Time | None``), at any depth; None where there is none."""
    for annotation in annotations:
        if isinstance(annotation, Quantity):
            return annotation.dimension
        if (dimension := _dimension(*get_args(annotation))) is not None:
            return dimension
    return None


def _format_value(value: object, dimension: units.Dimension | None) -> str:
    """Return a field's value as text.

    Floats have four significant digits, with the unit of ``dimension`` unless it is None. Mappings read ``key value,
    key value``, their values in ``dimension`` too; so do configurations that are not :class:`Described`, with blanks
    for underscores in names, each field in its own unit. Entries of tuples are joined by bars (``a | b``), and other
    values, Described ones too, are as ``str``.
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_format_value(entry, dimension)}" for key, entry in value.items())
    if isinstance(value, tuple):
        return " | ".join(_format_value(entry, dimension) for entry in value)
    if isinstance(value, Config) and not isinstance(value, Described):
        return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in formatted_fields(value).items())
    if isinstance(value, float):
        return f"{value:.4g}" if dimension is None else units.format_quantity(value, dimension)
    return str(value)


# The provenance of a result: version, configuration hash, seed.


def content_hash(value: object) -> str:
    """Return the first 16 hex digits of the SHA-256 of the value's JSON with sorted keys and no blanks; values that
    JSON cannot hold count as their ``str``, keys that it cannot raise TypeError."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def provenance_line(origin: Mapping[str, object]) -> str:
    """Return a provenance, a mapping as :func:`provenance` makes it, in one line for terminals and the metadata of
    pictures: ``lightloom 0.3, configuration 0c5a99e6d2a1b3f4, seed none``."""
    seed = "none" if origin["seed"] is None else origin["seed"]
    return f"lightloom {origin['lightloom']}, configuration {origin['configuration']}, seed {seed}"


def provenance(configuration: object, seed: int | None = None) -> Document:
    """Return the ``provenance`` entry of an output: ``lightloom``, the package's version, ``configuration``, a hash of
    ``configuration`` (:func:`content_hash`), and ``seed``, None where nothing is drawn at random."""
    return {"lightloom": version("lightloom"), "configuration": content_hash(configuration), "seed": seed}
