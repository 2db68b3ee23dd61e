"""Placed plans whose operators lie on a ring of light, planes or a switch, and whose replicas averagers join."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import lightloom as ll
from lightloom.app.api.planning import ExchangeChoice
from lightloom.core.errors import InputError
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.joined import JoinedFabric
from lightloom.machines.fabrics.load import fabric_from
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.placed_replicas import ReplicaExchange
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.search.rows import PlacedPlans

INSIDE: dict[str, dict[str, Any]] = {
    "wdm-ring": {"wavelengths": 8, "wavelength_bandwidth": "25Gbps"},
    "circuit-switch": {"degree": 4, "bandwidth": "100Gbps"},
    "switch": {"bandwidth": "400Gbps"},
}
METHOD = "two-level:node=4,between=(optical)"


def fabric(inside: str, bandwidth: str = "100Gbps", between: str = "optical-averager") -> JoinedFabric:
    """Four groups of four ranks."""
    parts = ({"kind": inside} | INSIDE.get(inside, {}), {"kind": between, "bandwidth": bandwidth})
    own, across = (fabric_from(part, 4, where="test") for part in parts)
    return JoinedFabric(ranks=16, inside=own, between=across)


def job(joined: JoinedFabric, method: str | None = METHOD) -> Job:
    """A small convolutional network on 16 accelerators."""
    graph, accelerator, training = (
        ll.trace("hdc", batch=1),
        ll.load_cluster("dgx-a100-64").accelerator,
        TrainingSettings(),
    )
    priced = ExchangeChoice((method,), None, None, None).priced("hdc", graph) if method else ()
    exchanges = [each.on(accelerator) for each in priced]
    prices = GroupPrices(joined, training, exchanges=exchanges)
    return Job.of(graph, accelerator, joined, training, prices, exchanges=exchanges)


CHOICE = PlacedChoice(4, 4, 1e-6, 256, 1, 1.0)


@pytest.mark.parametrize("method", [None, METHOD])
@pytest.mark.parametrize("inside", sorted(INSIDE))
def test_replicas_exchange_in_the_time_of_the_averager(inside: str, method: str | None) -> None:
    """A pipe to the next group takes what the verified schedule on the averager takes, codes, scales and coding
    included; inside stand the circuits of a group alone."""
    made = job(fabric(inside), method)
    plan = PlacedPlans(made).plan(CHOICE)
    circuits, k = ReplicaExchange.of(made).granted(plan, made), 4
    onward = circuits.destination >= k
    assert circuits.source[onward].tolist() == (circuits.destination[onward] - k).tolist() == [0, 1, 2, 3]
    for columns in (circuits.port, circuits.entry):
        assert not set(columns[onward]) & set(columns[~onward])
    nbytes, optical = (
        3e6,
        [] if method is None else ExchangeChoice(("optical",), None, None, None).priced("hdc", made.graph),
    )
    exchanges = [each.on(made.accelerator) for each in optical]
    prices = GroupPrices(made.fabric.parts[1], made.settings, exchanges=exchanges).price(AUTO, 4, len(exchanges))
    seconds = 6 / 4 * nbytes / circuits.bandwidth[:, onward] + 6 * circuits.latency[onward]
    assert seconds == pytest.approx(prices("all-reduce", nbytes).cost.repeated_time)


@pytest.mark.parametrize("inside", sorted(INSIDE))
def test_a_faster_averager_is_no_slower_and_no_step_is_below_its_bounds(inside: str) -> None:
    times = []
    for bandwidth in ("1Gbps", "10Gbps", "10Tbps"):
        plans = PlacedPlans(job(fabric(inside, bandwidth)))
        step = plans.simulate(CHOICE)
        assert plans.structure_bound(CHOICE) <= plans.circuits_bound(CHOICE) * (1 + 1e-9)
        assert plans.circuits_bound(CHOICE) <= step.step_time
        times.append(step.step_time)
    assert times == sorted(times, reverse=True) and times[0] > times[-1]
    assert np.all(step.memory > 0)


def test_plans_are_placed_inside_and_name_their_exchange(tmp_path: Path) -> None:
    file = tmp_path / "rings.yaml"
    document = {
        "ranks": 16,
        "accelerator": "a100",
        "fabric": fabric("wdm-ring").model_dump(mode="json", exclude={"ranks"}),
    }
    file.write_text(yaml.safe_dump(document))
    found = ll.plan("hdc", file, global_batch=256, strategy="placed", exchange=METHOD)
    assert {(plan.choice.k, plan.choice.l) for plan in found} == {(4, 4)}  # type: ignore[union-attr]
    assert all(plan.bound <= plan.step_time for plan in found)
    assert found.winner.gradient_exchange is not None and found.winner.gradient_exchange.name.startswith("two-level")
    with pytest.raises(InputError, match="links that each rank has to itself"):
        document["fabric"] = fabric("mesh", between="ring").model_dump(mode="json", exclude={"ranks"})
        file.write_text(yaml.safe_dump(document))
        ll.plan("hdc", file, global_batch=256, strategy="placed")
