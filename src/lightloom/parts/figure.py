"""A figure of a component: its value, its range, where it comes from and how far the source can be trusted.

    dollars: {value: 659, year: 2025, confidence: read, source: ...}
    static_power: {value: 9 W, low: 8 W, confidence: read, source: ...}

Values are SI: dollars, watts, joules per bit, seconds. What is unknown has no figure at all: a field that may hold one
is then null, and every total names it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from lightloom.core.fields import Config, JoulesPerBit, Seconds, Watts
from lightloom.parts.units import Unit, format_amount

Confidence = Literal["read", "quoted", "assumption"]
"""``read`` in the paper, the data sheet or a project's own data file; ``quoted`` verbatim by a third party;
``assumption``: a vendor's claim, an excerpt, an estimate or a derivation that nothing published confirms."""

Dollars = Annotated[float, Field(ge=0)]


class Figure(Config):
    """One figure of a component, in SI units."""

    unit: ClassVar[Unit]
    value: float
    low: float | None = None
    """Least value that the sources allow; null where they state one value alone."""
    high: float | None = None
    """Greatest value that the sources allow."""
    bound: Literal["least", "most"] | None = None
    """Whether the source states a limit in place of a value: ``most`` of a rated power, ``least`` of a lifetime that no
    failure has ended yet."""
    confidence: Confidence
    source: Annotated[str, Field(min_length=1)]
    """Where the value and its range come from."""
    year: Annotated[int, Field(ge=1990, le=2100)] | None = None
    """Year of the value."""

    @model_validator(mode="after")
    def _range_holds_the_value(self) -> Self:
        if not self.least <= self.value <= self.most:
            shown = [format_amount(value, self.unit) for value in (self.least, self.value, self.most)]
            raise ValueError(f"a range of {shown[0]} to {shown[2]} does not hold the value {shown[1]}")
        return self

    @property
    def assumed(self) -> bool:
        """Whether no published source states the value."""
        return self.confidence == "assumption"

    @property
    def least(self) -> float:
        """The low end of the range; the value where there is no range."""
        return self.value if self.low is None else self.low

    @property
    def most(self) -> float:
        """The high end of the range; the value where there is no range."""
        return self.value if self.high is None else self.high

    def text(self) -> str:
        """Return the value, or the range where there is one, with its unit, year and label."""
        label = "".join([f", {self.year}" if self.year else "", ", assumption" if self.assumed else ""])
        return f"{range_text(self.value, self.least, self.most, self.unit)}{f' ({label[2:]})' if label else ''}"


def range_text(value: float, low: float, high: float, unit: Unit) -> str:
    """Return a value with the range around it, where that is wider than the value: ``9 W (8 to 18)``."""
    shown = format_amount(value, unit)
    least, most = format_amount(low, unit), format_amount(high, unit)
    if least == most:
        return shown
    numbers, names = zip(
        *(text.split(" ", 1) if " " in text else (text, "") for text in (shown, least, most)), strict=True
    )
    if unit != "dollars" and len(set(names)) == 1:
        return f"{shown} ({numbers[1]} to {numbers[2]})"
    return f"{shown} ({least} to {most})"


class Price(Figure):
    """Dollars of one component; ``year`` says of which year."""

    unit: ClassVar[Unit] = "dollars"
    value: Dollars
    low: Dollars | None = None
    high: Dollars | None = None
    year: Annotated[int, Field(ge=1990, le=2100)]


class Power(Figure):
    """Watts of one component, busy or idle."""

    unit: ClassVar[Unit] = "power"
    value: Watts
    low: Watts | None = None
    high: Watts | None = None


class EnergyPerBit(Figure):
    """Joules of every bit that passes a component, beside its static power."""

    unit: ClassVar[Unit] = "energy_per_bit"
    value: JoulesPerBit
    low: JoulesPerBit | None = None
    high: JoulesPerBit | None = None


class MeanTime(Figure):
    """Mean time between failures of one component, in seconds."""

    unit: ClassVar[Unit] = "lifetime"
    value: Annotated[Seconds, Field(gt=0)]
    low: Annotated[Seconds, Field(gt=0)] | None = None
    high: Annotated[Seconds, Field(gt=0)] | None = None


class Decibels(Figure):
    """A loss or a gain of light."""

    unit: ClassVar[Unit] = "decibels"
    value: Annotated[float, Field(ge=0)]
    low: Annotated[float, Field(ge=0)] | None = None
    high: Annotated[float, Field(ge=0)] | None = None


class Share(Figure):
    """A share of one, such as an efficiency."""

    unit: ClassVar[Unit] = "share"
    value: Annotated[float, Field(gt=0, le=1)]
    low: Annotated[float, Field(gt=0, le=1)] | None = None
    high: Annotated[float, Field(gt=0, le=1)] | None = None
