"""All training runs of the study: the short ones on more networks, then HDC for Table I's 10,000 iterations.

A run with a result is not repeated. The short runs by themselves:

    python -m lightloom.papers.inceptionn.runs DIR [DATA]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lightloom.core.claims import Claim
from lightloom.core.files import write_atomically
from lightloom.core.journal import stored_record
from lightloom.core.results import provenance
from lightloom.exchange import datasets
from lightloom.exchange.datasets import data_folder, training_digits
from lightloom.exchange.transport.launch import launch
from lightloom.papers.inceptionn import PAPER
from lightloom.papers.inceptionn.paper import rounded

if TYPE_CHECKING:
    from lightloom.papers.runs.digits import Recipe


# Short runs: HDC and LeNet on MNIST, LeNet on CIFAR-100 where it is; all four ranks in one process, on one core.

RANKS = 4
BATCH = 25
"""Images of a rank and step, as Table I says for HDC."""
ITERATIONS = {"hdc": 300, "lenet": 200, "lenet-cifar": 2_500}
"""A half and a third of an epoch of MNIST, so that all runs without CIFAR take about six minutes of one core; five
epochs of CIFAR-100."""
SHORT_SEEDS = (0, 1, 2)
SUMMED = float(BATCH)
"""Factor that turns the mean loss over a rank's batch into its sum."""
LEARNING_RATES = {"hdc": 0.1, "lenet": 0.05, "lenet-cifar": 0.05}
"""Table I's for HDC; ours for LeNet, divided by five after 5/12 and 10/12 of the iterations."""
_KEPT = ("recipe", "iterations", "accuracy", "loss", "tags", "nbytes_raw", "nbytes_sent", "seconds")


@dataclass(frozen=True, slots=True)
class ShortRun:
    """A variant of the training of one network."""

    network: str
    name: str
    gradients: str = "none"
    error_feedback: bool = False
    weights: str = "none"
    gradient_scale: float = 1.0
    rate: float = 1.0
    """Factor of the learning rate beside what the gradient scale takes away again."""
    seeds: Sequence[int] = SHORT_SEEDS[:1]
    shortened: int | None = None
    """Iterations where they are fewer than the network's."""

    @property
    def iterations(self) -> int:
        """Iterations of the run: its own number where it is shortened, the network's otherwise."""
        return self.shortened or ITERATIONS[self.network]

    def recipe(self, seed: int) -> Recipe:
        """Return the recipe of the run with one seed."""
        from lightloom.papers.runs.digits import Recipe

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


def short_runs() -> tuple[ShortRun, ...]:
    """Return all runs, the most important first."""
    lenet = (*_codecs("lenet", SHORT_SEEDS), *_truncated("lenet"), *_summed("lenet"))
    return (*_hdc(), *lenet, *_codecs("lenet-cifar", SHORT_SEEDS[:1]))


def _codecs(network: str, seeds: Sequence[int]) -> Iterator[ShortRun]:
    """Figs. 13 and 14(b): float32 and the codecs at 2^-10, and feedback at the larger bounds."""
    yield ShortRun(network, "float32", seeds=seeds)
    yield ShortRun(network, "printed 2^-10", "inceptionn-printed:2^-10")
    yield ShortRun(network, "windowed 2^-10", "inceptionn:2^-10")
    for k in (10, 8, 6):
        several = seeds if k == 10 else SHORT_SEEDS[:1]
        yield ShortRun(network, f"windowed+feedback 2^-{k}", f"inceptionn:2^-{k}", error_feedback=True, seeds=several)


def _truncated(network: str) -> Iterator[ShortRun]:
    """Fig. 4: truncation of gradients and of weights."""
    for bits in (16, 22, 24):
        yield ShortRun(network, f"truncate g {bits}", gradients=f"truncate:{bits}")
        yield ShortRun(network, f"truncate w {bits}", weights=f"truncate:{bits}")


def _summed(network: str) -> Iterator[ShortRun]:
    """The loss summed over a rank's batch: gradients 25 times as large under the same bound."""
    yield ShortRun(network, "printed 2^-10 summed", "inceptionn-printed:2^-10", gradient_scale=SUMMED)


def _hdc() -> Iterator[ShortRun]:
    """The paper's network with the codec as printed, under the mean loss and the summed one.

    The last run reads the summed loss literally: at Table I's learning rate.
    """
    for scale, mark in ((1.0, ""), (SUMMED, " summed")):
        yield ShortRun("hdc", f"float32{mark}", gradient_scale=scale)
        yield ShortRun("hdc", f"printed 2^-10{mark}", "inceptionn-printed:2^-10", gradient_scale=scale)
    yield ShortRun("hdc", "float32 summed, rate as printed", gradient_scale=SUMMED, rate=SUMMED, shortened=100)


def short_jobs(data: Path | None = None) -> list[tuple[ShortRun, int]]:
    """Return runs and seeds, seed by seed; without CIFAR-100 in ``data`` its runs are left out."""
    there = data is not None and datasets.is_there(data)
    every = [(run, seed) for seed in SHORT_SEEDS for run in short_runs() if seed in run.seeds]
    return [(run, seed) for run, seed in every if there or run.network != "lenet-cifar"]


def short_job_count() -> int:
    """Return the number of training runs, those on CIFAR-100 included."""
    return sum(len(run.seeds) for run in short_runs())


def measure_short(work: Path, data: Path, advance: Callable[[int], None] = lambda _: None) -> Path:
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
    todo = short_jobs(data)
    advance(short_job_count() - len(todo))
    for run, seed in todo:
        stored_record(_short_result(work, run, seed), partial(_short_record, run, seed, data))
        advance(1)
    return collect_short(work, data)


def _short_record(run: ShortRun, seed: int, data: Path) -> Any:
    return rounded(_train(run, seed, data))


def _train(run: ShortRun, seed: int, data: Path) -> dict[str, Any]:
    import torch

    from lightloom.papers.runs.digits import image_sets
    from lightloom.papers.runs.emulated import train

    torch.set_num_threads(1)
    record = train(run.recipe(seed), image_sets(run.network, data), RANKS)
    return {name: record[name] for name in _KEPT}


def collect_short(work: Path, data: Path | None = None) -> Path:
    """Write ``networks.json`` from the available results."""
    records: dict[str, dict[str, list[Any]]] = {}
    for run, seed in short_jobs(data):
        path = _short_result(work, run, seed)
        if path.exists():
            records.setdefault(run.network, {}).setdefault(run.name, []).append(json.loads(path.read_text()))
    origin = provenance({network: list(variants) for network, variants in records.items()}, seed=SHORT_SEEDS[0])
    write_atomically(work / "networks.json", json.dumps({"ranks": RANKS, "runs": records, "provenance": origin}) + "\n")
    return work / "networks.json"


def _short_result(work: Path, run: ShortRun, seed: int) -> Path:
    words = "".join(letter if letter.isalnum() else "-" for letter in f"{run.network} {run.name}")
    return work / f"{words}-seed{seed}.json"


# Figure 5: distribution of gradients early, in the middle and late in training.

LOWEST = -30
"""Exponent below which values, including zeros, are counted together."""


def count_binades(gradient: NDArray[np.float32]) -> dict[str, Any]:
    """Counts of values by binade, apart for both signs; JSON.

    Returns:
        ``values``, ``largest`` (absolute), ``small`` (below 2^LOWEST), and ``negative`` and ``positive``: counts for
        the binades 2^LOWEST … 2^0 and above.
    """
    exponent = np.frexp(gradient)[1] - 1
    seen = np.abs(gradient) >= 2.0**LOWEST
    edges = np.arange(LOWEST, 2)
    bins = np.clip(exponent, LOWEST, 0)
    return {
        "values": int(gradient.size),
        "largest": float(np.max(np.abs(gradient))),
        "small": int(np.count_nonzero(~seen)),
        "negative": np.histogram(bins[seen & (gradient < 0)], edges)[0].tolist(),
        "positive": np.histogram(bins[seen & (gradient > 0)], edges)[0].tolist(),
    }


def figure5_claims(gradients: Mapping[str, Any]) -> tuple[Claim, ...]:
    """Return rows on the range of values at each stage, and on the share close to 0."""
    return tuple(
        PAPER.claim(
            "figure5.hdc_{stage}_range",
            "all between -1 and 1" if counts["largest"] < 1 else f"up to {counts['largest']:.2f}",
            stage=stage,
            counts=counts,
            below_percent=100 * below(counts, -10),
        )
        for stage, counts in gradients.items()
    )


def below(counts: Mapping[str, Any], exponent: int) -> float:
    """Return the share of values below 2^exponent in magnitude."""
    kept = exponent - LOWEST
    small = counts["small"] + sum(counts["negative"][:kept]) + sum(counts["positive"][:kept])
    return float(small / counts["values"])


# Long runs: HDC on MNIST, four processes, Table I's hyper-parameters; an interrupted one resumes from its checkpoint.

LONG_SEEDS = (0, 1, 2, 3, 4)
SNAPSHOTS = {"early": 100, "middle": 500, "late": 10_000}
"""Iterations whose gradients are kept, from the first seed's float32 run: 88 %, 95.5 % and 98.6 % of the test set are
right by then. Half-way in iterations would be no middle: by then many batches leave nothing above 2^-10."""
FEWER_ITERATIONS = 3_000
"""Iterations of the runs that only Figs. 4 and 14 use: float32 gains 0.1 points after them."""
_TIMEOUT = 7_200.0


@dataclass(frozen=True, slots=True)
class LongRun:
    """A variant of the training, run once per seed."""

    name: str
    gradients: str = "none"
    error_feedback: bool = False
    weights: str = "none"
    seeds: Sequence[int] = LONG_SEEDS[:1]
    iterations: int = 10_000

    def recipe(self, seed: int) -> Recipe:
        """Return the recipe of the run with one seed."""
        from lightloom.papers.runs.digits import Recipe

        return Recipe(
            seed=seed,
            gradients=self.gradients,
            error_feedback=self.error_feedback,
            weights=self.weights,
            iterations=self.iterations,
        )


def long_runs() -> tuple[LongRun, ...]:
    """Return all runs, the most important first."""
    paired = (
        LongRun("float32", seeds=LONG_SEEDS),
        LongRun("windowed+feedback 2^-10", "inceptionn:2^-10", True, seeds=LONG_SEEDS),
    )
    codecs = tuple(
        LongRun(f"{label} 2^-{k}", f"{family}:2^-{k}", feedback, iterations=10_000 if k == 10 else FEWER_ITERATIONS)
        for k in (10, 8, 6)
        for label, family, feedback in (
            ("printed", "inceptionn-printed", False),
            ("windowed", "inceptionn", False),
            ("windowed+feedback", "inceptionn", True),
        )
    )
    truncated = tuple(
        LongRun(
            f"truncate {what} {bits}",
            gradients=f"truncate:{bits}" if "g" in what else "none",
            weights=f"truncate:{bits}" if "w" in what else "none",
            iterations=FEWER_ITERATIONS,
        )
        for bits in (16, 22, 24)
        for what in ("g", "w", "w+g")
    )
    more = tuple(each for each in codecs if each.name not in {one.name for one in paired})
    return (*paired, *more, *truncated)


def long_jobs() -> list[tuple[LongRun, int]]:
    """Return runs and seeds in the order of execution, pairs first."""
    every = [(run, seed) for run in long_runs() for seed in run.seeds]
    return sorted(every, key=lambda job: (len(job[0].seeds) == 1, job[1]))


def measure_long(work: Path, data: Path | None, advance: Callable[[int], None] = lambda _: None) -> Path:
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
    for run, seed in long_jobs():
        place = _folder(work, run, seed)
        record = stored_record(place / "result.json", partial(_train_long, run, seed, place, folder))
        for checkpoint in place.glob("checkpoint-*.pt"):
            checkpoint.unlink()
        records.setdefault(run.name, []).append(record)
        advance(1)
        write_atomically(work / "training.json", json.dumps(_document(work, records)))
    return work / "training.json"


def _document(work: Path, records: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    folder = _folder(work, long_runs()[0], LONG_SEEDS[0])
    stages = {
        stage: {"iteration": at, **count_binades(np.load(folder / f"gradient-{at}.npy"))}
        for stage, at in SNAPSHOTS.items()
    }
    origin = provenance({name: len(each) for name, each in records.items()}, seed=LONG_SEEDS[0])
    return {"ranks": RANKS, "runs": rounded(records), "gradients": stages, "provenance": origin}


def _folder(work: Path, run: LongRun, seed: int) -> Path:
    return work / f"{run.name.replace(' ', '-')}-seed{seed}"


def _train_long(run: LongRun, seed: int, folder: Path, data: Path) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    snapshots = list(SNAPSHOTS.values()) if run.gradients == "none" and seed == LONG_SEEDS[0] else []
    arguments = {"recipe": asdict(run.recipe(seed)), "data": str(data), "folder": str(folder), "snapshots": snapshots}
    record: dict[str, Any] = launch("lightloom.papers.runs.digits:train", RANKS, _TIMEOUT, arguments)[0].value
    return record


def job_count() -> int:
    """Return the number of training runs."""
    return short_job_count() + len(long_jobs())


def measure(work: Path, data: Path | None, advance: Callable[[int], None] = lambda _: None) -> Path:
    """Run the training runs without results in ``work`` and write ``networks.json`` and ``training.json`` there.

    Raises:
        ConfigError: the data set is missing.
        LaunchError: a run failed; the next call resumes it from its checkpoint.
    """
    folder = data_folder(data)
    measure_short(work, folder, advance)
    measure_long(work, folder, advance)
    return work


def main() -> None:
    """Measure into the folder that the command names."""
    folder, *data = (Path(argument) for argument in sys.argv[1:])
    path = measure_short(folder, data_folder(data[0] if data else None))
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
