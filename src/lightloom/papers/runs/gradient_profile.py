"""Gradients of a model, for measuring codecs on them: from training it here for a few steps, or from a saved file.

Without a data set that fits, inputs and labels are drawn at random. Such gradients have the model's shapes and the
scale of its initialisation, but teach nothing of how gradients shrink while real data is learned; :func:`describe` says
so, and whoever has gradients of a real run should save them and pass the file.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lightloom.core.errors import ConfigError, InputError, WorkloadError
from lightloom.core.files import cannot_read
from lightloom.core.memory import free_memory
from lightloom.core.plugins import load_plugins
from lightloom.core.results import Advance, ignore
from lightloom.exchange.compression.profile import Sample
from lightloom.exchange.datasets import PIXELS, training_digits
from lightloom.models.torch.frame import tensors_in
from lightloom.models.torch.trace import module_and_inputs, sample_axis, takes_length, with_length
from lightloom.models.torch.values import Values
from lightloom.models.zoo import ZOO, resolve, search_path

Gradients = dict[str, NDArray[np.float32]]

_SAMPLES = 5
"""Steps whose gradients are taken, spread evenly over the logarithm of the step."""
_POOL = 8
"""Random batches that are trained on in turn."""
T = TypeVar("T")
Example = tuple[object, ...]
"""Inputs of a model."""
_COPIES = 7
"""Float32 vectors as long as the model that exist at once: parameters, gradients, momentum, and measuring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A few steps of SGD with momentum, whose gradients are taken."""

    model: str
    """A zoo name, a plug-in, ``package.module:factory`` or ``path/file.py:factory``."""
    steps: int = 20
    batch: int = 16
    sequence_length: int | None = None
    learning_rate: float = 0.01
    momentum: float = 0.9
    seed: int = 0
    terms: int = 1
    """Gradients that are added up at the last step, one after the other, as around a ring of as many ranks."""
    data: Path | None = None
    """Folder with data sets; None draws inputs and labels at random."""

    def __post_init__(self) -> None:
        """Raise ConfigError for fewer than one step, sample or sum, or a learning rate that is not above 0 and below
        1000."""
        for name, value in (("steps", self.steps), ("batch", self.batch), ("sums", self.terms)):
            if value < 1:
                raise ConfigError(f"{name} = {value}: expected at least 1")
        if not 0 < self.learning_rate < 1e3:
            raise ConfigError(f"learning rate = {self.learning_rate}: expected a positive number")

    @property
    def sampled(self) -> list[int]:
        """Steps whose gradients are taken, ascending and counted from 1, spread evenly over the logarithm of the step
        from the first to the last; at most five."""
        return sorted({round(self.steps ** (i / (_SAMPLES - 1))) for i in range(_SAMPLES)})

    def describe(self) -> str:
        """Return a phrase on how the gradients were made: inputs, SGD with its rate and momentum, batch, sampled steps,
        seed and, where there are any, sums of batches, with commas between: "random inputs and labels, SGD with
        learning rate 0.1 and momentum 0.9, batch 32, steps 1, 3, 10, seed 0"."""
        sums = f", sums of up to {self.terms} batches at the last" if self.terms > 1 else ""
        inputs = "MNIST" if self.data is not None else "random inputs and labels"
        return (
            f"{inputs}, SGD with learning rate {self.learning_rate:g} and momentum {self.momentum:g}, batch "
            f"{self.batch}, steps {', '.join(map(str, self.sampled))}, seed {self.seed}{sums}"
        )


def trained_gradients(training: Training, parameters: int, advance: Advance = ignore) -> Iterator[Sample]:
    """Train by SGD on the CPU and yield gradients before the update at the sampled steps, and at the last one sums of
    2, 4, 8 ... batches' gradients up to ``training.terms``: each a ``Sample`` of the step (from 1), the number of
    batches added up, and flat float32 arrays by parameter name, whose content lasts until the next is asked for. The
    sums start with the gradient of the last step, whose weights stay.

    Args:
        training: model, batches and settings of the training.
        parameters: number of the model's parameters; it is refused, before it is built, if it cannot fit the memory.
        advance: called with 1 after each step, and after each batch that is added up.

    Raises:
        WorkloadError: the model cannot be built, run or differentiated, or has nothing to train.
        ConfigError: no data set there, or none that fits the model's inputs, or too little memory.
    """
    _check_memory(training.model, parameters)
    torch.manual_seed(training.seed)
    module, example = _guarded(training.model, "cannot be built", lambda: _build(training))
    module.train()
    if not (trained := {name: p for name, p in module.named_parameters() if p.requires_grad}):
        raise WorkloadError(f"{training.model}: has no parameters to train")
    batches = _batches(training, module, example)
    optimizer = torch.optim.SGD(trained.values(), lr=training.learning_rate, momentum=training.momentum)
    for step in range(1, training.steps + 1):
        inputs, labels = next(batches)
        optimizer.zero_grad()
        _guarded(training.model, "cannot be trained", partial(_backward, module, inputs, labels))
        if step in training.sampled:
            yield Sample(step, 1, _gradients(trained))
        advance(1)
        if step == training.steps:
            break
        optimizer.step()
    for terms in range(2, training.terms + 1):
        _guarded(training.model, "cannot be trained", partial(_backward, module, *next(batches)))
        if terms & (terms - 1) == 0:
            yield Sample(training.steps, terms, _gradients(trained))
        advance(1)


def _gradients(trained: Mapping[str, nn.Parameter]) -> Gradients:
    """Return the gradients of parameters by name, flat, as float32, which share memory with the parameters' where these
    are float32; parameters without any are left out."""
    gradients = {name: p.grad.detach().float() for name, p in trained.items() if p.grad is not None}
    return {name: gradient.contiguous().view(-1).numpy() for name, gradient in gradients.items()}


def saved_gradients(path: Path) -> Gradients:
    """Return flat float32 gradients by name from a ``.pt`` file: of a tensor, named after the file, or of a mapping of
    names to tensors. Tensors of other floating-point types are converted.

    Raises:
        ConfigError: the file cannot be read, or holds anything else, such as integers.
    """
    try:
        # Weights only: a file of gradients has no business running code.
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = getattr(error, "strerror", None) or "not a PyTorch file of plain tensors"
        raise cannot_read(path, reason, "gradients") from error
    named = {path.stem: loaded} if isinstance(loaded, Tensor) else loaded
    if not isinstance(named, dict) or not all(isinstance(tensor, Tensor) for tensor in named.values()):
        raise ConfigError(f"gradients {str(path)!r}: expected a tensor, or a mapping of names to tensors")
    for name, tensor in named.items():
        if not tensor.is_floating_point():
            raise ConfigError(f"gradients {str(path)!r}: {name!r} is {tensor.dtype}, expected float32")
    return {str(name): tensor.detach().float().contiguous().view(-1).numpy() for name, tensor in named.items()}


def _build(training: Training) -> tuple[nn.Module, Example]:
    """Return the module that the training's model names, with real parameters, and its example inputs as a tuple
    (shapes and types count, values do not), of the training's batch where the model makes its inputs by batch, and of
    its sequence length if it names one. The model is one of the zoo, of a plugin, or an import path."""
    entry, name = ZOO.get(training.model), training.model
    length = {} if training.sequence_length is None else {"sequence_length": training.sequence_length}
    with search_path(name), contextlib.redirect_stdout(sys.stderr):
        plugins = load_plugins("models")
        factory = resolve(entry.path) if entry else plugins[name] if name in plugins else resolve(name)
        arguments: dict[str, Any] = dict(entry.arguments) if entry else {}
        if length and not isinstance(factory, nn.Module) and takes_length(factory):
            arguments, length = arguments | length, {}
        made = factory if isinstance(factory, nn.Module) else factory(**arguments)
        module, example, axis = module_and_inputs(made, name)
        if example is None:
            example = cast(Any, module).example_inputs(training.batch, **length)
        elif length:
            axis = sample_axis(module, example, name, Values()) if axis is None else axis
            example = with_length(example, axis, length["sequence_length"], name)
    return module, example if isinstance(example, tuple) else (example,)


def _batches(training: Training, module: nn.Module, example: Example) -> Iterator[tuple[Example, Tensor | None]]:
    """Yield the model's inputs and labels, without end: MNIST where the training names a data folder, else a fixed pool
    of random inputs in turn (integers below the smallest number of embeddings), with None for labels; shapes are those
    of ``example``."""
    generator = torch.Generator().manual_seed(training.seed)
    if training.data is not None:
        yield from _mnist(training, example, generator)
    tokens = min((part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)), default=2)
    pool = [tuple(_random(value, tokens, generator) for value in example) for _ in range(_POOL)]
    while True:
        for inputs in pool:
            yield inputs, None


def _random(like: object, tokens: int, generator: torch.Generator) -> object:
    """Return random values of the shape and type of the tensor ``like``: normal, or integers below ``tokens``; anything
    but a tensor as it is."""
    if not isinstance(like, Tensor):
        return like
    if like.is_floating_point():
        return torch.randn(like.shape, generator=generator, dtype=like.dtype)
    return torch.randint(tokens, like.shape, generator=generator, dtype=like.dtype)


def _mnist(training: Training, example: Example, generator: torch.Generator) -> Iterator[tuple[Example, Tensor | None]]:
    """Yield inputs in the example's shape and labels from MNIST's training set without end, drawn with replacement;
    images of another size (n, channels, height, width) are interpolated, and all channels are equal; values are 0 … 1,
    labels int64.

    Raises:
        ConfigError: MNIST does not fit the shape, or is missing.
    """
    shape = tuple(example[0].shape) if len(example) == 1 and isinstance(example[0], Tensor) else ()
    resized = len(shape) == 4 and shape[2:] != (28, 28)
    if len(shape) < 2 or not (resized or int(np.prod(shape[1:])) == PIXELS):
        raise ConfigError(
            f"{training.model}: no data set fits its inputs {shape}: MNIST has {PIXELS} pixels; leave --data out "
            "for random inputs, or give --gradients from a run of your own"
        )
    digits = training_digits(training.data)
    while True:
        chosen = torch.randint(len(digits.labels), (shape[0],), generator=generator).numpy()
        images = torch.from_numpy(digits.images[chosen].astype(np.float32) / 255)
        if resized:
            images = nn.functional.interpolate(images.view(-1, 1, 28, 28), shape[2:], mode="bilinear").expand(shape)
        yield (images.reshape(shape),), torch.from_numpy(digits.labels[chosen].astype(np.int64))


def _backward(module: nn.Module, inputs: Example, labels: Tensor | None) -> None:
    """Add the gradient of a batch's loss to that of the module's parameters; without ``labels`` they are drawn at
    random."""
    torch.autograd.backward(_loss(module(*inputs), labels))


def _loss(outputs: object, labels: Tensor | None) -> Tensor:
    """Return the loss of a model's outputs: the cross-entropy over the last axis, with labels drawn at random where
    there are none; all axes but the last are samples.

    A single scalar output is the loss itself; one number a sample is compared with random targets by its mean square
    error. Several outputs (auxiliary heads) add up.
    """
    floating = [output for output in tensors_in([outputs]) if output.is_floating_point()]
    if len(floating) == 1 and floating[0].dim() == 0:
        return floating[0]
    losses = []
    for output in floating:
        scores = output.reshape(-1, output.shape[-1] if output.dim() > 1 else 1).float()
        if scores.shape[1] == 1:
            losses.append(nn.functional.mse_loss(scores, torch.randn_like(scores)))
            continue
        wanted = torch.randint(scores.shape[1], (len(scores),)) if labels is None else labels
        losses.append(nn.functional.cross_entropy(scores, wanted))
    return torch.stack(losses).sum()


def _check_memory(model: str, parameters: int) -> None:
    """Raise a ConfigError of one line where training a model with so many parameters, at least seven float32 vectors of
    as many values, would not fit in the memory that is free."""
    needed, free = _COPIES * 4 * parameters, free_memory()
    if needed > free:
        raise ConfigError(
            f"{model}: training {parameters:,} parameters here takes at least {needed / 1e9:.1f} GB, and "
            f"{free / 1e9:.1f} GB are free: give --gradients from a run elsewhere"
        )


def _guarded(model: str, what: str, action: Callable[[], T]) -> T:
    """Return what ``action``, user code, gives; whatever it raises (SystemExit too, but no InputError and no
    KeyboardInterrupt) becomes a WorkloadError of one line: "``model``: ``what``: type and message"."""
    try:
        return action()
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        text = (str(error).strip() or "no message").splitlines()[0]
        raise WorkloadError(f"{model}: {what}: {type(error).__name__}: {text}") from error
