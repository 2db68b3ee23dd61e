"""Goodput of clusters: causes from the bill, responses and spares that prices decide, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from lightloom.app.api.goodput import Goodput, GoodputSettings, bill, format_duration, goodput
from lightloom.core.errors import InputError
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.load import load_fabric
from lightloom.planning.economics import causes
from lightloom.planning.economics.causes import Recovery, Response, damage_slowdown, load_log, names
from lightloom.planning.economics.estimate import estimate_cluster, machine_of, spare_counts
from lightloom.planning.economics.job import World, options_of

RING: dict[str, Any] = {"mtbf": {"wdm-engine": "1e6h", "host": "400000h"}}
SWITCH = "h100-1024-no-nvlink-400g"


def test_rates_follow_from_the_bill() -> None:
    """Parts of a rank over their mean times, and software of Llama 3's log."""
    result = goodput(SWITCH)
    rates = {answer.cause.name: answer.cause.rate for answer in result.estimate.answers}
    lines = [line for line in result.estimate.machine.bill.lines if line.part.name == "transceiver-400g"]
    assert rates["transceiver-400g"] == pytest.approx(sum(line.per_rank for line in lines) / (2.56e6 * 3600))
    assert rates["software"] == pytest.approx(63 / (54 * 86400 * 16384))
    assert result.goodput is not None and result.missing == ()
    assert result.estimate.job.nodes == 128
    document = json.loads(json.dumps(result.to_json()))
    assert sum(document["shares"].values()) == pytest.approx(1)
    assert document["goodput"] == result.goodput


def test_what_is_unknown_is_named_and_nothing_is_said_of_the_total() -> None:
    result = goodput("terarack-64", mtbf={"host": "400000h"}, damage_slowdown=1.1)
    assert result.goodput is None
    assert result.missing == ("mean time between failures of wdm-engine",)
    assert result.summary().startswith("at most ")
    known = goodput("terarack-64", damage_slowdown=1.1, **RING)
    assert known.goodput is not None and known.goodput < result.most_goodput
    assert "a spare wavelength of every rank" in [change.name for change in known.changes]
    assert "a spare wavelength of every rank" not in [change.name for change in result.changes]


def test_causes_without_a_rate_are_told_as_not_sourced_and_others_by_their_number() -> None:
    """As many as the months and the ranks have, with the restart that each takes."""
    result = goodput("terarack-64", mtbf={"host": "400000h"}, damage_slowdown=1.1, months=2)
    rows, shown = result.rows(), result.display_rows()
    for row, text, answer in zip(rows, shown, result.estimate.answers, strict=True):
        assert text["cause"] == row["cause"] == answer.cause.name
        assert (text["interruptions"] == "not sourced") == (row["interruptions"] is None) == (answer.cause.rate is None)
        assert (text["restart"] == "") == (row["restart_s"] is None)
        if answer.cause.rate is not None:
            assert row["interruptions"] == pytest.approx(answer.cause.rate * 64 * 60 * 86400)
            assert float(text["interruptions"]) == pytest.approx(row["interruptions"], rel=5e-3)
            assert row["restart_s"] == answer.restart > 0 and text["restart"] == format_duration(answer.restart)
    assert {text["interruptions"] == "not sourced" for text in shown} == {True, False}
    for row in rows:
        for told in row["remedies"]:
            assert (told["restart_s"] is None) == (told["slowdown"] is None) == (told["goodput"] is None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (119.0, "119 s"),
        (120.0, "2 min"),
        (7199.0, "120 min"),
        (7200.0, "2 h"),
        (172_799.0, "48 h"),
        (216_000.0, "2.5 days"),
    ],
)
def test_durations_have_the_largest_unit_of_which_there_are_two(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_settings_ask_for_a_simulation_where_only_that_uses_them() -> None:
    assert "simulate" not in GoodputSettings().arguments() and GoodputSettings().arguments()["months"] == 1.0
    assert GoodputSettings.model_validate({"weibull": 0.7}).arguments()["simulate"] == World(shape=0.7)
    assert GoodputSettings.model_validate({"crews": 2}).arguments()["simulate"] == World(crews=2)
    racks = GoodputSettings.model_validate({"rack": {"nodes": 4, "mtbf": "2h"}}).arguments()
    assert racks["simulate"] == World(rack=4, rack_rate=1 / 7200) and "rack" not in racks


def test_a_century_of_months_is_the_most() -> None:
    assert goodput(SWITCH, months=1200).months == 1200
    with pytest.raises(InputError, match="at most 1200"):
        goodput(SWITCH, months=1200.5)


def test_totals_of_a_bill_are_those_of_its_lines() -> None:
    priced = bill("terarack-64")
    rows = priced.rows()
    for total, column in (
        (priced.dollars, "dollars_per_rank"),
        (priced.static_power, "static_watts_per_rank"),
        (priced.failure_rate, "failures_per_second_per_rank"),
    ):
        known = [row[column] for row in rows if row[column] is not None]
        assert total.value == pytest.approx(sum(known))
        unknown = {line.part.name for line, row in zip(priced.bill.lines, rows, strict=True) if row[column] is None}
        assert bool(unknown) == bool(total.missing)
        assert all(any(name in missing for missing in total.missing) for name in unknown)
    assert [row["part"] for row in rows] == [line.part.name for line in priced.bill.lines]
    assert (
        bill("terarack-64").name == "cluster terarack-64" and bill("two-tier-400g", 64).name == "fabric two-tier-400g"
    )
    assert bill(load_cluster("terarack-64").fabric).name == "fabric wdm-ring"
    with pytest.raises(InputError, match=r"unknown field 'colour'.*; or a choice of the bill, one of "):
        bill("terarack-64", colour="red")


def remedy(result: Goodput) -> str:
    (chosen,) = [answer.chosen for answer in result.estimate.answers if answer.chosen is not None]
    return chosen.remedy


def test_a_small_change_of_its_price_decides_between_damage_and_rewiring() -> None:
    """Damage costs slower steps until the repair and one restart more; rewiring costs link-up."""
    ring = load_cluster("terarack-64")
    fields: dict[str, Any] = {**RING, "spare_channels": 1, "recovery": {"link_up": "900s"}, "spares": 1}

    def kept(which: str, slowdown: float) -> float:
        return goodput(ring, remedy=which, damage_slowdown=slowdown, **fields).most_goodput

    low, high = 1.0, 1.5
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if kept("damaged", middle) > kept("rewire", middle) else (low, middle)
    assert 1.0001 < low < 1.1
    for factor, chosen in ((0.999, "damaged"), (1.001, "rewire")):
        assert remedy(goodput(ring, damage_slowdown=low * factor, **fields)) == chosen
    faster = {**fields, "recovery": {"link_up": "890s"}}
    assert remedy(goodput(ring, damage_slowdown=low, **faster)) == "rewire"


def test_a_small_change_of_the_price_of_a_spare_decides_how_many_there_are() -> None:
    switch = load_cluster(SWITCH)
    base = goodput(switch, spares=4, node_price=400_000)
    worth = next(row.worth for row in base.spare_counts if row.chosen)
    assert worth is not None and 1000 < worth < 400_000
    # The fourth pays below what it is worth beside three at that price, hence beside three that cost less than nodes.
    low, high = 1.0, 400_000.0
    for _ in range(24):
        price = (low + high) / 2
        spares = goodput(switch, spare_price=price, node_price=400_000).estimate.job.spares
        low, high = (price, high) if spares >= 4 else (low, price)
    cheap, dear = (goodput(switch, spare_price=low * f, node_price=400_000) for f in (0.999, 1.001))
    assert (cheap.estimate.job.spares, dear.estimate.job.spares) == (4, 3)
    fourth = next(row for row in spare_counts(dear.estimate) if row.spares == 4)
    assert fourth.worth == pytest.approx(low, rel=2e-3)


def test_a_price_of_spares_is_not_held_against_an_incomplete_price_of_a_node() -> None:
    """Spares at the price of a node in use are as many as without any price, whatever that is; a ratio to a part of the
    price would be too high."""
    name = "h100-1024-no-nvlink-400g"
    known = goodput(name, spares=0).estimate.node_price
    assert known.value is not None and known.missing
    with pytest.raises(InputError, match="lacks price of host-hgx-h100: expected node_price beside it"):
        goodput(name, spare_price=known.value)
    for price in (known.value, 2 * known.value):
        spares = goodput(name, spare_price=price, node_price=price).estimate.job.spares
        assert spares == goodput(name).estimate.job.spares


@pytest.mark.parametrize(("save", "blocks"), [(None, True), ("0 s", True), ("60 s", False)])
def test_checkpoints_that_block_are_said_to(save: str | None, blocks: bool) -> None:
    lines = goodput(SWITCH, stall="20 s", save=save).estimate.assumptions
    assert ("checkpoints block: training waits until they are written" in lines) == blocks


def test_only_a_simulation_draws_at_random_and_depends_on_its_seed() -> None:
    alone, other = goodput(SWITCH, seed=3), goodput(SWITCH, seed=4)
    assert alone.origin == other.origin and alone.origin["seed"] is None and alone.simulated is None
    played, again = goodput(SWITCH, seed=3, simulate=True, runs=1), goodput(SWITCH, seed=3, simulate=True, runs=2)
    assert played.origin["seed"] == 3
    configurations = {each.origin["configuration"] for each in (alone, played, again)}
    assert len(configurations) == 3


def test_dollars_are_those_of_nodes_and_of_spares_at_their_ratio() -> None:
    priced = goodput(SWITCH, node_price=400_000, spare_price=100_000).estimate
    assert priced.spare_ratio == 0.25 and priced.job.spares > 1
    assert priced.cost == priced.job.nodes + priced.job.spares / 4 and priced.dollars == pytest.approx(
        400_000 * priced.cost
    )
    unknown = goodput("tpu-v4-1024", spares=2).estimate
    assert unknown.spare_ratio == 1.0 and unknown.cost == unknown.job.nodes + 2
    price = unknown.node_price.value
    assert unknown.dollars == (None if price is None else price * unknown.cost)


def test_a_stated_time_between_interruptions_is_that_of_the_whole_job() -> None:
    found = goodput(SWITCH, interruption_time="3h").estimate
    (answer,) = found.answers
    assert answer.cause.rate == pytest.approx(1 / (3 * 3600 * found.machine.ranks))
    assert (answer.cause.name, answer.cause.source, answer.chosen) == ("all", "given", None)
    assert found.job.mtbf == pytest.approx(3 * 3600) and found.speed == 1.0
    assert found.missing == () and answer.restart == found.job.node_restart
    assert found.job.nodes == found.machine.nodes
    assert not any("spares" in line or "repair" in line for line in found.assumptions)


def test_ranks_of_a_node_are_those_stated_of_the_host_or_of_the_innermost_domain() -> None:
    def node(cluster: str, **changes: Any) -> tuple[int, str]:
        options = {name: changes.pop(name) for name in ("node_ranks",) if name in changes}
        machine = machine_of(load_cluster(cluster, **changes), options_of(options))
        return machine.node_ranks, machine.node_source

    assert node("terarack-64", node_ranks=64) == (64, "given")
    assert node("dgx-h100-64") == (8, "a node has 8 ranks: host-hgx-h100")
    assert node("terarack-64", ranks=4)[0] == 4
    hostless = {"accelerator": "titan-xp"}
    domain = "assumption: a node has 8 ranks, those of the fabric's innermost domain"
    assert node("dgx-h100-64", set=hostless) == (8, domain)
    assert node("dgx-h100-64", ranks=8, set=hostless) == (1, "assumption: every rank is a node of its own")
    with pytest.raises(InputError, match="node_ranks=65: expected at most the 64 ranks of terarack-64"):
        node("terarack-64", node_ranks=65)


def test_what_was_not_given_is_assumed_with_its_source() -> None:
    found = goodput("terarack-64", mtbf={"host": "400000h"}, damage_slowdown=1.1).estimate
    told = {line for line in found.assumptions if line.startswith(tuple(f"{a.cause.name}: " for a in found.answers))}
    sourced = {
        f"{answer.cause.name}: {answer.cause.source}"
        for answer in found.answers
        if answer.cause.rate is not None and answer.cause.source != "given"
    }
    assert told == sourced and any(line.startswith("software: ") for line in told)
    assert not any(line.startswith(("host: ", "wdm-engine: ")) for line in told)
    assert any(line.startswith("spares: as many as pay, at 1 times the price") for line in found.assumptions)
    assert any(line.startswith("checkpoint: stall ") for line in found.assumptions)
    assert found.machine.node_source in found.assumptions
    given = goodput("terarack-64", spares=1, repair="1h", node_ranks=1, stall="5s", **RING).estimate.assumptions
    assert not any(line.startswith(("spares", "checkpoint:", "a node has", "given")) for line in given)


@pytest.mark.parametrize("cluster", [SWITCH, "terarack-64"])
@pytest.mark.parametrize(("restart", "sooner"), [(300.0, 240.0), (30.0, 0.0)])
def test_changes_gain_what_a_job_that_is_asked_with_them_keeps(cluster: str, restart: float, sooner: float) -> None:
    """With slower steps after damage; the most valuable first, in shares of what is kept and dollars of the machine."""
    rates: dict[str, Any] = {"interruption_time": "40h"}
    if cluster == "terarack-64":
        rates = {**RING, "spares": 2, "remedy": "damaged", "damage_slowdown": 1.5, "repair": "100h"}
    base: dict[str, Any] = {"restart": restart, "stall": 20.0, "save": 100.0, **rates}
    found = goodput(cluster, **base)
    assert (found.estimate.speed < 1) == (cluster == "terarack-64")
    asked: dict[str, dict[str, Any]] = {
        "checkpoints that take half as long": {"stall": 10.0, "save": 50.0},
        "restarts that are a minute shorter": {"restart": sooner},
    }
    if cluster == SWITCH:
        asked["half the interruptions"] = {"interruption_time": "80h"}
    else:
        asked["one more spare node"] = {"spares": 3}
    told = {change.name: change for change in found.changes}
    assert set(told) == {*asked, "half the interruptions"}
    for name, fields in asked.items():
        assert told[name].goodput == pytest.approx(goodput(cluster, **{**base, **fields}).most_goodput), name
    assert all(change.goodput > found.most_goodput for change in found.changes)
    assert [change.gain for change in found.changes] == sorted((each.gain for each in found.changes), reverse=True)
    for change in found.changes:
        assert change.gain == pytest.approx(change.goodput / found.most_goodput - 1)
        dollars = found.estimate.dollars
        assert dollars is not None and change.dollars == pytest.approx(change.gain * dollars)


def test_counts_of_spares_lie_around_the_chosen_one() -> None:
    for chosen, shown in ((0, [0, 1, 2]), (1, [0, 1, 2, 3]), (5, [3, 4, 5, 6, 7])):
        found = goodput(SWITCH, spares=chosen)
        rows = found.spare_counts
        assert [row.spares for row in rows] == shown
        assert [row.spares for row in rows if row.chosen] == [chosen]
        assert [row.goodput for row in rows] == sorted(row.goodput for row in rows)
        asked = [goodput(SWITCH, spares=count).most_goodput for count in shown]
        assert [row.goodput for row in rows] == pytest.approx(asked)
        for fewer, row in pairwise(rows):
            # At that price nodes and spares cost as many times more as there is kept.
            nodes = found.estimate.job.nodes
            kept = row.goodput / fewer.goodput
            assert (nodes + fewer.spares + row.relative_worth) / (nodes + fewer.spares) == pytest.approx(kept)
            price = found.estimate.node_price.value
            assert price is not None and row.worth == pytest.approx(row.relative_worth * price)
        assert rows[0].spares > 0 or (rows[0].worth, rows[0].relative_worth) == (None, 0.0)


def test_slices_are_of_one_rank_up_to_all_in_blocks_of_whole_nodes() -> None:
    found = goodput(SWITCH, slices=[1, 1024], block=8, repair="10h")
    assert [(row.ranks, row.block_ranks) for row in found.slices] == [(1, 8), (1024, 8)]
    job = found.estimate.job
    works = (1 / job.node_rate) / (1 / job.node_rate + 36_000)
    assert [row.host_availability for row in found.slices] == pytest.approx([works] * 2)
    assert found.slices[0].static == pytest.approx(works)
    assert goodput(SWITCH, slices=[8], block=1024, host_availability=0.9).slices[0].static == pytest.approx(0.9**128)
    assert goodput(SWITCH, slices=[8]).slices[0].block_ranks == 8
    for fields in ({"slices": [0]}, {"slices": [1025]}, {"slices": [8], "block": 7}, {"slices": [8], "block": 1025}):
        with pytest.raises(InputError, match="expected 1 to 1024 ranks, and blocks of a node of 8 ranks or more"):
            goodput(SWITCH, **fields)


def test_jobs_have_from_one_node_to_ten_million_ranks() -> None:
    cluster = load_cluster(SWITCH)
    assert estimate_cluster(cluster, ranks=8).job.nodes == 1
    assert estimate_cluster(cluster, ranks=10_000_000).machine.ranks == 10_000_000
    for ranks in (7, 10_000_001):
        with pytest.raises(InputError, match=rf"{ranks} ranks of the job: expected 8, one node, to 10,000,000 ranks"):
            estimate_cluster(cluster, ranks=ranks)


def test_rewiring_takes_the_seconds_given_then_the_fabric_s_then_the_switch_s() -> None:
    plain = goodput("sip-ocs-1024").estimate.recovery
    assert plain.circuits
    field = load_cluster("sip-ocs-1024", set={"fabric.reconfiguration_time": "7s"})
    stated = estimate_cluster(field).recovery.steps["rewiring"]
    assert (stated.seconds, stated.source) == (7.0, "the fabric's reconfiguration_time")
    given = estimate_cluster(field, {"recovery": {"rewiring": "9s"}}).recovery.steps["rewiring"]
    assert (given.seconds, given.source) == (9.0, "given")
    assert not goodput(SWITCH).estimate.recovery.circuits
    with pytest.raises(KeyError):
        plain.parts("hope")


def test_a_restart_is_the_sum_of_its_parts_and_names_those_that_were_not_given() -> None:
    recovery = Recovery.of({"swap": 11.0}, circuits=False)
    for kind in ("node", "rewire", "damaged", "software"):
        assert recovery.seconds(kind) == pytest.approx(
            sum(recovery.steps[name].seconds for name in recovery.parts(kind))
        )
    joined = Recovery.of({"swap": 11.0}, circuits=True)
    links = joined.steps["rewiring"].seconds + joined.steps["link_up"].seconds
    assert joined.seconds("node") == pytest.approx(recovery.seconds("node") + links)
    assert joined.seconds("rewire") - joined.seconds("damaged") == pytest.approx(links)
    told = [line.partition(" ")[0] for line in recovery.assumptions()]
    assert len(told) == len(set(recovery.assumptions())) and "swap" not in told
    assert not any(line.startswith(("rewiring", "link up")) for line in recovery.assumptions())
    assert sum(line.startswith(("rewiring", "link up")) for line in joined.assumptions()) == 2
    whole = Recovery.of({}, circuits=True, whole=5.0)
    assert whole.seconds("node") == whole.seconds("software") == 5.0 and whole.assumptions() == ()
    assert recovery.with_part("swap", 3.0, "x") == recovery
    assert recovery.with_part("loading", 3.0, "x").steps["loading"].seconds == 3.0


def test_damage_slows_steps_by_the_share_that_waits_for_communication() -> None:
    def damaged(**options: Any) -> Response:
        found = goodput("terarack-64", **RING, **options).estimate.answers
        (answer,) = [answer for answer in found if answer.alternatives]
        return answer.alternatives[2][0]

    whole, part = damaged(damage_slowdown=1.5), damaged(damage_slowdown=1.5, communication="40 %")
    assert (whole.slowdown, part.slowdown) == pytest.approx((1.5, 1.2))
    assert (whole.remedy, whole.restarts, whole.possible) == ("damaged", 2, True)
    assert whole.why == "collectives take 1.5 times as long, as given; assumption: all of a step is communication"
    assert part.why == "collectives take 1.5 times as long, as given; 40% of a step"
    assert Response(remedy="restart").speed(0.1, 50.0) == 1.0
    # As many failures at once as a Poisson variable of mean 3 counts, each of which doubles a step.
    mean = sum(math.exp(-3) * 3**count / math.factorial(count) / 2**count for count in range(60))
    assert replace(whole, slowdown=2.0).speed(0.1, 30.0) == pytest.approx(mean)


def test_damage_is_priced_on_as_many_ranks_as_there_are_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    small, ring = (load_fabric("wdm-ring", ranks, set={"wavelengths": 4}) for ranks in (4, 8))
    slowdown, why = damage_slowdown(small, "engine", 2.0**20)
    assert slowdown is not None and slowdown > 1
    assert why == f"{slowdown:.3g} times the time of an all-reduce of 1 MiB on 4 ranks, around transceiver:0:0"
    # Sixteen channels go dark with a light source.
    many = load_fabric("wdm-ring", 4, set={"wavelengths": 20})
    dark, told = damage_slowdown(many, "light-source", 2.0**20)
    assert told.endswith("on 4 ranks, around transceiver:0:0 to transceiver:0:15")
    assert dark is not None and dark > 1
    assert damage_slowdown(small, "light-source", 2.0**20) == (
        None,
        "failures: the failures leave node 0 nothing to receive on",
    )
    monkeypatch.setattr(causes, "MOST_RANKS", 4)
    assert damage_slowdown(ring, "engine", 2.0**20) == (slowdown, why)
    assert damage_slowdown(ring, "board", 1.0) == (
        None,
        "lightloom collective --without has no failure for a board part",
    )
    assert damage_slowdown(ring, None, 1.0)[1].endswith("has no failure for a network part")
    served = "lightloom collective --without does not serve a fabric of kind "
    assert damage_slowdown(load_cluster(SWITCH).fabric, "nic", 1.0)[1].startswith(served)


def test_options_that_are_missing_say_why() -> None:
    answers = goodput(SWITCH).estimate.answers
    said = {response.remedy: response.why for answer in answers for response, _ in answer.alternatives}
    assert "lightloom collective --without does not serve" in said["damaged"]
    assert "no circuits" in said["rewire"]
    (circuits,) = [a for a in goodput("sip-ocs-1024").estimate.answers if a.cause.name == "transceiver-400g"]
    assert {response.remedy: response.possible for response, _ in circuits.alternatives} == {
        "restart": True,
        "rewire": False,
        "damaged": False,
    }


@pytest.mark.parametrize(("ranks", "hours", "within"), [(16384, 1.8, 0.01), (131072, 0.23, 0.01), (1024, 28.8, 0.1)])
def test_mean_time_to_failure_by_metas_own_rate(ranks: int, hours: float, within: float) -> None:
    result = goodput(SWITCH, ranks=ranks, rates="rsc-1")
    assert result.estimate.job.mtbf / 3600 == pytest.approx(hours, abs=within)


def test_logs() -> None:
    assert names() == ["llama-3", "rsc-1", "rsc-2"]
    log = load_log("llama-3")
    assert log.total == 419
    assert [sum(rows.values()) for rows in log.interruptions.values()] == [268, 46, 42, 63]


def test_tpu_v4_slices_from_its_fabric() -> None:
    result = goodput("tpu-v4-1024", set={"ranks": 4096}, slices=[1024, 2048, 3072], host_availability=0.995)
    assert [row.block_ranks for row in result.slices] == [64, 64, 64]
    assert [round(100 * row.static, 1) for row in result.slices] == [27.7, 7.7, 1.6]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mtbf": {"gpu": "1h"}}, "'gpu': expected one of accelerator"),
        ({"mtbf": {"host": "-1h"}}, "must be finite and not negative"),
        ({"mtbf": {"nic-400g": "1h", "network": "1h"}}, "and of a part of it"),
        ({"mtbf": {"network": "1h", "nic-400g": "1h"}}, "and of the group that holds it"),
        ({"rates": "rsc-3"}, "did you mean 'rsc-"),
        ({"recovery": {"boot": "1s"}}, "unknown part of a restart 'boot'"),
        ({"recovery": {"swap": "1s"}, "restart": "1s"}, "contradict each other"),
        ({"interruption_time": "3h", "spares": 2}, "contradict each other"),
        ({"spares": 2, "spare_price": 10}, "contradict each other"),
        ({"interval": "10s", "stall": "1s", "save": "100s"}, "at least 99 s"),
        ({"save": "100s"}, "save without stall"),
        ({"remedy": "rewire"}, "no circuits to rewire"),
        ({"months": 0}, "more than 0"),
        ({"ranks": 3}, "one node"),
        ({"slices": [4096]}, "slices of 4096 ranks"),
        ({"node_price": -1}, "must be finite and not negative"),
        ({"colour": "red"}, "unknown field 'colour'"),
    ],
)
def test_bad_input_is_one_line(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        goodput(SWITCH, **fields)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
