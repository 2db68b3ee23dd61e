"""Counts of bills: cables of graphs one by one, formulas that give their counts, the fewest switches for the ports."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from math import ceil
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics.bills.grids import averager_bill, wavelength_ring_bill
from lightloom.machines.fabrics.bills.links import RATES, bill_complaints, ports_for
from lightloom.machines.fabrics.bills.switches import PRODUCTS, network, planes_of, tree_of
from lightloom.machines.fabrics.graph import Graph
from lightloom.machines.fabrics.tiers.bill import _level_bill
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.parts.bill import Bill, BillChoices, Line, Medium
from lightloom.machines.parts.part import Power, load_part
from tests.collectives.strategies import graphs, tier_fabrics
from tests.fabrics.tiers_as_graph import to_graph

GBPS = 0.125e9
OPTICAL: Medium = "optical"
COPPER: Medium = "copper"
MEDIA = st.sampled_from([OPTICAL, COPPER])


def counts(lines: Iterable[Line], ranks: int = 1) -> dict[str, float]:
    total: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        total[line.part.name] += line.per_rank * ranks
    return total


@given(graphs(largest=6), st.lists(st.sampled_from([1, 50]), min_size=6, max_size=6), st.booleans(), st.data())
@settings(max_examples=30, deadline=None)
def test_graphs_are_billed_cable_by_cable(graph: Graph, scales: list[int], one_way: bool, data: st.DataObject) -> None:
    """One-way links of opposite directions and one rate share a cable; both of its ends are cards, ports or chips."""
    choices = BillChoices(cards=data.draw(st.booleans()), grid_links=data.draw(MEDIA), host_links=data.draw(MEDIA))
    edges = [edge._replace(bandwidth=scales[i % 6] * edge.bandwidth) for i, edge in enumerate(graph.edges)]
    if one_way:
        edges += [
            edge._replace(source=edge.target, target=edge.source, bandwidth=data.draw(st.sampled_from([1e9, 8e9])))
            for edge in edges
        ]
    ways = Counter((edge.source, edge.target, edge.bandwidth) for edge in edges)
    expected: defaultdict[str, float] = defaultdict(float)
    sent = 0.0
    for (one, other, rate), links in ways.items():
        back = ways[other, one, rate] if one_way else 0
        ports, ends = ports_for(rate, choices), isinstance(one, int) + isinstance(other, int)
        sent += links * rate * (isinstance(one, int) if one_way else ends)
        number = ports.number * (links if links > back else 0 if links < back else links / 2 if back else links)
        expected[f"nic-{ports.name}"] += (ends if ends < 2 or choices.cards else 0) * number
        expected[f"switch-port-{ports.name}"] += (2 - ends) * number
        copper = ("optical", choices.host_links, choices.grid_links)[ends] == "copper"
        expected["copper-cable"] += copper * number
        expected[f"transceiver-{ports.name}"] += 2 * (not copper) * number
        expected["fibre of 20 m"] += (not copper) * number
    bill = Graph(ranks=graph.ranks, edges=tuple(edges), one_way=one_way).bill(choices)
    assert counts(bill.lines, graph.ranks) == pytest.approx({name: count for name, count in expected.items() if count})
    assert bill.bandwidth == pytest.approx(sent / graph.ranks)
    between = any(isinstance(edge.source, int) and isinstance(edge.target, int) for edge in edges)
    assert any("without cards" in note for note in bill.notes) == (between and not choices.cards)


DIRECT: st.SearchStrategy[Literal["ring", "torus", "mesh", "full-mesh"]] = st.sampled_from(
    ["ring", "torus", "mesh", "full-mesh"]
)


@given(st.lists(st.tuples(DIRECT, st.integers(2, 4), st.sampled_from([5e9, 480e9])), min_size=1, max_size=2), st.data())
@settings(max_examples=60, deadline=None)
def test_links_between_neighbours_are_billed_as_those_of_their_graph(
    drawn: list[tuple[Literal["ring", "torus", "mesh", "full-mesh"], int, float]], data: st.DataObject
) -> None:
    """Of every tier, once for each rank of a child."""
    tiers: list[Tier] = []
    child = 1
    for shape, size, bandwidth in drawn:
        ports = data.draw(st.sampled_from([None, child]))
        tiers.append(Tier(shape=shape, size=size, bandwidth=bandwidth, ports=ports))
        child *= size
    fabric = Tiers(ranks=child, tiers=tuple(tiers))
    choices = BillChoices(cards=data.draw(st.booleans()), grid_links=data.draw(MEDIA))
    own, expected = fabric.bill(choices), to_graph(fabric).bill(choices)
    assert counts(own.lines) == pytest.approx(counts(expected.lines))
    assert own.bandwidth == pytest.approx(expected.bandwidth)
    assert bool(own.notes) == bool(expected.notes) == (not choices.cards)


@given(tier_fabrics(largest=24), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_rank_sends_at_full_load_what_the_links_of_its_own_ports_carry(fabric: Tiers, cards: bool) -> None:
    """And not what switches send to each other."""
    if all(level.beneath is not None or level.sharing == 1 for level in fabric.levels):
        choices = BillChoices(cards=cards)
        assert fabric.bill(choices).bandwidth == pytest.approx(to_graph(fabric).bill(choices).bandwidth)


@pytest.mark.parametrize("shape", ["ring", "torus", "mesh", "full-mesh"])
@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 3), st.sampled_from([None, 1, 2]), MEDIA)
@settings(max_examples=40, deadline=None)
def test_links_between_neighbouring_switches_end_at_ports_of_switches(
    shape: Literal["ring", "torus", "mesh", "full-mesh"],
    size: int,
    children: int,
    rails: int,
    ports: int | None,
    grid_links: Medium,
) -> None:
    """As many as the graph's bundles hold, on every rail; nothing of them is a rank's."""
    node = Tier(shape="full-mesh", size=rails, bandwidth=1e9)
    leaves = Tier(shape="switch", size=children, bandwidth=1e9, separate_rails=rails > 1)
    direct = Tier(shape=shape, size=size, bandwidth=50e9, ports=ports, through_switch=True)
    child = rails * children
    if ports and child % ports:
        return
    fabric = Tiers(ranks=child * size, tiers=(node, leaves, direct))
    ways = [edge for edge in to_graph(fabric).edges if isinstance(edge.source, str) and isinstance(edge.target, str)]
    ends = sum(edge.bandwidth for edge in ways) / 50e9
    choices = BillChoices(cards=True, grid_links=grid_links, port_rate=50e9)
    bill = _level_bill(fabric.levels[-1], fabric.levels, None, choices)
    cables = (
        {"copper-cable": ends / 2} if grid_links == "copper" else {"transceiver-400g": ends, "fibre of 20 m": ends / 2}
    )
    assert counts(bill.lines, fabric.ranks) == pytest.approx({"switch-port-400g": ends, **cables})
    assert bill.bandwidth == 0 and not bill.notes


@given(st.floats(1e6, 1e13), st.none() | st.sampled_from(RATES))
@settings(deadline=None)
def test_ports_carry_their_link_and_one_less_would_not(bandwidth: float, chosen: int | None) -> None:
    ports = ports_for(bandwidth, BillChoices(port_rate=chosen and chosen * GBPS))
    assert (ports.number - 1) * ports.rate < bandwidth * (1 + 1e-6)
    assert ports.number * ports.rate >= bandwidth * (1 - 1e-6)
    if chosen is not None:
        assert ports.rate == chosen * GBPS
    elif ports.number == 1:
        assert not any(bandwidth <= rate * GBPS < ports.rate for rate in RATES)
    else:
        assert ports.rate == 400 * GBPS and bandwidth > max(RATES) * GBPS
    assert ports.name == f"{ports.rate / GBPS:g}g"


def test_chosen_parts_say_the_rate_and_those_of_any_rate_do_not(tmp_path: Path) -> None:
    card = tmp_path / "card.yaml"
    card.write_text("kind: nic\ndescription: a card of any rate\n")
    assert ports_for(1e9, BillChoices(nic=str(card))).rate == 40 * GBPS
    for rate in (100, 200, 400, 800):
        chosen = BillChoices(nic=str(card), transceiver=f"transceiver-{rate}g", switch_port=f"switch-port-{rate}g")
        assert ports_for(1e9, chosen).rate == rate * GBPS


def value_of(formula: str) -> float:
    """What a formula of numbers and units gives, without the rates and the remarks behind it."""
    text = re.sub(r"[;:].*| of [0-9.]+ [GT]b/s for .*", "", formula).replace("one end of", "").replace("ends of", "x")
    return float(eval(re.sub(r"\b[a-wyz]\w+|\ba\b", "", text.replace(",", "")).replace("x", "*")))


@given(
    st.integers(2, 3000), st.sampled_from([8, 16, 64]), st.sampled_from([1.0, 2.0, 3.0]), st.integers(1, 2), st.data()
)
@settings(max_examples=40, deadline=None)
def test_formulas_of_switches_give_their_counts(
    joined: int, radix: int, taper: float, least: int, data: st.DataObject
) -> None:
    choices, below = BillChoices(switch_radix=radix), data.draw(st.none() | MEDIA)
    ports = ports_for(data.draw(st.sampled_from([50e9, 120e9, 500e9])), choices)
    per_rank = data.draw(st.sampled_from([1, 2, 4]))
    lines, tree = network(ports, per_rank, joined, choices, taper=taper, least=least, below=below)
    for line in lines:
        assert value_of(line.why) == pytest.approx(line.per_rank, rel=1e-3), line.why
    up = 2 * (tree.tiers - 1) / taper
    ends = {"nic": below is not None, "switch-port": 1 + (below is None) + up}
    ends |= {"transceiver": 2 * (below != "copper") + up, "copper-cable": below == "copper"}
    total = counts(lines)
    for name, number in ends.items():
        count = sum(count for part, count in total.items() if part.startswith(name))
        assert count == pytest.approx(number * per_rank * ports.number), name
    assert total["fibre of 20 m"] == pytest.approx((up / 2 + (below != "copper")) * per_rank * ports.number)


@given(st.integers(1, 200_000), st.integers(4, 80), st.sampled_from([1.0, 2.0, 3.0]), st.integers(1, 3))
def test_a_tree_has_the_fewest_tiers_that_join_its_ports(ports: int, radix: int, taper: float, least: int) -> None:
    """As the module says: k, k floor(k s / (1 + s)) and k / 2 times as many for every further tier."""
    tree = tree_of(ports, radix, taper, least)
    joined = [0, radix]
    while joined[-1] < ports or len(joined) <= tree.tiers:
        joined.append(joined[-1] * (int(radix * taper / (1 + taper)) if len(joined) == 2 else radix // 2))
    assert tree.tiers == max(least, next(tiers for tiers, most in enumerate(joined) if tiers and most >= ports))
    assert (tree.radix, tree.taper) == (radix, taper) and tree.uplinks == (tree.tiers - 1) / taper


@pytest.mark.parametrize(("radix", "taper"), [(3, 1.0), (2, 1.0), (4, 1e12), (8, 0.1)])
def test_switches_with_no_ports_up_or_down_make_no_tree(radix: int, taper: float) -> None:
    with pytest.raises(ConfigError, match=f"switch_radix={radix}: no tree"):
        tree_of(radix + 1, radix, taper)
    assert tree_of(radix, radix, taper).tiers == 1


@given(
    st.integers(1, 300),
    st.integers(1, 73_728),
    st.sampled_from(["", "circuit-switch-port", "calient-s320", "polatis-7000"]),
)
@settings(deadline=None)
def test_planes_take_the_fewest_switches_that_hold_them(planes: int, ports: int, chosen: str) -> None:
    """Whole planes lie on one switch; three stages give each port of a leaf a way to every spine."""
    ranks, choices = 64, BillChoices(circuit_switch=chosen or None, switches="whole")
    if ports > (load_part(chosen).radix or 384 if chosen else 384) ** 2 // 2:
        return
    line, stages, note = planes_of(planes, ports, ranks, choices)
    radix = line.part.radix or 384
    assert stages == (1 if ports <= radix else 3) and bool(note) == (stages > 1)
    number = round(line.per_rank * ranks)
    assert line.per_rank * ranks == pytest.approx(number)
    if chosen == "circuit-switch-port":
        assert number == stages * planes * ports
    elif stages == 1:
        assert number * (radix // ports) >= planes > (number - 1) * (radix // ports)
    else:
        leaves = ceil(ports / (radix // 2))
        assert number == planes * (leaves + ceil(leaves * (radix // 2) / radix))
    used = planes_of(planes, ports, ranks, choices.model_copy(update={"switches": "used"}))
    share = used.line.per_rank * (used.line.part.radix or 1)
    assert share == pytest.approx(used.stages * planes * ports / ranks)
    if not chosen and stages == 1:
        least = min(
            ceil(planes / (part.radix // ports)) * part.dollars.value
            for part in map(load_part, PRODUCTS)
            if part.dollars is not None and part.radix is not None and part.radix >= ports
        )
        assert line.part.dollars is not None and number * line.part.dollars.value == least


@given(st.integers(1, 300), st.floats(1e-4, 1e-2))
def test_light_of_a_ring_takes_as_many_watts_from_one_source_as_from_many(wavelengths: int, launch: float) -> None:
    bill = wavelength_ring_bill(8, wavelengths, 5e9, 2, launch, BillChoices(wdm="devices"))
    (line,) = (line for line in bill.lines if line.part.kind == "light-source")
    share = load_part(line.part.name).efficiency
    assert share is not None and 16 * (line.per_rank - 1) < wavelengths <= 16 * line.per_rank
    watts = line.total("static_power")
    light = wavelengths * launch
    assert (watts.value, watts.low, watts.high) == pytest.approx(
        (light / share.value, light / share.most, light / share.least)
    )
    assert counts(bill.lines)["ring-lock"] == 2 * counts(bill.lines)["photoreceiver"] == 2 * wavelengths
    assert bill.bandwidth == wavelengths * 5e9 and counts(bill.lines)["fibre of 20 m"] == 2


@given(
    st.integers(2, 64),
    st.dictionaries(st.sampled_from(["lasers", "heaters", "units"]), st.floats(0, 1e3, allow_subnormal=False)),
    st.lists(st.sampled_from(["receivers", "modulators"]), unique=True),
)
def test_an_averager_draws_what_its_devices_draw_and_names_those_without_a_figure(
    ranks: int, watts: dict[str, float], unknown: list[str]
) -> None:
    bill = averager_bill(ranks, 50e9, watts, tuple(unknown), BillChoices())
    ends = {line.part.kind: line.total("static_power").value for line in bill.lines if line.part.kind != "averager"}
    made = bool(watts or unknown)
    assert bool(ends["transceiver"]) != made and bill.missing == (() if made else ("what the averager is made of",))
    known = bill.static_power
    drawn = sum(watts.values()) / ranks + sum(value or 0.0 for value in ends.values())
    assert known.value == (pytest.approx(drawn) if drawn else None)
    lacking = [f"power of {name} of the averager" for name in unknown] if made else list(bill.missing)
    assert list(known.missing) == ["power of nic-400g", *lacking]
    assert bill.dynamic_power.value == (0.0 if made else None)
    assert (bill.ranks, bill.bandwidth, counts(bill.lines)["fibre of 20 m"]) == (ranks, 50e9, 1)


def part(count: float = 1.0, why: str = "one", **figures: Power) -> Line:
    """A part of which nothing is known but these figures."""
    unknown = dict.fromkeys(("dollars", "static_power", "dynamic_energy", "mtbf"))
    card = load_part("nic-400g").model_copy(update={"name": "card", "counted_elsewhere": {}, **unknown, **figures})
    return Line(card, count, why)


def power(value: float, low: float, high: float) -> Power:
    """Watts whose range nothing has checked."""
    return Power.model_construct(value=value, low=low, high=high, confidence="read", source="a test", year=None)


@pytest.mark.parametrize(
    ("bill", "says"),
    [
        (Bill(4, (part(),)), ""),
        (Bill(4, (part(0.0),)), ""),
        (Bill(4, missing=("what it is built of",)), ""),
        (Bill(3, (part(),)), "the bill is of 3 ranks: expected 4"),
        (Bill(4), "has no parts and names nothing as missing"),
        (Bill(4, (part(-1.0),)), "counts -1.0 of card"),
        (Bill(4, (part(float("inf")),)), "counts inf of card"),
        (Bill(4, (part(why=""),)), "does not say how it counts card"),
        (Bill(4, (part(static_power=power(2.0, -0.5, 3.0)),)), "static_power is 2.0, outside -0.5 to 3.0"),
        (Bill(4, (part(static_power=power(2.0, 2.5, 3.0)),)), "static_power is 2.0, outside 2.5 to 3.0"),
        (Bill(4, (part(static_power=power(2.0, 1.0, 1.5)),)), "static_power is 2.0, outside 1.0 to 1.5"),
        (Bill(4, (part(static_power=power(2.0, 1.0, float("inf"))),)), "static_power is 2.0, outside 1.0 to inf"),
        (Bill(4, (part(static_power=power(0.0, 0.0, 0.0)),)), ""),
    ],
)
def test_a_bill_that_breaks_a_promise_is_named(bill: Bill, says: str) -> None:
    complaints = [text for text in bill_complaints(bill, 4) if "without load" not in text and "full load" not in text]
    assert len(complaints) == bool(says) and says in "".join(complaints)
