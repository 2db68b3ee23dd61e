"""Amounts of bills as text: dollars, watts, joules per bit, failures a year and mean times in hours."""

from __future__ import annotations

from typing import Literal

from lightloom.core.units import YEAR, format_quantity, format_rate

Unit = Literal["dollars", "power", "energy", "energy_per_bit", "lifetime", "rate", "share", "decibels", "samples"]


def format_amount(value: float, unit: Unit) -> str:
    """Return an SI amount as text: ``$ 1,234``, ``9 W``, ``79,200 h``, ``0.11 a year``."""
    if unit == "dollars":
        return f"$ {value:,.0f}" if value >= 100 else f"$ {value:.3g}"
    if unit == "power" and value == 0:
        return "0 W"
    if unit == "share":
        return f"{100 * value:.3g} %"
    if unit == "decibels":
        return f"{value:.3g} dB"
    if unit == "lifetime":
        return f"{value / 3600:,.0f} h"
    if unit == "samples":
        return format_rate(value)
    if unit == "rate":
        return f"{value * YEAR:.3g} a year"
    return format_quantity(value, unit)
