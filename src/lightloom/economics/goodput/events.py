"""Months of training, played event by event: failures, repairs, spares and checkpoints as they come.

It shares nothing with the closed form but its inputs, and also plays what the closed form leaves out: lifetimes that
are not exponential, repairs that wait for a crew, and racks whose nodes fail together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.economics.goodput.daly import Shares
from lightloom.economics.goodput.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the closed form does not have."""

    shape: float = 1.0
    """Weibull's shape of the lifetimes of nodes, at the same mean: below 1 young nodes fail more, above 1 old ones."""
    crews: int = 0
    """Repairs at once; 0 for as many as wanted."""
    rack: int = 1
    """Nodes of a rack."""
    rack_rate: float = 0.0
    """Failures a second of one whole rack."""

    def __post_init__(self) -> None:
        if not 0.2 <= self.shape <= 20:
            raise ConfigError(f"shape {self.shape:g} of Weibull lifetimes: expected 0.2 to 20")
        if self.crews < 0:
            raise ConfigError(f"{self.crews} repair crews: expected 1 or more, or 0 for as many as wanted")
        if self.rack < 1 or not 0 <= self.rack_rate < math.inf:
            raise ConfigError(
                f"racks of {self.rack} nodes that fail {self.rack_rate:g} times a second: expected 1 or more, 0 or more"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a simulation saw, in the mean over its runs."""

    goodput: float
    """Share of the time that was kept."""
    error: float
    """Standard error of ``goodput`` over the runs."""
    shares: Shares
    """Where the time went; stalls are those of checkpoints that were kept."""
    interruptions: float
    """Interruptions a run."""
    seconds: float
    """Seconds of a run."""
    runs: int


def simulate(job: Job, seconds: float, *, runs: int = 8, seed: int = 0, world: World | None = None) -> Played:
    """Play a job ``runs`` times for ``seconds`` each.

    Raises:
        ConfigError: no time to play, or no run.
    """
    if not 0 < seconds < math.inf:
        raise ConfigError(f"{seconds!r} seconds: expected a time to simulate")
    if runs < 1:
        raise ConfigError(f"{runs} runs: expected 1 or more")
    from lightloom.economics.goodput import _event_kernels as kernels

    world = world or World()
    mtbf = 1 / job.node_rate if job.node_rate else math.inf
    nodes = kernels.Nodes(
        job.nodes,
        mtbf,
        mtbf / math.gamma(1 + 1 / world.shape),
        world.shape,
        job.node_restart,
        job.repair,
        world.crews,
        world.rack,
    )
    racks = [[world.rack_rate * math.ceil((job.nodes + job.spares) / world.rack), 0.0]]
    kinds = np.array([[kind.rate, kind.restart] for kind in job.others] + racks)
    interval = min(job.interval, 2 * seconds)
    rhythm = kernels.Rhythm(interval, job.checkpoint.stall, job.checkpoint.save)
    seeds = np.random.SeedSequence(seed).generate_state(runs)
    clock = np.empty(job.nodes + job.spares)
    totals = np.stack([kernels.play(int(each), seconds, nodes, kinds, rhythm, clock) for each in seeds])
    kept = totals[:, kernels.USEFUL] / seconds
    useful, restarting, waiting = totals[:, : kernels.FAILURES].mean(axis=0) / seconds
    stalled = useful * job.checkpoint.stall / interval if interval else 0.0
    return Played(
        goodput=float(useful),
        error=float(kept.std(ddof=1) / math.sqrt(runs)) if runs > 1 else math.nan,
        shares=Shares(
            useful=float(useful),
            stalled=float(stalled),
            recomputed=float(1 - useful - stalled - restarting - waiting),
            restarting=float(restarting),
            waiting=float(waiting),
        ),
        interruptions=float(totals[:, kernels.FAILURES].mean()),
        seconds=seconds,
        runs=runs,
    )
