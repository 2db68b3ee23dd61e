"""ResNet-50 on CIFAR-100 from scratch, N servers' gradients averaged by light (OptINC, section IV, Fig. 7(a)).

Augmentation and order of the data follow from seed, epoch and step, so that runs with equal seeds can be compared in
pairs.
"""

import json
import math
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.core.results import Advance, ignore
from lightloom.exchange.datasets import CLASSES, SIDE, Images
from lightloom.models.torch.zoo.resnet import ResNet
from lightloom.papers.runs.digits import load_checkpoint, save_checkpoint
from lightloom.papers.runs.emulated import EmulatedServers
from lightloom.photonics.averaging.averagers import Averager

# Checkpoints of runs of one process: network, optimiser, record, and the generator of the averager's errors.


class RunCheckpoint:
    """One checkpoint in a folder, replaced atomically; without a folder nothing is saved."""

    def __init__(
        self, folder: Path | None, net: nn.Module, optimizer: torch.optim.Optimizer, averager: Averager | None
    ) -> None:
        """Keep what a checkpoint saves; of the averager only its generator, if it has one."""
        self.folder, self.net, self.optimizer = folder, net, optimizer
        self.rng = getattr(averager, "rng", None)

    def save(self, done: int, record: dict[str, Any]) -> None:
        """Save network, optimizer, record and the averager's generator after ``done`` steps or epochs in
        ``checkpoint.pt`` in the folder, and note ``done`` in a file ``progress.json``; nothing without a folder, which
        is made."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        state = None if self.rng is None else json.dumps(self.rng.bit_generator.state)
        path, more = self.folder / "checkpoint.pt", {"done": done, "rng": state}
        save_checkpoint(path, self.net, self.optimizer, record, more)
        write_atomically(self.folder / "progress.json", json.dumps({"done": done}))

    def load(self) -> tuple[int, dict[str, Any]]:
        """Restore network, optimizer and the averager's generator in place from ``checkpoint.pt`` in the folder; return
        the number of finished steps or epochs and the record, or 0 and an empty one without a checkpoint."""
        if self.folder is None or not (self.folder / "checkpoint.pt").exists():
            return 0, {}
        content = load_checkpoint(self.folder / "checkpoint.pt", self.net, self.optimizer)
        if self.rng is not None:
            self.rng.bit_generator.state = json.loads(content["rng"])
        return int(content["done"]), content["record"]


_MEAN, _DEVIATION = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
"""Mean and deviation of CIFAR-100's training images by channel, for pixels from 0 to 1."""
_MARGIN = 4
Batch = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecipe:
    """Settings of a run. The paper states model, data set and 300 epochs; the rest is customary."""

    seed: int
    servers: int = 4
    images_per_server: int = 32
    epochs: int = 300
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    block: int = 256
    device: str = "cpu"


@dataclass(slots=True)
class ImageRecord:
    """Results of a run; lists have one entry an epoch."""

    training_loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    """Share of the test images that are classified correctly."""


def resnet50_for_cifar(*, keep_stem: bool = False) -> ResNet:
    """Return the zoo's ResNet-50 with new weights for 32 x 32 pixels and 100 classes.

    Args:
        keep_stem: keep the stem for large images, which halves the resolution twice; False puts one 3 x 3 convolution
            that keeps it in its place, as is customary for CIFAR and takes 15 times the arithmetic.
    """
    net = ResNet()
    if not keep_stem:
        net.stem = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
    net.fc = nn.Linear(net.fc.in_features, CLASSES)
    net.image_size = SIDE
    return net


def train(
    training: Images,
    test: Images,
    recipe: ImageRecipe,
    averager: Averager | None = None,
    net: nn.Module | None = None,
    folder: Path | None = None,
    advance: Advance = ignore,
) -> dict[str, Any]:
    """Train ResNet-50 from scratch by SGD with augmented images and a learning rate that falls to 0 by half a cosine,
    or resume from the checkpoint in ``folder``, and return the record.

    Args:
        training: images to learn from.
        test: images to judge by.
        recipe: settings of the run.
        averager: of the servers' codes; None averages in float32.
        net: another network than ``resnet50_for_cifar``; trained in place.
        folder: for a checkpoint after each epoch, from which an interrupted run continues; None saves none.
        advance: called with the number of epochs done before, and with 1 after each epoch.

    Returns:
        The fields of the record, ``training_loss`` (mean over the epoch, in nats) and ``accuracy`` (on ``test``, 0 to
        1), lists of one entry an epoch, and those of the recipe under ``recipe``.

    Raises:
        ConfigError: there are fewer training images than one step takes, or no test images, or the averager is for
            another number of servers.
    """
    size = recipe.servers * recipe.images_per_server
    steps = len(training.labels) // size
    if not steps or not len(test.labels):
        raise ConfigError(f"{len(training.labels)} training and {len(test.labels)} test images: a step takes {size}")
    torch.manual_seed(recipe.seed)
    net = (net if net is not None else resnet50_for_cifar()).to(recipe.device)
    optimizer = torch.optim.SGD(
        net.parameters(), recipe.learning_rate, recipe.momentum, weight_decay=recipe.weight_decay
    )
    servers = EmulatedServers(net, recipe.servers, averager, recipe.block)
    checkpoint = RunCheckpoint(folder, net, optimizer, averager)
    done, saved = checkpoint.load()
    record = ImageRecord(**saved)
    advance(done)
    for epoch in range(done, recipe.epochs):
        net.train()
        chance = np.random.default_rng((recipe.seed, epoch))
        order = chance.permutation(len(training.labels))
        losses: list[float] = []
        for step in range(steps):
            for group in optimizer.param_groups:
                progress = (epoch + step / steps) / recipe.epochs
                group["lr"] = recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
            chosen = order[step * size : (step + 1) * size].reshape(recipe.servers, -1)
            batches = [(augmented(training.pixels[rows], chance), training.labels[rows]) for rows in chosen]
            losses += servers.step(partial(_loss_of, net, batches, recipe.device))
            optimizer.step()
        record.training_loss.append(float(np.mean(losses)))
        record.accuracy.append(accuracy(net, test, recipe.device))
        checkpoint.save(epoch + 1, asdict(record))
        advance(1)
    return {"recipe": asdict(recipe), **asdict(record)}


def augmented(pixels: NDArray[np.uint8], chance: np.random.Generator) -> NDArray[np.uint8]:
    """Return each image, uint8 (n, 3, 32, 32), moved by up to four pixels on each axis, black moving in, and mirrored
    left to right with probability a half; ``chance`` draws both."""
    padded = np.pad(pixels, ((0, 0), (0, 0), (_MARGIN, _MARGIN), (_MARGIN, _MARGIN)))
    moved = np.lib.stride_tricks.sliding_window_view(padded, (SIDE, SIDE), (2, 3))
    rows, columns = chance.integers(0, 2 * _MARGIN + 1, (2, len(pixels)))
    chosen = moved[np.arange(len(pixels)), :, rows, columns]
    return np.where((chance.random(len(pixels)) < 0.5)[:, None, None, None], chosen[..., ::-1], chosen)


def accuracy(net: nn.Module, images: Images, device: str = "cpu", at_once: int = 500) -> float:
    """Return the share of images, 0 to 1, that the network on ``device`` classifies correctly, ``at_once`` images at a
    time; it leaves the network in evaluation mode."""
    net.eval()
    right = 0
    with torch.no_grad():
        for start in range(0, len(images.labels), at_once):
            classes = net(_light(images.pixels[start : start + at_once], device)).argmax(1).cpu().numpy()
            right += int((classes == images.labels[start : start + at_once]).sum())
    return right / len(images.labels)


def _loss_of(net: nn.Module, batches: list[Batch], device: str, server: int) -> Tensor:
    """Return the mean cross-entropy of one server's batch, with products in bfloat16 on ``device`` (``cpu`` or
    ``cuda``); ``batches`` holds pixels (0 to 255) and labels of every server, ``server`` counts from 0."""
    pixels, labels = batches[server]
    with torch.autocast(device, torch.bfloat16):
        logits = net(_light(pixels, device))
    return nn.functional.cross_entropy(logits.float(), torch.from_numpy(labels.astype(np.int64)).to(device))


def _light(pixels: NDArray[np.uint8], device: str) -> Tensor:
    """Return pixels (n, 3, height, width), 0 to 255, as float32 on the device, scaled to 0 … 1, each channel less
    CIFAR-100's mean and over its deviation."""
    values = torch.from_numpy(np.ascontiguousarray(pixels)).to(device, torch.float32) / 255
    mean, deviation = (torch.tensor(channel, device=device)[:, None, None] for channel in (_MEAN, _DEVIATION))
    return (values - mean) / deviation
