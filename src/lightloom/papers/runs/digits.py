"""Digits, data-parallel with DDP: HDC as INCEPTIONN trains it (Table I), or a LeNet; the worker function of ``launch``.

Every rank draws its batches from its own part of the training set, in an order that seed, epoch and rank fix, so that
runs with equal seeds see equal data and start from equal weights: they can be compared in pairs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.arrays import Float32s, Ints
from lightloom.core.errors import UnknownNameError
from lightloom.core.files import write_atomically
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.compression.registry import find
from lightloom.exchange.compression.stream import tag_histogram
from lightloom.exchange.datasets import Digits, test_digits, training_digits
from lightloom.exchange.distributed.ddp import ExchangeState, attach
from lightloom.exchange.hooks import OpticalAverageState, attach_optical_average
from lightloom.exchange.methods import CodecExchange
from lightloom.exchange.transport.worker import Worker
from lightloom.models.torch.zoo.chains import hdc, lenet
from lightloom.photonics.averaging.block_quantisation import Rounding

# The labelled images that a network of a training run learns from, by the network's name.

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "hdc": hdc,
    "hdc-4": partial(hdc, 4),
    "hdc-3": partial(hdc, 3),
    "lenet": lenet,
}
"""Networks of digits by name; ``hdc`` has five weight layers."""


class ImageSets(NamedTuple):
    """Training images and test images of a network."""

    training: Digits
    test: Digits


def network(name: str) -> nn.Module:
    """Return the network of that name (``hdc``, ``hdc-4``, ``hdc-3`` or ``lenet``) with new weights from PyTorch's
    global generator.

    Raises:
        UnknownNameError: no network has that name; the message lists all.
    """
    if name not in NETWORKS:
        raise UnknownNameError("network", name, NETWORKS)
    return NETWORKS[name]()


def image_sets(folder: Path | None) -> ImageSets:
    """Return MNIST's training and test images, uint8 flattened (n, 784), with their labels, from the data folder,
    ``$LIGHTLOOM_DATA`` for None.

    Raises:
        ConfigError: the data set is missing, or not as published.
    """
    return ImageSets(training_digits(folder), test_digits(folder))


def rank_part(images: Digits, rank: int, ranks: int) -> Digits:
    """Return the part of the images and labels that one of ``ranks`` ranks has: every N-th of N ranks, beginning with
    the rank's own number."""
    return Digits(images.images[rank::ranks], images.labels[rank::ranks])


def tensors(images: Digits, chosen: Ints) -> tuple[Tensor, Tensor]:
    """Return the images at the indices ``chosen`` as float32, scaled to 0 … 1, and their labels as int64."""
    values = torch.from_numpy(images.images[chosen]).to(torch.float32) / 255
    return values, torch.from_numpy(images.labels[chosen]).to(torch.int64)


@lru_cache(maxsize=8)
def _order(seed: int, epoch: int, rank: int, images: int) -> Ints:
    """Return the order of a rank's images in an epoch, a random permutation of their indices that seed, epoch and rank
    fix; ``images`` is the number of them, and epochs count from 0."""
    return np.random.default_rng((seed, epoch, rank)).permutation(images)


def batch_of(part: Digits, recipe: Recipe, rank: int, iteration: int) -> tuple[Tensor, Tensor]:
    """Return the images (float32, 0 … 1) and labels of a rank's batch in an iteration; no image comes twice an epoch.

    Args:
        part: the images of this rank alone, as :func:`rank_part` gives them.
        recipe: its seed, with epoch and rank, fixes the order of the images, its ``batch_per_rank`` how many images a
            batch has.
        rank: number of the rank, which does not select images, only their order.
        iteration: counts from 1; a rest too small for a batch is left out of the epoch, and a part smaller than a batch
            gives a ZeroDivisionError.
    """
    size = recipe.batch_per_rank
    epoch, batch = divmod(iteration - 1, len(part.labels) // size)
    return tensors(part, _order(recipe.seed, epoch, rank, len(part.labels))[batch * size : (batch + 1) * size])


_TIMEOUT = 120.0
BOUNDS = (10, 8, 6)
"""Exponents k of the bounds 2^-k whose tags are counted, as in Table III."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Settings of a run. The defaults are Table I's column for HDC."""

    seed: int
    network: str = "hdc"
    """Name of the trained network in ``NETWORKS``."""
    glorot: bool = False
    """Start from Glorot's uniform weights and biases of 0, as was customary, instead of PyTorch's."""
    gradient_scale: float = 1.0
    """Factor of the mean loss over a rank's batch, hence of all gradients; ``batch_per_rank`` makes it the summed loss.
    The learning rate is divided by it and the weight decay multiplied, so that float32 takes the same steps."""
    gradients: str = "none"
    """Codec on every hop, ``optical:AVERAGER`` (see ``find_averager``), or ``none``: DDP's own all-reduce."""
    bits: int = 16
    """Bits per code, with ``optical``."""
    rounding: Rounding = "half-up"
    """Rounding of the mean, with ``optical``."""
    error_feedback: bool = False
    weights: str = "none"
    """Codec through which the weights go after each update (the paper's Fig. 4), or ``none``."""
    iterations: int = 10_000
    batch_per_rank: int = 25
    learning_rate: float = 0.1
    learning_rate_divisor: float = 5.0
    iterations_per_division: int = 2_000
    momentum: float = 0.9
    weight_decay: float = 5e-5
    record_every: int = 250
    checkpoint_every: int = 1_000

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.SGD:
        """Return SGD with momentum for a network's parameters at the recipe's undivided rate, the weight decay times
        ``gradient_scale``."""
        decay = self.weight_decay * self.gradient_scale
        return torch.optim.SGD(parameters, self.learning_rate, self.momentum, weight_decay=decay, fused=True)

    def set_rate(self, optimizer: torch.optim.SGD, iteration: int) -> None:
        """Set the optimizer's learning rate for an iteration, which counts from 1: divided by ``learning_rate_divisor``
        once every ``iterations_per_division``, and by ``gradient_scale``."""
        rate = self.learning_rate / self.learning_rate_divisor ** ((iteration - 1) // self.iterations_per_division)
        for group in optimizer.param_groups:
            group["lr"] = rate / self.gradient_scale


def lenet_recipe(seed: int, iterations: int, gradients: str = "none", **averaging: Any) -> Recipe:
    """Return a recipe of LeNet at 64 images per rank; the rate of 0.05 is divided by five after 5/12 and 10/12 of the
    iterations.

    Args:
        seed: of weights and batches.
        iterations: length of the training, recorded every quarter, with one checkpoint at the end.
        gradients: exchange of gradients, as ``Recipe.gradients`` takes it.
        averaging: ``bits`` and ``rounding`` of the recipe.
    """
    pace = {"iterations_per_division": iterations * 5 // 12, "record_every": iterations // 4}
    pace = {name: max(every, 1) for name, every in (pace | {"checkpoint_every": iterations}).items()}
    own: dict[str, Any] = {"network": "lenet", "batch_per_rank": 64, "learning_rate": 0.05, **pace, **averaging}
    return Recipe(seed=seed, iterations=iterations, gradients=gradients, **own)


@dataclass(slots=True)
class Record:
    """Results of a run; lists have one entry for each ``record_every`` iterations."""

    iterations: list[int] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    """Share of the test set that is classified correctly."""
    loss: list[float] = field(default_factory=list)
    """Mean training loss of rank 0 since the last entry."""
    ratio: list[float] = field(default_factory=list)
    """float32 bytes for each byte sent, in the synchronised step of the entry."""
    tags: list[list[list[float]]] = field(default_factory=list)
    """Shares of 2-, 10-, 18- and 34-bit values in rank 0's own gradient, for each of ``BOUNDS``."""
    nbytes_raw: int = 0
    nbytes_sent: int = 0
    seconds: float = 0.0


def train(worker: Worker) -> dict[str, Any]:
    """Train on this rank, as the worker function of ``launch``, resuming from the last complete checkpoint in
    ``arguments['folder']``, and return the record.

    ``worker.arguments``: ``recipe`` (fields of ``Recipe``), ``data`` and ``folder`` (paths; ``folder`` None keeps
    nothing), ``snapshots`` (iterations at which rank 0 writes its own gradient there, as ``gradient-<i>.npy``).

    Returns:
        The fields of the record, and those of the recipe under ``recipe``: lists with an entry for each
        ``record_every`` iterations and for the last, of ``iterations``, ``accuracy`` (0 to 1), ``loss`` (this rank's,
        the mean since the entry before), ``ratio`` (float32 bytes for each sent in that step; empty where DDP itself
        exchanges) and ``tags`` (rank 0 alone: for each of the bounds 2^-10, 2^-8 and 2^-6 the shares, 0 to 1, of its
        own values sent with 2, 10, 18 and 34 bits; none for a last iteration that is no multiple), and of the whole run
        ``nbytes_raw`` and ``nbytes_sent`` (0 where DDP itself exchanges) and ``seconds`` (of training, without tests
        and checkpoints).

    Raises:
        ConfigError: the data set is missing.
        TransportError: a rank was lost.
    """
    torch.set_num_threads(1)
    recipe = Recipe(**worker.arguments["recipe"])
    folder = Path(worker.arguments["folder"]) if worker.arguments.get("folder") else None
    run = _DigitsRun(worker, recipe, Path(worker.arguments["data"]), folder, set(worker.arguments.get("snapshots", ())))
    try:
        run.run(run.resume())
    finally:
        if run.state is not None:
            run.state.close()
    return {"recipe": asdict(recipe), **asdict(run.complete())}


class RecipeRun:
    """A run of a recipe: the steps, and the record of what they give. A subclass computes the gradients."""

    clock = staticmethod(time.perf_counter)
    """Clock of the record's ``seconds``."""

    def __init__(self, recipe: Recipe, test: Digits) -> None:
        """Make the network from the recipe's seed, its optimizer, the codec of weights if the recipe names one, and an
        empty record."""
        self.recipe, self.test = recipe, test
        torch.manual_seed(recipe.seed)
        self.net = network(recipe.network)
        self.parameters = list(self.net.parameters())
        if recipe.glorot:
            for parameter in self.parameters:
                nn.init.xavier_uniform_(parameter) if parameter.ndim > 1 else nn.init.zeros_(parameter)
        self.optimizer = recipe.optimizer(self.parameters)
        self.weights = None if recipe.weights == "none" else find(recipe.weights)
        self.record = Record()

    def compute_gradients(self, iteration: int) -> float:
        """Leave the mean gradient of all ranks, that of the loss times the recipe's ``gradient_scale``, in the
        parameters, and return the loss without this factor, of one rank or of all; subclasses do so, here it is a
        NotImplementedError. ``iteration`` counts from 1 and selects the batches."""
        raise NotImplementedError

    def right(self) -> tuple[int, int]:
        """Return how many of this run's test images the network classifies correctly, and how many there are."""
        right = 0
        with torch.no_grad():
            for part in np.array_split(np.arange(len(self.test.labels)), 5):
                values, labels = tensors(self.test, part)
                right += int((self.net(values).argmax(1) == labels).sum())
        return right, len(self.test.labels)

    def finish(self, iteration: int, *, recorded: bool) -> None:
        """Do what a subclass has to do after an iteration (``recorded`` if it has an entry in the record); here
        nothing."""

    def run(self, done: int = 0) -> Record:
        """Train from iteration ``done`` + 1 to the recipe's last, and return the record, to which iteration, test
        accuracy and the mean loss since the last entry are added every ``record_every`` iterations and at the last;
        with a codec of weights, these are replaced after every update by what it gives back. ``seconds`` of the record
        grow by those of the steps, without tests."""
        recipe, losses = self.recipe, list[float]()
        for iteration in range(done + 1, recipe.iterations + 1):
            began = self.clock()
            recipe.set_rate(self.optimizer, iteration)
            losses.append(self.compute_gradients(iteration))
            self.optimizer.step()
            if self.weights is not None:  # each becomes what a receiver gets
                for parameter in self.parameters:
                    rounded = torch.from_numpy(self.weights.round_trip(parameter.detach().numpy()))
                    parameter.data.copy_(rounded.view_as(parameter))
            self.record.seconds += self.clock() - began
            recorded = iteration % recipe.record_every == 0 or iteration == recipe.iterations
            if recorded:
                right, images = self.right()
                self.record.iterations.append(iteration)
                self.record.accuracy.append(right / images)
                self.record.loss.append(float(np.mean(losses)))
                losses.clear()
            self.finish(iteration, recorded=recorded)
        return self.record


class _DigitsRun(RecipeRun):
    """The run of one rank, whose gradients DDP exchanges."""

    def __init__(self, worker: Worker, recipe: Recipe, data: Path, folder: Path | None, snapshots: set[int]) -> None:
        """Take this rank's parts of both image sets, wrap the network in DDP, and attach the hook of the recipe."""
        self.part, test = (rank_part(each, worker.rank, worker.size) for each in image_sets(data))
        super().__init__(recipe, test)
        self.worker, self.folder, self.snapshots = worker, folder, snapshots
        self.model = DistributedDataParallel(self.net)
        self.state = _attached(self.model, recipe)

    def compute_gradients(self, iteration: int) -> float:
        """Leave the ranks' mean gradient, as DDP and its hook exchange it, in the parameters, that of the loss times
        ``gradient_scale``, and return this rank's loss without this factor; rank 0 counts or saves its own gradient
        where it is due. ``iteration`` counts from 1 and selects the batch."""
        recipe = self.recipe
        images, labels = batch_of(self.part, recipe, self.worker.rank, iteration)
        self.optimizer.zero_grad()
        loss = recipe.gradient_scale * nn.functional.cross_entropy(self.model(images), labels)
        if self.worker.rank == 0 and (iteration % recipe.record_every == 0 or iteration in self.snapshots):
            self._watch(iteration, loss)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach()) / recipe.gradient_scale

    def _watch(self, iteration: int, loss: Tensor) -> None:
        """Add the tags of this rank's own gradient (:func:`tag_shares` for the bounds 2^-10, 2^-8 and 2^-6) to the
        record at every ``record_every`` iterations, and save the gradient to the folder, flat, as
        ``gradient-<iteration>.npy``, at the snapshots; it is computed from ``loss`` apart from DDP, whose gradients
        stay untouched."""
        pieces = torch.autograd.grad(loss, self.parameters, retain_graph=True)
        flat = torch.cat([piece.flatten() for piece in pieces]).numpy()
        if iteration % self.recipe.record_every == 0:
            self.record.tags.append([tag_shares(flat, k) for k in BOUNDS])
        if iteration in self.snapshots and self.folder is not None:
            np.save(self.folder / f"gradient-{iteration}.npy", flat)

    def right(self) -> tuple[int, int]:
        """Return how many of all test images, of which each rank tries its part, the network classifies correctly, and
        how many there are; all ranks must call it."""
        count = torch.tensor(super().right())
        dist.all_reduce(count)
        return int(count[0]), int(count[1])

    def finish(self, iteration: int, *, recorded: bool) -> None:
        """Add the ratio of the last exchange to the record if the iteration was ``recorded``, write the iteration's
        number to ``progress.json`` then (rank 0), and write the checkpoint of this rank every ``checkpoint_every``
        iterations; the number in the file ``latest`` changes only once those of all ranks are complete, and then the
        checkpoint before it is removed. Without a folder nothing is written. All ranks call it."""
        if recorded and self.state is not None:
            self.record.ratio.append(self.state.statistics.steps[-1].ratio)
        if recorded and self.worker.rank == 0 and self.folder is not None:
            write_atomically(self.folder / "progress.json", json.dumps({"iteration": iteration}))
        if self.folder is None or iteration % self.recipe.checkpoint_every:
            return
        more = {"residuals": None if self.state is None else self.state.state_dict()}
        save_checkpoint(self._path(self.folder, iteration), self.net, self.optimizer, asdict(self.complete()), more)
        dist.barrier()
        if self.worker.rank == 0:
            write_atomically(self.folder / "latest", str(iteration))
        dist.barrier()
        self._path(self.folder, iteration - self.recipe.checkpoint_every).unlink(missing_ok=True)

    def resume(self) -> int:
        """Load this rank's part of the last complete checkpoint (network, optimizer, state of the exchange, record),
        and return its iteration; 0 without one."""
        if self.folder is None or not (self.folder / "latest").exists():
            return 0
        iteration = int((self.folder / "latest").read_text())
        content = load_checkpoint(self._path(self.folder, iteration), self.net, self.optimizer)
        if self.state is not None:
            self.state.load_state_dict(content["residuals"])
        self.record = Record(**content["record"])
        return iteration

    def complete(self) -> Record:
        """Return a copy of the record with the bytes that the hook has exchanged so far, sent and as float32, including
        those before a resumption; the record itself without a hook."""
        if self.state is None:
            return self.record
        total = self.state.statistics.total
        raw, sent = self.record.nbytes_raw + total.nbytes_raw, self.record.nbytes_sent + total.nbytes_sent
        return replace(self.record, nbytes_raw=raw, nbytes_sent=sent)

    def _path(self, folder: Path, iteration: int) -> Path:
        """Return the path of this rank's checkpoint after an iteration, in the folder of checkpoints:
        ``checkpoint-<iteration>-rank<rank>.pt``."""
        return folder / f"checkpoint-{iteration}-rank{self.worker.rank}.pt"


def save_checkpoint(
    path: Path, net: nn.Module, optimizer: torch.optim.Optimizer, record: dict[str, Any], more: dict[str, Any]
) -> None:
    """Write the states of a network and its optimizer under ``net`` and ``optimizer``, a record under ``record``, and
    the entries of ``more`` beside them, to one file by ``torch.save``, so that a reader never sees half of it."""
    content = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "record": record, **more}
    torch.save(content, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def load_checkpoint(path: Path, net: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Restore a network and its optimizer, in place, from a file of :func:`save_checkpoint`, and return the whole
    content of the checkpoint by name: ``net``, ``optimizer``, ``record`` and what else was saved."""
    content: dict[str, Any] = torch.load(path, weights_only=True)
    net.load_state_dict(content["net"])
    optimizer.load_state_dict(content["optimizer"])
    return content


def _attached(model: DistributedDataParallel, recipe: Recipe) -> ExchangeState | OpticalAverageState | None:
    """Attach the hook that the recipe's ``gradients`` name to the model (of a codec, with error feedback if the recipe
    says so, or for ``optical:NAME`` of an averager of codes with the recipe's bits, rounding and seed, the ideal one
    for ``optical`` alone), and return the hook's state; None for DDP's own all-reduce."""
    family, _, averager = recipe.gradients.partition(":")
    if family == "none":
        return None
    if family == "optical":
        options: dict[str, Any] = {"bits": recipe.bits, "rounding": recipe.rounding, "seed": recipe.seed}
        return attach_optical_average(model, averager or "ideal", timeout=_TIMEOUT, **options)
    method = CodecExchange(coder=find(recipe.gradients).name, feedback=recipe.error_feedback)
    return attach(model, method, adaptive=False, timeout=_TIMEOUT)


def tag_shares(values: Float32s, k: int) -> list[float]:
    """Return the shares (0 to 1) of values that INCEPTIONN with the bound 2^-k sends with 2, 10, 18 and 34 bits, in
    this order."""
    return [int(count) / values.size for count in tag_histogram(Inceptionn(2.0**-k).encode(values))]
