"""The training runs of the study: a LeNet on MNIST, four processes, five paired seeds; long, hence resumable.

Equal seeds start from equal weights and see equal batches, so that runs are compared in pairs. A run that has its
result is not repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lightloom.core.files import write_atomically
from lightloom.core.provenance import provenance
from lightloom.training.datasets.mnist import training_digits
from lightloom.training.transport.launch import launch
from lightloom.training.transport.worker import Worker

if TYPE_CHECKING:
    from lightloom.training.runs.digits import Recipe

RANKS = 4
SEEDS = (0, 1, 2, 3, 4)
BASELINE = "float32"
ITERATIONS = 1_200
"""Five epochs at 64 images per rank; the learning rate has been divided twice by then, and the accuracy is constant."""
_TIMEOUT = 7_200.0
_KEPT = ("recipe", "iterations", "accuracy", "loss", "nbytes_raw", "nbytes_sent", "seconds")


@dataclass(frozen=True, slots=True)
class Run:
    """A variant of the training."""

    name: str
    averager: str | None = None
    """Name for ``find_averager``; None is DDP's own all-reduce."""
    bits: int = 16
    rounding: Literal["floor", "half-up"] = "half-up"

    def recipe(self, seed: int) -> Recipe:
        """Return the recipe of the run with one seed."""
        from lightloom.training.runs.digits import lenet_recipe

        gradients = "none" if self.averager is None else f"optical:{self.averager}"
        return lenet_recipe(seed, ITERATIONS, gradients, self.bits, self.rounding)


RUNS = (
    Run(BASELINE),
    Run("16-bit half-up", "ideal"),
    Run("16-bit floor", "ideal", rounding="floor"),
    Run("8-bit half-up", "ideal", bits=8),
    Run("8-bit floor", "ideal", bits=8, rounding="floor"),
    *(Run(f"16-bit floor, errors {row}", f"table2:{row}", rounding="floor") for row in ("3-6", "4-8", "4-7", "3-7")),
    Run("8-bit half-up, constructed, noise 3e-3", "constructed:noise=3e-3", bits=8),
)
"""All runs, the most important first. The networks of Table II floor, as the paper's do."""


def jobs(runs: Sequence[Run] = RUNS) -> list[tuple[Run, int]]:
    """Return runs and seeds in the order of execution: the first two pair by pair, then the others seed by seed."""
    return [(run, seed) for part in (runs[:2], runs[2:]) for seed in SEEDS for run in part]


def measure(work: Path, data: Path, advance: Callable[[int], None] = lambda _: None) -> Path:
    """Run the training runs without results in ``work`` and write ``training.json`` there.

    All of it is one launch, as starting processes takes as long as some of the runs.

    Args:
        work: folder for results, one file a run.
        data: the data folder with MNIST.
        advance: told 1 after each run that had a result before, and the rest at the end.

    Raises:
        ConfigError: the data set is not there.
        LaunchError: a run failed; calling again goes on with it.
    """
    training_digits(data)
    work.mkdir(parents=True, exist_ok=True)
    missing = [(run, seed) for run, seed in jobs() if not _result(work, run, seed).exists()]
    advance(len(jobs()) - len(missing))
    if missing:
        tasks = [{"recipe": asdict(run.recipe(seed)), "result": str(_result(work, run, seed))} for run, seed in missing]
        launch("lightloom.studies.optinc.training_runs:train_all", RANKS, _TIMEOUT, {"tasks": tasks, "data": str(data)})
        advance(len(missing))
    return collect(work)


def train_all(worker: Worker) -> None:
    """Worker function: train one run after the other, each with its own result file."""
    from lightloom.training.runs.digits import train

    for task in worker.arguments["tasks"]:
        arguments = {"recipe": task["recipe"], "data": worker.arguments["data"], "folder": None}
        record = train(Worker(worker.rank, worker.size, arguments))
        if worker.rank == 0:
            write_atomically(Path(task["result"]), json.dumps({name: record[name] for name in _KEPT}))


def collect(work: Path) -> Path:
    """Write ``training.json`` from the available results."""
    records: dict[str, list[dict[str, Any]]] = {}
    for run, seed in jobs():
        if _result(work, run, seed).exists():
            records.setdefault(run.name, []).append(json.loads(_result(work, run, seed).read_text()))
    document = {"ranks": RANKS, "runs": records, "provenance": provenance(list(records), seed=SEEDS[0])}
    write_atomically(work / "training.json", json.dumps(document, indent=1) + "\n")
    return work / "training.json"


def _result(work: Path, run: Run, seed: int) -> Path:
    words = "".join(letter if letter.isalnum() else "-" for letter in run.name)
    return work / f"{words}-seed{seed}.json"
