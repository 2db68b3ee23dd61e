"""Parts of ledgers and of goodput in small cases whose numbers are worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.parts.bill import Bill, Line
from lightloom.machines.parts.part import Part, Power
from lightloom.planning.economics import causes, ledger
from lightloom.planning.economics.causes import Cause, Recovery, Response, causes_of, responses
from lightloom.planning.economics.estimate import best_spares, changes, estimate_cluster, machine_of
from lightloom.planning.economics.job import Checkpoint, GoodputOptions, Job, optimal_interval, total_job
from lightloom.planning.economics.ledger import (
    ClusterLedger,
    Site,
    StepLedger,
    board_of,
    check_inputs,
    site_of,
    unused_inputs,
    without_covered,
)


def part(name: str, kind: Any, **fields: Any) -> Part:
    return Part.model_validate({"name": name, "kind": kind, "description": name, **fields})


WATTS = {"value": 10.0, "confidence": "read", "source": "a data sheet"}


def test_a_host_holds_cards_up_to_its_bandwidth_line_by_line() -> None:
    """Of 80 bytes a second a host holds 50: all 30 of the first line, and 20 of the 50 of the second."""
    host = part("host", "host", static_power=WATTS, covers={"static_power": ["nic", "node-link"]}, holds={"nic": 50.0})
    card, link, cable = part("card", "nic", rate=10.0), part("link", "node-link"), part("cable", "cable")
    lines = (
        Line(card, 3, "cards"),
        Line(replace_rate(card, None), 2, "cards without a rate"),
        Line(card, 5, "more cards"),
        Line(card, 1, "a card too many"),
        Line(link, 4, "links"),
        Line(cable, 6, "cables"),
    )
    made = without_covered(Bill(8, lines), host)
    assert [(line.part.kind, line.per_rank, bool(line.counted_elsewhere)) for line in made.lines] == [
        ("nic", 3, True),
        ("nic", 2, True),
        ("nic", pytest.approx(2), True),
        ("nic", pytest.approx(3), False),
        ("nic", 1, False),
        ("node-link", 4, True),
        ("cable", 6, False),
    ]
    assert made.lines[0].counted_elsewhere == ("static_power",)
    assert [line.why.partition(", beyond the ")[0] for line in made.lines[2:5]] == [
        "more cards",
        "more cards",
        "a card too many",
    ]
    assert [", beyond the " in line.why for line in made.lines] == [False, False, False, True, True, False, False]
    # What a host does not state, it does not hold.
    assert without_covered(Bill(8, lines), host.model_copy(update={"static_power": None})) == Bill(8, lines)
    # The rate that a line states comes before that of its part: of 4 cards at 25 bytes a second, two are held.
    wide = without_covered(Bill(8, (Line(card, 4, "wide", rate=25.0),)), host).lines
    assert [line.per_rank for line in wide] == [pytest.approx(2), pytest.approx(2)]


def replace_rate(card: Part, rate: float | None) -> Part:
    return card.model_copy(update={"rate": rate})


def test_inputs_that_change_nothing_are_named_choices_first_and_one_is_refused_by_its_kind() -> None:
    """A fabric of a switch has no circuit switches; of prices and choices the first in the alphabet is named."""
    fabric = load_fabric("switch", 8)
    name, ring = "nic-400g", load_fabric("ring", 8)
    assert name in {line.part.name for line in fabric.bill(None).lines}
    others = {line.part.name for line in ring.bill(None).lines if line.part.kind != "fibre"} - {name}
    site = site_of({"prices": {"splitter": 1.0, name: 2.0}, "choices": {"copper_cube": 4}})
    assert unused_inputs(fabric, site) == ("copper_cube", "splitter")
    with pytest.raises(ConfigError, match=r"^copper_cube changes nothing here"):
        check_inputs([fabric], site)
    priced = site_of({"prices": {"splitter": 1.0}, "choices": {"wdm": "devices"}})
    with pytest.raises(ConfigError, match=r"^the price of splitter changes nothing here"):
        check_inputs([fabric], priced)
    check_inputs([fabric], site_of({"prices": {name: 2.0}}))
    check_inputs([fabric], Site())
    with pytest.raises(ConfigError, match="splitter"):
        check_inputs([], priced)
    # Each changes one of two bills.
    check_inputs([fabric, ring], site_of({"prices": {name: 2.0, **dict.fromkeys(others, 2.0)}}))


@pytest.mark.parametrize(
    ("sources", "confidence", "source"),
    [
        ({"power": "assumption: as others"}, "assumption", "assumption: as others"),
        ({"power": "a data sheet"}, "read", "a data sheet"),
        ({}, "read", "stated by the accelerator"),
    ],
)
def test_a_stated_power_is_an_upper_bound_with_its_source(
    sources: dict[str, str], confidence: str, source: str
) -> None:
    odd: Any = SimpleNamespace(chip="odd", name="an odd one", power=123.0, sources=sources)
    board = board_of(odd, Site())
    power = board.static_power
    assert isinstance(power, Power)
    assert (power.value, power.bound, power.confidence, power.source) == (123.0, "most", confidence, source)
    assert board.name == "the board of an odd one" and board.kind == "board" and board.dollars is None
    silent: Any = SimpleNamespace(chip="odd", name="an odd one", power=None, sources=sources)
    assert board_of(silent, Site()).static_power is None
    assert board_of(silent, site_of({"board_price": 7.0})).dollars == ledger._given_price(7.0)
    # A rated power holds what a busy board draws: nothing of its dynamic energy is missing.
    assert board.missing("dynamic_energy") is None and board.missing("dollars") == "price of the board of an odd one"


def test_spares_that_cost_nothing_are_added_until_no_wait_is_left_to_save() -> None:
    """To within 1e-12; a spare at the price of a node stops earlier."""
    job = Job(nodes=10, node_rate=1e-6, node_restart=60.0, repair=1e4, checkpoint=Checkpoint(stall=5.0))
    free = best_spares(job, 0.0)
    waits = [1 - replace(job, spares=spares).availability for spares in (free - 1, free)]
    assert waits[1] < 1e-12 <= waits[0]
    assert 0 < best_spares(replace(job, repair=1e5), 1.0) < best_spares(replace(job, repair=1e5), 0.0)
    assert best_spares(replace(job, node_rate=0.0), 0.0) == 0


def test_one_rate_of_interruptions_is_a_job_of_one_node_that_never_fails() -> None:
    job = total_job(5000.0, 60.0, Checkpoint(stall=5.0), 400.0)
    assert (job.nodes, job.node_rate, job.repair, job.spares, job.interval) == (1, 0.0, 0.0, 0, 400.0)
    assert job.mtbf == pytest.approx(5000.0) and job.node_restart == 60.0 and job.availability == 1.0
    (only,) = job.others
    assert (only.name, only.rate, only.restart) == ("all", 1 / 5000.0, 60.0)


def test_a_response_is_one_restart_at_once_that_slows_nothing_unless_it_says_so() -> None:
    plain = Response(remedy="restart")
    assert (plain.restart, plain.restarts, plain.slowdown, plain.possible, plain.why) == (0.0, 1, 1.0, True, "")


def test_causes_are_those_of_parts_that_may_fail_with_equal_parts_together() -> None:
    """Two lines of a cable, a fibre that never fails, an engine of which nothing is known, and a missing plug."""
    hours = {"value": 3600.0, "confidence": "read", "source": "a log"}
    cable, fibre = part("cable", "cable", mtbf=hours), part("fibre", "fibre", counted_elsewhere={"mtbf": "in cables"})
    board, host, engine = part("board", "board", mtbf=hours), part("host", "host", mtbf=hours), part("engine", "engine")
    lines = [(cable, 2), (host, 0.5), (engine, 1), (cable, 3), (fibre, 9), (board, 1)]
    bill = Bill(8, tuple(Line(each, count, "") for each, count in lines), missing=("plug",))
    found = causes_of(bill, None, {})
    told = [(cause.name, cause.group, cause.kind) for cause in found]
    assert told == [
        ("board", "accelerator", "board"),
        ("host", "host", "host"),
        ("cable", "network", "cable"),
        ("engine", "network", "engine"),
        ("plug", "network", None),
        ("software", "software", None),
    ]
    rates = {cause.name: cause.rate for cause in found}
    assert rates["cable"] == pytest.approx(5 / 3600) and rates["host"] == pytest.approx(0.5 / 3600)
    assert rates["engine"] is None and rates["plug"] is None and rates["board"] == pytest.approx(1 / 3600)
    assert {cause.name: cause.source for cause in found}["cable"] == "a log"
    assert Cause(name="x", group="all").source == "no source was found" == found[3].source
    for name in ("plug", "odd"):
        with pytest.raises(UnknownNameError, match=f"'{name}': expected one of accelerator, all, board, cable, engine"):
            causes_of(bill, None, {name: 5.0})
    # A time that is stated of one part counts as often as a rank has it; that of a group or of all replaces its causes.
    stated = {cause.name: cause for cause in causes_of(bill, None, {"cable": 7200.0, "host": 50.0})}
    assert stated["cable"].rate == pytest.approx(5 / 7200) and stated["cable"].source == "given"
    assert stated["host"].rate == pytest.approx(1 / 50.0) and stated["host"].kind is None
    network = causes_of(bill, None, {"network": 40.0})
    assert [(cause.name, cause.rate) for cause in network if cause.group == "network"] == [("network", 1 / 40.0)]
    assert [cause.name for cause in network] == ["board", "host", "network", "software"]
    every = causes_of(bill, None, {"host": 50.0, "all": 20.0})
    assert [(cause.name, cause.rate, cause.source) for cause in every] == [("all", 1 / 20.0, "given")]
    assert [cause.name for cause in causes_of(bill, None, {"all": 20.0, "host": 50.0})] == ["host", "all"]


@pytest.mark.parametrize("slowdown", [1.0001, None])
def test_a_spare_channel_is_worth_something_where_rewiring_is_better_than_what_is_done_without_it(
    monkeypatch: pytest.MonkeyPatch, slowdown: float | None
) -> None:
    """Where going on with slower steps is better, it stays so beside a spare channel: the gain is 0."""
    monkeypatch.setattr(causes, "damage_slowdown", lambda *_: (slowdown, "as told"))
    options = {"mtbf": {"wdm-engine": "1e5h", "host": "400000h"}, "recovery": {"link_up": "900s"}, "spares": 1}
    base = estimate_cluster(load_cluster("terarack-64"), options)
    gains = {change.name: change.gain for change in changes(base)}
    gain = gains["a spare wavelength of every rank"]
    assert gain == 0 if slowdown else gain > 0
    rewired = estimate_cluster(load_cluster("terarack-64"), {**options, "spare_channels": 1, "remedy": "rewire"})
    (engine,) = [kind for kind in rewired.job.others if kind.name == "wdm-engine"]
    per_rank = sum(line.per_rank for line in base.machine.bill.lines if line.part.name == "wdm-engine")
    assert engine.rate == pytest.approx(64 * per_rank / 3.6e8) and engine.restart == rewired.recovery.seconds("rewire")
    if not slowdown:
        assert gain == pytest.approx(rewired.most_goodput / base.most_goodput - 1)


@pytest.mark.parametrize(("serves", "ranks"), [(1, 1), (2, 2), (8, 8), (100, 64)])
def test_a_node_has_the_ranks_that_its_host_serves_but_no_more_than_there_are(serves: int, ranks: int) -> None:
    host = SimpleNamespace(part=SimpleNamespace(serves=serves, name="a host"))
    own: Any = SimpleNamespace(hosts=SimpleNamespace(lines=[host]), bill=Bill(64))
    machine = machine_of(load_cluster("terarack-64"), GoodputOptions(), own)
    told = "assumption: every rank is a node of its own" if serves == 1 else f"a node has {serves} ranks: a host"
    assert (machine.node_ranks, machine.node_source, machine.nodes) == (ranks, told, 64 // ranks)
    odd = replace(machine, ranks=65)
    assert odd.nodes == -(-65 // ranks) and machine.bill == own.bill


def test_what_sending_takes_is_unknown_where_bits_take_something_and_nobody_says_how_many_there_are() -> None:
    bit = {"value": 1e-12, "confidence": "read", "source": "a data sheet"}
    card = part("card", "nic", rate=10.0, static_power=WATTS, dynamic_energy=bit)
    fabric, nothing = Bill(8, (Line(card, 2, "cards"),), bandwidth=10.0), Bill(8)
    own = ClusterLedger(name="x", ranks=8, site=Site(), boards=nothing, hosts=nothing, fabric=fabric)
    step = StepLedger(cluster=own, step_time=3.0, sent_joules=None, samples=0)
    sent = step.energy.transmission
    assert (sent.value, sent.low, sent.high, sent.missing) == (None, None, None, ("fabric.energy_per_bit",))
    assert step.energy.interface.value == pytest.approx(8 * 2 * 10.0 * 3) and step.energy.total_j is None
    assert replace(step, sent_joules=5.0).energy.total_j == pytest.approx(485.0)


def test_damage_that_is_not_priced_says_whether_it_could_be() -> None:
    engine = Cause(name="engine", group="network", kind="engine", rate=1e-9)
    unserved = load_cluster("h100-1024-no-nvlink-400g").fabric
    for fabric, told in ((load_fabric("wdm-ring", 8), "not priced here"), (unserved, "does not serve a fabric")):
        last = responses(engine, fabric, Recovery.of({}, circuits=False), GoodputOptions(), False)[2]
        assert not last.possible and told in last.why


def test_a_spare_channel_is_worth_nothing_known_while_any_rate_of_a_link_is_unknown() -> None:
    base = estimate_cluster(load_cluster("sip-ocs-1024"))
    rates = [answer.cause.rate for answer in base.answers if answer.cause.group == "network"]
    assert None in rates and any(rates) and base.recovery.circuits
    assert not any("spare port" in change.name for change in changes(base))


def test_where_nothing_is_kept_no_change_gains_anything() -> None:
    base = estimate_cluster(load_cluster("h100-1024-no-nvlink-400g"), {"interruption_time": 1.0, "restart": 1e6})
    assert base.most_goodput == 0 and {change.gain for change in changes(base)} == {0.0}


def test_the_optimum_has_all_its_digits_next_to_the_branch_point() -> None:
    """x - 1 + e^(-x - C/M) = 0 for C/M = 1e-11, by halving with fifty digits."""
    with localcontext() as context:
        context.prec = 50
        stall, low, high = Decimal("1e-11"), Decimal(0), Decimal(1)
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if middle - 1 + (-middle - stall).exp() < 0 else (low, middle)
    assert optimal_interval(1e5, Checkpoint(stall=1e-6)) == pytest.approx(1e5 * float(high), rel=1e-9)
