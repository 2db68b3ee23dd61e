"""DaDianNao's mapping as plans of a mesh: layers split by their outputs, and the paper's own equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.load import load_fabric
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.models.zoo import load_workload
from lightloom.papers.dadiannao import BATCHES
from lightloom.papers.dadiannao.model import links, run
from lightloom.papers.dadiannao.networks import ZOO, stored
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.parallelism.tensor_parallel import tensor_split
from lightloom.planning.pricing.broadcast_step import (
    FITTED,
    ChipLink,
    Constants,
    Moved,
    Network,
    broadcast_bytes,
    broadcast_step,
    broadcast_time,
    chips_needed,
    communication_time,
    computation_time,
    mesh_hops,
)
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.step import pass_exchanges
from lightloom.planning.pricing.strategy_step import stage_memory
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search

BATCH, WIDTH = 8, 16


def network(channels: int, layers: int = 3) -> ComputeGraph:
    """Convolutions of one width in a row, each normalized and rectified, and a layer of ten classes."""
    pixels = BATCH * WIDTH * WIDTH
    made = [Operator(name="image", kind="input", dimensions={"sample": BATCH}, activation_bytes=12 * pixels)]
    at, read = "image", 3
    for layer in range(layers):
        sizes = {"sample": BATCH, "channel": channels, "height": WIDTH, "width": WIDTH}
        nbytes = 4 * channels * pixels
        flops = 2 * 9 * read * channels * pixels
        kernel = {"in_channel": read, "groups": 1, "kernel_height": 3, "kernel_width": 3}
        made.append(
            Operator(
                name=f"conv{layer}",
                kind="conv",
                inputs=(at,),
                dimensions=sizes | kernel,
                forward_flops=flops,
                backward_flops=2 * flops,
                parameters=9 * read * channels,
                parameter_bytes=36 * read * channels,
                activation_bytes=nbytes,
                forward_bytes=2 * nbytes + 36 * read * channels,
                shared_bytes=36 * read * channels,
            )
        )
        for kind in ("batch_norm", "activation"):
            name = f"{kind}{layer}"
            made.append(
                Operator(
                    name=name,
                    kind=kind,
                    inputs=(made[-1].name,),
                    dimensions=sizes,
                    activation_bytes=nbytes,
                    forward_bytes=2 * nbytes,
                )
            )
        at, read = made[-1].name, channels
    flops = 2 * 10 * read * WIDTH * WIDTH * BATCH
    made.append(
        Operator(
            name="classes",
            kind="linear",
            inputs=(at,),
            dimensions={"sample": BATCH, "channel": 10, "in_channel": read * WIDTH * WIDTH},
            forward_flops=flops,
            backward_flops=2 * flops,
            parameters=10 * read * WIDTH * WIDTH,
            parameter_bytes=40 * read * WIDTH * WIDTH,
            activation_bytes=40 * BATCH,
            forward_bytes=40 * read * WIDTH * WIDTH + 40 * BATCH,
            shared_bytes=40 * read * WIDTH * WIDTH,
        )
    )
    return ComputeGraph(name="network", batch=BATCH, operators=tuple(made))


def job(graph: ComputeGraph, ranks: int = 16, accelerator: str = "dadiannao-100g") -> Job:
    """The graph on a mesh of DaDianNao's chips."""
    cluster = load_cluster(accelerator, set={"ranks": ranks})
    prices = GroupPrices(cluster.fabric, cluster.training)
    return Job.of(graph, cluster.accelerator, cluster.fabric, cluster.training, prices)


def split(tp: int, ranks: int = 16) -> Strategies:
    """Neurons split among ``tp`` ranks, samples among the others."""
    return Strategies.of(Strategy(ranks // tp, tp, 1, 1, BATCH * ranks // tp, "zero-3", "none", "auto", 0))


def test_what_reads_across_channels_is_gathered_once_but_the_images_never() -> None:
    graph = network(32)
    gathered = {each.name for each, mask in zip(graph.operators, tensor_split(graph).gathered, strict=True) if mask}
    assert gathered == {"conv1", "conv2", "classes"}
    second = replace(graph.operators[4], name="beside", inputs=graph.operators[4].inputs)
    branched = replace(graph, operators=(*graph.operators[:5], second, *graph.operators[5:]))
    assert int(tensor_split(branched).gathered.sum()) == 3


@given(channels=st.sampled_from([16, 32, 64]), layers=st.integers(2, 5), tp=st.sampled_from([1, 2, 4, 8, 16]))
@settings(max_examples=20, deadline=None)
def test_every_layer_gathers_its_input_twice_and_scatters_its_gradient_once(
    channels: int, layers: int, tp: int
) -> None:
    made, sent = job(network(channels, layers)), dict[Kind, float]()

    def count(kind: Kind, _: Ints, ranks: Ints, __: Ints, ___: Ints, nbytes: Floats) -> Floats:
        assert set(ranks.tolist()) <= {tp}
        sent[kind] = sent.get(kind, 0.0) + float(nbytes.sum())
        return np.zeros_like(nbytes)

    # Columns of all operators, so that alike ones count each.
    pass_exchanges(made.model.columns, split(tp), made.fabric, lambda _: count, sharing=False)
    read = layers * 4 * channels * BATCH * WIDTH * WIDTH
    assert sent == ({} if tp == 1 else {"all-gather": 2 * read, "reduce-scatter": read})


@given(tp=st.sampled_from([2, 4, 8, 16]))
@settings(max_examples=4, deadline=None)
def test_ranks_that_share_neurons_compute_and_hold_their_share(tp: int) -> None:
    made, one = job(network(32)), np.ones(1, np.int64)
    columns, chip = made.model.columns, made.accelerator
    whole, part = (columns.work(chip, BATCH * one, ways * one)[0].flops for ways in (1, tp))
    assert part.sum() == pytest.approx(whole.sum() / tp)
    rows = split(tp), replace(split(tp), tp=one, dp=16 * one, global_batch=BATCH * 16 * one)
    held = [float(stage_memory(made, each)[0]) for each in rows]
    assert held[0] < held[1]


def test_neurons_are_split_on_meshes_only() -> None:
    cluster = replace(load_cluster("dadiannao-100g"), fabric=load_fabric("switch", 64, set={}), reference=None)
    request = SearchRequest(global_batches=(64,), pins=Pins(tp=2))
    with pytest.raises(InputError, match=r"--tp 2: expected a divisor of 1"):
        search(load_workload("alexnet-2012", batch=1), cluster, request)


@pytest.mark.long
@pytest.mark.parametrize("name", ZOO)
def test_the_paper_model_gives_the_chips_and_times_of_the_study(name: str) -> None:
    for speed in ("100", "400"):
        cluster = load_cluster(f"dadiannao-{speed}g", set={"ranks": 1600})
        request = SearchRequest(global_batches=BATCHES, cost_model="paper")
        found = search(load_workload(ZOO[name], batch=1), cluster, request).ranking
        assert len(found) == 2 * len(BATCHES)
        for plan in found:
            moved: Moved = "data" if plan.choice._asdict()["sharding"] == "zero-3" else "model"
            link = links((3.2e9, 12.5e9, 50e9))[f"{speed}-O"]
            study = run(stored()[name], plan.global_batch, link, FITTED, moved)
            assert (plan.cluster.ranks, plan.step_time) == (study.chips, study.time)
            assert plan.fits
            assert sum(plan.breakdown.values()) == pytest.approx(plan.step_time)


def test_too_few_chips_are_named() -> None:
    request = SearchRequest(global_batches=(32,), cost_model="paper")
    with pytest.raises(InputError, match=r"32 samples and the synapses fill 95 chips"):
        search(load_workload("resnet50-2015", batch=1), load_cluster("dadiannao-100g"), request)


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO.values())
def test_the_nine_networks_fit_64_chips_split_by_neurons(name: str) -> None:
    request = SearchRequest(compare=False, divisions=1)
    winner = search(load_workload(name, batch=1), load_cluster("dadiannao-100g"), request).winner
    assert winner.fits
    assert winner.choice._asdict()["tp"] > 1


NETWORK = Network(name="n", layers=3, synapses=4e6, neurons=1e5, products=2e9, inputs=6e4)


def test_chips_hold_all_neurons_and_synapses_between_them() -> None:
    """Exactly full ones included."""
    assert NETWORK.held_bytes(10) == 5e6
    assert [chips_needed(NETWORK, 10, memory) for memory in (5e6, 5e6 - 1, 2.5e6, 1e6)] == [1, 2, 2, 5]
    with pytest.raises(InputError, match="n: batch=0: expected at least 1"):
        chips_needed(NETWORK, 0, 1e6)
    assert chips_needed(NETWORK, 1, 1e9) == 1


@pytest.mark.parametrize(("chips", "hops"), [(1, 0), (4, 2), (9, 4), (16, 6)])
def test_a_broadcast_crosses_a_row_and_a_column_and_takes_in_what_the_others_have(chips: int, hops: int) -> None:
    link = ChipLink(bandwidth=2e9, latency=1e-6)
    assert mesh_hops(chips) == hops and link.hops is mesh_hops
    assert broadcast_time(1e6, chips, link) == pytest.approx(hops * 1e-6 + (chips - 1) * 1e6 / 2e9)
    around = link._replace(hops=lambda chips: chips / 2)
    assert broadcast_time(0.0, chips, around) == pytest.approx(chips / 2 * 1e-6)
    for moved, held in (("data", 4e6), ("model", 6e4 * 8)):
        sides: Moved = "data" if moved == "data" else "model"
        assert broadcast_bytes(NETWORK, 8, sides) == held
        took = communication_time(NETWORK, 8, chips, link, sides)
        assert took == pytest.approx(3 * hops * 1e-6 + held / chips * (chips - 1) / 2e9)
    assert communication_time(NETWORK, 8, chips, link) == communication_time(NETWORK, 8, chips, link, "data")


@pytest.mark.parametrize(("moved", "share"), [("data", 1), ("model", 4)])
def test_a_step_computes_and_reads_what_a_chip_holds_after_all_broadcasts(moved: Moved, share: int) -> None:
    link, constants = ChipLink(bandwidth=2e9, latency=1e-6), Constants(passes=10.0, synapse=0.5)
    step = broadcast_step(NETWORK, 8, 4, 1e12, link, moved, constants)
    assert computation_time(NETWORK, 8, 4, 1e12) == pytest.approx(2e9 * 8 / 4 / 1e12)
    assert step.computation == pytest.approx(10 * 2e9 * 8 / 4 / 1e12 + 0.5 * 4e6 / share / 6.4e9)
    assert step.communication_time == communication_time(NETWORK, 8, 4, link, moved) and step.chips == 4
    assert step.step_time == step.computation + step.communication_time
    first, second = step.timeline.intervals
    assert (first.resource, first.start, second.resource, second.end) == ("network", 0.0, "compute", step.step_time)
    assert second.start == first.end == step.communication_time
    assert step.breakdown["compute_s"] == pytest.approx(step.computation)
    assert step.breakdown["exposed_communication_s"] == step.communication_time
    plain = broadcast_step(NETWORK, 8, 4, 1e12, link, moved)
    assert plain == broadcast_step(NETWORK, 8, 4, 1e12, link, moved, FITTED)
    bare = broadcast_step(NETWORK, 8, 4, 1e12, link, moved, Constants(passes=10.0))
    assert bare.computation == pytest.approx(10 * computation_time(NETWORK, 8, 4, 1e12))


def test_networks_are_counted_for_one_sample_and_resnets_have_no_layer_of_images() -> None:
    made = network(16)
    found = Network.of(made)
    assert (found.name, found.convolutions, found.connected) == (made.name, 3, 1)
    sample = made.with_batch(1)
    weighted = [each for each in sample.operators if each.kind in ("conv", "linear")]
    assert found.products == sum(each.forward_flops for each in weighted) / 2
    assert found.inputs == 4 * WIDTH * WIDTH * (3 + 3 * 16)
    assert found.synapses == sum(each.parameter_bytes for each in sample.operators)
    named = Network.of(replace(made, name="ResNet-like"))
    assert named.layers == found.layers - 1 and replace(named, name=found.name, layers=found.layers) == found
