"""Fabrics of one structure share what was built and verified: same rows, same loads, same prices as of their own."""

from __future__ import annotations

import gc
import weakref
from itertools import product

import numpy as np
import pytest

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import algorithms, build, find
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics import derived, fabric
from lightloom.machines.fabrics.derived import structure
from lightloom.machines.fabrics.fabric import Fabric, GroupFabric
from lightloom.machines.fabrics.load import fabric_from
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.planning.pricing import schedule_prices
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices, gradient_element_bytes
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.simulation import link_turns
from lightloom.planning.simulation.link_turns import link_shares
from tests.planner.gradients.exchanges import coded

_KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", "reduce")
_TIERS: list[dict[str, object]] = [
    {"name": "leaf", "shape": "switch", "size": 4, "bandwidth": 3e9, "latency": 5e-7},
    {"name": "spine", "shape": "switch", "through_switch": True, "ports": 2, "bandwidth": 1e9, "latency": 5e-7},
]
_DOMAINS: list[dict[str, object]] = [
    {"name": "domain", "shape": "switch", "size": 4, "bandwidth": 450e9, "latency": 0.0},
    {"name": "network", "shape": "switch", "bandwidth": 1e9, "taper": 2},
]
_SHAPES: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "switch": ({"kind": "switch", "bandwidth": 1e9}, {"bandwidth": 7e9}),
    "torus": ({"kind": "torus", "bandwidth": 1e9, "hop_latency": 1e-7}, {"bandwidth": 7e9}),
    "domains": (
        {"kind": "tiers", "tiers": _DOMAINS, "hop_latency": 1e-6},
        {"tiers.network.bandwidth": 7e9, "tiers.domain.bandwidth": 9e10, "tiers.network.taper": 3},
    ),
    "fat tree": (
        {"kind": "tiers", "tiers": _TIERS},
        {"tiers.leaf.bandwidth": 3e9, "tiers.spine.bandwidth": 2e9, "tiers.leaf.wire_efficiency": 0.5},
    ),
    "circuits": ({"kind": "circuit-switch", "degree": 3, "bandwidth": 1e9}, {"bandwidth": 7e9}),
    "wavelengths": ({"kind": "wdm-ring", "wavelengths": 5, "fibres": 2}, {"wavelength_bandwidth": 3e9}),
}


def _pair(name: str) -> tuple[Fabric, Fabric]:
    """Two fabrics of 16 ranks that differ in rates alone."""
    fields, rates = _SHAPES[name]
    return fabric_of(fields), fabric_of(fields | rates)


def fabric_of(fields: dict[str, object]) -> Fabric:
    settings = {name: value for name, value in fields.items() if "." in name}
    data = {name: value for name, value in fields.items() if "." not in name}
    return fabric_from(data, 16, settings, where="fabric")


@pytest.mark.parametrize("name", _SHAPES)
def test_what_is_shared_follows_from_the_structure(name: str) -> None:
    first, second = _pair(name)
    assert structure(first) == structure(second)
    assert not np.array_equal(first.link_bandwidth(), second.link_bandwidth())
    source, destination = (ends.ravel() for ends in np.indices((16, 16)))
    ends = source[source != destination], destination[source != destination]
    for route in (first.route(*ends), *(np.full(len(ends[0]), way) for way in range(first.routes))):
        for one, other in zip(first.footprint(*ends, route), second.footprint(*ends, route), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(first.latency(*ends, route), second.latency(*ends, route))
    assert first.ring_order().tolist() == second.ring_order().tolist()
    np.testing.assert_allclose(
        [limit.sum() for limit in derived.rank_bandwidths(second)],
        [np.append(second.link_bandwidth(), 0.0)[links].sum() for links in derived._covers(first)],
    )


@pytest.mark.parametrize("name", _SHAPES)
def test_shares_of_links_count_the_transfers_of_a_structure_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other fabrics of the structure have counted gives the shares of a fabric that counts for itself."""
    first, second = _pair(name)
    link_shares(first, 4, 2)
    shared = link_shares(second, 4, 2)
    monkeypatch.setattr(link_turns, "_passed", lambda _: {})
    np.testing.assert_array_equal(shared, link_shares(second, 4, 2))


def test_prices_hold_the_fabrics_that_they_name() -> None:
    """A group's fabric whose prices are gone leaves its identity to no other one."""
    prices = GroupPrices(fabric_of({"kind": "switch", "bandwidth": 1e9}), TrainingSettings())
    other = prices.with_choices(["ring"])
    assert other.refusal("all-gather", "ring", 4, 0) is None
    part = other._part(4, 1)
    assert part is not None
    held = weakref.ref(part)
    del other, part
    gc.collect()
    assert held() is not None


@pytest.mark.parametrize("name", ["switch", "torus", "wavelengths"])
def test_prices_of_a_question_asked_again_are_those_of_new_ones(name: str) -> None:
    """Methods of other ratios have the same numbers, and settings of another training have gradients of other bytes."""
    first, second = _pair(name)
    known = GroupPrices(first, TrainingSettings(), exchanges=[coded(2.0)])
    methods, choices = [[coded(2.0)], [coded(8.0)], []], [(), ("ring",)]
    trainings = [TrainingSettings(), TrainingSettings(gradient_bytes=2)]
    assert gradient_element_bytes(trainings[0]) != gradient_element_bytes(trainings[1])
    for fabric_, exchanges, chosen, training in product((first, second), methods, choices, trainings):
        for prices in (known, known.asked_again(fabric_, training, exchanges, chosen)):
            for exchange, nbytes in product(range(len(prices._exchanges) + 1), (1e3, 1e7)):
                prices.price(AUTO, 16, exchange)("all-reduce", nbytes)
        shared = known.asked_again(fabric_, training, exchanges, chosen)
        alone = GroupPrices(fabric_, training, "physical", exchanges, chosen)
        for exchange, kind, nbytes in product(range(len(exchanges) + 1), _KINDS[:3], (1e3, 1e7)):
            one, other = (prices.price(AUTO, 16, exchange)(kind, nbytes) for prices in (shared, alone))
            assert one == other and one.bound == other.bound


@pytest.mark.long
@pytest.mark.parametrize("name", _SHAPES)
def test_prices_of_shared_schedules_equal_those_of_their_own(name: str) -> None:
    first, second = _pair(name)
    served = 0
    for algorithm, kind in product((each for each in algorithms().values() if each.by_structure), _KINDS):
        if algorithm.refusal(kind, second):
            continue
        served += 1
        collective = Collective(kind, 16, 1e6)
        for one, other in zip(
            *(build(algorithm, collective, each).columns().values() for each in (first, second)), strict=True
        ):
            np.testing.assert_array_equal(one, other)
        schedule_prices._of_structures.clear()
        own = SchedulePrices(algorithm, second, "physical")
        alone = [own(kind, nbytes) for nbytes in (0.0, 1e6)]
        schedule_prices._of_structures.clear()
        SchedulePrices(algorithm, first, "physical")(kind, 0.0)
        shared = SchedulePrices(algorithm, second, "physical")
        assert [shared(kind, nbytes) for nbytes in (0.0, 1e6)] == alone
        assert shared._built[kind, 0.0].schedule is None
        for one, other in zip(
            shared.schedule(kind, 1e6).columns().values(), own.schedule(kind, 1e6).columns().values(), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    assert served > 3


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("torus", {"hop_latency": 2e-7}),
        ("domains", {"tiers.domain.size": 8}),
        ("domains", {"tiers.network.taper": None}),
        ("domains", {"tiers.domain.bandwidth": 1e9, "tiers.network.bandwidth": 1e9, "tiers.network.taper": 1}),
        ("circuits", {"degree": 4}),
        ("circuits", {"reconfiguration_time": 0.0}),
        ("circuits", {"energy_per_bit": 1e-12}),
        ("wavelengths", {"wavelengths": 10, "fibres": 1}),
    ],
)
def test_what_decides_loads_decides_the_structure(name: str, changed: dict[str, object]) -> None:
    """Links that have become equal in rate as well: loads count them together."""
    fields, _ = _SHAPES[name]
    assert structure(fabric_of(fields)) != structure(fabric_of(fields | changed))


@pytest.mark.parametrize("name", ["mesh", "torus", "rails"])
@pytest.mark.parametrize(("ranks", "stride"), [(4, 2), (2, 8), (8, 2)])
def test_bounds_of_groups_of_large_fabrics_hold(
    name: str, ranks: int, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken from the whole fabric's ranks, they are cheap, and no schedule costs less."""
    monkeypatch.setattr(fabric, "_MOST_PAIRED", 8)
    rails = [_TIERS[0], {**_TIERS[1], "ports": 4, "separate_rails": True, "through_switch": False}]
    fields: dict[str, object] = {"kind": "tiers", "tiers": rails} if name == "rails" else {"kind": name}
    group = GroupFabric.of(fabric_of(fields), ranks, stride)
    for algorithm, kind in product(map(find, ("ring", "one-stage", "recursive-doubling")), _KINDS[:3]):
        priced = SchedulePrices(algorithm, group, "physical")(kind, 1e6)
        assert 0 < priced.bound.time <= priced.cost.time


def test_schedules_of_many_rows_are_left_out_where_few_are_asked_for() -> None:
    """Those that fold are not; a group of fewer ranks has all."""
    ring = fabric_of(_SHAPES["wavelengths"][0])
    prices = GroupPrices(ring, TrainingSettings(), most_rows=100)
    for name, ranks, refused in (("one-stage", 16, True), ("one-stage", 4, False), ("ring", 16, False)):
        why = prices.refusal("all-reduce", name, ranks, 0)
        assert (why is not None and "at most 100" in why) if refused else why is None
    assert prices.price(AUTO, 16, 0)("all-reduce", 1e6).algorithm != "one-stage"


def test_plans_of_very_many_ranks_leave_out_schedules_of_very_many_rows() -> None:
    """Rings and Bruck's doubling fold, and groups of fewer ranks have all."""
    large, enough = (GroupPrices(PacketSwitch(ranks=ranks), TrainingSettings()) for ranks in (16_384, 4_096))
    for name, ranks, refused in (
        ("recursive-doubling", 4_096, True),
        ("recursive-doubling", 1_024, False),
        ("ring", 16_384, False),
        ("bruck", 16_384, False),
        ("hierarchical", 16_384, True),  # a switch has one tier
    ):
        why = large.refusal("all-gather", name, ranks, 0)
        assert (why is not None) == refused
    why = large.refusal("all-gather", "recursive-doubling", 4_096, 0)
    assert why is not None and "lists 33,546,240 transfers among 4,096 ranks" in why
    assert enough.refusal("all-gather", "recursive-doubling", 4_096, 0) is None
