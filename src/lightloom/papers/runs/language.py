"""The LLaMA-like network of OptINC on text, N servers' gradients averaged by light (section IV, Fig. 7(a)).

Every server draws windows of its own; seed and step fix them, so that runs with equal seeds see equal data and start
from equal weights: they can be compared in pairs.
"""

import math
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lightloom.core.errors import ConfigError
from lightloom.core.results import Advance, ignore
from lightloom.exchange.datasets import VOCABULARY, Corpus
from lightloom.models.torch.zoo.llama import llama
from lightloom.papers.runs.emulated import EmulatedServers
from lightloom.papers.runs.images import RunCheckpoint
from lightloom.photonics.averaging.averagers import TABLE_II_ERRORS, Averager, ErringAverager, IdealAverager
from lightloom.photonics.averaging.block_quantisation import Rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Settings of a run. Sizes are the paper's, which states no vocabulary, feed-forward width or optimiser."""

    seed: int
    bits: int | None = None
    """Bits of a server's code; None averages in float32."""
    rounding: Rounding = "half-up"
    """Rounding of the mean; servers quantise half-up."""
    errors: str | None = None
    """Row of Table II whose errors are injected."""
    servers: int = 4
    layers: int = 8
    hidden: int = 384
    heads: int = 8
    intermediate: int = 1024
    sequence: int = 128
    windows_per_server: int = 4
    steps: int = 256
    learning_rate: float = 1e-3
    warm_up: int = 32
    weight_decay: float = 0.1
    block: int = 256
    record_every: int = 32
    validation_windows: int = 128
    bfloat16: bool = True
    """True to compute products in bfloat16; weights, gradients and losses stay float32."""

    @property
    def tokens(self) -> int:
        """Number of tokens that all servers train on over all steps."""
        return self.steps * self.servers * self.windows_per_server * self.sequence

    def averager(self) -> Averager | None:
        """Return the averager of the servers' codes that the recipe describes, which injects errors where the recipe
        names a row of Table II; None averages in float32."""
        if self.bits is None:
            return None
        ideal = IdealAverager(self.servers, self.bits, self.rounding)
        return ideal if self.errors is None else ErringAverager(ideal, TABLE_II_ERRORS[self.errors], self.seed)


@dataclass(slots=True)
class Record:
    """Results of a run; lists have one entry for each ``record_every`` steps."""

    steps: list[int] = field(default_factory=list)
    training_loss: list[float] = field(default_factory=list)
    """Mean over servers and steps since the last entry, nats a token."""
    validation_loss: list[float] = field(default_factory=list)
    """On the same windows every time, nats a token."""
    cpu_seconds: float = 0.0


def train(
    corpus: Corpus,
    recipe: Recipe,
    folder: Path | None = None,
    averager: Averager | None = None,
    advance: Advance = ignore,
) -> dict[str, Any]:
    """Train the language model, continuing from the last checkpoint in ``folder``, and return the record.

    Args:
        corpus: training and validation text.
        recipe: settings of the run.
        folder: folder of the checkpoint, saved with every entry of the record; None saves none.
        averager: averager in place of the recipe's own, for example a network.
        advance: called with the number of steps done before, and with 1 after each step.

    Returns:
        The fields of the record, those of the recipe under ``recipe``, and the name of the ``corpus``. Of the record
        ``steps``, ``training_loss`` and ``validation_loss`` (nats a token) are lists with an entry every
        ``record_every`` steps and at the last one, ``cpu_seconds`` is a number.

    Raises:
        ConfigError: the text is too short for one step, or has none to validate, or the averager is for another number
            of servers.
    """
    run = _LanguageRun(corpus, recipe, averager if averager is not None else recipe.averager(), folder)
    return {"recipe": asdict(recipe), "corpus": corpus.name, **asdict(run.run(advance))}


class _LanguageRun:
    def __init__(self, corpus: Corpus, recipe: Recipe, averager: Averager | None, folder: Path | None) -> None:
        """Cut the texts into windows, keep evenly spread ones for validation, and make the network from the recipe's
        seed.

        Raises:
            ConfigError: the training text lacks the windows of a step, or the validation text has none.
        """
        self.recipe = recipe
        self.training = _windows(corpus.training, recipe.sequence)
        validation = _windows(corpus.validation, recipe.sequence)
        per_step = recipe.servers * recipe.windows_per_server
        if len(self.training) < per_step or not len(validation):
            raise ConfigError(
                f"{corpus.name} has {len(self.training)} windows of {recipe.sequence} tokens to train on and "
                f"{len(validation)} to validate: a step takes {per_step}"
            )
        chosen = np.linspace(0, len(validation) - 1, min(recipe.validation_windows, len(validation))).astype(int)
        self.validation = validation[chosen]
        torch.manual_seed(recipe.seed)
        sizes = {name: getattr(recipe, name) for name in ("layers", "hidden", "heads", "intermediate", "sequence")}
        self.net = llama(vocabulary=VOCABULARY, **sizes)
        self.optimizer = torch.optim.AdamW(
            self.net.parameters(), recipe.learning_rate, (0.9, 0.95), weight_decay=recipe.weight_decay
        )
        self.servers = EmulatedServers(self.net, recipe.servers, averager, recipe.block)
        self.checkpoint = RunCheckpoint(folder, self.net, self.optimizer, averager)

    def run(self, advance: Advance) -> Record:
        """Train on from the last checkpoint to the recipe's last step and return the record.

        A checkpoint is saved with every entry of the record. ``advance`` is called with the number of steps done
        before, and with 1 after each step.
        """
        recipe = self.recipe
        losses: list[float] = []
        done, saved = self.checkpoint.load()
        self.record = Record(**saved)
        advance(done)
        began = time.process_time() - self.record.cpu_seconds
        for step in range(done + 1, recipe.steps + 1):
            windows = self._batch(step)
            for group in self.optimizer.param_groups:
                group["lr"] = recipe.learning_rate * _schedule(step, recipe)
            losses += self.servers.step(partial(self._loss_of, windows))
            self.optimizer.step()
            if step % recipe.record_every == 0 or step == recipe.steps:
                self._note(step, losses)
                self.record.cpu_seconds = time.process_time() - began
                self.checkpoint.save(step, asdict(self.record))
            advance(1)
        return self.record

    def _loss_of(self, windows: NDArray[np.uint8], server: int) -> Tensor:
        """Return the loss, in nats a token, of the windows of server number ``server`` (from 0), out of those of all
        servers in a step, ``windows`` (servers, windows a server, sequence + 1)."""
        return self._loss(windows[server])

    def _loss(self, windows: NDArray[np.uint8]) -> Tensor:
        """Return the mean cross-entropy, in nats a token, of predicting every token but the first of each window (n,
        sequence + 1) from those before it."""
        tokens = torch.from_numpy(windows.astype(np.int64))
        # CPUs with matrix units for bfloat16 multiply it fast; others take twice as long as in float32.
        with torch.autocast("cpu", torch.bfloat16, enabled=self.recipe.bfloat16):
            logits = self.net(tokens[:, :-1])
        return nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())

    def _batch(self, step: int) -> NDArray[np.uint8]:
        """Return the windows, uint8 (servers, windows a server, sequence + 1), of a step, which counts from 1; their
        order is fixed by the seed, and no window comes twice in a pass over the text, which leaves out a rest too small
        for a step and has a new order each time."""
        recipe = self.recipe
        size = recipe.servers * recipe.windows_per_server
        epoch, place = divmod(step - 1, len(self.training) // size)
        order = np.random.default_rng((recipe.seed, epoch)).permutation(len(self.training))
        chosen = self.training[order[place * size : (place + 1) * size]]
        return chosen.reshape(recipe.servers, recipe.windows_per_server, -1)

    def _note(self, step: int, losses: list[float]) -> None:
        """Add an entry to the record at ``step``: the mean of ``losses``, the training losses since the last entry,
        which are cleared, and the loss on the validation windows."""
        self.record.steps.append(step)
        self.record.training_loss.append(float(np.mean(losses)))
        losses.clear()
        with torch.no_grad():
            parts = np.array_split(self.validation, -(-len(self.validation) // 16))
            total = sum(float(self._loss(part)) * len(part) for part in parts)
        self.record.validation_loss.append(total / len(self.validation))


def _windows(tokens: NDArray[np.uint8], sequence: int) -> NDArray[np.uint8]:
    """Return windows (n, sequence + 1) of a text's tokens that do not overlap but for the last token, which is the
    first of the next; a rest too short for a window is left out."""
    count = max(0, (tokens.size - 1) // sequence)
    windows: NDArray[np.uint8] = tokens[np.arange(count)[:, None] * sequence + np.arange(sequence + 1)]
    return windows


def _schedule(step: int, recipe: Recipe) -> float:
    """Return the factor of the recipe's learning rate at a step, which counts from 1: linear warm-up to 1 over the
    recipe's ``warm_up`` steps (1 at the last of them), then half a cosine to a tenth at the last step."""
    if step <= recipe.warm_up:
        return step / recipe.warm_up
    return 0.1 + 0.45 * (1 + math.cos(math.pi * ((step - recipe.warm_up) / max(1, recipe.steps - recipe.warm_up))))
