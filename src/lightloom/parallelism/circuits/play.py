"""Traffic played through successive holds, and when every pair has sent its bytes.

Circuits are fluid pipes. A pair sends on all its circuits at once; one that has no circuit in the whole cycle relays
over the circuits of others, by the fewest hops, its bytes passing every circuit of the path at one rate. Pairs that
share circuits get max-min fair rates. One that has a circuit in another hold waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.capabilities import NEEDS_CIRCUITS
from lightloom.parallelism.circuits import ring, switch
from lightloom.parallelism.circuits.circuits import Circuits, Timing
from lightloom.parallelism.circuits.sharing import Sharing, direct, share, with_relays
from lightloom.parallelism.circuits.traffic import Traffic

Planner = Callable[[Traffic, float], Circuits]
"""Circuits of the next hold from what is still to send and the bytes that one circuit carries in a hold."""

_DONE = 1e-9
"""Share of a demand below which the rest is round-off."""


@dataclass(frozen=True, slots=True)
class Played:
    """When and how every pair of the traffic was served; arrays have shape [pair]."""

    finish: Floats
    """Seconds from the first reconfiguration's start, or from the first reading of the counters, to the last byte."""
    hops: Ints
    """Circuits in a row that the bytes pass: 1 direct, more relayed (in the hold that sent last)."""
    carried: Floats
    """Bytes moved, hops counted once each."""
    holds: int
    """Holds begun."""

    @property
    def makespan(self) -> float:
        """Seconds until all is sent."""
        return float(self.finish.max())

    @property
    def relayed(self) -> Ints:
        """Pairs that had to relay, by position in the traffic."""
        return np.flatnonzero(self.hops > 1)


def play_once(
    traffic: Traffic, circuits: Circuits, fabric: Fabric, timing: Timing, most_holds: int = 100_000
) -> Played:
    """Play traffic on one assignment, planned from a whole iteration: set once, or a cycle of holds repeated.

    A cycle of a single hold is reconfigured once and then stays; longer ones pay every hold's reconfiguration. The
    controller's latency is not charged: circuits are planned before the iteration.

    Raises:
        InputError: a pair has no circuit in any hold and no path over others' circuits, or ``most_holds`` is too few.
    """
    shares = _cycle(traffic, circuits, fabric)
    length = np.inf if circuits.holds == 1 else timing.hold
    state = _State(traffic)
    for hold in range(most_holds):
        start = hold * timing.period + timing.reconfiguration if hold else timing.reconfiguration
        _advance(state, shares[hold % circuits.holds], start, length)
        if not len(state.waiting):
            return Played(state.finish, state.hops, state.carried, hold + 1)
    raise _unfinished(state, traffic, most_holds)


def play_replanned(
    traffic: Traffic, planner: Planner, fabric: Fabric, timing: Timing, most_holds: int = 100_000
) -> Played:
    """Play traffic on circuits planned anew for every hold, from what was still to send when the counters were read.

    The counters of a hold are read ``controller_latency`` seconds before its reconfiguration begins, while the hold
    before still sends; the first are read at time 0. Pairs without a circuit wait: as others finish, theirs becomes the
    longest transfer.

    Raises:
        InputError: the planner grants no circuit to any pair that has bytes left, or ``most_holds`` is too few.
    """
    state = _State(traffic)
    capacity = fabric.channel_bandwidth * timing.hold
    estimate = traffic.nbytes
    for hold in range(most_holds):
        start = timing.controller_latency + hold * timing.period + timing.reconfiguration
        estimated = traffic.with_bytes(np.where(estimate > _DONE * traffic.nbytes, estimate, 0.0))
        granted = planner(estimated, capacity).counts(traffic).sum(axis=0)
        if not granted[state.waiting].any() and not (timing.controller_latency and hold):
            raise InputError("the planner granted no circuit to any pair with bytes left: expected at least one")
        sharing = direct(granted, fabric.channel_bandwidth)
        # The counters of the next hold are read before this one ends.
        early = max(timing.hold - timing.controller_latency, 0.0)
        _advance(state, sharing, start, early)
        estimate = state.left.copy()
        _advance(state, sharing, start + early, timing.hold - early)
        if not len(state.waiting):
            return Played(state.finish, state.hops, state.carried, hold + 1)
    raise _unfinished(state, traffic, most_holds)


def longest_first(fabric: Fabric) -> Planner:
    """Return a planner that gives each circuit to the longest transfer, and none that a pair cannot fill.

    Raises:
        InputError: the fabric has neither wavelengths around a ring nor switch planes.
    """

    def plan(traffic: Traffic, circuit_bytes: float) -> Circuits:
        most = np.ceil(traffic.nbytes / circuit_bytes).astype(np.int64)
        if fabric.wavelength_routed:
            return ring.assign_longest(traffic, fabric, most)
        none = np.zeros(len(traffic), np.int64)
        return switch.realise(traffic, fabric, switch.fill_ports(traffic, fabric.channels, none, most))

    if not fabric.assigns_circuits:
        raise InputError(f"circuits on a {fabric.kind_name}: {NEEDS_CIRCUITS}")
    return plan


class _State:
    """Bytes left of every pair, and what was seen so far."""

    def __init__(self, traffic: Traffic) -> None:
        self.total = traffic.nbytes
        self.left = traffic.nbytes.copy()
        self.finish = np.full(len(traffic), np.inf)
        self.hops = np.ones(len(traffic), np.int64)
        self.carried = np.zeros(len(traffic))

    @property
    def waiting(self) -> Ints:
        """Pairs with bytes left."""
        return np.flatnonzero(self.left > 0)

    def send(self, moved: Floats, rate: Floats, now: float) -> None:
        """Take ``moved`` bytes, sent at ``rate`` from time ``now`` on, off what is left."""
        before = self.left
        after = before - moved
        done = (before > 0) & (moved > 0) & (after <= _DONE * self.total)
        self.carried += np.where(done, before, moved) * self.hops
        self.finish[done] = now + before[done] / rate[done]
        self.left = np.where(done, 0.0, after)


def _advance(state: _State, sharing: Sharing, start: float, length: float) -> None:
    """Send for ``length`` seconds; rates are shared anew whenever a pair that shares circuits has finished."""
    now, end = start, start + length
    while now < end:
        rate = share(sharing, state.left > 0)
        active = rate > 0
        if not active.any():
            return
        state.hops = np.where(active, sharing.hops, state.hops)
        needs = np.full(len(rate), np.inf)
        needs[active] = state.left[active] / rate[active]
        shared = needs[sharing.shared & active]
        # Direct pairs do not disturb each other, so that only those that share mark a moment at which rates change.
        until = min(end, now + float(shared.min())) if len(shared) else end
        step = np.minimum(needs, until - now)
        state.send(rate * np.where(active, step, 0.0), rate, now)
        now = until


def _cycle(traffic: Traffic, circuits: Circuits, fabric: Fabric) -> list[Sharing]:
    """Return how pairs share the circuits of each hold.

    Raises:
        InputError: a pair can be served in no hold.
    """
    counts = circuits.counts(traffic)
    stranded = np.flatnonzero(counts.sum(axis=0) == 0)
    if not len(stranded):
        return [direct(row, fabric.channel_bandwidth) for row in counts]
    shares = []
    reached = np.zeros(len(stranded), dtype=bool)
    for hold in range(circuits.holds):
        standing = circuits.hold == hold
        cells = (np.ones(int(standing.sum())), (circuits.source[standing], circuits.destination[standing]))
        granted = sparse.csr_array(cells, shape=(traffic.ranks, traffic.ranks))
        sharing = with_relays(traffic, granted, stranded, fabric.channel_bandwidth)
        reached |= sharing.hops[stranded] > 0
        shares.append(sharing)
    if not reached.all():
        unserved = stranded[~reached]
        pair = int(unserved[0])
        raise InputError(
            f"rank {traffic.source[pair]} has no circuit to rank {traffic.destination[pair]} and no path over "
            f"others' circuits in any of {circuits.holds} holds ({len(unserved)} pairs in all): expected more holds, "
            "more circuits a rank, or the max-min objective"
        )
    return shares


def _unfinished(state: _State, traffic: Traffic, holds: int) -> InputError:
    share_left = float(state.left.sum() / traffic.nbytes.sum())
    return InputError(
        f"{len(state.waiting)} pairs still have {share_left:.1%} of the bytes to send after {holds} holds: expected a "
        "longer hold period, or more holds allowed (most_holds)"
    )
