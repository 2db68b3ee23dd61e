"""The baseline: workers send gradients to an aggregator, which updates the weights and sends them back.

    worker 0 ─ gradient ─▶              ◀─ weights ─ worker 0
    worker 1 ─ gradient ─▶  aggregator  ◀─ weights ─ worker 1
    worker 2 ─ gradient ─▶              ◀─ weights ─ worker 2

Source: INCEPTIONN, Figs. 1a and 2 and section VII ("WA"; "WA+C" with gradients compressed). Only gradients have the
narrow range and the tolerance that the codec needs: weights are never compressed. Aggregators may stand in a tree,
each passing the sum of its children's gradients on; it is encoded anew at every stage.

Whatever sends or receives raises ``TransportError`` (see ``ChannelGroup.transfer``), also where another number of
values comes than this rank expects.

    the root                                     aggregators below it         a worker
    trainer = RootTrainer(node, model, sgd)      relay(node, size, steps)     trainer = WorkerTrainer(node, model)
    steps times: trainer.step()                                               steps times: backward, trainer.step()
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from lightloom.core.arrays import Float32s
from lightloom.core.errors import UnsupportedError
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.transport.channel import (
    Payload,
    Traffic,
    decode,
    encode_with_residual,
    payload_limit,
)
from lightloom.exchange.transport.tree import Node


@dataclass(frozen=True, slots=True)
class Served:
    """Durations of the parts of one step at the root, in seconds."""

    waiting: float
    """Waiting for the gradients."""
    summing: float
    """Decoding and adding the gradients."""
    updating: float
    """The optimizer's step."""
    sending: float
    """Sending the weights."""


class WorkerTrainer:
    """A worker's side of the training of one model."""

    def __init__(
        self, node: Node, model: nn.Module, codec: Codec | None = None, *, error_feedback: bool = False
    ) -> None:
        """Begin with the weights of the root's model.

        Args:
            codec: of the gradients; the same on all ranks.
            error_feedback: keep what the codec takes away and add it to the next gradient (not in the paper).

        Raises:
            UnsupportedError: a parameter is not float32 in CPU memory.
        """
        self.node, self.codec = node, codec
        self._parameters = trainable(model)
        size = sum(p.numel() for p in self._parameters)
        self.residual = np.zeros(size, np.float32) if error_feedback else None
        self._pull()

    def step(self) -> Traffic:
        """Send the gradients that the backward pass left, replace the weights by those that come back."""
        gradient = flat_gradients(self._parameters)
        if self.residual is not None:
            gradient += self.residual
        traffic = push(self.node, gradient, self.codec, self.residual)
        self._pull()
        return traffic

    def _pull(self) -> None:
        weights = pull(self.node, sum(p.numel() for p in self._parameters))
        with torch.no_grad():
            for parameter, part in zip(self._parameters, _cut(weights, self._parameters), strict=True):
                parameter.copy_(part)


class RootTrainer:
    """The root's side: it alone holds the optimizer."""

    def __init__(
        self, node: Node, model: nn.Module, optimizer: torch.optim.Optimizer, codec: Codec | None = None
    ) -> None:
        """Send the weights with which all begin.

        Args:
            optimizer: any of torch's, on the parameters of ``model``; its gradients are averages over the workers.
            codec: of the gradients; the same on all ranks.

        Raises:
            UnsupportedError: a parameter is not float32 in CPU memory.
        """
        self.node, self.optimizer, self.codec = node, optimizer, codec
        self._parameters = trainable(model)
        send_weights(node, flat(self._parameters))

    def step(self) -> Served:
        """Average what the workers send, update, send the weights."""
        node, size = self.node, sum(p.numel() for p in self._parameters)
        with node.breaking_off():
            began = time.perf_counter()
            payloads = node.from_below(payload_limit(size), marked=self.codec is not None)
            arrived = time.perf_counter()
            gradient = add_up(node, payloads, size, self.codec)
            gradient /= node.workers
            summed = time.perf_counter()
            set_gradients(self._parameters, gradient)
            self.optimizer.step()
            weights = flat(self._parameters)
            updated = time.perf_counter()
            send_weights(node, weights)
            return Served(arrived - began, summed - arrived, updated - summed, time.perf_counter() - updated)


def relay(node: Node, size: int, steps: int, codec: Codec | None = None, *, error_feedback: bool = False) -> Traffic:
    """An aggregator that is not the root: pass on the first weights, then ``steps`` times sums up and weights down.

    Args:
        size: how many values the model has.
        error_feedback: keep what encoding the sum takes away and add it to the next one.
    """
    traffic = Traffic(0, 0)
    residual = np.zeros(size, np.float32) if error_feedback else None
    with node.breaking_off():
        pull(node, size)
        for _ in range(steps):
            gradient = add_up(node, node.from_below(payload_limit(size), marked=codec is not None), size, codec)
            if residual is not None:
                gradient += residual
            traffic += push(node, gradient, codec, residual)
            pull(node, size)
    return traffic


def push(node: Node, gradient: Float32s, codec: Codec | None = None, residual: Float32s | None = None) -> Traffic:
    """Send gradients to the parent; ``residual`` is overwritten with what the codec takes away."""
    with node.breaking_off():
        payload = encode_with_residual(codec, gradient, residual)
        node.up(payload, marked=codec is not None)
        return Traffic(gradient.nbytes, memoryview(payload).nbytes)


def add_up(node: Node, payloads: Iterable[Payload], size: int, codec: Codec | None = None) -> Float32s:
    """The sum of what the children sent, in order of their ranks."""
    total = np.zeros(size, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for child, payload in zip(node.children, payloads, strict=True):
            total += decode(codec, payload, size, rank=node.name, peer=child.peer)
    return total


def send_weights(node: Node, weights: Float32s) -> None:
    """Send weights to all children."""
    node.down(weights.view(np.uint8).data, marked=False)


def pull(node: Node, size: int) -> Float32s:
    """Receive ``size`` weights from the parent and pass them on to the children."""
    with node.breaking_off():
        payload = node.from_above(payload_limit(size), marked=False)
        node.down(payload, marked=False)
        peer = -1 if node.parent is None else node.parent.peer
        return decode(None, payload, size, rank=node.name, peer=peer)


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Parameters that are exchanged, in the order of the model.

    Raises:
        UnsupportedError: a parameter is not float32 in CPU memory.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    for parameter in parameters:
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            raise UnsupportedError(f"a parameter is {parameter.dtype} on {parameter.device}: expected float32 on cpu")
    return parameters


def flat(tensors: Iterable[Tensor]) -> Float32s:
    """Copy tensors into one flat array."""
    with torch.no_grad():
        joined: Float32s = torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).numpy()
        return joined


def flat_gradients(parameters: list[nn.Parameter]) -> Float32s:
    """Copy gradients into one flat array; zeros where a parameter has none."""
    return flat(p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters)


def set_gradients(parameters: list[nn.Parameter], values: Float32s) -> None:
    """Make gradients views of ``values``, the inverse of ``flat_gradients``."""
    for parameter, part in zip(parameters, _cut(values, parameters), strict=True):
        parameter.grad = part


def _cut(values: Float32s, like: list[nn.Parameter]) -> list[Tensor]:
    parts = torch.split(torch.from_numpy(values), [p.numel() for p in like])
    return [part.view_as(p) for part, p in zip(parts, like, strict=True)]
