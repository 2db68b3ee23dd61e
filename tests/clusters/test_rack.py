"""Package, blade and rack hold what the paper says, and refuse the rest with a cure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.cluster import Package, Rack


def test_the_paper_s_rack() -> None:
    rack = Rack()
    assert (rack.package.chips, rack.chips_per_blade, rack.chips) == (4, 24, 1536)
    rack.check(1536)


@given(st.integers(1537, 100_000))
def test_what_does_not_fit_names_the_racks_that_would_hold_it(chips: int) -> None:
    with pytest.raises(UnsupportedError, match=rf"{chips} chips need .* feasible with (\d+) racks$") as caught:
        Rack().check(chips)
    racks = int(str(caught.value).split()[-2])
    Rack(blades=64 * racks).check(chips)
    with pytest.raises(UnsupportedError):
        Rack(blades=64 * (racks - 1)).check(chips)


@given(
    side=st.integers(1, 6),
    chip=st.floats(1e-3, 1e-2),
    waveguides=st.integers(1, 16),
    pitch=st.floats(1e-5, 2e-4),
)
def test_a_package_exists_only_if_its_waveguides_fit_the_gaps(
    side: int, chip: float, waveguides: int, pitch: float
) -> None:
    try:
        package = Package(side=side, chip_edge=chip, waveguides=waveguides, pitch=pitch)
    except UnsupportedError as error:
        assert "fewer chips, fewer waveguides or a smaller pitch" in str(error)
        assert side * chip + (side + 1) * 2 * waveguides * pitch > 25e-3
    else:
        assert package.gap >= package.link_width * (1 - 1e-9)
        assert package.side * package.chip_edge + (package.side + 1) * package.gap == pytest.approx(25e-3)


def test_nine_chips_do_not_fit_the_interposer() -> None:
    with pytest.raises(UnsupportedError, match=r"need 27.2 mm: the interposer has 25 mm"):
        Package(side=3)
