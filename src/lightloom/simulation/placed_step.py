"""A step of a placed plan, sub-operator by sub-operator and parcel by parcel, over the circuits that it was granted.

    device 0       F F F ─────────────── B B B ── update
    circuits 0→1       ▓▓▓ wait ▓▓
    micro-rings    ░░         ░░         ░░              holds: between them no pipe sends, while devices compute on

One group stands for all. Devices never wait for nothing: of what is ready they take forward passes before backward
ones, in the order of the placement. A pipe sends one parcel at a time, in the order in which they became ready.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.errors import UnsupportedError
from lightloom.parallelism.circuits.group import GroupCircuits
from lightloom.parallelism.hybrid import HybridPlan
from lightloom.parallelism.splitting import Floats, Ints
from lightloom.simulation.placed_work import KINDS, PlacedWork, placed_work
from lightloom.simulation.timeline import SHARES, Interval, Timeline

_BREAKDOWN = ("compute_s", "exposed_communication_s", "exposed_reconfiguration_s", "idle_s")
MOST_TRANSFERS = 100_000
"""That a timeline shows one by one; of more, those that follow at once on one another are shown as one."""
MOST_HOLDS = 1_000_000
"""Of one step, after which the simulation is given up."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedStep:
    """What one step of a placed plan takes, in every group."""

    plan: HybridPlan
    circuits: GroupCircuits
    step_time: float
    """Seconds, to the last event."""
    breakdown: dict[str, float]
    """As :meth:`Timeline.breakdown`: compute where any device computes."""
    busy_time: dict[str, float]
    """As :meth:`Timeline.busy_time`: seconds by category, over all devices and pipes."""
    waited_for_circuits: float
    """Seconds, summed over transfers, in which they were ready but their pipe was dark."""
    relayed_bytes: float
    """Bytes of a group that had no circuit of their own, each counted once."""
    sent_bytes: float
    """Bytes over all pipes of a group, what is relayed once a hop."""
    memory: Floats
    """Bytes [k] that each device holds, as the placement counts."""
    work: PlacedWork
    """What was to be done; its nodes are those of ``start`` and ``end``."""
    ready: Floats
    """Seconds [node]: all that a node waited for had happened."""
    start: Floats
    end: Floats
    """Of a hop: the last byte sent; it arrives ``work.nodes.delay`` later."""
    stretches: tuple[Ints, Floats, Floats]
    """Hops without the time in which their pipe was dark: node, from, to."""
    dark: Floats
    """[reconfiguration, 2] seconds from and to."""

    @cached_property
    def timeline(self) -> Timeline:
        """Every pass, transfer and reconfiguration of a group, on devices, pipes and micro-rings."""
        return Timeline.of([*_passes(self), *_transfers(self), *_reconfigurations(self.dark)])


def simulate_placed(
    plan: HybridPlan,
    circuits: GroupCircuits,
    accelerator: Accelerator,
    settings: TrainingSettings,
    *,
    compression_ratio: float = 1.0,
) -> PlacedStep:
    """Run one step.

    Args:
        compression_ratio: bytes of a gradient for each byte sent between groups.

    Raises:
        UnsupportedError: two devices that exchange data have no way over the circuits.
    """
    work = placed_work(plan, circuits, accelerator, settings, compression_ratio)
    run = _Run(work, plan.k)
    if circuits.timing is None:
        run.advance(np.inf, circuits.bandwidth[0])
    else:
        _cycle(run, circuits)
    return run.result(plan, circuits)


def _cycle(run: _Run, circuits: GroupCircuits) -> None:
    """Holds come round, each after a reconfiguration."""
    assert circuits.timing is not None
    dark = np.zeros(len(circuits.source))
    for hold in range(MOST_HOLDS):
        start = hold * circuits.timing.period
        run.dark.append((start, start + circuits.timing.reconfiguration))
        if run.advance(start + circuits.timing.reconfiguration, dark, dark=True):
            return
        if run.advance(start + circuits.timing.period, circuits.bandwidth[hold % len(circuits.bandwidth)]):
            return
    raise UnsupportedError(f"the step has not ended after {MOST_HOLDS} holds: expected longer holds")


class _Run:
    """The state of the events, and the stretches in which hops that ran into the dark have sent."""

    def __init__(self, work: PlacedWork, devices: int) -> None:
        from lightloom.simulation import _placed_kernels as kernels

        nodes, size, resources = work.nodes, len(work.waits), work.resources
        rooms = np.bincount(nodes.resource[nodes.resource >= 0], minlength=resources)
        room = np.concatenate(([0], np.cumsum(np.concatenate([rooms, [size, resources]]))))
        self._work, self._devices, self._now = work, devices, 0.0
        self.dark: list[tuple[float, float]] = []
        self._stretches: list[tuple[Ints, Floats, Floats]] = []
        self.state = kernels.State(
            waits=work.waits.copy(),
            **{name: np.full(size, np.nan) for name in ("ready", "start", "piece", "end")},
            key=np.empty(int(room[-1])),
            item=np.empty(int(room[-1]), np.int32),
            room=room,
            head=np.zeros(resources + 2, np.int64),
            size=np.zeros(resources + 2, np.int64),
            current=np.full(resources, -1, np.int32),
            left=np.zeros(resources),
            touched=np.zeros(resources, np.bool_),
            idle=np.empty(resources, np.int32),
            counts=np.zeros(4, np.int64),
            totals=np.zeros(6),
            stack=np.empty(size, np.int32),
        )
        kernels.begin(nodes, self.state, devices)

    def advance(self, until: float, rate: Floats, *, dark: bool = False) -> bool:
        """Run to ``until``; True when all is done."""
        from lightloom.simulation import _placed_kernels as kernels

        done: bool = kernels.advance(self._work.nodes, self.state, self._devices, self._now, until, rate, dark)
        self._now = until
        if until < np.inf:
            node = self.state.current[self._devices :]
            node = node[node >= 0]
            node = node[(rate[self._work.nodes.pipe[node]] > 0) & (self.state.piece[node] < until)]
            self._stretches.append((node.astype(np.int64), self.state.piece[node], np.full(len(node), until)))
        elif not done:
            raise AssertionError("a placed step waits for itself")
        return done

    def result(self, plan: HybridPlan, circuits: GroupCircuits) -> PlacedStep:
        """All that was seen."""
        work, state = self._work, self.state
        hops = np.flatnonzero(work.nodes.pipe >= 0)
        last = (hops, state.piece[hops], state.end[hops])
        stretches = tuple(np.concatenate(each) for each in zip(*self._stretches, last, strict=True))
        step_time = float(state.totals[1])
        dark = np.array(self.dark).reshape(-1, 2)
        dark = np.minimum(dark[dark[:, 0] < step_time], step_time)
        messages = work.messages
        return PlacedStep(
            plan=plan,
            circuits=circuits,
            step_time=step_time,
            breakdown=dict(zip(_BREAKDOWN, state.totals[2:].tolist(), strict=True)),
            busy_time=_busy_time(work, stretches, dark),
            waited_for_circuits=float(state.totals[0]),
            relayed_bytes=float(messages.nbytes[messages.last > messages.first].sum()),
            sent_bytes=float(work.nodes.amount[hops].sum()),
            memory=np.bincount(plan.placement.device, plan.balanced.memory, plan.k).astype(np.float64),
            work=work,
            ready=state.ready,
            start=state.start,
            end=state.end,
            stretches=(stretches[0], stretches[1], stretches[2]),
            dark=dark,
        )


def _busy_time(work: PlacedWork, stretches: Any, dark: Floats) -> dict[str, float]:
    amount = work.nodes.amount
    found = dict.fromkeys(SHARES, 0.0)
    found["forward"] = float(amount[work.forward].sum())
    found["backward"] = float(amount[work.backward].sum())
    found["update"] = float(amount[work.update].sum())
    found["transmission"] = float((stretches[2] - stretches[1]).sum())
    found["reconfiguration"] = float((dark[:, 1] - dark[:, 0]).sum())
    return found


def _passes(step: PlacedStep) -> list[Interval]:
    work, balanced, device = step.work, step.plan.balanced, step.plan.placement.device
    label = [balanced.label(x) for x in range(balanced.size)]
    start, end = step.start, step.end
    found = [
        Interval(
            resource=f"device {device[x]}", category=category, name=f"{label[x]} {category}",
            start=float(start[node]), end=float(end[node]),
        )
        for category, nodes in (("forward", work.forward), ("backward", work.backward))
        for x, node in enumerate(nodes.tolist())
    ]  # fmt: skip
    found += [
        Interval(
            resource=f"device {d}", category="update", name=f"optimizer update {d}",
            start=float(start[node]), end=float(end[node]),
        )
        for d, node in enumerate(work.update.tolist())
        if end[node] > start[node]
    ]  # fmt: skip
    return found


def _transfers(step: PlacedStep) -> list[Interval]:
    circuits, messages, balanced = step.circuits, step.work.messages, step.plan.balanced
    k, message = circuits.k, _message_of(step.work)
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
    node, start, end = step.stretches
    pipe, nbytes = step.work.nodes.pipe[node], step.work.nodes.amount[node]
    if len(node) > MOST_TRANSFERS:
        order, first = _runs(circuits.port[pipe], start, end)
        last = np.append(first[1:], len(order)) - 1
        nbytes = np.add.reduceat(nbytes[order], first)
        count = (last - first + 1).tolist()
        pipe, start, end = pipe[order[first]], start[order[first]], end[order[last]]
        labels = [f"{each} parcels" for each in count]
    else:
        labels = [names[each] for each in message[node].tolist()]
    return [
        Interval(resource=resources[p], category="transmission", name=label, start=a, end=b, details={"bytes": size})
        for p, label, a, b, size in zip(
            pipe.tolist(), labels, start.tolist(), end.tolist(), nbytes.tolist(), strict=True
        )
    ]


def _runs(port: Ints, start: Floats, end: Floats) -> tuple[Ints, Ints]:
    """An order by port and time, and where in it a transfer does not follow at once on the one before."""
    order = np.lexsort((end, start, port))
    follows = (np.diff(port[order]) == 0) & (start[order][1:] == end[order][:-1])
    return order, np.concatenate(([0], np.flatnonzero(~follows) + 1))


def _message_of(work: PlacedWork) -> Ints:
    """The message of every node; −1 where there is none."""
    found = np.full(len(work.waits), -1)
    hops = work.messages.last - work.messages.first + 1
    offset = np.arange(int(hops.sum())) - np.repeat(np.cumsum(hops) - hops, hops)
    found[np.repeat(work.messages.first, hops) + offset] = np.repeat(np.arange(len(hops)), hops)
    return found


def _reconfigurations(dark: Floats) -> list[Interval]:
    return [
        Interval(resource="micro-rings", category="reconfiguration", name=f"hold {hold}", start=start, end=end)
        for hold, (start, end) in enumerate(dark.tolist())
    ]
