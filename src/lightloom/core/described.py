"""Configurations that show themselves: a line in a terminal, a table of fields and sources in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import get_args

from lightloom.core.fields import Config, Quantity
from lightloom.core.results import html_table
from lightloom.core.units import Dimension, format_quantity

_OMITTED = ("name", "kind", "ranks", "sources")
"""Fields that the line's beginning states, and the sources, which the table lists beside the values."""
_COSTS = ("energy_per_bit", "power", "power_per_rank")
"""Fields that only the table shows."""


class Described(Config):
    """A configuration whose fields are printed with their units."""

    def heading(self) -> str:
        """Return what the object is, in a few words."""
        return type(self).__name__

    def unused_fields(self) -> tuple[str, ...]:
        """Return the fields that have a value without a meaning, because of others; the line leaves them out."""
        return ()

    def __repr__(self) -> str:
        fields = formatted_fields(self)
        omitted = {*_COSTS, *self.unused_fields()}
        named = [name for name in fields if name not in omitted and _belongs_in_line(getattr(self, name))]
        return f"{self.heading()}: " + "; ".join(f"{name.replace('_', ' ')} {fields[name]}" for name in named)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the fields as an HTML table with their sources."""
        sources: Mapping[str, str] = getattr(self, "sources", {})
        rows = [
            {"field": name.replace("_", " "), "value": text, "source": _source(name, sources)}
            for name, text in formatted_fields(self).items()
        ]
        return f"<div><p><b>{escape(self.heading())}</b></p>{html_table(rows)}</div>"


def formatted_fields(config: Config) -> dict[str, str]:
    """Return the fields of a configuration that have a value, each as text with its unit."""
    return {
        name: _formatted(value, _dimension(field.annotation, *field.metadata))
        for name, field in type(config).model_fields.items()
        if name not in _OMITTED and (value := getattr(config, name)) not in (None, "")
    }


def _belongs_in_line(value: object) -> bool:
    """Whether a value says something in one line: zeros and parts with many fields do not."""
    return value != 0 and (isinstance(value, Described) or not isinstance(value, Config))


def _source(name: str, sources: Mapping[str, str]) -> str:
    """Return the sources of a field, those of its parts (``peak.bf16``) included."""
    return "; ".join(dict.fromkeys(text for key, text in sources.items() if key.partition(".")[0] == name))


def _dimension(*annotations: object) -> Dimension | None:
    """Return the dimension that an annotation states, at any depth; None for numbers without a unit."""
    for annotation in annotations:
        if isinstance(annotation, Quantity):
            return annotation.dimension
        if (dimension := _dimension(*get_args(annotation))) is not None:
            return dimension
    return None


def _formatted(value: object, dimension: Dimension | None) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_formatted(entry, dimension)}" for key, entry in value.items())
    if isinstance(value, tuple):
        return " | ".join(_formatted(entry, dimension) for entry in value)
    if isinstance(value, Config) and not isinstance(value, Described):
        return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in formatted_fields(value).items())
    if isinstance(value, float):
        return f"{value:.4g}" if dimension is None else format_quantity(value, dimension)
    return str(value)
