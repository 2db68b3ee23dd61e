"""The goodput of a cluster: how much of a month trains, what interrupts it, and what would be worth buying."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from lightloom.app.api.arguments import Natural, Number, Settings, Share
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Config, Count, Quantity, Seconds
from lightloom.core.results import Document, Result, attributes, cells, plain, provenance
from lightloom.core.units import format_time
from lightloom.machines.clusters import load as clusters
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import ClusterLike, load_cluster
from lightloom.machines.fabrics import load as fabrics
from lightloom.machines.fabrics.load import FabricLike, load_fabric
from lightloom.machines.parts.bill import Bill, BillChoices, Total
from lightloom.planning.economics.estimate import (
    MONTH,
    Change,
    Estimate,
    Slices,
    SpareCount,
    changes,
    estimate_cluster,
    play,
    slices_of,
    spare_counts,
)
from lightloom.planning.economics.job import GoodputOptions, Played, World
from lightloom.planning.economics.ledger import ClusterLedger, fabric_bill, site_of, unused_inputs


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
        """Goodput as far as causes are known: an upper bound where any is missing."""
        return self.estimate.most_goodput

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the causes of interruptions whose rate nothing states, those of a kind of part as "mean time between
        failures of" and its name; they are left out of :attr:`most_goodput`."""
        return self.estimate.missing

    @property
    def changes(self) -> tuple[Change, ...]:
        """Single changes to the job or its machine (checkpoints of half the time, restarts a minute shorter, half the
        interruptions; one more spare node, unless the time between interruptions of the whole job is given; a spare
        wavelength or port of every rank, where links can be rewired and no option settles it), each with ``name``, the
        ``goodput`` that it gives as far as causes are known, the relative ``gain`` over that without it, and the
        ``dollars`` that it is worth, the gain times the price of the machine (None where that is unknown); the largest
        gain first."""
        return changes(self.estimate)

    @property
    def spare_counts(self) -> tuple[SpareCount, ...]:
        """Numbers of spare nodes from two below to two above the chosen one, none below 0, ascending, each with
        ``spares``, ``goodput``, the price below which its last node pays in dollars (``worth``, None where no price is
        known and for no spares) and in prices of a node in use (``relative_worth``), and whether it is ``chosen``;
        empty where the time between interruptions of the whole job is given."""
        return spare_counts(self.estimate) if self.estimate.options.interruption_time is None else ()

    @property
    def interruptions(self) -> float:
        """Number of interruptions expected in ``months`` of 30 days, if the job never waited for repairs."""
        return self.months * MONTH / self.estimate.job.mtbf

    def summary(self) -> str:
        """Return a sentence: the share of the time that trains, in per cent ("at most" where a cause has no rate), the
        ranks and the name of the machine, and the mean time between interruptions and the time between checkpoints."""
        each = self.estimate
        most = "at most " if each.missing else ""
        return (
            f"{most}{each.most_goodput:.2%} of the time trains on {each.machine.ranks:,} ranks of {each.machine.name}: "
            f"an interruption every {format_duration(each.job.mtbf)}, a checkpoint every "
            f"{format_duration(each.job.interval)}"
        )

    def to_json(self) -> Document:
        """Return the document that ``lightloom goodput --json`` prints: the machine (``cluster``, ``ranks``, ``nodes``,
        ``node_ranks``, ``spare_nodes``); ``goodput`` (None where a rate is ``missing``), ``most_goodput`` and, under
        ``shares``, where all of the time goes (``useful``, ``stalled`` by checkpoints, ``recomputed``, ``restarting``,
        ``waiting`` for repairs and ``slowed``, which add up to 1); ``availability``, the share of the time in which
        enough nodes work, and ``speed``, the mean speed of steps relative to a sound machine;
        ``mean_time_between_interruptions_s`` and ``interval_s``, useful time between checkpoints (None where infinite);
        ``checkpoint``, seconds of its ``stall`` and ``save``; ``interruptions`` in ``months``; ``causes`` as of
        :meth:`rows`; ``dollars`` of nodes and spares, as far as known, with ``dollars_missing``; lists of rows:
        ``spares`` (numbers of spare nodes beside the chosen one), ``worth`` (single changes) and ``slices`` (sizes and
        the shares of the ranks that can run in them); ``simulated``, means over the runs of a simulation (None without
        one); and ``assumptions``; with schema and provenance."""
        each = self.estimate
        document = {
            "schema": "lightloom.goodput/1",
            **attributes(each.machine, "cluster=name ranks nodes node_ranks"),
            **attributes(each, "spare_nodes=job.spares goodput most_goodput missing"),
            "shares": asdict(each.shares),
            **attributes(each, "availability=job.availability speed mean_time_between_interruptions_s=job.mtbf"),
            "interval_s": each.job.interval,
            "checkpoint": asdict(each.job.checkpoint),
            **attributes(self, "months interruptions"),
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
        """Return a row for each cause of interruptions (a part by its name, or software; with a log of interruptions,
        a group of it): ``cause``, its ``group`` ("accelerator", "host", "network", "software" or "all"), the
        ``interruptions`` expected in ``months`` on all ranks and ``restart_s`` (both None where no rate is known), the
        chosen ``remedy`` (None where the cause is no link), the ``source`` of the rate, and under ``remedies``, empty
        where the cause is no link, each response to choose from: ``remedy`` ("restart" on a spare node, "rewire" to a
        spare channel, or "damaged", slower steps), ``goodput`` of the job with it, as far as causes are known,
        ``restart_s``, ``slowdown``, the factor by which steps take longer (these three None where it is impossible),
        and ``why``."""
        seconds = self.months * MONTH * self.estimate.machine.ranks
        return [
            {
                "cause": answer.cause.name,
                "group": answer.cause.group,
                "interruptions": None if answer.cause.rate is None else answer.cause.rate * seconds,
                "restart_s": None if answer.cause.rate is None else answer.restart,
                "remedy": None if answer.chosen is None else answer.chosen.remedy,
                "source": answer.cause.source,
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
            for answer in self.estimate.answers
        ]

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row of text for each cause of interruptions: "cause" (its name), "interruptions" expected in
        ``months`` on all ranks ("not sourced" where the rate is missing), "restart", the time of one (empty then), and
        the chosen "remedy" (empty where the cause is no link)."""
        rows = self.rows()
        for row in rows:
            row["interruptions"] = "not sourced" if row["interruptions"] is None else f"{row['interruptions']:.3g}"
            row["restart"] = "" if row["restart_s"] is None else format_duration(row["restart_s"])
        return cells("cause: {cause} | interruptions: {interruptions} | restart: {restart} | remedy: {remedy:s}", rows)


class Rack(Config):
    """Racks whose nodes fail together."""

    nodes: Count
    """Nodes of a rack."""
    mtbf: Annotated[Seconds, Field(gt=0)]
    """Mean time between failures of a rack as a whole."""


class GoodputSettings(GoodputOptions):
    """Settings of a goodput beside the cluster and its ranks: fields of ``lightloom goodput --settings`` and
    ``--set``."""

    months: float = 1.0
    """Months of 30 days for which interruptions are counted and training is simulated."""
    block: Count | None = None
    """Ranks of a block of slices. Null: those that circuit switches join, or a node."""
    host_availability: Annotated[float, Field(ge=0, le=1), Quantity("share", "99 %")] | None = None
    """Share of the time that a host works, for slices. Null: from rates and repairs."""
    runs: Count = 8
    """Number of times that the months are simulated."""
    weibull: float | None = None
    """Shape of the lifetimes of nodes that are simulated; below 1 young nodes fail more often, 1 is exponential."""
    crews: Count | None = None
    """Repairs at once that are simulated. Null: any number."""
    rack: Rack | None = None
    """Racks that fail as a whole, simulated."""

    def arguments(self) -> dict[str, Any]:
        """Return the settings that are not None as keywords of :func:`goodput`.

        If ``weibull``, ``crews`` or ``rack`` is set, which only a simulation uses, they become one keyword ``simulate``
        that asks for it; of these, what is not set means exponential lifetimes, any number of repairs at once, and no
        racks.
        """
        keywords = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        shape, crews, rack = (keywords.pop(name, None) for name in ("weibull", "crews", "rack"))
        if shape is None and crews is None and rack is None:
            return keywords
        racks = {} if rack is None else {"rack": rack.nodes, "rack_rate": 1 / rack.mtbf}
        return {**keywords, "simulate": World(shape=1.0 if shape is None else shape, crews=crews or 0, **racks)}


def format_duration(seconds: float) -> str:
    """Return seconds as text of three significant digits in the largest unit of days, hours and minutes of which there
    are two or more (``2.5 days``, ``36 h``), else as format_time does."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return format_time(seconds)


def goodput(
    cluster: ClusterLike,
    *,
    ranks: int | None = None,
    months: Number = 1.0,
    slices: Sequence[int] = (),
    block: Count | None = None,
    host_availability: Share | None = None,
    simulate: bool | World = False,
    runs: Count = 8,
    seed: Natural = 0,
    set: Settings | None = None,
    **options: object,
) -> Goodput:
    """Return the share of the time that trains on a cluster, after failures, checkpoints, restarts and waits for
    repairs, and where the rest goes.

    >>> goodput("h100-1024-no-nvlink-400g", restart="5min", stall="30s")

    Args:
        cluster: a name of the catalog, a YAML file or a cluster.
        ranks: ranks of the job, with the cluster's parts for each; they may be more than a cluster can have.
        months (N): months of 30 days for which interruptions are counted and training is simulated.
        slices: sizes of slices in ranks, of which the share that can run is computed.
        block: ranks of a block of slices; those that circuit switches join, or a node, without it.
        host_availability (SHARE): share of the time that a host works, for slices; from rates and repairs without it.
        simulate: whether months of training are played event by event, or what they are to have beside the closed form.
        runs: how often the months are played.
        seed: seed of the simulation.
        set: fields of the cluster by their path, ``{"fabric.wavelengths": 16}``.
        interval (TIME): useful time between checkpoints; the optimum without it.
        restart (TIME): time of every restart.
        rates (NAME): log of interruptions for all causes: llama-3, rsc-1, rsc-2 or a YAML file.
        interruption_time (TIME): time between interruptions of the whole job.
        spares: spare nodes; as many as pay for themselves without it.
        repair (TIME): time until a failed node works again.
        node_ranks: ranks that fail together; those of a host without it.
        remedy (NAME): what follows a failed link: restart, rewire or damaged; the best without it.
        spare_channels: spare wavelengths or ports of every rank.
        communication (SHARE): share of a step that waits for communication, as 30% or 0.3; all of it without it.
        damage_slowdown (TIMES): times as long as collectives take around a failed link; priced by synthesis without
            it.
        node_price (PRICE): price of a node in use, e.g. 300 k$; from the bill without it.
        spare_price (PRICE): price of a spare node; that of a node in use without it.
        **options: these from ``interval`` on and others of :class:`lightloom.planning.economics.job.GoodputOptions`.

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
    origin = provenance(asked, seed if simulate else None)
    return Goodput(estimate=result, months=months, slices=counted, simulated=played, origin=origin)


# Bills: what a fabric or a cluster is built of, and what that costs, draws and how often it fails.


@dataclass(frozen=True, repr=False, kw_only=True)
class PricedBill(Result):
    """The bill of a fabric, or of a cluster with its boards and hosts."""

    name: str
    """Name of what is billed: ``fabric two-tier-400g``."""
    bill: Bill
    choices: BillChoices
    unused: tuple[str, ...] = ()
    """Choices and prices that were given and change nothing."""

    @property
    def dollars(self) -> Total:
        """Price of the parts of one rank, in dollars, and what has no price."""
        return self.bill.dollars

    @property
    def static_power(self) -> Total:
        """Watts of the parts of one rank, busy or idle, and what has no watts."""
        return self.bill.static_power

    @property
    def failure_rate(self) -> Total:
        """Failures a second of the parts of one rank, and what has no rate."""
        return self.bill.failure_rate

    def summary(self) -> str:
        """Return a sentence: what is billed, its number of ranks, and the known dollars of its parts for one rank, with
        their range and the names of the parts without a price ("unknown" where nothing is known)."""
        return f"{self.name}, {self.bill.ranks:,} ranks: {self.dollars.text()} a rank"

    def rows(self) -> list[Document]:
        """Return a row for each line of the bill: ``part``, ``per_rank``, how many of it a rank has, their
        ``dollars_per_rank``, ``static_watts_per_rank`` (busy or idle) and ``failures_per_second_per_rank`` (all three
        of as many as a rank has; None where unknown), and the ``formula`` behind the count, a text."""
        return [
            {
                **attributes(line, "part=part.name per_rank"),
                "dollars_per_rank": line.total("dollars").value,
                "static_watts_per_rank": line.total("static_power").value,
                "failures_per_second_per_rank": line.total("mtbf").value,
                "formula": line.why,
            }
            for line in self.bill.lines
        ]

    def to_json(self) -> Document:
        """Return the document that ``lightloom bill --json`` prints: ``name`` and ``ranks``; ``parts``, each with its
        ``kind``, number ``per_rank`` and ``formula``; totals per rank in SI units, ``dollars_per_rank``,
        ``static_watts_per_rank`` (busy or idle), ``dynamic_watts_per_rank`` (more at full load), ``joules_per_bit`` and
        ``failures_per_second_per_rank``, each with its range and what it lacks; what is ``missing`` and ``notes``;
        ``choices``, and in ``unused_choices`` the names of choices and prices that changed nothing; with schema and
        provenance."""
        document: Document = {
            "schema": "lightloom.bill/1",
            "name": self.name,
            **self.bill.to_json(),
            "choices": self.choices.model_dump(mode="json"),
            "unused_choices": list(self.unused),
        }
        return document | {"provenance": provenance(["bill", document])}


def bill(
    built: FabricLike | ClusterLike,
    ranks: int | None = None,
    *,
    set: Settings | None = None,
    prices: Mapping[str, object] | None = None,
    **fields: object,
) -> PricedBill:
    """Return what a fabric, or a cluster with its boards and hosts, is built of, per rank.

    >>> bill("two-tier-400g", 1024, circuit_switch="polatis-7000")

    Args:
        built: a fabric or a cluster: a name of a catalog, a file, or an object. A name of both is the fabric's.
        ranks: number of ranks; a cluster's own without it.
        set: fields of the fabric or the cluster, and choices of the bill (`lightloom.machines.parts.bill.BillChoices`).
        prices: prices of parts of the fabric by name, numbers in dollars or texts as ``$ 120``, in place of the
            catalog's.
        fields: the same as ``set``, by keyword.

    Raises:
        UnknownNameError: no such fabric, cluster or part.
        ConfigError: a field is unknown or out of range, or no tree of such switches joins the ranks.
        UnsupportedError: no product joins the ranks.
    """
    settings = {**(set or {}), **fields}
    chosen = {name: value for name, value in settings.items() if name in BillChoices.model_fields}
    others = {name: value for name, value in settings.items() if name not in chosen}
    choices: BillChoices = validate(BillChoices, chosen, "bill")
    site = site_of({"choices": choices, "prices": prices})
    try:
        if _is_cluster(built):
            cluster = load_cluster(built, ranks, set=others)  # type: ignore[arg-type]
            fabric, name = cluster.fabric, f"cluster {cluster.name}"
            made = ClusterLedger.of(cluster, site).bill
        else:
            fabric = load_fabric(built, ranks, set=others)  # type: ignore[arg-type]
            name = f"fabric {built if isinstance(built, str | Path) else fabric.kind_name}"
            made = fabric_bill(fabric, site)
    except ConfigError as error:
        if "unknown field" not in str(error):
            raise
        raise ConfigError(f"{error}; or a choice of the bill, one of {', '.join(BillChoices.model_fields)}") from error
    return PricedBill(name=name, bill=made, choices=choices, unused=unused_inputs(fabric, site))


def _is_cluster(built: FabricLike | ClusterLike) -> bool:
    """Return whether what is billed is a cluster: an object of that class, a YAML file with the field ``fabric``, or a
    name of the clusters' catalog that is not one of the fabrics'.

    ConfigError for a YAML file that cannot be read.
    """
    if not isinstance(built, str | Path):
        return isinstance(built, Cluster)
    name = str(built)
    if name.endswith((".yaml", ".yml")):
        return "fabric" in read_yaml(Path(name))
    return name not in fabrics.names() and name in clusters.names()
