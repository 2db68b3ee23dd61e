"""Transports fitted to made-up rows: the constants that made them are found again."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.support.shared_transports import (
    anchor_sizes,
    anchors,
    fit_shared,
    machine_shares,
    subset,
    with_constants,
)

from lightloom.collectives.collective import Kind
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.clusters.cluster import transport_tiers
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.transports.price import Constants
from lightloom.machines.transports.transport import Scales, Transport, load_transport
from lightloom.machines.transports.ways import Tiers
from lightloom.planning.calibration.collectives import (
    MeasuredCollective,
    System,
    fit_scales,
    predicted_collectives,
)

TIERS = Tiers(8, 370e9, 48e9, True, 3.35e12)
TRUE = Scales(latency=0.7, network_latency=2.5, bandwidth=0.88, network_bandwidth=0.9)


def made_up(transport: Transport, name: str = "made-up") -> System:
    """A system that is exactly as a transport says, inside a node and across nodes."""
    places = ((1, 2), (1, 8), (2, 16), (4, 32))
    kinds: tuple[Kind, ...] = ("all-reduce", "all-gather", "all-to-all")
    rows = [
        MeasuredCollective(nodes=nodes, gpus=gpus, collective=kind, nbytes=2.0**power, time_us=1.0)
        for (nodes, gpus), kind, power in product(places, kinds, range(10, 33, 2))
    ]
    system = System(name, rows, TIERS, load_transport("nccl-hopper"))
    exact = [
        row.model_copy(update={"time_us": time * 1e6})
        for row, time in zip(rows, predicted_collectives(system, transport), strict=True)
    ]
    return System(name, exact, TIERS, load_transport("nccl-hopper"))


def test_four_numbers_are_found_from_six_sizes() -> None:
    true = load_transport("nccl-hopper").model_copy(update={"scales": TRUE})
    system = made_up(true)
    assert len(set(system.nbytes[anchors(system)])) == 6
    fitted = fit_scales(subset(system, anchors(system)), load_transport("nccl-hopper"))
    for name in Scales.model_fields:
        assert getattr(fitted.scales, name) == pytest.approx(getattr(TRUE, name), rel=0.03), name
    assert np.abs(predicted_collectives(system, fitted) / system.measured - 1).max() < 0.03


def test_shared_constants_are_found_from_several_systems() -> None:
    shipped = load_transport("nccl-hopper")
    constants = Constants.of(shipped)
    true = with_constants(shipped, Constants(constants.factors * 1.15, constants.shared, constants.scales))
    systems = [made_up(true.model_copy(update={"scales": scales}), str(scales)) for scales in (shipped.scales, TRUE)]
    fitted = fit_shared(systems, shipped)
    for system in systems:
        own = fit_scales(system, fitted)
        assert np.median(np.abs(predicted_collectives(system, own) / system.measured - 1)) < 0.02


def test_anchors_are_few_spread_and_the_same_every_time() -> None:
    sizes = np.array([2.0**power for power in range(9, 30)])
    chosen = anchor_sizes(np.repeat(sizes, 3))
    assert chosen == anchor_sizes(sizes[::-1])
    assert len(chosen) == 6
    assert {512.0, 2.0**20, 2.0**29} <= chosen
    assert len(anchor_sizes(np.array([4.0, 8.0, 16.0]) * 2**30)) == 2
    assert anchor_sizes(np.array([1e9])) == {1e9}


def test_machines_share_a_weight() -> None:
    base = made_up(load_transport("nccl-hopper"))
    systems = [
        System(name, base.rows, TIERS, base.transport, machine) for name, machine in zip("abc", "xx ", strict=True)
    ]
    assert machine_shares(systems).tolist() == [0.5, 0.5, 1.0]


def test_tiers_are_those_of_the_cluster() -> None:
    for name in ("dgx-h100-64", "dgx-h100-512"):
        cluster = load_cluster(name)
        tiers = transport_tiers(cluster.fabric, cluster.accelerator)
        assert tuple(tiers) == pytest.approx((8, 0.824 * 450e9, 0.97 * 50e9, True, 3.35e12))
    with pytest.raises(UnsupportedError, match="tiers of switches"):
        transport_tiers(load_cluster("terarack-64").fabric)


def test_nothing_to_fit_is_refused() -> None:
    base = made_up(load_transport("nccl-hopper"))
    with pytest.raises(ConfigError, match="no rows"):
        fit_scales(subset(base, np.zeros(len(base.rows), bool)), base.transport)
    with pytest.raises(ConfigError, match="no systems"):
        fit_shared([], base.transport)
