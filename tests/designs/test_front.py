"""Laws of fronts: a design is beaten exactly beyond its cutoff, and break-even prices make rivals equal."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.clusters.load import cluster_from
from lightloom.designs.front import Front
from lightloom.designs.worth import Worth
from lightloom.economics import ledger
from lightloom.economics.ledger import ClusterLedger
from lightloom.economics.site import Site
from lightloom.fabrics.load import changed
from lightloom.parts.bill import Bill, Line
from lightloom.parts.part import Part

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
        alike=(),
        ranks=8,
    )


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
