"""Numbers without a unit of their own, for people."""

from __future__ import annotations


def format_ratio(value: float | None) -> str:
    """How many times as much; a dash where there is nothing to compare."""
    if value is None:
        return "–"
    return f"{value:.3g}×" if value < 1000 else f"{value:,.0f}×"


def format_rate(value: float) -> str:
    """Four digits without an exponent."""
    return f"{value:.4g}" if value < 1000 else f"{float(f'{value:.4g}'):,.0f}"


def format_claim(value: float | str | None) -> str:
    """A claim's figure: at most six digits."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.6g}"
