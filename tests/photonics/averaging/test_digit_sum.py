"""Digit sums average exactly for every number of servers, and err as often as their receivers' noise says."""

from __future__ import annotations

from itertools import product
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.arrays import Ints
from lightloom.core.errors import InputError, VerificationError
from lightloom.photonics.averaging.averagers import DigitSum, DigitSumAverager
from lightloom.photonics.registry import find_averager

Rounding = Literal["floor", "half-up"]


@pytest.mark.parametrize("levels", [2, 4])
@pytest.mark.parametrize("rounding", ["floor", "half-up"])
@pytest.mark.parametrize("servers", range(2, 17))
def test_every_number_of_servers_is_proved_and_tried(servers: int, rounding: Rounding, levels: int) -> None:
    arithmetic = DigitSum(servers=servers, bits=8, levels=levels, rounding=rounding)
    assert len(arithmetic.steps()) == 5
    tried, wrong = arithmetic.try_sums(most=20_000)
    assert tried == min(20_000, np.prod(servers * arithmetic.largest_digits() + 1)) and wrong == 0


class _Carrying(DigitSum):
    """A digit sum whose carries are too large."""

    def carries(self) -> Ints:
        return super().carries() + self.servers


def test_a_proof_that_does_not_hold_raises() -> None:
    """Not by `assert`, which `python -O` leaves out."""
    with pytest.raises(VerificationError, match="4 servers and 8 bits: not true that carries are at most 3"):
        _Carrying(servers=4, bits=8).steps()


@pytest.mark.slow
@pytest.mark.parametrize("servers", range(2, 17))
def test_every_tuple_of_sums_is_averaged_right(servers: int) -> None:
    tried, wrong = DigitSum(servers=servers, bits=8).try_sums(most=6_000_000)
    assert (tried, wrong) == ((3 * servers + 1) ** 4, 0)


@pytest.mark.parametrize(("servers", "bits"), [(2, 5), (3, 3), (5, 2)])
def test_every_tuple_of_codes_of_small_words(servers: int, bits: int) -> None:
    codes = np.array(list(product(range(1 << bits), repeat=servers)), np.int64).T
    for levels in (2, 4):
        averager = DigitSumAverager(DigitSum(servers=servers, bits=bits, levels=levels, rounding="floor"))
        assert (averager(codes) == codes.sum(axis=0) // servers).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 200), st.integers(1, 32), st.sampled_from([2, 4]), st.data())
def test_any_codes_have_the_mean_of_plain_integers(servers: int, bits: int, levels: int, data: st.DataObject) -> None:
    codes = [data.draw(st.lists(st.integers(0, (1 << bits) - 1), min_size=servers, max_size=servers)) for _ in range(3)]
    averager = DigitSumAverager(DigitSum(servers=servers, bits=bits, levels=levels))
    due = [(sum(row) + servers // 2) // servers for row in codes]
    assert averager(np.array(codes, np.int64).T).tolist() == due


@pytest.mark.parametrize("levels", [2, 4])
def test_noise_makes_as_many_words_wrong_as_the_receiver_says(levels: int) -> None:
    arithmetic = DigitSum(servers=4, bits=8, levels=levels, rounding="floor")
    averager = DigitSumAverager(arithmetic, 40e-6 if levels == 4 else 13e-6, seed=1)
    codes = np.random.default_rng(2).integers(0, 256, (4, 40_000))
    digits = arithmetic.spread(codes)
    wrong = (averager._decided(digits) != digits.sum(axis=1)).any(axis=0).mean()
    assert averager.power is not None
    due = averager.receiver.word_error(averager.power)
    assert 0.01 < due < 0.5
    assert wrong == pytest.approx(due, abs=5 * (due / 40_000) ** 0.5)


def test_weak_light_errs_and_strong_light_does_not() -> None:
    codes = np.random.default_rng(0).integers(0, 256, (8, 5_000))
    due = find_averager("ideal", 8, 8)(codes)
    assert (find_averager("digit-sum:power=-3", 8, 8)(codes) == due).all()
    weak = find_averager("digit-sum:power=-14dBm", 8, 8, seed=3)
    assert 0 < (weak(codes) != due).mean() < 1


def test_codes_of_another_shape_or_range_are_refused() -> None:
    averager = find_averager("digit-sum", 4, 8)
    with pytest.raises(InputError, match=r"expected \(4, n\)"):
        averager(np.zeros((3, 2), np.int64))
    with pytest.raises(InputError, match="whole numbers from 0 to 255"):
        averager(np.full((4, 2), 256))
    with pytest.raises(InputError, match="more than 0 and below 1"):
        DigitSumAverager(DigitSum(servers=4, bits=8), 2.0)
