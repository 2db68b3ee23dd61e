"""Exchanges of gradients in plans: free where coding is free, monotone in the ratio, losing where coding is slow."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.app.api.planning import ExchangeChoice
from lightloom.collectives.registry import find
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.exchange.compression.registry import find as find_codec
from lightloom.exchange.method import CodedSums, Gradient
from lightloom.exchange.methods import find as find_method
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.graph import ComputeGraph
from lightloom.planning.gradients import (
    PricedExchange,
    check_engine_name,
    engine_from_file,
    model_key,
    nic_engine,
    sized,
)
from lightloom.planning.pricing.group_prices import GroupPrices, gradient_element_bytes
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.search.document import explain, plan_row, verdict
from lightloom.planning.search.plans import Plan, PlanSearch
from lightloom.planning.search.request import (
    DATA_PARALLEL,
    STRATEGIES,
    Pins,
    SearchRequest,
)
from lightloom.planning.search.search import search as search_plans
from tests.planner.gradients.exchanges import Placement, by_name, coded, engine
from tests.planner.jobs import transformer
from tests.planner.test_search import graph

NO_PACKETS = {"fabric.packet_payload": None, "fabric.packet_header": 0}
PLACEMENTS: tuple[Placement, ...] = ("host", "nic")


def cluster(**settings: object) -> Cluster:
    return load_cluster("inceptionn-4", set={key.replace("__", "."): value for key, value in settings.items()})


def search(model: ComputeGraph, on: Cluster, codec: PricedExchange, **options: Any) -> PlanSearch:
    """Data parallelism alone, 32 samples a rank, with each algorithm by itself."""
    pins = Pins(recomputation="none")
    request = {"strategies": DATA_PARALLEL, "global_batches": (32 * on.ranks,), "exchanges": (codec,), **options}
    return search_plans(model, on, SearchRequest(pins=pins, **request))


def pairs(found: PlanSearch) -> list[tuple[Plan, Plan]]:
    return [(plan, plan.uncompressed) for plan in (*found.ranking, *found.reference) if plan.uncompressed is not None]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("name", ["inceptionn-4", pytest.param("terarack-64", marks=pytest.mark.slow)])
def test_a_ratio_of_one_at_no_cost_changes_nothing(name: str, placement: Placement) -> None:
    packets = NO_PACKETS if name == "inceptionn-4" else {}
    on = load_cluster(name, 8, set={"training.sharded_gradient_bytes": 4, **packets})
    found = search(graph(), on, coded(1.0, placement))
    assert len(pairs(found)) >= 8
    for with_codec, without in pairs(found):
        assert with_codec.step_time == pytest.approx(without.step_time, rel=1e-14)
        assert with_codec.breakdown == pytest.approx(without.breakdown, rel=1e-9, abs=1e-15)
        assert "changes nothing" in str(verdict(with_codec))


@given(
    st.lists(st.floats(1, 40), min_size=2, max_size=4).map(sorted),
    st.sampled_from(PLACEMENTS),
    st.sampled_from([1e9, 3.2e9, 1e30]),
)
@settings(max_examples=15)
def test_a_step_never_gets_longer_as_the_ratio_grows(ratios: list[float], placement: Placement, rate: float) -> None:
    on = cluster(fabric__packet_time="0.5us")
    times = [
        {
            (plan.strategy, plan.algorithm): plan.step_time
            for plan, _ in pairs(search(graph(), on, coded(ratio, placement, rate), algorithms=("ring",)))
        }
        for ratio in ratios
    ]
    for slower, faster in pairwise(times):
        assert all(faster[key] <= slower[key] * (1 + 1e-12) for key in slower)


@given(st.floats(1, 40), st.sampled_from(PLACEMENTS))
def test_free_coding_divides_the_bandwidth_term_by_the_ratio(ratio: float, placement: Placement) -> None:
    on = load_cluster("inceptionn-4", set=NO_PACKETS | {"fabric.hop_latency": 0})
    prices = SchedulePrices(find("ring"), on.fabric, "physical")
    smaller = prices.coded(coded(ratio, placement), gradient_element_bytes(on.training))
    plain, coding = prices("all-reduce", 4e6), smaller("all-reduce", 4e6)
    assert coding.cost.time == pytest.approx(plain.cost.time / ratio)
    assert coding.bound.time == pytest.approx(plain.bound.time / ratio)


def test_behind_the_port_every_packet_still_pays() -> None:
    on = cluster(fabric__packet_time="0.5us", fabric__hop_latency=0)
    prices = SchedulePrices(find("ring"), on.fabric, "physical")
    times = {
        placement: prices.coded(coded(1e9, placement), gradient_element_bytes(on.training))("all-reduce", 4e6).cost.time
        for placement in PLACEMENTS
    }
    packets = 2 * 3 / 4 * 4e6 / 1460
    assert times["nic"] == pytest.approx(packets * (78 / 1.25e9 + 0.5e-6), rel=1e-3)
    assert times["host"] < times["nic"] / 1000


def test_weights_are_gathered_as_they_are_and_narrow_gradients_are_widened_first() -> None:
    on = cluster(training__sharded_gradient_bytes=2, training__sharded_parameter_bytes=2)
    prices = SchedulePrices(find("ring"), on.fabric, "physical")
    smaller = prices.coded(coded(8.0, "host"), gradient_element_bytes(on.training))
    assert smaller("all-gather", 1e6) == prices("all-gather", 1e6)
    assert smaller.sent_nbytes("reduce-scatter", 1e6) == 1e6 * 2 / 8
    assert smaller.sent_nbytes("all-reduce", 1e6) == 1e6 / 8


def test_energy_of_transmission_shrinks_with_the_bytes() -> None:
    found = search(
        graph(),
        cluster(fabric__energy_per_bit="5 pJ/bit", fabric__packet_payload=None, fabric__packet_header=0),
        coded(8.0, "host"),
        strategies=("ddp",),
        algorithms=("ring",),
    )
    (exchanged, plain), *_ = [pair for pair in pairs(found) if pair[0].result is not None]
    sent, whole = exchanged.energy.transmission.value, plain.energy.transmission.value
    assert sent is not None and whole is not None and sent == pytest.approx(whole / 8)


def test_compression_wins_on_a_slow_network_and_loses_on_a_fast_one_and_says_why() -> None:
    codec = coded(12.0, "host", 10e9)
    slow = search(graph(), cluster(), codec, strategies=("ddp",))
    assert slow.winner.gradient_exchange == codec and "saves" in str(verdict(slow.winner))
    assert "which sends 12 times fewer bytes than float32" in explain(slow) and "accuracy: not measured" in explain(
        slow
    )
    fast = search(graph(), cluster(fabric__bandwidth="400Gbps"), codec, strategies=("ddp",))
    assert fast.winner.gradient_exchange is None
    effects = {plan.algorithm: verdict(plan) for plan in fast.ranking if plan.uncompressed}
    assert {effect.outcome for effect in effects.values() if effect} == {"loses"}
    assert "coding" in str(effects["ring"]) and "less sending" in str(effects["ring"])
    assert "loses" in explain(fast)
    times = [plan.step_time for plan in fast.ranking]
    assert times == sorted(times)


def test_an_engine_slower_than_the_link_loses() -> None:
    codec = coded(12.0, "nic", 1e9)
    found = search(graph(), cluster(fabric__bandwidth="100Gbps"), codec, strategies=("ddp",), algorithms=("ring",))
    (exchanged, _), *_ = pairs(found)
    assert found.winner.gradient_exchange is None and str(verdict(exchanged)).startswith("loses")
    assert "the link waits for the engine" in str(verdict(exchanged))


def test_light_that_is_added_up_cannot_be_compressed() -> None:
    found = search(graph(), load_cluster("optinc-4"), coded(8.0, "nic"), strategies=("ddp",))
    assert all(each.gradient_exchange is None for each in found.ranking)
    [refused] = [each for each in found.refused if each.compression]
    assert refused.algorithm == "in-network" and "cannot add up compressed streams" in refused.why
    assert "no method of exchanging gradients applies" in explain(found)
    # The electrical reference carries streams like any other.
    assert any(each.gradient_exchange for each in found.reference)


def test_engines_by_name_and_by_file(tmp_path: Path) -> None:
    nic = nic_engine("inceptionn:2^-10", None, 12.0)
    assert nic.placement == "nic" and nic.encode == 3.2e9
    assert nic_engine("inceptionn:2^-1", None, 16 / 17).encode == pytest.approx(3.2e9 * 16 / 17)
    with pytest.raises(ConfigError, match="inceptionn only"):
        nic_engine(None, None, 1.0)
    file = tmp_path / "gpu.yaml"
    file.write_text("placement: host\nencode: 100 GB/s\ndecode: 120 GB/s\nencode_message: 5us\nsource: made up\n")
    assert engine_from_file(file).encode == 100e9 and engine_from_file(file).encode_message == pytest.approx(5e-6)
    file.write_text("placement: cloud\nencode: 1 GB/s\ndecode: 1 GB/s\nsource: made up\n")
    with pytest.raises(ConfigError, match="placement"):
        engine_from_file(file)
    with pytest.raises(UnknownNameError, match="did you mean 'nic'"):
        check_engine_name("nick")


def test_rates_that_nobody_measured_are_called_an_assumption() -> None:
    on = load_cluster("terarack-64", set={"ranks": 4})
    assumed = replace(by_name("int8"), engine=None).on(on.accelerator)
    assert "assumption" in assumed.coder.source and assumed.coder.encode_message > 0
    found = search(graph(), on, replace(by_name("int8"), engine=None), strategies=("ddp",), algorithms=("ring",))
    rows = [plan_row(plan, found) for plan in found.ranking if plan.gradient_exchange]
    assert rows and all("assumption" in row["compression"]["engine_source"] for row in rows)


def test_a_stated_ratio_says_so_and_cannot_exceed_what_the_codec_reaches() -> None:
    inceptionn = find_method("inceptionn")
    exchange = sized(inceptionn, "m", graph(), None, 8.0, "nic")
    assert "given, not measured" in exchange.sizes
    assert exchange.ratio(4) == pytest.approx(8.0, rel=0.02)
    for ratio in ("0", "-1", "nan", "inf", "many"):
        with pytest.raises(ConfigError, match="positive number"):
            ExchangeChoice(("inceptionn",), None, ratio, "nic").check()
    with pytest.raises(ConfigError, match=r"expected at most 16.* makes of zeros"):
        ExchangeChoice(("inceptionn",), None, 50, "nic").check()
    ExchangeChoice(("inceptionn",), None, 15.9, "nic").check()


@pytest.mark.parametrize("name", ["inceptionn:2^-10", "truncate:16", "truncate:22", "block-fixed-point:8"])
def test_no_codec_exceeds_its_largest_ratio(name: str) -> None:
    codec, zeros = find_codec(name), np.zeros(1 << 17, np.float32)
    largest = codec.largest_ratio
    assert largest is not None
    assert 0.99 * largest <= zeros.nbytes / len(codec.encode(zeros)) <= largest


def test_the_key_of_a_users_model_changes_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("one")
    first = model_key(f"{file}:build")
    assert first != model_key(f"{file}:other") and model_key("hdc") == "hdc"
    file.write_text("two")
    assert model_key(f"{file}:build") != first


METHODS = (
    "int8",
    "int4:block=64",
    "bf16",
    "topk:share=0.01",
    "powersgd:rank=1",
    "localsgd:every=20",
    "diloco:every=10",
)


@pytest.mark.parametrize("method", METHODS)
def test_a_step_pays_the_phases_of_a_method_its_coding_and_no_more(method: str) -> None:
    on = cluster(fabric__hop_latency=0, fabric__packet_payload=None, fabric__packet_header=0)
    exchange = by_name(method, rate=5e9, message=1e-5)
    pricing = GroupPrices(on.fabric, on.training, exchanges=[exchange], choices=("ring", "one-stage"))
    cost = pricing.price("auto", 4, 1)("all-reduce", 4.0 * exchange.gradient.values).cost
    phases = exchange.method.phases(exchange.gradient, 4)
    plain = pricing.price("auto", 4, 0)
    sending = sum(plain(phase.kind, phase.nbytes).cost.time for phase in phases)
    coding = sum(exchange.coding("all-reduce", exchange.gradient.values, 4))
    assert cost.time * exchange.every == pytest.approx(sending + coding)
    sent = exchange.method.sent_bytes(exchange.gradient, 4)
    assert sending == pytest.approx(sent / 1.25e9), "10 Gbit/s, no byte twice"


def test_messages_pay_for_calls_of_the_codec() -> None:
    """On a ring of 64 in which a call takes 12 us, encodings and decodings of 126 hops take more than 2 ms."""
    on = load_cluster("inceptionn-4", set={"ranks": 64})
    free, paid = coded(8.0), replace(coded(8.0), engine=engine(message=12e-6))
    seconds = [
        SchedulePrices(find("ring"), on.fabric, "physical")
        .coded(exchange, gradient_element_bytes(on.training))("all-reduce", 4e6)
        .cost.time
        for exchange in (free, paid)
    ]
    assert seconds[1] - seconds[0] == pytest.approx((64 + 127) * 12e-6, rel=0.01)


@given(st.lists(st.floats(2.0, 34.0), min_size=7, max_size=7).map(sorted), st.integers(2, 64))
@settings(max_examples=20)
def test_a_ring_is_charged_for_the_sums_that_it_carries(bits: list[float], ranks: int) -> None:
    sums = CodedSums("inceptionn:2^-10", tuple((2**k, size) for k, size in enumerate(bits)))
    gradient = Gradient(((1 << 20,),), (sums,))
    exchange = PricedExchange(method=find_method("inceptionn"), gradient=gradient, sizes="made up", engine=engine())
    around = exchange.along_schedule("all-reduce", gradient.values, ranks, ring=True)
    assert 2 * (ranks - 1) / ranks * around == pytest.approx(exchange.method.sent_bytes(gradient, ranks))
    assert around <= exchange.along_schedule("all-reduce", gradient.values, ranks, ring=False) * (1 + 1e-12)


@pytest.mark.long
@pytest.mark.parametrize("fabric", ["inceptionn-4", pytest.param("terarack-64", marks=pytest.mark.slow)])
def test_the_search_with_exchanges_is_exact(fabric: str) -> None:
    on = load_cluster(fabric, set={"ranks": 4, "training.unit_parameters": 300_000})
    exchanges = [by_name("int4", rate=5e9), by_name("diloco:every=20", rate=5e9), coded(4.0, rate=5e9), by_name("topk")]
    options: dict[str, Any] = {
        "global_batches": (8,),
        "exchanges": exchanges,
        "strategies": STRATEGIES,
        "pins": Pins(recomputation="none"),
    }
    pruned, whole = (
        search_plans(transformer(2, 128), on, SearchRequest(prune=prune, **options)) for prune in (True, False)
    )
    assert pruned.winner.choice == whole.winner.choice and pruned.winner.step_time == whole.winner.step_time
    assert all(each.bound <= each.step_time * (1 + 1e-12) for each in whole.ranking if each is not whole.winner)
    tried = {each.gradient_exchange.name for each in whole.ranking if each.gradient_exchange}
    assert tried == {exchange.name for exchange in exchanges}


def test_periodic_methods_wait_for_the_backward_pass_and_share_their_cost() -> None:
    on = cluster()
    steps = {
        every: search(graph(), on, by_name(f"localsgd:every={every}"), strategies=("ddp",), algorithms=("ring",))
        for every in (1, 10, 1000)
    }
    local = {every: next(plan for plan in found.ranking if plan.gradient_exchange) for every, found in steps.items()}
    exposed = {every: plan.breakdown["exposed_communication_s"] for every, plan in local.items()}
    assert exposed[1] == pytest.approx(10 * exposed[10]) and exposed[1] == pytest.approx(1000 * exposed[1000])
    assert local[1].uncompressed is not None
    assert local[1].step_time >= local[1].uncompressed.step_time, "nothing of it is hidden"
    document = plan_row(local[10], steps[10])
    assert document["exchange"]["every"] == 10 and not document["exchange"]["synchronous"]
    assert document["exchange"]["accuracy"] == "not measured"


def test_state_counts_as_memory() -> None:
    on = cluster()
    parameters = graph().parameters
    memory = {}
    for name in ("int8", "int4", "diloco:inner=int4"):
        found = search(graph(), on, by_name(name), strategies=("ddp",), algorithms=("ring",))
        coded_plan = next(plan for plan in found.ranking if plan.gradient_exchange)
        assert coded_plan.uncompressed is not None
        memory[name] = coded_plan.memory - coded_plan.uncompressed.memory
    assert memory == {"int8": 0, "int4": 4 * parameters, "diloco:inner=int4": 12 * parameters}


def test_methods_that_a_plan_cannot_have_are_refused_in_a_line() -> None:
    found = search(graph(), cluster(), by_name("topk"), algorithms=("ring",))
    whys = {row.why for row in found.refused if row.compression}
    assert "topk averages whole gradients, which sharded replicas do not have" in whys
    found = search(graph(), cluster(), by_name("optical"), strategies=("ddp",), algorithms=("ring",))
    assert {row.why for row in found.refused} == {"optical needs a fabric that adds up light in the network"}
    found = search(graph(), cluster(), by_name("two-level:node=3"), strategies=("ddp",), algorithms=("ring",))
    assert any("multiple of node=3" in row.why for row in found.refused)
