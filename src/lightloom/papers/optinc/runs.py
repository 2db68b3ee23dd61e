"""All long measurements of the study: constructed networks, MNIST through DDP, the language model, and CIFAR-100.

A run with a result is not repeated; an interrupted one resumes from its last checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lightloom.core.files import write_atomically
from lightloom.core.journal import stored_record
from lightloom.core.results import Advance, attributes, ignore
from lightloom.exchange.datasets import Corpus, is_there, plain_text, read_cifar, training_digits, wikitext_2
from lightloom.exchange.transport.launch import launch
from lightloom.exchange.transport.worker import Worker
from lightloom.papers.study import Experiment, origin
from lightloom.photonics.averaging.averagers import TABLE_II_ERRORS, ErringAverager, IdealAverager
from lightloom.photonics.averaging.cascade import Cascade, build_cascade, end_to_end
from lightloom.photonics.averaging.construct import Construction, build
from lightloom.photonics.averaging.networks import TABLE_I, TABLE_II
from lightloom.photonics.meshes.mapping import approximate

if TYPE_CHECKING:
    from lightloom.papers.runs.digits import Recipe


# Training of ResNet-50 on CIFAR-100 for Fig. 7(a), if the data folder holds CIFAR-100; best on a GPU.

SEED = 0
VARIANTS: Mapping[str, tuple[int | None, str | None]] = {
    "float32": (None, None),
    "16-bit floor": (16, None),
    "16-bit floor, errors 3-6": (16, "3-6"),
    "16-bit floor, errors 4-8": (16, "4-8"),
}
"""Bits per code, and row of Table II whose errors are injected, by variant."""


def measure_images(work: Path, data: Path, advance: Advance = ignore) -> Path | None:
    """Train ResNet-50 on CIFAR-100 with each variant of the average that has no ``result.json`` in its folder in
    ``work``, write ``images.json`` in ``work`` with the results of all variants so far after each (under ``runs``, by
    variant a list of one), remove the run's checkpoint, and return the path of ``images.json``; None, and nothing done,
    where ``data`` holds no CIFAR-100.

    Args:
        work: folder for results and checkpoints, with a folder ``images-<variant>`` for each variant.
        data: the data folder.
        advance: called with 1 after each run, kept or done, and once with the number of all where there is no data set.

    Raises:
        ConfigError: the data set is there, but not as published.
    """
    if not is_there(data):
        advance(len(VARIANTS))
        return None
    records = {}
    for name in VARIANTS:
        folder = work / f"images-{_folder_words(name)}"
        records[name] = [stored_record(folder / "result.json", partial(_train_images, name, folder, data))]
        (folder / "checkpoint.pt").unlink(missing_ok=True)
        advance(1)
        write_atomically(work / "images.json", json.dumps({"runs": records}))
    return work / "images.json"


def _train_images(name: str, folder: Path, data: Path) -> dict[str, Any]:
    """Train ResNet-50 on CIFAR-100 with one variant of the average, on the GPU if there is one, with seed 0 and the
    default recipe (300 epochs), and return the record: ``training_loss`` and test ``accuracy`` (0 to 1) by epoch, and
    the ``recipe``.

    Args:
        name: variant, ``float32`` or ``16-bit floor``, without errors or with those of a row of Table II: ``16-bit
            floor, errors 3-6`` or ``..., errors 4-8``.
        folder: of the checkpoint, from which an interrupted run resumes.
        data: the data folder with CIFAR-100.
    """
    import torch

    from lightloom.papers.runs.images import ImageRecipe, train

    recipe = ImageRecipe(seed=SEED, device="cuda" if torch.cuda.is_available() else "cpu")
    bits, errors = VARIANTS[name]
    averager = None if bits is None else IdealAverager(recipe.servers, bits, "floor")
    erring = averager if averager is None or errors is None else ErringAverager(averager, TABLE_II_ERRORS[errors])
    return train(read_cifar("train", data), read_cifar("test", data), recipe, erring, folder=folder)


# The language-model runs behind Fig. 7(a): the paper's LLaMA-like network and a small one, averages of several kinds.

THREADS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The runs of one network: every variant of the average with every seed."""

    file: str
    """Name of the file of results, without its suffix, and first word of the runs' folders."""
    settings: Mapping[str, Any]
    """Fields of the recipe that all runs share."""
    variants: Mapping[str, Mapping[str, Any]]
    """Fields of the recipe by variant; the baseline comes first."""
    seeds: Sequence[int]

    def jobs(self) -> list[tuple[str, int]]:
        """Return pairs of variant and seed of this series, all variants of a seed before the next seed, so that what is
        there can be compared in pairs."""
        return [(name, seed) for seed in self.seeds for name in self.variants]


_STEPS = {"steps": 192}
_BITS_16: Mapping[str, Mapping[str, Any]] = {"float32": {}, "16-bit floor": {"bits": 16, "rounding": "floor"}}
SMALL = Series(
    file="language-small",
    settings=_STEPS | {"layers": 4, "hidden": 192, "intermediate": 512, "windows_per_server": 2, "bfloat16": False},
    variants={
        **_BITS_16,
        "8-bit floor": {"bits": 8, "rounding": "floor"},
        "8-bit half-up": {"bits": 8, "rounding": "half-up"},
    },
    seeds=(0, 1, 2),
)
"""A network of 1.9 million parameters in place of the paper's 14.4 million, 196,608 tokens: 15 CPU-minutes in all."""
PAPER_SIZE = Series(
    file="language",
    settings=_STEPS,
    variants={
        **_BITS_16,
        "16-bit half-up": {"bits": 16, "rounding": "half-up"},
        "16-bit floor, errors 3-6": {"bits": 16, "rounding": "floor", "errors": "3-6"},
        "16-bit floor, errors 4-8": {"bits": 16, "rounding": "floor", "errors": "4-8"},
        "8-bit floor": {"bits": 8, "rounding": "floor"},
    },
    seeds=(0, 1),
)
"""The paper's network, 393,216 tokens: an hour of one CPU core with matrix units for bfloat16, five hours without."""
SERIES = (SMALL, PAPER_SIZE)
OWN_TEXT = "wikipedia"
"""A folder of .txt files, or a file, of that name in the data folder replaces WikiText-2."""


def measure_language(work: Path, data: Path, advance: Advance = ignore) -> tuple[Path, ...]:
    """Run the training runs of both language models, of all variants and seeds, that have no ``result.json`` in their
    folder in ``work``, and write one file of results for each series there.

    Args:
        work: folder for results and checkpoints, with a folder for each series, variant and seed.
        data: the data folder with WikiText-2, or text of the user's own, a folder of .txt files or a file
            ``wikipedia``, which goes before.
        advance: called with 1 after each run, kept or done.

    Returns:
        Two files: of the small network (``language-small.json``), then of the paper's (``language.json``).

    Raises:
        ConfigError: the text is not there.
    """
    own = data / OWN_TEXT
    corpus = plain_text(own) if own.exists() else wikitext_2(data)
    return tuple(measure_series(series, corpus, work, advance) for series in SERIES)


def measure_series(series: Series, corpus: Corpus, work: Path, advance: Advance = ignore) -> Path:
    """Run the pairs of variant and seed of one series that have no ``result.json`` in their folder
    ``<series>-<variant>-seed<seed>`` in ``work``, and return the path of the series' file of results in ``work``, which
    is written anew after each run.

    An interrupted run resumes from ``checkpoint.pt`` in its folder, which is removed at the run's end. ``advance`` is
    called with 1 after each run, kept or done.
    """
    path = work / f"{series.file}.json"
    records: dict[str, list[dict[str, Any]]] = {}
    for name, seed in series.jobs():
        result = work / f"{series.file}-{_folder_words(name)}-seed{seed}" / "result.json"
        train = partial(_train_language, series, name, seed, corpus, result.parent)
        records.setdefault(name, []).append(stored_record(result, train))
        result.with_name("checkpoint.pt").unlink(missing_ok=True)
        advance(1)
        write_atomically(path, json.dumps(_document(corpus, records)))
    return path


def _train_language(series: Series, name: str, seed: int, corpus: Corpus, folder: Path) -> dict[str, Any]:
    """Train the language model of a series with the variant ``name`` and one seed, with a checkpoint in ``folder`` from
    which an interrupted run resumes, and return the record, with the recipe and the name of the corpus, as
    `papers.runs.language.train` does. ``name`` is a key of the series' variants."""
    import torch

    from lightloom.papers.runs.language import Recipe, train

    torch.set_num_threads(THREADS)
    return train(corpus, Recipe(seed=seed, **series.settings, **series.variants[name]), folder)


def _folder_words(name: str) -> str:
    """Return the name of a variant as a part of its folder's name: without commas, with hyphens for spaces."""
    return name.replace(",", "").replace(" ", "-")


def _document(corpus: Corpus, records: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the content of a series' file: the name of the ``corpus``, its numbers of ``tokens`` for ``training`` and
    ``validation``, ``threads``, ``runs`` (the records by variant, a list in the order of seeds), and ``provenance``."""
    sizes = {"training": int(corpus.training.size), "validation": int(corpus.validation.size)}
    made_by = origin({name: len(runs) for name, runs in records.items()}, seed=0)
    return {"corpus": corpus.name, "tokens": sizes, "threads": THREADS, "runs": records, "provenance": made_by}


# A LeNet on MNIST, four processes: equal seeds start from equal weights and see equal batches, to be compared in pairs.

RANKS = 4
SEEDS = (0, 1, 2, 3, 4)
BASELINE = "float32"
ITERATIONS = 1_200
"""Five epochs at 64 images per rank; the learning rate has been divided twice by then, and the accuracy is constant."""
_TIMEOUT = 7_200.0
_KEPT = ("recipe", "iterations", "accuracy", "loss", "nbytes_raw", "nbytes_sent", "seconds")


@dataclass(frozen=True, slots=True)
class DigitsRun:
    """A variant of the training of LeNet on MNIST, by how gradients are averaged."""

    name: str
    averager: str | None = None
    """Name for ``find_averager``; None is DDP's own all-reduce."""
    bits: int = 16
    rounding: Literal["floor", "half-up"] = "half-up"

    def recipe(self, seed: int) -> Recipe:
        """Return LeNet's recipe of the run with one seed: 1,200 iterations, and averages by the run's averager, bits
        and rounding; without an averager gradients are exchanged in float32."""
        from lightloom.papers.runs.digits import lenet_recipe

        gradients = "none" if self.averager is None else f"optical:{self.averager}"
        return lenet_recipe(seed, ITERATIONS, gradients, bits=self.bits, rounding=self.rounding)


RUNS = (
    DigitsRun(BASELINE),
    DigitsRun("16-bit half-up", "ideal"),
    DigitsRun("16-bit floor", "ideal", rounding="floor"),
    DigitsRun("8-bit half-up", "ideal", bits=8),
    DigitsRun("8-bit floor", "ideal", bits=8, rounding="floor"),
    *(
        DigitsRun(f"16-bit floor, errors {row}", f"table2:{row}", rounding="floor")
        for row in ("3-6", "4-8", "4-7", "3-7")
    ),
    DigitsRun("8-bit half-up, constructed, noise 3e-3", "constructed:noise=3e-3", bits=8),
)
"""All runs, the most important first. The networks of Table II floor, as the paper's do."""


def digits_jobs() -> list[tuple[DigitsRun, int]]:
    """Return pairs of run and seed in the order of execution: float32 and 16-bit averages rounded half up, one after
    the other for each seed from 0 to 4, then all others seed by seed."""
    return [(run, seed) for part in (RUNS[:2], RUNS[2:]) for seed in SEEDS for run in part]


def measure_digits(work: Path, data: Path, advance: Advance = ignore) -> Path:
    """Run the training runs of LeNet on MNIST that have no file of results in ``work``, write ``training.json`` there
    (``ranks``, ``provenance``, and under ``runs`` lists of records by run, in the order of seeds), and return its path.

    All of it is one launch of four processes, as starting processes takes as long as some of the runs.

    Args:
        work: folder for results, one file a run and seed; it is made.
        data: the data folder with MNIST.
        advance: called with the number of runs that had a result before, and with that of the others at the end.

    Raises:
        ConfigError: the data set is not there.
        LaunchError: a run failed; calling again keeps the runs that ended, and begins it anew.
    """
    training_digits(data)
    work.mkdir(parents=True, exist_ok=True)
    missing = [(run, seed) for run, seed in digits_jobs() if not _digits_result(work, run, seed).exists()]
    advance(len(digits_jobs()) - len(missing))
    if missing:
        tasks = [
            {"recipe": asdict(run.recipe(seed)), "result": str(_digits_result(work, run, seed))}
            for run, seed in missing
        ]
        launch("lightloom.papers.optinc.runs:train_all", RANKS, _TIMEOUT, {"tasks": tasks, "data": str(data)})
        advance(len(missing))
    records: dict[str, list[dict[str, Any]]] = {}
    for run, seed in digits_jobs():
        result = _digits_result(work, run, seed)
        if result.exists():
            records.setdefault(run.name, []).append(json.loads(result.read_text()))
    document = {"ranks": RANKS, "runs": records, "provenance": origin(list(records), seed=SEEDS[0])}
    return write_atomically(work / "training.json", json.dumps(document, indent=1) + "\n")


def train_all(worker: Worker) -> None:
    """Train one digits run after the other on this rank, as the worker function of ``launch``; rank 0 writes each run's
    result file, the recipe, iterations, accuracy, loss, bytes and seconds of its record as JSON, when the run ends.
    There are no checkpoints.

    ``worker.arguments``: ``tasks`` (each with ``recipe``, fields of the recipe, and ``result``, the path to write) and
    ``data`` (the data folder).
    """
    from lightloom.papers.runs.digits import train

    for task in worker.arguments["tasks"]:
        arguments = {"recipe": task["recipe"], "data": worker.arguments["data"], "folder": None}
        record = train(Worker(worker.rank, worker.size, arguments))
        if worker.rank == 0:
            write_atomically(Path(task["result"]), json.dumps({name: record[name] for name in _KEPT}))


def _digits_result(work: Path, run: DigitsRun, seed: int) -> Path:
    """Return the path of a run's result in ``work``: the run's name with hyphens for what is no letter or digit, then
    ``-seed``, the seed and ``.json``."""
    words = "".join(letter if letter.isalnum() else "-" for letter in run.name)
    return work / f"{words}-seed{seed}.json"


# Constructed weights in the paper's layers, and a cascade of five constructed networks, on all of their inputs.

TUPLES = 1_000_000
"""Number of tuples that are drawn; a slow test draws ten times as many."""


def measure_constructed(work: Path, _data: Path, advance: Advance = ignore) -> Path:
    """Construct and try what has no file ``constructed-<name>.json`` in ``work``, write ``constructed.json`` there, and
    return its path: the network of each scenario of Table I, and the cascade of four times four servers of 8 bits. The
    file has their records (:func:`_tried`) by bits and servers, ``8x4``, and under ``cascade``, and ``provenance``. No
    data sets are needed; ``advance`` is called with 1 for each of them, kept or done."""
    jobs = {f"{n.bits}x{n.servers}": partial(build, n.servers, n.bits, layers=n.layers) for n in TABLE_I}
    records = {}
    for name, job in (jobs | {"cascade": partial(build_cascade, 4, 4, 8)}).items():
        records[name] = stored_record(work / f"constructed-{name}.json", partial(_tried, job))
        advance(1)
    document = records | {"provenance": origin([*jobs, TUPLES], seed=0)}
    return write_atomically(work / "constructed.json", json.dumps(document, indent=1) + "\n")


def _tried(job: Callable[[], Construction | Cascade]) -> dict[str, Any]:
    """Construct a network or a cascade by ``job``, try it, and return its record with ``cpu_seconds``.

    Of a network: ``name``, ``mzi_count``, ``layers``, the ``tolerance`` of its proof, ``wrong_outputs`` of
    ``checked_inputs`` without noise (``exhaustive`` if these are all), the noise it bears as a share of full scale
    (``noise_limit``), and ``largest_difference``, by how much an element of a matrix is at most off the form Σ · U, as
    a share of the matrix's largest element. Of a cascade: ``wrong_outputs``, ``checked_inputs`` and ``exhaustive`` of
    both levels under ``levels``, and under ``end_to_end``, of a million drawn tuples of codes (``tuples``), the counts
    ``wrong_with_decimals`` and ``wrong_without_decimals`` and ``share_wrong_without_decimals`` (0 to 1).
    """
    start, made = process_time(), job()
    if isinstance(made, Cascade):
        levels = [each.verify().counts for each in (made.first, made.second)]
        record: dict[str, Any] = {"levels": levels, "end_to_end": end_to_end(made, TUPLES)}
    else:
        off = [np.abs(approximate(matrix) - matrix).max() / np.abs(matrix).max() for matrix in made.network.weights]
        record = attributes(made, "name mzi_count layers=network.layers tolerance=proof.tolerance")
        record |= {"largest_difference": float(max(off)), "noise_limit": made.noise_limit(), **made.verify().counts}
    return record | {"cpu_seconds": round(process_time() - start, 1)}


# Table II: scenario 4 trained from random weights with each selection of approximated matrices.

SELECTIONS = {f"{row.approximated[0]}-{row.approximated[-1]}": row.approximated for row in TABLE_II}
"""Numbers of the approximated matrices, by row of Table II."""
EPOCHS = 3
"""40,569 steps of 1,024 points; the paper does not say how long it trained. Some 50 CPU minutes for each selection."""


def measure_trained(work: Path, _data: Path, advance: Advance = ignore) -> Path:
    """Train scenario 4 with each selection of approximated matrices that has no ``result.json`` in its folder
    ``trained-<selection>`` in ``work``, write ``trained.json`` there after each (``selections``: record by selection;
    ``provenance``), and return its path. No data sets are needed; ``advance`` is called with 1 for each selection, kept
    or done. Interrupted trainings resume at the last epoch."""
    records = {}
    for rows in SELECTIONS:
        folder = work / f"trained-{rows}"
        records[rows] = stored_record(folder / "result.json", partial(_train_selection, rows, folder))
        advance(1)
        document = {"selections": records, "provenance": origin([*records, EPOCHS], seed=SEED)}
        write_atomically(work / "trained.json", json.dumps(document, indent=1) + "\n")
    return work / "trained.json"


def _train_selection(rows: str, folder: Path) -> dict[str, Any]:
    """Train scenario 4 with one selection of approximated matrices and return its record, as `Trained.to_json` has it:
    the recipe, ``accuracy`` (share of right inputs, 0 to 1), numbers of wrong outputs and checked inputs, ``history``
    by epoch, and under ``errors`` the number of outputs by error (code less the right one, as text), cut to the five
    most frequent.

    Args:
        rows: key of :data:`SELECTIONS`, such as "4-7".
        folder: of the checkpoint, from which an interrupted training resumes.
    """
    from lightloom.photonics.onn.recipe import TrainingRecipe
    from lightloom.photonics.onn.training import train

    recipe = TrainingRecipe.scenario(4, approximated=SELECTIONS[rows], epochs=EPOCHS, batch=1024)
    record = train(recipe, folder).to_json()
    return record | {"errors": dict(list(record["errors"].items())[:5])}


EXPERIMENTS = {
    "trained": Experiment(lambda: len(SELECTIONS), measure_trained, data=False),
    "constructed": Experiment(lambda: len(TABLE_I) + 1, measure_constructed, data=False),
    "digits": Experiment(lambda: len(digits_jobs()), measure_digits),
    "language": Experiment(lambda: sum(len(series.jobs()) for series in SERIES), measure_language),
    "images": Experiment(lambda: len(VARIANTS), measure_images),
}
"""The long measurements, by name."""
