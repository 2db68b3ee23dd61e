"""A schedule of circuits that another algorithm has built is not verified and loaded again; nothing else is spared."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from lightloom.collectives import registry
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.loads import _LatestLoads, _StepChunks
from lightloom.collectives.cost.stepped import cost, loads_cost
from lightloom.collectives.registry import build_with_loads, find
from lightloom.collectives.verify.verifier import verify as verify_schedule
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import load_fabric

RING = load_fabric("terarack", ranks=12)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the schedules that are verified from now on."""
    names: list[str] = []
    whole = verify_schedule

    def verify(schedule: Any, fabric: Fabric) -> None:
        names.append(schedule.algorithm)
        whole(schedule, fabric)

    monkeypatch.setattr(registry, "verify", verify)
    registry._latest.clear()
    return names


def test_equal_schedules_are_verified_once_and_cost_the_same(verified: list[str]) -> None:
    few = RING.model_copy(update={"wavelengths": 4, "fibres": 1})
    for nbytes in (0.0, 1e6):
        for name in ("one-stage", "one-stage-striped"):
            schedule, loads = build_with_loads(find(name), Collective("all-gather", 12, nbytes), few)
            assert loads is not None and schedule.collective.nbytes == nbytes and schedule.algorithm == name
            assert loads_cost(loads, few) == cost(schedule, few)
    assert verified == ["one-stage"]


def test_other_wavelengths_fabrics_models_and_kinds_are_verified(verified: list[str]) -> None:
    few = RING.model_copy(update={"wavelengths": 4, "fibres": 1})
    more = few.model_copy(update={"wavelengths": 5})
    gather, scatter = Collective("all-gather", 12, 1e6), Collective("reduce-scatter", 12, 1e6)
    for collective, fabric in ((gather, few), (gather, more), (scatter, few)):
        build_with_loads(find("one-stage"), collective, fabric)
    build_with_loads(find("one-stage"), gather, few, "paper")
    build_with_loads(find("ring-striped"), gather, few)
    build_with_loads(find("ring"), gather, few)
    assert len(verified) == 6


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_loads_of_steps_are_kept_while_there_is_room(room: int) -> None:
    """The last ones, and at least one."""
    loads = [_StepChunks(np.zeros(4, np.int64), float(number)) for number in range(5)]
    kept = _LatestLoads(room * loads[0].chunks.nbytes)
    for number, load in enumerate(loads):
        assert kept.load(bytes([number]), partial(_StepChunks, *load)).latency == number
        expected = range(max(number + 1 - max(room, 1), 0), number + 1)
        assert [key[0] for key in kept._loads] == list(expected)
