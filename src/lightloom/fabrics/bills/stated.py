"""Figures that a fabric's own file states, in place of those of its parts: no joule counts twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol

from lightloom.core.units import format_quantity
from lightloom.parts.bill import Bill, Line
from lightloom.parts.figure import Confidence, EnergyPerBit, Power, Price
from lightloom.parts.part import FigureName, Kind, Part


class Stated(Protocol):
    """A fabric that may state figures of its own."""

    @property
    def power_per_rank(self) -> float | None: ...
    @property
    def energy_per_bit(self) -> float | None: ...
    @property
    def sources(self) -> Mapping[str, str]: ...
    @property
    def stated_power_of(self) -> tuple[Kind, ...] | None: ...


def stated_bill(bill: Bill, fabric: Stated) -> Bill:
    """Return the bill with the watts and the joules per bit that the fabric states, in place of those of its parts."""
    given = "given, without a source"
    if fabric.power_per_rank is not None:
        source = fabric.sources.get("power_per_rank", given)
        bill = with_stated_power(bill, fabric.power_per_rank, source, fabric.stated_power_of)
    if fabric.energy_per_bit is not None:
        static = bill.static_power.value
        bill = with_stated_energy(bill, fabric.energy_per_bit, fabric.sources.get("energy_per_bit", given))
        if fabric.energy_per_bit > 0 and fabric.power_per_rank is None and static and bill.bandwidth:
            bill = replace(bill, notes=(*bill.notes, _beside(static, bill.bandwidth)))
    return bill


def with_stated_power(bill: Bill, watts: float, source: str, kinds: Collection[Kind] | None) -> Bill:
    """Return the bill with the power that a rank's file states, in place of the power of its parts.

    Args:
        bill: of the parts.
        watts: of a rank, busy or idle.
        source: of the watts.
        kinds: kinds of parts whose power the watts hold; None: all.
    """
    figure = Power(value=watts, confidence=_confidence(source), source=source)
    held = "all parts" if kinds is None else f"every {', '.join(kinds)}"
    note = f"power_per_rank of the fabric stands for the power of {held}"
    part = _part("power_per_rank", "static_power", note).model_copy(update={"static_power": figure})
    return _replaced(bill, Line(part, 1.0, f"stated: {source}"), "static_power", kinds, note)


def with_stated_price(bill: Bill, dollars: float, source: str) -> Bill:
    """Return the bill with a price of all parts of a rank, in place of those of its parts."""
    note = "a price of the fabric stands for those of all parts"
    # A price has a year; nothing is made of that of a stated one.
    figure = Price(value=dollars, confidence=_confidence(source), source=source, year=2025)
    part = _part("fabric_price", "dollars", note).model_copy(update={"dollars": figure})
    return _replaced(bill, Line(part, 1.0, f"stated: {source}"), "dollars", None, note)


def with_stated_energy(bill: Bill, joules: float, source: str) -> Bill:
    """Return the bill with the dynamic energy that the fabric's file states, in place of that of its parts."""
    figure = EnergyPerBit(value=joules, confidence=_confidence(source), source=source)
    note = "energy_per_bit of the fabric stands for the dynamic energy of all parts"
    part = _part("energy_per_bit", "dynamic_energy", note).model_copy(update={"dynamic_energy": figure})
    line = Line(part, 1.0, f"stated: {source}", rate=bill.bandwidth)
    return _replaced(bill, line, "dynamic_energy", None, note)


def _beside(watts: float, bandwidth: float) -> str:
    """Return what energy_per_bit adds to, which a figure that vendors divide out of watts would count twice."""
    shown, per_bit = (
        format_quantity(watts, "power"),
        format_quantity(watts / (8 * bandwidth), "energy_per_bit"),
    )
    return (
        f"energy_per_bit counts beside the {shown} of a rank's parts, busy or idle ({per_bit} at full load): state "
        "power_per_rank too, 0 where energy_per_bit holds these watts"
    )


def _confidence(source: str) -> Confidence:
    return "assumption" if source.startswith(("assumption", "given", "derived")) else "read"


def _part(name: str, figure: FigureName, why: str) -> Part:
    others: tuple[FigureName, ...] = ("dollars", "static_power", "dynamic_energy", "mtbf")
    return Part(
        name=name,
        kind="stated",
        description=why,
        counted_elsewhere={other: "stated figures have one quantity" for other in others if other != figure},
    )


def _replaced(bill: Bill, line: Line, figure: FigureName, kinds: Collection[Kind] | None, note: str) -> Bill:
    lines = tuple(
        replace(old, counted_elsewhere=(*old.counted_elsewhere, figure))
        if kinds is None or old.part.kind in kinds
        else old
        for old in bill.lines
    )
    stated = (*bill.stated, figure) if kinds is None else bill.stated
    return replace(bill, lines=(*lines, line), notes=(*bill.notes, note), stated=stated)
