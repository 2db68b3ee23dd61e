"""One job on nodes that fail, with spares: its goodput in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from lightloom.core.errors import ConfigError
from lightloom.economics.goodput.availability import host_availability, spare_share
from lightloom.economics.goodput.daly import (
    Checkpoint,
    Interruption,
    Shares,
    interruption_rate,
    optimal_interval,
    time_shares,
)


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

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.spares < 0:
            raise ConfigError(f"{self.nodes} nodes and {self.spares} spares: expected 1 or more, and 0 or more")
        for name in ("node_rate", "node_restart", "repair"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name.replace('_', ' ')} {value!r}: expected a number, 0 or more")
        if self.fixed_interval is not None and not 0 < self.fixed_interval < math.inf:
            raise ConfigError(f"interval {self.fixed_interval!r}: expected seconds, more than 0")

    @property
    def interruptions(self) -> tuple[Interruption, ...]:
        """Interruptions of all kinds; the first is failures of nodes in use."""
        nodes = Interruption(name="nodes", rate=self.nodes * self.node_rate, restart=self.node_restart)
        return (nodes, *self.others)

    @property
    def mtbf(self) -> float:
        """Mean seconds between interruptions while the job runs or restarts."""
        rate = interruption_rate(self.interruptions)
        return 1 / rate if rate else math.inf

    @property
    def interval(self) -> float:
        """Useful seconds between checkpoints."""
        if self.fixed_interval is not None:
            return self.fixed_interval
        return optimal_interval(self.mtbf, self.checkpoint)

    @property
    def availability(self) -> float:
        """Share of the time in which enough nodes work."""
        host = host_availability(1 / self.node_rate if self.node_rate else math.inf, self.repair)
        return spare_share(self.nodes + self.spares, self.nodes, host)

    def shares(self) -> Shares:
        """Return where the time goes."""
        return time_shares(self.interval, self.checkpoint, self.interruptions).available(self.availability)

    @property
    def goodput(self) -> float:
        """Share of the time that trains and is kept."""
        return self.shares().useful

    def with_spares(self, spares: int) -> Job:
        """Return the job with another number of spares."""
        return replace(self, spares=spares)


def total_job(mtbf: float, restart: float, checkpoint: Checkpoint, interval: float | None = None) -> Job:
    """Return the job that one rate of interruptions describes, with no nodes told apart: published logs are such.

    Raises:
        ConfigError: a time that is not positive.
    """
    if not mtbf > 0:
        raise ConfigError(f"mean time to interruption {mtbf!r}: expected more than 0 s")
    every = Interruption(name="all", rate=1 / mtbf, restart=restart)
    return Job(
        nodes=1,
        node_rate=0.0,
        node_restart=restart,
        repair=0.0,
        others=(every,),
        checkpoint=checkpoint,
        fixed_interval=interval,
    )
