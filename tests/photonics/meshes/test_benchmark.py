"""The benchmark measures what it says and names what it cannot."""

from __future__ import annotations

import json

import pytest

from benchmarks import meshes
from lightloom.core.errors import InputError


def test_a_small_run_has_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meshes, "MODES", 12)
    monkeypatch.setattr(meshes, "BATCH", 50)
    found = meshes.measure([8, 16], seconds=0.5, rounds=1)
    ours = [row for row in found["decomposition"] if row["package"] == "lightloom"]
    assert len(ours) == 6
    assert all(row["error"] <= 1e-12 for row in ours)
    assert found["forward"]["difference"] <= 1e-11
    assert found["targets"]["decomposition_512_cpu_s"] is None
    assert json.loads(json.dumps(found)) == found


def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["meshes", "--sizes", "1"])
    with pytest.raises(InputError, match="sizes of at least 2"):
        meshes._main()
