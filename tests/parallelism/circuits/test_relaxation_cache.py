"""Relaxations that are solved once: the same from the cache, whatever became of its files."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from lightloom.core.errors import InputError
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.parallelism.circuits import ring
from lightloom.planning.parallelism.circuits.circuits import Traffic
from lightloom.planning.parallelism.circuits.ring import cached_relaxation, relax

TRAFFIC = Traffic.of(np.array([[0, 3.5, 1e9, 0], [1, 0, 0, 7], [0, 2, 0, 1], [1e-3, 0, 5, 0]]))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    return tmp_path / "circuits"


@pytest.mark.parametrize("damage", [None, b"", b"PK\3\4 no archive"])
def test_a_relaxation_is_solved_once_and_comes_back_to_the_last_bit(folder: Path, damage: bytes | None) -> None:
    fabric = WdmRing(ranks=4, wavelengths=3)
    solved = relax(TRAFFIC, fabric)
    cached_relaxation(TRAFFIC, fabric)
    if damage is not None:
        next(folder.iterdir()).write_bytes(damage)
    with patch.object(ring, "relax", wraps=relax) as again:
        cached = cached_relaxation(TRAFFIC, fabric)
    assert again.call_count == (damage is not None)
    assert cached.service == solved.service and np.array_equal(cached.clockwise, solved.clockwise)


def test_other_traffic_and_other_channels_have_entries_of_their_own(folder: Path) -> None:
    smaller = TRAFFIC.with_bytes(TRAFFIC.nbytes / np.arange(1, len(TRAFFIC) + 1))
    cases = [(TRAFFIC, 3), (TRAFFIC, 6), (smaller, 3)]
    first = [cached_relaxation(traffic, WdmRing(ranks=4, wavelengths=count)).service for traffic, count in cases]
    assert len(set(first)) == len(list(folder.iterdir())) == 3
    with pytest.raises(InputError, match="traffic of 4 ranks on a fabric of 5"):
        cached_relaxation(TRAFFIC, WdmRing(ranks=5, wavelengths=3))
