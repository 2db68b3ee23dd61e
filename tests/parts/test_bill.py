"""Parts and bills: figures with ranges, totals with what they lack."""

import pytest

from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.parts.bill import Bill, Line, unknown_bill
from lightloom.machines.parts.part import FIGURES, Part, load_part, names, names_of


@pytest.mark.parametrize("name", names())
def test_parts_of_the_catalog_state_what_is_missing(name: str) -> None:
    part = load_part(name)
    for figure in FIGURES:
        known = part.figure(figure) is not None or figure in part.counted_elsewhere
        assert known == (part.missing(figure) is None)


@pytest.mark.parametrize(
    ("field", "figure", "complaint"),
    [
        ("dollars", {"value": -3, "year": 2025, "confidence": "read", "source": "x"}, "greater than or equal to 0"),
        ("dollars", {"value": 3, "confidence": "read", "source": "x"}, "'dollars.year' is missing"),
        ("static_power", {"value": "3 W", "low": "4 W", "confidence": "read", "source": "x"}, "does not hold"),
        ("static_power", {"value": "3 W", "confidence": "memory", "source": "x"}, "'read', 'quoted' or 'assumption'"),
        ("mtbf", {"value": 0, "confidence": "read", "source": "x"}, "greater than 0"),
    ],
)
def test_bad_figures_are_refused(field: str, figure: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        validate(Part, {"name": "x", "kind": "nic", "description": "a card", field: figure}, "x.yaml")


def test_a_switch_costs_its_ports_cards_and_links() -> None:
    bill = load_fabric("switch", 64).bill()
    # 400 Gb/s: a card, a port, two transceivers and 20 m of fibre.
    assert bill.dollars.value == 1499 + 1500 + 2 * 659 + 20 * 0.3
    assert bill.dollars.complete
    assert bill.static_power.missing == ("power of nic-400g",)
    assert bill.static_power.text().startswith("at least ")


def test_totals_add_and_name_what_is_missing() -> None:
    bill = load_fabric("switch", 64).bill() + unknown_bill(64, "plug-in")
    assert "what a plug-in is built of" in bill.dollars.missing
    assert "at least $ 4,323" in bill.dollars.text()
    assert unknown_bill(4, "plug-in").dollars.value is None
    assert bill.times(2).dollars.value == pytest.approx(2 * (bill.dollars.value or 0))


def test_nothing_unknown_is_zero() -> None:
    passive, unknown = load_part("fibre-metre"), load_part("serialiser")
    bill = Bill(4, (Line(passive, 1.0, "one"), Line(unknown, 1.0, "one")))
    assert bill.static_power.value is None
    assert bill.static_power.text() == "unknown; without: power of serialiser"
    assert bill.energy(1.0, 0.0).value is None
    assert Bill(4, (Line(passive, 1.0, "one"),)).static_power.value == 0.0


def test_lines_count_a_figure_once() -> None:
    part = load_part("transceiver-400g")
    bill = Bill(4, (Line(part, 2.0, "two"), Line(part, 1.0, "one", counted_elsewhere=("static_power",))))
    assert bill.static_power.value == 18.0
    assert bill.static_power.low == 16.0
    assert bill.dollars.value == pytest.approx(3 * 659)


def test_a_total_at_a_limit_is_a_bound() -> None:
    """Rated watts are an upper bound, a life without failures is a lower one, and what misses parts is neither."""
    board, life, unknown = load_part("board-h100"), load_part("copackaged-bailly-800g"), load_part("serialiser")
    rated = Bill(4, (Line(board, 1.0, "one"),)).static_power
    assert rated.bound == "at most" and rated.text().startswith("at most 700 W; at most what is counted of board-h100")
    assert Bill(4, (Line(board, 1.0, "one"), Line(unknown, 1.0, "one"))).static_power.bound == "about"
    failures = Bill(4, (Line(life, 1.0, "one"),)).failure_rate
    assert failures.bound == "at most" and failures.times(2.0).bound == "at most"
    per_watt = rated.dividing(7.0, "samples")
    assert per_watt.bound == "at least" and per_watt.value == pytest.approx(7 / 700)


def test_lives_and_watts_of_the_catalog_follow_from_their_sources() -> None:
    """A part of two ports fails twice as often as one; a port has an equal share of its own switch."""
    bailly, switch = load_part("copackaged-bailly-800g"), 1.43e6 * 3600
    assert bailly.mtbf is not None and bailly.mtbf.value == pytest.approx(15e6 / 3 / 2 * 3600, rel=0.01)
    assert bailly.mtbf.bound == "least"
    ports = [load_part(name) for name in names_of("switch-port")]
    lives = {part.name: part.mtbf.value / switch for part in ports if part.mtbf is not None}
    assert len(lives) >= 4
    assert lives == pytest.approx({part.name: part.radix for part in ports if part.name in lives}, rel=0.01)
    port = load_part("switch-port-400g")
    assert port.static_power is not None and port.static_power.least <= 747 / 64 <= port.static_power.most + 0.05
