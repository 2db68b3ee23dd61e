"""Stages that set circuits anew: right for any number of ranks, and never slower than OpTree and WRHT."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import FROM_ALL_GATHER, Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, costed, find
from lightloom.collectives.synthesis.engine import cache
from lightloom.collectives.synthesis.ring.gather import stage_plans, stages
from lightloom.collectives.verify.verifier import verify
from tests.collectives.strategies import wdm_ring

SIZES = st.sampled_from([0.0, 1e3, 1e5, 1e7])


@given(
    st.integers(2, 60),
    st.integers(1, 40),
    SIZES,
    st.sampled_from(FROM_ALL_GATHER),
    st.sampled_from([0.0, 1e-7, 25e-6]),
    st.sampled_from([0.0, 1e-6]),
)
@settings(max_examples=60, deadline=None)
def test_right_and_never_slower_than_optree_and_wrht(
    ranks: int, wavelengths: int, nbytes: float, kind: str, setup: float, conversion: float
) -> None:
    fabric = wdm_ring(ranks, wavelengths, reconfiguration_time=setup, conversion_time=conversion)
    wanted = Collective(kind, ranks, nbytes)  # type: ignore[arg-type]
    schedule = stages(wanted, fabric)
    verify(schedule, fabric)
    ours, _ = costed(schedule, fabric)  # raises below the bound
    for name in ("optree", "optree-striped", "wrht", "wrht-striped"):
        if find(name).refusal(wanted.kind, fabric) is None:
            assert ours.time <= cost(build(find(name), wanted, fabric), fabric).time * (1 + 1e-9), name


@pytest.mark.parametrize(("ranks", "wavelengths"), [(16, 8), (64, 8), (64, 64), (60, 7)])
@pytest.mark.parametrize("share", [1e3, 1e5])
def test_where_parts_divide_a_ring_estimates_are_exact(ranks: int, wavelengths: int, share: float) -> None:
    fabric = wdm_ring(ranks, wavelengths, conversion_time=1e-6)
    seconds, cuts = stage_plans(share, fabric)[0]
    found = cost(stages(Collective("all-gather", ranks, share * ranks), fabric), fabric).time
    size = ranks
    for radix, _ in cuts:
        assert size % radix == 0
        size //= radix
    assert found == pytest.approx(seconds, rel=1e-9)


def test_one_set_of_circuits_a_stage_saves_set_ups() -> None:
    fabric = wdm_ring(64, 64, conversion_time=1e-6)
    wanted = Collective("all-gather", 64, 64e3)
    ours = cost(stages(wanted, fabric), fabric)
    theirs = cost(build(find("optree-striped"), wanted, fabric), fabric)
    assert ours.steps < theirs.steps and ours.reconfiguration < theirs.reconfiguration


def test_stages_are_cached_with_their_lists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    fabric = wdm_ring(12, 2)
    schedule = stages(Collective("all-gather", 12, 12e3), fabric)
    assert schedule.lists is not None
    cache.write_schedule("staged", schedule)
    again = cache.read_schedule("staged", schedule.collective)
    assert again is not None
    verify(again, fabric)
    assert cost(again, fabric) == cost(schedule, fabric)
