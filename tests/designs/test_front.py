"""Laws of fronts: a design is beaten exactly beyond its cutoff, and break-even prices make rivals equal."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import inf, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import cluster_from
from lightloom.machines.fabrics.load import changed
from lightloom.machines.parts.bill import Bill, Line
from lightloom.machines.parts.part import Part
from lightloom.planning.designs.explore import Candidate, Evaluated
from lightloom.planning.designs.page import break_even, ratio
from lightloom.planning.designs.space import Design, Front, Worth
from lightloom.planning.economics import ledger
from lightloom.planning.economics.ledger import ClusterLedger, Site, site_of

_amount = st.floats(0.1, 1e3)
_counts = st.dictionaries(st.sampled_from(["price of engine", "power of ring"]), st.integers(1, 9).map(float))


@st.composite
def worths(draw: st.DrawFn) -> Worth:
    """Clusters of 8 ranks with any prices and watts."""
    return Worth(
        goodput=draw(st.floats(0.5, 1.0)),
        spare_share=draw(st.floats(0.0, 0.1)),
        capital=draw(_amount),
        cost_rate=1e-3,
        watts=draw(_amount),
        electricity=1e-3,
        pue=1.4,
        fabric_dollars=draw(st.floats(0.0, 1.0)),
        fabric_watts=draw(st.floats(0.0, 1.0)),
        fabric_bandwidth=1e9,
        unknown=draw(_counts),
        unknown_rates=draw(_counts),
        alike=draw(st.dictionaries(st.just("price of host"), st.just(8.0))),
        ranks=8,
    )


def worth_of(fabric: str, **site: object) -> Worth:
    """The worth of 64 H100 on a fabric of the catalog."""
    return Worth.of(cluster_on(fabric), site_of(site))


@cache
def cluster_on(fabric: str) -> Cluster:
    return cluster_from({"ranks": 64, "accelerator": "h100", "fabric": fabric}, name=fabric)


@cache
def without_host_price(fabric: str) -> Worth:
    return worth_of(fabric)


_fabrics = st.sampled_from(["fat-tree-400g", "two-tier-400g", "torus", "circuit-switch", "terarack"])


@given(_fabrics, _fabrics, _amount, st.floats(0.5, 2.0), st.floats(0.0, 1e6))
def test_what_is_beaten_without_a_host_price_is_beaten_at_any(
    first: str, second: str, time: float, times: float, price: float
) -> None:
    """A host is paid for as long as a step takes, so that its price decides between designs of different times."""
    fronts = []
    for worths in (
        map(without_host_price, (first, second)),
        (worth_of(name, host_price=price) for name in (first, second)),
    ):
        front = Front(by_speed=False)
        for worth, seconds in zip(worths, (time, time * times), strict=True):
            front.add(worth, seconds, 0.0)
        fronts.append(front.on_front())
    unknown, stated = fronts
    assert all(left or not kept for left, kept in zip(unknown, stated, strict=True))


@given(_fabrics, _amount, st.floats(0.01, 0.99))
def test_a_cheaper_slower_design_beats_none_while_nothing_states_what_hosts_cost(
    fabric: str, time: float, share: float
) -> None:
    """Whoever is faster keeps its hosts for a shorter time, and leads where these are dear enough."""
    dear = replace(without_host_price(fabric), unknown={}, unknown_rates={})
    front = Front(by_speed=False)
    front.add(replace(dear, capital=share * dear.capital, watts=share * dear.watts), time, 0.0)
    assert isclose(front.cutoff(dear), time)


def candidate(worth: Worth, time: float, sent: float) -> Candidate:
    design = Design(family="any", technology="optical", fabric="torus", ranks=8, accelerator="h100", folder=".")
    found = Evaluated(design=design, sample_time=time, sent=sent, step_time=time)
    return Candidate(design=design, worth=worth, least_time=time, evaluated=found)


@given(worths(), worths(), _amount, _amount, st.floats(0.0, 1.0), st.floats(0.0, 1e4))
def test_ratios_and_break_even_prices_are_functions_of_the_host_price(
    own: Worth, rival: Worth, time: float, other_time: float, sent: float, price: float
) -> None:
    """What is said without the price of a host holds at every price: both ends, where both are equal, and slopes."""
    host = {"price of host": 8.0}
    first = candidate(replace(own, alike=host), time, sent)
    second = candidate(replace(rival, alike=host), other_time, sent)

    def pair_at(dollars: float) -> tuple[Candidate, Candidate]:
        return first.assuming({"price of host": dollars}), second.assuming({"price of host": dollars})

    now, later = ratio(first, second, 0), ratio(*pair_at(price), 0)
    assert now.limit is not None and later.limit is None
    slack = 1 + 1e-9
    assert min(now.least, now.limit) / slack <= later.least <= max(now.least, now.limit) * slack
    assert isclose(ratio(*pair_at(1e12), 0).least, now.limit, rel_tol=1e-6)
    if now.equal_at is not None and now.equal_at < 1e6:
        equal = [each.point[0] for each in pair_at(now.equal_at)]
        assert isclose(*equal, rel_tol=1e-6)
    even, stated = break_even(first, second), break_even(*pair_at(price))
    expected = even.fabric_dollars + price * even.dollars_more["price of host"]
    assert isclose(expected, stated.fabric_dollars, rel_tol=1e-6, abs_tol=1e-6 * max(1.0, price))
    assert not stated.dollars_more


@given(worths(), _amount, st.floats(0.0, 1.0), st.floats(1e-3, 1.0))
def test_more_spares_never_train_more_for_a_dollar_or_a_joule(
    worth: Worth, time: float, sent: float, more: float
) -> None:
    """At the same goodput; spare nodes cost and draw."""
    others = replace(worth, spare_share=worth.spare_share + more).point(time, sent)
    assert all(other < before for other, before in zip(others[:2], worth.point(time, sent)[:2], strict=True))


@given(worths(), _amount, st.floats(0.0, 1.0), st.floats(0.0, 1e3))
def test_dearer_parts_never_make_a_design_better(worth: Worth, time: float, sent: float, price: float) -> None:
    for name in worth.variables:
        dearer = worth.assuming({name: price})
        assert all(new <= old for new, old in zip(dearer.point(time, sent), worth.point(time, sent), strict=True))


@given(worths(), worths(), _amount, st.booleans())
def test_a_design_is_beaten_exactly_beyond_its_cutoff(first: Worth, second: Worth, time: float, by_speed: bool) -> None:
    front = Front(by_speed=by_speed)
    front.add(first, time, 0.0)
    cutoff = front.cutoff(second)
    for at, beaten in ((cutoff * 1.001, True), (cutoff * 0.999, False)):
        if 0 < at < inf:
            pair = Front(by_speed=by_speed)
            pair.add(first, time, 0.0)
            pair.add(second, at, 0.0)
            assert pair.on_front()[1] is not beaten


@given(worths(), _amount)
def test_a_part_without_a_price_is_never_taken_for_free(worth: Worth, time: float) -> None:
    """A design with parts of unknown price, however fast, does not beat one without."""
    known = replace(worth, unknown={}, unknown_rates={})
    without_price = replace(worth, unknown={"price of engine": 1.0})
    front = Front(by_speed=False)
    front.add(without_price, time / 1e3, 0.0)
    assert front.cutoff(known) == inf


def test_joules_of_sending_that_nothing_states_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that draw more for every bit, on a fabric that states no energy of a bit."""
    cluster = cluster_from({"ranks": 8, "accelerator": "h100", "fabric": "torus"}, name="torus of light")
    part = Part.model_validate(
        {
            "name": "modulator",
            "kind": "transceiver",
            "rate": "100Gbps",
            "description": "draws more for every bit",
            "dynamic_energy": {"value": 1e-12, "confidence": "assumption", "source": "assumption: for this test"},
        }
    )
    bill = ClusterLedger.of(cluster).fabric
    monkeypatch.setattr(ledger, "fabric_bill", lambda *_: bill + Bill(8, (Line(part, 1, "one a rank"),)))
    worth = Worth.of(cluster, Site())
    assert "fabric.energy_per_bit of torus of light" in worth.unknown
    stated = replace(cluster, fabric=changed(cluster.fabric, {"energy_per_bit": "1 pJ/bit"}))
    assert not any("energy" in name for name in Worth.of(stated, Site()).unknown)


@given(worths(), worths(), _amount, _amount, st.floats(0.0, 1.0))
def test_at_its_break_even_price_and_power_a_design_equals_its_rival(
    own: Worth, rival: Worth, time: float, other_time: float, sent: float
) -> None:
    dollars, joules, _ = rival.point(other_time)
    price = own.fabric_price(time, sent, dollars)
    cheaper = replace(own, capital=own.capital + (price - own.fabric_dollars) * own.ranks)
    assert isclose(cheaper.point(time, sent)[0], dollars, rel_tol=1e-6)
    power = own.fabric_power(time, sent, joules)
    cooler = replace(own, watts=own.watts + (power - own.fabric_watts) * own.pue * own.ranks)
    assert isclose(cooler.point(time, sent)[1], joules, rel_tol=1e-6)
    if own.unknown.keys() == {"price of engine"}:
        even = break_even(candidate(own, time, sent), candidate(replace(rival, alike=own.alike), other_time, 0.0))
        assert even.part_price is not None
        priced = own.assuming({"price of engine": even.part_price})
        assert isclose(priced.point(time, sent)[0], dollars, rel_tol=1e-6)
