"""The constants of the comparison, their ranges and sources (`constants.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from lightloom.core.configfile import read_yaml
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.parts.load import load_part

_SCALES: Mapping[str, float] = MappingProxyType(
    {
        "": 1.0,
        "bits": 1.0,
        "pi": 1.0,
        "rad": 1.0,
        "dB": 1.0,
        "dB/Hz": 1.0,
        "pJ/bit": 1e-12,
        "fJ": 1e-15,
        "mW": 1e-3,
        "ns": 1e-9,
        "ps": 1e-12,
        "pA/rtHz": 1e-12,
        "mm2": 1e-6,
    }
)
"""SI value of one of each unit of the file."""

Values = Mapping[str, float]
"""A value for every constant, in SI units; decibels, shares and bits as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A constant of the comparison, in the unit that people say it in."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    meaning: str
    source: str
    given: bool = False
    """Whether the user set the value; its range is then the value alone."""

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ConfigError(f"{self.name} = {self.value:g}: expected {self.low:g} to {self.high:g} {self.unit}")

    @property
    def assumed(self) -> bool:
        """Whether no publication states the value."""
        return self.source.startswith("assumption")

    @property
    def logarithmic(self) -> bool:
        """Whether values are drawn evenly in their logarithm: decibels and bits are logarithms already."""
        return self.unit not in ("dB", "dB/Hz", "bits")

    def si(self, value: float) -> float:
        """Return a value of this unit in SI units."""
        return value * _SCALES[self.unit]

    def draw(self, share: float) -> float:
        """Return the value a ``share`` of the way from the least to the greatest, in SI units."""
        if self.logarithmic:
            return self.si(float(self.low * (self.high / self.low) ** share))
        return self.si(self.low + (self.high - self.low) * share)


@cache
def published() -> Mapping[str, Constant]:
    """Return the constants of the file by name."""
    document = read_yaml(Path(__file__).with_name("constants.yaml"))
    return MappingProxyType({name: _read(name, entry) for name, entry in document.items()})


def _read(name: str, entry: Any) -> Constant:
    if "part" in entry:
        return _of_part(name, entry)
    return Constant(
        name=name,
        value=float(entry["value"]),
        low=float(entry["low"]),
        high=float(entry["high"]),
        unit=entry["unit"],
        meaning=entry["of"],
        source=entry["source"],
    )


def _of_part(name: str, entry: Mapping[str, str]) -> Constant:
    """Return a figure of a component, whose home is the catalog of parts."""
    part = load_part(entry["part"])
    figure = {"static_power": part.figure("static_power"), "loss": part.loss, "gain": part.gain}[entry["figure"]]
    assert figure is not None
    # Decimal as the catalog writes it, whatever the conversion to SI and back rounds.
    value, low, high = (
        float(f"{number / _SCALES[entry['unit']]:.12g}") for number in (figure.value, figure.least, figure.most)
    )
    return Constant(
        name=name,
        value=value,
        low=low,
        high=high,
        unit=entry["unit"],
        meaning=entry["of"],
        source=figure.source,
    )


def constants(given: Mapping[str, float] | None = None) -> dict[str, Constant]:
    """Return the constants, those in ``given`` replaced by the user's values, in the units of the file.

    Raises:
        UnknownNameError: there is no constant of a name.
        ConfigError: a value is not a number of the same sign.
    """
    result = dict(published())
    for name, value in (given or {}).items():
        if name not in result:
            raise UnknownNameError("constant", name, result)
        known = result[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise ConfigError(f"constant {name} = {value!r}: expected a number of {known.unit or 'no unit'}")
        if known.logarithmic and value <= 0:
            raise ConfigError(f"constant {name} = {value:g}: expected more than 0 {known.unit}".rstrip())
        result[name] = Constant(
            name=name,
            value=float(value),
            low=float(value),
            high=float(value),
            unit=known.unit,
            meaning=known.meaning,
            source="given",
            given=True,
        )
    return result


def nominal(chosen: Mapping[str, Constant]) -> dict[str, float]:
    """Return every constant's value in SI units."""
    return {name: constant.si(constant.value) for name, constant in chosen.items()}


def drawn(chosen: Mapping[str, Constant], draws: int, seed: int = 0) -> list[dict[str, float]]:
    """Return ``draws`` sets of values, every constant drawn evenly over its range and independent of the others."""
    rng = np.random.default_rng(seed)
    return [
        {name: constant.draw(float(share)) for (name, constant), share in zip(chosen.items(), row, strict=True)}
        for row in rng.random((draws, len(chosen)))
    ]
