"""A profiled step beside its prediction: parts add up, and every difference is one of operators or exchanges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lightloom as ll
from lightloom.app.api.accuracy import compare_step
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.models.traces.kineto import read_profile
from lightloom.planning.calibration.profile import profiled_step
from tests.cli.commands import run
from tests.interchange.test_kineto_workload import events, written

A100 = [{"name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85e9}]


def test_parts_are_those_of_the_trace_and_add_up(tmp_path: Path) -> None:
    profile = read_profile(written(tmp_path, events(), deviceProperties=A100))
    step = profiled_step(profile, load_accelerator("a100"), None)
    computing, exposed, idle = step.parts
    # Kernels run from 30 to 55, 60 to 110 and 111 to 114 µs, the all-reduce from 100 to 140; the step begins at 0.
    assert [part.measured for part in step.parts] == pytest.approx([78e-6, 27e-6, 35e-6])
    assert step.measured == pytest.approx(140e-6) and step.overlapped == pytest.approx(13e-6)
    assert computing.difference == pytest.approx(
        sum(op.calls * (price - op.mean_seconds) for op, price in step.operators if price is not None)
    )
    assert exposed.difference == idle.difference == 0


def test_a_cluster_prices_exchanges_and_overlap_stays(tmp_path: Path) -> None:
    comparison = compare_step(written(tmp_path, events()), cluster="dgx-a100-64")
    (row,), exposed = comparison.step.exchanges, comparison.step.parts[1]
    assert row.predicted is not None and row.exchange.ranks == 8
    assert exposed.predicted / exposed.measured == pytest.approx(row.predicted / row.measured)
    assert comparison.summary().startswith("measured 140 µs, predicted ")


def test_the_command_prints_the_difference_and_refuses_unknown_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, events(), deviceProperties=A100)
    done = run(monkeypatch, capsys, "accuracy", str(path), "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["measured_s"] == pytest.approx(140e-6) and "the difference is in computing" in found["summary"]
    done = run(monkeypatch, capsys, "accuracy", str(written(tmp_path, events())))
    assert done.code == 2 and "expected --cluster" in done.err and len(done.err.strip().splitlines()) == 1


def test_a_device_that_the_catalog_lacks_is_refused_in_plans(tmp_path: Path) -> None:
    entries = events()
    entries[1]["args"]["Input Dims"] = [[6, 4000], [4000, 5]]
    entries[6]["args"]["Input Dims"] = [[4000, 5]]
    path = written(tmp_path, entries, deviceProperties=[{"name": "Tesla V100-SXM2-16GB"}])
    with pytest.raises(ll.LightloomError, match="V100-SXM2-16GB, which the catalog lacks"):
        ll.plan(path, cluster="dgx-a100-64", ranks=8, strategy="ddp", algorithm="ring")
