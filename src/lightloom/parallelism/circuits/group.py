"""What one group sees of the circuits that all ranks are granted, so that one group stands for all.

    ranks     traffic of all groups ──► circuits, verified ──► of every pipe what the worst-served group has
    group     device a ══ pipe ══► device b          device a ══ pipe ══► device a of the next group

A pipe is all circuits from one rank to another. Packet switches have no circuits: there a pair is a pipe too, and those
that leave one port take turns on it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric, Floats, Ints
from lightloom.fabrics.circuit_switch import CircuitSwitch
from lightloom.fabrics.packet_switch import PacketSwitch, TwoTierSwitch
from lightloom.fabrics.wdm_ring import WdmRing
from lightloom.parallelism.circuits import ring, switch
from lightloom.parallelism.circuits.circuits import Assignment
from lightloom.parallelism.circuits.holds import Timing
from lightloom.parallelism.circuits.traffic import Traffic
from lightloom.parallelism.circuits.verify import verify
from lightloom.parallelism.hybrid import HybridPlan

HOLD_RECONFIGURATIONS = 10
"""Length of a hold in reconfiguration times, where nothing else is said (SiP-ML, section 3.1)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupCircuits:
    """Pipes of one group; destinations below k are its own devices, k + d is device d of the next group."""

    k: int
    """Devices of a group."""
    source: Ints
    """[pipe], 0 to k − 1."""
    destination: Ints
    """[pipe], 0 to 2 k − 1."""
    bandwidth: Floats
    """[hold, pipe] bytes per second while light stands; 0 in holds without a circuit."""
    latency: Floats
    """[pipe] seconds of propagation and conversion."""
    port: Ints
    """[pipe] what sends: pipes of equal port send one parcel at a time. Circuits have one each."""
    timing: Timing | None
    """None where pipes stand from step to step; else the holds come round, each after a reconfiguration."""
    assignment: Assignment | None
    """Circuits on the whole fabric, verified; None on packet switches."""

    @property
    def mean_bandwidth(self) -> Floats:
        """Bytes per second [pipe] over a whole cycle of holds, reconfigurations included."""
        mean: Floats = self.bandwidth.mean(axis=0) * (1.0 if self.timing is None else self.timing.duty_cycle)
        return mean

    def ways(self, source: Ints, destination: Ints) -> tuple[Ints, Ints]:
        """The pipes that bytes of each pair pass: ``pipe[start[i] : start[i + 1]]``.

        A pair without a pipe relays over the fewest: a device passes on what the next one wants. A way to the next
        group may change groups at any of its devices. The way of a device to itself is empty.

        Raises:
            UnsupportedError: a pair has no way; says what would give it one.
        """
        own = self._own()
        codes = source * 2 * self.k + destination
        hops, first = np.zeros(2 * self.k * self.k, np.int64), np.zeros(2 * self.k * self.k, np.int64)
        pipes: list[int] = []
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            a, b = divmod(code, 2 * self.k)
            way = [] if a == b else [own[code]] if code in own else self._relay(a, b)
            hops[code], first[code] = len(way), len(pipes)
            pipes += way
        start = np.concatenate(([0], np.cumsum(hops[codes])))
        step = np.arange(start[-1]) - np.repeat(start[:-1], hops[codes])
        return start, np.array(pipes, dtype=np.int64)[np.repeat(first[codes], hops[codes]) + step]

    def _own(self) -> dict[int, int]:
        used = np.flatnonzero(self.bandwidth.max(axis=0, initial=0.0) > 0)
        codes = self.source[used] * 2 * self.k + self.destination[used]
        return dict(zip(codes.tolist(), used.tolist(), strict=True))

    def _relay(self, a: int, b: int) -> list[int]:
        """Fewest pipes from a to b; of equally many, the widest first."""
        mean = self.mean_bandwidth
        leaving: dict[int, list[int]] = {}
        for pipe in np.argsort(-mean, kind="stable").tolist():
            if mean[pipe] > 0:
                leaving.setdefault(int(self.source[pipe]), []).append(pipe)
        before: dict[int, tuple[int, int]] = {a: (-1, -1)}
        queue = deque([a])
        while queue and b not in before:
            at = queue.popleft()
            beyond = at - at % self.k
            for pipe in leaving.get(at % self.k, []):
                to = int(self.destination[pipe]) + beyond
                if to < 2 * self.k and to not in before:
                    before[to] = (at, pipe)
                    queue.append(to)
        if b not in before:
            raise UnsupportedError(self._unreachable(a, b))
        way: list[int] = []
        while b != a:
            b, pipe = before[b]
            way.insert(0, pipe)
        return way

    def _unreachable(self, a: int, b: int) -> str:
        where = f"device {b}" if b < self.k else f"device {b - self.k} of the next group"
        return (
            f"device {a} has no circuit to {where} and no way over others' circuits in any of "
            f"{len(self.bandwidth)} holds: expected a larger degree, more wavelengths, a placement with fewer peers or "
            "a fabric with holds"
        )


def grant(plan: HybridPlan, fabric: Fabric, timing: Timing | None = None) -> GroupCircuits:
    """The circuits that serve a plan's traffic best, on the whole fabric, and what they leave to every group.

    * circuit switch: max-min, set once; where a rank has more peers than planes, circuits go to the longest transfers,
      and the other pairs relay;
    * WDM ring: one hold, set once, or a cycle of holds with the duty cycle of ``timing``, whichever is expected to
      send the longest transfer sooner;
    * packet switches: pairs at the speed of their ports, two-tier trees as if all ports were busy.

    Args:
        timing: of the holds of a ring; by default a hold of ten reconfigurations.

    Raises:
        UnsupportedError: the fabric is none of these or has another number of ranks, or some pair is out of reach.
    """
    if plan.ranks != fabric.ranks:
        raise UnsupportedError(f"the plan is for {plan.ranks} ranks, but the fabric has {fabric.ranks}")
    matrix = plan.traffic().total
    traffic = Traffic.of(matrix) if matrix.sum() > 0 else None
    if isinstance(fabric, PacketSwitch | TwoTierSwitch):
        granted = _ports(plan, traffic, fabric)
    elif traffic is None:
        granted = _nothing(plan.k)
    elif isinstance(fabric, CircuitSwitch):
        granted = worst_group(plan, _on_switch(traffic, fabric), fabric)
    elif isinstance(fabric, WdmRing):
        granted = _on_ring(plan, traffic, fabric, timing)
    else:
        raise UnsupportedError(
            f"circuits for a placed plan on a {fabric.model_dump()['kind']}: expected a circuit-switch, a wdm-ring, a "
            "switch or a two-tier-switch"
        )
    granted.ways(*_pairs(plan))
    return granted


def worst_group(
    plan: HybridPlan, assignment: Assignment, fabric: Fabric, timing: Timing | None = None
) -> GroupCircuits:
    """Verify circuits, and take of every pipe what the group with the fewest circuits has of it, hold by hold."""
    traffic, circuits = assignment.traffic, assignment.circuits
    verify(circuits, fabric)
    pipe, codes = _pipes(plan.k, traffic)
    order = np.argsort(pipe, kind="stable")
    counts = circuits.counts(traffic)[:, order].reshape(circuits.holds, len(codes), plan.groups).min(axis=2)
    latency = np.zeros(len(codes))
    serving = traffic.find(circuits.source, circuits.destination)
    seconds = fabric.latency(circuits.source, circuits.destination, circuits.route) + fabric.step_overhead
    np.maximum.at(latency, pipe[serving], seconds)
    return GroupCircuits(
        k=plan.k,
        source=codes // (2 * plan.k),
        destination=codes % (2 * plan.k),
        bandwidth=counts * fabric.channel_bandwidth,
        latency=latency,
        port=np.arange(len(codes)),
        timing=timing,
        assignment=assignment,
    )


def _pipes(k: int, traffic: Traffic) -> tuple[Ints, Ints]:
    """The pipe of every pair of ranks, and the code ``source · 2 k + destination`` of every pipe."""
    a, b = traffic.source % k, traffic.destination % k
    next_group = traffic.source // k != traffic.destination // k
    codes, pipe = np.unique(a * 2 * k + b + k * next_group, return_inverse=True)
    return pipe, codes


def _pairs(plan: HybridPlan) -> tuple[Ints, Ints]:
    """Source and destination, as pipes number them, of all that a group sends."""
    model, data = plan.traffic()
    a, b = model[: plan.k, : plan.k].nonzero()
    sending = np.flatnonzero(data[: plan.k].sum(axis=1) > 0)
    return np.concatenate([a, sending]).astype(np.int64), np.concatenate([b, sending + plan.k]).astype(np.int64)


def _nothing(k: int) -> GroupCircuits:
    none = np.empty(0, np.int64)
    return GroupCircuits(
        k=k, source=none, destination=none, bandwidth=np.empty((1, 0)), latency=np.empty(0), port=none, timing=None,
        assignment=None,
    )  # fmt: skip


def _on_switch(traffic: Traffic, fabric: CircuitSwitch) -> Assignment:
    peers = max(np.bincount(traffic.source).max(), np.bincount(traffic.destination).max())
    if peers <= fabric.degree:
        return switch.assign(traffic, fabric)
    none = np.zeros(len(traffic), np.int64)
    counts = switch.fill_ports(traffic, fabric.degree, none)
    return Assignment(traffic, switch.realise(traffic, fabric, counts), switch.bound(traffic, fabric))


def _on_ring(plan: HybridPlan, traffic: Traffic, fabric: WdmRing, timing: Timing | None) -> GroupCircuits:
    reconfiguration = fabric.setup_time
    timing = timing or Timing(HOLD_RECONFIGURATIONS * reconfiguration, reconfiguration)
    return worst_group(plan, ring.assign(traffic, fabric), fabric)


def _ports(plan: HybridPlan, traffic: Traffic | None, fabric: PacketSwitch | TwoTierSwitch) -> GroupCircuits:
    """Every pair at the rate of the slowest link it takes, a tree's link divided among the ports below it."""
    if traffic is None:
        return _nothing(plan.k)
    domain = fabric.domain_size if isinstance(fabric, TwoTierSwitch) else fabric.ranks
    route = fabric.route(traffic.source, traffic.destination)
    taken = fabric.footprint(traffic.source, traffic.destination, route)
    rates = fabric.link_bandwidth()
    rates[4 * fabric.ranks :] /= domain
    rate = np.where(taken.length > 0, rates[np.minimum(taken.base + taken.start, fabric.links - 1)], np.inf).min(axis=1)
    pipe, codes = _pipes(plan.k, traffic)
    bandwidth, latency = np.full(len(codes), np.inf), np.zeros(len(codes))
    np.minimum.at(bandwidth, pipe, rate)
    np.maximum.at(latency, pipe, fabric.latency(traffic.source, traffic.destination, route))
    # A rank of a two-tier switch has a port into its domain and one into the tree.
    across = np.zeros(len(codes), np.int64)
    np.maximum.at(across, pipe, (traffic.source // domain != traffic.destination // domain).astype(np.int64))
    return GroupCircuits(
        k=plan.k,
        source=codes // (2 * plan.k),
        destination=codes % (2 * plan.k),
        bandwidth=bandwidth[None],
        latency=latency,
        port=codes // (2 * plan.k) + plan.k * across,
        timing=None,
        assignment=None,
    )
