"""Placements: devices on a ring, who of them may communicate, and when every sub-operator runs.

    devices on a ring    0 ── 1 ── 2 ── 3 ── 4 ── 5 ── (0)
    reach of device 2    └────┴────●────┴────┘              Δ = 4, counted as peers: two behind, two ahead

The degree becomes a distance, as in SiP-ML (Khani et al., SIGCOMM 2021), section 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Ints, Mask
from lightloom.core.errors import ConfigError, UnsupportedError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A circuit between two devices."""

    bandwidth: float
    """Bytes per second in one direction."""
    latency: float = 0.0
    """Seconds that every transfer pays."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a bandwidth that is not positive, or a latency that is negative or not finite."""
        if not self.bandwidth > 0 or not 0 <= self.latency < math.inf:
            raise ConfigError(f"{self}: expected more than 0 B/s and at least 0 s")


@dataclass(frozen=True, slots=True)
class Reach:
    """Which devices of a group may communicate.

    ``peers``: i and j may where min((i − j) mod k, (j − i) mod k) ≤ ⌊Δ/2⌋. A device has at most Δ peers, and sends to
    and receives from no others, activations and gradients together.

    ``forward``: activations may go from j to i where (i − j) mod k ≤ Δ, the paper's formula. A device sends activations
    to at most Δ others and receives them from at most Δ; gradients take the reverse ways, so that its peers may be 2Δ.

    Where Δ ≥ k − 1 all may communicate.
    """

    degree: int
    """Δ: circuits of a device inside its group, one less than the fabric's degree D."""
    rule: Literal["peers", "forward"] = "peers"

    def offsets(self, devices: int) -> Ints:
        """Return the allowed values of (device of the reader - device of the producer) modulo ``devices``, the number
        of devices of the group: from the furthest behind to the furthest ahead, 0 for one device among them; 0 to
        ``devices`` - 1 where all may communicate.

        Raises:
            UnsupportedError: no two devices may communicate.
        """
        if self.degree >= devices - 1:
            return np.arange(devices)
        behind, ahead = self._window()
        if ahead < 1:
            least = min(devices - 1, 2 if self.rule == "peers" else 1)
            raise UnsupportedError(
                f"degree Δ = {self.degree} is too small to place {devices} devices a group: "
                f"expected Δ of at least {least} (D = {least + 1} with one circuit for data parallelism), or k = 1"
            )
        return np.arange(-behind, ahead + 1) % devices

    def clique(self, devices: int) -> int:
        """Return the largest number of neighbouring devices on the ring of which any two may communicate both ways:
        ⌊Δ/2⌋ + 1 by the rule "peers", 1 by "forward", all where Δ ≥ k − 1."""
        return devices if self.degree >= devices - 1 else self._window()[0] + 1

    def span(self, devices: int) -> int:
        """Return the largest number of neighbouring devices on the ring of which each may send to every later one:
        ⌊Δ/2⌋ + 1 by the rule "peers", Δ + 1 by "forward", all where Δ ≥ k − 1."""
        return devices if self.degree >= devices - 1 else self._window()[1] + 1

    def _window(self) -> tuple[int, int]:
        """Return two numbers of devices: how many behind a producer on the ring, and how many ahead, may read from it:
        ⌊Δ/2⌋ both by the rule "peers", 0 and Δ by "forward"."""
        half = self.degree // 2
        return (half, half) if self.rule == "peers" else (0, self.degree)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement:
    """Devices and times of all sub-operators, in columns as the balanced graph's."""

    device: Int32s
    devices: int
    reach: Reach
    link: Link
    start: Floats
    """Moment at which the forward pass of each begins, in seconds."""
    end: Floats
    backward_start: Floats
    """Seconds, counted from the start of the iteration; the backward pass begins when the forward pass has ended."""
    backward_end: Floats
    makespan: float
    """Seconds of both passes: computing and activations and gradients, without the exchange of parameter gradients."""
    repaired: int
    """Sub-operators that the repair moved; 0 where no repair was needed or another start was better."""
    method: str
    """The start that was best."""


# The balanced graph: operators split into parts of about one quantum, as columns.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BalancedGraph:
    """Sub-operators in columns of length n, in a topological order; parts of one operator lie side by side.

    The parents of sub-operator x are rows ``parent_start[x]`` to ``parent_start[x + 1]`` of the edge columns.
    """

    name: str
    operators: tuple[str, ...]
    """Operators that were split: all but the model's inputs."""
    dimensions: tuple[str, ...]
    """Along which dimension; empty for an operator in one part."""
    first: Ints
    """[operators + 1]: the parts of operator o are ``first[o]`` to ``first[o + 1]``."""
    operator: Int32s
    part: Int32s
    forward: Floats
    """Duration of the forward pass, in seconds."""
    backward: Floats
    """Duration of the backward pass, in seconds."""
    parameters: Ints
    """Elements that are this part's own: they sum to the operator's, also where every part holds a copy of all."""
    memory: Floats
    """Bytes: parameters held with gradients and optimizer state, and the part's output, kept for the backward pass."""
    synchronised: Floats
    """Bytes of gradients exchanged with the part before it, in each direction (copied parameters); 0 for a first part.
    A chain that adds up on its way and then hands out the sums moves each parameter once in each direction."""
    parent_start: Ints
    parent: Int32s
    nbytes: Floats
    """Bytes of an edge, forward; its gradient has as many."""
    content: Ints
    """Edges that leave one sub-operator with equal content carry the same elements."""
    gradient_bytes: int

    @property
    def size(self) -> int:
        """Number of sub-operators of all operators together."""
        return len(self.operator)

    def label(self, x: int) -> str:
        """Return the display name of a sub-operator: ``operator/part``, parts from 0."""
        return f"{self.operators[self.operator[x]]}/{self.part[x]}"


# What the compiled loops of placement read and change, as named tuples of arrays.
#
# Neighbours of a sub-operator are those with which it exchanges data: its parents and the part with which it shares
# parameters come ``before`` it, and it comes before those ``after`` it.


class Neighbours(NamedTuple):
    """Neighbours on one side: those of sub-operator x are rows ``start[x]`` to ``start[x + 1]``."""

    start: Ints
    """First row of each sub-operator, and the number of rows: [sub-operators + 1]."""
    node: Int32s
    """Sub-operator that is the neighbour: [row]."""
    delay: Floats
    """[row] seconds of a transfer between two devices; negative where neither waits for the other."""


class PlacementProblem(NamedTuple):
    """Graph to be placed, and the limits; arrays have shape [sub-operators] unless they say otherwise."""

    order: Ints
    """Sub-operators in the order in which they start."""
    before: Neighbours
    after: Neighbours
    forward: Floats
    """Duration of the forward pass, in seconds."""
    backward: Floats
    """Duration of the backward pass, in seconds."""
    memory: Floats
    """Bytes that each holds on its device."""
    capacity: float
    """Memory of a device, in bytes."""
    offsets: Ints
    """Allowed values of (device after − device before) modulo the devices."""
    allowed: Mask
    """[devices] the same as a mask."""


class PlacementState(NamedTuple):
    """A partial placement, changed in place."""

    device: Int32s
    """[sub-operators] device, or −1."""
    used: Floats
    """Bytes held on each device: [devices]."""
    free: Floats
    """[devices] seconds at which the device is free."""
    pending: Mask
    """[sub-operators] whether the repair must look at it."""
    moves: Ints
    """[1] moves of the repair."""
    reached: Ints
    """[devices] scratch space, 0 between calls."""
    votes: Ints
    """[devices] scratch space: neighbours that each device reaches."""
    end: Floats
    """[sub-operators] end of each in the forward pass, in seconds."""
    latest: Floats
    """[devices] scratch space: end of the latest producer there, which is its arrival without a transfer."""


class Arrivals(NamedTuple):
    """When the inputs of a sub-operator arrive by transfers."""

    first: float
    """Latest arrival by a transfer, in seconds."""
    first_device: int
    """Device from which that comes, or −1."""
    second: float
    """Latest arrival by a transfer from any other device, in seconds."""
    home: int
    """Device of the producer with the longest transfer, or −1."""


# k-way model times l-way data parallelism: one placement, repeated in l groups.
#
# rank = group · k + device            k = 4, l = 2
#
# group 0    0 ─ 1 ─ 2 ─ 3             along a row: activations, their gradients, gradients of copied parameters
# │   │   │   │             along a column: the ring all-reduce between counterparts
# group 1    4 ─ 5 ─ 6 ─ 7
#
# l = 1 is model parallelism alone, k = 1 data parallelism alone. Source: SiP-ML (Khani et al., SIGCOMM 2021), section
# 3.2 and Fig. 4 (d).


class Traffic(NamedTuple):
    """Bytes [ranks, ranks] of one iteration, from row to column; sparse, nothing on the diagonal."""

    model_parallel: csr_array
    data_parallel: csr_array

    @property
    def total(self) -> csr_array:
        """Bytes of model and data parallelism together: [sender, receiver], all ranks each."""
        return self.model_parallel + self.data_parallel


@dataclass(frozen=True, eq=False)
class HybridPlan:
    """One placement in every group, and what all ranks exchange.

    Raises:
        ConfigError: no group, or the placement is for other devices or another graph.
    """

    placement: Placement
    balanced: BalancedGraph
    k: int
    """Devices of a group (model parallelism)."""
    groups: int
    """l: groups that each take a share of the batch (data parallelism)."""
    shares_state: bool = False
    """True when the devices that hold copies of a parameter, of all groups, share out its optimizer state and update
    (ZeRO stage 1): each updates what it owns. SiP-ML's devices update every copy."""

    def __post_init__(self) -> None:
        """Raise ConfigError where there is no group, or the placement is of other devices or another graph."""
        placed, size, k = self.placement, self.balanced.size, self.k
        if self.groups < 1 or placed.devices != k or len(placed.device) != size:
            raise ConfigError(
                f"k = {k}, l = {self.groups}, {size} sub-operators: expected k = {placed.devices}, l of at least 1 "
                f"and {len(placed.device)} sub-operators, as placed"
            )

    @property
    def ranks(self) -> int:
        """Number of devices in all groups."""
        return self.k * self.groups

    @cached_property
    def gradient_bytes(self) -> Floats:
        """Bytes [k] of the gradients that each device of a group all-reduces with its counterparts in the other groups:
        those of the parameters that it owns, an equal share of an operator's for each of its parts on the device.

        Where parts hold copies, the sum over a group is complete before and handed out after.
        """
        gradients = self.balanced.parameters.astype(np.float64) * self.balanced.gradient_bytes
        return np.bincount(self.placement.device, gradients, self.k).astype(np.float64)

    @cached_property
    def all_reduce_bytes(self) -> Floats:
        """Bytes [k] that each device of a group sends to its counterpart in the next group: 2 (l - 1)/l of its
        gradients for l groups, a ring all-reduce; 0 with one group."""
        return 2 * (self.groups - 1) / self.groups * self.gradient_bytes

    @cached_property
    def traffic(self) -> Traffic:
        """Bytes of one iteration between all ranks, of model and of data parallelism apart, sparse [sender, receiver]
        each; of data parallelism, a ring all-reduce, from every rank to the one k ranks on.

        Elements that several sub-operators of a device read are sent to it once, and their gradients added up before
        they return.
        """
        from scipy.sparse import csr_array

        size = self.ranks
        model = self._in_all_groups(_step_bytes(self.balanced, self.placement.device, self.k))
        ranks = np.arange(size)
        sent = np.tile(self.all_reduce_bytes, self.groups)
        ring = csr_array((sent, (ranks, (ranks + self.k) % size)), shape=(size, size))
        ring.eliminate_zeros()
        return Traffic(model, ring)

    @property
    def activation_traffic(self) -> csr_array:
        """Bytes [sender, receiver] between all ranks of activations and their gradients of one micro-batch, without
        gradients of parameters."""
        return self._in_all_groups(_activation_bytes(self.balanced, self.placement.device, self.k))

    def _in_all_groups(self, within: csr_array) -> csr_array:
        """Return bytes [k, k] inside one group as those of all ranks, the same inside every group and 0 between groups:
        [ranks, ranks]; with one group the argument itself."""
        from scipy.sparse import csr_array, eye_array, kron

        return csr_array(kron(eye_array(self.groups), within, format="csr")) if self.groups > 1 else within


def _step_bytes(balanced: BalancedGraph, device: Int32s, k: int) -> csr_array:
    """Return the bytes [sender, receiver], k devices each, sent inside a group in a step of one micro-batch:
    activations, their gradients, and sums of the gradients of copied parameters both ways.

    ``device`` [sub-operators] is the device of each.
    """
    from scipy.sparse import csr_array

    shared = np.flatnonzero((balanced.synchronised > 0) & (device != np.roll(device, 1)))
    summed = csr_array((balanced.synchronised[shared], (device[shared - 1], device[shared])), shape=(k, k))
    return csr_array(_activation_bytes(balanced, device, k) + summed + summed.T)


def _activation_bytes(balanced: BalancedGraph, device: Int32s, k: int) -> csr_array:
    """Return the bytes [sender, receiver], k devices each, of one micro-batch's activations and their gradients inside
    a group; elements that several readers on a device share count once. ``device`` [sub-operators] is the device of
    each."""
    from scipy.sparse import csr_array

    edge, target = crossing_edges(balanced, device, k)
    sent = csr_array((balanced.nbytes[edge], (device[balanced.parent[edge]], target)), shape=(k, k))
    return csr_array(sent + sent.T)


def crossing_edges(balanced: BalancedGraph, device: Int32s, k: int) -> tuple[Ints, Int32s]:
    """Return two columns, each [edges]: the indices of those edges of the graph that lead to another device, and the
    device to which each leads. Of edges that carry the same elements of one part to one device only one is returned.
    They are sorted by the producing part, then by the receiving device.

    ``device`` [sub-operators] is the device of each, of ``k``.
    """
    reader = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
    crossing = np.flatnonzero(device[balanced.parent] != device[reader])
    target, content = device[reader[crossing]], balanced.content[crossing]
    pair = balanced.parent[crossing].astype(np.int64) * k + target
    order = np.lexsort((content, pair))
    once = order[(np.diff(pair[order], prepend=-1) != 0) | (np.diff(content[order], prepend=-1) != 0)]
    return crossing[once], target[once]
