"""Traffic played on circuits that are planned anew for every hold: SiP-ML's dynamic traffic estimate, section 3.3."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lightloom.core.errors import InputError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.circuits.circuits import Circuits, Timing, Traffic
from lightloom.planning.parallelism.circuits.play import DONE, Played, advance, direct, longest_first

Planner = Callable[[Traffic, Fabric, float], Circuits]
"""Circuits of the next hold from what is still to send and the bytes that one circuit carries in a hold."""


def play_replanned(
    traffic: Traffic,
    fabric: Fabric,
    timing: Timing,
    controller_latency: float = 0.0,
    planner: Planner = longest_first,
    most_holds: int = 100_000,
) -> Played:
    """Play traffic on circuits planned anew for every hold, from what was still to send when the counters were read.

    The counters of a hold are read ``controller_latency`` seconds before its reconfiguration begins, while the hold
    before still sends; the first are read at time 0. Pairs without a circuit wait: as others finish, theirs becomes the
    longest transfer.

    Raises:
        InputError: the planner grants no circuit to any pair that has bytes left, or ``most_holds`` is too few.
    """
    played, estimate = Played(traffic), traffic.nbytes
    for hold in range(most_holds):
        played.holds = hold + 1
        start = controller_latency + hold * timing.period + timing.reconfiguration
        estimated = traffic.with_bytes(np.where(estimate > DONE * traffic.nbytes, estimate, 0.0))
        circuits = planner(estimated, fabric, fabric.channel_bandwidth * timing.hold)
        granted = circuits.counts(traffic).sum(axis=0)
        if not granted[played.waiting].any() and not (controller_latency and hold):
            raise InputError("the planner granted no circuit to any pair with bytes left: expected at least one")
        sharing = direct(granted, fabric.channel_bandwidth)
        # The counters of the next hold are read before this one ends.
        early = max(timing.hold - controller_latency, 0.0)
        advance(played, sharing, start, early)
        estimate = played.left.copy()
        advance(played, sharing, start + early, timing.hold - early)
        if not len(played.waiting):
            return played
    raise played.unfinished()
