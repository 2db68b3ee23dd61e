"""Training runs of ``digits`` with all ranks in one process, for machines with fewer cores than ranks.

Equal recipes see equal batches and start from equal weights as there; the ring is :func:`emulated_ring_sum`.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lightloom.core.arrays import Float32s
from lightloom.core.errors import ConfigError, InputError
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.registry import find
from lightloom.papers.runs.digits import BOUNDS, ImageSets, Recipe, RecipeRun, batch_of, rank_part
from lightloom.photonics.averaging.averagers import Averager, average_into
from lightloom.photonics.averaging.block_quantisation import UNFIT, CodeBuffers

# The ring of N ranks in one process: what compression on every hop makes of their gradients, and how much it sends.
#
# block b:  rank b ──▶ b+1 ──▶ ... ──▶ b−1, added to and encoded anew at each; b−1 encodes the sum for all
#
# What arrives depends on the gradients alone, not on where they were computed: the same numbers as of N processes
# with ``attach_inceptionn``, without their waiting for one another.


class RingSum(NamedTuple):
    """Sum that every rank receives, and the bytes that it took."""

    total: Float32s
    """Sum over ranks (n,), the same bits on every rank."""
    nbytes_sent: int
    """Bytes that all ranks send together."""


def emulated_ring_sum(values: Float32s, codec: Codec, *, leave: bool = False) -> RingSum:
    """Return the sum of the rows of ``values`` as a ring all-reduce gives it that encodes every block at every hop, and
    the bytes that all ranks send together, while partial sums and then the sum, encoded once, go round.

    Args:
        values: (ranks, n) float32, one row a rank; overwritten.
        codec: of the hops.
        leave: leave in each row what that rank's encodings took away, so that the sum and all rows add up to the input;
            else the rows are of no use afterwards.
    """
    ranks = len(values)
    total = np.empty(values.shape[1], np.float32)
    sent = 0
    encode = codec.encode_leaving if leave else codec.encode
    for block, part in enumerate(np.array_split(np.arange(values.shape[1]), ranks)):
        if not part.size:
            continue
        places = slice(int(part[0]), int(part[-1]) + 1)
        for hop in range(ranks - 1):
            sender, receiver = (block + hop) % ranks, (block + hop + 1) % ranks
            payload = encode(values[sender, places])
            sent += payload.nbytes
            codec.decode_adding(payload, values[receiver, places])
        payload = encode(values[(block - 1) % ranks, places])
        sent += (ranks - 1) * payload.nbytes
        total[places] = codec.decode(payload)
    return RingSum(total, sent)


def train(recipe: Recipe, sets: ImageSets, ranks: int, *, counted: bool = False) -> dict[str, Any]:
    """Train by a recipe with all ranks in this process, and return the fields of the record, with those of the recipe
    under ``recipe``. ``iterations``, ``accuracy`` (0 to 1) and ``loss`` are lists with an entry for each
    ``record_every`` iterations and for the last, ``ratio`` is a list of the one of the whole run (float32 bytes over
    those sent), empty without a codec, ``tags`` is empty, bytes (0 without a codec) are of one rank, and ``seconds``
    are of the processor.

    Args:
        recipe: settings of the run, the same as for processes.
        sets: training images, which the ranks divide among them, and test images.
        ranks: number of ranks.
        counted: add ``shares``: those of values of each size under every reading of Table III, averaged over training,
            as :func:`EmulatedRun.shares` gives them.

    Raises:
        ConfigError: the recipe averages by light, or there are fewer training images than one step of all ranks takes.
    """
    if recipe.gradients.startswith("optical"):
        raise ConfigError(f"gradients = {recipe.gradients}: expected a codec or none where all ranks are one process")
    count = ranks * recipe.batch_per_rank
    if len(sets.training.labels) < count:
        raise ConfigError(f"{len(sets.training.labels)} images: {ranks} ranks take {count} a step")
    run = EmulatedRun(recipe, sets, ranks, counted=counted)
    record = {"recipe": asdict(recipe), **asdict(run.run())}
    return record | {"shares": run.shares()} if counted else record


class EmulatedRun(RecipeRun):
    """The run of all ranks in one process."""

    clock = staticmethod(time.process_time)

    def __init__(self, recipe: Recipe, sets: ImageSets, ranks: int, *, counted: bool = False) -> None:
        """Divide the training images among the ranks, which share one network, and start without residuals; ``none`` in
        the recipe is no codec, and sizes are counted in the middle of each 50 iterations if ``counted``."""
        super().__init__(recipe, sets.test)
        self.counts = range(25, recipe.iterations + 1, 50) if counted else range(0)
        self.counted: list[dict[str, Any]] = []
        self.parts = [rank_part(sets.training, rank, ranks) for rank in range(ranks)]
        self.ranks = ranks
        self.codec = None if recipe.gradients == "none" else find(recipe.gradients)
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.residuals = np.zeros((ranks, sum(self.sizes)), np.float32)

    def compute_gradients(self, iteration: int) -> float:
        """Leave the mean gradient of all ranks, that of the loss times ``gradient_scale``, in the parameters, and
        return the loss without this factor: rank 0's, or that of all ranks' images where no codec and no count needs
        the gradients of each. ``iteration`` counts from 1 and selects the batches."""
        scale = self.recipe.gradient_scale
        batches = [batch_of(part, self.recipe, rank, iteration) for rank, part in enumerate(self.parts)]
        images, labels = map(torch.stack, zip(*batches, strict=True))
        if self.codec is None and iteration not in self.counts:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.net(images.flatten(0, 1)), labels.flatten())
            (scale * loss).backward()  # type: ignore[no-untyped-call]
            return float(loss.detach())
        gradients = torch.empty(self.ranks, sum(self.sizes))
        layers = [module for module in self.net.modules() if not list(module.children())]
        if all(isinstance(layer, nn.Linear | nn.ReLU) for layer in layers):
            loss = perceptron_gradients(layers, images, labels, scale, gradients)
        else:
            losses = [nn.functional.cross_entropy(self.net(each[0]), each[1]) for each in batches]
            for each, row in zip(losses, gradients, strict=True):
                torch.cat([piece.flatten() for piece in torch.autograd.grad(scale * each, self.parameters)], out=row)
            loss = losses[0].detach()
        if iteration in self.counts:
            self._count((gradients / scale).numpy())
        attach_gradients(self.parameters, self.sizes, torch.from_numpy(self._mean(gradients.numpy())))
        return float(loss)

    def _count(self, gradients: Float32s) -> None:
        """Count values by size: append the shares of rank 0's gradient (the first row), and those averaged over all
        messages of a ring all-reduce that loses nothing (partial sums and the whole sums passed on), each under the
        mean and the summed loss; ``gradients`` (ranks, n) are the mean loss's."""
        rows = (gradients[0], *partial_sums(gradients))
        own, *sums = (shares_by_loss(row, self.recipe.batch_per_rank) for row in rows)
        # Each rank passes the whole sum on, as often as it has sent a partial one.
        messages = [*sums[:-1], *sums[-1:] * (self.ranks - 1)]
        ring = {loss: np.mean([message[loss] for message in messages], axis=0) for loss in own}
        self.counted.append({"own": own, "ring": ring})

    def shares(self) -> dict[str, Any]:
        """Return the shares (0 to 1) of values by size (lists, bounds 2^-10, 2^-8 and 2^-6 x sizes of 2, 10, 18 and 34
        bits), averaged over the iterations that were counted, by what is counted, ``own`` or ``ring``, and then by
        loss, ``mean`` or ``summed``."""
        return {
            what: {loss: np.mean([each[what][loss] for each in self.counted], axis=0).tolist() for loss in losses}
            for what, losses in self.counted[0].items()
        }

    def _mean(self, gradients: Float32s) -> Float32s:
        """Return the mean (n,) of the rows, one rank's gradient each, as the ring gives it with the recipe's codec and
        residuals, add the bytes of one rank, sent and as float32 (2 (ranks − 1)/ranks of the gradient), to the record,
        and set its ratio to that of the whole run so far; without a codec it is the plain mean, and no bytes are
        counted."""
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


@torch.no_grad()
def perceptron_gradients(
    layers: Iterable[nn.Module], images: Tensor, labels: Tensor, scale: float, rows: Tensor
) -> Tensor:
    """Write the gradient of ``scale`` times the mean cross-entropy of each rank's batch into its row, all ranks at
    once, and return rank 0's loss, without ``scale``.

    Args:
        layers: of the network, in order: linear ones with ReLUs between them.
        images: (ranks, batch, values) float32.
        labels: (ranks, batch) int64.
        scale: factor of the loss.
        rows: (ranks, n) float32, overwritten; values in the order of the parameters.
    """
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    inputs = [images]
    for layer in linear[:-1]:
        inputs.append(layer(inputs[-1]).relu_())
    scores = linear[-1](inputs[-1]).log_softmax(-1)
    delta = scores.exp()
    delta.scatter_add_(-1, labels[..., None], -torch.ones_like(delta[..., :1])).mul_(scale / labels.shape[1])
    end = rows.shape[1]
    for layer, values in zip(reversed(linear), reversed(inputs), strict=True):
        weights, start = layer.weight.numel(), end - layer.weight.numel() - len(layer.bias)
        torch.bmm(delta.mT, values, out=rows[:, start : start + weights].view(-1, *layer.weight.shape))
        torch.sum(delta, 1, out=rows[:, start + weights : end])
        end = start
        if start:
            delta = (delta @ layer.weight).mul_(values > 0)
    loss: Tensor = -scores[0].gather(-1, labels[0, :, None]).mean()
    return loss


# What a paper's count of sizes can mean: of one rank's own gradient, or of all that crosses the ring; of the mean loss
# over a rank's batch, or of its sum, whose gradients are as many times as large.


def shares_by_loss(gradient: Float32s, batch: int) -> dict[str, Any]:
    """Return the shares (0 to 1) of 2-, 10-, 18- and 34-bit values in a gradient under the bounds 2^-10, 2^-8 and 2^-6,
    arrays (3 bounds x 4), by the loss, ``mean`` or ``summed``: what ``tag_shares`` gives, without encoding.

    Args:
        gradient: of the mean loss over a batch.
        batch: number of samples, by which the gradient of the summed loss is larger.
    """
    sizes = np.abs(gradient)

    def below(limit: float) -> float:
        return 1 - float(np.count_nonzero(sizes >= np.float32(limit))) / sizes.size

    def shares(scale: int) -> Any:
        one = below(1 / scale)
        edges = [[0, below(2.0**-k / scale), below(2.0 ** -(k // 2) / scale), one, 1] for k in BOUNDS]
        return np.diff(edges, axis=1)

    return {"mean": shares(1), "summed": shares(batch)}


def partial_sums(gradients: Float32s) -> Float32s:
    """Return what each rank of a ring has to send at each step of its sum, (ranks, n): row s holds for every block the
    sum of s + 1 ranks' values, in the last row the whole sum. There are as many blocks as ranks, equal or longer by one
    value at the front. Block b starts at rank b, and each next rank adds its own; ``gradients`` (ranks, n) has one row
    a rank."""
    ranks, n = gradients.shape
    sums = np.empty_like(gradients)
    for block, part in enumerate(np.array_split(np.arange(n), ranks)):
        sums[:, part] = np.cumsum(gradients[np.ix_([(block + hop) % ranks for hop in range(ranks)], part)], axis=0)
    return sums


# N servers in one process: their gradients one after the other, then one average for all of them.
#
# batch of server 0 ──▶ gradient ──┐
# batch of server 1 ──▶ gradient ──┤ block quantisation ──▶ codes ──▶ averager ──▶ mean code ──▶ gradient of all
# ...                              ┘
#
# What an optical averager does to training depends on the gradients alone, not on where they were computed: this
# gives the same numbers as N processes and a hook, and needs neither the processes nor their memory.


def averaged(gradients: Float32s, averager: Averager, sizes: Sequence[int] | None = None, block: int = 256) -> Float32s:
    """Return the average (n,) of the servers' gradients by an averager of codes, as the DDP hook does: blocks share a
    scale among all servers, and values are quantised to codes, averaged and decoded.

    Args:
        gradients: (servers, n) float32, one row a server.
        averager: of the codes.
        sizes: of the parameters in a row, as no block reaches over the end of one; one parameter unless given.
        block: number of values that share a scale.

    Raises:
        InputError: another number of servers than the averager has, or a gradient that holds NaN, Inf or a size of
            2^127 or more.
        ConfigError: bits or block out of range.
    """
    if gradients.ndim != 2 or len(gradients) != averager.servers:
        raise InputError(f"gradients of shape {gradients.shape}: expected one row for each of {averager.servers}")
    quantise = CodeBuffers.of(sizes if sizes is not None else [gradients.shape[1]], averager.bits, block)
    scales = np.maximum.reduce([quantise.scales(row) for row in gradients])
    if scales.size and scales.max() == UNFIT:
        raise InputError("a gradient holds NaN, Inf or a size of 2^127 or more: expected values that share a scale")
    codes = np.empty(gradients.shape, quantise.code_type)
    for row, out in zip(gradients, codes, strict=True):
        quantise.encode(row, scales, out)
    means = np.empty(gradients.shape[1], quantise.code_type)
    average_into(averager, codes, means)
    values = np.empty(gradients.shape[1], np.float32)
    quantise.decode(means, scales, values)
    return values


def attach_gradients(parameters: Sequence[nn.Parameter], sizes: list[int], flat: Tensor) -> None:
    """Make each parameter's ``grad`` a view of its part of ``flat`` (n,), in order, so that a backward pass adds up
    there in place; ``sizes`` are the numbers of values of the parameters."""
    for parameter, part in zip(parameters, torch.split(flat, sizes), strict=True):
        parameter.grad = part.view_as(parameter)


class EmulatedServers:
    """The gradients of N servers for one network; a step leaves their average in ``parameter.grad``.

    Args:
        net: whose parameters are trained, on its final device; layers with running statistics see the servers' batches
            in turn.
        servers: N.
        averager: of codes; None averages in float32, as a ring all-reduce would.
        block: values that share a scale.

    Raises:
        ConfigError: the averager is for another number of servers.
    """

    def __init__(self, net: nn.Module, servers: int, averager: Averager | None = None, block: int = 256) -> None:
        """Raise ConfigError where there is no server, or the averager is for another number; parameters that take no
        gradient are left out."""
        if servers < 1 or (averager is not None and averager.servers != servers):
            raise ConfigError(f"servers = {servers}: expected as many as the averager has, at least 1")
        self.parameters = [p for p in net.parameters() if p.requires_grad]
        self.averager, self.block = averager, block
        device = self.parameters[0].device if self.parameters else None
        self.sizes = [p.numel() for p in self.parameters]
        self.gradients = torch.zeros(servers, sum(self.sizes), device=device)

    def step(self, loss: Callable[[int], Tensor]) -> list[float]:
        """Compute ``loss(server)``, a scalar, and its gradient for every server, one after the other, and leave the
        servers' average, by the averager of codes or in float32 without one, in the parameters' gradients, in place of
        what was there.

        Returns:
            The losses, in the order of the servers.

        Raises:
            InputError: with an averager, a gradient holds NaN, Inf or a size of 2^127 or more.
        """
        losses = []
        self.gradients.zero_()
        for server, row in enumerate(self.gradients):
            attach_gradients(self.parameters, self.sizes, row)
            value = loss(server)
            value.backward()  # type: ignore[no-untyped-call]
            losses.append(float(value.detach()))
        if self.averager is None:
            mean = self.gradients.mean(0)
        else:
            averages = averaged(self.gradients.cpu().numpy(), self.averager, self.sizes, self.block)
            mean = torch.from_numpy(averages).to(self.gradients.device)
        attach_gradients(self.parameters, self.sizes, mean)
        return losses
