"""Circuits that are set anew for each stage are among what is synthesized: it is never slower than OpTree and WRHT."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import FROM_ALL_GATHER, Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, costed, find
from lightloom.collectives.synthesis.engine import cache
from lightloom.collectives.synthesis.ring.gather import set_anew
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
    schedule = build(find("synthesized"), wanted, fabric)
    verify(schedule, fabric)
    ours, _ = costed(schedule, fabric)  # raises below the bound
    for name in ("optree", "optree-striped", "wrht", "wrht-striped"):
        if find(name).refusal(wanted.kind, fabric) is None:
            assert ours.time <= cost(build(find(name), wanted, fabric), fabric).time * (1 + 1e-9), name


def test_schedules_of_lists_are_cached_with_their_lists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    fabric = wdm_ring(12, 2)
    schedule = next(set_anew(Collective("all-gather", 12, 12e3), fabric))
    assert schedule.lists is not None
    cache.write_schedule("staged", schedule)
    again = cache.read_schedule("staged", schedule.collective)
    assert again is not None
    verify(again, fabric)
    assert cost(again, fabric) == cost(schedule, fabric)
