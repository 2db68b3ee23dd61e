"""The training runs of the study: HDC on MNIST, four processes, Table I's hyper-parameters; long, hence resumable.

A run with a result is not repeated; an interrupted one resumes from its last checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.files import write_atomically
from lightloom.core.provenance import provenance
from lightloom.studies.inceptionn.gradients import summary
from lightloom.studies.inceptionn.rounding import rounded
from lightloom.training.datasets.folder import data_folder
from lightloom.training.datasets.mnist import training_digits
from lightloom.training.transport.launch import launch

if TYPE_CHECKING:
    from lightloom.training.runs.digits import Recipe

RANKS = 4
SEEDS = (0, 1, 2, 3, 4)
SNAPSHOTS = {"early": 100, "middle": 500, "late": 10_000}
"""Iterations whose gradients are kept, from the first seed's float32 run: 88 %, 95.5 % and 98.6 % of the test set are
right by then. Half-way in iterations would be no middle: by then many batches leave nothing above 2^-10."""
SHORT = 3_000
"""Iterations of the runs that only Figs. 4 and 14 use: float32 gains 0.1 points after them."""
_TIMEOUT = 7_200.0


@dataclass(frozen=True, slots=True)
class Run:
    """A variant of the training, run once per seed."""

    name: str
    gradients: str = "none"
    error_feedback: bool = False
    weights: str = "none"
    seeds: Sequence[int] = SEEDS[:1]
    iterations: int = 10_000

    def recipe(self, seed: int) -> Recipe:
        """Return the recipe of the run with one seed."""
        from lightloom.training.runs.digits import Recipe

        return Recipe(
            seed=seed,
            gradients=self.gradients,
            error_feedback=self.error_feedback,
            weights=self.weights,
            iterations=self.iterations,
        )


def runs() -> tuple[Run, ...]:
    """Return all runs, the most important first."""
    paired = (
        Run("float32", seeds=SEEDS),
        Run("windowed+feedback 2^-10", "inceptionn:2^-10", True, seeds=SEEDS),
    )
    codecs = tuple(
        Run(f"{label} 2^-{k}", f"{family}:2^-{k}", feedback, iterations=10_000 if k == 10 else SHORT)
        for k in (10, 8, 6)
        for label, family, feedback in (
            ("printed", "inceptionn-printed", False),
            ("windowed", "inceptionn", False),
            ("windowed+feedback", "inceptionn", True),
        )
    )
    truncated = tuple(
        Run(
            f"truncate {what} {bits}",
            gradients=f"truncate:{bits}" if "g" in what else "none",
            weights=f"truncate:{bits}" if "w" in what else "none",
            iterations=SHORT,
        )
        for bits in (16, 22, 24)
        for what in ("g", "w", "w+g")
    )
    more = tuple(each for each in codecs if each.name not in {one.name for one in paired})
    return (*paired, *more, *truncated)


def jobs() -> list[tuple[Run, int]]:
    """Return runs and seeds in the order of execution, pairs first."""
    every = [(run, seed) for run in runs() for seed in run.seeds]
    return sorted(every, key=lambda job: (len(job[0].seeds) == 1, job[1]))


def job_count() -> int:
    """Return the number of training runs."""
    return len(jobs())


def measure(work: Path, data: Path | None, advance: Callable[[int], None] = lambda _: None) -> Path:
    """Run the training runs without results in ``work`` and write ``training.json`` there.

    Args:
        work: folder for checkpoints and results, with a folder per run.
        data: the data folder with MNIST; ``$LIGHTLOOM_DATA`` if None.
        advance: called with 1 after each run.

    Raises:
        ConfigError: the data set is missing.
        LaunchError: a run failed; the next call resumes it from its checkpoint.
    """
    folder = data_folder(data)
    training_digits(folder)
    records: dict[str, list[dict[str, Any]]] = {}
    for run, seed in jobs():
        records.setdefault(run.name, []).append(_once(run, seed, work, folder))
        advance(1)
        write_atomically(work / "training.json", json.dumps(_document(work, records)))
    return work / "training.json"


def _document(work: Path, records: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    folder = _folder(work, runs()[0], SEEDS[0])
    stages = {
        stage: {"iteration": at, **summary(np.load(folder / f"gradient-{at}.npy"))} for stage, at in SNAPSHOTS.items()
    }
    origin = provenance({name: len(each) for name, each in records.items()}, seed=SEEDS[0])
    return {"ranks": RANKS, "runs": rounded(records), "gradients": stages, "provenance": origin}


def _folder(work: Path, run: Run, seed: int) -> Path:
    return work / f"{run.name.replace(' ', '-')}-seed{seed}"


def _once(run: Run, seed: int, work: Path, data: Path) -> dict[str, Any]:
    folder = _folder(work, run, seed)
    result = folder / "result.json"
    if not result.exists():
        folder.mkdir(parents=True, exist_ok=True)
        snapshots = list(SNAPSHOTS.values()) if run.gradients == "none" and seed == SEEDS[0] else []
        arguments = {"recipe": asdict(run.recipe(seed)), "data": str(data), "folder": str(folder)}
        outcomes = launch(
            "lightloom.training.runs.digits:train", RANKS, _TIMEOUT, {**arguments, "snapshots": snapshots}
        )
        write_atomically(result, json.dumps(outcomes[0].value))
        for checkpoint in folder.glob("checkpoint-*.pt"):
            checkpoint.unlink()
    record: dict[str, Any] = json.loads(result.read_text())
    return record
