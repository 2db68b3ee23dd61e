"""Compressed gradients in plans: free where coding is free, monotone in the ratio, losing where coding is slow."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.clusters.base import Cluster
from lightloom.clusters.load import load_cluster
from lightloom.collectives.registry import find
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.planner.pricing.compression import (
    CodecEngine,
    Compression,
    engine_of,
    gradient_bytes,
    model_key,
    stated,
)
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.planner.search.explain import explain
from lightloom.planner.search.plans import Plan, PlanSearch
from lightloom.planner.search.request import DATA_PARALLEL, Pins, SearchRequest
from lightloom.planner.search.search import search as search_plans
from lightloom.planner.search.verdict import verdict
from lightloom.workloads.graph import ComputeGraph
from tests.planner.test_search import graph

NO_PACKETS = {"fabric.packet_payload": None, "fabric.packet_header": 0}
PLACEMENTS = ("host", "nic")


def compression(ratio: float, placement: str, rate: float = 1e30) -> Compression:
    engine = CodecEngine(name="test", placement=placement, encode=rate, decode=rate, source="made up")  # type: ignore[arg-type]
    return Compression(codec="inceptionn:2^-10", ratio=ratio, ratio_source="made up", engine=engine)


def cluster(**settings: object) -> Cluster:
    return load_cluster("inceptionn-4", {key.replace("__", "."): value for key, value in settings.items()})


def search(model: ComputeGraph, on: Cluster, codec: Compression, **options: Any) -> PlanSearch:
    """Data parallelism alone, 32 samples a rank, with each algorithm by itself."""
    pins = Pins(recomputation="none")
    request = {"strategies": DATA_PARALLEL, "global_batches": (32 * on.ranks,), "compressions": (codec,), **options}
    return search_plans(model, on, SearchRequest(pins=pins, **request))


def pairs(found: PlanSearch) -> list[tuple[Plan, Plan]]:
    return [(plan, plan.uncompressed) for plan in (*found.ranking, *found.reference) if plan.uncompressed is not None]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("name", ["inceptionn-4", "terarack-64"])
def test_a_ratio_of_one_at_no_cost_changes_nothing(name: str, placement: str) -> None:
    on = load_cluster(
        name,
        {"ranks": 8, "training.sharded_gradient_bytes": 4} | (NO_PACKETS if name == "inceptionn-4" else {}),
    )
    found = search(graph(), on, compression(1.0, placement))
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
def test_a_step_never_gets_longer_as_the_ratio_grows(ratios: list[float], placement: str, rate: float) -> None:
    on = cluster(fabric__packet_time="0.5us")
    times = [
        {
            (plan.strategy, plan.algorithm): plan.step_time
            for plan, _ in pairs(search(graph(), on, compression(ratio, placement, rate), algorithms=("ring",)))
        }
        for ratio in ratios
    ]
    for slower, faster in pairwise(times):
        assert all(faster[key] <= slower[key] * (1 + 1e-12) for key in slower)


@given(st.floats(1, 40), st.sampled_from(PLACEMENTS))
def test_free_coding_divides_the_bandwidth_term_by_the_ratio(ratio: float, placement: str) -> None:
    on = load_cluster("inceptionn-4", NO_PACKETS | {"fabric.hop_latency": 0})
    prices = SchedulePrices(find("ring"), on.fabric, "physical")
    smaller = prices.compressed(compression(ratio, placement), gradient_bytes(on.training))
    (plain, bound), (coded, least) = prices.cost("all-reduce", 4e6), smaller.cost("all-reduce", 4e6)
    assert coded.time == pytest.approx(plain.time / ratio) and least.time == pytest.approx(bound.time / ratio)


def test_behind_the_port_every_packet_still_pays() -> None:
    on = cluster(fabric__packet_time="0.5us", fabric__hop_latency=0)
    prices = SchedulePrices(find("ring"), on.fabric, "physical")
    times = {
        placement: prices.compressed(compression(1e9, placement), gradient_bytes(on.training))
        .cost("all-reduce", 4e6)[0]
        .time
        for placement in PLACEMENTS
    }
    packets = 2 * 3 / 4 * 4e6 / 1460
    assert times["nic"] == pytest.approx(packets * (78 / 1.25e9 + 0.5e-6), rel=1e-3)
    assert times["host"] < times["nic"] / 1000


def test_weights_are_gathered_as_they_are_and_narrow_gradients_are_widened_first() -> None:
    on = cluster(training__sharded_gradient_bytes=2, training__sharded_parameter_bytes=2)
    prices = SchedulePrices(find("ring"), on.fabric, "physical")
    smaller = prices.compressed(compression(8.0, "host"), gradient_bytes(on.training))
    assert smaller.cost("all-gather", 1e6) == prices.cost("all-gather", 1e6)
    assert smaller.sent_nbytes("reduce-scatter", 1e6) == 1e6 * 2 / 8
    assert smaller.sent_nbytes("all-reduce", 1e6) == 1e6 / 8


def test_energy_of_transmission_shrinks_with_the_bytes() -> None:
    found = search(
        graph(),
        cluster(fabric__energy_per_bit="5 pJ/bit", fabric__packet_payload=None, fabric__packet_header=0),
        compression(8.0, "host"),
        strategies=("ddp",),
        algorithms=("ring",),
    )
    (coded, plain), *_ = [pair for pair in pairs(found) if pair[0].result is not None]
    sent, whole = coded.energy.transmission_j, plain.energy.transmission_j
    assert sent is not None and whole is not None and sent == pytest.approx(whole / 8)


def test_compression_wins_on_a_slow_network_and_loses_on_a_fast_one_and_says_why() -> None:
    codec = compression(12.0, "host", 10e9)
    slow = search(graph(), cluster(), codec, strategies=("ddp",))
    assert slow.winner.compression == codec and "saves" in str(verdict(slow.winner))
    assert "inceptionn:2^-10, 12 × smaller" in explain(slow) and "12 times smaller" in explain(slow)
    fast = search(graph(), cluster(fabric__bandwidth="400Gbps"), codec, strategies=("ddp",))
    assert fast.winner.compression is None
    effects = {plan.algorithm: verdict(plan) for plan in fast.ranking if plan.uncompressed}
    assert {effect.outcome for effect in effects.values() if effect} == {"loses"}
    assert "coding" in str(effects["ring"]) and "less sending" in str(effects["ring"])
    assert "loses" in explain(fast)
    times = [plan.step_time for plan in fast.ranking]
    assert times == sorted(times)


def test_an_engine_slower_than_the_link_loses() -> None:
    codec = compression(12.0, "nic", 1e9)
    found = search(graph(), cluster(fabric__bandwidth="100Gbps"), codec, strategies=("ddp",), algorithms=("ring",))
    (coded, _), *_ = pairs(found)
    assert found.winner.compression is None and str(verdict(coded)).startswith("loses")
    assert "the link waits for the engine" in str(verdict(coded))


def test_light_that_is_added_up_cannot_be_compressed() -> None:
    found = search(graph(), load_cluster("optinc-4"), compression(8.0, "nic"), strategies=("ddp",))
    assert all(each.compression is None for each in found.ranking)
    [refused] = [each for each in found.refused if each.compression]
    assert refused.algorithm == "in-network" and "cannot add up compressed streams" in refused.why
    assert "does not apply" in explain(found)
    # The electrical reference carries streams like any other.
    assert any(each.compression for each in found.reference)


def test_engines_by_name_and_by_file(tmp_path: Path) -> None:
    nic = engine_of("nic", "inceptionn:2^-10", ratio=12.0)
    assert nic.placement == "nic" and nic.encode == 3.2e9
    assert engine_of("nic", "inceptionn:2^-1", ratio=16 / 17).encode == pytest.approx(3.2e9 * 16 / 17)
    file = tmp_path / "gpu.yaml"
    file.write_text("placement: host\nencode: 100 GB/s\ndecode: 120 GB/s\nsource: made up\n")
    assert engine_of(str(file), "truncate:16").encode == 100e9
    file.write_text("placement: cloud\nencode: 1 GB/s\ndecode: 1 GB/s\nsource: made up\n")
    with pytest.raises(ConfigError, match="placement"):
        engine_of(str(file), "truncate:16")
    with pytest.raises(ConfigError, match="inceptionn codecs only"):
        engine_of("nic", "truncate:16")
    with pytest.raises(UnknownNameError, match="did you mean 'nic'"):
        engine_of("nick", "inceptionn:2^-10")


def test_a_stated_ratio_says_so() -> None:
    assert stated("inceptionn", 8.0, "nic").ratio_source == "given, not measured"
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="positive number"):
            stated("inceptionn", bad, "nic")
    with pytest.raises(ConfigError, match="no measured rates"):
        stated("inceptionn", 8.0, "local")


def test_the_key_of_a_users_model_changes_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("one")
    first = model_key(f"{file}:build")
    assert first != model_key(f"{file}:other") and model_key("hdc") == "hdc"
    file.write_text("two")
    assert model_key(f"{file}:build") != first
