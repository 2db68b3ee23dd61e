"""What forward error correction costs."""

from __future__ import annotations

import pytest

from lightloom.machines.fabrics.packets import DECODER_CYCLES, RS_544_514, ReedSolomon


def test_the_code_of_400_gigabit_ethernet() -> None:
    assert RS_544_514.corrects == 15
    assert RS_544_514.solver_cycles() == 30 < DECODER_CYCLES
    assert RS_544_514.rate == 514 / 544
    line = 400e9 / RS_544_514.rate
    assert RS_544_514.block_time(50e9) == pytest.approx(RS_544_514.length * RS_544_514.symbol_bits / line)


def test_47_cycles_at_606_megahertz_are_the_80_nanoseconds_of_table_1() -> None:
    assert round(DECODER_CYCLES / 606e6 * 1e9) == 78
    assert round(DECODER_CYCLES / 606e6 * 1e8) == 8


@pytest.mark.parametrize(("length", "data", "bits"), [(514, 514, 10), (1024, 514, 10), (544, 0, 10), (300, 200, 8)])
def test_codes_that_do_not_exist_are_refused(length: int, data: int, bits: int) -> None:
    with pytest.raises(ValueError, match="expected 0 < data < length"):
        ReedSolomon(length, data, bits)
