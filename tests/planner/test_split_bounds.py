"""Placed rows: no bound lies above the simulated step, and columns say what the partition itself says."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.placement.cuts import PartitionRules
from lightloom.planning.parallelism.placement.place import partition
from lightloom.planning.parallelism.placement.placement import Reach
from lightloom.planning.parallelism.plan import local_graph
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.placed_space import (
    PartTable,
    PlacedChoice,
    PlacedRows,
    distinct,
    exchanging,
    peers,
    placed_space,
    reach,
)
from lightloom.planning.search.bounds import coarse_bound, exchange_latency, fastest_link
from lightloom.planning.search.rows import PlacedPlans
from tests.planner.gradients.exchanges import coded
from tests.planner.jobs import transformer, verified_job

QUANTA = (1e-7, 1e-6, 1e-5)
FABRICS = (
    {"base": "sip-ring", "wavelengths": 16},
    {"base": "sip-ring", "wavelengths": 4, "hop_latency": "1us", "reconfiguration_time": "1us"},
    {"base": "circuit-switch", "degree": 4, "hop_latency": "100ns"},
    {"base": "circuit-switch", "degree": 3, "bandwidth": "10Gbps"},
    {"base": "ethernet-400g"},
    {"base": "two-tier-400g", "tiers": {"domain": {"size": 2}}},
    {"base": "ethernet-400g", "bandwidth": "1Gbps"},
)


def cluster_on(fabric: int, ranks: int) -> Cluster:
    """One of the fabrics."""
    return load_cluster("terarack-64", set={"ranks": ranks, "fabric": dict(FABRICS[fabric])})


def job_on(fabric: int, ranks: int, blocks: int, hidden: int) -> Job:
    """A small transformer there."""
    on = cluster_on(fabric, ranks)
    return verified_job(transformer(blocks, hidden), on)


def space_on(job: Job, batches: tuple[int, ...], ratios: tuple[float, ...] = (1.0,)) -> PlacedRows:
    """Every placed row that is distinct."""
    return distinct(job, PartTable(job.model), placed_space(job.fabric, batches, QUANTA, ratios)[0])


@settings(max_examples=35, deadline=None)
@given(
    st.integers(0, len(FABRICS) - 1),
    st.sampled_from([2, 4, 6, 8, 12]),
    st.integers(1, 3),
    st.sampled_from([64, 256, 1024]),
    st.integers(1, 5),
    st.data(),
)
def test_no_step_is_shorter_than_any_of_its_bounds(
    fabric: int, ranks: int, blocks: int, hidden: int, samples: int, data: st.DataObject
) -> None:
    job = job_on(fabric, ranks, blocks, hidden)
    rows = space_on(job, (ranks * samples, 2 * ranks), (1.0, 3.0))
    plans = PlacedPlans(job, {3.0: coded(3.0, "nic", 3.2e9)})
    look = coarse_bound(job, PartTable(job.model), rows)
    for row in data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=min(6, len(rows)), max_size=6)):
        choice = rows[row]
        try:
            step = plans.simulate(choice).step_time
        except UnsupportedError as error:
            assert "no circuit" in str(error)
            continue
        assert look.bound[row] <= step
        assert plans.structure_bound(choice) <= step
        assert plans.circuits_bound(choice) <= step


@pytest.mark.parametrize("fabric", range(len(FABRICS)))
def test_no_link_is_faster_than_the_fastest(fabric: int) -> None:
    """Only on a ring of wavelengths do ranks share the links between neighbours, one each way."""
    on = cluster_on(fabric, 8).fabric
    source, destination = np.array([*permutations(range(8), 2)]).T
    latency = [on.latency(source, destination, np.full(len(source), way)).min() for way in range(on.routes)]
    link = fastest_link(on)
    assert link.latency == pytest.approx(min(latency))
    assert link.rate * 8 == pytest.approx(on.total_receive_bandwidth())
    ring = FABRICS[fabric]["base"] == "sip-ring"
    assert link.link_rate == (pytest.approx(on.link_bandwidth().sum() / 8) if ring else np.inf)
    assert fastest_link(cluster_on(4, 1).fabric).rate == np.inf


def test_bounds_are_near_where_computing_decides() -> None:
    on = load_cluster(
        "terarack-64",
        set={
            "ranks": 8,
            "fabric": {"base": "ethernet-400g", "bandwidth": 1e18, "hop_latency": 0, "transport": "ideal"},
        },
    )
    of = transformer(3, 1024)
    job = verified_job(of, on)
    rows = space_on(job, (256,))
    plans, look = PlacedPlans(job), coarse_bound(job, PartTable(job.model), rows)
    steps = np.array([plans.simulate(rows[row]).step_time for row in range(len(rows))])
    tight = np.array([plans.structure_bound(rows[row]) for row in range(len(rows))])
    assert np.all(tight >= look.bound)
    for row, bound in enumerate(tight):
        placed = plans.plan(rows[row])
        balanced = placed.balanced
        busiest = np.bincount(placed.placement.device, balanced.forward + balanced.backward).max()
        assert bound >= busiest * (1 - 1e-8)
    assert min(steps / look.bound) == pytest.approx(1, rel=1e-3)
    assert np.median(steps / tight) < 1.1


@pytest.mark.parametrize(("samples", "ranks"), [(1, 8), (3, 12), (16, 4)])
def test_columns_cut_operators_as_the_partition_does(samples: int, ranks: int) -> None:
    job = job_on(4, ranks, 2, 256)
    rows, _ = placed_space(job.fabric, (samples * ranks,), (0.5e-7, *QUANTA))
    one = np.ones(len(rows), np.int64)
    forward, backward = job.operators.kernels(rows.samples, 0 * one)
    table = PartTable(job.model)
    cut = table.parts(rows, job.operators)
    look = coarse_bound(job, table, rows)
    for row in range(len(rows)):
        choice = rows[row]
        local = local_graph(job.graph, job.settings.model_copy(update={"batch_per_rank": int(rows.samples[row])}))
        durations = np.stack([forward[row], backward[row]], axis=1)
        rules = PartitionRules(most_exchanging=choice.most_exchanging)
        balanced = partition(local, durations, choice.k, choice.quantum, rules)
        assert cut.parts[row, table.placed].tolist() == np.diff(balanced.first).tolist()
        assert look.sub_operators[row] == balanced.size
        assert look.memory[row] <= balanced.memory.sum() / choice.k * (1 + 1e-12)


def test_rows_left_out_as_equal_give_equal_graphs() -> None:
    job = job_on(2, 8, 2, 256)
    rows, refused = placed_space(job.fabric, (16, 64), QUANTA)
    kept = distinct(job, PartTable(job.model), rows)
    plans = PlacedPlans(job)
    different = {
        (choice.k, choice.global_batch, *(column.tobytes() for column in (graph.first, graph.parent, graph.nbytes)))
        for choice in map(rows.__getitem__, range(len(rows)))
        for graph in [plans.plan(choice).balanced]
    }
    of_kept = {
        (choice.k, choice.global_batch, *(column.tobytes() for column in (graph.first, graph.parent, graph.nbytes)))
        for choice in map(kept.__getitem__, range(len(kept)))
        for graph in [plans.plan(choice).balanced]
    }
    assert of_kept == different and len(kept) < len(rows) and refused == 0


def test_choices_that_cut_all_operators_alike_share_a_plan() -> None:
    """A limit on exchanging parts that no operator meets changes nothing: one placement, the same circuits and step."""
    job = job_on(2, 8, 2, 256)
    rows, _ = placed_space(job.fabric, (16,), QUANTA[:1])
    choices = [choice for choice in map(rows.__getitem__, range(len(rows))) if choice.k == 4]
    plans = PlacedPlans(job)
    of_choice = {choice: plans.plan(choice) for choice in choices}
    assert plans.placements == plans.partitions == len(set(map(id, of_choice.values()))) <= len(choices)
    alone = [PlacedPlans(job).simulate(choice).step_time for choice in choices]
    assert [plans.simulate(choice).step_time for choice in choices] == alone
    again = plans.plan(choices[0]._replace(micro_batches=2, global_batch=2 * choices[0].global_batch))
    assert again is of_choice[choices[0]]


def test_every_degree_and_batch_that_divides_is_there_once() -> None:
    job = job_on(4, 12, 1, 64)
    rows, _ = placed_space(job.fabric, (4, 12), QUANTA, (1.0, 3.0))
    found = [rows[row] for row in range(len(rows))]
    assert len(set(found)) == len(found)
    assert {(each.k, each.l, each.global_batch) for each in found} == {
        (k, 12 // k, batch) for k, batch in product((1, 2, 3, 4, 6, 12), (4, 12)) if batch % (12 // k) == 0
    }
    assert all(each.ratio == 1 for each in found if each.l == 1)
    assert {each.quantum for each in found if each.k == 1} == {QUANTA[0]}
    assert {each.most_exchanging for each in found if each.k == 12} == {1, 2, 6, 12}


def test_reach_leaves_a_circuit_to_the_next_group() -> None:
    switch = cluster_on(2, 8).fabric
    assert reach(switch, 1) == Reach(4) and reach(switch, 2) == Reach(3)
    assert peers(cluster_on(0, 8).fabric) == 17 and peers(cluster_on(4, 8).fabric) == 8
    few = load_cluster("terarack-64", set={"ranks": 8, "fabric.transceivers": 6}).fabric
    assert peers(few) == 6
    assert exchanging(Reach(8), 64) == [1, 2, 5]
    with pytest.raises(UnsupportedError, match="placed plans on mesh: expected wavelengths"):
        peers(load_cluster("terarack-64", set={"ranks": 16, "fabric": {"base": "mesh"}}).fabric)


def test_two_circuits_are_too_few_for_three_devices() -> None:
    rows, refused = placed_space(
        load_cluster("terarack-64", set={"ranks": 12, "fabric": {"base": "circuit-switch", "degree": 2}}).fabric,
        (12,),
        QUANTA,
    )
    assert refused and set(rows.k.tolist()) == {1, 2, 12}


def test_exchange_between_groups_waits_for_the_way_between_counterparts() -> None:
    fabric = cluster_on(1, 12).fabric
    # Eleven hops of a ring of 12 are one the other way round.
    assert exchange_latency(fabric, 4) == pytest.approx(2 * 2 * 4e-6)
    assert exchange_latency(fabric, 12) == 0
    assert exchange_latency(fabric, 1) == pytest.approx(2 * 11 * 1e-6)


def test_a_slow_codec_saves_less() -> None:
    job = job_on(2, 8, 2, 1024)
    choice = PlacedChoice(1, 8, 1e-6, 8, 1, 3.0)
    fast, slow = coded(3.0, "nic", 3.2e9), coded(3.0, "nic", 1e8)
    plain, quick, late = (
        PlacedPlans(job, {3.0: codec}).simulate(choice._replace(ratio=ratio)).step_time
        for codec, ratio in ((fast, 1.0), (fast, 3.0), (slow, 3.0))
    )
    assert late > max(plain, quick)
