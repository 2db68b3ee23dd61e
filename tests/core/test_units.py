"""Quantities: what people write, what is refused, and what is written back."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core import units
from lightloom.core.errors import UnitError


@pytest.mark.parametrize(
    ("text", "dimension", "si"),
    [
        ("40Gbps", "bandwidth", 5e9),
        ("40 Gb/s", "bandwidth", 5e9),
        ("5 GB/s", "bandwidth", 5e9),
        ("50GiB/s", "bandwidth", 50 * 2**30),
        ("1 Tbit/s", "bandwidth", 1.25e11),
        ("25us", "time", 25e-6),
        ("25 µs", "time", 25e-6),
        ("25 μs", "time", 25e-6),
        ("0.5ms", "time", 0.5e-3),
        ("64MiB", "size", 64 * 2**20),
        ("4_096", "size", 4096.0),
        ("1e6", "size", 1e6),
        ("989.4 TFLOPS", "compute_rate", 989.4e12),
        ("60 TFLOP/s", "compute_rate", 60e12),
        ("3.5 W", "power", 3.5),
        ("5 pJ/bit", "energy_per_bit", 5e-12),
        (12, "time", 12.0),
    ],
)
def test_quantities_read_as_people_write_them(text: str, dimension: units.Dimension, si: float) -> None:
    assert units.parse(text, dimension) == pytest.approx(si, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "dimension"),
    [
        ("40 Gbsp", "bandwidth"),
        ("40 parsec", "time"),
        ("-1us", "time"),
        ("nan", "time"),
        ("inf", "size"),
        ("1e999", "size"),
        ("", "size"),
        ("GB", "size"),
        ("5 GB", "bandwidth"),
        ("5 GB/s", "size"),
        ("3 mW/s", "power"),
        ("25 us us", "time"),
        (True, "time"),
        (None, "time"),
        ([], "size"),
    ],
)
def test_what_is_no_quantity_is_refused_in_one_line(text: object, dimension: str) -> None:
    with pytest.raises(UnitError) as refusal:
        units.parse(text, dimension)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value) and repr(text) in str(refusal.value)


@given(st.floats(1e-9, 1e6, allow_nan=False))
def test_times_read_back_as_written(seconds: float) -> None:
    assert units.parse(units.format_time(seconds), "time") == pytest.approx(seconds, rel=1e-3)


@given(st.floats(1, 1e15, allow_nan=False))
def test_sizes_and_rates_read_back_as_written(value: float) -> None:
    assert units.parse(units.format_size(value), "size") == pytest.approx(value, rel=1e-3)
    assert units.parse(units.format_bandwidth(value), "bandwidth") == pytest.approx(value, rel=1e-3)


@given(st.sampled_from(get_args(units.Dimension)), st.floats(1e-3, 1e14))
def test_quantities_and_ratios_have_no_exponent_and_read_back_as_written(
    dimension: units.Dimension, value: float
) -> None:
    si = value * units._FORMATS[dimension][1][0][1] / units._FORMATS[dimension][0]
    text = units.format_quantity(si, dimension)
    assert "e" not in text.split()[0] and units.parse(text, dimension) == pytest.approx(si, rel=1e-3)
    ratio = units.format_ratio(value)
    assert "e" not in ratio and float(ratio.replace(",", "").removesuffix("×")) == pytest.approx(value, rel=6e-3)


def test_ratios_around_a_thousand() -> None:
    texts = [units.format_ratio(value) for value in (999.4, 999.5, 999.99, 1000, 1234.5)]
    assert texts == ["999×", "1,000×", "1,000×", "1,000×", "1,234×"]


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    for dimension in ("size", "bandwidth", "time"):
        try:
            assert units.parse(text, dimension) >= 0
        except UnitError as refusal:
            assert repr(text) in str(refusal)


@given(st.floats(1e-9, 1e9))
def test_a_text_of_a_time_needs_a_unit(number: float) -> None:
    """24 may be hours as well as seconds; a number is of seconds, and nothing is nothing in any unit."""
    with pytest.raises(UnitError, match="has no unit: expected a time such as"):
        units.parse(repr(number), "time")
    assert units.parse(number, "time") == number
    assert units.parse(f"{number!r} h", "time") == pytest.approx(3600 * number)
    assert units.parse("0", "time") == units.parse(0, "time") == 0


@given(st.floats(1e-3, 1e12))
def test_two_digits_are_read_back_and_have_no_exponent(value: float) -> None:
    text = units.two_digits(value)
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.0501)
    assert "e" not in text
    assert len(text.replace(",", "").replace(".", "").strip("0")) <= 2


@pytest.mark.parametrize(
    ("value", "text"), [(99.6, "100"), (100, "100"), (9.96, "10"), (0.384, "0.38"), (1775, "1,800"), (-14.4, "-14")]
)
def test_two_digits_of_round_numbers(value: float, text: str) -> None:
    assert units.two_digits(value) == text
