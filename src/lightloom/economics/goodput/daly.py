"""Checkpoints and restarts in closed form: the optimal interval, and what share of the time is kept.

    compute τ │ stall C │ compute τ │ stall C │ compute …  ✗ failure │ downtime D │ restart R │ compute τ │ …
              └─ saved S later ─┘   └─ saved S later ─┘      back to the last checkpoint that is saved

Failures are exponential with rate λ = 1/M, at any time but during D. Daly (2006), equation 9, gives the expected time
of one segment with useful time τ:

    E = (M + D) e^{R/M} (e^{(τ+C)/M} − 1)

Two generalisations keep it exact. Interruptions of several kinds, of rates λ_i and restarts R_i, replace
(M + D) e^{R/M} by (M + Σ w_i D_i) / Σ w_i e^{−R_i/M} with w_i = λ_i/λ, where a failure during a restart begins the
restart of its own kind. Asynchronous checkpoints, which are durable S after their stall, keep e^{−S/M} of the useful
time: a run of exponential length T leaves floor((T − S)/(τ + C)) durable checkpoints, e^{−S/M} / (e^{(τ+C)/M} − 1) in
the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lightloom.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """One kind of interruption of a job: how often it comes, and how long the job takes to compute again."""

    name: str
    rate: float
    """Interruptions of the whole job a second."""
    restart: float
    """Seconds from the failure until the job computes again; a failure in between begins anew."""
    downtime: float = 0.0
    """Seconds before the restart in which nothing fails."""

    def __post_init__(self) -> None:
        for name in ("rate", "restart", "downtime"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name} of {self.name}: {value!r}: expected a number, 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What one checkpoint takes. A blocking one stalls training until it is written; of an asynchronous one, training
    waits only for the copy in memory, and it protects nothing until it is saved."""

    stall: float
    """Seconds that training stops for each."""
    save: float = 0.0
    """Seconds after the stall until it is durable; 0 for blocking checkpoints."""

    def __post_init__(self) -> None:
        for name in ("stall", "save"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name} of a checkpoint: {value!r}: expected seconds, 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Where the time goes; all add up to 1."""

    useful: float
    """Training that is kept."""
    stalled: float
    """Waiting for checkpoints."""
    recomputed: float
    """Training, and its checkpoints, since the last durable checkpoint before each failure."""
    restarting: float
    """Downtime and restarts."""
    waiting: float = 0.0
    """Too few nodes work, and the job waits for a repair."""
    slowed: float = 0.0
    """Steps take longer than on a sound cluster."""

    def available(self, share: float) -> Shares:
        """Return the shares where the job can run for ``share`` of the time and waits for the rest."""
        return Shares(
            useful=self.useful * share,
            stalled=self.stalled * share,
            recomputed=self.recomputed * share,
            restarting=self.restarting * share,
            waiting=1 - share,
        )

    def at_speed(self, speed: float) -> Shares:
        """Return the shares where training runs at ``speed`` of what a sound cluster does."""
        return replace(self, useful=self.useful * speed, slowed=self.useful * (1 - speed))


def optimal_interval(mtbf: float, checkpoint: Checkpoint) -> float:
    """Return the useful seconds between checkpoints that keep the most of the time.

    The minimum of E(τ)/τ is τ = M (1 + W(−e^{−1−C/M})), W being the principal branch of Lambert's function. An interval
    shorter than ``save`` allows would need two saves at once: the next checkpoint begins when the last one is saved.
    The share kept falls on both sides of the optimum, so that the bound is then the best.
    """
    if mtbf == math.inf:
        return math.inf
    from scipy.special import lambertw

    stall = checkpoint.stall / mtbf
    x = 1 + float(lambertw(-math.exp(-1 - stall)).real) if stall > 1e-12 else math.sqrt(2 * stall)
    for _ in range(3):
        # Next to the branch point the argument of W has lost digits: Newton's steps on x − 1 + e^{−x−C/M} = 0.
        slope = -math.expm1(-(x + stall))
        if slope > 0:
            x = max(x - (x + math.expm1(-(x + stall))) / slope, 0.0)
    return max(x * mtbf, checkpoint.save - checkpoint.stall, 0.0)


def segment_time(interval: float, stall: float, mtbf: float, restart: float, downtime: float = 0.0) -> float:
    """Return the expected seconds for ``interval`` useful ones and their checkpoint: Daly's equation 9."""
    return (mtbf + downtime) * math.exp(restart / mtbf) * math.expm1((interval + stall) / mtbf)


def interruption_rate(interruptions: Sequence[Interruption]) -> float:
    """Return the interruptions of all kinds a second."""
    return sum(kind.rate for kind in interruptions)


def time_shares(interval: float, checkpoint: Checkpoint, interruptions: Sequence[Interruption]) -> Shares:
    """Return where the time goes with a checkpoint after every ``interval`` useful seconds.

    Raises:
        ConfigError: an interval that is negative, or in which the last checkpoint is not yet saved.
    """
    if not interval >= 0 or interval + checkpoint.stall < checkpoint.save * (1 - 1e-12):
        least = max(checkpoint.save - checkpoint.stall, 0)
        raise ConfigError(
            f"interval {interval:g} s: expected at least {least:g} s, in which one checkpoint is saved before the next"
        )
    rate = interruption_rate(interruptions)
    period = interval + checkpoint.stall
    if rate == 0:
        useful = 1.0 if checkpoint.stall == 0 or interval == math.inf else interval / period
        return Shares(useful=useful, stalled=1 - useful, recomputed=0.0, restarting=0.0)
    mtbf = 1 / rate
    running = mtbf / cycle_time(interruptions)
    saved = math.exp(-checkpoint.save * rate)
    if period == 0:
        kept = saved
    elif period * rate > 700:
        kept = 0.0  # e^{period/M} is beyond what a float holds.
    else:
        kept = saved * period * rate / math.expm1(period * rate)
    useful = kept * (interval / period if period else 1.0)
    return Shares(
        useful=running * useful,
        stalled=running * (kept - useful),
        recomputed=running * (1 - kept),
        restarting=1 - running,
    )


def cycle_time(interruptions: Sequence[Interruption]) -> float:
    """Return the expected seconds from the beginning of one run to the beginning of the next; infinite without
    interruptions."""
    rate = interruption_rate(interruptions)
    if rate == 0:
        return math.inf
    downtime = sum(kind.rate * kind.downtime for kind in interruptions) / rate
    survived = sum(kind.rate * math.exp(-kind.restart * rate) for kind in interruptions) / rate
    if survived == 0:
        return math.inf
    return (1 / rate + downtime) / survived
