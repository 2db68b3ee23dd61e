"""Parts and bills: figures with ranges, totals with what they lack."""

import pytest

from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError
from lightloom.fabrics.load import load_fabric
from lightloom.parts.bill import Bill, Line, unknown_bill
from lightloom.parts.load import load_part, names
from lightloom.parts.part import FIGURES, Part


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
