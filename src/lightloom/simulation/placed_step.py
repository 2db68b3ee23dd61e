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

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.arrays import Floats
from lightloom.core.effort import Effort
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.circuits.circuits import Timing
from lightloom.parallelism.circuits.group import grants
from lightloom.parallelism.circuits.pipes import GroupCircuits
from lightloom.parallelism.circuits.regrant import Regrant
from lightloom.parallelism.hybrid import HybridPlan
from lightloom.simulation.placed_run import PlacedRun
from lightloom.simulation.placed_timeline import PlacedEvents, Stretches, placed_timeline
from lightloom.simulation.placed_work import PlacedWork, placed_work
from lightloom.simulation.timeline import SHARES, Timeline

_BREAKDOWN = ("compute_s", "exposed_communication_s", "exposed_reconfiguration_s", "idle_s")
MOST_HOLDS: Effort = 1_000_000
"""Number of holds of one step after which the simulation is given up."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedStep:
    """Times, bytes and memory of one step of a placed plan, in every group."""

    plan: HybridPlan
    circuits: GroupCircuits
    step_time: float
    """Duration of the step, in seconds."""
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
    """The work of the step."""
    events: PlacedEvents
    """Times of the work, of a step's last micro-batch."""
    micro_batches: int = 1
    earlier: PlacedStep | None = None
    """The passes of each micro-batch before the last, which accumulate gradients."""

    @cached_property
    def timeline(self) -> Timeline:
        """Every pass, transfer and reconfiguration of a group, on devices, circuits and micro-rings."""
        last = placed_timeline(self.plan, self.circuits, self.work, self.events)
        if self.earlier is None:
            return last
        period, before = self.earlier.step_time, self.earlier.timeline.intervals
        starts = [number * period for number in range(self.micro_batches)]
        parts = [*((start, before) for start in starts[:-1]), (starts[-1], last.intervals)]
        return Timeline.of(
            replace(each, start=each.start + start, end=each.end + start) for start, part in parts for each in part
        )

    def after(self, earlier: PlacedStep, count: int) -> PlacedStep:
        """Return the step of which this is the last micro-batch, after ``count`` others, one after the other."""

        def added(ours: dict[str, float], theirs: dict[str, float]) -> dict[str, float]:
            return {name: ours[name] + count * theirs[name] for name in ours}

        return replace(
            self,
            step_time=self.step_time + count * earlier.step_time,
            breakdown=added(self.breakdown, earlier.breakdown),
            busy_time=added(self.busy_time, earlier.busy_time),
            waited_for_circuits=self.waited_for_circuits + count * earlier.waited_for_circuits,
            relayed_bytes=self.relayed_bytes + count * earlier.relayed_bytes,
            sent_bytes=self.sent_bytes + count * earlier.sent_bytes,
            micro_batches=count + 1,
            earlier=earlier,
        )


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
    """Simulate one step.

    Args:
        circuits: with ``timing``, holds come round, the first after a reconfiguration at time 0.
        compression_ratio: bytes of a gradient for each byte sent between groups.
        accumulates: whether these are the passes of a micro-batch that neither exchanges gradients nor updates.
        regrant: grants every hold but the first from what waits when the counters are read, the controller's latency
            before the reconfiguration; the first from all that the step sends. See ``circuits.regrant.regrants``.

    Raises:
        UnsupportedError: two devices that exchange data have no path over the circuits, or the step has no end.
        ConfigError: the circuits are of another group size or, to be granted anew, without timing, or the ratio is not
            positive.
    """
    _check(plan, circuits, compression_ratio, regrant)
    work = placed_work(plan, circuits, accelerator, settings, compression_ratio, accumulates=accumulates)
    run = PlacedRun(work, plan.k, len(circuits.source))
    if circuits.timing is None:
        run.advance(np.inf, circuits.bandwidth[0])
    elif regrant is None:
        _cycle(run, circuits, circuits.timing)
    else:
        _replan(run, circuits.timing, regrant)
    return _result(run, plan, circuits)


def _check(plan: HybridPlan, circuits: GroupCircuits, ratio: float, regrant: Regrant | None) -> None:
    if circuits.k != plan.k:
        raise ConfigError(f"circuits of groups of {circuits.k} devices: expected {plan.k}, as placed")
    if regrant is not None and circuits.timing is None:
        raise ConfigError("circuits that stand from step to step: expected the timing of holds to grant them anew")
    if not 0 < ratio < math.inf:
        raise ConfigError(f"compression ratio of {ratio}: expected more than 0, and finite")


def simulate_best(
    plan: HybridPlan,
    fabric: Fabric,
    accelerator: Accelerator,
    settings: TrainingSettings,
    *,
    compression_ratio: float = 1.0,
    timing: Timing | None = None,
) -> PlacedStep:
    """Return the shortest step of all that the fabric can grant (``circuits.group.grants``).

    Raises:
        UnsupportedError: as :func:`simulate_placed`, or the fabric grants no circuits.
    """
    steps = [
        simulate_placed(plan, circuits, accelerator, settings, compression_ratio=compression_ratio)
        for circuits in grants(plan, fabric, timing)
    ]
    return min(steps, key=lambda step: step.step_time)


def _cycle(run: PlacedRun, circuits: GroupCircuits, timing: Timing) -> None:
    """Holds come round, each after a reconfiguration."""
    for hold in range(MOST_HOLDS):
        start = hold * timing.period
        if run.reconfigure(start, timing):
            return
        if run.advance(start + timing.period, circuits.bandwidth[hold % len(circuits.bandwidth)]):
            return
    raise _endless()


def _replan(run: PlacedRun, timing: Timing, regrant: Regrant) -> None:
    """Every hold is granted from what waited when its counters were read; where nothing did, circuits stay."""
    rate, changed = regrant(run.sent), True
    early = max(timing.hold - timing.controller_latency, 0.0)
    for hold in range(MOST_HOLDS):
        start = hold * timing.period
        lit = start + timing.reconfiguration
        if run.reconfigure(start, timing) if changed else run.advance(lit, rate):
            return
        if run.advance(lit + early, rate):
            return
        waiting = run.waiting
        if run.advance(start + timing.period, rate):
            return
        changed = bool(waiting.any())
        rate = regrant(waiting) if changed else rate
    raise _endless()


def _endless() -> UnsupportedError:
    return UnsupportedError(f"the step has not ended after {MOST_HOLDS} holds: expected longer holds")


def _result(run: PlacedRun, plan: HybridPlan, circuits: GroupCircuits) -> PlacedStep:
    """Return the figures of the step that has run."""
    work, state, stretches = run.work, run.state, run.stretches
    step_time = float(state.totals[1])
    dark, messages = run.dark_until(step_time), work.messages
    return PlacedStep(
        plan=plan,
        circuits=circuits,
        step_time=step_time,
        breakdown=dict(zip(_BREAKDOWN, state.totals[2:].tolist(), strict=True)),
        busy_time=_busy_time(work, stretches, dark),
        waited_for_circuits=float(state.totals[0]),
        relayed_bytes=float(messages.nbytes[messages.last > messages.first].sum()),
        sent_bytes=float(work.nodes.amount[work.nodes.pipe >= 0].sum()),
        memory=np.bincount(plan.placement.device, plan.balanced.memory, plan.k).astype(np.float64),
        work=work,
        events=PlacedEvents(state.ready, state.start, state.end, stretches, dark),
    )


def _busy_time(work: PlacedWork, stretches: Stretches, dark: Floats) -> dict[str, float]:
    amount = work.nodes.amount
    busy = dict.fromkeys(SHARES, 0.0)
    busy["forward"] = float(amount[work.forward].sum())
    busy["backward"] = float(amount[work.backward].sum())
    busy["update"] = float(amount[work.update].sum())
    busy["transmission"] = float((stretches.end - stretches.start).sum())
    busy["reconfiguration"] = float((dark[:, 1] - dark[:, 0]).sum())
    return busy
