"""Circuits granted to all ranks, as one group sees them, so that one group stands for all.

    ranks     traffic of all groups ──► circuits, verified ──► of every pipe what the worst-served group has
    group     device a ══ pipe ══► device b          device a ══ pipe ══► device a of the next group

A pipe is all circuits from one rank to another. Packet switches have no circuits: there a pair is a pipe too, and those
that leave one port, or enter one, take turns on it.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lightloom.core.arrays import Column, Floats, Ints
from lightloom.core.errors import InputError, UnsupportedError
from lightloom.machines.fabrics.fabric import NEEDS_CIRCUITS, NEEDS_OWN_LINKS, Fabric
from lightloom.planning.parallelism.circuits import ring, switch
from lightloom.planning.parallelism.circuits.circuits import Assignment, GroupCircuits, Timing, Traffic
from lightloom.planning.parallelism.circuits.play import longest_first
from lightloom.planning.parallelism.circuits.ring import ENOUGH, assign_tiled, cached_relaxation, longest_tiled
from lightloom.planning.parallelism.circuits.verify import verify
from lightloom.planning.parallelism.placement.kernels import pass_time
from lightloom.planning.parallelism.placement.place import start_order
from lightloom.planning.parallelism.placement.placement import HybridPlan, Neighbours

CYCLES = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of holds of the cycles tried on a ring, until one is good enough."""
LONG = 4
"""Holds from which on any gap is enough, once every pair has a circuit."""
HOLD_RECONFIGURATIONS = 10
"""Length of a hold in reconfiguration times, where nothing else is said (SiP-ML, section 3.1)."""


def grant(plan: HybridPlan, fabric: Fabric) -> GroupCircuits:
    """Return the one of the sets of circuits of :func:`grants` that should be fastest for a plan, verified, as the
    pipes of one group with the bytes per second [hold, pipe] and seconds of latency [pipe] that the worst-served group
    has.

    They are compared by an estimate, nothing is simulated: the seconds that the busiest pipe sends, relays included,
    plus, where holds take turns, half the time that a pipe is dark in a cycle for each transfer of the chain of
    sub-operators with most transfers between devices, forward and back. The first of equals is returned.

    Raises:
        UnsupportedError: the fabric has no circuits or ports or another number of ranks, a rank of a WDM ring has fewer
            transceivers than channels in both directions, or some pair is out of reach.
    """
    granted = grants(plan, fabric)
    return granted[0] if len(granted) == 1 else min(granted, key=lambda circuits: _expected_seconds(plan, circuits))


def grants(plan: HybridPlan, fabric: Fabric) -> list[GroupCircuits]:
    """Return the sets of circuits that can serve a plan's traffic, each as the pipes of one group, which has what the
    worst-served group has: bytes per second [hold, pipe], seconds of latency [pipe], and the timing of the holds, None
    for a set that stands. There is at least one, of no pipes where nothing is sent. Circuits are verified.

    * circuit switch: one set, set once, with the largest least service (circuits of a pair over its demand); where a
      rank has more peers than planes, circuits go to the longest transfers, and the other pairs relay;
    * WDM ring: one hold, set once, then cycles of 2, 4, ... up to 64 holds, in this order, up to the first whose least
      service lies at most 10 % below its bound, the fractional optimum, or from 4 holds on the first in which every
      pair has a circuit; the same in every group;
    * packets: one set, of pairs at the speed of their ports, links that several ports share as if all of these were
      busy.

    Sets over which some transfer has no path are left out. Holds of a ring are ten reconfigurations long, one
    second where these take no time.

    Raises:
        UnsupportedError: the fabric has none of these or another number of ranks, a rank of a WDM ring has fewer
            transceivers than channels in both directions, or some pair is out of reach whatever is granted.
    """
    if plan.ranks != fabric.ranks:
        raise UnsupportedError(f"the plan is for {plan.ranks} ranks, but the fabric has {fabric.ranks}")
    matrix = plan.traffic.total
    if not matrix.sum() > 0:
        none, silent = np.empty(0, np.int64), np.empty((1, 0))
        return [GroupCircuits(plan.k, none, none, silent, silent[0], none, none)]
    traffic = Traffic.of(matrix)
    if fabric.switch_planes:
        candidates = [worst_group(plan, _assign_on_switch(traffic, fabric), fabric)]
    elif fabric.assigns_circuits:
        candidates = _grants_on_ring(plan, traffic, fabric)
    else:
        candidates = [_grant_ports(plan, traffic, fabric)]
    return _reaching(plan, candidates)


def default_timing(fabric: Fabric) -> Timing:
    """Return how long circuits of a fabric hold and set up: holds of ten of its set-up times, each after one set-up;
    where circuits change in no time, holds of one second and no set-up."""
    seconds = fabric.setup_time
    return Timing(HOLD_RECONFIGURATIONS * seconds if seconds else 1.0, seconds)


def worst_group(
    plan: HybridPlan, assignment: Assignment, fabric: Fabric, timing: Timing | None = None
) -> GroupCircuits:
    """Return circuits, verified, as pipes of one group: a pipe is all circuits from one device of it to another, or to
    one of the next group, and has a port of its own. Of every pipe these are the fewest circuits that any group has of
    it, hold by hold, as bytes per second [hold, pipe], and the largest latency of all groups, in seconds [pipe], the
    fabric's overhead of a step included. Sources are 0 to k - 1; destinations from k on are those of the next group.

    Args:
        plan: what the groups exchange.
        assignment: circuits of all ranks of the fabric; the result keeps it.
        fabric: the fabric that they are on.
        timing: how holds come round; None where circuits stand from step to step.

    Raises:
        VerificationError: the circuits cannot exist.
    """
    traffic, circuits = assignment.traffic, assignment.circuits
    verify(circuits, fabric)
    pipe, source, destination = pipes_of(plan.k, traffic)
    serving = pipe[traffic.find(circuits.source, circuits.destination)]
    seconds = fabric.latency(circuits.source, circuits.destination, circuits.route) + fabric.step_overhead
    latency, own = _largest(seconds, serving, len(source)), np.arange(len(source))
    bandwidth = least_of_groups(plan, circuits.counts(traffic), pipe).astype(np.float64) * fabric.channel_bandwidth
    return GroupCircuits(plan.k, source, destination, bandwidth, latency, own, own, timing, assignment)


def least_of_groups(plan: HybridPlan, counts: Ints, pipe: Ints) -> Ints:
    """Return the least number of circuits that any group has from one device to another, a pipe, hold by hold: [hold,
    pipe].

    Args:
        plan: the plan, whose traffic is the same in all groups.
        counts: circuits of all pairs of the traffic: [hold, pair].
        pipe: number of the pipe that each pair belongs to, one pair of every group each: [pair] (:func:`pipes_of`).
    """
    least: Ints = counts[:, np.argsort(pipe, kind="stable")].reshape(len(counts), -1, plan.groups).min(axis=2)
    return least


def pipes_of(k: int, traffic: Traffic) -> tuple[Ints, Ints, Ints]:
    """Return the number of the pipe (two places in a group, or in a group and the next) that every pair of ranks of the
    traffic belongs to, [pair], and the source and the destination of every pipe, each [pipe], as devices 0 to k - 1 of
    a group; k + d is device d of the next group. Pairs that lie alike in their groups share a pipe; pipes are in
    ascending order of (source, destination)."""
    a, b = traffic.source % k, traffic.destination % k
    next_group = traffic.source // k != traffic.destination // k
    codes, pipe = np.unique(a * 2 * k + b + k * next_group, return_inverse=True)
    return pipe, codes // (2 * k), codes % (2 * k)


def _sent(plan: HybridPlan) -> tuple[Ints, Ints, Floats]:
    """Return three columns of what the first group sends, each [transfer]: source and destination device (k + d for
    device d of the next group), and bytes, above 0; first the transfers of model parallelism, then those to the next
    group."""
    model, data = (matrix[: plan.k].tocoo() for matrix in plan.traffic)
    source, destination = np.concatenate([model.row, data.row]), np.concatenate([model.col, data.row + plan.k])
    nbytes: Floats = np.concatenate([model.data, data.data])
    sent = nbytes > 0
    return source[sent].astype(np.int64), destination[sent].astype(np.int64), nbytes[sent]


def _assign_on_switch(traffic: Traffic, fabric: Fabric) -> Assignment:
    """Return circuits set once: the max-min assignment where every rank has at most as many peers as planes, else all
    to the longest transfers, of equal ones to the nearest (the fewest ranks from source up to destination, modulo all),
    which leaves some pairs without; not verified yet. ``bound`` is the upper bound on the least service, in circuits of
    the largest demand."""
    peers = max(np.bincount(traffic.source).max(), np.bincount(traffic.destination).max())
    if peers <= fabric.channels:
        return switch.assign(traffic, fabric)
    # Equal transfers go by distance, so that they do not all take the ports of the first ranks.
    order = np.lexsort((traffic.source, (traffic.destination - traffic.source) % traffic.ranks))
    columns = {name: getattr(traffic, name)[order] for name in ("source", "destination", "nbytes")}
    by_distance = replace(traffic, **columns)
    counts = np.zeros(len(traffic), np.int64)
    counts[order] = switch.fill_ports(by_distance, fabric.channels, counts)
    return Assignment(traffic, switch.realise(traffic, fabric, counts), switch.bound(traffic, fabric))


def _grants_on_ring(plan: HybridPlan, traffic: Traffic, fabric: Fabric) -> list[GroupCircuits]:
    """Return the circuits of the cycles of 1, 2, 4, ... holds, each as what the worst-served group has, up to the first
    cycle whose least service lies at most 10 % below its bound, or from 4 holds on in which every pair has a circuit,
    or of 64 holds. A cycle of one hold has no timing; others have the default one, holds of ten reconfigurations (of
    one second where these take no time). The bound is the fractional optimum of the traffic, which is cached on disk.
    With several groups the circuits are the same in each.

    Raises:
        UnsupportedError: a rank of the ring has fewer transceivers than channels in both directions.
    """
    timing = default_timing(fabric)
    try:
        relaxation = cached_relaxation(traffic, fabric)
    except InputError as error:
        raise UnsupportedError(f"circuits on a wdm-ring: {error}") from error
    candidates = []
    for holds in CYCLES:
        if plan.groups > 1:
            assignment = assign_tiled(traffic, fabric, plan.k, holds, relaxation)
        else:
            assignment = ring.assign(traffic, fabric, holds, relaxation)
        candidates.append(worst_group(plan, assignment, fabric, timing if holds > 1 else None))
        if assignment.gap <= (1 - 1e-9 if holds >= LONG else ENOUGH):
            break
    return candidates


def _reaching(plan: HybridPlan, candidates: list[GroupCircuits]) -> list[GroupCircuits]:
    """Return those of the candidates that have a path for everything that the plan sends, relays included.

    Raises:
        UnsupportedError: none has; it is the error of the last candidate.
    """
    reaching, refused = list[GroupCircuits](), list[UnsupportedError]()
    for granted in candidates:
        try:
            granted.paths(*_sent(plan)[:2])
            reaching.append(granted)
        except UnsupportedError as error:
            refused.append(error)
    if not reaching:
        raise refused[-1]
    return reaching


def _expected_seconds(plan: HybridPlan, granted: GroupCircuits) -> float:
    """Return an estimate of the seconds that a plan's transfers take: those of the pipe (all circuits from one device
    to another) that sends longest at its mean bandwidth, relays included, plus, where holds take turns, half the time
    that a pipe which is lit in one hold is dark in a cycle, for each transfer of the chain of the computation with most
    transfers between devices, forward and back."""
    source, destination, nbytes = _sent(plan)
    start, pipe = granted.paths(source, destination)
    load = np.bincount(pipe, np.repeat(nbytes, np.diff(start)), len(granted.source))
    seconds = float((load[load > 0] / granted.mean_bandwidth[load > 0]).max(initial=0.0))
    if granted.timing is None:
        return seconds
    balanced = plan.balanced
    before = Neighbours(balanced.parent_start, balanced.parent, np.ones(len(balanced.parent)))
    none, *times = np.zeros((3, balanced.size))
    chain: float = pass_time(start_order(balanced), before, none, plan.placement.device, plan.k, *times)
    return seconds + 2 * chain * (len(granted.bandwidth) * granted.timing.period - granted.timing.hold) / 2


def _grant_ports(plan: HybridPlan, traffic: Traffic, fabric: Fabric) -> GroupCircuits:
    """Return a pipe for every pair of the traffic on a packet fabric, at the rate that its port has while all are busy,
    in bytes per second, and with the latency of a message, in seconds, the library's included; of all groups the
    slowest rate and the largest latency. Pipes that leave a device by the same port of it have the same number as
    ``port``, those that enter by one the same ``entry``; pipes with equal numbers send one after the other.

    Raises:
        UnsupportedError: the fabric has exclusive circuits in place of packets, or no ports that single ranks own.
    """
    ports = None if fabric.exclusive else fabric.ports(traffic.source, traffic.destination)
    if ports is None:
        raise UnsupportedError(f"placed plans on {fabric.kind_name}: {NEEDS_OWN_LINKS}")
    pipe, source, destination = pipes_of(plan.k, traffic)
    pipes = len(source)
    bandwidth = np.full(pipes, np.inf)
    np.minimum.at(bandwidth, pipe, ports.rate)
    seconds = fabric.latency(traffic.source, traffic.destination, fabric.route(traffic.source, traffic.destination))
    if fabric.library is not None:
        seconds = seconds + fabric.library.message_latencies(traffic.source, traffic.destination)
    return GroupCircuits(
        plan.k,
        source,
        destination,
        bandwidth=bandwidth[None],
        latency=_largest(seconds, pipe, pipes),
        port=source + plan.k * _largest(ports.port, pipe, pipes),
        entry=destination % plan.k + plan.k * _largest(ports.entry, pipe, pipes),
    )


def _largest(values: Column, pipe: Ints, pipes: int) -> Column:
    """Return the largest of ``values`` among those of each pipe, at least 0: [pipes]; ``pipe`` has the number of the
    pipe that each value is of."""
    largest = np.zeros(pipes, values.dtype)
    np.maximum.at(largest, pipe, values)
    return largest


# Circuits granted anew before every hold, from what waits: SiP-ML's dynamic traffic estimate (section 3.3).

Regrant = Callable[[Floats], Floats]
"""Bytes per second [pipe] of the next hold from the bytes [pipe] that wait."""


def regrants(plan: HybridPlan, fabric: Fabric, timing: Timing | None = None) -> tuple[GroupCircuits, Regrant]:
    """Return the pipes of a group, and the function that grants circuits on them before every hold: from the bytes that
    wait at each pipe, [pipe] and not all 0, it returns the bytes per second of each in the hold, [pipe].

    Circuits go to the transfers that are still the longest, and to no pair more than carry its bytes in a hold, rounded
    up (`play.longest_first`; on a ring of several groups the same in each, `ring.longest_tiled`); every grant is
    verified, and its rates are those of the group that got the fewest circuits of a pipe. Nothing is relayed: a pipe
    without a circuit waits. The pipes' ``bandwidth`` is that of one circuit each. On a ring whose ranks have fewer
    transceivers than channels in both directions, the function raises InputError.

    Args:
        plan: what the groups exchange.
        fabric: a WDM ring or circuit switch.
        timing: length of a hold and of the reconfiguration before it; None for :func:`default_timing`.

    Raises:
        UnsupportedError: the fabric has no circuits, or another number of ranks, or nothing is to be sent.
    """
    matrix = plan.traffic.total
    if plan.ranks != fabric.ranks or not fabric.assigns_circuits or not matrix.sum() > 0:
        raise UnsupportedError(
            f"circuits granted from hold to hold on a {fabric.kind_name} of {fabric.ranks} ranks: {NEEDS_CIRCUITS}, of "
            f"{plan.ranks} ranks, and traffic"
        )
    timing = timing or default_timing(fabric)
    traffic, circuit_bytes = Traffic.of(matrix), fabric.channel_bandwidth * timing.hold
    pipe, source, destination = pipes_of(plan.k, traffic)

    def regrant(waiting: Floats) -> Floats:
        """Return the bytes per second of each pipe in the next hold, of the worst-served group: [pipe]."""
        known = traffic.with_bytes(waiting[pipe])
        if fabric.wavelength_routed and plan.groups > 1:
            circuits = longest_tiled(known, fabric, plan.k, np.ceil(known.nbytes / circuit_bytes).astype(np.int64))
        else:
            circuits = longest_first(known, fabric, circuit_bytes)
        verify(circuits, fabric)
        granted: Floats = least_of_groups(plan, circuits.counts(traffic), pipe)[0].astype(np.float64)
        return granted * fabric.channel_bandwidth

    route = fabric.route(traffic.source, traffic.destination)
    seconds = fabric.latency(traffic.source, traffic.destination, route) + fabric.step_overhead
    latency, own = _largest(seconds, pipe, len(source)), np.arange(len(source))
    bandwidth = np.full((1, len(source)), fabric.channel_bandwidth, np.float64)
    return GroupCircuits(plan.k, source, destination, bandwidth, latency, own, own, timing), regrant
