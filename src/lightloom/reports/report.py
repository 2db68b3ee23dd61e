"""What a report says, as plain data that knows nothing of its display; SI units throughout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.cost.price import Cost
from lightloom.core.claims import Claim
from lightloom.core.units import format_energy
from lightloom.parallelism.plan import MemoryUse
from lightloom.reports.explore import ExploredPlan, LightMap
from lightloom.reports.figures.palette import SHARES

FRONT = "◆"
"""Marks what no other plan beats in time and energy both."""
ALIKE = "≈"
"""Marks rows whose time the 90 % interval of the difference does not tell apart from the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingRow:
    """One way to run the job.

    Raises:
        ValueError: the breakdown has an unknown part, or does not add up to the step time.
    """

    strategy: str
    algorithm: str
    step_time: float
    """Seconds."""
    breakdown: Mapping[str, float]
    """Seconds by what the step waits for, as ``Timeline.breakdown()`` gives them."""
    place: int = 0
    """Place in the ranking, from 1 on; 0 outside of a ranking."""
    exchange: str | None = None
    """Method by which replicas exchange gradients, in a few words; None for as they are."""
    exchange_effect: str = ""
    """What the method saves or loses against the same plan with gradients as they are, in a few words."""
    exchange_accuracy: str = ""
    """What is known of its effect on the loss: ``not measured``, or ``measured: `` and by which runs."""
    energy: float | None = None
    """Joules of a step over all ranks; None when some part has no source."""
    verified: bool = False
    """Whether every schedule in it passed the verifier."""
    lower_bound_ratio: float | None = None
    """Communication time over its proved lower bound."""
    fits: bool | None = None
    """Whether a rank's memory holds it; None when the memory's size is unknown."""
    label: str = ""
    """The plan in a few words; strategy and algorithm without it."""
    site: str = ""
    """Cluster and ranks."""
    global_batch: int = 1
    """Samples of a step."""
    memory: float | None = None
    """Bytes of the fullest rank."""
    known_energy: float | None = None
    """Joules of a step of the parts that have a source."""
    energy_mark: str = ""
    """What these say of the true joules: one of :data:`lightloom.reports.ledger.MARKS`."""
    on_front: bool = False
    """Whether no other plan is better in time and energy both."""
    half_width: float | None = None
    """Half of the 90 % interval of the step time, relative to it; None where no interval is known."""
    like_first: bool = False
    """Whether the interval of the difference does not tell it apart from the first."""
    closed_form: bool = False
    """Whether a closed form of a collective library stands for its exchanges, and no schedule."""
    runnable: bool = True
    """Whether a training framework can run the plan."""

    def __post_init__(self) -> None:
        unknown = set(self.breakdown) - set(SHARES)
        if unknown:
            raise ValueError(f"breakdown of {self.name}: unknown {sorted(unknown)}, expected {', '.join(SHARES)}")
        total = sum(self.breakdown.values())
        if not math.isclose(total, self.step_time, rel_tol=1e-6, abs_tol=1e-12):
            raise ValueError(
                f"breakdown of {self.name} adds up to {total} s, not to the step time of {self.step_time} s"
            )

    @property
    def interval(self) -> str:
        """The 90 % interval, with a mark where the row is not told apart from the first: ``±13 % ≈``."""
        if self.half_width is None:
            return ""
        return f"±{100 * self.half_width:.0f} %" + (f" {ALIKE}" if self.like_first else "")

    @property
    def name(self) -> str:
        """Plan and exchange of gradients in one line."""
        return " · ".join(part for part in (self.plan, self.exchange) if part)

    @property
    def plan(self) -> str:
        """Strategy, and what it consists of."""
        return self.label if self.strategy in self.label else f"{self.strategy} · {self.detail}"

    @property
    def detail(self) -> str:
        """What a plan consists of beside the name of its strategy."""
        return self.label or self.algorithm

    @property
    def samples_per_second(self) -> float:
        """Throughput of all ranks together; infinite for a step that takes no time."""
        return self.global_batch / self.step_time if self.step_time else float("inf")

    @property
    def sample_time(self) -> float:
        """Seconds of a step for each of its samples."""
        return self.step_time / self.global_batch

    @property
    def joules_per_sample(self) -> float | None:
        """Joules of a sample, of the parts that have a source; None where none has."""
        joules = self.energy if self.energy is not None else self.known_energy
        return None if joules is None else joules / self.global_batch

    @property
    def energy_per_sample(self) -> str:
        """Joules of a sample with their unit and ``energy_mark``."""
        known = self.joules_per_sample
        return f"{'' if known is None else self.energy_mark}{format_energy(known)}"

    def per_sample(self) -> dict[str, float]:
        """The breakdown of a step, shared between its samples."""
        return {key: seconds / self.global_batch for key, seconds in self.breakdown.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """One algorithm for one collective, beside what no algorithm can beat."""

    algorithm: str
    steps: int
    time: float
    """Seconds."""
    lower_bound: float
    """Seconds."""
    bound_by: str
    energy: float | None = None
    """Joules."""
    verified: bool = True
    times_repeated: float | None = None
    """Time over lower bound without the first set-up of circuits in either; None where a repeated run pays as much."""

    @property
    def times_bound(self) -> float | None:
        """Time over lower bound; None where the bound is zero."""
        return self.time / self.lower_bound if self.lower_bound else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBar:
    """What a rank's memory holds."""

    parts: Mapping[str, float]
    """Bytes by what they are for."""
    capacity: float | None = None
    """Bytes of the accelerator's memory; None when unknown."""

    @property
    def total(self) -> float:
        """Bytes altogether."""
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure as SVG, from :func:`lightloom.reports.figures.base.to_svg`."""

    title: str
    svg: str
    caption: str = ""
    explored: bool = False
    """Whether the part of the page that scripts draw shows the same, so that it hides this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Any other table; cells are text as shown. Columns of numbers only are set flush right.

    Raises:
        ValueError: a row has another number of cells than there are columns.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.title!r}: a row has {len(row)} cells for {len(self.columns)} columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One page: of a plan, a collective, or a study. Sections without content are left out."""

    title: str
    headline: str
    """The result in a few words."""
    explanation: str = ""
    """Why, in one sentence."""
    facts: tuple[tuple[str, str], ...] = ()
    """(name, value): model, cluster, batch, precision, ..."""
    ranking: tuple[RankingRow, ...] = ()
    """Fastest first."""
    reference: tuple[RankingRow, ...] = ()
    """The same job on the fabric that is set beside."""
    reference_name: str = "Reference fabric"
    not_sourced: tuple[str, ...] = ()
    """Values that no publication gives, hence left out or assumed."""
    notes: tuple[str, ...] = ()
    """Assumptions, and what the algorithms say about their choices."""
    pictures: tuple[Picture, ...] = ()
    collectives: tuple[CollectiveRow, ...] = ()
    collectives_title: str = "Collectives"
    memory: MemoryBar | None = None
    claims: tuple[Claim, ...] = ()
    """Published figures beside ours."""
    tables: tuple[Table, ...] = ()
    explored: tuple[ExploredPlan, ...] = ()
    """Plans of the ranking that a reader may look into, by their places."""
    light: LightMap | None = None
    """The schedule whose wavelengths a reader may look at step by step."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """As ``core.provenance.provenance`` gives it."""


def collective_row(algorithm: str, cost: Cost, bound: Bound) -> CollectiveRow:
    """The row of a verified schedule."""
    return CollectiveRow(
        algorithm=algorithm,
        steps=cost.steps,
        time=cost.time,
        lower_bound=bound.time,
        bound_by=bound.bound_by,
        energy=cost.energy,
        times_repeated=bound.repeated_ratio(cost),
    )


def memory_parts(use: MemoryUse) -> dict[str, float]:
    """Bytes of a rank's memory in a simulated step by what they are for, without parts of none."""
    return {name: nbytes for name, nbytes in asdict(use).items() if nbytes}
