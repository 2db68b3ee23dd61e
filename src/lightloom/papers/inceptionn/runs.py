"""All training runs of the study: the short ones on more networks, then HDC for Table I's 10,000 iterations.

A run with a result is not repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lightloom.core.claims import Claim
from lightloom.core.files import write_atomically
from lightloom.core.journal import stored_record
from lightloom.core.results import Advance, ignore
from lightloom.exchange.datasets import training_digits
from lightloom.exchange.transport.launch import launch
from lightloom.models.zoo import ZOO
from lightloom.papers.inceptionn import BOUNDS, PAPER, TABLE_1
from lightloom.papers.study import BASE, Experiment, origin, rounded

if TYPE_CHECKING:
    from lightloom.papers.runs.digits import Recipe


# Short runs: LeNet on MNIST; all four ranks in one process, on one core.

RANKS = 4
SHORT_SEEDS = (0, 1, 2)
SUMMED = 25.0
"""Factor that turns the mean loss over a rank's batch, of 25 images by Table I, into its sum."""
_KEPT = ("recipe", "iterations", "accuracy", "loss", "nbytes_raw", "nbytes_sent", "shares", "seconds")


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A variant of the training of one network, run once per seed."""

    name: str
    settings: Mapping[str, Any]
    """Fields of the recipe but for its seed."""
    seeds: Sequence[int]
    counted: bool = False
    """Count sizes under every reading of Table III."""

    @property
    def network(self) -> str:
        """Name of the network that is trained; ``hdc`` where the settings name none."""
        return str(self.settings.get("network", "hdc"))

    def recipe(self, seed: int) -> Recipe:
        """Return the recipe of this run, that is all settings of a training, with ``seed`` for weights and batches;
        what the run does not set is as Table I has it for HDC."""
        from lightloom.papers.runs.digits import Recipe

        return Recipe(seed=seed, **self.settings)


def _short(name: str, seeds: Sequence[int] = SHORT_SEEDS[:1], **settings: Any) -> TrainingRun:
    """Return the short run ``name`` of LeNet, to be run with each of ``seeds``: 200 iterations, a third of an epoch;
    its learning rate, 0.05 (our choice), is divided by five after 5/12 and 10/12 of them. ``settings`` are further
    fields of the recipe, which replace those."""
    pace = {"iterations": 200, "iterations_per_division": 83, "record_every": 40, "checkpoint_every": 2_000}
    return TrainingRun(name, {"network": "lenet", "learning_rate": 0.05, **pace, **settings}, seeds)


def short_jobs() -> list[tuple[TrainingRun, int]]:
    """Return pairs of run and seed of the short runs, seed by seed, the most important first: float32, the codecs as
    printed and windowed at 2^-10, both without error feedback, the windowed codec with error feedback at 2^-10, 2^-8
    and 2^-6, truncation of gradients and of weights by 16, 22 and 24 bits, and the codec as printed on the summed loss.
    Float32 and error feedback at 2^-10 have three seeds, the others the first alone."""
    runs = [
        _short("float32", SHORT_SEEDS),
        _short("printed 2^-10", gradients="inceptionn-printed:2^-10"),
        _short("windowed 2^-10", gradients="inceptionn:2^-10"),
    ]
    for k in BOUNDS:
        codec: dict[str, Any] = {"gradients": f"inceptionn:2^-{k}", "error_feedback": True}
        runs.append(_short(f"windowed+feedback 2^-{k}", SHORT_SEEDS[: 3 if k == 10 else 1], **codec))
    for bits in (16, 22, 24):  # Fig. 4: truncation of gradients and of weights
        runs.append(_short(f"truncate g {bits}", gradients=f"truncate:{bits}"))
        runs.append(_short(f"truncate w {bits}", weights=f"truncate:{bits}"))
    # Gradients 25 times as large under the same bound.
    runs.append(_short("printed 2^-10 summed", gradients="inceptionn-printed:2^-10", gradient_scale=SUMMED))
    return [(run, seed) for seed in SHORT_SEEDS for run in runs if seed in run.seeds]


def _measure(name: str, jobs: Sequence[tuple[TrainingRun, int]], work: Path, data: Path, advance: Advance) -> Path:
    """Run the jobs that have no file of results in ``work``, write ``name.json`` there (``ranks``, ``provenance``, and
    under ``runs`` the records by network and then by run, lists in the order of the jobs), and return its path.

    Args:
        name: of the file of all records, without suffix.
        jobs: pairs of run and seed, in the order of execution.
        work: folder for results, one file a job, named after network, run and seed; it is made. A job whose file is
            there is not run again.
        data: the data folder with MNIST.
        advance: called with 1 after each job, kept or done.

    Raises:
        ConfigError: the data set is missing.
    """
    training_digits(data)
    work.mkdir(parents=True, exist_ok=True)
    records: dict[str, dict[str, list[Any]]] = {}
    for run, seed in jobs:
        words = "".join(letter if letter.isalnum() else "-" for letter in f"{run.network} {run.name}")
        record = stored_record(work / f"{words}-seed{seed}.json", partial(_train_short, run, seed, data))
        records.setdefault(run.network, {}).setdefault(run.name, []).append(record)
        advance(1)
    made_by = origin({network: list(variants) for network, variants in records.items()}, seed=jobs[0][1])
    document = {"ranks": RANKS, "runs": records, "provenance": made_by}
    return write_atomically(work / f"{name}.json", json.dumps(document) + "\n")


def _train_short(run: TrainingRun, seed: int, data: Path) -> Any:
    """Train one run with one seed, all ranks in this process on one thread, and return the entries of its record that
    are kept, by name (``recipe``, ``iterations``, ``accuracy``, ``loss``, ``nbytes_raw``, ``nbytes_sent``, ``seconds``,
    and ``shares`` where sizes are counted), rounded to six digits; the networks that stand for training on ImageNet
    (``alexnet``, ``resnet50``, ``vgg16``) only take a few steps, and return what :func:`_few_steps` does. ``data`` is
    the data folder with MNIST."""
    import torch

    from lightloom.papers.runs.digits import image_sets
    from lightloom.papers.runs.emulated import train

    torch.set_num_threads(1)
    if run.network in STAND_INS:
        return rounded(_few_steps(run.network, seed, data))
    record = train(run.recipe(seed), image_sets(data), RANKS, counted=run.counted)
    return rounded({name: record[name] for name in _KEPT if name in record})


# Table III: every reading of it on HDC, the codec as printed under the one that agrees best, the other networks.

LAYERS = {3: "hdc-3", 4: "hdc-4", 5: "hdc"}
"""Networks by number of weight layers; the paper says five and 2.5 MB, which no number of them has."""
SETTLED = 5, "glorot", "summed", "own"
"""Layers, initial weights, loss and what is counted where most cells agree; chosen by that, hence fitted."""
PYTORCH, LITERAL = "float32, PyTorch's weights", "float32, rate as printed"
"""Runs from PyTorch's initial weights instead of Glorot's, and those of the summed loss at Table I's rate, which is not
divided by the batch."""
STAND_INS = {"alexnet": ("AlexNet", 8), "resnet50": ("ResNet-50", 4), "vgg16": ("VGG-16", 1)}
"""Model and number of steps, by network, of what stands for training on ImageNet: at full size, from random weights, on
enlarged digits."""


def table_3_jobs() -> list[tuple[TrainingRun, int]]:
    """Return pairs of run and seed for Table III: for HDC of three, four and five layers, float32 from Glorot's weights
    with five seeds, the same with the loss summed at Table I's rate for long enough (250 iterations) to see it diverge,
    with five seeds, and float32 from PyTorch's weights with one. Then, all with the first seed, the codec as printed at
    each bound on the network and loss that agree best (five layers, summed), and float32 on the networks that stand for
    training on ImageNet."""
    # One run serves both losses where they take the same steps, and both things that can be counted.
    settings: dict[str, Any] = {"glorot": True, "record_every": 1_000}
    literal = {"gradient_scale": SUMMED, "learning_rate": 0.1 * SUMMED, "weight_decay": 5e-5 / SUMMED}
    literal |= {"iterations": 250, "record_every": 50}
    runs = []
    for network in LAYERS.values():
        common = settings | {"network": network}
        runs += [
            TrainingRun(BASE, common, LONG_SEEDS, counted=True),
            TrainingRun(LITERAL, common | literal, LONG_SEEDS, counted=True),
            TrainingRun(PYTORCH, common | {"glorot": False}, LONG_SEEDS[:1], counted=True),
        ]
    settings |= {"network": LAYERS[SETTLED[0]], "gradient_scale": SUMMED}
    for k in BOUNDS:
        codec = {"gradients": f"inceptionn-printed:2^-{k}"}
        runs.append(TrainingRun(f"printed 2^-{k}", settings | codec, LONG_SEEDS[:1]))
    runs += [TrainingRun(BASE, {"network": network}, LONG_SEEDS[:1]) for network in STAND_INS]
    return [(run, seed) for run in runs for seed in run.seeds]


def _few_steps(network: str, seed: int, data: Path) -> dict[str, Any]:
    """Train a network of the zoo in float32 for a few steps with one worker's batch and rate of Table I, and return how
    it was trained in words (``training``), its shares of values by size (``shares``: from 0 to 1, under ``own`` and the
    loss, ``mean`` or ``summed``, a list of bounds 2^-10, 2^-8 and 2^-6 x sizes of 2, 10, 18 and 34 bits, averaged over
    up to five of the steps), and the CPU ``seconds``.

    Args:
        network: ``alexnet`` (8 steps), ``resnet50`` (4) or ``vgg16`` (1).
        seed: of weights and batches.
        data: the data folder with MNIST, whose digits are enlarged.
    """
    from lightloom.papers.runs.emulated import shares_by_loss
    from lightloom.papers.runs.gradient_profile import Training, trained_gradients

    began, (model, steps) = time.process_time(), STAND_INS[network]
    batch, rate = int(TABLE_1[model]["batch_per_node"]), abs(TABLE_1[model]["learning_rate"])
    training = Training(model=network, steps=steps, batch=batch, learning_rate=rate, seed=seed, data=data)
    counts = [
        shares_by_loss(np.concatenate(list(sample.gradients.values())), batch)
        for sample in trained_gradients(training, ZOO[network].parameters)
    ]
    own = {loss: np.mean([count[loss] for count in counts], axis=0).tolist() for loss in counts[0]}
    return {"training": training.describe(), "shares": {"own": own}, "seconds": time.process_time() - began}


# Figure 5: distribution of gradients early, in the middle and late in training.

LOWEST = -30
"""Exponent below which values, including zeros, are counted together."""


def count_binades(gradient: NDArray[np.float32]) -> dict[str, Any]:
    """Return counts of a gradient's values by binade, one list for each sign, as JSON.

    Returns:
        ``values``, ``largest`` (absolute), ``small`` (count below 2^-30 in magnitude, zeros included), and ``negative``
        and ``positive``: 31 counts for the binades 2^-30 … 2^0, where the binade 2^e has magnitudes from 2^e to below
        2^(e + 1) and the last has all above too.
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


def figure5_claims(gradients: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield one row for each stage of training: "all between -1 and 1" if all values of its gradient are, else up to
    what magnitude, as "up to 1.25", with the percentage below 2^-10 in the explanation; ``gradients`` holds the counts
    of :func:`count_binades` and the iteration by stage."""
    for stage, counts in gradients.items():
        ours = "all between -1 and 1" if counts["largest"] < 1 else f"up to {counts['largest']:.2f}"
        values = {"stage": stage, "counts": counts, "below_percent": 100 * below(counts, -10)}
        yield PAPER.claim("figure5.hdc_{stage}_range", ours, **values)


def below(counts: Mapping[str, Any], exponent: int) -> float:
    """Return the share, 0 to 1, of values below 2^exponent in magnitude, zeros included, from the counts of
    :func:`count_binades`; ``exponent`` is a whole number from -30 to 0."""
    kept = exponent - LOWEST
    return float((counts["small"] + sum(counts["negative"][:kept]) + sum(counts["positive"][:kept])) / counts["values"])


# Long runs: HDC on MNIST, four processes, Table I's hyper-parameters; an interrupted one resumes from its checkpoint.

LONG_SEEDS = (0, 1, 2, 3, 4)
SNAPSHOTS = {"early": 100, "middle": 500, "late": 10_000}
"""Iterations whose gradients are kept, from the first seed's float32 run: 88 %, 95.5 % and 98.6 % of the test set are
right by then. Half-way in iterations would be no middle: by then many batches leave nothing above 2^-10."""
FEWER_ITERATIONS = 3_000
"""Iterations of the runs that only Figs. 4 and 14 use: float32 gains 0.1 points after them."""
_TIMEOUT = 7_200.0


def long_runs() -> tuple[TrainingRun, ...]:
    """Return the long runs on HDC, the most important first: float32; the codecs at the bounds 2^-10 (windowed with
    feedback, as printed, windowed), 2^-8 and 2^-6 (as printed, windowed, windowed with feedback); then truncation by
    16, 22 and 24 bits of gradients, weights or both. Float32 and feedback at 2^-10 have five seeds, the others one;
    runs at 2^-8 and 2^-6 and those of truncation have 3,000 iterations, the others 10,000, the default of the
    recipe."""
    families: dict[str, dict[str, Any]] = {
        "windowed+feedback": {"gradients": "inceptionn", "error_feedback": True},
        "printed": {"gradients": "inceptionn-printed"},
        "windowed": {"gradients": "inceptionn"},
    }
    runs = [TrainingRun("float32", {}, LONG_SEEDS)]
    for k in (10, 8, 6):
        for label in families if k == 10 else ("printed", "windowed", "windowed+feedback"):
            codec = families[label] | {"gradients": f"{families[label]['gradients']}:2^-{k}"}
            length = {} if k == 10 else {"iterations": FEWER_ITERATIONS}
            seeds = LONG_SEEDS if k == 10 and label == "windowed+feedback" else LONG_SEEDS[:1]
            runs.append(TrainingRun(f"{label} 2^-{k}", codec | length, seeds))
    for bits, what in product((16, 22, 24), ("g", "w", "w+g")):
        cut = {name: f"truncate:{bits}" for name, mark in (("gradients", "g"), ("weights", "w")) if mark in what}
        runs.append(TrainingRun(f"truncate {what} {bits}", cut | {"iterations": FEWER_ITERATIONS}, LONG_SEEDS[:1]))
    return tuple(runs)


def long_jobs() -> list[tuple[TrainingRun, int]]:
    """Return pairs of run and seed of the long runs in the order of execution: runs of several seeds first, seed by
    seed, then the others."""
    every = [(run, seed) for run in long_runs() for seed in run.seeds]
    return sorted(every, key=lambda job: (len(job[0].seeds) == 1, job[1]))


def measure_long(work: Path, data: Path, advance: Advance = ignore) -> Path:
    """Run the long training runs on HDC, four processes each, that have no ``result.json`` in their folder in ``work``,
    write ``training.json`` there after each, and return its path. The checkpoints of a finished run are removed.

    Args:
        work: folder for checkpoints and results, with a folder for each run and seed.
        data: the data folder with MNIST.
        advance: called with 1 after each run, kept or done.

    Raises:
        ConfigError: the data set is missing.
        LaunchError: a run failed; the next call resumes it from its checkpoint.
    """
    training_digits(data)
    records: dict[str, list[dict[str, Any]]] = {}
    for run, seed in long_jobs():
        place = _folder(work, run, seed)
        record = stored_record(place / "result.json", partial(_train_long, run, seed, place, data))
        for checkpoint in place.glob("checkpoint-*.pt"):
            checkpoint.unlink()
        records.setdefault(run.name, []).append(record)
        advance(1)
        write_atomically(work / "training.json", json.dumps(_document(work, records)))
    return work / "training.json"


def _document(work: Path, records: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the content of ``training.json``: ``ranks``, under ``runs`` the ``records`` by run (a list in the order of
    seeds), rounded to six digits, ``provenance``, and under ``gradients`` for each stage its iteration and counts by
    binade, from the snapshots in the folder of the first float32 run, which must be there."""
    folder = _folder(work, long_runs()[0], LONG_SEEDS[0])
    stages = {
        stage: {"iteration": at, **count_binades(np.load(folder / f"gradient-{at}.npy"))}
        for stage, at in SNAPSHOTS.items()
    }
    made_by = origin({name: len(each) for name, each in records.items()}, seed=LONG_SEEDS[0])
    return {"ranks": RANKS, "runs": rounded(records), "gradients": stages, "provenance": made_by}


def _folder(work: Path, run: TrainingRun, seed: int) -> Path:
    """Return the folder of a long run with one seed below ``work``: the run's name with hyphens for spaces, then
    ``-seed`` and the seed."""
    return work / f"{run.name.replace(' ', '-')}-seed{seed}"


def _train_long(run: TrainingRun, seed: int, folder: Path, data: Path) -> dict[str, Any]:
    """Train one long run in four processes, a rank each, and return rank 0's record (fields of the record, and of the
    recipe under ``recipe``).

    Runs of the first seed whose gradients are not compressed save them, as ``gradient-100.npy`` and so on, at
    iterations 100, 500 and 10,000, as far as they get: the float32 run, and those that truncate weights alone.

    Args:
        run: what is trained.
        seed: of weights and batches.
        folder: of the run's checkpoints, from which an interrupted run resumes, and snapshots; it is made.
        data: the data folder with MNIST.

    Raises:
        LaunchError: a rank failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    recipe = run.recipe(seed)
    snapshots = list(SNAPSHOTS.values()) if recipe.gradients == "none" and seed == LONG_SEEDS[0] else []
    arguments = {"recipe": asdict(recipe), "data": str(data), "folder": str(folder), "snapshots": snapshots}
    record: dict[str, Any] = launch("lightloom.papers.runs.digits:train", RANKS, _TIMEOUT, arguments)[0].value
    return record


EXPERIMENTS = {
    "networks": Experiment(lambda: len(short_jobs()), lambda *given: _measure("networks", short_jobs(), *given)),
    "table3": Experiment(lambda: len(table_3_jobs()), lambda *given: _measure("table3", table_3_jobs(), *given)),
    "training": Experiment(lambda: len(long_jobs()), measure_long),
}
"""The long measurements, by name."""
