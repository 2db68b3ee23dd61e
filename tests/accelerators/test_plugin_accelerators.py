"""Accelerators of plug-ins keep their class, and with it how they price operators, wherever a cluster names them."""

from __future__ import annotations

from typing import Any

import pytest

from lightloom.core.errors import ConfigError
from lightloom.core.fields import Config
from lightloom.machines.accelerators import load
from lightloom.machines.accelerators.accelerator import Accelerator, Precision
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import cluster_from
from lightloom.planning.parallelism.operators import graph_times
from lightloom.planning.parallelism.plan import make_plan
from lightloom.planning.simulation.engine import simulate_step
from tests.parallelism.strategies import chain
from tests.simulation.prices import linear


class Boost(Config):
    """Clock that a chip reaches."""

    factor: float = 1.0
    share: float = 0.5


class Throttled(Accelerator):
    """A chip that runs below its peak, by fields that the base class lacks."""

    slowdown: float = 2.0
    boost: Boost = Boost()

    def peak_rate(self, precision: Precision) -> float:
        return super().peak_rate(precision) * self.boost.factor / self.slowdown


CHIP = Throttled(name="throttled", peak={"bf16": 1e12}, memory=80e9, sources={"memory": "data sheet"})


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = {"accelerators": {"throttled": CHIP, "wrong": 3}}
    monkeypatch.setattr(load, "load_plugins", lambda group: registered.get(group, {}))


def cluster(settings: dict[str, Any] | None = None) -> Cluster:
    data = {"ranks": 4, "accelerator": "throttled", "fabric": {"base": "ring"}}
    return cluster_from(data, settings, name="mine")


def test_a_plug_in_is_used_as_it_was_registered() -> None:
    assert "throttled" in load.names()
    assert load_accelerator("throttled") is CHIP
    assert cluster().accelerator is CHIP


def test_changed_fields_keep_the_class_and_its_other_fields() -> None:
    chip = cluster({"accelerator.slowdown": 5.0, "accelerator.memory": "40GB"}).accelerator
    assert isinstance(chip, Throttled)
    assert (chip.slowdown, chip.memory, chip.boost) == (5.0, 40e9, Boost())
    assert chip.peak_rate("bf16") == 2e11
    assert chip.sources == dict.fromkeys(("memory", "slowdown"), "set by mine")
    nested = cluster({"accelerator.boost.factor": 3.0}).accelerator
    assert isinstance(nested, Throttled)
    assert (nested.boost, nested.sources["memory"]) == (Boost(factor=3.0, share=0.5), "data sheet")


def test_simulated_steps_use_the_overridden_rate() -> None:
    base, chip = Accelerator(peak={"bf16": 1e12}), cluster().accelerator
    graph = chain([(100, 4 * 10**9, 10), (100, 8 * 10**9, 20)])
    slow, fast = (graph_times(graph, each, "bf16") for each in (chip, base))
    assert [each.tolist() for each in slow] == [(2 * each).tolist() for each in fast]
    plan = make_plan("ddp", graph, 4)
    steps = [simulate_step(plan, each, cluster().fabric, linear(1e30)) for each in (chip, base)]
    assert steps[0].compute_time == pytest.approx(2 * steps[1].compute_time)


def test_a_misspelled_field_names_those_of_the_plug_in() -> None:
    with pytest.raises(ConfigError, match="slowdown"):
        cluster({"accelerator.slowdwon": 5.0})


def test_a_plug_in_must_be_an_accelerator() -> None:
    with pytest.raises(ConfigError, match="'wrong': expected an Accelerator, got int"):
        load_accelerator("wrong")
