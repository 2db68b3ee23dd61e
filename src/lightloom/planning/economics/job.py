"""One job on nodes that fail, with spares: its goodput in closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Config, Count, Dollars, Quantity, Seconds, Size
from lightloom.planning.economics import kernels

# Checkpoints and restarts in closed form: the optimal interval, and what share of the time is kept.
#
# compute τ │ stall C │ compute τ │ stall C │ compute …  ✗ failure │ downtime D │ restart R │ compute τ │ …
# └─ saved S later ─┘   └─ saved S later ─┘      back to the last checkpoint that is saved
#
# Failures are exponential with rate λ = 1/M, at any time but during D. Daly (2006), equation 9, gives the expected
# time of one segment with useful time τ:
#
# E = (M + D) e^{R/M} (e^{(τ+C)/M} − 1)
#
# Two generalisations keep it exact. Interruptions of several kinds, of rates λ_i and restarts R_i, replace
# (M + D) e^{R/M} by (M + Σ w_i D_i) / Σ w_i e^{−R_i/M} with w_i = λ_i/λ, where a failure during a restart begins the
# restart of its own kind. Asynchronous checkpoints, which are durable S after their stall, keep e^{−S/M} of the
# useful time: a run of exponential length T leaves floor((T − S)/(τ + C)) durable checkpoints, e^{−S/M} /
# (e^{(τ+C)/M} − 1) in the mean.


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Durations of one checkpoint. A blocking one stalls training until it is written; of an asynchronous one, training
    waits only for the copy in memory, and it protects nothing until it is saved."""

    stall: float
    """Seconds that training stops for each."""
    save: float = 0.0
    """Seconds after the stall until it is durable; 0 for blocking checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of the time by where it goes; all add up to 1."""

    useful: float
    """Training that is kept."""
    stalled: float
    """Share of the time that training waits for checkpoints."""
    recomputed: float
    """Training, and its checkpoints, since the last durable checkpoint before each failure."""
    restarting: float
    """Share of the time in downtime and restarts."""
    waiting: float = 0.0
    """Too few nodes work, and the job waits for a repair."""
    slowed: float = 0.0
    """Steps take longer than on a sound cluster."""

    def available(self, share: float) -> Shares:
        """Return the shares of the whole time where the job can run for ``share`` of it and waits for a repair for the
        rest. Waiting and slowing that these shares have already are dropped, so they must have none."""
        running = ("useful", "stalled", "recomputed", "restarting")
        return Shares(**{name: getattr(self, name) * share for name in running}, waiting=1 - share)

    def at_speed(self, speed: float) -> Shares:
        """Return the shares where training runs at ``speed``, 1 for that of a sound cluster: the useful share is
        multiplied by it, and the rest of that share becomes slowed, in place of what was slowed before."""
        return replace(self, useful=self.useful * speed, slowed=self.useful * (1 - speed))


def optimal_interval(mtbf: float, checkpoint: Checkpoint) -> float:
    """Return the useful seconds between checkpoints that keep the most of the time; infinite where nothing fails.
    ``mtbf`` is the mean number of seconds between interruptions of the job.

    The minimum of E(τ)/τ, E(τ) being the expected seconds that τ useful ones take, is τ = M (1 + W(−e^{−1−C/M})), M
    being ``mtbf``, C the stall and W the principal branch of Lambert's function. An interval shorter than ``save``
    allows would need two saves at once: the next checkpoint begins when the last one is saved, so that the result is at
    least ``save`` - C. The share kept falls on both sides of the optimum, so that this bound is then the best.
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


def interruption_rate(interruptions: Sequence[Interruption]) -> float:
    """Return the number of interruptions a second of all kinds together."""
    return sum(kind.rate for kind in interruptions)


def time_shares(interval: float, checkpoint: Checkpoint, interruptions: Sequence[Interruption]) -> Shares:
    """Return the shares of the time by where it goes (useful, stalled, recomputed, restarting), with a checkpoint after
    every ``interval`` useful seconds; nothing is waited for or slowed. Interruptions come at constant rates, during
    restarts too, which then begin anew.

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
    running = 1 / rate / cycle_time(interruptions)
    kept = math.exp(-checkpoint.save * rate)
    if period * rate > 700:
        kept = 0.0  # e^{period/M} is beyond what a float holds.
    elif period:
        kept = kept * period * rate / math.expm1(period * rate)
    useful = kept * (interval / period if period else 1.0)
    shares = {"useful": useful, "stalled": kept - useful, "recomputed": 1 - kept}
    return Shares(**{name: running * share for name, share in shares.items()}, restarting=1 - running)


def cycle_time(interruptions: Sequence[Interruption]) -> float:
    """Return the expected seconds from the beginning of one run between interruptions to the beginning of the next,
    downtime and restarts included, those that are interrupted too; infinite without interruptions, and where no restart
    ever succeeds."""
    rate = interruption_rate(interruptions)
    if rate == 0:
        return math.inf
    downtime = sum(kind.rate * kind.downtime for kind in interruptions) / rate
    survived = sum(kind.rate * math.exp(-kind.restart * rate) for kind in interruptions) / rate
    return (1 / rate + downtime) / survived if survived else math.inf


# Share of a cluster that can train while some of it is broken: blocks that any circuit joins, fixed slices, spares.
#
# reconfigurable   any ``needed`` of the blocks that work make a slice: floor(working / needed) slices
# static           a slice is fixed, and works only while all its hosts work
# spares           a job of ``needed`` nodes runs while at least so many of ``needed + spares`` work
#
# Hosts fail and are repaired independently of each other; each works with probability ``host``.


def host_availability(mtbf: float, repair: float) -> float:
    """Return the share of the time that a host works: MTBF / (MTBF + mean time to repair), both in seconds; 1 for an
    infinite MTBF."""
    return 1.0 if mtbf == math.inf else mtbf / (mtbf + repair)


def reconfigurable_share(blocks: int, needed: int, block: float) -> float:
    """Return the expected share of the ranks that can run in slices, where any blocks that work join into slices:
    ``needed`` / ``blocks`` · the mean of floor(working blocks / ``needed``).

    Args:
        blocks: number of blocks of the machine.
        needed: number of blocks of one slice.
        block: probability that a block works.

    Raises:
        ConfigError: ``needed`` is not from 1 to ``blocks``, or ``block`` not from 0 to 1.
    """
    _check_share(blocks, needed, block)
    from scipy.special import bdtrc

    # The sum of floor(k / needed) over the distribution is the sum over j of P(k >= j needed).
    slices = sum(float(bdtrc(number * needed - 1, blocks, block)) for number in range(1, blocks // needed + 1))
    return slices * needed / blocks


def static_share(blocks: int, needed: int, block: float) -> float:
    """Return the expected share of the ranks that can run in slices, where slices are fixed, as many as fit from the
    first block on, and work while all their blocks do.

    Args:
        blocks: number of blocks of the machine.
        needed: number of blocks of one slice.
        block: probability that a block works.

    Raises:
        ConfigError: ``needed`` is not from 1 to ``blocks``, or ``block`` not from 0 to 1.
    """
    _check_share(blocks, needed, block)
    return blocks // needed * needed / blocks * block**needed


def spare_share(nodes: int, needed: int, host: float) -> float:
    """Return the probability that at least ``needed`` of ``nodes`` work, each with probability ``host`` and
    independently.

    Raises:
        ConfigError: ``needed`` is not from 1 to ``nodes``, or ``host`` not from 0 to 1.
    """
    _check_share(nodes, needed, host)
    from scipy.special import bdtrc

    return float(bdtrc(needed - 1, nodes, host))


def _check_share(units: int, needed: int, share: float) -> None:
    """Raise ConfigError unless 1 <= ``needed`` <= ``units`` and the share is from 0 to 1."""
    if not 1 <= needed <= units:
        raise ConfigError(f"{needed} of {units} units: expected 1 to {units}")
    if not 0 <= share <= 1:
        raise ConfigError(f"availability {share:g}: expected 0 to 1, such as 0.99 or 99 %")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that needs ``nodes`` working nodes, of which each fails on its own, and that other causes interrupt too.

    Nodes, spares included, fail at ``node_rate`` whether the job runs or waits; lifetimes and repairs are exponential,
    and any number of repairs proceed at once. A node in use that fails is replaced by a spare that works, or the job
    waits for a repair. Under these assumptions the goodput is exact.
    """

    nodes: int
    node_rate: float
    """Failures of one node a second that take it out of service."""
    node_restart: float
    """Seconds from such a failure, or from the repair that ends a wait, until the job computes again."""
    repair: float
    """Mean seconds until a failed node works again."""
    spares: int = 0
    others: tuple[Interruption, ...] = ()
    """Interruptions that take no node out of service."""
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(stall=0.0))
    fixed_interval: float | None = None
    """Useful seconds between checkpoints; None: the optimum."""

    @property
    def interruptions(self) -> tuple[Interruption, ...]:
        """Interruptions of all kinds; the first is failures of nodes in use."""
        return (Interruption(name="nodes", rate=self.nodes * self.node_rate, restart=self.node_restart), *self.others)

    @property
    def mtbf(self) -> float:
        """Mean seconds between interruptions while the job runs or restarts; infinite where nothing fails."""
        rate = interruption_rate(self.interruptions)
        return 1 / rate if rate else math.inf

    @property
    def interval(self) -> float:
        """Useful seconds between checkpoints: ``fixed_interval`` where it is set, else the optimum."""
        return optimal_interval(self.mtbf, self.checkpoint) if self.fixed_interval is None else self.fixed_interval

    @property
    def availability(self) -> float:
        """Share of the time in which enough nodes work, spares included: each works on its own for 1 / (1 + failure
        rate · mean repair) of the time."""
        host = host_availability(1 / self.node_rate if self.node_rate else math.inf, self.repair)
        return spare_share(self.nodes + self.spares, self.nodes, host)

    def shares(self) -> Shares:
        """Return the shares of the time by where it goes, which add up to 1: useful, stalled by checkpoints,
        recomputed, restarting, and waiting for a repair; none is slowed."""
        return time_shares(self.interval, self.checkpoint, self.interruptions).available(self.availability)

    @property
    def goodput(self) -> float:
        """Share of the time that trains and is kept, between 0 and 1, at the full speed of steps."""
        return self.shares().useful


def total_job(mtbf: float, restart: float, checkpoint: Checkpoint, interval: float | None = None) -> Job:
    """Return the job that one rate of interruptions describes, with no nodes told apart (one node that never fails), as
    published logs do: every interruption comes ``mtbf`` seconds after the last in the mean, and takes ``restart``
    seconds. ``interval`` is the useful seconds between checkpoints, None for the optimum."""
    others = (Interruption(name="all", rate=1 / mtbf, restart=restart),)
    nodes: dict[str, Any] = {"nodes": 1, "node_rate": 0.0, "node_restart": restart, "repair": 0.0}
    return Job(**nodes, others=others, checkpoint=checkpoint, fixed_interval=interval)


# Inputs that a user states of failures, checkpoints and restarts; everything else has a default that is shown.

_Positive = Annotated[Seconds, Field(gt=0)]
Remedy = Literal["restart", "rewire", "damaged"]
"""Response to a failed link: a restart on a spare node, a spare channel by rewiring, or slower steps."""


class GoodputOptions(Config):
    """Inputs of a goodput; what is None is derived or has a default."""

    rates: str | None = None
    """A log of interruptions (``llama-3``, ``rsc-1``, a YAML file) for all causes. Null: mean times between failures of
    the cluster's parts, and Llama 3's rate of interruptions by software."""
    mtbf: dict[str, _Positive] = Field(default_factory=dict)
    """Mean times between failures by part or by group (accelerator, host, network, software), for one part or rank."""
    interruption_time: _Positive | None = None
    """Mean time between interruptions of the whole job, in the place of all rates."""
    recovery: dict[str, Seconds] = Field(default_factory=dict)
    """Seconds of parts of a restart, by name."""
    restart: Seconds | None = None
    """Seconds of every restart, in the place of its parts."""
    stall: Seconds | None = None
    """Seconds that training stops for each checkpoint; alone: a blocking checkpoint."""
    save: Seconds | None = None
    """Seconds until an asynchronous checkpoint is durable."""
    interval: _Positive | None = None
    """Useful seconds between checkpoints. Null: the optimum."""
    spares: Annotated[int, Field(ge=0, le=100_000, strict=True)] | None = None
    """Spare nodes. Null: as many as pay for themselves."""
    repair: Seconds | None = None
    """Mean seconds until a failed node works again."""
    node_ranks: Count | None = None
    """Ranks that fail and are replaced together. Null: those of a host."""
    remedy: Remedy | None = None
    """Response to a failed link. Null: whichever is best."""
    spare_channels: Annotated[int, Field(ge=0, le=4096, strict=True)] = 0
    """Spare wavelengths, transceivers or ports of every rank, to which rewiring can move a failed link."""
    damage_slowdown: Annotated[float, Field(ge=1)] | None = None
    """Times as long as a collective takes around a failed link. Null: as ``lightloom collective --without`` prices
    it."""
    communication: Annotated[float, Field(ge=0, le=1), Quantity("share", "30 %")] | None = None
    """Share of a step that waits for communication, which damage makes longer. Null: all of it, the worst case."""
    message: Size = 2.0**28
    """Bytes of the all-reduce at which damage is priced."""
    node_price: Dollars | None = None
    """Dollars of a node in use. Null: from the bill."""
    spare_price: Dollars | None = None
    """Dollars of a spare node. Null: those of a node in use."""

    @model_validator(mode="after")
    def _inputs_agree(self) -> Self:
        """Return the options themselves; ValueError for ``restart`` beside ``recovery``, ``save`` without ``stall``,
        ``interruption_time`` beside ``rates``, ``mtbf``, ``spares`` or ``repair``, an ``interval`` too short for a
        stated ``save`` (stall and interval below it), and ``spare_price`` beside ``spares``."""
        if self.restart is not None and self.recovery:
            raise ValueError("restart and recovery contradict each other: expected the whole or its parts")
        if self.save is not None and self.stall is None:
            raise ValueError("save without stall: expected the seconds that training stops for a checkpoint as well")
        if self.interruption_time is not None:
            others = {"rates": self.rates, "mtbf": self.mtbf, "spares": self.spares, "repair": self.repair}
            stated = [name for name, value in others.items() if value not in (None, {})]
            if stated:
                raise ValueError(
                    f"interruption_time and {stated[0]} contradict each other: expected the rate of the whole job, or "
                    "what it is made of"
                )
        if self.interval is not None and self.save is not None and self.interval + (self.stall or 0) < self.save:
            raise ValueError(
                f"interval of {self.interval:g} s: expected at least {self.save - (self.stall or 0):g} s, in which one "
                "checkpoint is saved before the next"
            )
        if self.spare_price is not None and self.spares is not None:
            raise ValueError(
                "spares and spare_price contradict each other: expected a number, or the price that decides it"
            )
        return self


def options_of(given: GoodputOptions | Mapping[str, object] | None) -> GoodputOptions:
    """Return options from what a user gives: options as they are, or inputs by field name, as numbers in SI units or
    texts with units; None, and inputs that are None, are left at their defaults.

    Raises:
        ConfigError: an option is unknown, cannot be read, is out of range or contradicts another.
    """
    if isinstance(given, GoodputOptions):
        return given
    return validate(GoodputOptions, {name: each for name, each in (given or {}).items() if each is not None}, "goodput")


# Months of training, played event by event: failures, repairs, spares and checkpoints as they come.
#
# The simulation shares nothing with the closed form but its inputs, and adds what that leaves out: lifetimes
# that are not exponential, repairs that wait for a crew, and racks whose nodes fail together.


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Departures from the assumptions of the closed form."""

    shape: float = 1.0
    """Weibull's shape of the lifetimes of nodes, at the same mean: below 1 young nodes fail more, above 1 old ones."""
    crews: int = 0
    """Repairs at once; 0 for as many as wanted."""
    rack: int = 1
    """Nodes of a rack."""
    rack_rate: float = 0.0
    """Failures a second of one whole rack."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a shape outside 0.2 to 20, negative crews, empty racks, or a rate that is negative or
        not finite."""
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
    """Result of a simulation: means over its runs."""

    goodput: float
    """Share of the time that was kept."""
    error: float
    """Standard error of ``goodput`` over the runs."""
    shares: Shares
    """Where the time went; stalls are those of checkpoints that were kept."""
    interruptions: float
    """Mean number of interruptions in a run."""
    seconds: float
    """Seconds of a run."""
    runs: int


def simulate(job: Job, seconds: float, *, runs: int = 8, seed: int = 0, world: World | None = None) -> Played:
    """Return the means over ``runs`` simulations of a job, event by event, for ``seconds`` each: the goodput with its
    standard error (NaN for a single run), the shares of the time (none slowed), and the number of interruptions of a
    run.

    Args:
        job: to be simulated.
        seconds: length of each run.
        runs: number of runs.
        seed: of the random numbers.
        world: departures from the assumptions of the closed form (Weibull lifetimes of nodes, repair crews, and racks
            that fail as a whole); None for none.

    Raises:
        ConfigError: no time to simulate, or no run.
    """
    if not 0 < seconds < math.inf:
        raise ConfigError(f"{seconds!r} seconds: expected a time to simulate")
    if runs < 1:
        raise ConfigError(f"{runs} runs: expected 1 or more")
    world = world or World()
    mtbf = 1 / job.node_rate if job.node_rate else math.inf
    scale, shape = mtbf / math.gamma(1 + 1 / world.shape), world.shape
    mtbf, scale, shape, restart, repair = map(float, (mtbf, scale, shape, job.node_restart, job.repair))
    nodes = kernels.Nodes(job.nodes, mtbf, scale, shape, restart, repair, world.crews, world.rack)
    racks = [[world.rack_rate * math.ceil((job.nodes + job.spares) / world.rack), 0.0]]
    kinds = np.array([[kind.rate, kind.restart] for kind in job.others] + racks)
    interval = min(job.interval, 2 * seconds)
    rhythm = kernels.Rhythm(*map(float, (interval, job.checkpoint.stall, job.checkpoint.save)))
    seeds = np.random.SeedSequence(seed).generate_state(runs)
    clock = np.empty(job.nodes + job.spares)
    totals = np.stack([kernels.play(int(each), float(seconds), nodes, kinds, rhythm, clock) for each in seeds])
    useful, restarting, waiting = (totals[:, : kernels.FAILURES].mean(axis=0) / seconds).tolist()
    stalled = useful * job.checkpoint.stall / interval if interval else 0.0
    lost = {"stalled": stalled, "recomputed": 1 - useful - stalled - restarting - waiting}
    return Played(
        goodput=useful,
        error=float((totals[:, kernels.USEFUL] / seconds).std(ddof=1) / math.sqrt(runs)) if runs > 1 else math.nan,
        shares=Shares(useful=useful, **lost, restarting=restarting, waiting=waiting),
        interruptions=float(totals[:, kernels.FAILURES].mean()),
        seconds=seconds,
        runs=runs,
    )
