"""Several jobs on one cluster: each step alone, and beside the other jobs on the same links or wavelengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lightloom.app.api.arguments import Settings
from lightloom.app.api.planning import read_model
from lightloom.collectives.collective import CLASSIC, KINDS
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, attributes, cells, plain, provenance
from lightloom.core.units import parse
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import ClusterLike, load_cluster
from lightloom.planning.search.request import Pins, SearchRequest, with_choices
from lightloom.planning.traffic.jobs import TrafficJob, check_jobs
from lightloom.planning.traffic.together import JobTraffic, Request, link_shares
from lightloom.planning.traffic.together import traffic as jobs_together
from lightloom.reports.figures.links import shared_links_figure
from lightloom.reports.html import DrawnResult
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COUNTS = ("dp", "tp", "pp", "ep", "cp", "micro-batches", "micro-batch", "virtual-stages")
"""Options of a model that are numbers, each a pin."""
_MODEL = (*_COUNTS, "global-batch", "batch", "algorithm", "sharding", "recompute", "sequence-length")
_COLLECTIVE = ("nbytes", "nbytes-per-rank", "algorithm")
_STRATEGIES = ("ddp", "fsdp", "tensor-pipeline")


@dataclass(frozen=True, repr=False, kw_only=True)
class TrafficResult(DrawnResult):
    """Times of every job alone and together with the others, in the order in which they were given."""

    cluster: Cluster
    jobs: tuple[JobTraffic, ...]
    origin: Document
    """Version, hash of the configuration, and seed."""

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.jobs)

    def __getitem__(self, index: int) -> JobTraffic:
        """Return the job of an index, counted from 0 in the order in which they were given."""
        return self.jobs[index]

    @property
    def title(self) -> str:
        """Heading of figures and tables: how many jobs on which cluster and kind of fabric."""
        return f"{len(self.jobs)} jobs on {self.cluster.name}, {self.cluster.fabric.kind_name}"

    def summary(self) -> str:
        """Return a sentence with the number of jobs, the cluster and each job's slowdown: its time together over its
        time alone, three significant digits."""
        slowed = "; ".join(f"{each.alone.job.label} {each.slowdown:.3g} times" for each in self.jobs)
        return f"{len(self.jobs)} jobs on {self.cluster.name} take longer together than alone: {slowed}"

    @property
    def shared(self) -> str:
        """Sentence on how the jobs share the fabric: by fairness on links of packets, by wavelengths that each holds
        alone on links of light, not at all on circuit switches."""
        fabric = self.cluster.fabric
        if not fabric.exclusive:
            return "links are shared by max-min fairness; jobs are not aligned, so slowdowns are means over their steps"
        if fabric.switch_planes:
            return "circuits of different jobs end at different ports: nothing is shared; all are verified together"
        held = ", ".join(f"{each.alone.job.label} {each.together.channels}" for each in self.jobs)
        return f"of {fabric.shared_channels} wavelengths of a link, as many as: {held}; verified: none is used twice"

    def to_json(self) -> Document:
        """Return the document that ``lightloom traffic --json`` prints: the ``cluster``, in words how the fabric is
        ``shared``, whether that was ``verified`` (True where light is held exclusively, False on links of packets),
        ``rows``, one for each job, and ``provenance``."""
        document = {
            "schema": "lightloom.traffic/1",
            "cluster": self.cluster.to_json(),
            "shared": self.shared,
            "verified": self.cluster.fabric.exclusive,
            "rows": self.rows(),
            "provenance": dict(self.origin),
        }
        return {name: plain(value) for name, value in document.items()}

    def rows(self) -> list[Document]:
        """Return a row for each job: ``job`` (its label), ``what`` it is, ``ranks``, ``alone_s`` and ``together_s``,
        seconds of a step or of one collective, their ratio as ``slowdown``, ``plan_alone`` and ``plan_together`` (names
        of plans, or of a collective's algorithm), ``channels_alone`` and ``channels_together`` (wavelengths of a link,
        or planes of a circuit switch, that it holds, None on links of packets), and ``exchanges``, those of the plan
        alone on links of packets, empty on circuits: by sort (``passes``: of tensor and expert groups, ``data``:
        between replicas, or the collective, ``sends``: from stage to stage) ``busy_alone_s`` (seconds of the step in
        which it sends), ``slowdown`` (a factor), and ``most_of_a_link``, the largest share (0 to 1) of a link's
        bandwidth that it takes meanwhile, alone."""
        return [
            {
                **attributes(each, "job=alone.job.label what=alone.job.what"),
                "ranks": list(each.alone.job.ranks),
                **attributes(each, "alone_s=alone.seconds together_s=seconds slowdown plan_alone=alone.label"),
                **attributes(each, "plan_together=together.label channels_alone=alone.channels"),
                "channels_together": each.together.channels,
                "exchanges": {
                    exchange.sort: {
                        "busy_alone_s": exchange.busy,
                        "slowdown": each.slowdowns[exchange.sort],
                        "most_of_a_link": float(exchange.usage.max()),
                    }
                    for exchange in each.alone.exchanges
                },
            }
            for each in self.jobs
        ]

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row of text for each job: "job" (its label), "ranks", "plan", the one beside the others, times
        "alone" and "together", and "slowdown" as ``1.234×``."""
        columns = (
            "job: {alone.job.label} | ranks: {alone.job.ranks_text} | plan: {together.label} | "
            "alone: {alone.seconds:time} | together: {seconds:time} | slowdown: {slowdown:.3f}×"
        )
        return cells(columns, self.jobs)

    def figure(self) -> Figure:
        """Return a matplotlib figure of at most 48 of the links that carry anything, those of several jobs first, then
        those that carry most: a bar for each, stacked by job, of the per cent of the link's bandwidth that a job takes
        on average over its step alone, or of the fabric's wavelengths that it holds beside the others where light is
        held exclusively. The legend names jobs with their slowdown."""
        fabric = self.cluster.fabric
        names = [fabric.link_name(link) for link in range(fabric.links)]
        labels = [f"{each.alone.job.label}, {each.slowdown:.2f}×" for each in self.jobs]
        unit = "% of the wavelengths" if fabric.exclusive else "% of the link, alone"
        return shared_links_figure(self.title, labels, link_shares(self.jobs, fabric), names, unit)


def traffic(
    jobs: Sequence[str | TrafficJob], cluster: ClusterLike, *, set: Settings | None = None, **fields: object
) -> TrafficResult:
    """Compare what jobs take alone and together on one cluster: return each job's times, in the order in which they are
    given.

    >>> traffic(["gpt2-355m@0-31:tp=4,global-batch=64", "all-reduce@32-63:nbytes=64MiB"], "dgx-h100-64")

    Args:
        jobs: at least two, as texts ``WHAT@RANKS[:option=value,...]`` or as ``TrafficJob``: a model with options of
            :func:`lightloom.plan`, or a collective that repeats without a pause, each with ranks of its own:
            ``first-last`` or ``first-last/step``, two at least.
        cluster: a name of the catalog, a YAML file or a cluster.
        set: fields of the cluster by their path, ``{"fabric.wavelengths": 16}``.
        **fields: top-level fields of the cluster (``ranks``, ``accelerator``).

    Raises:
        InputError: ranks that two jobs have or that do not exist, options that cannot be read, no plan for a job.
    """
    chosen = [job if isinstance(job, TrafficJob) else TrafficJob.parse(job) for job in jobs]
    place = load_cluster(cluster, set={**(set or {}), **fields})
    check_jobs(chosen, place.ranks)
    requests = [_request(job, place) for job in chosen]
    with progress("Jobs", None) as advance:
        outcome = jobs_together(requests, place, lambda: advance(1))
    described = [[job.what, list(job.ranks), dict(job.options)] for job in chosen]
    return TrafficResult(cluster=place, jobs=tuple(outcome), origin=provenance([described, place.to_json()]))


def _request(job: TrafficJob, cluster: Cluster) -> Request:
    """Return what is asked of a job: its collective with its bytes over all ranks and its algorithm or None (graph and
    search are None), or its model's graph and a search among ddp, fsdp and tensor-pipeline with the job's pins,
    algorithms (several are joined by ``+`` in the option) and batch, and the cluster's training settings, where options
    that the job leaves out follow from the model's file and the cluster.

    Options ``batch`` and ``nbytes-per-rank`` are of a rank and are multiplied by the job's ranks; ``global-batch`` and
    ``nbytes`` are of all of them.

    ConfigError for a kind of collective that jobs cannot be, unknown options, no or two sizes, or two batches.
    """
    if job.what in KINDS and job.what not in CLASSIC:
        raise ConfigError(f"job {job.label}: {job.what} shares no links with others yet: expected {', '.join(CLASSIC)}")
    known = _COLLECTIVE if job.what in CLASSIC else _MODEL
    for name in job.options:
        if name not in known:
            raise ConfigError(f"job {job.label}: option {name!r}: expected one of {', '.join(known)}")
    if job.what in CLASSIC:
        counts = {"nbytes": 1, "nbytes-per-rank": len(job.ranks)}
        sizes = [parse(job.options[name], "size") * count for name, count in counts.items() if name in job.options]
        if len(sizes) != 1:
            raise ConfigError(f"job {job.label}: expected one of nbytes and nbytes-per-rank, e.g. nbytes=64MiB")
        return Request(job=job, graph=None, search=None, nbytes=sizes[0], algorithm=job.options.get("algorithm"))
    batches = [name for name in ("batch", "global-batch") if name in job.options]
    if len(batches) > 1:
        raise ConfigError(f"job {job.label}: options batch and global-batch: expected one of them")
    samples = tuple(_count(job, name) * (len(job.ranks) if name == "batch" else 1) for name in batches)
    options: dict[str, Any] = {name.replace("-", "_"): _count(job, name) for name in _COUNTS if name in job.options}
    names = job.options.get("algorithm")
    request = SearchRequest(
        global_batches=samples or None,
        strategies=_STRATEGIES,
        algorithms=() if names is None else tuple(names.split("+")),
        pins=Pins(**options, sharding=job.options.get("sharding"), recomputation=job.options.get("recompute")),
        compare=False,
    )
    length = _count(job, "sequence-length") if "sequence-length" in job.options else None
    reading = read_model(job.what, batch=cluster.training.batch_per_rank, sequence_length=length)
    request, (place,) = with_choices(request, [cluster], reading, job.what, [len(job.ranks)])
    return Request(job=job, graph=reading.graph, search=request, training=place.training)


def _count(job: TrafficJob, name: str) -> int:
    """Return an option of a job as a whole number of 1 or more; ConfigError for any other text."""
    text = job.options[name]
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigError(f"job {job.label}: {name}={text}: expected a whole number, 1 or more")
    return number
