"""Optical circuit switches: what products give, and what is said of times that assume receivers in burst mode."""

import pytest

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import evaluate, find
from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics.load import changed, fabric_from, load_fabric
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.parts.bill import BillChoices


def test_a_measured_switch_waits_for_its_links() -> None:
    fabric = load_fabric("ocs-measured", 64)
    assert fabric.model_dump()["reconfiguration_time"] == pytest.approx(46.8e-3)
    assert fabric.model_dump()["link_up_time"] == pytest.approx(5.67)
    assert fabric.setup_time == pytest.approx(5.7168)
    assert fabric.warnings == ()
    assert "MixNet" in fabric.sources["link_up_time"]


def test_the_papers_entry_stays_and_says_what_it_assumes() -> None:
    fabric = load_fabric("circuit-switch", 64)
    assert fabric.setup_time == 10e-3
    assert fabric.sources["link_up_time"].startswith("assumption: receivers in burst mode")
    assert [line for line in fabric.warnings if "burst mode" in line]


def test_planes_that_no_product_has_are_said() -> None:
    assert any("1,024 ports" in line and "384" in line for line in load_fabric("circuit-switch", 1024).warnings)
    assert any("at most 136" in line for line in load_fabric("ocs-136", 200).warnings)
    assert load_fabric("ocs-384", 384).warnings == ()


def test_what_a_file_states_stands_before_the_product() -> None:
    fabric = load_fabric("ocs-384", 64, set={"link_up_time": "0s", "reconfiguration_time": "1ms"})
    assert fabric.setup_time == 1e-3
    assert "link_up_time" not in fabric.sources
    assert changed(load_fabric("ocs-384", 64), {"product": "palomar-136"}).setup_time == pytest.approx(5.6712)
    assert changed(load_fabric("ocs-384", 64), {"ranks": 32}).setup_time == load_fabric("ocs-384", 32).setup_time


@pytest.mark.parametrize(
    ("product", "complaint"), [("fibre-metre", "no optical circuit switch"), ("palomar", "did you mean 'palomar-136'")]
)
def test_products_are_optical_circuit_switches(product: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        fabric_from({"kind": "circuit-switch", "product": product}, 8, where="mine.yaml")


def test_links_that_come_up_late_cost_as_much_as_slow_mirrors() -> None:
    slow = load_fabric("circuit-switch", 8, set={"degree": 2, "reconfiguration_time": "30ms"})
    late = load_fabric("circuit-switch", 8, set={"degree": 2, "reconfiguration_time": "10ms", "link_up_time": "20ms"})
    collective = Collective("all-to-all", 8, 8e8)
    for algorithm in ("ring-two-way", "one-stage"):
        costs = [evaluate(find(algorithm), collective, fabric).cost for fabric in (slow, late)]
        assert costs[0].time == costs[1].time
        assert costs[0].reconfiguration == costs[1].reconfiguration >= 30e-3
    assert lower_bound(collective, slow).time == lower_bound(collective, late).time


def test_receivers_in_burst_mode_are_assumed_only_where_circuits_change() -> None:
    assumed = [
        any("burst mode" in line for line in CircuitSwitch(ranks=8, reconfiguration_time=r, link_up_time=u).warnings)
        for r, u in ((0.0, 0.0), (1e-3, 0.0), (0.0, 1.0), (1e-3, 1.0))
    ]
    assert assumed == [False, True, False, False]


@pytest.mark.parametrize("product", [None, "palomar-136", "calient-s320"])
@pytest.mark.parametrize("chosen", [None, "polatis-7000", "calient-s320"])
def test_a_bill_counts_the_switch_that_is_chosen_else_the_one_of_the_fabric_else_ports(
    product: str | None, chosen: str | None
) -> None:
    bill = CircuitSwitch(ranks=100, product=product).bill(BillChoices(circuit_switch=chosen))
    counted = [line.part.name for line in bill.lines if line.part.kind.startswith("circuit-switch")]
    assert counted == [chosen or product or "circuit-switch-port"]
