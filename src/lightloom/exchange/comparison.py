"""Training runs that compare exchanges: bytes sent, loss beside plain training's, and loss after equal time."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.files import write_atomically
from lightloom.core.results import content_hash
from lightloom.exchange.datasets import (
    TEST_IMAGES,
    TEST_LABELS,
    TINY_SHAKESPEARE,
    TRAIN_IMAGES,
    TRAIN_LABELS,
    WIKITEXT_2_TEST,
    WIKITEXT_2_VALID,
    DataFile,
    Digits,
    test_digits,
    tiny_shakespeare,
    training_digits,
    wikitext_2,
)
from lightloom.exchange.distributed.ddp import ExchangeState, attach
from lightloom.exchange.distributed.periodic import Periodic, periodic
from lightloom.exchange.method import Gradient
from lightloom.exchange.methods import PlainExchange, find
from lightloom.exchange.transport.launch import launch
from lightloom.exchange.transport.worker import Worker

# Small training tasks on real data, on which exchanges are compared.
#
# A task has a model, its data and its optimizer; ranks draw different batches, which seed and step fix.

SEQUENCE = 64


class Mnist:
    """A perceptron of 784, 300, 100 and 10 units (266,610 parameters) on MNIST; SGD with momentum."""

    steps = 400
    """Default number of steps."""
    every = 50
    """Steps between two validations."""
    batch = 32

    def __init__(self, name: str, data: Path | None = None) -> None:
        """Read MNIST from the data folder ``data``, else that of ``$LIGHTLOOM_DATA``; raises ConfigError."""
        self.name = name
        self.training, self.test = training_digits(data), test_digits(data)

    def model(self) -> nn.Module:
        """Return a new perceptron of 784, 300, 100 and 10 units with ReLU between the layers; its weights are drawn
        from torch's global random generator."""
        return nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return a new SGD optimizer of a model, learning rate 0.05, momentum 0.9."""
        return torch.optim.SGD(model.parameters(), 0.05, 0.9)

    def loss(self, model: nn.Module, chance: np.random.Generator) -> Tensor:
        """Return the mean loss in nats on a batch of 32 training images that the generator ``chance`` draws with
        replacement."""
        return _cross_entropy(model, self.training, chance.integers(len(self.training.labels), size=self.batch))

    def validate(self, model: nn.Module, rank: int, ranks: int) -> tuple[float, float]:
        """Return (sum of losses in nats, number of samples) of this rank's part of the validation set, MNIST's
        10,000 test images: every ``ranks``-th of them from number ``rank`` (from 0) on."""
        part = np.arange(rank, len(self.test.labels), ranks)
        return float(_cross_entropy(model, self.test, part)) * len(part), len(part)


class Text:
    """A decoder of 2 layers, 64 wide, 4 heads, on characters in windows of 64; Adam."""

    steps = 300
    every = 50
    batch = 8
    validation_windows = 256

    def __init__(self, name: str, data: Path | None = None) -> None:
        """Read the text that ``name`` chooses, tinyshakespeare for ``chars``, else WikiText-2, and number its symbols;
        raises ConfigError."""
        self.name = name
        corpus = tiny_shakespeare(data) if name == "chars" else wikitext_2(data)
        symbols, tokens = np.unique(np.concatenate([corpus.training, corpus.validation]), return_inverse=True)
        self.vocabulary = len(symbols)
        self.training = tokens[: len(corpus.training)].astype(np.int64)
        held_out = tokens[len(corpus.training) :].astype(np.int64)
        starts = np.linspace(0, len(held_out) - SEQUENCE - 1, self.validation_windows).astype(int)
        self.validation = held_out[starts[:, None] + np.arange(SEQUENCE + 1)]

    def model(self) -> nn.Module:
        """Return a new :class:`Decoder` of 2 layers, 64 wide, 4 heads, for the symbols of the text; its weights are
        drawn from torch's global random generator."""
        return Decoder(self.vocabulary)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return a new Adam optimizer of a model, learning rate 0.002."""
        return torch.optim.Adam(model.parameters(), 2e-3)

    def loss(self, model: nn.Module, chance: np.random.Generator) -> Tensor:
        """Return the mean loss a character, in nats, on a batch of 8 windows of 64 characters to predict, whose
        positions in the training text ``chance`` draws with replacement."""
        starts = chance.integers(len(self.training) - SEQUENCE - 1, size=self.batch)
        return _next_symbol(model, self.training[starts[:, None] + np.arange(SEQUENCE + 1)])

    def validate(self, model: nn.Module, rank: int, ranks: int) -> tuple[float, float]:
        """Return (sum over windows of their mean loss a character in nats, number of windows) of this rank's part of
        the validation set, 256 windows of 64 characters evenly spread over the held-out text: every ``ranks``-th of
        them from number ``rank`` (from 0) on."""
        part = self.validation[rank::ranks]
        return float(_next_symbol(model, part)) * len(part), len(part)


class Decoder(nn.Module):
    """A small decoder with learned positions, normalised before each half-layer."""

    def __init__(self, vocabulary: int, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        """Build the network for ``vocabulary`` symbols, with new weights, for windows of at most 64 symbols."""
        super().__init__()
        self.symbols = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(SEQUENCE, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(SEQUENCE))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (windows, symbols, vocabulary) of the next symbols for ``tokens`` (windows, symbols),
        numbers of symbols in windows of exactly 64; each position sees only those up to itself."""
        hidden = self.symbols(tokens) + self.positions.weight[: tokens.shape[1]]
        logits: Tensor = self.head(self.layers(hidden, mask=self.mask, is_causal=True))
        return logits


TrainingTask = Mnist | Text

_TASKS: dict[str, tuple[type[TrainingTask], tuple[DataFile, ...]]] = {
    "mnist": (Mnist, (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)),
    "chars": (Text, (TINY_SHAKESPEARE,)),
    "text": (Text, (WIKITEXT_2_TEST, WIKITEXT_2_VALID)),
}
"""Tasks by name, and the files that they read."""


def default_steps(name: str, data: Path | None = None) -> int:
    """Return the default number of training steps of a task, 400 for ``mnist`` and 300 for the others, after checking
    that its files are there; they are not read.

    Args:
        name: ``mnist``, ``chars`` or ``text``.
        data: the data folder; ``$LIGHTLOOM_DATA`` unless given.

    Raises:
        UnknownNameError: there is no such task.
        ConfigError: the folder or a file is missing.
    """
    kind, needed = _known_task(name)
    for file in needed:
        file.find(data)
    return kind.steps


def task(name: str, data: Path | None = None) -> TrainingTask:
    """Return a task with its data read: ``mnist``, ``chars`` (tinyshakespeare) or ``text`` (WikiText-2).

    Args:
        name: name of the task.
        data: the data folder; ``$LIGHTLOOM_DATA`` unless given.

    Raises:
        UnknownNameError: there is no such task.
        ConfigError: its data set is missing or not the published one.
    """
    return _known_task(name)[0](name, data)


def _known_task(name: str) -> tuple[type[TrainingTask], tuple[DataFile, ...]]:
    """Return (class, files that it reads) of the task of that name; raises UnknownNameError for any other name."""
    if name not in _TASKS:
        raise UnknownNameError("task", name, _TASKS)
    return _TASKS[name]


def _cross_entropy(model: nn.Module, digits: Digits, chosen: NDArray[np.int64]) -> Tensor:
    """Return the model's mean cross-entropy, in nats, on the digits of the ``chosen`` indices, pixels scaled to 0 to
    1."""
    images = torch.from_numpy(digits.images[chosen]).to(torch.float32) / 255
    return nn.functional.cross_entropy(model(images), torch.from_numpy(digits.labels[chosen]).long())


def _next_symbol(model: nn.Module, windows: NDArray[np.int64]) -> Tensor:
    """Return the model's mean cross-entropy, in nats, of each symbol but the first of ``windows`` [windows, symbols]
    given those before it."""
    tokens = torch.from_numpy(windows)
    return nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


# Training runs of a comparison, in the processes of one launch.

REFERENCE = "reference"
"""In place of a method: DDP without any hook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A training run: what is trained, how gradients are exchanged, and from which seed."""

    task: str
    method: str
    """A method's full name, or ``REFERENCE``."""
    seed: int
    steps: int
    ranks: int

    @property
    def file(self) -> str:
        """Name of the JSON file that holds the run's result: 16 hex digits of a hash of all fields, so that other
        settings have another file, and ``.json``."""
        return f"{content_hash(asdict(self))[:16]}.json"


@dataclass(slots=True)
class Result:
    """Measurements of one training run; lists have an entry for each validation."""

    case: Case
    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    """Mean validation loss, nats."""
    sent_bytes: float = 0.0
    """Bytes that a rank sent for each step, mean over ranks."""
    raw_bytes: float = 0.0
    """Bytes that a ring all-reduce of float32 sends."""
    replicas_equal: bool = False
    digest: str = ""
    """SHA-256 of the final parameters of rank 0."""
    step_seconds: float = 0.0
    """Mean processor time of a step of one rank, exchange over the loopback device included."""


def read_result(path: Path) -> Result | None:
    """Return the result stored in a JSON file; None if there is no such file, it cannot be read, a field is missing or
    unknown, or its ``case`` is not whole."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        stored = json.loads(path.read_text(encoding="utf-8"))
        result = Result(**{**stored, "case": Case(**stored["case"])})
        return result if stored.keys() == asdict(result).keys() else None
    return None


def train_all(worker: Worker) -> int:
    """Train the cases ``worker.arguments['cases']`` (dictionaries of ``Case`` fields) one after the other, with
    torch set to one thread, and return their number; rank 0 writes each result as JSON to ``Case.file`` in the folder
    ``worker.arguments['folder']``. Data is read from the folder ``worker.arguments['data']``, or from
    ``$LIGHTLOOM_DATA`` where that is None; raises ConfigError where it is missing."""
    torch.set_num_threads(1)
    folder, data = Path(worker.arguments["folder"]), worker.arguments.get("data")
    tasks: dict[str, TrainingTask] = {}
    for fields in worker.arguments["cases"]:
        case = Case(**fields)
        if case.task not in tasks:
            tasks[case.task] = task(case.task, Path(data) if data else None)
        result = train_case(tasks[case.task], case, worker.rank)
        if worker.rank == 0:
            write_atomically(folder / case.file, json.dumps(asdict(result)))
    return len(worker.arguments["cases"])


def train_case(job: TrainingTask, case: Case, rank: int) -> Result:
    """Train one case with the exchange that it names, validate it every ``job.every`` steps and after the last, and
    return the measurements; all ranks of the default process group call it.

    The case's seed fixes the weights; seed and rank fix the batches.

    Args:
        job: the task, with its data.
        case: what is trained; its ``ranks`` must be those of the process group. Its method ``reference`` is DDP without
            a hook.
        rank: rank of this process.

    Returns:
        Validated steps (from 1) and mean validation losses in nats over all ranks' parts; bytes that a rank sends in a
        step, mean over ranks (``sent_bytes``; the reference's are by formula), and those of a float32 ring all-reduce
        (``raw_bytes``); this rank's mean processor seconds of a step, exchange included; the SHA-256 of this rank's
        final parameters; and whether those of all ranks have equal bits.

    Raises:
        UnknownNameError: there is no such method.
        ConfigError: the method cannot be read.
    """
    torch.manual_seed(case.seed)
    model = job.model()
    method = None if case.method == REFERENCE else find(case.method)
    replica, optimizer, result, seconds = model, job.optimizer(model), Result(case), []
    state: ExchangeState | Periodic | None = None
    if method is not None and not method.synchronous:
        state = periodic(model, optimizer, method, hook=True)
    else:
        replica = DistributedDataParallel(model)
        state = None if method is None else attach(replica, method, adaptive=False)
    chance = np.random.default_rng((case.seed, rank))
    for step in range(1, case.steps + 1):
        began = time.process_time()
        optimizer.zero_grad()
        job.loss(replica, chance).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        seconds.append(time.process_time() - began)
        if step % job.every == 0 or step == case.steps:
            with torch.no_grad():
                total = torch.tensor(job.validate(model, rank, case.ranks), dtype=torch.float64)
            dist.all_reduce(total)
            result.steps.append(step)
            result.loss.append(float(total[0] / total[1]))
    result.step_seconds = float(np.mean(seconds))
    values = sum(parameter.numel() for parameter in model.parameters())
    result.raw_bytes = result.sent_bytes = PlainExchange().sent_bytes(Gradient.flat(values), case.ranks)
    if state is not None:
        sent = torch.tensor(state.statistics.total.nbytes_sent / case.steps / case.ranks, dtype=torch.float64)
        dist.all_reduce(sent)
        result.sent_bytes = float(sent)
        state.close()
    parameters = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    result.digest = hashlib.sha256(parameters.numpy().tobytes()).hexdigest()
    digests: list[Any] = [torch.zeros(32, dtype=torch.uint8) for _ in range(case.ranks)]
    dist.all_gather(digests, torch.frombuffer(bytearray.fromhex(result.digest), dtype=torch.uint8))
    result.replicas_equal = all(torch.equal(digests[0], other) for other in digests)
    return result


def cases(job: str, methods: Sequence[str], seeds: int, ranks: int, steps: int) -> list[Case]:
    """Return the runs of a comparison, seed by seed (0 to ``seeds`` - 1), for each seed first the run of the reference
    (DDP without a hook), then one of each method; methods named twice run once.

    Args:
        job: name of the task, which is not checked.
        methods: names of exchange methods; ``Case.method`` is ``reference`` or a method's full name.
        seeds: number of seeds.
        ranks: number of ranks of each run.
        steps: number of training steps of each run.

    Raises:
        UnknownNameError: there is no such method.
        ConfigError: an option of a method is wrong, or the method does not serve so many ranks.
    """
    found = [find(method) for method in methods]
    for method in found:
        method.phases(Gradient.flat(1), ranks)
    spelled = [REFERENCE, *(method.name for method in found)]
    return [
        Case(task=job, method=method, seed=seed, steps=steps, ranks=ranks)
        for seed in range(seeds)
        for method in dict.fromkeys(spelled)
    ]


SECONDS_A_RUN = 3600.0
"""Longest time that a run may take before its processes are ended."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One method beside plain training, over all seeds."""

    method: str
    seeds: int
    ratio: float
    """Bytes of a ring all-reduce of float32 for each byte sent."""
    loss: float
    """Validation loss after the last step, mean over seeds, nats."""
    difference: float
    """Mean over seeds of the loss less that of plain training from the same weights, on the same batches."""
    spread: float
    """Largest less smallest difference over seeds."""
    step_seconds: float
    """A step over the stated link, by a model: processor time as measured, then sending at the link's speed."""
    loss_at_equal_time: float
    """Mean loss when plain training has done half its steps over that link; the last one where the run had ended."""
    replicas_equal: bool
    on_front: bool = False
    """True unless another pair of ratio and loss saves at least as many bytes with a loss at most as high."""


def run_all(
    cases: Sequence[Case], folder: Path, data: Path | None = None, advance: Callable[[int], None] = lambda _: None
) -> list[Result]:
    """Run the cases whose results ``folder`` does not hold yet, seed by seed in new processes, and return all results
    in the order of ``cases``.

    Args:
        cases: runs, all of one number of ranks.
        folder: where results are read and written, a JSON file for each case; made if it is missing. A file that cannot
            be read is written anew.
        data: the data folder; ``$LIGHTLOOM_DATA`` unless given.
        advance: called with the number of runs that became available since the last call: for each seed the stored
            ones, then the new ones.

    Raises:
        LaunchError: a rank failed, for example for want of data, or a seed's runs took more than an hour each. Runs
            that had ended are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for seed in sorted({case.seed for case in cases}):
        chosen = [case for case in cases if case.seed == seed]
        missing = [case for case in chosen if read_result(folder / case.file) is None]
        advance(len(chosen) - len(missing))
        if missing:
            arguments = {
                "cases": [asdict(case) for case in missing],
                "folder": str(folder.resolve()),
                "data": None if data is None else str(data.resolve()),
            }
            launch(train_all, missing[0].ranks, SECONDS_A_RUN * len(missing), arguments)
            advance(len(missing))
    results = [read_result(folder / case.file) for case in cases]
    return [result for result in results if result is not None]


def compare_runs(results: Sequence[Result], link: float) -> list[Comparison]:
    """Return one row for each method, the reference (DDP without a hook) among them, in the order of the results.

    ``difference`` is the mean over seeds of the last validation loss, in nats, less that of the reference of the same
    seed; ``spread`` is the largest of these differences less the smallest. The other fields are the method's own over
    its runs, whose number is ``seeds``: ``ratio`` (bytes of a float32 ring all-reduce for each byte sent, 1 where
    none was), the last ``loss`` and ``loss_at_equal_time`` (at the time when the reference has done half its steps,
    interpolated between validations; the first one before these begin, the last one of a run that has ended by then),
    all three means; ``step_seconds``, the median processor time of a step and the mean bytes sent at the speed of the
    link; and ``replicas_equal``, true if they were in every run. ``on_front`` is true unless the ratio
    and loss of another row (not the same pair) save at least as many bytes with a loss at most as high.

    Args:
        results: at least one, all of one task, one number of steps and of ranks; the reference among them for every
            seed.
        link: bytes that a rank sends in a second, by which seconds of a step are modelled.

    Raises:
        ConfigError: there are no results, or a seed lacks its reference.
    """
    if not results:
        raise ConfigError(f"no runs to compare: expected a run of {REFERENCE!r} at least")
    references = {result.case.seed: result for result in results if result.case.method == REFERENCE}
    if lacking := sorted({result.case.seed for result in results} - set(references)):
        raise ConfigError(f"no plain run of seed {lacking[0]}: expected a run of {REFERENCE!r} for every seed")
    plain_runs = list(references.values())
    half = _step_seconds(plain_runs, link) * min(run.steps[-1] for run in plain_runs) / 2
    rows = []
    for method in dict.fromkeys(result.case.method for result in results):
        runs = [result for result in results if result.case.method == method]
        differences = [run.loss[-1] - references[run.case.seed].loss[-1] for run in runs]
        step = _step_seconds(runs, link)
        rows.append(
            Comparison(
                method=method,
                seeds=len(runs),
                ratio=float(np.mean([run.raw_bytes / run.sent_bytes if run.sent_bytes else 1.0 for run in runs])),
                loss=float(np.mean([run.loss[-1] for run in runs])),
                difference=float(np.mean(differences)),
                spread=max(differences) - min(differences),
                step_seconds=step,
                loss_at_equal_time=float(np.mean([np.interp(half / step, run.steps, run.loss) for run in runs])),
                replicas_equal=all(run.replicas_equal for run in runs),
            )
        )
    points = {(row.ratio, row.loss) for row in rows}

    def on_front(own: tuple[float, float]) -> bool:
        """Return whether no other point has as many bytes saved and as low a loss."""
        return not any(other[0] >= own[0] and other[1] <= own[1] for other in points - {own})

    return [replace(row, on_front=on_front((row.ratio, row.loss))) for row in rows]


def _step_seconds(runs: Sequence[Result], link: float) -> float:
    """Return the seconds of a step over a link of ``link`` bytes a second: the median over runs of their mean processor
    time of a step, plus the mean over runs of the bytes that a rank sends in a step, divided by ``link``."""
    return median(run.step_seconds for run in runs) + float(np.mean([run.sent_bytes for run in runs])) / link
