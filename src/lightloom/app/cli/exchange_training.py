"""``lightloom exchange compare``: exchanges on a training task."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING

from lightloom.app.cli.options import FigureFile, OutFile, Several, Shown, draw, read_settings
from lightloom.core.configfile import read_config
from lightloom.core.fields import Bandwidth, Config, Count
from lightloom.core.files import cache_directory, write_atomically
from lightloom.core.results import Document, attributes, provenance
from lightloom.core.units import format_bandwidth, format_time
from lightloom.exchange.comparison import REFERENCE, Comparison, cases, compare_runs, default_steps, run_all
from lightloom.exchange.measuring import keep_rates, measurable
from lightloom.exchange.measuring import measure_kernels as measured
from lightloom.exchange.method import Evidence, merge_evidence
from lightloom.exchange.methods import compared, find
from lightloom.reports.console import Parts, screen
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
        """Return the document that ``lightloom exchange compare --json`` prints: ``task``, ``ranks``, ``steps``,
        ``seeds`` and ``link_bytes_per_second``; ``methods``, a row for each, plain training included, with the factor
        by which it saves bytes (``ratio``), its last validation ``loss`` in nats, that less the one of plain training
        (``difference``, all means over seeds) and the range of this over seeds (``spread``), the modelled
        ``step_seconds``, ``loss_at_equal_time`` (after the time of half the plain steps), ``replicas_equal``, whether
        ranks ended with the same weights in every run, and ``on_front``, whether no other beats it in bytes and loss;
        and ``runs``, the validation losses of each ``method`` and ``seed``."""
        return {
            "schema": "lightloom.exchange-comparison/1",
            **attributes(self, "task ranks steps seeds link_bytes_per_second=link"),
            "methods": [asdict(row) for row in self.methods],
            "runs": [{"method": method, "seed": seed, "loss": list(loss)} for method, seed, loss in self.losses],
            "provenance": self.origin,
        }

    def answer(self, all: bool) -> Parts:
        """Return what the terminal shows: the method of the lowest loss after the time of half the plain steps, beside
        plain training (beside the second where that is the lowest), and a row for each method: the factor by which it
        saves bytes, its last loss, that less plain training's ± half the range over seeds, the time of a step, and the
        loss after equal time.

        Rows of methods that no other beats in both bytes and last loss, marked with a star, come first, then others,
        each by the loss after equal time; eight are shown unless ``all`` are asked for.
        """
        best, *others = sorted(self.methods, key=lambda row: row.loss_at_equal_time)
        other = next((row for row in others if row.method == REFERENCE), others[0])
        names = {row.method: "plain training" if row.method == REFERENCE else row.method for row in self.methods}
        unequal = [row.method for row in self.methods if not row.replicas_equal]
        rows = [
            {
                "method": f"{names[row.method]}{' *' * row.on_front}",
                "bytes": f"÷{row.ratio:.3g}",
                "loss": f"{row.loss:.4f}",
                "less plain": "" if row.method == REFERENCE else f"{row.difference:+.4f}±{row.spread / 2:.4f}",
                "step": format_time(row.step_seconds),
                "equal time": f"{row.loss_at_equal_time:.4f}",
            }
            for row in sorted(self.methods, key=lambda row: (not row.on_front, row.loss_at_equal_time))
        ]
        return screen(
            f"Which exchange trains {TASKS[self.task]} best? {self.ranks} ranks, {self.steps} steps, "
            f"{self.seeds} seed{'s' * (self.seeds > 1)}, links of {format_bandwidth(self.link)}",
            (
                f"{names[best.method]}: loss {best.loss_at_equal_time:.4f} after the time of {self.steps // 2} plain "
                f"steps; {names[other.method]}: {other.loss_at_equal_time:.4f}",
            ),
            rows,
            all=all,
            legend="* no other has both fewer bytes and a lower loss; less plain: loss less that of plain training "
            "from the same seeds, ± half the range over seeds; equal time: loss after the time of half the plain steps",
            limit="steps are a model: processor time as measured here, then sending; replicas "
            + (f"differ under {', '.join(unequal)}" if unequal else "are equal bit for bit in every run"),
            more=("--set link=10Gbps", "--seeds N", "--figure losses.png"),
        )

    def _differences(self, method: str) -> list[float]:
        """Return the last losses of a method's runs minus those of plain training from the same seeds, in the order of
        the runs."""
        base = {seed: loss[-1] for name, seed, loss in self.losses if name == REFERENCE}
        return [loss[-1] - base[seed] for name, seed, loss in self.losses if name == method]

    def evidence(self) -> list[Evidence]:
        """Return this comparison's own results, plain training's aside, as the evidence that plans quote: each method's
        mean difference in last loss to plain training, the sample standard deviation of that over the seeds (0 for
        one), the task, and the command."""
        command = f"lightloom exchange compare --task {self.task} --ranks {self.ranks} --seeds {self.seeds}"
        found = partial(Evidence, task=TASKS[self.task], steps=self.steps, ranks=self.ranks, command=command)
        rows = [row for row in self.methods if row.method != REFERENCE]
        spreads = [stdev(self._differences(row.method)) if row.seeds > 1 else 0.0 for row in rows]
        return [
            found(method=row.method, seeds=row.seeds, loss_difference=row.difference, spread=spread)
            for row, spread in zip(rows, spreads, strict=True)
        ]

    def figure(self) -> Figure:
        """Return a figure of the difference in last loss to plain training (upwards) over the factor by which bytes are
        saved (across, logarithmic): a point for each method with a line for the range over the seeds; those that no
        other beats in both are filled and joined."""
        points = []
        for row in self.methods:
            differences = self._differences(row.method)
            name = row.method.partition(":")[0] if row.method != REFERENCE else "plain"
            name += ", scaled" * (",scaled" in row.method)
            ends = min(differences), max(differences)
            points.append(ExchangePoint(name, row.ratio, row.difference, *ends, row.on_front))
        return exchange_figure(points, self.title)


class TrainingRuns(Config):
    """Settings that all training runs share: fields of ``lightloom exchange compare --set``."""

    steps: Count | None = None
    """Steps of a run. Null: 300, or 400 for mnist."""
    link: Bandwidth = 1.25e8
    """Speed at which each rank sends, for equal time; 1 Gb/s."""
    data: Path | None = None
    """Folder of data sets. Null: $LIGHTLOOM_DATA."""
    folder: Path | None = None
    """Where finished runs are kept. Null: in the cache."""


def compare(
    *,
    task: str = "chars",
    exchange: list[str] | None = None,
    ranks: Several = 4,
    seeds: Count = 3,
    set: list[str] | None = None,
    figure: FigureFile = None,
    out: OutFile = None,
    all: bool = False,
) -> Shown:
    """Train a small task with each exchange, in real processes: bytes against loss, and loss after equal time.

    Runs that have finished are not repeated, so that a comparison that was interrupted continues.
    `lightloom exchange compare --exchange int8 --exchange topk --seeds 1` compares two methods with plain training.

    Args:
        task: The training task is mnist, chars (tinyshakespeare) or text (WikiText-2).
        exchange (METHOD): An exchange, as int4:block=128; all are compared if none is given; repeatable.
        ranks: Number of processes that train together.
        seeds: Runs of each exchange, from different weights.
        set: field=value of all runs: steps=300, link=1Gbps for equal time, data=FOLDER of data sets ($LIGHTLOOM_DATA if
            not given) or folder=FOLDER, where finished runs are kept (the cache if not given); repeatable.
        figure: Draw bytes saved against loss (.svg, .png, .pdf).
        out: Put the differences in loss into this table, as plans read it (evidence.json).
        all: Show all methods.

    Returns:
        The result to print: bytes and losses of each method beside plain training.

    Raises:
        InputError: no such task or method, or a setting that cannot be read.
    """
    runs = read_config(TrainingRuns, "compare", None, read_settings(set))
    chosen, usual = exchange or compared(), default_steps(task, runs.data)
    count = usual if runs.steps is None else runs.steps
    planned = cases(task, chosen, seeds, ranks, count)
    with progress("training", seeds * (len(chosen) + 1)) as advance:
        results = run_all(planned, runs.folder or cache_directory() / "exchanges", runs.data, advance)
    result = _Comparison(
        task=task,
        ranks=ranks,
        steps=count,
        seeds=seeds,
        link=runs.link,
        methods=tuple(compare_runs(results, runs.link)),
        losses=tuple((each.case.method, each.case.seed, tuple(each.loss)) for each in results),
        origin=provenance({"task": task, "methods": chosen, "ranks": ranks, "seeds": seeds, "steps": count}),
    )
    draw(figure, result.figure, result.to_json())
    if out is not None:
        write_atomically(out, merge_evidence(out, result.evidence()))
    return Shown(result.to_json(), result.answer(all), {"figure": figure, "evidence": out})


# ``lightloom exchange measure``: rates of this host's kernels, which ``plan --exchange-engine local`` prices with.


def measure(methods: list[str] | None = None) -> Shown:
    """Time the kernels of methods on one thread of this host, and keep the rates for `lightloom plan`.

    `lightloom exchange measure int8 topk` times two.

    Args:
        methods (METHOD...): Methods with options; the common ones are timed if none is given.

    Returns:
        The result to print: bytes of float32 that each method encodes and decodes in a second, and seconds of a call.

    Raises:
        UnknownNameError: no such method.
    """
    chosen = [find(name) for name in methods or compared()]
    chosen = chosen if methods else [method for method in chosen if measurable(method)]
    rows = []
    with progress("Measuring", len(chosen)) as advance:
        for method in advance.over(chosen):
            rates = measured(method)
            keep_rates(method.name, rates)
            rows.append({"method": method.name} | asdict(rates))
    fastest = max(rows, key=lambda row: row["encode"])
    parts = screen(
        f"How fast does one thread of this host code gradients, by {len(rows)} methods?",
        (f"{fastest['method']} encodes {fastest['encode'] / 1e9:.3g} GB of float32 a second",),
        [
            {
                "method": row["method"],
                **{way: f"{row[way] / 1e9:.3g} GB/s" for way in ("encode", "decode")},
                "a call": format_time(row["encode_message"] + row["decode_message"]),
            }
            for row in rows
        ],
        everything="--json",
        legend="GB/s: of float32 values, the fastest of a few rounds; a call: to encode and decode, however small",
        more=("kept for lightloom plan --exchange-engine local",),
    )
    names = [method.name for method in chosen]
    return Shown({"schema": "lightloom.exchange-rates/1", "methods": rows, "provenance": provenance(names)}, parts)
