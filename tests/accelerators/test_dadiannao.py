"""The DaDianNao chip: Eq. 1 as a law, and one chip in two places that must agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.configfile import read_yaml
from lightloom.core.errors import UnknownNameError
from lightloom.machines.accelerators.dadiannao import FILE, DaDianNao, load_dadiannao
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.fabrics.grids import Mesh
from lightloom.machines.fabrics.load import load_fabric

amounts = st.floats(0, 1e12)
FABRICS = {"25-E": "25g", "100-O": "100g", "400-O": "400g", "800-O": "800g", "1600-O": "1600g", "3200-O": "3200g"}


def test_every_value_has_a_source() -> None:
    entry = read_yaml(FILE)
    assert set(entry) - {"description", "sources"} <= set(entry["sources"])
    assert set(DaDianNao.model_fields) - {"sources"} == set(entry["sources"])


def test_the_roofline_is_the_same_chip() -> None:
    chip, roofline = load_dadiannao(), load_accelerator("dadiannao")
    assert roofline.peak_rate("fixed32") == pytest.approx(2 * chip.product_rate, rel=1e-9)
    assert (roofline.memory, roofline.power) == (chip.edram, chip.power)


@pytest.mark.parametrize(("name", "fabric"), FABRICS.items())
def test_links_and_fabrics_agree(name: str, fabric: str) -> None:
    chip, mesh = load_dadiannao(), load_fabric(f"dadiannao-{fabric}", 64)
    assert isinstance(mesh, Mesh)
    link = chip.link(name)
    assert mesh.bandwidth == pytest.approx(link.bandwidth)
    assert mesh.hop_latency == pytest.approx(link.latency)
    assert mesh.power_per_rank == (None if link.phy_power is None else chip.phys * link.phy_power)


def test_unknown_links_are_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean '100-O'"):
        load_dadiannao().link("100-0")


@given(products=amounts, sums=amounts)
def test_the_slower_kind_of_operation_decides(products: float, sums: float) -> None:
    chip = load_dadiannao()
    time = chip.computation_time(products, sums)
    alone = chip.computation_time(products, 0), chip.computation_time(0, sums)
    assert time == max(alone)
    assert chip.computation_time(products, products) == alone[0], "adders never bind when each product has one sum"
