"""Sweeps of ``lightloom onn link``: word error rate against one option of the link."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.core.results import Document
from lightloom.photonics.link.chip import Chip
from lightloom.photonics.link.options import find_option, read_value
from lightloom.photonics.link.settings import Link
from lightloom.photonics.link.word_errors import word_errors

_POINTS = 9


@dataclass(frozen=True, slots=True)
class LinkSweep:
    """An option, and the values it takes."""

    option: str
    values: list[float]


def read_sweep(text: str, link: Link) -> LinkSweep:
    """Read ``NAME=LOW..HIGH[:POINTS]`` of a link; both ends may have units.

    Raises:
        ConfigError: another form, an option in words, or ends or points out of range.
        UnknownNameError: no such option.
    """
    name, equals, rest = text.partition("=")
    low_text, dots, ends = rest.partition("..")
    high_text, _, points_text = ends.partition(":")
    if not (equals and dots):
        raise ConfigError(f"--sweep {text!r}: expected NAME=LOW..HIGH[:POINTS], e.g. phase-lock=0.05..0.3:6")
    if find_option(name).unit == "name":
        raise ConfigError(f"--sweep {text!r}: {name} is no number")
    low, high = read_value(name, low_text), read_value(name, high_text)
    try:
        points = int(points_text) if points_text else _POINTS
    except ValueError as error:
        raise ConfigError(f"--sweep {text!r}: expected a number of points, e.g. :{_POINTS}") from error
    if low is None or high is None or not low < high or not 2 <= points <= 1000:
        raise ConfigError(f"--sweep {text!r}: expected LOW < HIGH and 2 to 1000 points")
    if name == "dac-bits":
        read = LinkSweep(name, [float(bits) for bits in range(math.ceil(low), math.floor(high) + 1)])
    else:
        values = np.geomspace(low, high, points) if low > 0 else np.linspace(low, high, points)
        read = LinkSweep(name, [float(value) for value in values])
    for value in (*read.values[:1], *read.values[-1:]):
        link_at(link, read, value)  # ends out of range are refused before anything is computed
    return read


def swept(
    chip: Chip, link: Link, sweep: LinkSweep, advance: Callable[[int], object], tried: Mapping[str, Any]
) -> Document:
    """Return the word error rates of a sweep."""
    rows = [
        {"value": value, **word_errors(chip, link_at(link, sweep, value), advance=advance, **tried).to_json()}
        for value in sweep.values
    ]
    return {"option": sweep.option, "unit": find_option(sweep.option).unit, "rows": rows}


def link_at(link: Link, sweep: LinkSweep, value: float) -> Link:
    """Return the link at one value of a sweep.

    Raises:
        ConfigError: the value is out of the option's range.
    """
    option = find_option(sweep.option)
    setting: Any = int(value) if option.unit == "bits" else value
    return replace(link, **{option.field: setting})
