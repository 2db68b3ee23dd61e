"""The averager with the fewest interferometers that tolerates errors, or how much can be tolerated."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from lightloom.core.errors import InputError, UnsupportedError
from lightloom.photonics import tolerance
from lightloom.photonics.averaging.networks import FunctionArguments
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.tolerance import (
    Candidate,
    Tolerance,
    candidates,
    count_wrong_words,
    describe,
    find_tolerant,
    largest_alone,
    largest_share,
    parse_tolerance,
    tolerance_document,
)

ARGUMENTS = FunctionArguments(servers=2, bits=2)
REQUEST = parse_tolerance("phase-error=3e-3,coupler-error=1e-2,power=3mW,loss=0.1dB", 1e-2)


@cache
def every() -> tuple[Candidate, ...]:
    """All candidates, made once."""
    return tuple(candidates(ARGUMENTS))


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fewer fabrications, and candidates that are made once."""
    monkeypatch.setattr(tolerance, "FABRICATIONS", 20)
    monkeypatch.setattr(tolerance, "candidates", lambda *arguments: list(every()))
    yield


def test_requests_are_read_with_their_units() -> None:
    assert REQUEST.devices == NonIdealities(phase_error=3e-3, coupler_error=1e-2, loss_db=0.1)
    assert (REQUEST.full_scale, REQUEST.word_errors) == (3e-3, 1e-2)
    assert REQUEST.errors == {"phase-error": 3e-3, "coupler-error": 1e-2, "loss": 0.1, "power": 3e-3}
    assert describe(REQUEST.errors) == "phase-error 0.003 rad, coupler-error 0.01 rad, loss 0.1 dB, power 3 mW"
    other = parse_tolerance("dac-bits=8, phase-error=0.01 rad,crosstalk=1e-3", 1e-3)
    assert other.devices == NonIdealities(dac_bits=8, phase_error=0.01, thermal_crosstalk=1e-3)
    assert other.full_scale is None
    half = REQUEST.scaled(0.5)
    assert half.errors == {"phase-error": 1.5e-3, "coupler-error": 5e-3, "loss": 0.05, "power": pytest.approx(12e-3)}
    assert REQUEST.only("loss", 0.2).errors == {"loss": 0.2}
    assert REQUEST.only("power", 1e-3).errors == {"power": 1e-3}


@pytest.mark.parametrize(
    ("text", "rate", "message"),
    [
        ("", 1e-3, "expected NAME=VALUE"),
        ("phase-error", 1e-3, "expected NAME=VALUE"),
        ("phase=1", 1e-3, "unknown error to tolerate 'phase'"),
        ("loss=a", 1e-3, "--tolerate loss=a: expected a number"),
        ("loss=0.1,loss=0.2", 1e-3, "loss is given twice"),
        ("loss=-1", 1e-3, "loss_db=-1"),
        ("loss=nan", 1e-3, "loss_db=nan"),
        ("power=3mV", 1e-3, "unknown power unit"),
        ("power=0", 1e-3, "power = 0"),
        ("dac-bits=2.5", 1e-3, "expected a number"),
        ("loss=0.1", 0.0, "word errors = 0"),
        ("loss=0.1", 1e-9, "word errors = 1e-09"),
        ("loss=0.1", 1.0, "word errors = 1"),
    ],
)
def test_malformed_requests_are_refused(text: str, rate: float, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_tolerance(text, rate)
    assert "\n" not in str(caught.value)


def test_candidates_are_sorted_by_the_interferometers_that_they_take() -> None:
    made = every()
    assert [candidate.mzis for candidate in made] == sorted(candidate.mzis for candidate in made)
    for candidate in made[:: len(made) // 8]:
        assert candidate.mapped().mzis == candidate.mzis
        assert candidate.construction.verify().wrong_outputs == 0
    assert {candidate.how.window for candidate in made} == {
        Fraction(1, 2),
        Fraction(1, 4),
        Fraction(1, 8),
        Fraction(1, 16),
    }
    one = FunctionArguments(servers=1, bits=2)
    assert any(", regenerated" in candidate.name for candidate in candidates(one, "relu"))
    with pytest.raises(InputError, match="nonlinearity"):
        candidates(ARGUMENTS, "tanh")  # type: ignore[arg-type]


def test_the_smallest_one_that_bears_the_errors_is_found() -> None:
    found = find_tolerant(ARGUMENTS, REQUEST)
    assert found.measured.interval[1] <= REQUEST.word_errors
    assert found.measured.wrong.size == tolerance.FABRICATIONS
    assert found.mapped.mzis == found.candidate.mzis
    for smaller in every()[: found.tried - 1]:
        assert tolerance.measure_wrong_words(smaller.mapped(), REQUEST).interval[1] > REQUEST.word_errors
    document = tolerance_document(found)
    assert document["tolerated_share"] >= 1
    for name, value in document["errors"].items():
        alone = document["tolerated_alone"][name]
        assert alone < value if name == "power" else alone > value
    # More power than needed, and what is needed alone, in closed agreement: noise goes with the root of the power.
    need = document["tolerated_alone"]["power"]
    harsh = count_wrong_words(found.mapped, NonIdealities(), need / 4, fabrications=1, words=4000)
    assert harsh.rate > REQUEST.word_errors


def test_what_nothing_tolerates_is_answered_with_how_much_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    few = list(every()[:4])
    monkeypatch.setattr(tolerance, "candidates", lambda *arguments: few)
    request = parse_tolerance("phase-error=0.3,loss=1dB", 1e-2)
    with pytest.raises(UnsupportedError, match=r"none of 4 clipped averagers of 2 servers and 2 bits") as caught:
        find_tolerant(ARGUMENTS, request)
    message = str(caught.value)
    assert "\n" not in message and "the sturdiest" in message and "each alone phase-error" in message
    share = float(message.split("tolerates ")[2].split(" of it")[0])
    assert 0 < share < 1
    hopeless: Any = Tolerance(devices=NonIdealities(phase_error=10.0, dac_bits=1), full_scale=None, word_errors=1e-2)
    with pytest.raises(UnsupportedError, match="none tolerates a thousandth"):
        find_tolerant(ARGUMENTS, hopeless)


def test_limits_are_where_the_errors_begin_to_matter() -> None:
    mapped = find_tolerant(ARGUMENTS, REQUEST).mapped
    limit = largest_alone(mapped, REQUEST, "phase-error")
    assert limit is not None and limit < 1
    assert (
        tolerance.measure_wrong_words(mapped, REQUEST.only("phase-error", limit), wrong=10.0).interval[1]
        <= REQUEST.word_errors
    )
    beyond = tolerance.measure_wrong_words(mapped, REQUEST.only("phase-error", 1.2 * limit), wrong=10.0)
    assert beyond.interval[1] > REQUEST.word_errors
    bits = largest_alone(mapped, REQUEST, "dac-bits")
    assert bits is not None and 2 <= bits <= 12
    assert largest_share(mapped, parse_tolerance("phase-error=1e-9", 1e-2)) == 8.0
