"""`train`: reproducible training of a network by a recipe."""

import io
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.core.results import Advance, Document, attributes, ignore
from lightloom.photonics.averaging.cascade import Cascade, PlainLevel
from lightloom.photonics.averaging.networks import FunctionArguments, LayeredNetwork, largest_gain_db
from lightloom.photonics.averaging.proof import EXHAUSTIVE_POINTS, Verification, verify
from lightloom.photonics.onn.model import DrawnDevices, Noise, OpticalNetwork
from lightloom.photonics.onn.recipe import Curriculum, TrainingRecipe

# The two-phase loss of OptINC (eq. 7).


def output_loss(outputs: Tensor, ideal: Tensor, recipe: TrainingRecipe) -> Tensor:
    """Return the loss of the first phase: weighted square errors of raw outputs (batch, M) beyond the recipe's margin.

    They are weighted by the recipe's ``output_weights`` (1 each where None), summed over the outputs and averaged over
    the batch, in levels squared; ``ideal`` (batch, M) are the ideal levels.
    """
    deviation = ((outputs - ideal).abs() - recipe.margin).clamp_min(0) if recipe.margin else outputs - ideal
    squares = deviation.square()
    if recipe.output_weights is not None:
        squares = squares * squares.new_tensor(recipe.output_weights)
    return squares.sum(1).mean()


def gradient_loss(outputs: Tensor, ideal: Tensor, recipe: TrainingRecipe) -> Tensor:
    """Return the loss of the second phase: the square error of the gradient Σ_i 4^(M−i) O_i of outputs (batch, M).

    It is averaged over the batch; ``ideal`` (batch, M) are the ideal levels. Whether outputs are raw or received levels
    (with a straight-through gradient) is the recipe's ``gradient_loss``. With raw outputs, even a linear network comes
    within half a step without a single correct digit.
    """
    if recipe.gradient_loss == "straight-through":
        outputs = outputs + (outputs.detach().round().clamp(0, 3) - outputs.detach())
    places = 4.0 ** torch.arange(outputs.shape[1] - 1, -1, -1, device=outputs.device)
    return ((outputs - ideal) @ places).square().mean()


# Checkpoints, from which interrupted trainings resume with the same result.

SAVE_EVERY = 10.0
"""Interval of checkpoints, in seconds."""


class Checkpoint:
    """``checkpoint.pt`` in a folder, while its training lasts."""

    def __init__(self, folder: Path, recipe: TrainingRecipe) -> None:
        """Count the time to the next save from now; no file is read."""
        self.path = folder / "checkpoint.pt"
        self._recipe = json.dumps(recipe.to_json())
        self.saved = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Return the state that `save` was given last, by name, None if there is no checkpoint in the folder.

        Raises:
            ConfigError: it cannot be read, or belongs to another recipe.
        """
        if not self.path.exists():
            return None
        try:
            content = torch.load(self.path, weights_only=True)
            recipe, state = content["recipe"], content["state"]
        except Exception as error:
            raise ConfigError(f"cannot resume from {str(self.path)!r}: not a checkpoint of a training") from error
        if recipe != self._recipe:
            raise ConfigError(f"{str(self.path)!r} is of another recipe: finish that training, or give another folder")
        return dict(state)

    def save(self, state: dict[str, Any]) -> None:
        """Write the state of the training and its recipe to ``checkpoint.pt`` in the folder atomically, and keep the
        time (`time.monotonic`) as ``saved``.

        Raises:
            ConfigError: the folder cannot be written to.
        """
        buffer = io.BytesIO()
        torch.save({"recipe": self._recipe, "state": state}, buffer)
        write_atomically(self.path, buffer.getvalue())
        self.saved = time.monotonic()


WARM_UP_STEPS = 200
LARGEST_GRADIENT = 1.0
"""Norm to which gradients are clipped."""
EVALUATE_EVERY = 10
"""Epochs between entries of the history."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trained:
    """Result of a training."""

    network: LayeredNetwork
    """Network from light A_k to levels 0..3, with measured full scales; approximated matrices are Σ·U to rounding."""
    recipe: TrainingRecipe
    verification: Verification
    """Verification of the network in float64, over the whole grid if it has at most 20 million points."""
    history: tuple[dict[str, float], ...]
    """Entries of every `EVALUATE_EVERY` epochs: epoch, loss, accuracy (float32, on the grid), noise, cpu_seconds."""
    seconds: float
    cpu_seconds: float

    @property
    def accuracy(self) -> float:
        """Share of inputs, from 0 to 1, with all outputs correct, in float64 over the points that were verified."""
        return self.verification.accuracy

    @property
    def function_arguments(self) -> FunctionArguments:
        """Arguments of the function, for `averaging.networks.save_network`.

        Raises:
            ConfigError: the network is level 2 of a cascade.
        """
        r = self.recipe
        if r.groups is not None:
            raise ConfigError(f"groups = {r.groups}: level 2 of a cascade is stored with its level 1")
        return FunctionArguments(**{field.name: getattr(r, field.name) for field in fields(FunctionArguments)})

    def to_json(self) -> Document:
        """Return the document of `lightloom onn train --json`: ``recipe``, the verification (``accuracy`` as a share
        from 0 to 1, ``wrong_outputs``, ``checked_inputs``, ``exhaustive``, ``largest_deviation`` in levels, number of
        outputs by error under ``errors``), ``mzi_count``, ``largest_gain_db``, ``epochs``, ``seconds``, ``cpu_seconds``
        and ``history``."""
        v = self.verification
        return {
            "recipe": self.recipe.to_json(),
            "accuracy": v.accuracy,
            **v.counts,
            "largest_deviation": v.largest_deviation,
            "errors": {str(value): count for value, count in v.errors.items()},
            "mzi_count": self.recipe.mzi_count,
            "largest_gain_db": largest_gain_db(self.network),
            "epochs": int(self.history[-1]["epoch"]),
            **attributes(self, "seconds cpu_seconds"),
            "history": list(self.history),
        }


def train(
    recipe: TrainingRecipe, folder: Path | None = None, advance: Advance = ignore, *, keeps_checkpoint: bool = False
) -> Trained:
    """Train a network by a recipe, and return it with its verification and history.

    The result is bitwise repeatable on one machine and version of torch, unless CPU seconds are the budget.

    Args:
        recipe: everything that the result depends on.
        folder: where a checkpoint is stored during the training, between epochs and at most every 10 s; an interrupted
            training resumes from it, with the same result. None stores none.
        advance: called with the work done since the last call, in epochs, or in CPU seconds if these are the budget;
            first with that of the checkpoint.
        keeps_checkpoint: whether the checkpoint stays when the training has ended, with its last state; the same call
            then returns the same result at once.

    Raises:
        ConfigError: the device does not exist, the grid has more than 20 million points, the folder cannot be written
            to, or its checkpoint cannot be read or belongs to another recipe.
        UnsupportedError: the recipe asks for a constructed start, and no construction fits into its layers.
    """
    with _fixed_arithmetic(recipe.threads):
        run = _TrainingState(recipe)
        checkpoint = None if folder is None else Checkpoint(folder, recipe)
        if checkpoint is not None and (saved := checkpoint.load()) is not None:
            run.load_state_dict(saved)
        advance(run.done)
        while run.progress < 1:
            before = run.done
            run.epoch_of_steps()
            advance(run.done - before)
            if checkpoint is not None and time.monotonic() - checkpoint.saved >= SAVE_EVERY:
                checkpoint.save(run.state_dict())
        network = run.network.export()
    verification = verify(network, recipe.function)
    if checkpoint is not None and keeps_checkpoint:
        checkpoint.save(run.state_dict())
    elif checkpoint is not None:
        checkpoint.path.unlink(missing_ok=True)
    taken = attributes(run, "seconds cpu_seconds")
    return Trained(network=network, recipe=recipe, verification=verification, history=tuple(run.history), **taken)


@contextmanager
def _fixed_arithmetic(threads: int) -> Iterator[None]:
    """Set torch's number of threads and turn on deterministic operations within a ``with`` block, and restore both
    after it.

    Operations that have no deterministic form warn.
    """
    before, deterministic = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_num_threads(threads)
    # As `use_deterministic_algorithms(True, warn_only=True)`, which imports PyTorch's compiler: two seconds.
    torch.set_deterministic_debug_mode("warn")
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_deterministic_debug_mode(deterministic)


class _TrainingState:
    """State of a training between epochs."""

    def __init__(self, recipe: TrainingRecipe) -> None:
        """Make the network and its data on the recipe's device from its seed.

        Raises:
            ConfigError: the device does not exist.
        """
        self.recipe = recipe
        try:
            self.device = torch.device(recipe.device)
            torch.empty(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"device = {recipe.device!r}: {str(error).splitlines()[0]}") from error
        self.network = OpticalNetwork(recipe, torch.Generator().manual_seed(recipe.seed)).to(self.device)
        self.generator = torch.Generator(self.device).manual_seed(recipe.seed)
        self.steps = output_steps(recipe).to(self.device)
        self.light, self.ideal = (tensor.to(self.device) for tensor in whole_grid(recipe))
        parameters = list(self.network.parameters())
        self.optimiser = torch.optim.Adam(parameters, recipe.learning_rate, betas=(0.9, 0.99), fused=True)
        self.curriculum = Curriculum(recipe.noise)
        self.devices = None if recipe.devices is None else DrawnDevices(recipe)
        self.epoch = self.step = 0
        self.seconds = self.cpu_seconds = 0.0
        self.history: list[dict[str, float]] = []

    @property
    def progress(self) -> float:
        """Share of the training that is done, from 0 to 1: of the CPU seconds if they are the budget, else of the
        epochs."""
        if self.recipe.cpu_seconds is not None:
            return min(1.0, self.cpu_seconds / self.recipe.cpu_seconds)
        return self.epoch / self.recipe.epochs

    @property
    def done(self) -> int:
        """Work done so far, in epochs, or in whole CPU seconds if these are the budget."""
        return round(self.progress * self.recipe.work)

    def epoch_of_steps(self) -> None:
        """Train on the whole grid once, in random order, project the matrices if that is due, and count the time.

        Every tenth epoch and the last one add an entry to the history.
        """
        began, cpu_began, recipe = time.perf_counter(), time.process_time(), self.recipe
        # CPU time decides between epochs only; within one, a schedule in steps changes too little to matter.
        share = 0.0 if recipe.cpu_seconds is not None else 1 / recipe.epochs
        noise = None
        if recipe.noise:
            noise = Noise(self.curriculum.sigma, self.network.full_scales(self.light), self.generator)
        order = torch.randperm(len(self.light), generator=self.generator, device=self.device)
        batches = torch.split(order, recipe.batch)
        losses = [self._one_step(b, noise, self.progress + share * i / len(batches)) for i, b in enumerate(batches)]
        self.epoch += 1
        self.cpu_seconds += time.process_time() - cpu_began
        last = self.progress >= 1
        if recipe.form == "periodic" and (self.epoch % recipe.project_every == 0 or last):
            self.network.project_()
        if self.epoch % EVALUATE_EVERY == 0 or last:
            self._evaluate(float(torch.stack(losses).mean()))
        self.seconds += time.perf_counter() - began

    def _one_step(self, batch: Tensor, noise: Noise | None, progress: float) -> Tensor:
        """Take one optimiser step on a batch, given as indices of grid points, and return its loss, detached.

        The loss is `output_loss`, or `gradient_loss` in the recipe's last ``gradient_epochs``; gradients are clipped to
        a norm of 1. ``progress`` [0, 1] is the share of the training that is done: it sets the learning rate, half a
        cosine from the recipe's down to 0 (after 200 steps of linear warm-up), and whether devices err, which they do
        from the recipe's ``aware_from`` on. ``noise`` is the noise on signals, None for none; its sigma is set anew by
        the curriculum, for the next step.
        """
        recipe = self.recipe
        rate = recipe.learning_rate * min(1, (self.step + 1) / WARM_UP_STEPS) * (1 + math.cos(math.pi * progress)) / 2
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        ideal = self.ideal[batch]
        fabricate = partial(self.devices, step=self.step) if self.devices and progress >= recipe.aware_from else None
        outputs = self.network(self.light[batch], noise, fabricate)
        second_phase = recipe.gradient_epochs > 0 and self.epoch >= recipe.epochs - recipe.gradient_epochs
        loss = (gradient_loss if second_phase else output_loss)(outputs, ideal, recipe)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), LARGEST_GRADIENT)
        self.optimiser.step()
        self.step += 1
        if noise is not None:
            self.curriculum.observe(float(_right(outputs, ideal, self.steps)))
            noise.sigma = self.curriculum.sigma
        return loss.detach()

    @torch.no_grad()
    def _evaluate(self, loss: float) -> None:
        """Append an entry to the history: ``epoch``, ``loss``, ``accuracy`` on the whole grid without noise (0 to 1),
        ``noise`` (sigma of the training, relative to full scale) and ``cpu_seconds``."""
        pairs = zip(torch.split(self.light, 1 << 14), torch.split(self.ideal, 1 << 14), strict=True)
        accuracy = sum(float(_right(self.network(x), y, self.steps)) * len(x) for x, y in pairs) / len(self.light)
        noise = self.curriculum.sigma if self.recipe.noise else 0.0
        entry = {"epoch": self.epoch, "loss": loss, "accuracy": accuracy, "noise": noise}
        self.history.append(entry | {"cpu_seconds": self.cpu_seconds})

    def state_dict(self) -> dict[str, Any]:
        """Return the state that the remaining training depends on: ``network``, ``optimiser``, ``generator``,
        ``curriculum`` [sigma, right], ``counters`` [epoch, step, seconds, cpu_seconds] and ``history``."""
        return {
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "curriculum": [self.curriculum.sigma, self.curriculum.right],
            "counters": [self.epoch, self.step, self.seconds, self.cpu_seconds],
            "history": self.history,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned, in place."""
        self.network.load_state_dict(saved["network"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.generator.set_state(saved["generator"])
        self.curriculum.sigma, self.curriculum.right = saved["curriculum"]
        self.epoch, self.step, self.seconds, self.cpu_seconds = saved["counters"]
        self.history = saved["history"]


def whole_grid(recipe: TrainingRecipe) -> tuple[Tensor, Tensor]:
    """Return the light (points, K) and the ideal levels (points, M) of every point of the recipe's grid, in float32.

    Light is the amplitude a_k / denominator_k of each input, from 0 to 3 for a single digit and to 4^g - 1 for a group
    of g. Levels are 0 to 3, the base-4 digits of the average, most significant first; the last has the fraction of the
    mean added if the recipe carries decimals.

    Raises:
        ConfigError: the grid has more than 20 million points.
    """
    function = recipe.function
    if function.points > EXHAUSTIVE_POINTS:
        raise ConfigError(f"{function.points:,} grid points: a network is trained on at most {EXHAUSTIVE_POINTS:,}")
    light, ideal = [], []
    for points in function.grid():
        light.append(function.light(points).T.astype(np.float32))
        ideal.append(function.ideal(points).T.astype(np.float32))
    return torch.from_numpy(np.concatenate(light)), torch.from_numpy(np.concatenate(ideal))


def output_steps(recipe: TrainingRecipe) -> Tensor:
    """Return the number of steps that a receiver tells apart in one level of every output, (M,).

    It is 1, but in the last output the function's divisor if it carries decimals.
    """
    steps = torch.ones(recipe.layers[-1])
    if recipe.carries_decimals:
        steps[-1] = recipe.function.divisor
    return steps


def _right(outputs: Tensor, ideal: Tensor, steps: Tensor) -> Tensor:
    """Return the share of rows, from 0 to 1, in which every output is received correctly, without a gradient.

    ``outputs`` and ``ideal`` are levels (batch, M); outputs are rounded to 1/``steps`` of a level, ``steps`` being
    (M,), and limited to 0 to below 4 levels.
    """
    received = (outputs.detach() * steps).round().clamp_min(0).minimum(4 * steps - 1)
    return (received == (ideal * steps).round()).all(1).float().mean()


# Training of both levels of a cascade (OptINC, section III-C), each on the exact grid of its own function.
#
# The levels are trained apart, as the paper trains them. No receiver decides between them: the analogue deviation of
# level 1 enters level 2, so that no wrong output in either does not mean none from end to end. `cascade.end_to_end`
# counts them.


def train_cascade(
    recipes: Sequence[TrainingRecipe], folder: Path | None = None, advance: Advance = ignore
) -> tuple[Cascade, tuple[Trained, Trained]]:
    """Return the cascade of two levels trained by the recipes of `TrainingRecipe.cascade`, and both trainings.

    The levels are trained one after the other, each by itself.

    Args:
        recipes: of level 1 and of level 2.
        folder: where checkpoints are stored until both have ended, in ``level-1`` and ``level-2``, and from which an
            interrupted training resumes; None stores none.
        advance: called with the work done since the last call, in epochs, or in CPU seconds if these are the budget.

    Raises:
        ConfigError: the recipes are not those of two levels of one cascade, or a checkpoint belongs to another recipe.
        UnsupportedError: level 1 is to start from a construction, and none fits into its layers.
    """
    first, second = recipes
    equal_functions = (first.servers, first.bits) == (second.servers, second.bits)
    if not first.carries_decimals or second.groups is None or not equal_functions:
        raise ConfigError("recipes: expected level 1, which carries decimals, and level 2 of the same cascade")
    folders = [None if folder is None else folder / f"level-{level}" for level in (1, 2)]
    # Level 1 stays in its folder until level 2 has ended, so that an interruption loses neither.
    places = list(zip(recipes, folders, strict=True))
    trained = tuple(train(recipe, place, advance, keeps_checkpoint=True) for recipe, place in places)
    for recipe, place in places:
        if place is not None:
            Checkpoint(place, recipe).path.unlink(missing_ok=True)
    one, two = (PlainLevel("trained", each.recipe.function, each.network) for each in trained)
    return Cascade(first.bits, second.groups, first.servers, one, two), (trained[0], trained[1])
