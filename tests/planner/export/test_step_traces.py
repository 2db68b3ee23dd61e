"""A step as traces: they hold what the plan computes, exchanges and sends, and take its time when they are played."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Kind
from lightloom.collectives.files.chakra import trace_path
from lightloom.collectives.files.chakra_nodes import (
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    Node,
    read_trace,
)
from lightloom.collectives.registry import find
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.fabrics.load import load_fabric
from lightloom.planning.export.chakra_folder import (
    NANOSECONDS,
    communicator_groups,
    rank_nodes,
    replayed_seconds,
    write_step,
)
from lightloom.planning.export.chakra_operations import CollectiveUse
from lightloom.planning.export.chakra_step import Line, StepTraces, carried, network_of, step_traces
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.group_prices import gradient_element_bytes
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.library_prices import LibraryPrices
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.pricing.strategy_step import StrategyStep, simulate
from tests.planner.gradients.exchanges import coded
from tests.planner.jobs import cluster, mixture, space, transformer, verified_job

RANKS = 8
PLAIN = Strategy(
    dp=8,
    tp=1,
    pp=1,
    micro_batches=1,
    global_batch=16,
    sharding="none",
    recomputation="none",
    algorithm="ring",
    exchange=0,
)
STAGES = PLAIN._replace(dp=2, pp=4, micro_batches=4)
TENSOR = PLAIN._replace(dp=2, tp=4)
STRATEGIES = {
    "ddp": PLAIN,
    "fsdp": PLAIN._replace(sharding="zero-3"),
    "tensor": TENSOR,
    "sequence": TENSOR._replace(sharding="zero-3", sequence_parallel=True),
    "stages": STAGES,
    "chunks": STAGES._replace(tp=2, pp=2, micro_batches=2, sharding="zero-1", virtual_stages=2),
    "uneven": STAGES._replace(sharding="zero-2", micro_batches=3, micro_batch=3),
    "experts": PLAIN._replace(ep=4),
}


@cache
def taken_apart(name: str) -> tuple[Job, StrategyStep, StepTraces]:
    """A strategy simulated on eight ranks of a ring, and its step taken apart."""
    model = mixture(8) if name == "experts" else transformer(8)
    job = verified_job(model, cluster(RANKS))
    step = simulate(job, STRATEGIES[name])
    return job, step, step_traces(job, STRATEGIES[name], step)


def traces_of(name: str) -> list[list[Node]]:
    """The nodes of every rank."""
    traces = taken_apart(name)[2]
    return list(rank_nodes(traces, communicator_groups(traces)))


@pytest.mark.parametrize("name", ["ddp", "fsdp", "stages", "uneven"])
def test_played_with_the_plans_overlaps_the_traces_take_its_time(name: str) -> None:
    _, step, traces = taken_apart(name)
    assert replayed_seconds(traces, one_at_a_time=False) == pytest.approx(step.step_time, rel=1e-9)
    assert replayed_seconds(traces) >= step.step_time * (1 - 1e-9)


@pytest.mark.parametrize("name", STRATEGIES)
def test_computing_and_collectives_add_up_to_the_plans(name: str) -> None:
    _, step, traces = taken_apart(name)
    for stage, operations in enumerate(traces.stages):
        computed = sum(operation.seconds for operation in operations if operation.verb == "compute")
        if step.spent is None:
            assert computed == pytest.approx(step.breakdown["compute_s"], rel=1e-9)
            continue
        assert computed == pytest.approx(float(step.spent["compute_s"][stage] + step.spent["update_s"][stage]))
        seconds: defaultdict[str, float] = defaultdict(float)
        for operation in operations:
            if operation.use is not None:
                seconds[operation.use.axis] += traces.carriers[operation.use].seconds
        within = float(step.spent["tensor_and_expert_exchange_s"][stage])
        assert step.stages is not None
        gathered = seconds["tensor"] + seconds["expert"] - within
        # Sends may end in gathers, and gradients of tokens are added up after the last pass.
        assert gathered >= -1e-9 * within
        if STRATEGIES[name].pp == 1 and not STRATEGIES[name].sequence_parallel:
            assert gathered == pytest.approx(0.0, abs=1e-9 * within)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_receive_has_its_send_and_every_collective_its_group(name: str) -> None:
    traces = taken_apart(name)[2]
    ranks = traces_of(name)
    sends, receives = Counter[object](), Counter[object]()
    for rank, nodes in enumerate(ranks):
        assert len({node.id for node in nodes}) == len(nodes)
        for node in nodes:
            key = tuple(node.attributes.get(part) for part in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
            if node.type == SEND:
                sends[key] += 1
                assert key[0] == rank
            elif node.type == RECEIVE:
                receives[key] += 1
                assert key[1] == rank
    assert sends == receives
    assert not sends or max(sends.values()) == 1
    groups = communicator_groups(traces)
    order: dict[str, list[list[int]]] = {}
    for rank, nodes in enumerate(ranks):
        for node in (node for node in nodes if node.type == COLLECTIVE):
            number = str(node.attributes.get("pg_name", "0"))
            assert number == "0" or rank in groups.members[int(number)]
            order.setdefault(number, [[] for _ in ranks])[rank].append(int(str(node.attributes["comm_size"])))
    for group, sizes in order.items():
        members = range(RANKS) if group == "0" else groups.members[int(group)]
        assert len({tuple(sizes[rank]) for rank in members}) == 1


def test_bytes_over_all_ranks_are_the_plans() -> None:
    _, step, _ = taken_apart("ddp")
    assert step.result is not None
    planned = RANKS * sum(exchange.nbytes for exchange in step.result.plan.exchanges)
    written = [node.attributes["comm_size"] for nodes in traces_of("ddp") for node in nodes if node.type == COLLECTIVE]
    assert sum(map(int, map(str, written))) == planned
    strategy, (_, _, traces) = STRATEGIES["stages"], taken_apart("stages")
    messages = sum(operation.verb == "send" for stage in traces.stages for operation in stage)
    assert messages == 2 * (strategy.pp - 1) * strategy.micro_batches


def test_the_folder_is_read_back(tmp_path: Path) -> None:
    job, step, traces = taken_apart("chunks")
    folder = tmp_path / "out"
    document = write_step(folder, traces, {"label": "two stages", "step_time_s": step.step_time})
    assert json.loads((folder / "lightloom.json").read_text()) == document
    network = yaml.safe_load((folder / "network.yml").read_text())
    assert [int(size) for size in network["npus_count"]] in ([8], [2, 2, 2])
    groups = json.loads((folder / "groups.json").read_text())
    schedules = yaml.safe_load((folder / "schedules.yml").read_text())
    for rank, expected in enumerate(traces_of("chunks")):
        nodes, header = read_trace(folder / f"step.{rank}.et")
        assert nodes == expected
        assert "two stages" in str(header["lightloom.step"])
        computed = [node for node in nodes if node.type == COMPUTE]
        exact = sum(int(str(node.attributes[NANOSECONDS])) for node in computed)
        assert 1000 * sum(node.duration for node in computed) == pytest.approx(exact, abs=600 + len(computed))
        for node in nodes:
            if node.type == COLLECTIVE and node.id in schedules:
                members = len(groups[str(node.attributes["pg_name"])])
                assert trace_path(folder / schedules[node.id], members - 1).exists()
                assert not trace_path(folder / schedules[node.id], members).exists()
    for use, carrier in traces.carriers.items():
        if carrier.schedule is not None and carrier.fabric is not None:
            assert carrier.schedule.collective.nbytes == use.nbytes
            verify(carrier.schedule, carrier.fabric)
    # An earlier export is replaced, other files are not.
    write_step(folder, traces, {"label": "again", "step_time_s": step.step_time})
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds other files"):
        write_step(tmp_path / "other", traces, {"label": "", "step_time_s": 1.0})
    assert job.fabric.ranks == traces.ranks


def test_every_strategy_is_written_or_refused() -> None:
    job = verified_job(transformer(4), cluster(4))
    rows = space(job, batches=(8,))
    for row in range(0, len(rows), 13):
        strategy = rows[row]
        try:
            traces = step_traces(job, strategy, simulate(job, strategy))
        except UnsupportedError as error:
            assert "written" in str(error) or "no trace" in str(error)
            continue
        assert replayed_seconds(traces) > 0


def test_chakras_own_package_reads_a_trace(tmp_path: Path) -> None:
    definitions = pytest.importorskip("chakra.schema.protobuf.et_def_pb2")
    protolib = pytest.importorskip("chakra.src.third_party.utils.protolib")
    _, step, traces = taken_apart("stages")
    write_step(tmp_path / "out", traces, {"label": "four stages", "step_time_s": step.step_time})
    expected = traces_of("stages")[5]
    with (tmp_path / "out" / "step.5.et").open("rb") as file:
        assert protolib.decodeMessage(file, definitions.GlobalMetadata())
        for node in expected:
            read = definitions.Node()
            assert protolib.decodeMessage(file, read)
            found = (read.id, read.name, read.type, read.duration_micros)
            assert found == (node.id, node.name, node.type, node.duration)
            assert (tuple(read.ctrl_deps), tuple(read.data_deps)) == (node.control, node.data)
            values = {each.name: getattr(each, each.WhichOneof("value")) for each in read.attr}
            assert values == node.attributes
        assert not protolib.decodeMessage(file, definitions.Node())


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(["all-reduce", "all-gather", "reduce-scatter"]), st.floats(1e4, 1e9))
def test_a_ring_over_a_librarys_pairs_takes_the_librarys_time(kind: Kind, nbytes: float) -> None:
    prices = LibraryPrices(load_fabric("dgx-h100", 16, set={"transport": "nccl-hopper"}), "physical")
    carrier = carried(prices, CollectiveUse("data", kind, nbytes, 16, 1))
    assert carrier.schedule is None and carrier.seconds == prices(kind, nbytes).cost.time
    messages = 15 * (2 if kind == "all-reduce" else 1)
    assert messages * carrier.line.seconds == pytest.approx(carrier.seconds)
    # Around this size as well: the line grows as the closed form does, unless that starts with no latency at all.
    around = prices.seconds(kind, nbytes * np.array([0.5, 2.0]))
    slope = float(np.diff(around)[0]) / (1.5 * nbytes)
    if 1.2 * slope * nbytes < carrier.seconds:
        assert carrier.line.latency > 0
        assert messages / (16 * carrier.line.rate) == pytest.approx(slope, rel=0.5)


def test_sums_whose_hops_a_codec_shrinks_are_not_written() -> None:
    on = cluster(RANKS)
    plain = SchedulePrices(find("ring"), on.fabric, "physical")
    use = CollectiveUse("data", "all-reduce", 1e6, RANKS, 1)
    assert carried(plain, use).schedule is not None
    with pytest.raises(UnsupportedError, match="a codec works between the hops"):
        carried(plain.coded(coded(8.0), gradient_element_bytes(on.training)), use)


def test_pairs_of_an_axis_are_as_fast_as_all_its_messages_together() -> None:
    slow, fast = Line(1e9, 4e-6, 1e6), Line(4e9, 1e-6, 1e6)
    network, notes = network_of([("data", 4)], {"data": [(3e6, slow), (9e6, fast)]}, around=False)
    (dimension,) = network.dimensions
    assert 12 * (dimension.line.latency + 1e6 / dimension.line.rate) == pytest.approx(
        3 * slow.seconds + 9 * fast.seconds
    )
    assert notes


def test_what_sends_no_messages_has_no_part_in_the_latency_of_an_axis() -> None:
    sent, empty = Line(1e9, 4e-6, 1e6), Line(1e9, 1.0, 0.0)
    network, _ = network_of([("data", 4)], {"data": [(3e6, sent), (0.0, empty)]}, around=False)
    assert network.dimensions[0].line.latency == pytest.approx(sent.latency)
