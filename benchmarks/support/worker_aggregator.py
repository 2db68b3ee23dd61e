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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.support.socket_ring import Traffic
from lightloom.core.arrays import Float32s
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.transport.channel import (
    Channel,
    Payload,
    decode_block,
    encode_block,
    payload_limit,
)
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT, ChannelGroup
from lightloom.exchange.transport.meeting import Pair, Store, connect

_WHAT = "tree"


@dataclass(frozen=True, slots=True)
class Tree:
    """The parent of each rank, None for the root. Ranks without children are workers.

    Raises:
        ConfigError: there is not exactly one root, or a rank does not reach it.
    """

    parents: tuple[int | None, ...]

    def __post_init__(self) -> None:
        size = len(self.parents)
        if self.parents.count(None) != 1 or size < 2:
            raise ConfigError(f"parents {self.parents}: expected at least 2 ranks, one of which has none")
        for rank in range(size):
            above: int | None = rank
            for _ in range(size):
                above = None if above is None else self.parents[above] if 0 <= above < size else above
            if above is not None:
                raise ConfigError(f"parents {self.parents}: rank {rank} does not reach the root")

    @classmethod
    def star(cls, workers: int) -> Tree:
        """Workers 0 … p − 1 and one aggregator, rank p: the five-node cluster of section VII for p = 4."""
        return cls((workers,) * workers + (None,))

    @classmethod
    def of_groups(cls, sizes: Sequence[int]) -> Tree:
        """Workers group by group, then one aggregator for each group, then the root."""
        workers = sum(sizes)
        leaves = [workers + group for group, size in enumerate(sizes) for _ in range(size)]
        return cls((*leaves, *(workers + len(sizes),) * len(sizes), None))

    @property
    def root(self) -> int:
        """The rank that updates the weights."""
        return self.parents.index(None)

    @property
    def workers(self) -> tuple[int, ...]:
        """Ranks without children."""
        return tuple(rank for rank in range(len(self.parents)) if rank not in self.parents)

    def children(self, rank: int) -> tuple[int, ...]:
        """Children of ``rank``, in the order in which it adds their sums."""
        return tuple(child for child, parent in enumerate(self.parents) if parent == rank)


class Node(ChannelGroup):
    """One rank of a tree. Each method sends or receives one message on all channels to its parent or children.

    A child that is behind or ahead of its siblings by a message does no harm.
    """

    def __init__(
        self,
        rank: int,
        parent: tuple[int, Pair] | None,
        children: Mapping[int, Pair],
        *,
        workers: int,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Takes over the sockets, each pair as (data, control).

        Args:
            workers: in the whole tree.
            timeout: seconds without progress.
        """
        self.workers = workers
        self.parent = Channel(rank, parent[0], *parent[1], what=_WHAT) if parent is not None else None
        self.children = tuple(Channel(rank, child, *pair, what=_WHAT) for child, pair in sorted(children.items()))
        above = () if self.parent is None else (self.parent,)
        super().__init__(rank, (*self.children, *above), timeout=timeout, what=_WHAT)

    def up(self, payload: Payload, *, marked: bool) -> None:
        """Send to the parent."""
        self.transfer(dict.fromkeys(self._above(), payload), {}, marked=marked)

    def from_below(self, limit: int, *, marked: bool) -> list[Payload]:
        """Receive the messages of the children, each of at most ``limit`` bytes, in order of rank."""
        came = self.transfer({}, dict.fromkeys(self.children, limit), marked=marked)
        return [came[child] for child in self.children]

    def down(self, payload: Payload, *, marked: bool) -> None:
        """Send the same message to all children."""
        self.transfer(dict.fromkeys(self.children, payload), {}, marked=marked)

    def from_above(self, limit: int, *, marked: bool) -> Payload:
        """Receive the message of the parent, of at most ``limit`` bytes."""
        came = self.transfer({}, dict.fromkeys(self._above(), limit), marked=marked)
        return came.popitem()[1]

    def _above(self) -> tuple[Channel, ...]:
        if self.parent is None:
            raise ConfigError(f"rank {self.name} is the root of its tree: it has no parent")
        return (self.parent,)


def node_from_store(
    store: Store,
    tree: Tree,
    rank: int,
    *,
    name: str = "tree",
    host: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    **options: Any,
) -> Node:
    """Connect to parent and children; all ranks of the tree must call this, equally often for each ``name``.

    Args:
        store, host, timeout: see ``ring_from_store``.
        options: ``setup_timeout`` of ``ring_from_store``.

    Raises:
        TransportError: one of them did not come in time, or cannot be reached.
    """
    parent = tree.parents[rank]
    calls = () if parent is None else (parent,)
    called, answered = connect(
        store, rank, len(tree.parents), calls, tree.children(rank), name=name, host=host, **options
    )
    above = None if parent is None else (parent, called[parent])
    return Node(rank, above, answered, workers=len(tree.workers), timeout=timeout)


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
        if residual is None:
            payload = encode_block(codec, gradient)
        else:
            residual[:] = gradient
            payload = encode_block(codec, residual, leave=True)
        node.up(payload, marked=codec is not None)
        return Traffic(gradient.nbytes, memoryview(payload).nbytes)


def add_up(node: Node, payloads: Iterable[Payload], size: int, codec: Codec | None = None) -> Float32s:
    """The sum of what the children sent, in order of their ranks."""
    total = np.zeros(size, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for child, payload in zip(node.children, payloads, strict=True):
            total += decode_block(codec, payload, size, rank=node.name, peer=child.peer)
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
        return decode_block(None, payload, size, rank=node.name, peer=peer)


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
