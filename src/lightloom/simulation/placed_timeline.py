"""A placed step as a timeline: passes on devices, transfers on circuits, reconfigurations on micro-rings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.effort import Effort
from lightloom.parallelism.circuits.pipes import GroupCircuits
from lightloom.parallelism.hybrid import HybridPlan
from lightloom.simulation.placed_work import KINDS, PlacedWork
from lightloom.simulation.timeline import Interval, Timeline

MOST_TRANSFERS: Effort = 100_000
"""Number of transfers that a timeline shows one by one; beyond it, back-to-back transfers are shown as one."""


class Stretches(NamedTuple):
    """Sending, without the time in which a pipe was dark; arrays of shape [stretch]."""

    node: Ints
    start: Floats
    end: Floats


class PlacedEvents(NamedTuple):
    """Times of the nodes of a :class:`PlacedWork`, in seconds."""

    ready: Floats
    """[node] all that it waited for had happened."""
    start: Floats
    """[node]."""
    end: Floats
    """[node]; of a hop the last byte sent, which arrives ``nodes.delay`` later."""
    stretches: Stretches
    dark: Floats
    """[reconfiguration, 2] from and to."""


def placed_timeline(plan: HybridPlan, circuits: GroupCircuits, work: PlacedWork, events: PlacedEvents) -> Timeline:
    """Every pass, transfer and reconfiguration of a group; a transfer that ran into the dark in several intervals."""
    transfers = _transfers(plan, circuits, work, events.stretches)
    return Timeline.of([*_passes(plan, work, events), *transfers, *_reconfigurations(events.dark)])


def _passes(plan: HybridPlan, work: PlacedWork, events: PlacedEvents) -> list[Interval]:
    balanced, device = plan.balanced, plan.placement.device
    label = [balanced.label(x) for x in range(balanced.size)]
    start, end = events.start, events.end
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
    messages, balanced = work.messages, plan.balanced
    k, message = circuits.k, _message_of(work)
    shared = np.bincount(circuits.port).max(initial=0) > 1
    resources = [
        f"port {port} of device {a}" if shared else f"circuits {a}→{b if b < k else 'next group'}"
        for port, a, b in zip(
            (circuits.port // k).tolist(), circuits.source.tolist(), circuits.destination.tolist(), strict=True
        )
    ]
    names = [
        f"all-reduce bucket {about}" if KINDS[kind] == "all-reduce" else f"{KINDS[kind]} of {balanced.label(about)}"
        for kind, about in zip(messages.kind.tolist(), messages.about.tolist(), strict=True)
    ]
    node, start, end = stretches
    pipe, nbytes = work.nodes.pipe[node], work.nodes.amount[node]
    if len(node) > MOST_TRANSFERS:
        order, first = _runs(circuits.port[pipe], start, end)
        last = np.append(first[1:], len(order)) - 1
        nbytes = np.add.reduceat(nbytes[order], first)
        count = (last - first + 1).tolist()
        pipe, start, end = pipe[order[first]], start[order[first]], end[order[last]]
        labels = [f"{parcels} parcels" for parcels in count]
    else:
        labels = [names[index] for index in message[node].tolist()]
    return [
        Interval(resource=resources[p], category="transmission", name=label, start=a, end=b, details={"bytes": size})
        for p, label, a, b, size in zip(
            pipe.tolist(), labels, start.tolist(), end.tolist(), nbytes.tolist(), strict=True
        )
    ]


def _runs(port: Ints, start: Floats, end: Floats) -> tuple[Ints, Ints]:
    """Return an order by port and time, and where in it a transfer does not follow at once on the one before."""
    # A transfer without bytes ends when it starts: after the one that ends then, and before the one that starts then.
    order = np.lexsort((end, start, port))
    follows = (np.diff(port[order]) == 0) & (start[order][1:] == end[order][:-1])
    return order, np.concatenate(([0], np.flatnonzero(~follows) + 1))


def _message_of(work: PlacedWork) -> Ints:
    """Return the message of every node; −1 where there is none."""
    message = np.full(len(work.waits), -1)
    hops = work.messages.last - work.messages.first + 1
    offset = np.arange(int(hops.sum())) - np.repeat(np.cumsum(hops) - hops, hops)
    message[np.repeat(work.messages.first, hops) + offset] = np.repeat(np.arange(len(hops)), hops)
    return message


def _reconfigurations(dark: Floats) -> list[Interval]:
    return [
        Interval(resource="micro-rings", category="reconfiguration", name=f"hold {hold}", start=start, end=end)
        for hold, (start, end) in enumerate(dark.tolist())
    ]
