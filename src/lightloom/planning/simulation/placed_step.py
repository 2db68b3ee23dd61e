"""A step of a placed plan, sub-operator by sub-operator and parcel by parcel, over the circuits that it was granted.

    device 0       F F F ─────────────── B B B ── update
    circuits 0→1       ▓▓▓ wait ▓▓
    micro-rings    ░░         ░░         ░░              holds: between them no pipe sends, while devices compute on

One group stands for all. Devices are never idle while a pass is ready: they take forward passes before backward
ones, in the order of the placement. A pipe sends one parcel at a time, in the order in which they became ready.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from lightloom.collectives.schedule.columns import grouped
from lightloom.core.arrays import Column, Effort, Floats, Int32s, Ints
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.timeline import SHARES, Interval, Timeline
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.circuits.circuits import GroupCircuits, Timing
from lightloom.planning.parallelism.circuits.group import Regrant, grants
from lightloom.planning.parallelism.placement.place import start_order
from lightloom.planning.parallelism.placement.placement import HybridPlan
from lightloom.planning.parallelism.plan import groups_of
from lightloom.planning.simulation import kernels
from lightloom.planning.simulation.placed_state import Holds, Nodes, Ports, State, Stretches

# The work of one group in a step of a placed plan: computing, parcels, and their dependencies.
#
# device a   F(y) ──────────────┐                        ┌──► B(y)
# pipe a→b        [parcel of y] │          [its gradient]│             a parcel is sent once, however many
# device b                      └──► F(x) ──► B(x) ──────┘             sub-operators of b read it
#
# copied parameters     B(x) ─► sums to the owners of shares ─► [all-reduce between groups] ─► shares to all copies
# update of a device    after its last backward pass and the last gradient that it waits for
#
# Where copies share out the optimizer's state, what goes to all copies are updated parameters, taken to be as large
# as gradients; the update of the owned shares stands after them all the same, as it takes as long there.
#
# Source: SiP-ML (Khani et al., SIGCOMM 2021), section 3.2; buckets as in PyTorch's DistributedDataParallel.

MessageKind = Literal["activation", "gradient", "sum", "share", "all-reduce"]
KINDS: tuple[MessageKind, ...] = ("activation", "gradient", "sum", "share", "all-reduce")
"""Kinds of messages: the first two are parcels and their gradients; sums and shares run along copies of parameters."""


class Messages(NamedTuple):
    """Messages between devices, arrays of shape [message]; a message takes a node for every pipe that it passes."""

    kind: Ints
    """Kind, as a position in ``KINDS``."""
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
    """Number of devices and pipes."""


def placed_work(
    plan: HybridPlan,
    circuits: GroupCircuits,
    accelerator: Accelerator,
    settings: TrainingSettings,
    compression_ratio: float = 1.0,
    *,
    accumulates: bool = False,
) -> PlacedWork:
    """Return the work of one group in a step of a placed plan: its nodes, what each waits for, and its messages.

    Args:
        plan: the placed plan.
        circuits: pipes of the group.
        accelerator: what a device computes on; it times the update.
        settings: sizes of buckets and of the optimizer's traffic.
        compression_ratio: divides the bytes of the all-reduces between groups, and nothing else.
        accumulates: only the passes of a micro-batch, with no exchange of parameter gradients, and updates of 0
            seconds.

    Raises:
        UnsupportedError: two devices that exchange data have no path over the circuits.
    """
    builder = _WorkNodes(plan, circuits)
    builder.parcels()
    if accumulates:
        return builder.work(np.zeros(plan.k))
    builder.shares(builder.all_reduce(builder.sums(), settings, compression_ratio))
    return builder.work(accelerator.update_time(updated_parameters(plan) * settings.optimizer_traffic_bytes))


def updated_parameters(plan: HybridPlan) -> Floats:
    """Return the number of parameters that each device of a group updates: [k]. A part that holds a copy updates all
    parameters of its operator; where copies share out the optimizer's state, a device updates those whose gradients it
    owns, divided by the number of groups."""
    balanced = plan.balanced
    if plan.shares_state:
        return np.bincount(plan.placement.device, balanced.parameters, plan.k).astype(np.float64) / plan.groups
    of_operator = np.add.reduceat(balanced.parameters, balanced.first[:-1]) if balanced.size else balanced.parameters
    copied = np.isin(np.arange(balanced.size), [_shared(plan), _shared(plan) - 1])
    held = np.where(copied, of_operator[balanced.operator], balanced.parameters).astype(np.float64)
    return np.bincount(plan.placement.device, held, plan.k).astype(np.float64)


def _shared(plan: HybridPlan) -> Ints:
    """Return the numbers of the sub-operators, ascending, that exchange gradients of copied parameters with the part
    before them: the sub-operator of the same operator with the number before."""
    return np.flatnonzero(plan.balanced.synchronised > 0)


class _WorkNodes:
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
        """Add the activations that are sent to the devices that read them, one message for each parcel (equal content
        from one sub-operator to one device), and their gradients sent back, as many bytes; readers on the producer's
        own device only wait for it."""
        balanced, device = self._plan.balanced, self._device
        content = np.ascontiguousarray(balanced.content)
        parcel, reader, edge = kernels.parcels(balanced.parent_start, balanced.parent, content, device, self._plan.k)
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
        """Add the messages that sum gradients of copied parameters within the group, from one sub-operator of an
        operator to the next towards the one that owns each share of the parameters.

        Returns the node at which the gradients that each sub-operator owns are complete: [n].
        """
        shared = _shared(self._plan)
        owned = self.backward.copy()
        parts = np.union1d(shared, shared - 1)
        owned[parts] = self._join(len(parts))
        self._along("sum", shared, self.backward, inwards=True, waiting=owned)
        self._pairs.append((self.backward[parts], owned[parts]))
        return owned

    def shares(self, reduced: Ints) -> None:
        """Add the messages that take reduced sums from the sub-operators that own them to all those of the operator,
        one after the other, that hold copies, and let the update of every device wait for the sums that it owns and for
        all that arrive there.

        ``reduced`` [n] is the node after which the gradients that each sub-operator owns are reduced.
        """
        self._pairs.append((reduced, self.update[self._device]))
        self._along("share", _shared(self._plan), reduced, inwards=False, waiting=self.update[self._device])

    def all_reduce(self, owned: Ints, settings: TrainingSettings, ratio: float) -> Ints:
        """Add one message to the next group's counterpart for each bucket of owned gradients, and return the node after
        which each sub-operator's are reduced: [n]; with one group that is ``owned``, and nothing is added.

        A message has what a ring among the groups sends of the bucket, 2 (groups - 1) / groups of its bytes over
        ``ratio``, and waits for as many latencies as the ring has steps, 2 (groups - 1).

        Args:
            owned: node at which the gradients that each sub-operator owns are complete: [n].
            settings: bytes of a bucket, ``bucket_size``, and of the first one of a device, ``first_bucket_size``.
            ratio: bytes of gradients for each byte that is sent.
        """
        reduced, groups = owned.copy(), self._plan.groups
        if groups == 1:
            return reduced
        members = _buckets(self._plan, self._order, settings)
        device = np.array([self._device[parts[0]] for parts in members], dtype=np.int64)
        number = np.arange(len(device)) - np.searchsorted(device, device)
        gradients = self._plan.balanced.parameters * float(self._plan.balanced.gradient_bytes)
        sent = 2 * (groups - 1) / groups * np.array([gradients[parts].sum() for parts in members]) / ratio
        first, last = self._send("all-reduce", number, device, device + self._plan.k, sent, steps=2 * (groups - 1))
        for parts, begin, end in zip(members, first, last, strict=True):
            self._pairs.append((owned[parts], np.full(len(parts), begin)))
            reduced[parts] = end
        return reduced

    def work(self, update: Floats) -> PlacedWork:
        """Return all nodes and messages that were added as the work of one step, with ``update`` [k] seconds for the
        update of each device after everything that it waits for."""
        self._pairs.append((self.backward, self.update[self._device]))
        balanced, order = self._plan.balanced, self._order
        passes = np.concatenate([self._device[order], self._device[order[::-1]], np.arange(self._plan.k)])
        seconds = np.concatenate([balanced.forward[order], balanced.backward[order[::-1]], update])
        columns = [(passes, seconds, np.zeros(len(passes)), np.full(len(passes), -1)), *self._hops]
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
        """Add the messages of shares along the copies of a parameter, from each part to its neighbour, in both
        directions.

        Inwards, to its owner, a share passes a pair of neighbours from the side on which the owner is not; outwards
        from the side on which it is. So a message has the bytes of the pair's gradients times the share of the
        operator's parameters that the parts on its destination's side own, outwards on its source's side.

        Args:
            kind: kind of the messages.
            shared: sub-operators that exchange gradients of copied parameters with the part before them, ascending.
            sendable: node that each part waits for before it sends: [n].
            inwards: True towards the owners, False away from them.
            waiting: node that waits for what each part receives: [n].
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
        """Add messages as chains of nodes, one for each pipe of the message's path; return their first and their last
        nodes, [message] each. A message that stays on its device, or has no bytes, is one node that takes no time.

        Args:
            kind: kind of the messages.
            about: sub-operator or bucket that each is about: [message].
            source: sending devices: [message].
            destination: receiving devices, k + d for device d of the next group: [message].
            nbytes: bytes of each: [message].
            steps: how many times the latency of a pipe each of its nodes waits.
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
        self._messages.append((np.full(len(first), KINDS.index(kind)), about, source, destination, nbytes, first, last))
        return first, last

    def _join(self, count: int) -> Ints:
        """Add ``count`` nodes that take no time and only wait for others, and return their numbers: [count]."""
        none = np.full(count, -1)
        self._hops.append((none, np.zeros(count), np.zeros(count), none))
        self._size += count
        return np.arange(self._size - count, self._size)


def ports_of(circuits: GroupCircuits) -> Ports:
    """Return the ports of a group's pipes, the sending ones numbered first, the receiving ones behind them; ``pipe`` is
    the order in which pipes take turns: by the distance from sender to receiver, counted upwards and around the group,
    then by sender; ``turn`` is the place of each pipe in it."""
    pipes = len(circuits.source)
    sending, leaves = np.unique(circuits.port, return_inverse=True)
    receiving, enters = np.unique(circuits.entry, return_inverse=True)
    enters = enters + len(sending)
    port = np.concatenate([leaves, enters])
    member = np.argsort(port, kind="stable")
    ports = len(sending) + len(receiving)
    pipe = np.lexsort((circuits.source, (circuits.destination - circuits.source) % circuits.k))
    first, member = np.searchsorted(port[member], np.arange(ports + 1)), member % max(pipes, 1)
    return Ports(leaves, enters, first, member, turn=np.argsort(pipe), pipe=pipe, shared=ports < 2 * pipes)


def _followers(before: Ints, after: Ints, size: int) -> tuple[Ints, Int32s]:
    """Return the pairs (before, after) of nodes as rows: the nodes that follow x, in the order given, are
    ``follower[first[x] : first[x + 1]]``. ``size`` is the number of nodes."""
    from scipy.sparse import csr_array

    pair = np.arange(len(before))
    rows = csr_array((np.ones(len(before), np.bool_), (before, pair)), shape=(size, len(before)))
    return rows.indptr.astype(np.int64), after[rows.indices].astype(np.int32)


def _buckets(plan: HybridPlan, order: Ints, settings: TrainingSettings) -> list[Ints]:
    """Return the sub-operators of each gradient bucket as one array, device after device, each in backward order and
    cut into buckets, each closed by the sub-operator with which its gradients reach the settings' size in bytes (the
    first one of a device has its own, if that is smaller); sub-operators without parameters are in none. ``order`` is
    that of the forward passes."""
    gradients = plan.balanced.parameters * float(plan.balanced.gradient_bytes)
    backward_order = order[::-1]
    backward_order = backward_order[gradients[backward_order] > 0]
    members = (backward_order[plan.placement.device[backward_order] == device] for device in range(plan.k))
    marks = settings.bucket_size, settings.first_bucket_size
    return [parts[begin:end] for parts in members for begin, end in groups_of(gradients[parts], *marks)]


# A placed step as a timeline: passes on devices, transfers on circuits, reconfigurations on micro-rings.

MOST_TRANSFERS: Effort = 100_000
"""Number of transfers that a timeline shows one by one; beyond it, back-to-back transfers are shown as one."""


def placed_timeline(plan: HybridPlan, circuits: GroupCircuits, run: PlacedRun) -> Timeline:
    """Return every pass, update, transfer and reconfiguration of a group in one run of a placed step as intervals on
    devices, circuits (ports where pipes share these) and the resource "micro-rings"; a transfer that ran into the dark
    has several. Beyond :data:`MOST_TRANSFERS` (100,000) transfers, back-to-back ones of a port are one interval."""
    holds = [
        Interval(resource="micro-rings", category="reconfiguration", name=f"hold {hold}", start=start, end=end)
        for hold, (start, end) in enumerate(run.dark_periods.tolist())
    ]
    transfers = _transfers(plan, circuits, run.work, run.stretches)
    return Timeline.of([*_computing(plan, run.work, run.state), *transfers, *holds])


def _computing(plan: HybridPlan, work: PlacedWork, state: State) -> list[Interval]:
    """Return the intervals in which devices compute: each sub-operator's two passes (categories "forward" and
    "backward"), named by its label and category, and updates that take time ("update"), on resources "device 0" and so
    on."""
    balanced, device = plan.balanced, plan.placement.device
    label = [balanced.label(x) for x in range(balanced.size)]
    start, end = state.start, state.end
    tasks = [
        (device[x], category, f"{label[x]} {category}", node)
        for category, nodes in (("forward", work.forward), ("backward", work.backward))
        for x, node in enumerate(nodes.tolist())
    ]
    updates = enumerate(work.update.tolist())
    tasks += [(d, "update", f"optimizer update {d}", node) for d, node in updates if end[node] > start[node]]
    return [
        Interval(resource=f"device {d}", category=category, name=name, start=float(start[node]), end=float(end[node]))
        for d, category, name, node in tasks
    ]


def _transfers(plan: HybridPlan, circuits: GroupCircuits, work: PlacedWork, stretches: Stretches) -> list[Interval]:
    """Return the intervals of category "transmission" in which pipes send, with their bytes as the detail ``bytes``, on
    resources such as "circuits 0→3" or, where pipes share ports, "port 0 of device 3", named by kind and sub-operator
    or bucket of the message; beyond :data:`MOST_TRANSFERS` (100,000), back-to-back transfers of one port as a single
    interval, named "N parcels"."""
    messages, balanced = work.messages, plan.balanced
    k, message = circuits.k, _message_of(work)
    shared = np.bincount(circuits.port).max(initial=0) > 1
    pipes = np.stack([circuits.port // k, circuits.source, circuits.destination], axis=1).tolist()
    resources = [
        f"port {port} of device {a}" if shared else f"circuits {a}→{b if b < k else 'next group'}"
        for port, a, b in pipes
    ]
    names = [
        f"all-reduce bucket {about}" if KINDS[kind] == "all-reduce" else f"{KINDS[kind]} of {balanced.label(about)}"
        for kind, about in zip(messages.kind.tolist(), messages.about.tolist(), strict=True)
    ]
    node, start, end, nbytes = stretches
    pipe = work.nodes.pipe[node]
    if len(node) > MOST_TRANSFERS:
        order, first = _back_to_back(circuits.port[pipe], start, end)
        last = np.append(first[1:], len(order)) - 1
        nbytes = np.add.reduceat(nbytes[order], first)
        pipe, start, end = pipe[order[first]], start[order[first]], end[order[last]]
        labels = [f"{parcels} parcels" for parcels in (last - first + 1).tolist()]
    else:
        labels = [names[index] for index in message[node].tolist()]
    return [
        Interval(resource=resources[p], category="transmission", name=label, start=a, end=b, details={"bytes": size})
        for p, label, a, b, size in zip(
            pipe.tolist(), labels, start.tolist(), end.tolist(), nbytes.tolist(), strict=True
        )
    ]


def _back_to_back(port: Ints, start: Floats, end: Floats) -> tuple[Ints, Ints]:
    """Return an order of transfers by port and time, and the places in that order at which a run of back-to-back
    transfers begins: one whose start is not the end of the one before it on its port.

    ``port``, ``start`` and ``end`` (in seconds) are [transfer].
    """
    # A transfer without bytes ends when it starts: after the one that ends then, and before the one that starts then.
    order = np.lexsort((end, start, port))
    follows = (np.diff(port[order]) == 0) & (start[order][1:] == end[order][:-1])
    return order, np.concatenate(([0], np.flatnonzero(~follows) + 1))


def _message_of(work: PlacedWork) -> Ints:
    """Return the message that every node is a hop of, as a position among the messages: [node]; -1 for passes, updates
    and nodes that only join others."""
    message = np.full(len(work.waits), -1)
    number, place = grouped(work.messages.last - work.messages.first + 1)
    message[work.messages.first[number] + place] = number
    return message


# A placed step while it runs: its events, hold by hold, and when hops that ran into the dark have sent.


class PlacedRun:
    """The state of the events, and the stretches in which hops that ran into the dark have sent. ``devices`` is the
    number of devices of a group, ``pipes`` that of the pipes of its circuits."""

    def __init__(self, work: PlacedWork, devices: int, pipes: int) -> None:
        nodes, size, resources = work.nodes, len(work.waits), work.resources
        most = np.bincount(nodes.resource[nodes.resource >= 0], minlength=resources)
        first_row = np.concatenate(([0], np.cumsum(np.concatenate([most, [size, resources, pipes]]))))
        self.work, self._devices, self._pipes, self._now = work, devices, pipes, 0.0
        self.dark: list[tuple[float, float]] = []
        self._stretches = [Stretches(np.empty(0, np.int64), *np.empty((3, 0)))]
        self.state = State(
            waits=work.waits.copy(),
            **{name: np.full(size, np.nan) for name in ("ready", "start", "piece", "end")},
            key=np.empty(int(first_row[-1])),
            item=np.empty(int(first_row[-1]), np.int32),
            first_row=first_row,
            head=np.zeros(resources + 3, np.int64),
            size=np.zeros(resources + 3, np.int64),
            current=np.full(resources, -1, np.int32),
            remaining=np.zeros(resources),
            listed=np.zeros(resources, np.bool_),
            busy=np.zeros(len(work.ports.first) - 1, np.bool_),
            idle=np.empty(resources, np.int32),
            counts=np.zeros(4, np.int64),
            totals=np.zeros(6),
            stack=np.empty(size, np.int32),
        )
        kernels.begin(nodes, self.state, devices)

    def advance(self, until: float, rate: Floats, *, dark: bool = False) -> bool:
        """Run the events before time ``until``, in seconds from the start of the step, at the pipes' ``rate`` [pipe] in
        bytes per second; return True when the step is done. Events at ``until`` itself are left to the next call.

        ``dark`` says that time in which nothing computes or sends counts as reconfiguration. A time before the one
        already reached stands for that one.

        Raises:
            AssertionError: ``until`` is infinite and nodes are still left.
        """
        # Holds are counted from time 0, so that rounding may put the end of one behind the start of the next.
        until, rate = max(until, self._now), np.ascontiguousarray(rate)
        nodes, ports = self.work.nodes, self.work.ports
        done: bool = kernels.advance(nodes, ports, self.state, self._devices, (self._now, until), rate, dark)
        self._now = until
        if until < np.inf:
            node = self.state.current[self._devices :]
            node = node[node >= 0]
            node = node[(rate[nodes.pipe[node]] > 0) & (self.state.piece[node] < until)]
            start, nbytes = self.state.piece[node], rate[nodes.pipe[node]] * (until - self.state.piece[node])
            self._stretches.append(Stretches(node.astype(np.int64), start, np.full(len(node), until), nbytes))
        elif not done:
            raise AssertionError("a placed step waits for itself")
        return done

    def reconfigure(self, start: float, timing: Timing) -> bool:
        """Run through the dark period that begins at ``start`` seconds, in which no pipe sends, and note it; return
        True when the step is done, False at once where a reconfiguration takes no time."""
        if not timing.reconfiguration:
            return False
        until = start + timing.reconfiguration
        self.dark.append((start, until))
        return self.advance(until, np.zeros(self._pipes), dark=True)

    def hold(self, circuits: GroupCircuits, timing: Timing) -> None:
        """Run the step to its end while the holds of ``circuits`` (periods in which each set of them stands) come
        round, each after a reconfiguration; when the last has passed, the first follows.

        Raises:
            UnsupportedError: the step has not ended after :data:`MOST_HOLDS` (1,000,000) holds.
        """
        rates, none = np.ascontiguousarray(circuits.bandwidth), np.zeros(self._pipes)
        holds = Holds(rates, none, float(timing.period), float(timing.reconfiguration), MOST_HOLDS)
        size = max(_CUTS, self._pipes)
        cuts = Stretches(np.empty(size, np.int64), np.empty(size), np.empty(size), np.empty(size))
        begun, done = 0, False
        while not done:
            self._now, begun, count, done = kernels.run_holds(
                self.work.nodes, self.work.ports, self.state, self._devices, self._now, holds, begun, cuts
            )
            self._stretches.append(Stretches._make(column[:count].copy() for column in cuts))
            if begun == MOST_HOLDS and not done:
                raise _endless()
        starts = np.arange(begun) * timing.period
        self.dark = [*zip(starts, starts + timing.reconfiguration, strict=True)] if timing.reconfiguration else []

    @property
    def sent(self) -> Floats:
        """Bytes that the whole step sends over each pipe, those not yet sent included, relayed bytes once for each
        pipe: [pipe]."""
        nodes = self.work.nodes
        hops = nodes.pipe >= 0
        return np.bincount(nodes.pipe[hops], nodes.amount[hops], self._pipes).astype(np.float64)

    @property
    def waiting(self) -> Floats:
        """Bytes that are queued at each pipe now, and what is still to be sent of what it is sending: [pipe]."""
        state, nodes, nbytes = self.state, self.work.nodes, np.zeros(self._pipes)
        for pipe in self._devices + np.flatnonzero(state.size[self._devices : self.work.resources]):
            first = state.first_row[pipe] + state.head[pipe]
            queued = state.item[first : first + state.size[pipe]]
            np.add.at(nbytes, nodes.pipe[queued], nodes.amount[queued])
        sending = self._devices + np.flatnonzero(state.current[self._devices :] >= 0)
        np.add.at(nbytes, nodes.pipe[state.current[sending]], state.remaining[sending])
        return nbytes

    @property
    def stretches(self) -> Stretches:
        """All stretches in which hops have sent: those that a dark period or a new grant cut off, in the order of time,
        and then the last one of each hop that has ended, in the order of nodes."""
        nodes, state = self.work.nodes, self.state
        hops = np.flatnonzero(nodes.pipe >= 0)
        sent = hops[state.end[hops] > state.piece[hops]]
        cut = Stretches(*(np.concatenate(column) for column in zip(*self._stretches, strict=True)))
        left = nodes.amount - np.bincount(cut.node, cut.nbytes, len(nodes.amount))
        last = (sent, state.piece[sent], state.end[sent], left[sent])
        return Stretches(*(np.concatenate(column) for column in zip(cut, last, strict=True)))

    @property
    def step_time(self) -> float:
        """Seconds from the start of the step until the last event so far."""
        return float(self.state.totals[1])

    @property
    def dark_periods(self) -> Floats:
        """Beginning and end in seconds, cut off at the last event, of each reconfiguration that began before the last
        event: [reconfigurations, 2]."""
        dark = np.array(self.dark).reshape(-1, 2)
        before: Floats = np.minimum(dark[dark[:, 0] < self.step_time], self.step_time)
        return before


_BREAKDOWN = ("compute_s", "exposed_communication_s", "exposed_reconfiguration_s", "idle_s")
MOST_HOLDS: Effort = 1_000_000
"""Number of holds of one step after which the simulation is given up."""
_CUTS: Effort = 1 << 16
"""Stretches that one call of the compiled loop notes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedStep:
    """Times, bytes and memory of one step of a placed plan, in every group."""

    plan: HybridPlan
    circuits: GroupCircuits
    step_time: float
    """Duration of the step, in seconds."""
    breakdown: dict[str, float]
    """Seconds by what the step waits for (:meth:`Timeline.breakdown`): compute where any device computes."""
    busy_time: dict[str, float]
    """Seconds by category, over all devices and pipes (:meth:`Timeline.busy_time`)."""
    waited_for_circuits: float
    """Seconds, summed over transfers, in which they were ready but their pipe was dark."""
    relayed_bytes: float
    """Bytes of a group that had no circuit of their own, each counted once."""
    sent_bytes: float
    """Bytes over all pipes of a group, what is relayed once a hop."""
    memory: Floats
    """Bytes [k] that each device holds, as the placement counts."""
    run: PlacedRun
    """Work and its times, of a step's last micro-batch."""
    micro_batches: int = 1
    earlier: PlacedStep | None = None
    """The passes of each micro-batch before the last, which accumulate gradients."""

    @property
    def reconfigurations(self) -> int:
        """Number of times that circuits are set anew within the step, over all its micro-batches; 0 where circuits
        stand."""
        before = 0 if self.earlier is None else (self.micro_batches - 1) * self.earlier.reconfigurations
        return before + len(self.run.dark_periods)

    @cached_property
    def timeline(self) -> Timeline:
        """Every pass, update, transfer and reconfiguration of a group as intervals on devices, circuits (ports where
        pipes share these) and micro-rings, all micro-batches of the step one after the other."""
        last = placed_timeline(self.plan, self.circuits, self.run)
        if self.earlier is None:
            return last
        period, before = self.earlier.step_time, self.earlier.timeline.intervals
        starts = [number * period for number in range(self.micro_batches)]
        parts = [*((start, before) for start in starts[:-1]), (starts[-1], last.intervals)]
        return Timeline.of(
            replace(each, start=each.start + start, end=each.end + start) for start, part in parts for each in part
        )

    def after(self, earlier: PlacedStep, count: int) -> PlacedStep:
        """Return the step of which this is the last micro-batch, after ``count`` micro-batches that take as long as
        ``earlier``, one after the other.

        Its seconds and bytes are those of this one and ``count`` times those of ``earlier``; memory and run stay those
        of this one.
        """

        def added(field: str) -> Any:
            """Return this step's value of a field plus ``count`` times the earlier one's; dicts key by key."""
            ours, theirs = getattr(self, field), getattr(earlier, field)
            if isinstance(ours, dict):
                return {name: ours[name] + count * theirs[name] for name in ours}
            return ours + count * theirs

        summed = ("step_time", "breakdown", "busy_time", "waited_for_circuits", "relayed_bytes", "sent_bytes")
        return replace(self, **{name: added(name) for name in summed}, micro_batches=count + 1, earlier=earlier)


def simulate_placed(
    plan: HybridPlan,
    circuits: GroupCircuits,
    accelerator: Accelerator,
    settings: TrainingSettings,
    *,
    compression_ratio: float = 1.0,
    regrant: Regrant | None = None,
    accumulates: bool = False,
) -> PlacedStep:
    """Simulate one step of a placed plan over the circuits that it was granted, and return its times, bytes and memory.

    Args:
        plan: the placed plan.
        circuits: pipes of a group; with ``timing``, holds come round, the first after a reconfiguration at time 0.
        accelerator: what a device computes on; it times the update.
        settings: sizes of buckets and of the optimizer's traffic.
        compression_ratio: bytes of a gradient for each byte sent between groups.
        regrant: takes bytes [pipe] and returns bytes per second [pipe]. It grants every hold but the first from what
            waits when the counters are read, the controller's latency before the hold before ends; the first from all
            that the step sends. See ``circuits.group.regrants``. None for circuits that are planned before the step.
        accumulates: True for the passes of a micro-batch that neither exchanges parameter gradients nor updates.

    Raises:
        UnsupportedError: two devices that exchange data have no path over the circuits, or the step has no end.
        ConfigError: the circuits are of another group size or, to be granted anew, without timing, or the ratio is not
            positive and finite.
    """
    _check_inputs(plan, circuits, compression_ratio, regrant)
    work = placed_work(plan, circuits, accelerator, settings, compression_ratio, accumulates=accumulates)
    run = PlacedRun(work, plan.k, len(circuits.source))
    if circuits.timing is None:
        run.advance(np.inf, circuits.bandwidth[0])
    elif regrant is None:
        run.hold(circuits, circuits.timing)
    else:
        _regrant_holds(run, circuits.timing, regrant)
    messages, totals = work.messages, run.state.totals
    return PlacedStep(
        plan=plan,
        circuits=circuits,
        step_time=run.step_time,
        breakdown=dict(zip(_BREAKDOWN, totals[2:].tolist(), strict=True)),
        busy_time=_busy_time(work, run.stretches, run.dark_periods),
        waited_for_circuits=float(totals[0]),
        relayed_bytes=float(messages.nbytes[messages.last > messages.first].sum()),
        sent_bytes=float(work.nodes.amount[work.nodes.pipe >= 0].sum()),
        memory=np.bincount(plan.placement.device, plan.balanced.memory, plan.k).astype(np.float64),
        run=run,
    )


def _check_inputs(plan: HybridPlan, circuits: GroupCircuits, ratio: float, regrant: Regrant | None) -> None:
    """Raise ConfigError where circuits are of another group size, are to be granted anew without timing, or the ratio
    is not positive and finite."""
    if circuits.k != plan.k:
        raise ConfigError(f"circuits of groups of {circuits.k} devices: expected {plan.k}, as placed")
    if regrant is not None and circuits.timing is None:
        raise ConfigError("circuits that stand from step to step: expected the timing of holds to grant them anew")
    if not 0 < ratio < math.inf:
        raise ConfigError(f"compression ratio of {ratio}: expected more than 0, and finite")


def simulate_best(plan: HybridPlan, fabric: Fabric, accelerator: Accelerator, settings: TrainingSettings) -> PlacedStep:
    """Return the shortest of the simulated steps over each set of circuits that the fabric can grant
    (``circuits.group.grants``), without compression and circuits granted anew.

    Raises:
        UnsupportedError: the fabric grants no circuits or has another number of ranks, two devices that exchange data
            have no path, or a step has no end.
    """
    steps = (simulate_placed(plan, circuits, accelerator, settings) for circuits in grants(plan, fabric))
    return min(steps, key=lambda step: step.step_time)


def _regrant_holds(run: PlacedRun, timing: Timing, regrant: Regrant) -> None:
    """Run the step to its end while holds come round, each after a reconfiguration and granted from the bytes that
    waited when the counters were read, the controller's latency before the hold before ended; where nothing waited,
    circuits stay and nothing is dark. The first hold is granted from all that the step sends. ``regrant`` takes bytes
    [pipe] and returns bytes per second [pipe].

    Raises:
        UnsupportedError: the step has not ended after :data:`MOST_HOLDS` (1,000,000) holds.
    """
    rate = regrant(run.sent)
    changed, early = True, max(timing.hold - timing.controller_latency, 0.0)
    for hold in range(MOST_HOLDS):
        start = hold * timing.period
        lit, end = start + timing.reconfiguration, start + timing.period
        begun = run.reconfigure(start, timing) if changed else run.advance(lit, rate)
        if begun or run.advance(lit + early, rate):
            return
        waiting = run.waiting
        if run.advance(end, rate):
            return
        changed = bool(waiting.any())
        rate = regrant(waiting) if changed else rate
    raise _endless()


def _endless() -> UnsupportedError:
    """Return (not raise) the error of a step that does not end."""
    return UnsupportedError(f"the step has not ended after {MOST_HOLDS} holds: expected longer holds")


def _busy_time(work: PlacedWork, stretches: Stretches, dark: Floats) -> dict[str, float]:
    """Return the seconds by category: of passes (``forward``, ``backward``), ``update`` and ``transmission`` summed
    over all devices and pipes of a group, of ``reconfiguration`` once for the group; the other categories of a timeline
    are 0.

    ``dark`` [reconfigurations, 2] are the beginning and end of each dark period.
    """
    amount = work.nodes.amount
    busy = dict.fromkeys(SHARES, 0.0)
    busy |= {name: float(amount[getattr(work, name)].sum()) for name in ("forward", "backward", "update")}
    busy["transmission"] = float((stretches.end - stretches.start).sum())
    busy["reconfiguration"] = float((dark[:, 1] - dark[:, 0]).sum())
    return busy
