"""Check a placement without code that makes one: it works on sets of pairs of devices."""

from itertools import pairwise

import numpy as np

from lightloom.core.errors import VerificationError
from lightloom.planning.parallelism.placement.placement import BalancedGraph, Placement

_SLACK = 1e-9


def check(placement: Placement, balanced: BalancedGraph, memory: float | None = None) -> None:
    """Check that every sub-operator is placed, and that reach, memory, durations, order and the makespan (the end of
    whichever sub-operator ends last in either pass) of a placement hold. Bytes may exceed the memory by a share of
    1e-9, and times deviate by as much of the makespan.

    Args:
        placement: devices and times of all sub-operators.
        balanced: the graph that was placed.
        memory: bytes of a device; None for no limit.

    Raises:
        VerificationError: names the sub-operator or device at fault.
    """
    _check_columns(placement, balanced)
    _check_degrees(placement, balanced)
    _check_memory(placement, balanced, memory)
    _check_pass(placement, balanced, forward=True)
    _check_pass(placement, balanced, forward=False)
    last = max([0.0, *placement.end, *placement.backward_end])
    if not np.isclose(last, placement.makespan, rtol=_SLACK, atol=0):
        raise VerificationError(f"the last sub-operator ends at {last} s, but the makespan is {placement.makespan} s")


def _check_columns(placement: Placement, balanced: BalancedGraph) -> None:
    """Raise VerificationError where a column has another length than the graph, or a sub-operator no device."""
    for name in ("device", "start", "end", "backward_start", "backward_end"):
        column = getattr(placement, name)
        if len(column) != balanced.size:
            raise VerificationError(f"{len(column)} rows for {balanced.size} sub-operators")
    for x, device in enumerate(placement.device):
        if not 0 <= device < placement.devices:
            raise VerificationError(f"{balanced.label(x)} is on device {device} of {placement.devices}")


def _check_degrees(placement: Placement, balanced: BalancedGraph) -> None:
    """Raise VerificationError where two devices that communicate lie further apart around the group than the reach
    allows: by its rule "peers" at most ⌊Δ/2⌋ either way, by "forward" the reader at most Δ ahead of the producer; from
    Δ = k − 1 on everything is in reach. Pairs that communicate are producers and readers, and neighbouring parts that
    add up gradients."""
    reader = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
    shared = np.flatnonzero(balanced.synchronised > 0)
    # Activations go to readers, and sums of an operator's copies from the device of each part to that of the next.
    before, after = np.concatenate([balanced.parent, shared - 1]), np.concatenate([reader, shared])
    k, degree = placement.devices, placement.reach.degree
    peers = placement.reach.rule == "peers"
    for a, b in sorted(set(zip(placement.device[before].tolist(), placement.device[after].tolist(), strict=True))):
        stride = min((b - a) % k, (a - b) % k) * 2 if peers else (b - a) % k
        if degree < k - 1 and stride > degree:
            raise VerificationError(f"devices {a} and {b} communicate out of reach: Δ = {degree}, k = {k}")


def _check_memory(placement: Placement, balanced: BalancedGraph, memory: float | None) -> None:
    """Raise VerificationError where a device holds more than ``memory`` bytes, by a share of over 1e-9; None for no
    limit."""
    if memory is None:
        return
    for device in range(placement.devices):
        held = float(balanced.memory[placement.device == device].sum())
        if held > memory * (1 + _SLACK):
            raise VerificationError(f"device {device} holds {held} B of {memory} B")


def _check_pass(placement: Placement, balanced: BalancedGraph, *, forward: bool) -> None:
    """Raise VerificationError where, in one pass, a sub-operator does not take its duration, starts before 0 s or
    before an input has arrived, two overlap on one device, or the backward pass (``forward`` False) begins before the
    forward pass has ended. An input from another device arrives a transfer after its producer's end: latency and bytes
    over the link's bandwidth. Times may deviate by 1e-9 of the makespan."""
    start, end = placement.start, placement.end
    duration = balanced.forward
    source = balanced.parent.astype(np.int64)
    target = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
    if not forward:
        start, end, duration = placement.backward_start, placement.backward_end, balanced.backward
        source, target = target, source
        if balanced.size and start.min() < placement.end.max() * (1 - _SLACK):
            raise VerificationError("the backward pass begins before the forward pass has ended")
    slack = _SLACK * max(placement.makespan, 1e-30)
    if balanced.size and (start.min() < -slack or np.abs(end - start - duration).max() > slack):
        raise VerificationError("a sub-operator does not take its duration")
    transfer = placement.link.latency + balanced.nbytes / placement.link.bandwidth
    arrival = end[source] + np.where(placement.device[source] != placement.device[target], transfer, 0.0)
    early = np.flatnonzero(start[target] < arrival - slack)
    if len(early):
        x, y = target[early[0]], source[early[0]]
        raise VerificationError(f"{balanced.label(int(x))} starts before {balanced.label(int(y))} has arrived")
    order = np.lexsort((end, start, placement.device))
    for x, y in pairwise(order.tolist()):
        if placement.device[x] == placement.device[y] and start[y] < end[x] - slack:
            raise VerificationError(
                f"{balanced.label(x)} and {balanced.label(y)} overlap on device {placement.device[x]}"
            )
