"""What forward error correction costs."""

from __future__ import annotations

from lightloom.machines.reducers.rivals import RATE
from lightloom.papers.dadiannao import CODE, DECODER_CYCLES


def test_an_iterative_solver_of_the_code_of_400_gigabit_ethernet_leaves_cycles_for_the_rest() -> None:
    length, data = CODE
    assert (length - data) // 2 == 15
    assert length - data == 30 < DECODER_CYCLES
    assert length / data == RATE


def test_47_cycles_at_606_megahertz_are_the_80_nanoseconds_of_table_1() -> None:
    assert round(DECODER_CYCLES / 606e6 * 1e9) == 78
    assert round(DECODER_CYCLES / 606e6 * 1e8) == 8
