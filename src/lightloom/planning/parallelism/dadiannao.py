"""A training step on a 2D mesh of DaDianNao chips: everything in eDRAM, one all-to-all broadcast a layer.

    layer 1             layer 2
    [broadcast][compute][broadcast][compute] ...      the chips wait for each other; nothing overlaps

The chips hold all neurons and synapses between them, so that the network's size says how many there are. Before each
layer they broadcast what the others lack: synapses when every chip has neurons of its own (data parallelism), neurons
when it has synapses of its own (model parallelism). Source: Ro, Lee and Ahn (Electronics 2018, 7, 130), sections 2.2
and 4.2, Eqs. 1 to 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2, sqrt
from typing import Literal

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.accelerators.dadiannao import DaDianNao
from lightloom.machines.clusters.cluster import Rack
from lightloom.models.graph import ComputeGraph, layers, neuron_bytes, synapse_bytes

Strategy = Literal["data", "model"]
Hops = Callable[[int], float]
"""Number of chips → latencies that one broadcast takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What the model needs to know of a network."""

    name: str
    layers: int
    """Broadcasts of one pass."""
    synapses: float
    """Bytes of all weights."""
    neurons: float
    """Bytes of all neurons, a sample."""
    products: float
    """Multiply-accumulates of a forward pass, a sample."""
    inputs: float
    """Bytes that convolutions and fully connected layers read, a sample: what model parallelism broadcasts."""


def network_of(graph: ComputeGraph) -> Network:
    """Count a graph as Table 2 does (:mod:`lightloom.models.graph`)."""
    sample = graph.with_batch(1)
    sizes = {operator.name: operator.activation_bytes for operator in sample.operators}
    weighted = [operator for operator in sample.operators if operator.kind in ("conv", "linear")]
    return Network(
        name=graph.name,
        layers=len(layers(sample)),
        synapses=synapse_bytes(sample),
        neurons=neuron_bytes(sample),
        products=sum(operator.forward_flops for operator in weighted) / 2,
        inputs=sum(sizes[source] for operator in weighted for source in operator.inputs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipLink:
    """A link between neighbouring chips."""

    bandwidth: float
    """Bytes a second in one direction; may be infinite."""
    latency: float
    """Seconds from chip to chip."""
    phy_power: float | None = None
    """Watts of one PHY; None when no source gives them."""


def link_of(chip: DaDianNao, name: str) -> ChipLink:
    """One of the chip's kinds of links.

    Raises:
        UnknownNameError: the chip has no such links.
    """
    link = chip.link(name)
    return ChipLink(bandwidth=link.bandwidth, latency=link.latency, phy_power=link.phy_power)


def chips_needed(network: Network, batch: int, chip: DaDianNao) -> int:
    """Chips whose eDRAM holds all neurons and synapses.

    Raises:
        ConfigError: the batch is below one.
    """
    if batch < 1:
        raise ConfigError(f"{network.name}: batch={batch}: expected at least 1")
    return ceil((network.neurons * batch + network.synapses) / chip.edram)


def check_rack(network: Network, batch: int, chip: DaDianNao, rack: Rack | None = None) -> int:
    """Chips needed, if one rack holds them.

    Raises:
        UnsupportedError: it does not; names the blades, and the racks, batch or eDRAM that would do.
    """
    rack = rack or Rack()
    chips = chips_needed(network, batch, chip)
    largest = int((rack.chips * chip.edram - network.synapses) // network.neurons)
    memory = (network.neurons * batch + network.synapses) / rack.chips
    smaller = f"a batch of at most {largest}" if largest >= 1 else ""
    larger = f"{ceil(memory / 2**20)} MiB of eDRAM a chip instead of {chip.edram / 2**20:g}"
    try:
        rack.check(chips, ", or ".join(filter(None, (smaller, larger))))
    except UnsupportedError as error:
        raise UnsupportedError(f"{network.name} at batch {batch}: {error}") from None
    return chips


def mesh_hops(chips: int) -> float:
    """2 (√p − 1), Eq. 3: along a row, then along a column. The root is real: p need not be a square."""
    return 2 * (sqrt(chips) - 1)


def literal_hops(chips: int) -> float:
    """2 (p − 1), Eq. 3 as its text reads where the radical sign is lost."""
    return 2 * (chips - 1)


def ring_hops(chips: int) -> float:
    """p − 1: the chips in one ring."""
    return chips - 1


def tree_hops(chips: int) -> float:
    """ceil(log2 p): as few latencies as a broadcast can take when any two chips are neighbours; needs a switch."""
    return ceil(log2(chips))


def broadcast_time(share: float, chips: int, link: ChipLink, hops: Hops = mesh_hops) -> float:
    """Eq. 3, seconds of an all-to-all broadcast of ``share`` bytes of each chip: hops · latency + share (p − 1)/BW."""
    return hops(chips) * link.latency + share * (chips - 1) / link.bandwidth


def broadcast_bytes(network: Network, batch: int, strategy: Strategy) -> float:
    """Bytes that every chip holds after the broadcasts of one pass: all synapses, or all inputs of weighted layers."""
    return network.synapses if strategy == "data" else network.inputs * batch


def communication_time(
    network: Network, batch: int, chips: int, link: ChipLink, strategy: Strategy = "data", hops: Hops = mesh_hops
) -> float:
    """Return seconds of one pass: Eq. 3 summed over the layers, each with its own bytes."""
    moved = broadcast_bytes(network, batch, strategy)
    latencies = network.layers * broadcast_time(0.0, chips, link, hops)
    return latencies + broadcast_time(moved / chips, chips, ChipLink(bandwidth=link.bandwidth, latency=0.0))


def computation_time(network: Network, batch: int, chips: int, chip: DaDianNao) -> float:
    """Eq. 1, seconds of one pass over the batch, spread evenly: a multiply-accumulate is a product and a sum."""
    share = network.products * batch / chips
    return chip.computation_time(share, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Seconds and joules of a step."""

    chips: int
    computation: float
    """Seconds, eDRAM accesses included."""
    communication: float
    """Seconds."""
    computation_power: float
    """Watts of a chip while it computes."""
    communication_power: float | None
    """Watts of a chip's PHYs while they send; None when no source gives them."""

    @property
    def time(self) -> float:
        """Seconds; computation and communication do not overlap (section 2.2)."""
        return self.computation + self.communication

    @property
    def energy(self) -> float | None:
        """Joules: chips at their peak while they compute, PHYs at theirs while they send (section 4.2)."""
        if self.communication_power is None:
            return None
        chip = self.computation_power * self.computation + self.communication_power * self.communication
        return self.chips * chip

    @property
    def edp(self) -> float | None:
        """Energy-delay product, joule seconds."""
        return None if (energy := self.energy) is None else energy * self.time


def step(chip: DaDianNao, link: ChipLink, *, chips: int, computation: float, communication: float) -> Step:
    """Return a step of these seconds at the peak powers of the chip and of its PHYs."""
    return Step(
        chips=chips,
        computation=computation,
        communication=communication,
        computation_power=chip.power,
        communication_power=None if link.phy_power is None else chip.phys * link.phy_power,
    )
