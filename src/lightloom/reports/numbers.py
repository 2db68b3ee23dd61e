"""Numbers without a unit, formatted for reading."""

from __future__ import annotations


def format_ratio(value: float | None) -> str:
    """Return a ratio with a times sign; a dash where there is nothing to compare."""
    if value is None:
        return "–"
    return f"{value:.3g}×" if value < 1000 else f"{value:,.0f}×"


def format_claim(value: float | str | None) -> str:
    """Return a claim's figure with at most six digits."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.6g}"
