"""Laws of the roofline."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.machines.accelerators.accelerator import (
    PRECISIONS,
    Accelerator,
    Precision,
    Work,
)
from lightloom.machines.accelerators.load import load_accelerator

amounts = st.just(0.0) | st.floats(1e-200, 1e15)
"""Nothing, or so much that doubling it doubles its time exactly, too."""


def seconds(chip: Accelerator, flops: float, nbytes: float, precision: Precision) -> float:
    return float(chip.operator_times(Work(np.array([flops]), np.array([nbytes])), precision)[0])


@settings(deadline=None)
@given(flops=amounts, nbytes=amounts, efficiency=st.floats(0.01, 1))
def test_time_lies_on_the_higher_roof(flops: float, nbytes: float, efficiency: float) -> None:
    chip = Accelerator(peak={"bf16": 1e14}, memory_bandwidth=1e12, efficiency=efficiency)
    time = seconds(chip, flops, nbytes, "bf16")
    assert time == max(flops / (efficiency * 1e14), nbytes / (efficiency * 1e12))
    assert time == max(chip.compute_time(flops, "bf16"), chip.memory_time(nbytes))
    assert time <= seconds(chip, 2 * flops, nbytes, "bf16") <= 2 * time


def test_every_working_operator_pays_its_launch_on_top_of_the_higher_roof() -> None:
    chip = Accelerator(peak={"bf16": 1e14}, memory_bandwidth=1e12, efficiency=0.5, kernel_launch=3e-6)
    work = Work(np.array([[1e8, 0.0], [0.0, 1e8]]), np.array([[0.0, 1e6], [0.0, 1e7]]))
    expected = [[2e-6 + 3e-6, 2e-6 + 3e-6], [0.0, 2e-5 + 3e-6]]
    np.testing.assert_allclose(chip.operator_times(work, "bf16"), expected, rtol=1e-12)


def test_unmodelled_memory_costs_nothing_and_idle_operators_are_not_launched() -> None:
    chip = Accelerator(peak={"fp32": 1e12}, efficiency=1, kernel_launch=1e-6)
    assert seconds(chip, 1e6, 1e9, "fp32") == pytest.approx(2e-6)
    assert seconds(chip, 0, 1e9, "fp32") == 0
    assert chip.memory_time(1e9) == 0


def test_optinc_s_h100_reaches_36_teraflops() -> None:
    assert seconds(load_accelerator("h100-optinc"), 36e12, 1e12, "bf16") == pytest.approx(1)


def test_dadiannao_multiplies_698_billion_times_a_second() -> None:
    assert seconds(load_accelerator("dadiannao"), 2 * 698.1e9, 0, "fixed32") == pytest.approx(1, rel=1e-4)


def test_unknown_precision_names_the_known_ones() -> None:
    with pytest.raises(UnsupportedError, match="expected one of fp32"):
        load_accelerator("titan-xp").compute_time(1.0, PRECISIONS[3])
