"""What a job runs on its part of the fabric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lightloom.collectives.joint.parts import Part
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.pricing.job import Job
from lightloom.planner.traffic.exchanges import Exchange
from lightloom.planner.traffic.spec import TrafficJob


@dataclass(frozen=True, kw_only=True)
class Work:
    """A job on its fabric: what it runs, and how its step depends on how much its exchanges are slowed down."""

    job: TrafficJob
    fabric: Fabric
    seconds: float
    """Seconds of a step, or of one collective."""
    label: str
    """The plan, or the algorithm."""
    exchanges: Sequence[Exchange] = ()
    """What it sends over packet links; none on circuits."""
    slowed: Callable[[Mapping[str, float]], float] = field(repr=False)
    """Seconds of a step where the exchanges of each sort take so many times longer."""
    parts: Sequence[Part] = ()
    """Its collectives as parts of a joint schedule, on circuits."""
    job_priced: Job | None = None
    """The model at the prices of the fabric; None of a collective."""
    choice: Strategy | None = None
    """The plan; None of a collective."""
    channels: int | None = None
    """Channels of every link that it holds; None on packet fabrics."""
