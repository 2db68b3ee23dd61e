"""The study of economics: published bills beside ours."""

from __future__ import annotations

from functools import cache

import pytest

from lightloom.papers import study as load
from lightloom.papers.study import Study
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


def test_goodput_as_published() -> None:
    """Slices of TPU v4 by circuit switches and fixed, Meta's mean times, Llama 3 and MegaScale."""
    assert [ours(f"tpu_v4.static_{size}_990") for size in ("1k", "2k", "3k")] == [7.631, 0.582, 0.033]
    assert [ours(f"tpu_v4.static_{size}_995") for size in ("1k", "2k", "3k")] == [27.715, 7.681, 1.597]
    status = {claim.id.removeprefix("economics."): claim.status for claim in study().claims}
    circuits = [f"tpu_v4.circuits_{size}_{host}" for size in ("1k", "2k", "3k") for host in (990, 995)]
    assert {status[row] for row in circuits} == {"match"}
    assert status["meta.mttf_16384"] == status["meta.mttf_131072"] == "by construction"
    assert (status["llama3.effective_300_30"], status["llama3.effective_600_60"]) == ("stand-in", "deviates")
    assert status["megascale.effective"] == "stand-in"
