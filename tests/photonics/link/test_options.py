"""Options of links as text, and intervals of their word error rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import InputError
from lightloom.photonics.link.settings import (
    OPTIONS,
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


@given(st.integers(0, 50), st.integers(51, 10_000))
def test_intervals_hold_their_rate(wrong: int, words: int) -> None:
    low, high = clopper_pearson(wrong, words)
    assert low <= wrong / words <= high and (low == 0) == (wrong == 0)


def test_the_interval_without_wrong_words_is_the_rule_of_three() -> None:
    assert clopper_pearson(0, 10_000)[1] == pytest.approx(3.69e-4, rel=0.01)


def test_words_of_one_fabrication_err_together() -> None:
    wrong = np.array([0] * 9 + [500])
    low, high = interval(wrong, 1000)
    assert low == 0.0 and high > 0.1
    assert bootstrap(np.full(5, 0.25)) == (0.25, 0.25)
