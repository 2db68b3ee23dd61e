"""Laws of the roofline."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.accelerators.base import PRECISIONS, Accelerator
from lightloom.accelerators.load import load_accelerator
from lightloom.accelerators.roofline import operator_time
from lightloom.core.errors import UnsupportedError

amounts = st.floats(0, 1e15)


@settings(deadline=None)
@given(flops=amounts, nbytes=amounts, efficiency=st.floats(0.01, 1))
def test_time_lies_on_the_higher_roof(flops: float, nbytes: float, efficiency: float) -> None:
    chip = Accelerator(peak={"bf16": 1e14}, memory_bandwidth=1e12, efficiency=efficiency)
    time = operator_time(chip, flops, nbytes, "bf16")
    assert time == pytest.approx(max(flops / 1e14, nbytes / 1e12) / efficiency, rel=1e-12)
    assert time <= operator_time(chip, 2 * flops, nbytes, "bf16") <= 2 * time


def test_unmodelled_memory_costs_nothing_and_idle_operators_are_not_launched() -> None:
    chip = Accelerator(peak={"fp32": 1e12}, efficiency=1, kernel_launch=1e-6)
    assert operator_time(chip, 1e6, 1e9, "fp32") == pytest.approx(2e-6)
    assert operator_time(chip, 0, 1e9, "fp32") == 0


def test_optinc_s_h100_reaches_36_teraflops() -> None:
    assert operator_time(load_accelerator("h100-optinc"), 36e12, 1e12, "bf16") == pytest.approx(1)


def test_dadiannao_multiplies_698_billion_times_a_second() -> None:
    chip = load_accelerator("dadiannao")
    assert operator_time(chip, 2 * 698.1e9, 0, "fixed32") == pytest.approx(1, rel=1e-4)


def test_unknown_precision_names_the_known_ones() -> None:
    with pytest.raises(UnsupportedError, match="expected one of fp32"):
        operator_time(load_accelerator("titan-xp"), 1, 1, PRECISIONS[3])
