"""Training runs of ``digits`` with all ranks in one process, for machines with fewer cores than ranks.

Equal recipes see equal batches and start from equal weights as there; the ring is ``emulated_ring``'s.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lightloom.compression import find
from lightloom.core.arrays import Float32s
from lightloom.core.errors import ConfigError
from lightloom.training.runs.digits import BOUNDS, Recipe, Record, round_weights, tag_shares
from lightloom.training.runs.emulated_ring import emulated_ring_sum
from lightloom.training.runs.image_sets import ImageSets, network, rank_part, tensors


def train(recipe: Recipe, sets: ImageSets, ranks: int) -> dict[str, Any]:
    """Train, and return the record with the recipe; ``seconds`` are of the processor.

    Raises:
        ConfigError: the recipe averages by light, or a rank has fewer images than a batch takes.
    """
    if recipe.gradients.startswith("optical"):
        raise ConfigError(f"gradients = {recipe.gradients}: expected a codec or none where all ranks are one process")
    count = ranks * recipe.batch_per_rank
    if len(sets.training.labels) < count:
        raise ConfigError(f"{len(sets.training.labels)} images: {ranks} ranks take {count} a step")
    return {"recipe": asdict(recipe), **asdict(_Run(recipe, sets, ranks).run())}


class _Run:
    def __init__(self, recipe: Recipe, sets: ImageSets, ranks: int) -> None:
        self.recipe, self.ranks, self.test = recipe, ranks, sets.test
        self.parts = [rank_part(sets.training, rank, ranks) for rank in range(ranks)]
        torch.manual_seed(recipe.seed)
        self.net = network(recipe.network)
        self.parameters = list(self.net.parameters())
        self.optimizer = recipe.optimizer(self.parameters)
        self.codec = None if recipe.gradients == "none" else find(recipe.gradients)
        self.weights = None if recipe.weights == "none" else find(recipe.weights)
        values = sum(parameter.numel() for parameter in self.parameters)
        self.residuals = np.zeros((ranks, values), np.float32)
        self.record = Record()

    def run(self) -> Record:
        recipe, record = self.recipe, self.record
        began, losses = time.process_time(), list[float]()
        for iteration in range(1, recipe.iterations + 1):
            recipe.set_rate(self.optimizer, iteration)
            losses.append(self._step(iteration))
            if iteration % recipe.record_every == 0 or iteration == recipe.iterations:
                record.iterations.append(iteration)
                record.accuracy.append(self._accuracy())
                record.loss.append(float(np.mean(losses)))
                losses.clear()
        record.seconds = time.process_time() - began
        return record

    def _step(self, iteration: int) -> float:
        """Take one step and return the loss of rank 0."""
        computed = [self._gradient(iteration, rank) for rank in range(self.ranks)]
        gradients = np.stack([gradient for gradient, _ in computed])
        if iteration % self.recipe.record_every == 0:
            self.record.tags.append([tag_shares(gradients[0], k) for k in BOUNDS])
        ends = np.cumsum([parameter.numel() for parameter in self.parameters])
        for parameter, piece in zip(self.parameters, np.split(self._mean(gradients), ends[:-1]), strict=True):
            parameter.grad = torch.from_numpy(piece).view_as(parameter)
        self.optimizer.step()
        if self.weights is not None:
            round_weights(self.parameters, self.weights)
        return computed[0][1]

    def _gradient(self, iteration: int, rank: int) -> tuple[Float32s, float]:
        images, labels = self._batch(iteration, rank)
        loss = self.recipe.gradient_scale * nn.functional.cross_entropy(self.net(images), labels)
        pieces = torch.autograd.grad(loss, self.parameters)
        flat: Float32s = torch.cat([piece.flatten() for piece in pieces]).numpy()
        return flat, float(loss.detach()) / self.recipe.gradient_scale

    def _mean(self, gradients: Float32s) -> Float32s:
        """Return the mean of the rows as the ring gives it, and count the bytes of one rank."""
        if self.codec is None:
            mean: Float32s = gradients.mean(axis=0)
            return mean
        feedback = self.recipe.error_feedback
        values = self.residuals
        values[:] = gradients if not feedback else gradients + values
        total, sent = emulated_ring_sum(values, self.codec, leave=feedback)
        self.record.nbytes_sent += sent // self.ranks
        self.record.nbytes_raw += 2 * (self.ranks - 1) * total.nbytes // self.ranks
        self.record.ratio = [self.record.nbytes_raw / self.record.nbytes_sent]
        return total / np.float32(self.ranks)

    def _batch(self, iteration: int, rank: int) -> tuple[Tensor, Tensor]:
        part, size = self.parts[rank], self.recipe.batch_per_rank
        epoch, batch = divmod(iteration - 1, len(part.labels) // size)
        order = np.random.default_rng((self.recipe.seed, epoch, rank)).permutation(len(part.labels))
        return tensors(part, order[batch * size : (batch + 1) * size])

    def _accuracy(self) -> float:
        right = 0
        with torch.no_grad():
            for batch in np.array_split(np.arange(len(self.test.labels)), 5):
                images, labels = tensors(self.test, batch)
                right += int((self.net(images).argmax(1) == labels).sum())
        return right / len(self.test.labels)
