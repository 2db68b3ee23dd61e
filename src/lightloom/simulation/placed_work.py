"""The work of one group in a step of a placed plan: computing, parcels, and their dependencies.

    device a   F(y) ──────────────┐                        ┌──► B(y)
    pipe a→b        [parcel of y] │          [its gradient]│             a parcel is sent once, however many
    device b                      └──► F(x) ──► B(x) ──────┘             sub-operators of b read it

    copied parameters     B(x) ─► sums to the owners of shares ─► [all-reduce between groups] ─► shares to all copies
    update of a device    after its last backward pass and the last gradient that it waits for

Where copies share out the optimizer's state, what goes to all copies are updated parameters, taken to be as large as
gradients; the update of the owned shares stands after them all the same, as it takes as long there.

Source: SiP-ML (Khani et al., SIGCOMM 2021), section 3.2; buckets as in PyTorch's DistributedDataParallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.arrays import Column, Floats, Int32s, Ints
from lightloom.parallelism.circuits.pipes import GroupCircuits
from lightloom.parallelism.hybrid import HybridPlan
from lightloom.parallelism.placement.problem import start_order
from lightloom.parallelism.plan import groups_of
from lightloom.simulation.placed_state import Nodes, Ports, ports_of

MessageKind = Literal["activation", "gradient", "sum", "share", "all-reduce"]
KINDS: tuple[MessageKind, ...] = ("activation", "gradient", "sum", "share", "all-reduce")
"""What is sent: the first two are parcels and their gradients; sums and shares run along copies of parameters."""


class Messages(NamedTuple):
    """What devices send, arrays of shape [message]; a message takes a node for every pipe that it passes."""

    kind: Ints
    """Position in ``KINDS``."""
    about: Ints
    """The sub-operator that it comes from or goes to, or the number of the bucket on its device."""
    source: Ints
    destination: Ints
    """k + d for device d of the next group."""
    nbytes: Floats
    first: Ints
    """Node of the first pipe."""
    last: Ints
    """Node of the last pipe."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedWork:
    """Nodes: passes (of n sub-operators) and updates (of k devices), the earlier the smaller, then all that is sent."""

    nodes: Nodes
    """The nodes and those that follow each."""
    waits: Int32s
    """[node] for how many others it waits."""
    forward: Ints
    """[n] node of each forward pass."""
    backward: Ints
    """[n] node of each backward pass."""
    update: Ints
    """[k] node of each update."""
    messages: Messages
    ports: Ports
    resources: int
    """Devices and pipes."""


def placed_work(
    plan: HybridPlan,
    circuits: GroupCircuits,
    accelerator: Accelerator,
    settings: TrainingSettings,
    compression_ratio: float = 1.0,
    *,
    accumulates: bool = False,
) -> PlacedWork:
    """Lay out one step, or the passes of a micro-batch that ``accumulates`` gradients and updates nothing.

    Raises:
        UnsupportedError: two devices that exchange data have no path over the circuits.
    """
    builder = _Builder(plan, circuits)
    builder.parcels()
    if accumulates:
        return builder.work(np.zeros(plan.k))
    owned = builder.sums()
    reduced = builder.all_reduce(owned, settings, compression_ratio)
    builder.shares(reduced)
    return builder.work(accelerator.update_time(updated_parameters(plan) * settings.optimizer_traffic_bytes))


def updated_parameters(plan: HybridPlan) -> Floats:
    """Return the parameters [k] that each device updates: a part that holds a copy updates all of its operator's, or
    its share of those where copies share out the optimizer's state."""
    balanced = plan.balanced
    if plan.shares_state:
        owned = np.bincount(plan.placement.device, balanced.parameters, plan.k).astype(np.float64)
        return owned / plan.groups
    of_operator = np.add.reduceat(balanced.parameters, balanced.first[:-1]) if balanced.size else balanced.parameters
    copied = np.zeros(balanced.size, np.bool_)
    for x in (_shared(plan), _shared(plan) - 1):
        copied[x] = True
    held = np.where(copied, of_operator[balanced.operator], balanced.parameters).astype(np.float64)
    return np.bincount(plan.placement.device, held, plan.k).astype(np.float64)


def _shared(plan: HybridPlan) -> Ints:
    """Return the sub-operators that exchange gradients of copied parameters with the part before them."""
    return np.flatnonzero(plan.balanced.synchronised > 0)


class _Builder:
    """Collects nodes, column by column, and who comes before whom."""

    def __init__(self, plan: HybridPlan, circuits: GroupCircuits) -> None:
        self._plan, self._circuits = plan, circuits
        balanced, k = plan.balanced, plan.k
        self._device = plan.placement.device.astype(np.int64)
        self._order = start_order(balanced)
        place = np.argsort(self._order)
        self.forward, self.backward = place, 2 * balanced.size - 1 - place
        self.update = 2 * balanced.size + np.arange(k)
        self._size = 2 * balanced.size + k
        self._hops: list[tuple[Ints, Floats, Floats, Ints]] = []
        self._messages: list[tuple[Column, ...]] = []
        self._pairs: list[tuple[Ints, Ints]] = [(self.forward, self.backward)]

    def parcels(self) -> None:
        """Activations to the devices that read them, and their gradients back."""
        from lightloom.simulation._placed_kernels import parcels

        balanced, device = self._plan.balanced, self._device
        content = np.ascontiguousarray(balanced.content)
        parcel, reader, edge = parcels(balanced.parent_start, balanced.parent, content, device, self._plan.k)
        local, remote = np.flatnonzero(parcel < 0), np.flatnonzero(parcel >= 0)
        self._pairs += [
            (self.forward[balanced.parent[local]], self.forward[reader[local]]),
            (self.backward[reader[local]], self.backward[balanced.parent[local]]),
        ]
        producer, nbytes, to = balanced.parent[edge].astype(np.int64), balanced.nbytes[edge], device[reader[edge]]
        first, last = self._send("activation", producer, device[producer], to, nbytes)
        self._pairs += [(self.forward[producer], first), (last[parcel[remote]], self.forward[reader[remote]])]
        first, last = self._send("gradient", producer, to, device[producer], nbytes)
        self._pairs += [(self.backward[reader[remote]], first[parcel[remote]]), (last, self.backward[producer])]

    def sums(self) -> Ints:
        """Gradients of copied parameters, added up part after part towards the part that owns each share.

        Returns the node [n] at which the gradients that a sub-operator owns are complete.
        """
        shared = _shared(self._plan)
        owned = self.backward.copy()
        parts = np.union1d(shared, shared - 1)
        owned[parts] = self._join(len(parts))
        self._along("sum", shared, self.backward, inwards=True, waiting=owned)
        self._pairs.append((self.backward[parts], owned[parts]))
        return owned

    def shares(self, reduced: Ints) -> None:
        """Sums, once they are reduced, from those who own them to all who hold copies."""
        self._pairs.append((reduced, self.update[self._device]))
        arrived = self.update[self._device]
        self._along("share", _shared(self._plan), reduced, inwards=False, waiting=arrived)

    def all_reduce(self, owned: Ints, settings: TrainingSettings, ratio: float) -> Ints:
        """Buckets of owned gradients between counterparts; returns the node [n] after which they are reduced."""
        reduced, groups = owned.copy(), self._plan.groups
        if groups == 1:
            return reduced
        members = _buckets(self._plan, self._order, settings)
        device = np.array([self._device[parts[0]] for parts in members], dtype=np.int64)
        number = np.arange(len(device)) - np.searchsorted(device, device)
        gradients = self._plan.balanced.parameters * float(self._plan.balanced.gradient_bytes)
        sums = np.array([gradients[parts].sum() for parts in members])
        sent = 2 * (groups - 1) / groups * sums / ratio
        first, last = self._send("all-reduce", number, device, device + self._plan.k, sent, steps=2 * (groups - 1))
        for parts, begin, end in zip(members, first, last, strict=True):
            self._pairs.append((owned[parts], np.full(len(parts), begin)))
            reduced[parts] = end
        return reduced

    def work(self, update: Floats) -> PlacedWork:
        """All nodes and messages; updates take so many seconds [k]."""
        self._pairs.append((self.backward, self.update[self._device]))
        balanced, order = self._plan.balanced, self._order
        passes = np.concatenate([self._device[order], self._device[order[::-1]], np.arange(self._plan.k)])
        seconds = np.concatenate([balanced.forward[order], balanced.backward[order[::-1]], update])
        none = np.full(len(passes), -1)
        columns = [(passes, seconds, np.zeros(len(passes)), none), *self._hops]
        resource, amount, delay, pipe = map(np.concatenate, zip(*columns, strict=True))
        before, after = (np.concatenate(nodes) for nodes in zip(*self._pairs, strict=True))
        first, follower = _followers(before, after, self._size)
        nodes = Nodes(resource.astype(np.int32), amount, delay, pipe.astype(np.int32), first, follower)
        messages = Messages(*map(np.concatenate, zip(*self._messages, strict=True)))
        return PlacedWork(
            nodes=nodes,
            waits=np.bincount(after, minlength=self._size).astype(np.int32),
            forward=self.forward,
            backward=self.backward,
            update=self.update,
            messages=messages,
            ports=ports_of(self._circuits),
            resources=self._plan.k + len(self._circuits.source),
        )

    def _along(self, kind: MessageKind, shared: Ints, sendable: Ints, *, inwards: bool, waiting: Ints) -> None:
        """Shares along the copies of a parameter, from each part to its neighbour and on, in both directions.

        Inwards, to its owner, a share passes a pair of neighbours from the side on which the owner is not; outwards
        from the side on which it is. ``sendable`` [n] is what a part waits for before it sends, ``waiting`` [n]
        what waits for what it receives.
        """
        balanced, device = self._plan.balanced, self._device
        operator = balanced.operator[shared]
        owned = np.concatenate(([0], np.cumsum(balanced.parameters)))
        start, end = owned[balanced.first[operator]], owned[balanced.first[operator + 1]]
        below = (owned[shared] - start) / np.maximum(end - start, 1)
        joined = np.flatnonzero(np.diff(shared) == 1)
        for share, source, to in ((below, shared, shared - 1), (1 - below, shared - 1, shared)):
            part = share if inwards else 1 - share
            first, last = self._send(kind, source, device[source], device[to], balanced.synchronised[shared] * part)
            # Towards smaller parts the link behind comes first, towards larger ones the link before. Passing on goes
            # before what the part that receives begins.
            earlier, later = (joined + 1, joined) if source is shared else (joined, joined + 1)
            self._pairs += [(sendable[source], first), (last[earlier], first[later]), (last, waiting[to])]

    def _send(
        self, kind: MessageKind, about: Ints, source: Ints, destination: Ints, nbytes: Floats, steps: int = 1
    ) -> tuple[Ints, Ints]:
        """Add messages, each a node a pipe; what stays on its device, or has no bytes, takes no time.

        Returns their first and last nodes.
        """
        circuits = self._circuits
        nbytes = np.where(source == destination, 0.0, nbytes)
        needed = nbytes > 0
        start, path = circuits.paths(np.where(needed, source, 0), np.where(needed, destination, 0))
        hops = np.maximum(np.diff(start), 1)
        first = self._size + np.cumsum(hops) - hops
        pipe = np.full(int(hops.sum()), -1)
        pipe[np.repeat(needed, hops)] = path
        moved = pipe >= 0
        resource, delay = np.full(len(pipe), -1), np.zeros(len(pipe))
        resource[moved] = self._plan.k + pipe[moved]
        delay[moved] = steps * circuits.latency[pipe[moved]]
        self._hops.append((resource, np.repeat(nbytes, hops), delay, pipe))
        relayed = np.delete(np.arange(len(pipe)), first - self._size) + self._size
        self._pairs.append((relayed - 1, relayed))
        self._size += len(pipe)
        last = first + hops - 1
        number = np.full(len(first), KINDS.index(kind))
        self._messages.append((number, about, source, destination, nbytes, first, last))
        return first, last

    def _join(self, count: int) -> Ints:
        """Add nodes that only wait for others, and return them."""
        none = np.full(count, -1)
        self._hops.append((none, np.zeros(count), np.zeros(count), none))
        self._size += count
        return np.arange(self._size - count, self._size)


def _followers(before: Ints, after: Ints, size: int) -> tuple[Ints, Int32s]:
    """Return pairs (before, after) as rows: nodes that follow x, in the order given, are entries first[x : x + 1]."""
    from scipy.sparse import csr_array

    pair = np.arange(len(before))
    rows = csr_array((np.ones(len(before), np.bool_), (before, pair)), shape=(size, len(before)))
    return rows.indptr.astype(np.int64), after[rows.indices].astype(np.int32)


def _buckets(plan: HybridPlan, order: Ints, settings: TrainingSettings) -> list[Ints]:
    """Return the sub-operators of each gradient bucket, device after device, each in backward order."""
    gradients = plan.balanced.parameters * float(plan.balanced.gradient_bytes)
    backward_order = order[::-1]
    backward_order = backward_order[gradients[backward_order] > 0]
    members = (backward_order[plan.placement.device[backward_order] == device] for device in range(plan.k))
    marks = settings.bucket_size, settings.first_bucket_size
    return [parts[begin:end] for parts in members for begin, end in groups_of(gradients[parts], *marks)]
