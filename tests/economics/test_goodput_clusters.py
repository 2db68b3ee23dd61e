"""Goodput of clusters: causes from the bill, responses and spares that prices decide, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lightloom.app.api.goodput import Goodput, GoodputSettings, bill, format_duration, goodput
from lightloom.core.errors import InputError
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.economics.causes import load_log, names
from lightloom.planning.economics.estimate import spare_counts
from lightloom.planning.economics.job import World

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
