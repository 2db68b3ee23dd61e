"""The goodput of a cluster: how much of a month trains, what interrupts it, and what would be worth buying."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from lightloom.api.arguments import ClusterLike, Settings, load_cluster
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance
from lightloom.core.results import Document, Result, plain
from lightloom.core.units import format_time
from lightloom.economics.goodput.estimate import MONTH, Answer, Estimate
from lightloom.economics.goodput.evaluate import estimate_cluster, play
from lightloom.economics.goodput.events import Played, World
from lightloom.economics.goodput.worth import Change, Slices, SpareCount, changes, slices_of, spare_counts


@dataclass(frozen=True, repr=False, kw_only=True)
class Goodput(Result):
    """The share of the time that trains on a cluster, and where the rest goes."""

    estimate: Estimate
    months: float
    """Months of 30 days for which interruptions are counted and training is simulated."""
    slices: tuple[Slices, ...]
    simulated: Played | None
    origin: Document
    """Version, hash of the inputs, and seed."""

    @property
    def goodput(self) -> float | None:
        """Share of the time that trains and is kept; None where the rate of a cause is missing."""
        return self.estimate.goodput

    @property
    def most_goodput(self) -> float:
        """The same as far as causes are known: an upper bound where any is missing."""
        return self.estimate.most_goodput

    @property
    def missing(self) -> tuple[str, ...]:
        """Causes whose rate nothing states."""
        return self.estimate.missing

    @property
    def changes(self) -> tuple[Change, ...]:
        """What single changes are worth."""
        return changes(self.estimate)

    @property
    def spare_counts(self) -> tuple[SpareCount, ...]:
        """Numbers of spare nodes, and below which price each pays."""
        return spare_counts(self.estimate) if self.estimate.options.interruption_time is None else ()

    @property
    def interruptions(self) -> float:
        """Interruptions expected in ``months``, were the job never to wait."""
        return self.months * MONTH / self.estimate.job.mtbf

    def summary(self) -> str:
        each = self.estimate
        most = "at most " if each.missing else ""
        return (
            f"{most}{each.most_goodput:.2%} of the time trains on {each.machine.ranks:,} ranks of {each.machine.name}: "
            f"an interruption every {_duration(each.job.mtbf)}, a checkpoint every {_duration(each.job.interval)}"
        )

    def to_json(self) -> Document:
        """Return the document that ``lightloom goodput --json`` prints."""
        each = self.estimate
        document = {
            "schema": "lightloom.goodput/1",
            "cluster": each.machine.name,
            "ranks": each.machine.ranks,
            "nodes": each.machine.nodes,
            "node_ranks": each.machine.node_ranks,
            "spare_nodes": each.job.spares,
            "goodput": each.goodput,
            "most_goodput": each.most_goodput,
            "missing": list(each.missing),
            "shares": asdict(each.shares),
            "availability": each.job.availability,
            "speed": each.speed,
            "mean_time_between_interruptions_s": each.job.mtbf,
            "interval_s": each.job.interval,
            "checkpoint": asdict(each.job.checkpoint),
            "months": self.months,
            "interruptions": self.interruptions,
            "causes": self.rows(),
            "dollars": each.dollars,
            "dollars_missing": list(each.node_price.missing),
            "spares": [asdict(row) for row in self.spare_counts],
            "worth": [asdict(change) for change in self.changes],
            "slices": [asdict(row) for row in self.slices],
            "simulated": None if self.simulated is None else asdict(self.simulated),
            "assumptions": list(each.assumptions),
            "provenance": dict(self.origin),
        }
        return {name: plain(value) for name, value in document.items()}

    def rows(self) -> list[Document]:
        return [self._row(answer) for answer in self.estimate.answers]

    def _row(self, answer: Answer) -> Document:
        cause = answer.cause
        seconds = self.months * MONTH * self.estimate.machine.ranks
        return {
            "cause": cause.name,
            "group": cause.group,
            "interruptions": None if cause.rate is None else cause.rate * seconds,
            "restart_s": None if cause.rate is None else answer.restart,
            "remedy": None if answer.chosen is None else answer.chosen.remedy,
            "source": cause.source,
            "remedies": [
                {
                    "remedy": response.remedy,
                    "goodput": goodput,
                    "restart_s": response.restart if response.possible else None,
                    "slowdown": response.slowdown if response.possible else None,
                    "why": response.why,
                }
                for response, goodput in answer.alternatives
            ],
        }

    def display_rows(self) -> list[dict[str, object]]:
        return [
            {
                "cause": row["cause"],
                "interruptions": "not sourced" if row["interruptions"] is None else f"{row['interruptions']:.3g}",
                "restart": "" if row["restart_s"] is None else _duration(row["restart_s"]),
                "remedy": row["remedy"] or "",
            }
            for row in self.rows()
        ]


def _duration(seconds: float) -> str:
    """Return a time of seconds to days in a fitting unit."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.4g} {unit}"
    return format_time(seconds)


def goodput(
    cluster: ClusterLike,
    *,
    ranks: int | None = None,
    months: float = 1.0,
    slices: Sequence[int] = (),
    block: int | None = None,
    host_availability: float | None = None,
    simulate: bool | World = False,
    runs: int = 8,
    seed: int = 0,
    set: Settings | None = None,
    **options: object,
) -> Goodput:
    """Return how much of the time trains on a cluster, after failures, checkpoints, restarts and waits for repairs.

    >>> goodput("h100-1024-fat-tree-400g", restart="5min", stall="30s")

    Args:
        cluster: a name of the catalog, a YAML file or a cluster.
        ranks: ranks of the job in the place of the cluster's, with as many parts for each; they may be more than a
            cluster can have.
        months: months of 30 days for which interruptions are counted and training is simulated.
        slices: sizes of slices in ranks, of which the share that can run is computed.
        block: ranks of a block of slices; None: those that circuit switches join, or a node.
        host_availability: share of the time that a host works, for slices; None: from rates and repairs.
        simulate: whether months of training are played event by event, or what they are to have beside the closed form.
        runs: how often the months are played.
        seed: of the simulation.
        set: fields of the cluster by their path, ``{"fabric.wavelengths": 16}``.
        **options: fields of :class:`lightloom.economics.goodput.options.GoodputOptions`.

    Raises:
        InputError: an option that cannot be read, is out of range or contradicts another.
    """
    place = load_cluster(cluster, set=set)
    if not 0 < months <= 1200:
        raise ConfigError(f"months={months:g}: expected more than 0 and at most 1200")
    result = estimate_cluster(place, options, ranks=ranks)
    counted = tuple(slices_of(result, each, block, host_availability) for each in slices)
    world = simulate if isinstance(simulate, World) else World()
    played = play(result, months, runs, seed, world) if simulate else None
    asked: list[object] = [place.to_json(), result.options.model_dump(mode="json"), ranks, months, list(slices), block]
    asked += [host_availability, [asdict(world), runs] if simulate else None]
    return Goodput(
        estimate=result,
        months=months,
        slices=counted,
        simulated=played,
        origin=provenance(asked, seed if simulate else None),
    )
