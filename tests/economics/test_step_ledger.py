"""The ledger of a step: no joule and no dollar twice, and no total without what it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lightloom as ll
from lightloom.core.errors import ConfigError
from lightloom.core.units import YEAR
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.clusters.load import names as clusters
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.load import names as fabrics
from lightloom.machines.parts.bill import Bill, Total
from lightloom.planning.economics.ledger import (
    SOURCES,
    ClusterLedger,
    Site,
    StepLedger,
    amount,
    ledger_notes,
    ledger_rows,
    site_of,
)


@cache
def ledger_of(name: str) -> ClusterLedger:
    """The ledger of a cluster of the catalog, or of 64 ranks on a fabric of it alone."""
    if name.startswith("cluster "):
        return ClusterLedger.of(load_cluster(name.removeprefix("cluster ")))
    ranks = 72 if name == "gb200-nvl72" else 4 if name == "optical-averager" else 128 if "twisted" in name else 64
    return ClusterLedger.of_fabric(load_fabric(name, ranks))


EVERYTHING = [*(f"cluster {name}" for name in clusters()), *fabrics()]


def value(total: Total) -> float:
    return total.value or 0.0


@given(name=st.sampled_from(EVERYTHING), seconds=st.floats(1e-6, 1e6), load=st.floats(0, 1), goodput=st.floats(0.1, 1))
def test_joules_are_static_power_times_time_and_the_dynamic_part(
    name: str, seconds: float, load: float, goodput: float
) -> None:
    ledger = ledger_of(name)
    joules_per_bit, rate = ledger.fabric.dynamic_energy.value, ledger.fabric.bandwidth
    sent = None
    if joules_per_bit is not None and rate is not None:
        sent = joules_per_bit * 8 * rate * load * seconds * ledger.ranks
    step = StepLedger(cluster=ledger, step_time=seconds, sent_joules=sent, samples=7, goodput=goodput)
    static = value(ledger.static_power) * seconds * ledger.ranks
    assert value(step.energy.interface) == pytest.approx(value(ledger.fabric.static_power) * seconds * ledger.ranks)
    assert step.energy.known_j == pytest.approx(static + (sent or 0.0), rel=1e-9)
    if load == 1 and sent is not None:
        assert sent == pytest.approx(value(ledger.fabric.dynamic_power) * seconds * ledger.ranks, rel=1e-9)
    assert value(step.watts) * seconds * ledger.ranks == pytest.approx(step.energy.known_j)
    assert value(step.metered) == pytest.approx(1.4 * step.energy.known_j)
    paid = value(ledger.dollars) * ledger.ranks * seconds * (1 / (4 * YEAR) + 0.05 / YEAR)
    assert value(step.dollars) == pytest.approx(paid + 1.4 * step.energy.known_j * 0.12 / 3.6e6)
    named_once(step)


def named_once(step: StepLedger) -> None:
    """What a part lacks, every total of it names; a figure is null exactly where something is missing."""
    document = step.to_json()
    parts = (step.energy.compute, step.energy.host, step.energy.interface, step.energy.transmission)
    lacking = {name for part in parts for name in part.missing}
    assert set(step.energy.missing) == set(step.metered.missing) == lacking
    assert (step.energy.total_j is None) == bool(lacking)
    assert lacking | set(step.cluster.dollars.missing) == set(step.dollars.missing)
    for name in ("watts_per_rank", "dollars_per_step", "samples_per_dollar", "samples_per_joule", "goodput"):
        assert (document[name] is None) == bool(document["missing"].get(name)), name


def test_a_measured_host_holds_its_cards_and_is_named_where_it_is_unknown() -> None:
    assert "host-hgx-a100" in ClusterLedger.of(load_cluster("terarack-64")).static_power.assumptions
    h100, tpu = ClusterLedger.of(load_cluster("dgx-h100-64")), ClusterLedger.of(load_cluster("tpu-v4-1024"))
    assert (h100.boards.static_power.value, h100.hosts.static_power.value) == (700, 350)
    assert not any("nic" in name for name in h100.static_power.missing)
    assert h100.dollars.missing and tpu.static_power.missing[0] == "power of host-tpu-v4"
    given = site_of({"host_power": "100 W", "host_price": "2 k$", "board_price": "$ 5000"})
    assert ClusterLedger.of(load_cluster("tpu-v4-1024"), given).hosts.static_power.value == 100
    stated = ClusterLedger.of(load_cluster("dgx-h100-64"), given).hosts
    assert (stated.static_power.value, stated.dollars.value) == (100, 2000)
    assert ClusterLedger.of(load_cluster("dgx-h100-64"), given).boards.dollars.value == 5000


def test_a_rank_has_a_whole_host_or_its_share_of_one() -> None:
    shared, own = (
        ClusterLedger.of(load_cluster("dgx-h100-64", set={"accelerator": name})).hosts.lines[0]
        for name in ("h100", "titan-xp")
    )
    assert (shared.per_rank, shared.why) == (1 / 8, "1 / 8 of a host a rank")
    assert (own.per_rank, own.why) == (1, "1 of a host a rank")


def test_energy_of_a_bit_that_may_hold_watts_is_said() -> None:
    """5 pJ/bit of an engine are its 51.2 W at full load: stated alone they count beside these."""
    stated = {"fabric.energy_per_bit": "5 pJ/bit"}
    both = ClusterLedger.of(load_cluster("terarack-64", set=stated)).fabric
    alone = ClusterLedger.of(load_cluster("terarack-64", set=stated | {"fabric.power_per_rank": 0})).fabric
    said = "energy_per_bit counts beside the 51.2 W of a rank's parts, busy or idle (5 pJ/bit at full load)"
    assert any(said in note for note in both.notes) and not any("beside" in note for note in alone.notes)
    assert both.static_power.value == pytest.approx(51.2)
    assert alone.static_power.value == 0
    assert both.dynamic_power.value == alone.dynamic_power.value == pytest.approx(51.2)


def test_cards_beyond_those_of_the_host_count() -> None:
    ledger = ClusterLedger.of(load_cluster("sip-ocs-1024", set={"accelerator": "h100", "ranks": 64}))
    cards = [line for line in ledger.fabric.lines if line.part.kind == "nic"]
    assert [line.per_rank for line in cards] == [1, 7]
    assert cards[1].why.endswith("beyond the 400 Gb/s of the host")
    assert "power of nic-400g" in ledger.static_power.missing
    assert sum(line.total("dollars").value or 0 for line in cards) == 8 * 1499


def test_a_board_draws_what_its_accelerator_states() -> None:
    for watts in (700.0, 1200.0):
        ledger = ClusterLedger.of(load_cluster("dgx-b200-64", set={"accelerator.power": watts}))
        assert ledger.boards.static_power.value == watts


@pytest.mark.parametrize(
    ("total", "text"),
    [
        (Total("dollars", None, None, None, ("price of a",)), "unknown"),
        (Total("dollars", 0.0, 0.0, 0.0), "$ 0"),
        (Total("dollars", 0.0099, 0.0099, 0.0099), "0.99 ct"),
        (Total("dollars", 0.01, 0.01, 0.01), "$ 0.01"),
        (Total("dollars", 12.0, 10.0, 14.0, ("price of a",)), "≥ $ 12 ($ 10 to $ 14)"),
        (Total("dollars", 12.0, 12.0, 12.0, at_most=("power of a",)), "≤ $ 12"),
        (Total("dollars", 12.0, 12.0, 12.0, ("price of a",), at_most=("power of b",)), "~ $ 12"),
    ],
)
def test_amounts_are_marked_as_bounds_and_have_a_range_where_it_shows(total: Total, text: str) -> None:
    assert amount(total) == text


def test_rows_and_notes_of_ledgers_are_those_of_their_steps() -> None:
    """Places beside each other, samples and goodput only where a step trains some."""
    full = ledger_of("cluster dgx-h100-64")
    step = StepLedger(cluster=full, step_time=2.0, sent_joules=None, samples=7)
    idle = replace(step, cluster=ledger_of("switch"), samples=0, sent_joules=0.0, interval=(1.9, 2.2))
    rows = ledger_rows({"a": step, "b": idle})
    names = ["dollars a rank", "watts a rank", "joules a step", "at the meter", "dollars a step"]
    assert [row[0] for row in rows] == [*names, "samples per dollar", "samples per joule", "goodput"]
    assert all(len(row) == 3 for row in rows)
    assert rows[0][1:] == (amount(full.dollars), amount(idle.cluster.dollars))
    assert rows[1][1:] == (amount(step.watts), amount(idle.watts))
    assert rows[2][1:] == (amount(step.energy.total), amount(idle.energy.total))
    assert rows[3][1:] == (amount(step.metered), amount(idle.metered))
    assert rows[4][1:] == (amount(step.dollars), amount(idle.dollars))
    assert rows[5][1:] == (amount(step.samples_per_dollar), "unknown")
    assert rows[6][1:] == (amount(step.samples_per_joule), "unknown")
    assert rows[7] == ("goodput", "not computed", "not computed")
    alone = ledger_rows({"b": idle}, "collective")
    assert [row[0] for row in alone] == [name.replace("a step", "a collective") for name in names]
    known = replace(step, goodput=0.925), replace(step, goodput=0.925, goodput_missing=("wdm-engine",))
    assert ledger_rows(dict(zip("cd", known, strict=True)))[-1] == ("goodput", "92.50%", "≤ 92.50%")
    notes = list(ledger_notes({"a": replace(step, goodput=0.9, goodput_missing=("wdm-engine",)), "b": idle}))
    assert notes[0] == (
        "left out, so that sums are at least so much (≥), a: "
        + ", ".join(dict.fromkeys((*full.dollars.missing, *step.energy.missing)))
    )
    assert notes[1].startswith("counted at a limit, so that sums are at most so much (≤), a: ")
    assert notes[2] == "both, so that sums are neither (~), a"
    assert notes[3] == "ranges are those of prices and watts alone, a: no interval of its time is known"
    assert notes[4] == "goodput at most (≤), a: without wdm-engine"
    assert not any("no interval" in note and ", b:" in note for note in notes)
    for whole in (replace(step, goodput=0.9), replace(step, goodput_missing=("wdm-engine",))):
        assert not any(note.startswith("goodput at most") for note in ledger_notes({"a": whole}))
    (site,) = [note for note in notes if note.startswith("assumed of the site: ")]
    assert site == f"assumed of the site: {', '.join(Site().texts().values())}"
    assert sum(note.startswith("assumed of failures: ") for note in notes) == 1
    calm = [note.partition(":")[0] for note in ledger_notes({"b": idle})]
    assert "assumed of failures" not in calm and "both, so that sums are neither (~), b" not in calm
    stated = site_of({"pue": 1.1, "electricity": "8 ct/kWh", "amortisation": "3 years", "maintenance": "1 %"})
    told = ledger_notes({"a": replace(step, cluster=replace(full, site=stated))})
    assert not any(note.startswith("assumed of the site") for note in told) and list(ledger_notes({})) == []


def test_steps_without_time_draw_static_power_and_what_sending_takes_is_named_where_it_is_unknown() -> None:
    ledger = ledger_of("cluster dgx-h100-64")
    still = StepLedger(cluster=ledger, step_time=0.0, sent_joules=5.0, samples=1)
    assert still.watts == ledger.static_power and still.energy.known_j == 5.0
    assert replace(still, step_time=1.0, sent_joules=None).energy.transmission.value == 0
    lacking = replace(ledger, fabric=Bill(ledger.ranks, missing=("fibres",)))
    unknown = replace(still, cluster=lacking, sent_joules=None).energy.transmission
    assert (unknown.value, unknown.missing) == (None, ("fibres",))
    sent = replace(still, step_time=2.0, interval=(1.0, 4.0))
    more = value(sent.watts) - value(ledger.static_power)
    assert more == pytest.approx(5.0 / (2.0 * ledger.ranks))
    low, high = sent.watts.low, sent.watts.high
    static = ledger.static_power
    assert low is not None and high is not None and static.low is not None and static.high is not None
    assert low - static.low == pytest.approx(5.0 / (4.0 * ledger.ranks))
    assert high - static.high == pytest.approx(5.0 / (1.0 * ledger.ranks))


@given(spares=st.floats(0, 1), more=st.floats(1e-3, 1), goodput=st.floats(0.1, 1))
def test_spares_cost_dollars_and_joules(spares: float, more: float, goodput: float) -> None:
    """More spares never fewer joules: what a dollar and a joule train falls with them, at the same goodput."""
    ledger = ClusterLedger.of_fabric(load_fabric("switch", 4))
    step = StepLedger(cluster=ledger, step_time=1.0, sent_joules=0.0, samples=10, goodput=goodput, spare_share=spares)
    few, many = (each.to_json()["ledger"] for each in (step, replace(step, spare_share=spares + more)))
    for name in ("samples_per_dollar", "samples_per_joule"):
        before, after = few[f"{name}_after_goodput"], many[f"{name}_after_goodput"]
        assert before["value"] == pytest.approx(goodput * few[name]["value"] / (1 + spares))
        assert after["value"] < before["value"] and after["low"] < before["low"] and after["high"] < before["high"]
    assert step.to_json()["missing"].get("goodput") is None
    without = replace(step, goodput=None).to_json()
    assert without["missing"]["goodput"] == ["failures and checkpoints (lightloom goodput)"]


def drawn(bill: Bill, shares: Iterator[float]) -> Bill:
    """The bill with each figure somewhere in its range."""
    lines = []
    for line in bill.lines:
        update = {}
        for name in ("dollars", "static_power", "static_energy", "dynamic_energy"):
            figure = getattr(line.part, name)
            if figure is not None:
                value = figure.least + next(shares) * (figure.most - figure.least)
                update[name] = figure.model_copy(update={"value": value, "low": None, "high": None})
        lines.append(replace(line, part=line.part.model_copy(update=update)))
    return replace(bill, lines=tuple(lines))


_intervals = st.tuples(st.floats(0.5, 1), st.floats(1, 2))


@given(name=st.sampled_from(EVERYTHING), seed=st.integers(0, 9999), factors=_intervals)
def test_totals_of_any_draw_lie_in_their_ranges(name: str, seed: int, factors: tuple[float, float]) -> None:
    """Every figure within its range and a step within its interval: all columns follow one rule."""
    random = Random(seed)
    ledger, low, high = ledger_of(name), *factors
    step = StepLedger(cluster=ledger, step_time=1.0, interval=factors, sent_joules=3.0, samples=7)
    shares = iter(random.random, None)
    boards, hosts, fabric = (drawn(bill, shares) for bill in (ledger.boards, ledger.hosts, ledger.fabric))
    other = replace(ledger, boards=boards, hosts=hosts, fabric=fabric)
    seconds = low + random.random() * (high - low)
    draw = StepLedger(cluster=other, step_time=seconds, sent_joules=3.0, samples=7)
    for total, one in (
        (step.watts, draw.watts),
        (step.energy.total, draw.energy.total),
        (step.metered, draw.metered),
        (step.dollars, draw.dollars),
        (step.samples_per_dollar, draw.samples_per_dollar),
        (step.samples_per_joule, draw.samples_per_joule),
    ):
        if total.value is None:
            assert one.value is None
            continue
        assert total.low is not None and one.value is not None and total.high is not None
        assert total.low * (1 - 1e-9) <= one.value <= total.high * (1 + 1e-9)
        assert total.low <= total.value * (1 + 1e-9) and total.value <= total.high * (1 + 1e-9)
        assert total.missing == one.missing


@pytest.mark.parametrize("name", clusters())
def test_no_total_that_counts_rated_power_is_a_lower_bound(name: str) -> None:
    """A board that waits draws less than its rating; with parts missing as well a sum is no bound at all."""
    ledger = ledger_of(f"cluster {name}")
    step = StepLedger(cluster=ledger, step_time=1.0, sent_joules=0.0, samples=7)
    rated = ledger.boards.static_power.at_most
    if load_cluster(name).accelerator.power is not None:
        assert rated
    for total, inverse in ((step.watts, step.samples_per_joule), (step.dollars, step.samples_per_dollar)):
        expected = {(False, False): "", (True, False): "at least", (False, True): "at most", (True, True): "about"}
        assert set(rated) <= set(total.at_most)
        if total.value is not None:
            assert total.bound == expected[bool(total.missing), bool(rated)]
            turned = {"at least": "at most", "at most": "at least"}
            assert inverse.bound == turned.get(total.bound, total.bound)


@given(name=st.sampled_from(EVERYTHING), forgotten=st.sets(st.integers(0, 12)))
def test_more_unknowns_never_narrow_an_interval(name: str, forgotten: set[int]) -> None:
    """A sum without some prices still holds all sums with them: at least so much, and its low end is no higher."""
    bill = ledger_of(name).bill
    lines = [
        replace(line, part=line.part.model_copy(update={"dollars": None})) if place in forgotten else line
        for place, line in enumerate(bill.lines)
    ]
    every, some = bill.dollars, replace(bill, lines=tuple(lines)).dollars
    assert set(every.missing) <= set(some.missing)
    if some.value is not None and some.low is not None and every.low is not None:
        assert some.low <= every.low * (1 + 1e-9)
        assert bool(some.missing) == (some.bound == "at least")


@pytest.mark.parametrize("price", ["12 ct/kWh", "0.12 $/kWh", "$0.12/kWh", "$ 120/MWh", 0.12 / 3.6e6])
def test_inputs_of_a_site_have_units(price: str | float) -> None:
    site = site_of({"electricity": price, "amortisation": "48 months", "maintenance": "5 %", "pue": None})
    assert site.electricity == pytest.approx(Site().electricity)
    assert site.amortisation == pytest.approx(Site().amortisation) and site.maintenance == 0.05
    assert site.defaults == ("pue",) and len(Site().assumptions()) == len(SOURCES) == 4
    assert site.texts()["electricity"] == "electricity 12 ct/kWh"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"electricity": "0.12"},
            "'electricity': '0.12' has no unit: expected a price of electricity such as 12 ct/kWh",
        ),
        ({"electricity": "-1 ct/kWh"}, "'-1 ct/kWh'.* must be finite and not negative"),
        ({"electricity": "12 ct/furlong"}, "unknown price of electricity unit 'ct/furlong'"),
        ({"pue": 0.9}, "'pue': 0.9: .*greater than or equal to 1"),
        ({"amortisation": "4"}, "'amortisation': '4'"),
        ({"maintenance": "150 %"}, "'maintenance': '150 %'"),
        ({"host_price": "-3 $"}, "not negative"),
        ({"rent": 3}, "unknown field 'rent': expected one of pue"),
    ],
)
def test_bad_inputs_of_a_site_are_one_line(given: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        site_of(given)


def test_collectives_count_the_fabric_alone() -> None:
    arguments = {"fabric": "switch", "ranks": 4, "nbytes": "1MB", "algorithm": "ring"}
    plain = ll.collective("all-reduce", **arguments)  # type: ignore[arg-type]
    cheap = ll.collective("all-reduce", site={"amortisation": "8 years", "maintenance": 0}, **arguments)  # type: ignore[arg-type]
    rows = [ranking.to_json()["rows"][0] for ranking in (plain, cheap)]
    assert rows[0]["dollars_per_step"] is None and rows[0]["missing"]["dollars_per_step"] == ["power of nic-400g"]
    assert rows[0]["missing"]["samples_per_joule"] == ["power of nic-400g", "samples (a collective trains none)"]
    paid = [row["ledger"]["dollars_per_step"]["value"] for row in rows]
    price, watts = plain.fabric_ledger.dollars.value, plain.fabric_ledger.static_power.value
    assert price is not None and watts is not None
    power, seconds = 1.4 * watts * 0.12 / 3.6e6, 4 * plain.winner.time
    assert paid[0] == pytest.approx(seconds * (price * (1 / (4 * YEAR) + 0.05 / YEAR) + power))
    assert paid[1] == pytest.approx(seconds * (price / (8 * YEAR) + power))


@given(price=st.floats(0, 1e5), whole=st.booleans())
def test_prices_and_choices_of_a_site_reach_the_ledger(price: float, whole: bool) -> None:
    """A stated price counts for each part of the name, a stated fabric in place of all its parts, boards as before."""
    cluster = load_cluster("sip-ocs-1024", set={"ranks": 70})
    choices = {"switches": "whole" if whole else "used"}
    base, priced, stated = (
        ClusterLedger.of(cluster, site_of({"choices": choices, **given}))
        for given in ({}, {"prices": {"nic-400g": price}}, {"fabric_price": price})
    )
    count = sum(line.per_rank for line in base.fabric.lines if line.part.name == "nic-400g")
    assert count == 8
    assert value(priced.dollars) - value(base.dollars) == pytest.approx(count * (price - 1499), abs=1e-6)
    assert value(stated.dollars) == pytest.approx(value(base.boards.dollars) + value(base.hosts.dollars) + price)
    assert stated.fabric.dollars.complete and stated.static_power == base.static_power
    switches = sum(value(line.total("dollars")) for line in base.fabric.lines if "switch" in line.part.kind)
    assert switches == pytest.approx(2 * 166_400 / 70 if whole else 8 * 520)
