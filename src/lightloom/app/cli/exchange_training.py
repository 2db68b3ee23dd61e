"""``lightloom exchange compare``: exchanges on a training task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Annotated

from rich.table import Table

from lightloom.app.cli.options import FigureFile, OutFile, Several, Shown, draw
from lightloom.core.fields import Count
from lightloom.core.files import cache_directory, write_atomically
from lightloom.core.results import Document, provenance
from lightloom.core.units import format_time, parse
from lightloom.exchange.comparison import REFERENCE, Comparison, cases, compare_runs, default_steps, run_all
from lightloom.exchange.measuring import keep_rates, measurable
from lightloom.exchange.measuring import measure_kernels as measured
from lightloom.exchange.method import Evidence, merge_evidence
from lightloom.exchange.methods import compared, find
from lightloom.reports.console import rows_table
from lightloom.reports.figures.comparisons import ExchangePoint, exchange_figure
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TASKS = {
    "mnist": "MNIST, perceptron of 267k parameters, SGD",
    "chars": "tinyshakespeare by characters, decoder of 113k parameters, Adam",
    "text": "WikiText-2 by characters, decoder of 2 layers, Adam",
}
"""Description of each training task."""


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """Each method beside plain training on one task."""

    task: str
    ranks: int
    steps: int
    seeds: int
    link: float
    """Bytes that a rank sends in a second."""
    methods: tuple[Comparison, ...]
    losses: tuple[tuple[str, int, tuple[float, ...]], ...]
    """(method, seed, validation losses) of every run."""
    origin: Document

    @property
    def title(self) -> str:
        """Heading of table and figure: the task, ranks, steps and number of seeds."""
        return f"{self.task}, {self.ranks} ranks, {self.steps} steps, {self.seeds} seed" + "s" * (self.seeds > 1)

    def to_json(self) -> Document:
        """Return the document that ``lightloom exchange compare --json`` prints."""
        return {
            "schema": "lightloom.exchange-comparison/1",
            **{name: getattr(self, name) for name in ("task", "ranks", "steps", "seeds")},
            "link_bytes_per_second": self.link,
            "methods": [asdict(row) for row in self.methods],
            "runs": [{"method": method, "seed": seed, "loss": list(loss)} for method, seed, loss in self.losses],
            "provenance": self.origin,
        }

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row of text for each method; "less plain" and "spread" are of its loss minus plain training's, empty
        for plain training itself."""
        return [
            {
                "method": row.method,
                "bytes saved": f"{row.ratio:.2f} x",
                "loss": f"{row.loss:.4f}",
                "less plain": "" if row.method == REFERENCE else f"{row.difference:+.4f}",
                "spread": "" if row.method == REFERENCE else f"{row.spread:.4f}",
                "step over the link": format_time(row.step_seconds),
                "loss after equal time": f"{row.loss_at_equal_time:.4f}",
                "on the front": "yes" if row.on_front else "",
            }
            for row in self.methods
        ]

    def _differences(self, method: str) -> list[float]:
        """Return the last losses of a method's runs minus those of plain training from the same seeds, in the order of
        the runs."""
        base = {seed: loss[-1] for name, seed, loss in self.losses if name == REFERENCE}
        return [loss[-1] - base[seed] for name, seed, loss in self.losses if name == method]

    def evidence(self) -> list[Evidence]:
        """Return this comparison's own results, plain training's aside, as the evidence that plans quote: each method's
        mean difference in loss to plain training, the standard deviation of that over the seeds (0 for one), and the
        command."""
        command = f"lightloom exchange compare --task {self.task} --ranks {self.ranks} --seeds "
        return [
            Evidence(
                method=row.method,
                task=TASKS[self.task],
                steps=self.steps,
                seeds=row.seeds,
                ranks=self.ranks,
                loss_difference=row.difference,
                spread=stdev(self._differences(row.method)) if row.seeds > 1 else 0.0,
                command=f"{command}{self.seeds}",
            )
            for row in self.methods
            if row.method != REFERENCE
        ]

    def figure(self) -> Figure:
        """Draw bytes saved against the difference in loss to plain training, a point for each method with the range
        over the seeds."""
        points = []
        for row in self.methods:
            differences = self._differences(row.method)
            name = row.method.partition(":")[0] if row.method != REFERENCE else "plain"
            name += ", scaled" * (",scaled" in row.method)
            ends = min(differences), max(differences)
            points.append(ExchangePoint(name, row.ratio, row.difference, *ends, row.on_front))
        return exchange_figure(points, self.title)


def compare(
    *,
    task: str = "chars",
    methods: Annotated[list[str] | None, "--method"] = None,
    ranks: Several = 4,
    seeds: Count = 3,
    steps: Count | None = None,
    link: str = "1Gbps",
    data: Path | None = None,
    folder: Path | None = None,
    figure: FigureFile = None,
    evidence: OutFile = None,
) -> Shown:
    """Train a small task with each exchange, in real processes: bytes against loss, and loss after equal time.

    Runs that have finished are not repeated, so that a comparison that was interrupted continues.

    Args:
        task: mnist, chars (tinyshakespeare) or text (WikiText-2).
        methods (METHOD): An exchange, as int4:block=128; repeatable, all by default.
        ranks: Number of processes.
        seeds: Runs of each exchange.
        steps: Steps; 300, or 400 for mnist, by default.
        link: Speed at which each rank sends, for equal time.
        data: Folder of data sets; $LIGHTLOOM_DATA otherwise.
        folder: Where finished runs are kept; in the cache by default.
        figure: Draw bytes saved against loss (.svg, .png, .pdf).
        evidence: Put the differences in loss into this table, as plans read it (evidence.json).
    """
    chosen, speed, usual = methods or compared(), float(parse(link, "bandwidth")), default_steps(task, data)
    count = usual if steps is None else steps
    planned = cases(task, chosen, seeds, ranks, count)
    with progress("training", seeds * (len(chosen) + 1)) as advance:
        results = run_all(planned, folder or cache_directory() / "exchanges", data, advance)
    result = _Comparison(
        task=task,
        ranks=ranks,
        steps=count,
        seeds=seeds,
        link=speed,
        methods=tuple(compare_runs(results, speed)),
        losses=tuple((each.case.method, each.case.seed, tuple(each.loss)) for each in results),
        origin=provenance({"task": task, "methods": chosen, "ranks": ranks, "seeds": seeds, "steps": count}),
    )
    draw(figure, result.figure, result.to_json())
    if evidence is not None:
        write_atomically(evidence, merge_evidence(evidence, result.evidence()))
    return Shown(result.to_json(), _parts(result), {"figure": figure, "evidence": evidence})


def _parts(result: _Comparison) -> Iterator[str | Table]:
    """Yield the table of methods, how its columns are meant, and the methods whose replicas came to differ."""
    yield rows_table(result.display_rows(), title=result.title)
    yield (
        "less plain: mean over seeds of the loss less that of DDP without a hook, from the same weights on the same "
        "batches; spread: largest less smallest. Steps over the link and equal time are a model: processor time as "
        "measured here, then sending."
    )
    unequal = [row.method for row in result.methods if not row.replicas_equal]
    yield f"replicas differ: {', '.join(unequal)}" if unequal else "replicas are equal bit for bit in every run"


# ``lightloom exchange measure``: rates of this host's kernels, which ``plan --exchange-engine local`` prices with.


def measure(methods: list[str] | None = None) -> Shown:
    """Time the kernels of methods on one thread of this host, and keep the rates for `lightloom plan`.

    Args:
        methods (METHOD...): Methods with options; the common ones without any.
    """
    chosen = [find(name) for name in methods or compared()]
    chosen = chosen if methods else [method for method in chosen if measurable(method)]
    rows = []
    with progress("Measuring", len(chosen)) as advance:
        for method in chosen:
            rates = measured(method)
            keep_rates(method.name, rates)
            rows.append({"method": method.name} | asdict(rates))
            advance(1)
    shown = [
        {
            "method": row["method"],
            "encode GB/s": f"{row['encode'] / 1e9:.3g}",
            "decode GB/s": f"{row['decode'] / 1e9:.3g}",
            "encode call": format_time(row["encode_message"]),
            "decode call": format_time(row["decode_message"]),
            "kernel": row["kernel"],
        }
        for row in rows
    ]
    table = rows_table(shown, title="bytes of float32 per second, the fastest of a few rounds")
    names = [method.name for method in chosen]
    document = {"schema": "lightloom.exchange-rates/1", "methods": rows, "provenance": provenance(names)}
    return Shown(document, [table, "kept for lightloom plan --exchange-engine local"])
