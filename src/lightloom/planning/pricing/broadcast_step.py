"""A step of DaDianNao's mapping by its paper's equations: all chips of a mesh hold a network once between them.

    layer 1             layer 2
    [broadcast][compute][broadcast][compute] ...      the chips wait for each other; nothing overlaps

    p = (neurons · B + synapses) / memory of a chip              chips
    C = R · MACs · B / (products a second · p) + β · held        computation, Eqs. 1 and 2
    M = layers · 2 · latency · (√p − 1) + S · (p − 1) / (p · BW)   communication, Eq. 3 for every layer

Before each layer the chips broadcast what the others lack: synapses where every chip has neurons of its own (images are
split, "data parallelism"), neurons where it has synapses of its own ("model parallelism"); S is all of them. R and β,
which the paper does not state, are fitted to its ten headlines. Source: Ro, Lee and Ahn (Electronics 2018, 7, 130),
sections 2.2 and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from typing import Literal, NamedTuple

from lightloom.core.errors import ConfigError
from lightloom.core.timeline import Timeline
from lightloom.models.graph import ComputeGraph, layers, neuron_bytes, synapse_bytes
from lightloom.planning.simulation.engine import Task, run

Moved = Literal["data", "model"]
"""Parallelism by what is broadcast: synapses with "data", neurons with "model"."""
Hops = Callable[[int], float]
"""Number of chips → latencies that one broadcast takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Sizes and counts of a network that the model of a step needs."""

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
    convolutions: int = 0
    connected: int = 0

    def held_bytes(self, batch: int) -> float:
        """Return the bytes of all neurons of a batch and of all synapses, which the chips hold between them."""
        return self.neurons * batch + self.synapses

    @classmethod
    def of(cls, graph: ComputeGraph) -> Network:
        """Return the sizes and counts of a graph for one sample: number of layers, bytes of all weights but biases
        (synapses) and of all layers' outputs (neurons), multiply-accumulates of a forward pass, bytes that convolutions
        and linear layers read, and the number of each of these two. They are counted as Table 2 of DaDianNao's paper
        does: the input is a layer, but not in ResNets (graphs whose name begins with ``resnet``), whose printed numbers
        need one layer less. Multiply-accumulates are half the forward FLOPs of convolutions and linear layers; bytes
        are at the graph's element size."""
        sample = graph.with_batch(1)
        sizes = {operator.name: operator.activation_bytes for operator in sample.operators}
        weighted = [operator for operator in sample.operators if operator.kind in ("conv", "linear")]
        return cls(
            name=graph.name,
            layers=len(layers(sample)) - graph.name.lower().startswith("resnet"),
            synapses=synapse_bytes(sample),
            neurons=neuron_bytes(sample),
            products=sum(operator.forward_flops for operator in weighted) / 2,
            inputs=sum(sizes[source] for operator in weighted for source in operator.inputs),
            convolutions=sum(operator.kind == "conv" for operator in weighted),
            connected=sum(operator.kind == "linear" for operator in weighted),
        )


def mesh_hops(chips: int) -> float:
    """Return the number of link latencies that one broadcast takes on a square mesh of ``chips``, 2 (√p − 1) by Eq. 3:
    along a row, then along a column. The root is not rounded, as p need not be a square."""
    return 2 * (sqrt(chips) - 1)


class ChipLink(NamedTuple):
    """A link between neighbouring chips."""

    bandwidth: float
    """Bytes a second in one direction; may be infinite."""
    latency: float
    """Seconds from chip to chip."""
    phy_power: float | None = None
    """Watts of one PHY; None when no source gives them."""
    hops: Hops = mesh_hops
    """Latencies that one broadcast takes over such links, by the topology."""


class Constants(NamedTuple):
    """Constants of the computation that the paper does not state."""

    passes: float
    """R: passes of multiply-accumulates at the peak rate, for each pass of broadcasts."""
    synapse: float = 0.0
    """β: seconds for the synapses that a chip holds, as a share of the time in which 6.4 GB/s carries them."""


FITTED = Constants(passes=10.19, synapse=0.034)
"""Two constants fitted to the ten headlines (``python -m lightloom.papers.dadiannao.model``)."""
SYNAPSE_RATE = 6.4e9
"""Bandwidth that β is relative to, in bytes per second."""


@dataclass(frozen=True)
class BroadcastStep:
    """Seconds of a step in which broadcasts and computation alternate."""

    chips: int
    computation: float
    """Seconds, accesses to embedded memory included."""
    communication_time: float
    """Seconds in which the chips exchange data, none of them hidden."""

    @property
    def step_time(self) -> float:
        """Seconds of the step; computation and communication do not overlap (section 2.2)."""
        return self.computation + self.communication_time

    @property
    def breakdown(self) -> Mapping[str, float]:
        """Seconds of the step as ``compute_s``, ``exposed_communication_s``, ``exposed_reconfiguration_s`` and
        ``idle_s``, which add up to the step; the last two are 0."""
        return self.timeline.breakdown()

    @cached_property
    def timeline(self) -> Timeline:
        """Intervals of the step, the layers' broadcasts together before their computation: the equations state sums."""
        broadcast = Task("broadcasts of all layers", "network", "transmission", self.communication_time)
        return run([broadcast, Task("computation of all layers", "compute", "forward", self.computation, after=(0,))])


def chips_needed(network: Network, batch: int, memory: float) -> int:
    """Return the least number of chips, each with ``memory`` bytes, that hold all neurons of the batch and all synapses
    between them.

    Raises:
        ConfigError: the batch is below one.
    """
    if batch < 1:
        raise ConfigError(f"{network.name}: batch={batch}: expected at least 1")
    return ceil(network.held_bytes(batch) / memory)


def broadcast_time(share: float, chips: int, link: ChipLink) -> float:
    """Return Eq. 3, the seconds of a broadcast by every chip to all others of its ``share`` bytes: hops · latency +
    share (p − 1)/BW, with p the number of chips and the hops those of ``link``, 2 (√p − 1) on a mesh."""
    return link.hops(chips) * link.latency + share * (chips - 1) / link.bandwidth


def broadcast_bytes(network: Network, batch: int, moved: Moved) -> float:
    """Return the bytes that every chip holds after the broadcasts of one pass, its own share of them included: all
    synapses (``moved`` "data"), or the whole batch's inputs of convolutions and fully connected layers (``moved``
    "model")."""
    return network.synapses if moved == "data" else network.inputs * batch


def communication_time(network: Network, batch: int, chips: int, link: ChipLink, moved: Moved = "data") -> float:
    """Return the seconds of all broadcasts of one pass over a batch of samples on so many chips: Eq. 3 summed over the
    layers, which is the latencies of one broadcast for each layer, and the time of the bytes that all layers broadcast
    together. ``moved`` says what is broadcast: synapses with "data", neurons with "model"."""
    latencies = network.layers * broadcast_time(0.0, chips, link)
    share = broadcast_bytes(network, batch, moved) / chips
    return latencies + broadcast_time(share, chips, ChipLink(bandwidth=link.bandwidth, latency=0.0))


def computation_time(network: Network, batch: int, chips: int, rate: float) -> float:
    """Return Eq. 1, the seconds of one pass of multiply-accumulates over the batch, spread evenly over chips that each
    do ``rate`` multiply-accumulates a second."""
    return network.products * batch / chips / rate


def broadcast_step(
    network: Network, batch: int, chips: int, rate: float, link: ChipLink, moved: Moved, constants: Constants = FITTED
) -> BroadcastStep:
    """Return the step of a batch on so many chips, by the paper's equations: seconds of computation and, not overlapped
    with it, of communication. Multipliers pass ``constants.passes`` times at the peak rate for one pass of broadcasts,
    and reads of the synapses that a chip holds (all of them with "data", its 1 / ``chips`` with "model"),
    ``constants.synapse`` (β) times their bytes over 6.4 GB/s, count as computation.

    Args:
        network: sizes and counts for one sample.
        batch: samples of the step.
        chips: number of chips.
        rate: multiply-accumulates per second of a chip.
        link: between neighbouring chips.
        moved: what is broadcast, synapses with "data", neurons with "model".
        constants: that the paper does not state; by default those fitted to its headlines.
    """
    held = network.synapses if moved == "data" else network.synapses / chips
    computation = constants.passes * computation_time(network, batch, chips, rate)
    return BroadcastStep(
        chips=chips,
        computation=computation + constants.synapse * held / SYNAPSE_RATE,
        communication_time=communication_time(network, batch, chips, link, moved),
    )
