"""Short training runs on more networks and gradient scales: HDC and LeNet on MNIST, LeNet on CIFAR-100 where it is.

Four ranks in one process, so that one core can repeat them; a run with a result is not repeated. By itself:

    python -m lightloom.studies.inceptionn.network_runs DIR [DATA]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom.core.files import write_atomically
from lightloom.core.provenance import provenance
from lightloom.studies.inceptionn.rounding import rounded
from lightloom.training.datasets import cifar
from lightloom.training.datasets.folder import data_folder
from lightloom.training.datasets.mnist import training_digits

if TYPE_CHECKING:
    from lightloom.training.runs.digits import Recipe

RANKS = 4
BATCH = 25
"""Images of a rank and step, as Table I says for HDC."""
ITERATIONS = {"hdc": 300, "lenet": 200, "lenet-cifar": 2_500}
"""A half and a third of an epoch of MNIST, so that all runs without CIFAR take about six minutes of one core; five
epochs of CIFAR-100."""
SEEDS = (0, 1, 2)
SUMMED = float(BATCH)
"""Factor that turns the mean loss over a rank's batch into its sum."""
LEARNING_RATES = {"hdc": 0.1, "lenet": 0.05, "lenet-cifar": 0.05}
"""Table I's for HDC; ours for LeNet, divided by five after 5/12 and 10/12 of the iterations."""
_KEPT = ("recipe", "iterations", "accuracy", "loss", "tags", "nbytes_raw", "nbytes_sent", "seconds")


@dataclass(frozen=True, slots=True)
class Run:
    """A variant of the training of one network."""

    network: str
    name: str
    gradients: str = "none"
    error_feedback: bool = False
    weights: str = "none"
    gradient_scale: float = 1.0
    rate: float = 1.0
    """Factor of the learning rate beside what the gradient scale takes away again."""
    seeds: Sequence[int] = SEEDS[:1]
    shortened: int | None = None
    """Iterations where they are fewer than the network's."""

    @property
    def iterations(self) -> int:
        """Iterations of the run: its own number where it is shortened, the network's otherwise."""
        return self.shortened or ITERATIONS[self.network]

    def recipe(self, seed: int) -> Recipe:
        """Return the recipe of the run with one seed."""
        from lightloom.training.runs.digits import Recipe

        return Recipe(
            seed=seed,
            network=self.network,
            gradients=self.gradients,
            error_feedback=self.error_feedback,
            weights=self.weights,
            gradient_scale=self.gradient_scale,
            iterations=self.iterations,
            batch_per_rank=BATCH,
            learning_rate=self.rate * LEARNING_RATES[self.network],
            iterations_per_division=2_000 if self.network == "hdc" else ITERATIONS[self.network] * 5 // 12,
            record_every=ITERATIONS[self.network] // (4 if self.network == "hdc" else 5),
            checkpoint_every=10 * ITERATIONS[self.network],
        )


def runs() -> tuple[Run, ...]:
    """Return all runs, the most important first."""
    lenet = (*_codecs("lenet", SEEDS), *_truncated("lenet"), *_summed("lenet"))
    return (*_hdc(), *lenet, *_codecs("lenet-cifar", SEEDS[:1]))


def _codecs(network: str, seeds: Sequence[int]) -> Iterator[Run]:
    """Figs. 13 and 14(b): float32 and the codecs at 2^-10, and feedback at the larger bounds."""
    yield Run(network, "float32", seeds=seeds)
    yield Run(network, "printed 2^-10", "inceptionn-printed:2^-10")
    yield Run(network, "windowed 2^-10", "inceptionn:2^-10")
    for k in (10, 8, 6):
        several = seeds if k == 10 else SEEDS[:1]
        yield Run(network, f"windowed+feedback 2^-{k}", f"inceptionn:2^-{k}", error_feedback=True, seeds=several)


def _truncated(network: str) -> Iterator[Run]:
    """Fig. 4: truncation of gradients and of weights."""
    for bits in (16, 22, 24):
        yield Run(network, f"truncate g {bits}", gradients=f"truncate:{bits}")
        yield Run(network, f"truncate w {bits}", weights=f"truncate:{bits}")


def _summed(network: str) -> Iterator[Run]:
    """The loss summed over a rank's batch: gradients 25 times as large under the same bound."""
    yield Run(network, "printed 2^-10 summed", "inceptionn-printed:2^-10", gradient_scale=SUMMED)


def _hdc() -> Iterator[Run]:
    """The paper's network with the codec as printed, under the mean loss and the summed one.

    The last run reads the summed loss literally: at Table I's learning rate.
    """
    for scale, mark in ((1.0, ""), (SUMMED, " summed")):
        yield Run("hdc", f"float32{mark}", gradient_scale=scale)
        yield Run("hdc", f"printed 2^-10{mark}", "inceptionn-printed:2^-10", gradient_scale=scale)
    yield Run("hdc", "float32 summed, rate as printed", gradient_scale=SUMMED, rate=SUMMED, shortened=100)


def jobs(data: Path | None = None) -> list[tuple[Run, int]]:
    """Return runs and seeds, seed by seed; without CIFAR-100 in ``data`` its runs are left out."""
    there = data is not None and cifar.is_there(data)
    every = [(run, seed) for seed in SEEDS for run in runs() if seed in run.seeds]
    return [(run, seed) for run, seed in every if there or run.network != "lenet-cifar"]


def job_count() -> int:
    """Return the number of training runs, those on CIFAR-100 included."""
    return sum(len(run.seeds) for run in runs())


def measure(work: Path, data: Path, advance: Callable[[int], None] = lambda _: None) -> Path:
    """Run the training runs without results in ``work`` and write ``networks.json`` there.

    Args:
        work: folder for results, one file a run.
        data: the data folder with MNIST and, if it is there, CIFAR-100.
        advance: called with 1 after each run, and with the number of runs whose data set is missing.

    Raises:
        ConfigError: the data set is missing.
    """
    training_digits(data)
    work.mkdir(parents=True, exist_ok=True)
    todo = jobs(data)
    advance(job_count() - len(todo))
    for run, seed in todo:
        path = _result(work, run, seed)
        if not path.exists():
            write_atomically(path, json.dumps(rounded(_train(run, seed, data))))
        advance(1)
    return collect(work, data)


def _train(run: Run, seed: int, data: Path) -> dict[str, Any]:
    import torch

    from lightloom.training.runs.emulated_digits import train
    from lightloom.training.runs.image_sets import image_sets

    torch.set_num_threads(1)
    record = train(run.recipe(seed), image_sets(run.network, data), RANKS)
    return {name: record[name] for name in _KEPT}


def collect(work: Path, data: Path | None = None) -> Path:
    """Write ``networks.json`` from the available results."""
    records: dict[str, dict[str, list[Any]]] = {}
    for run, seed in jobs(data):
        path = _result(work, run, seed)
        if path.exists():
            records.setdefault(run.network, {}).setdefault(run.name, []).append(json.loads(path.read_text()))
    origin = provenance({network: list(variants) for network, variants in records.items()}, seed=SEEDS[0])
    write_atomically(work / "networks.json", json.dumps({"ranks": RANKS, "runs": records, "provenance": origin}) + "\n")
    return work / "networks.json"


def _result(work: Path, run: Run, seed: int) -> Path:
    words = "".join(letter if letter.isalnum() else "-" for letter in f"{run.network} {run.name}")
    return work / f"{words}-seed{seed}.json"


def main() -> None:
    """Measure into the folder that the command names."""
    folder, *data = (Path(argument) for argument in sys.argv[1:])
    path = measure(folder, data_folder(data[0] if data else None))
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
