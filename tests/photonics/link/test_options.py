"""Options of links as text, and intervals of their word error rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.link.settings import (
    OPTIONS,
    RANGES,
    SOURCES,
    Link,
    read_options,
    read_value,
    show_value,
    sources,
)
from lightloom.photonics.link.word_errors import bootstrap, clopper_pearson, interval


def test_every_field_has_an_option_and_a_source() -> None:
    switches = {"shot_noise", "amplifier_noise"}
    fields = set(Link.__dataclass_fields__) - switches
    assert {option.field for option in OPTIONS.values()} == fields == set(SOURCES)
    assert sources(Link(skew=0.1))["skew"] == "given" and sources(Link())["skew"] == SOURCES["skew"]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("full-scale", "3mW", 3e-3),
        ("full-scale", "0dBm", 1e-3),
        ("phase-lock", "50mrad", 0.05),
        ("power-error", "1%", 0.01),
        ("rin", "-150dB/Hz", -150.0),
        ("rin", "none", None),
        ("loss", "0.1dB", 0.1),
        ("skew", "0.03T", 0.03),
        ("bandwidth", "50GHz", 50e9),
        ("noise-density", "12.86pA/rtHz", 12.86e-12),
        ("noise-density", "12.86 pA/√Hz", 12.86e-12),
        ("noise-density", "2e-12A/√Hz", 2e-12),
        ("noise-density", "2e-12A/rtHz", 2e-12),
        ("noise-density", "2e-12", 2e-12),
        ("detector-bandwidth", "35000MHz", 35e9),
        ("detector-bandwidth", "35e9Hz", 35e9),
        ("responsivity", " 0.8 A/W ", 0.8),
        ("phase-lock", "0.05 rad", 0.05),
        ("power-error", "0.01", 0.01),
        ("skew", "0.03symbols", 0.03),
        ("rin", "-150dBc/Hz", -150.0),
        ("dac-bits", "6bits", 6),
        ("full-scale", " -10 dBm ", 1e-4),
        ("dac-bits", "8", 8),
        ("gain", "optical", "optical"),
    ],
)
def test_options_are_read_in_their_units(name: str, text: str, value: object) -> None:
    assert read_value(name, text) == (pytest.approx(value) if isinstance(value, float) else value)


@given(st.floats(1e-6, 1.0))
def test_options_are_read_as_they_are_shown(value: float) -> None:
    for name in ("power-error", "phase-lock", "loss", "skew"):
        assert read_value(name, show_value(name, value)) == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"full-scale": "3mA"}, "full-scale '3mA'"),
        ({"full-scale": "0mW"}, "more than 0"),
        ({"full-scale": "-3mW"}, "full-scale"),
        ({"phase-lock": "0.05deg"}, "phase-lock '0.05deg'"),
        ({"phase-lock": "nan"}, "phase-lock 'nan'"),
        ({"phase-lock": "-1"}, "at least 0"),
        ({"rin": "-20"}, "-250 to -80"),
        ({"gain": "none"}, "electrical, optical"),
        ({"unit": "relu"}, "did you mean|expected one of"),
        ({"swing": "2"}, "at most 1.5"),
        ({"dac-bits": "1.5"}, "whole number"),
        ({"dac-bits": "99"}, "0 to 32"),
        ({"crosstalk": "0.9"}, "expected 0 to 0.5"),
        ({"path-loss": "1000dB"}, "expected 0 to 100 dB"),
        ({"fullscale": "3mW"}, "did you mean 'full-scale'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_options(options)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("full-scale", 2e-3, "2 mW (3.01 dBm)"),
        ("power-error", 0.015, "1.5 %"),
        ("bandwidth", 50e9, "50 GHz"),
        ("noise-density", 12.86e-12, "12.86 pA/√Hz"),
        ("rin", -150.0, "-150 dB/Hz"),
        ("rin", None, "none"),
        ("gain", "optical", "optical"),
        ("dac-bits", 8, "8 bits"),
    ],
)
def test_values_are_shown_in_their_units(name: str, value: object, shown: str) -> None:
    assert show_value(name, value) == shown


@pytest.mark.parametrize("name", RANGES)
def test_the_ends_of_ranges_are_taken_and_nothing_beyond(name: str) -> None:
    low, high, _ = RANGES[name]
    for value in (low, high):
        assert getattr(Link(**{name: value}), name) == value  # type: ignore[arg-type]
    for value in (low - 0.5 * abs(low) - (low == 0), 1.5 * high):
        with pytest.raises(ConfigError, match=f"^{name} = "):
            Link(**{name: value})  # type: ignore[arg-type]


def test_the_last_values_of_other_limits_are_taken_and_the_next_are_not() -> None:
    assert Link(rin_db=-250.0).rin_db == -250 and Link(rin_db=-80.0).rin_db == -80 and Link(swing=1.5).swing == 1.5
    wrong = {"rin_db": [-250.5, -79.5, float("nan")], "swing": [1.51, 0.0, -0.1, float("inf")], "dac_bits": [7.5]}
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ConfigError, match=name):
                Link(**{name: value})  # type: ignore[arg-type]


@given(st.integers(0, 50), st.integers(51, 10_000))
def test_intervals_hold_their_rate(wrong: int, words: int) -> None:
    low, high = clopper_pearson(wrong, words)
    assert low <= wrong / words <= high and (low == 0) == (wrong == 0)


def test_the_interval_without_wrong_words_is_the_rule_of_three() -> None:
    assert clopper_pearson(0, 10_000)[1] == pytest.approx(3.69e-4, rel=0.01)


@given(st.integers(0, 20), st.integers(1, 20), st.sampled_from([0.5, 0.9, 0.95]))
def test_ends_of_an_interval_are_as_unlikely_as_its_confidence_says(wrong: int, right: int, confidence: float) -> None:
    """With the lower share so many wrong words or more, with the upper so many or fewer; right words mirror wrong."""
    low, high = clopper_pearson(wrong, wrong + right, confidence)
    tail = (1 - confidence) / 2
    if wrong:
        assert binom.sf(wrong - 1, wrong + right, low) == pytest.approx(tail)
    assert binom.cdf(wrong, wrong + right, high) == pytest.approx(tail)
    assert clopper_pearson(right, wrong + right, confidence) == pytest.approx((1 - high, 1 - low))


def test_the_interval_of_one_fabrication_is_that_of_its_words_and_of_several_the_wider_one() -> None:
    assert interval(np.array([7]), 100) == clopper_pearson(7, 100)
    alike = np.array([7, 7, 7])
    assert interval(alike, 100) == clopper_pearson(21, 300)
    apart = np.array([0, 0, 300, 310, 0, 300])
    rates = bootstrap(apart / 400)
    assert interval(apart, 400) == rates != clopper_pearson(910, 2400)


def test_resampled_means_leave_out_as_much_at_either_end() -> None:
    """Of many fabrications the mean is nearly normal: 1.96 standard errors to either side at 95 %, 0.67 at 50 %."""
    rates = np.tile([0.1, 0.3], 500)
    error = 0.1 / 1000**0.5
    for confidence, away in ((0.95, 1.96), (0.5, 0.674)):
        low, high = bootstrap(rates, confidence)
        assert (0.2 - low, high - 0.2) == pytest.approx((away * error, away * error), rel=0.12)


def test_words_of_one_fabrication_err_together() -> None:
    wrong = np.array([0] * 9 + [500])
    low, high = interval(wrong, 1000)
    assert low == 0.0 and high > 0.1
    assert bootstrap(np.full(5, 0.25)) == (0.25, 0.25)
