"""Exchanges compared by training: bytes against loss, and loss after equal time over a link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING

from lightloom.core.cache import cache_directory
from lightloom.core.results import Document, provenance
from lightloom.core.units import format_time, parse
from lightloom.exchange.comparison import REFERENCE, Case, Comparison, cases, compare_runs, default_steps, run_all
from lightloom.exchange.method import Evidence
from lightloom.exchange.methods import compared
from lightloom.reports.figures.comparisons import ExchangePoint, exchange_figure
from lightloom.reports.html import DrawnResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS = {
    "mnist": "MNIST, perceptron of 267k parameters, SGD",
    "chars": "tinyshakespeare by characters, decoder of 113k parameters, Adam",
    "text": "WikiText-2 by characters, decoder of 2 layers, Adam",
}
"""Description of each training task."""


@dataclass(frozen=True, repr=False, kw_only=True)
class ExchangeComparison(DrawnResult):
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
        """The task in a few words."""
        return f"{self.task}, {self.ranks} ranks, {self.steps} steps, {self.seeds} seed" + "s" * (self.seeds > 1)

    def summary(self) -> str:
        front = ", ".join(row.method for row in self.methods if row.on_front)
        return f"{self.title}: no method saves more bytes at a lower loss than {front}"

    def to_json(self) -> Document:
        return {
            "schema": "lightloom.exchange-comparison/1",
            "task": self.task,
            "ranks": self.ranks,
            "steps": self.steps,
            "seeds": self.seeds,
            "link_bytes_per_second": self.link,
            "methods": [asdict(row) for row in self.methods],
            "runs": [{"method": method, "seed": seed, "loss": list(loss)} for method, seed, loss in self.losses],
            "provenance": self.origin,
        }

    def rows(self) -> list[Document]:
        return [asdict(row) for row in self.methods]

    def display_rows(self) -> list[dict[str, str]]:
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
        """Last losses of a method's runs less those of plain training from the same seeds."""
        base = {seed: loss[-1] for name, seed, loss in self.losses if name == REFERENCE}
        return [loss[-1] - base[seed] for name, seed, loss in self.losses if name == method]

    def evidence(self) -> list[Evidence]:
        """Return what plans say of each method's effect on the loss."""
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
        """Draw bytes saved against loss."""
        points = []
        for row in self.methods:
            differences = self._differences(row.method)
            name = row.method.partition(":")[0] if row.method != REFERENCE else "plain"
            name += ", scaled" * (",scaled" in row.method)
            ends = min(differences), max(differences)
            points.append(ExchangePoint(name, row.ratio, row.difference, *ends, row.on_front))
        return exchange_figure(points, self.title)


def compare_exchanges(
    task: str = "chars",
    methods: Sequence[str] | None = None,
    *,
    ranks: int = 4,
    seeds: int = 3,
    steps: int | None = None,
    link: str | float = "1Gbps",
    data: Path | None = None,
    folder: Path | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> ExchangeComparison:
    """Train a task with every method, in ``ranks`` real processes, and compare. Finished runs are not repeated.

    Args:
        task: ``mnist``, ``chars`` or ``text``.
        methods: names of methods; those of ``registry.compared`` unless given. Plain training is always among the runs.
        ranks: number of processes.
        seeds: number of runs of each method.
        steps: number of steps; the task's own unless given.
        link: speed at which a rank sends, for equal time.
        data: folder of data sets; ``$LIGHTLOOM_DATA`` unless given.
        folder: where results are kept; in the cache unless given.
        advance: function called with the number of runs that have ended.

    Raises:
        UnknownNameError: there is no such task or method.
        ConfigError: a method's name cannot be read, or a data set is missing.
        LaunchError: a rank failed.
    """
    speed = link if isinstance(link, int | float) else parse(link, "bandwidth")
    chosen, usual = list(compared() if methods is None else methods), default_steps(task, data)
    count = usual if steps is None else steps
    planned: list[Case] = cases(task, chosen, seeds, ranks, count)
    results = run_all(planned, folder or cache_directory() / "exchanges", data, advance)
    return ExchangeComparison(
        task=task,
        ranks=ranks,
        steps=count,
        seeds=seeds,
        link=float(speed),
        methods=tuple(compare_runs(results, float(speed))),
        losses=tuple((result.case.method, result.case.seed, tuple(result.loss)) for result in results),
        origin=provenance({"task": task, "methods": chosen, "ranks": ranks, "seeds": seeds, "steps": count}),
    )
