"""Collectives: rank their algorithms, synthesize and verify schedules, and hold them against lower bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.app.api.arguments import Permutation, Quantity, Settings, SizesLike, collective_of
from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.bounds.lower_bound import lower_bound as bound_of
from lightloom.collectives.collective import CLASSIC, Collective
from lightloom.collectives.cost.price import Cost, CostModel, known_cost_model
from lightloom.collectives.files.formats import LARGEST, export_schedule, export_size, import_schedule
from lightloom.collectives.levels import levels
from lightloom.collectives.registry import Refusal, algorithms, costed, evaluate_all, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.verifier import verify as verify_on
from lightloom.core.errors import ConfigError, InputError, UnsupportedError
from lightloom.core.results import Document, attributes, cells, in_groups, plain, provenance
from lightloom.core.units import format_ratio, format_size, format_time, parse
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import FabricLike, load_fabric
from lightloom.planning.economics.ledger import ClusterLedger, Site, StepLedger, site_of
from lightloom.reports.figures.links import wavelength_map
from lightloom.reports.html import DrawnResult
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# A verified schedule with its fabric, cost and lower bound: what ``synthesize`` and ``verify`` return.


@dataclass(frozen=True, repr=False)
class VerifiedSchedule(DrawnResult):
    """A schedule that passed the verifier on a fabric, with what it costs there and what no schedule can beat."""

    schedule: Schedule
    """Who sends which chunk, when, along which lightpath."""
    fabric: Fabric
    """The fabric on which it was verified."""
    cost: Cost
    """Time and energy of one run."""
    lower_bound: Bound
    """The proved lower bound on the time."""

    @classmethod
    def of(cls, schedule: Schedule, fabric: Fabric) -> VerifiedSchedule:
        """Return a schedule with its cost by the physical model and its lower bound; it must have passed the verifier
        on ``fabric`` already, and is not verified again.

        Raises:
            BoundError: the cost lies below the bound, which is a fault of lightloom or of the fabric.
        """
        return cls(schedule, fabric, *costed(schedule, fabric))

    @property
    def collective(self) -> Collective:
        """The collective that the schedule carries."""
        return self.schedule.collective

    @property
    def algorithm(self) -> str:
        """Name of the algorithm that made the schedule."""
        return self.schedule.algorithm

    @property
    def time(self) -> float:
        """Duration of one run, in seconds."""
        return self.cost.time

    @property
    def ratio(self) -> float | None:
        """Duration of one run from dark circuits over its lower bound, 1 or more; None where the bound is zero."""
        return self.lower_bound.ratio(self.cost)

    @property
    def repeated_ratio(self) -> float | None:
        """Time over lower bound of a run that is repeated, without the first set-up of circuits in either.

        None where no circuits are set up, where they change from step to step, so that a repeated run pays as much as
        the first, and where the bound is nothing but the set-up.
        """
        return self.lower_bound.repeated_ratio(self.cost)

    def save(self, path: str | Path, *, largest: str | float = LARGEST) -> list[Path]:
        """Write the schedule in the form that the suffix names: .json, .parquet, .arrow, .et (Chakra), .xml (MSCCL);
        return the files that were written: ``path``, or of Chakra traces ``NAME.0.et`` and so on, one for each rank.
        Without ``largest`` nothing is written of which the files together are estimated at more than 1 GB.

        Args:
            path: the file; of Chakra traces one a rank is written.
            largest: bytes above which nothing is written (``"20GB"``).

        Raises:
            UnsupportedError: another suffix, the form cannot hold this schedule, or it takes more than ``largest`` or
                more memory than is free.
            UnitError: ``largest`` cannot be read.
            ConfigError: the file cannot be written.
        """
        target = Path(path)
        with progress(f"Rows of {target.name}", 2 * export_size(target, self.schedule).rows) as advance:
            return export_schedule(target, self.schedule, self.fabric, parse(largest, "size"), advance)

    def figure(self) -> Figure:
        """Return a matplotlib figure of what the schedule occupies. On a WDM ring: the source rank, as a colour, of the
        light on each wavelength and link, a panel for each direction and step. On a circuit switch: the circuits of
        each step by source and destination rank. Of more than four steps of either only the first, the middle and the
        last are drawn, on a ring with the share of wavelengths that is lit on each link in every step below. On a
        packet-switched fabric: the load of each link in each step, as a share of the largest. Of a queued schedule,
        which has no steps, the circuits that stand throughout are drawn, and on links 24 equal parts of the time.

        Raises:
            UnsupportedError: Matplotlib is not installed, or the schedule's rows for all ranks do not fit in the memory
                that is free.
        """
        return wavelength_map(self.schedule, self.fabric)

    def summary(self) -> str:
        """Return a sentence: the algorithm, the collective with its size and ranks, the number of the schedule's stored
        rows, its time, and the lower bound with what sets it."""
        collective, bound = self.schedule.collective, self.lower_bound
        return (
            f"{self.algorithm}: {collective.kind} of {format_size(collective.nbytes)} over {collective.ranks} ranks, "
            f"{len(self.schedule)} rows, verified; {format_time(self.time)}, "
            f"lower bound {format_time(bound.time)} ({bound.bound_by})"
        )

    def to_json(self, files: Sequence[Path] = ()) -> Document:
        """Return the document that ``lightloom schedule FILE --json`` prints, without the transfers: ``algorithm``,
        ``kind``, ``ranks`` and ``nbytes`` of the collective, ``rows`` (their number), ``verified`` (True), ``time_s``,
        ``lower_bound_s``, ``bound_by``, the ``fabric``'s fields, and ``files``, the given paths of what was written."""
        collective, fabric = self.collective, self.fabric.model_dump(mode="json")
        document = {
            "schema": "lightloom.schedule-report/1",
            **attributes(self, "algorithm kind=collective.kind ranks=collective.ranks nbytes=collective.nbytes"),
            "rows": len(self.schedule),
            "verified": True,
            **attributes(self, "time_s=time lower_bound_s=lower_bound.time bound_by=lower_bound.bound_by"),
            "fabric": fabric,
            "files": [str(path) for path in files],
            "provenance": provenance([collective.kind, collective.nbytes, fabric, self.algorithm]),
        }
        return {str(key): plain(value) for key, value in document.items()}

    def row(self) -> Document:
        """Return the schedule's row in a ranking of algorithms: ``algorithm``, number of ``steps``, ``time_s``,
        ``lower_bound_s`` with ``bound_by``, ``energy_j``, joules of transmission of all ranks in one run (None where
        the fabric's energy per bit has no source), ``verified`` (True), the parts of the time (``transmission_s``,
        propagation included, ``conversion_s`` between light and electrons, ``reconfiguration_s`` of circuits),
        ``static_circuits`` (whether one set of circuits serves every step), ``setup_s``, the seconds of the first
        set-up within ``reconfiguration_s``; the ratios of time to lower bound, ``ratio`` with the first set-up and
        ``ratio_without_setup`` of a repeated run without it in either (None for a bound of 0; the latter also where
        circuits change or none are set up); and ``notes`` of the algorithm, a list of texts."""
        parts = "transmission_s=transmission conversion_s=conversion reconfiguration_s=reconfiguration"
        return {
            **attributes(self, "algorithm steps=cost.steps time_s=cost.time lower_bound_s=lower_bound.time"),
            **attributes(self, "bound_by=lower_bound.bound_by energy_j=cost.energy"),
            "verified": True,
            **attributes(self.cost, f"{parts} static_circuits=static setup_s=setup"),
            **attributes(self, "ratio ratio_without_setup=repeated_ratio"),
            "notes": list(self.schedule.notes),
        }

    def rows(self) -> list[Document]:
        """Return the schedule's transfers on all ranks and of all pieces of a pipeline, also where it stores only some
        ranks or one piece, which stand for the rest: a row for each chunk that reaches a destination, with numbers from
        0: ``step``, ``lightpath``, ``source``, ``destination``, ``route`` (on a ring, 0 is clockwise and 1 the other
        way), ``fibre`` of the first wavelength (the switch plane on a circuit switch), ``first_wavelength`` in it,
        ``wavelength_count`` (consecutive ones, running on into the next fibre), ``chunk`` and ``reduces`` (whether it
        is added to what is there, True or False). On packet fabrics the columns of wavelengths are 0.

        Raises:
            UnsupportedError: they do not fit in the memory that is free.
        """
        whole = self.schedule.unfolded(self.fabric.fibre_channels)
        columns = {name: column.tolist() for name, column in whole.columns().items()}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def display_rows(self) -> list[dict[str, str]]:
        """Return a single row of text: "algorithm", "steps", "time", "vs bound" (time over the lower bound), "steady"
        (that of a repeated run, without the first set-up of circuits), either – where there is no ratio, "lower bound",
        "energy" of transmission (or "not sourced"), "bound set by", and "notes"."""
        columns = (
            "algorithm: {algorithm} | steps: {cost.steps} | time: {time:time} | vs bound: {ratio:ratio} | steady: "
            "{repeated_ratio:ratio} | lower bound: {lower_bound.time:time} | energy: {cost.energy:energy} | "
            "bound set by: {lower_bound.bound_by}"
        )
        return [row | {"notes": "; ".join(self.schedule.notes)} for row in cells(columns, [self])]


ALL = "all"
_FORMS = re.compile("(-two-way|-pairs|-both-axes|-striped)+$")
"""Ends of names that tell the algorithms of a family apart: ``ring-two-way-striped`` is a ring."""


MOST_CHANGED = 64
"""Ranks up to which changed questions are ranked anew, which takes as long as the question itself."""


@dataclass(frozen=True, repr=False, kw_only=True)
class CollectiveRanking(DrawnResult):
    """Every algorithm that can carry a collective on a fabric, fastest first; each one verified and costed."""

    collective: Collective
    fabric: Fabric
    cost_model: CostModel
    algorithm: str
    """Names of the algorithms that were requested, joined by +, or ``all``."""
    ranking: tuple[VerifiedSchedule, ...]
    """Verified schedules, fastest first."""
    refused: tuple[Refusal, ...]
    """The algorithms that cannot serve, each with the reason."""
    site: Site = field(default_factory=Site)
    """Prices of electricity and building that turn the fabric's parts and watts into dollars."""

    @cached_property
    def fabric_ledger(self) -> ClusterLedger:
        """Dollars and watts of each rank's share of the fabric, without boards and hosts, and what has no price or
        watts.

        Raises:
            InputError: the site states choices of parts, and the fabric cannot be built so.
        """
        return ClusterLedger.of_fabric(self.fabric, self.site)

    def ledger_of(self, schedule: VerifiedSchedule) -> StepLedger:
        """Return the joules and dollars of the fabric alone, all ranks together, in one run of a schedule, as a ledger
        whose step is the run and has no samples: static power for the time of the run and what sending adds, at the
        meter, and with that the run's share of the price, maintenance and electricity."""
        return StepLedger(
            cluster=self.fabric_ledger, step_time=schedule.time, sent_joules=schedule.cost.energy, samples=0
        )

    @property
    def winner(self) -> VerifiedSchedule:
        """The fastest of the schedules that serve the collective."""
        return self.ranking[0]

    def families(self) -> list[VerifiedSchedule]:
        """Return the fastest schedule of each family of algorithms that has one, the fastest family first.

        A family is the algorithms whose names differ only in the endings ``-two-way``, ``-pairs``, ``-both-axes`` and
        ``-striped``.
        """
        return [forms[0] for forms in in_groups(self.ranking, lambda each: _FORMS.sub("", each.algorithm)).values()]

    def what_ifs(self) -> Iterator[tuple[str, CollectiveRanking]]:
        """Yield (change of the question in words, ranking that answers it) for each change: "twice the bandwidth" of
        links, "half the set-up time" of circuits, "ten times the bytes" and "a tenth of the bytes".

        The same algorithms are ranked by the same cost model, at the default prices of the site. A change that no
        algorithm or fabric admits is left out, as is that of set-up where circuits take none; none are yielded among
        more than :data:`MOST_CHANGED` (64) ranks, whose ranking takes long.
        """
        if self.fabric.ranks > MOST_CHANGED:
            return
        stated, nbytes = self.fabric.stated_fields(), self.collective.nbytes
        setup = _scaled(stated, ("reconfiguration_time", "link_up_time"), 0.5) if self.fabric.setup_time else {}
        changes: dict[str, tuple[Settings, float]] = {
            "twice the bandwidth": (_scaled(stated, ("bandwidth",), 2), nbytes),
            "half the set-up time": (setup, nbytes),
            "ten times the bytes": ({}, 10 * nbytes),
            "a tenth of the bytes": ({}, nbytes / 10),
        }
        for words, (fields, size) in changes.items():
            if fields or size != nbytes:
                request, names = self.collective.resized(size), self.algorithm.split("+")
                with suppress(InputError):  # As of a switch that is built for one bandwidth.
                    changed = collective(request, self.fabric, algorithm=names, cost_model=self.cost_model, set=fields)
                    yield words, changed

    @property
    def library_time(self) -> float | None:
        """Seconds of the collective as the fabric's collective library carries it, at least the lower bound; None where
        the fabric names no library, or the kind is none of all-gather, reduce-scatter, all-reduce, all-to-all,
        broadcast and reduce, for which libraries have closed forms."""
        if self.fabric.library is None or self.collective.kind not in CLASSIC:
            return None
        ranks, nbytes = np.array([self.fabric.ranks]), np.array([self.collective.nbytes])
        seconds = self.fabric.library.seconds(self.collective.kind, ranks, np.ones_like(ranks), nbytes)
        return max(float(seconds[0]), self.winner.lower_bound.time)

    def __len__(self) -> int:
        """Return the number of verified schedules."""
        return len(self.ranking)

    def __iter__(self) -> Iterator[VerifiedSchedule]:
        """Yield the verified schedules, the fastest first."""
        return iter(self.ranking)

    def __getitem__(self, index: int) -> VerifiedSchedule:
        """Return the schedule of a place in the ranking; 0 is the fastest."""
        return self.ranking[index]

    @property
    def title(self) -> str:
        """Heading of the table: kind, size, ranks and cost model."""
        size = format_size(self.collective.nbytes)
        return f"{self.collective.kind} of {size} over {self.collective.ranks} ranks, {self.cost_model} cost"

    def summary(self) -> str:
        """Return a sentence: the title, the fastest algorithm, of how many, its time, the ratio of that to the lower
        bound, that ratio of a repeated run, without the first set-up of circuits in either, where there is one, and
        what sets the bound."""
        winner = self.winner
        without = f", {format_ratio(winner.repeated_ratio)} without set-up" if winner.repeated_ratio else ""
        return (
            f"{self.title}: {winner.algorithm} is the fastest of {len(self)} with {format_time(winner.time)}, "
            f"{format_ratio(winner.ratio)} the lower bound{without} (set by {winner.lower_bound.bound_by})"
        )

    def to_json(self) -> Document:
        """Return the document that ``lightloom collective --json`` prints: ``kind``, ``ranks`` and ``nbytes`` (with
        ``destinations`` by rank of a permute, and ``sizes`` of parts as shares of all bytes, where stated),
        ``cost_model``, ``fabric``, ``library_time_s``, seconds by the collective library (None without one), ``site``,
        ``fabric_ledger``, dollars and watts of each rank's share of the fabric, ``rows``, one for each schedule, the
        fastest first (:meth:`rows`), ``refused``, each ``algorithm`` that has no schedule here with the reason
        (``why``), and ``warnings`` of the fabric; with schema and provenance."""
        kind, nbytes, fabric = self.collective.kind, self.collective.nbytes, self.fabric.model_dump(mode="json")
        parts = self.collective.stated_parts()
        document = {
            "schema": "lightloom.collective/1",
            **attributes(self.collective, "kind ranks nbytes"),
            **parts,
            "cost_model": self.cost_model,
            "fabric": fabric,
            "library_time_s": self.library_time,
            "site": self.site.to_json(),
            "fabric_ledger": self.fabric_ledger.to_json(),
            "rows": self.rows(),
            "refused": [refusal.to_json() for refusal in self.refused],
            "warnings": list(self.fabric.warnings),
            "provenance": provenance([kind, nbytes, fabric, self.algorithm, self.cost_model, *parts.values()]),
        }
        return {name: plain(value) for name, value in document.items()}

    def rows(self) -> list[Document]:
        """Return a row for each schedule, the fastest first: steps, seconds of one run and their parts, lower bound,
        joules of transmission, ratios to the bound and notes, as of :meth:`VerifiedSchedule.row`; and of the fabric
        alone ``watts_per_rank`` and ``dollars_per_step``, the latter of all ranks in one run (each None where a part is
        unknown), what is ``missing`` by figure, and under ``ledger`` the totals with their ranges, joules at the meter
        among them. Figures per sample say nothing here, as a run has no samples."""
        return [schedule.row() | self.ledger_of(schedule).to_json() for schedule in self.ranking]

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row of text for each schedule, the fastest first, by heading: "algorithm", "steps", "time", "vs
        bound" (time over the lower bound), "steady" (that of a repeated run), "lower bound", "energy" of transmission
        (or "not sourced"), "bound set by" and "notes"."""
        return [row for schedule in self.ranking for row in schedule.display_rows()]

    def figure(self) -> Figure:
        """Return a matplotlib figure of what the fastest schedule alone occupies: source ranks by wavelength and link
        on a WDM ring, circuits on a circuit switch (of more than four steps of either the first, the middle and the
        last), loads of links in each step on a packet-switched fabric."""
        return self.winner.figure()


def _scaled(fields: Mapping[str, Any], endings: tuple[str, ...], factor: float) -> dict[str, object]:
    """Return the changed fields of a fabric: each float above 0 whose name ends in one of ``endings``, times
    ``factor``.

    A list of parts is searched the same way, and returned whole where any of its fields changes; other fields are left
    out.
    """
    result: dict[str, object] = {}
    for name, value in fields.items():
        if name.endswith(endings) and isinstance(value, float) and value > 0:
            result[name] = factor * value
        elif isinstance(value, list | tuple) and all(isinstance(part, Mapping) for part in value):
            parts = [{**part, **_scaled(part, endings, factor)} for part in value]
            result |= {} if parts == [*value] else {name: parts}
    return result


def collective(
    kind: str | Collective,
    fabric: FabricLike,
    ranks: int | None = None,
    nbytes: Quantity | None = None,
    *,
    nbytes_per_rank: Quantity | None = None,
    permutation: Permutation | None = None,
    sizes: SizesLike | None = None,
    algorithm: str | Sequence[str] = ALL,
    cost_model: str = "physical",
    site: Site | Settings | None = None,
    set: Settings | None = None,
    **fields: object,
) -> CollectiveRanking:
    """Rank the algorithms that can carry a collective on a fabric.

    >>> collective("all-gather", "wdm-ring", ranks=64, nbytes="64MiB", wavelengths=16)

    Args:
        kind: all-gather, all-reduce, all-to-all, all-to-all-v, barrier, broadcast, gather, permute, reduce,
            reduce-scatter, reduce-scatter-v or scatter; or a ``Collective``.
        fabric: a name of the catalog, a YAML file, or a fabric.
        ranks: number of ranks; may be left out for a fabric that is given as an object.
        nbytes: what every rank holds in the end (all-gather, broadcast) or at the start (all others), on average where
            sizes differ; the root (gather, scatter); all ranks together (permute).
        nbytes_per_rank: the same, divided by the number of ranks.
        permutation: to whom each rank sends in a permute: shift:K, reverse, or ranks as 1,0,3,2; to the next without
            it.
        sizes: sizes of the parts of an all-to-all-v, by source and destination, or of a reduce-scatter-v, by rank:
            zipf:EXPONENT[:SEED], or a .csv file of bytes, which states ``nbytes`` too.
        algorithm: an algorithm by name, several, or ``all`` that the fabric admits.
        cost_model: ``physical`` (circuits change when needed) or ``paper`` (every step costs d/B + a).
        site: what turns the fabric's parts and watts into dollars, as of :func:`plan`.
        set: fields of the fabric and their values.
        fields: fields of the fabric by keyword.

    Returns:
        The ranking: a verified schedule for each algorithm that serves, the fastest first, and the algorithms that do
            not, with the reasons.

    Raises:
        UnsupportedError: no algorithm serves this collective on this fabric, or none of those requested does.
        InputError: an argument that cannot be read.
        BoundError: a cost lies below the proved lower bound, which is a fault of lightloom or of the fabric.
    """
    on, place = load_fabric(fabric, ranks, set=set, **fields), site_of(site)
    request = collective_of(kind, on.ranks, nbytes, nbytes_per_rank, permutation=permutation, sizes=sizes)
    model = known_cost_model(cost_model)
    names = [algorithm] if isinstance(algorithm, str) else [*dict.fromkeys(algorithm)]
    candidates = list(algorithms().values()) if names == [ALL] else [find(name) for name in names]
    with progress("Schedules", len(candidates)) as advance:
        evaluations, refused = evaluate_all(request, on, model, candidates, advance=lambda: advance(1))
    if not evaluations and names != [ALL]:
        raise UnsupportedError("; ".join(refusal.why for refusal in refused))
    if not evaluations:
        failures = "".join(f"; {refusal.algorithm}: {refusal.why}" for refusal in refused if refusal.failed)
        if on.parts:
            phases = (f"{each.kind} among {each.ranks}" for each in levels(request.kind, request.nbytes, on))
            failures = f" as a whole: in plans its parts carry {', '.join(phases)} ranks, one after the other"
        raise UnsupportedError(f"no algorithm serves {request.kind} on a {on.kind_name}{failures}")
    return CollectiveRanking(
        collective=request,
        fabric=on,
        cost_model=model,
        algorithm="+".join(names),
        ranking=tuple(VerifiedSchedule(each.schedule, on, each.cost, each.bound) for each in evaluations),
        refused=tuple(refused),
        site=place,
    )


def synthesize(
    kind: str | Collective,
    fabric: FabricLike,
    ranks: int | None = None,
    nbytes: Quantity | None = None,
    *,
    nbytes_per_rank: Quantity | None = None,
    permutation: Permutation | None = None,
    sizes: SizesLike | None = None,
    algorithm: str = "synthesized",
    set: Settings | None = None,
    **fields: object,
) -> VerifiedSchedule:
    """Build and verify one schedule, found for this fabric, collective and size unless an algorithm is named.

    >>> synthesize("all-gather", fabric="wdm-ring", ranks=64, nbytes="64MiB").save("all-gather.json")

    Args:
        kind: kind of the collective, such as all-reduce, or a ``Collective``, which states its size.
        fabric: a name of the catalog, a YAML file, or a fabric.
        ranks: number of ranks; may be left out for a fabric that is given as an object.
        nbytes: what every rank holds in the end (all-gather, broadcast) or at the start (all others), on average where
            sizes differ; the root (gather, scatter); all ranks together (permute).
        nbytes_per_rank: the same, divided by the number of ranks.
        permutation: to whom each rank sends in a permute: shift:K, reverse, or ranks as 1,0,3,2; to the next without
            it.
        sizes: sizes of the parts of an all-to-all-v, by source and destination, or of a reduce-scatter-v, by rank:
            zipf:EXPONENT[:SEED], or a .csv file of bytes, which states ``nbytes`` too.
        algorithm: an algorithm by name.
        set: fields of the fabric and their values.
        fields: fields of the fabric by keyword.

    Raises:
        UnsupportedError: the algorithm cannot serve this.
        InputError: an argument that cannot be read.
    """
    size: Settings = {"nbytes": nbytes, "nbytes_per_rank": nbytes_per_rank, "permutation": permutation, "sizes": sizes}
    asked: dict[str, Any] = {**size, "algorithm": algorithm, "set": {**(set or {}), **fields}}
    return collective(kind, fabric, ranks, **asked).winner


def verify(
    schedule: Schedule | VerifiedSchedule | str | Path,
    fabric: FabricLike | None = None,
    ranks: int | None = None,
    *,
    nbytes: Quantity | None = None,
    set: Settings | None = None,
    **fields: object,
) -> VerifiedSchedule:
    """Replay a schedule, or a file that holds one, and return it with its cost and its lower bound.

    >>> verify("all-gather.json")

    Args:
        schedule: a schedule, or a file: .json, .parquet, .arrow, .et (Chakra) or .xml (MSCCL).
        fabric: fabric that it runs on, of the catalog or a YAML file; may be left out where the file or the object
            names it.
        ranks: number of ranks of a fabric that is given by name; the schedule's own without it.
        nbytes: size of the collective, for a program of MSCCL, which states none.
        set: fields of the fabric and their values.
        fields: fields of the fabric by keyword.

    Raises:
        VerificationError: the schedule does not do what its collective promises, or uses the fabric illegally; names
            the rank, chunk, step or link.
        ConfigError: a file that is malformed or whose schedule is wrong, or a schedule without a fabric.
        UnsupportedError: the suffix of no format, or pyarrow is needed and missing.
    """
    if isinstance(schedule, str | Path):
        on = None if fabric is None else load_fabric(fabric, ranks, set=set, **fields)
        return VerifiedSchedule.of(
            *import_schedule(Path(schedule), on, None if nbytes is None else parse(nbytes, "size"))
        )
    columns, on = _on(schedule, fabric, ranks, {**(set or {}), **fields})
    verify_on(columns, on)
    return VerifiedSchedule.of(columns, on)


def cost(
    schedule: Schedule | VerifiedSchedule,
    fabric: FabricLike | None = None,
    *,
    cost_model: str = "physical",
    set: Settings | None = None,
    **fields: object,
) -> Cost:
    """Return the time (seconds) and energy (joules) of one run of a schedule on a fabric, by default the one it was
    verified on; the schedule is verified there first. The time counts from dark circuits, with the first set-up; the
    energy is that of transmission over all ranks, None where the fabric states no energy of a bit.

    Args:
        schedule: the schedule.
        fabric: a name of the catalog, a YAML file or a fabric; a plain ``Schedule`` needs one.
        cost_model: ``physical`` (circuits change when needed) or ``paper`` (every step costs d/B + a).
        set: fields of the fabric and their values.
        fields: fields of the fabric by keyword.

    Raises:
        VerificationError: the schedule is wrong on this fabric.
        BoundError: the cost lies below the proved lower bound, which is a fault of lightloom.
        ConfigError: a schedule without a fabric, or a field that cannot be set.
    """
    columns, on = _on(schedule, fabric, None, {**(set or {}), **fields})
    verify_on(columns, on)
    return costed(columns, on, known_cost_model(cost_model))[0]


def lower_bound(
    kind: str | Collective,
    fabric: FabricLike,
    ranks: int | None = None,
    nbytes: Quantity | None = None,
    *,
    nbytes_per_rank: Quantity | None = None,
    permutation: Permutation | None = None,
    sizes: SizesLike | None = None,
    cost_model: str = "physical",
    set: Settings | None = None,
    **fields: object,
) -> Bound:
    """Return the seconds that no schedule of a collective can beat on a fabric, from dark circuits, so that their first
    set-up counts, and in words the resource that sets them.

    >>> lower_bound("all-reduce", "torus", ranks=64, nbytes="64MiB")

    Args:
        kind: kind of the collective, or a ``Collective``, which states its size.
        fabric: a name of the catalog, a YAML file, or a fabric.
        ranks: number of ranks; may be left out for a fabric that is given as an object.
        nbytes: size of the collective, as :func:`collective` takes it: what every rank holds in the end or at the
            start.
        nbytes_per_rank: the same, divided by the number of ranks.
        permutation: to whom each rank sends in a permute; to the next without it.
        sizes: sizes of the parts of an all-to-all-v or a reduce-scatter-v.
        cost_model: ``physical`` (circuits change when needed) or ``paper`` (every step costs d/B + a), whose costs the
            bound is on.
        set: fields of the fabric and their values.
        fields: fields of the fabric by keyword.

    Raises:
        InputError: an argument that cannot be read.
    """
    on = load_fabric(fabric, ranks, set=set, **fields)
    request = collective_of(kind, on.ranks, nbytes, nbytes_per_rank, permutation=permutation, sizes=sizes)
    return bound_of(request, on, known_cost_model(cost_model))


def _on(
    schedule: Schedule | VerifiedSchedule, fabric: FabricLike | None, ranks: int | None, settings: Settings
) -> tuple[Schedule, Fabric]:
    """Return (schedule, fabric on which it is wanted); nothing is verified.

    The fabric is ``fabric`` or else the one on which the schedule was verified, with the fields of ``settings`` set;
    one by name gets the schedule's number of ranks unless ``ranks`` is given, which also replaces that of a fabric
    given as an object.

    Raises:
        UnknownNameError: ``fabric`` is neither a name nor a file.
        ConfigError: there is no fabric, its file cannot be read, or a field is unknown or out of range.
    """
    columns, own = (schedule.schedule, schedule.fabric) if isinstance(schedule, VerifiedSchedule) else (schedule, None)
    place = own if fabric is None else fabric
    if place is None:
        raise ConfigError("a schedule without a fabric: expected a fabric, by name, file or object")
    attached = ranks if ranks is not None or isinstance(place, Fabric) else columns.collective.ranks
    return columns, load_fabric(place, attached, set=settings)
