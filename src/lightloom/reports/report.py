"""What a report says, as plain data that knows nothing of its display; SI units throughout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lightloom.collectives.evaluate import Evaluation
from lightloom.core.claims import Claim
from lightloom.reports.figures.palette import SHARES
from lightloom.simulation.step import StepResult


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
    compression: str | None = None
    compression_effect: str = ""
    """What compression saves or loses against the same plan without it, in a few words."""
    energy: float | None = None
    """Joules of a step over all ranks; None when some part has no source."""
    verified: bool = False
    """Whether every schedule in it passed the verifier."""
    lower_bound_ratio: float | None = None
    """Communication time over its proved lower bound."""
    fits: bool | None = None
    """Whether a rank's memory holds it; None when the memory's size is unknown."""

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
    def name(self) -> str:
        """Strategy, algorithm and compression in one line."""
        return " · ".join(part for part in (self.plan, self.compression) if part)

    @property
    def plan(self) -> str:
        """Strategy and algorithm."""
        return f"{self.strategy} · {self.algorithm}"


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
    """What was found, in a few words."""
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
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """As ``core.provenance.provenance`` gives it."""


def ranking_row(
    result: StepResult,
    *,
    algorithm: str,
    compression: str | None = None,
    compression_effect: str = "",
    verified: bool,
    lower_bound_ratio: float | None = None,
) -> RankingRow:
    """The row of a simulated step."""
    return RankingRow(
        strategy=result.plan.strategy,
        algorithm=algorithm,
        compression=compression,
        compression_effect=compression_effect,
        step_time=result.step_time,
        breakdown=result.breakdown,
        energy=result.energy.total_j,
        verified=verified,
        lower_bound_ratio=lower_bound_ratio,
        fits=result.fits,
    )


def collective_rows(evaluations: Iterable[Evaluation]) -> tuple[CollectiveRow, ...]:
    """The rows of evaluated collectives, in the order given; all of them passed the verifier."""
    return tuple(
        CollectiveRow(
            algorithm=each.algorithm.name,
            steps=each.cost.steps,
            time=each.cost.time,
            lower_bound=each.bound.time,
            bound_by=each.bound.bound_by,
            energy=each.cost.energy,
        )
        for each in evaluations
    )


def memory_bar(result: StepResult, capacity: float | None) -> MemoryBar:
    """A rank's memory in a simulated step."""
    use = result.memory
    parts = {
        "parameters": use.parameters,
        "gradients": use.gradients,
        "optimizer": use.optimizer,
        "activations": use.activations,
        "gathered": use.gathered,
    }
    return MemoryBar(parts={name: nbytes for name, nbytes in parts.items() if nbytes}, capacity=capacity)
