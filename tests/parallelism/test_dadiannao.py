"""Eqs. 1 to 3 as laws: chips, broadcasts, energy, and Eq. 3 against schedules that are built and verified."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf, isqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.cost.stepped import cost
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.accelerators.dadiannao import load_dadiannao
from lightloom.machines.fabrics.grids import Mesh
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.papers.dadiannao.model import (
    Step,
    check_rack,
    link_of,
    literal_hops,
    mesh_broadcast,
    ring_hops,
    tree_hops,
)
from lightloom.planning.pricing.broadcast_step import (
    ChipLink,
    Network,
    broadcast_time,
    chips_needed,
    communication_time,
    computation_time,
    mesh_hops,
)

CHIP = load_dadiannao()
MIB = 2.0**20
networks = st.builds(
    Network,
    name=st.just("network"),
    layers=st.integers(1, 400),
    synapses=st.floats(1e4, 1e9),
    neurons=st.floats(1e4, 1e9),
    products=st.floats(1e6, 1e11),
    inputs=st.floats(1e4, 1e9),
)
links = st.builds(
    ChipLink,
    bandwidth=st.floats(1e8, 1e12),
    latency=st.floats(0, 1e-6),
    phy_power=st.floats(0.1, 10),
    hops=st.just(mesh_hops),
)
RESNET152 = Network(
    name="ResNet152", layers=363, synapses=229 * MIB, neurons=7014 / 32 * MIB, products=1e10, inputs=1e8
)


@given(network=networks, batch=st.integers(1, 512))
def test_chips_hold_everything_and_one_less_would_not(network: Network, batch: int) -> None:
    chips = chips_needed(network, batch, CHIP.edram)
    everything = network.neurons * batch + network.synapses
    assert (chips - 1) * CHIP.edram < everything <= chips * CHIP.edram


@given(network=networks, batch=st.integers(1, 512), link=links, chips=st.integers(1, 2000))
def test_layers_broadcast_one_after_the_other(network: Network, batch: int, link: ChipLink, chips: int) -> None:
    share = network.synapses / network.layers / chips
    one_by_one = network.layers * broadcast_time(share, chips, link)
    assert communication_time(network, batch, chips, link) == pytest.approx(one_by_one)
    assert broadcast_time(share, 1, link) == 0


@given(network=networks, batch=st.integers(1, 512), link=links)
def test_model_parallelism_sends_inputs_and_grows_with_the_batch(network: Network, batch: int, link: ChipLink) -> None:
    free = ChipLink(bandwidth=link.bandwidth, latency=0.0)
    once, more = (communication_time(network, each, 64, free, "model") for each in (1, batch))
    assert more == pytest.approx(batch * once)
    assert communication_time(network, batch, 64, link) == communication_time(network, 1, 64, link)


@given(chips=st.integers(2, 4000))
def test_hops_of_the_topologies_are_ordered(chips: int) -> None:
    assert mesh_hops(chips) <= ring_hops(chips) < literal_hops(chips) == 2 * ring_hops(chips)
    assert tree_hops(chips) <= ring_hops(chips)
    root = isqrt(chips)
    assert 2 * (root - 1) <= mesh_hops(chips) < 2 * root
    assert broadcast_time(1.0, chips, ChipLink(bandwidth=inf, latency=1.0)) == mesh_hops(chips)


@given(network=networks, link=links, chips=st.integers(1, 2000), seconds=st.tuples(*[st.floats(1e-9, 1)] * 2))
def test_energy_is_power_times_the_seconds_in_which_it_works(
    network: Network, link: ChipLink, chips: int, seconds: tuple[float, float]
) -> None:
    computing, sending = seconds
    found = Step(chip=CHIP, link=link, chips=chips, computation=computing, communication_time=sending)
    assert link.phy_power is not None
    assert found.energy == pytest.approx(chips * (7.96 * computing + 4 * link.phy_power * sending))
    assert found.edp == pytest.approx((found.energy or 0) * (computing + sending))
    silent = replace(found, link=ChipLink(bandwidth=1.0, latency=0.0))
    assert silent.energy is None
    assert silent.edp is None


@given(network=networks, batch=st.integers(1, 64), chips=st.integers(1, 64))
def test_computation_is_shared_out(network: Network, batch: int, chips: int) -> None:
    alone = computation_time(network, batch, 1, CHIP.product_rate)
    assert computation_time(network, batch, chips, CHIP.product_rate) == pytest.approx(alone / chips)
    assert alone == pytest.approx(network.products * batch / (72 * 16 * 606e6))


def test_a_rack_that_is_too_small_names_what_would_do() -> None:
    with pytest.raises(UnsupportedError, match=r"ResNet152 at batch 256: 1566 chips need 66 blades") as caught:
        check_rack(RESNET152, 256, CHIP)
    message = str(caught.value)
    assert "\n" not in message
    for cure in ("2 racks", "a batch of at most 251", "37 MiB of eDRAM a chip"):
        assert cure in message
    assert check_rack(RESNET152, 251, CHIP) <= 1536
    with pytest.raises(UnsupportedError):
        check_rack(RESNET152, 252, CHIP)
    larger = CHIP.model_copy(update={"local_edram": 33 / 16 * MIB})
    assert larger.edram == 37 * MIB
    assert check_rack(RESNET152, 256, larger) <= 1536


def test_a_network_that_no_batch_makes_fit_is_offered_none() -> None:
    huge = Network(name="huge", layers=1, synapses=1e12, neurons=1e6, products=1.0, inputs=1.0)
    with pytest.raises(UnsupportedError) as caught:
        check_rack(huge, 1, CHIP)
    assert "batch of at most" not in str(caught.value)


def test_a_batch_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="batch=0"):
        chips_needed(RESNET152, 0, CHIP.edram)


def test_links_of_the_chip() -> None:
    assert link_of(CHIP, "25-E") == ChipLink(bandwidth=3.2e9, latency=80e-9, phy_power=2.0)
    assert link_of(CHIP, "3200-O").phy_power is None


def test_a_graph_is_counted_for_one_sample() -> None:
    size = {"sample": 8, "channel": 4, "in_channel": 3, "groups": 1, "kernel_height": 3, "kernel_width": 3}
    graph = ComputeGraph(
        name="small",
        batch=8,
        operators=(
            Operator(name="x", kind="input", dimensions={"sample": 8}, activation_bytes=8 * 300),
            Operator(
                name="conv",
                kind="conv",
                inputs=("x",),
                dimensions=size,
                forward_flops=8 * 2000,
                activation_bytes=8 * 400,
            ),
            Operator(
                name="relu", kind="activation", inputs=("conv",), dimensions={"sample": 8}, activation_bytes=8 * 400
            ),
        ),
    )
    found = Network.of(graph)
    assert (found.layers, found.synapses, found.neurons) == (2, 4 * 3 * 9 * 4, 700)
    assert (found.products, found.inputs) == (1000, 300)


@settings(max_examples=20)
@given(rows=st.integers(1, 5), columns=st.integers(1, 5), share=st.floats(1, 1e7), link=links)
def test_equation_3_is_a_schedule(rows: int, columns: int, share: float, link: ChipLink) -> None:
    if rows * columns < 2:
        return
    fabric = Mesh(ranks=rows * columns, rows=rows, bandwidth=link.bandwidth, hop_latency=link.latency)
    schedule = mesh_broadcast(fabric, share)
    built = cost(schedule, fabric).time
    shares = broadcast_time(share, fabric.ranks, ChipLink(bandwidth=link.bandwidth, latency=0.0))
    assert schedule.steps == rows + columns - 2
    assert built == pytest.approx((rows + columns - 2) * link.latency + shares)
    closed = broadcast_time(share, fabric.ranks, link)
    assert closed <= built * (1 + 1e-9)
    assert rows != columns or closed == pytest.approx(built)


@settings(max_examples=10)
@given(side=st.integers(2, 4), share=st.floats(1, 1e7), link=links)
def test_both_axes_at_once_halve_the_bytes_and_meet_the_bound(side: int, share: float, link: ChipLink) -> None:
    fabric = Mesh(ranks=side**2, bandwidth=link.bandwidth, hop_latency=link.latency)
    schedule = mesh_broadcast(fabric, share, both_axes=True)
    built = cost(schedule, fabric).time
    doubled = ChipLink(bandwidth=2 * link.bandwidth, latency=link.latency)
    assert built == pytest.approx(broadcast_time(share, fabric.ranks, doubled))
    bound = lower_bound(schedule.collective, fabric).time
    assert bound * (1 - 1e-9) <= built <= (bound + schedule.steps * link.latency) * (1 + 1e-9)
    assert schedule.steps == 2 * (ceil(fabric.ranks**0.5) - 1)


def test_both_axes_need_a_square() -> None:
    with pytest.raises(UnsupportedError, match="2 x 3"):
        mesh_broadcast(Mesh(ranks=6), 1.0, both_axes=True)
