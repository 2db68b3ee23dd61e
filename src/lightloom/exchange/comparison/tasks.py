"""Small training tasks on real data, on which exchanges are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lightloom.core.errors import UnknownNameError
from lightloom.training.datasets.folder import DataFile
from lightloom.training.datasets.mnist import (
    TEST_IMAGES,
    TEST_LABELS,
    TRAIN_IMAGES,
    TRAIN_LABELS,
    Digits,
    test_digits,
    training_digits,
)
from lightloom.training.datasets.text import (
    TINY_SHAKESPEARE,
    WIKITEXT_2_TEST,
    WIKITEXT_2_VALID,
    tiny_shakespeare,
    wikitext_2,
)

SEQUENCE = 64


class Task(ABC):
    """A model, its data and its optimizer; ranks draw different batches, which seed and step fix."""

    name: str
    steps: int
    """Default number of steps."""
    every: int
    """Steps between two validations."""

    @abstractmethod
    def model(self) -> nn.Module:
        """Return a new model; torch's seed fixes its weights."""

    @abstractmethod
    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer of a model."""

    @abstractmethod
    def loss(self, model: nn.Module, chance: np.random.Generator) -> Tensor:
        """Mean loss of a batch that ``chance`` draws, in nats."""

    @abstractmethod
    def validate(self, model: nn.Module, rank: int, ranks: int) -> tuple[float, float]:
        """Sum of losses over this rank's part of the validation set, and its size."""


class Mnist(Task):
    """A perceptron of 784, 300, 100 and 10 units (266,610 parameters) on MNIST; SGD with momentum."""

    steps = 400
    every = 50
    batch = 32

    def __init__(self, name: str, data: Path | None = None) -> None:
        self.name = name
        self.training, self.test = training_digits(data), test_digits(data)

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), 0.05, 0.9)

    def loss(self, model: nn.Module, chance: np.random.Generator) -> Tensor:
        chosen = chance.integers(len(self.training.labels), size=self.batch)
        return _cross_entropy(model, self.training, chosen)

    def validate(self, model: nn.Module, rank: int, ranks: int) -> tuple[float, float]:
        part = np.arange(rank, len(self.test.labels), ranks)
        return float(_cross_entropy(model, self.test, part)) * len(part), len(part)


class Text(Task):
    """A decoder of 2 layers, 64 wide, 4 heads, on characters in windows of 64; Adam."""

    steps = 300
    every = 50
    batch = 8
    validation_windows = 256

    def __init__(self, name: str, data: Path | None = None) -> None:
        self.name = name
        corpus = tiny_shakespeare(data) if name == "chars" else wikitext_2(data)
        symbols, tokens = np.unique(np.concatenate([corpus.training, corpus.validation]), return_inverse=True)
        self.vocabulary = len(symbols)
        self.training = tokens[: len(corpus.training)].astype(np.int64)
        held_out = tokens[len(corpus.training) :].astype(np.int64)
        starts = np.linspace(0, len(held_out) - SEQUENCE - 1, self.validation_windows).astype(int)
        self.validation = held_out[starts[:, None] + np.arange(SEQUENCE + 1)]

    def model(self) -> nn.Module:
        return Decoder(self.vocabulary)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), 2e-3)

    def loss(self, model: nn.Module, chance: np.random.Generator) -> Tensor:
        starts = chance.integers(len(self.training) - SEQUENCE - 1, size=self.batch)
        return _next_symbol(model, self.training[starts[:, None] + np.arange(SEQUENCE + 1)])

    def validate(self, model: nn.Module, rank: int, ranks: int) -> tuple[float, float]:
        part = self.validation[rank::ranks]
        return float(_next_symbol(model, part)) * len(part), len(part)


class Decoder(nn.Module):
    """A small decoder with learned positions, normalised before each half-layer."""

    def __init__(self, vocabulary: int, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.symbols = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(SEQUENCE, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(SEQUENCE))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (windows, symbols, vocabulary)."""
        hidden = self.symbols(tokens) + self.positions.weight[: tokens.shape[1]]
        logits: Tensor = self.head(self.layers(hidden, mask=self.mask, is_causal=True))
        return logits


_TASKS: dict[str, tuple[type[Mnist] | type[Text], tuple[DataFile, ...]]] = {
    "mnist": (Mnist, (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)),
    "chars": (Text, (TINY_SHAKESPEARE,)),
    "text": (Text, (WIKITEXT_2_TEST, WIKITEXT_2_VALID)),
}
"""Tasks by name, and the files that they read."""


def default_steps(name: str, data: Path | None = None) -> int:
    """Return the default number of steps of a task, whose files must be there but are not read.

    Raises:
        UnknownNameError: there is no such task.
        ConfigError: a file is missing.
    """
    kind, needed = _find(name)
    for file in needed:
        file.find(data)
    return kind.steps


def task(name: str, data: Path | None = None) -> Task:
    """Return a task: ``mnist``, ``chars`` (tinyshakespeare) or ``text`` (WikiText-2).

    Raises:
        UnknownNameError: there is no such task.
        ConfigError: its data set is missing.
    """
    return _find(name)[0](name, data)


def _find(name: str) -> tuple[type[Mnist] | type[Text], tuple[DataFile, ...]]:
    if name not in _TASKS:
        raise UnknownNameError("task", name, _TASKS)
    return _TASKS[name]


def _cross_entropy(model: nn.Module, digits: Digits, chosen: NDArray[np.int64]) -> Tensor:
    images = torch.from_numpy(digits.images[chosen]).to(torch.float32) / 255
    return nn.functional.cross_entropy(model(images), torch.from_numpy(digits.labels[chosen]).long())


def _next_symbol(model: nn.Module, windows: NDArray[np.int64]) -> Tensor:
    tokens = torch.from_numpy(windows)
    return nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
