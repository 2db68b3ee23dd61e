"""The study of economics: published bills beside ours."""

from __future__ import annotations

from functools import cache

import pytest

from lightloom.studies import load
from lightloom.studies.base import Study
from tests.studies.rows import assert_sound


@cache
def study() -> Study:
    return load.find("economics")()


def ours(row: str) -> float | str | None:
    return next(claim.ours for claim in study().claims if claim.id == f"economics.{row}")


def test_rows_are_sound() -> None:
    assert_sound("economics", study().claims)


def test_bills_as_published() -> None:
    assert ours("tpu_v4.fibres") == 6144
    assert ours("tpu_v4.circuit_switches") == 48
    assert ours("tpu_v4.power_of_switches") == pytest.approx(0.744)
    for tiers in ("two", "three"):
        ratio = ours(f"mixnet.{tiers}_tiers")
        assert isinstance(ratio, float)
        assert 2.0 <= ratio <= 2.5


def test_optics_of_tpu_v4_are_a_range_beside_the_published_bound() -> None:
    claim = next(claim for claim in study().claims if claim.id.endswith("power_with_optics"))
    assert claim.paper == "below 3 %"
    low, high = (float(number) for number in str(claim.ours).removesuffix(" %").split(" to "))
    assert low < 3 < high
