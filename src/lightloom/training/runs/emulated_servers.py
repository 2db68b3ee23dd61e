"""N servers in one process: their gradients one after the other, then one average for all of them.

    batch of server 0 ──▶ gradient ──┐
    batch of server 1 ──▶ gradient ──┤ block quantisation ──▶ codes ──▶ averager ──▶ mean code ──▶ gradient of all
    ...                              ┘

What an optical averager does to training depends on the gradients alone, not on where they were computed: this gives
the same numbers as N processes and a hook, and needs neither the processes nor their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lightloom.core.arrays import Float32s
from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.averaging.averagers import Averager, average_into
from lightloom.photonics.block_quantisation import UNFIT, CodeBuffers


def averaged(
    gradients: Float32s, averager: Averager, sizes: Sequence[int] | None = None, block: int = 256
) -> NDArray[np.float32]:
    """What every server receives: gradients (servers, n) float32 to (n,), as the DDP hook computes it.

    Args:
        gradients: one row a server.
        averager: of the codes.
        sizes: of the parameters in a row, as no block reaches over the end of one; one parameter unless given.
        block: values that share a scale.

    Raises:
        InputError: another number of servers than the averager has, NaN, Inf or a size of 2^127 or more.
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
        if servers < 1 or (averager is not None and averager.servers != servers):
            raise ConfigError(f"servers = {servers}: expected as many as the averager has, at least 1")
        self.parameters = [p for p in net.parameters() if p.requires_grad]
        self.averager, self.block = averager, block
        device = self.parameters[0].device if self.parameters else None
        self.sizes = [p.numel() for p in self.parameters]
        self.gradients = torch.zeros(servers, sum(self.sizes), device=device)

    def step(self, loss: Callable[[int], Tensor]) -> list[float]:
        """Compute ``loss(server)`` and its gradient for every server, and average.

        Returns:
            The losses.
        """
        losses = []
        self.gradients.zero_()
        for server, row in enumerate(self.gradients):
            self._attach(row)
            value = loss(server)
            value.backward()  # type: ignore[no-untyped-call]
            losses.append(float(value.detach()))
        if self.averager is None:
            self._attach(self.gradients.mean(0))
        else:
            mean = averaged(self.gradients.cpu().numpy(), self.averager, self.sizes, self.block)
            self._attach(torch.from_numpy(mean).to(self.gradients.device))
        return losses

    def _attach(self, flat: Tensor) -> None:
        """Let the parameters' gradients lie in ``flat``, so that backward adds up in place."""
        for parameter, part in zip(self.parameters, torch.split(flat, self.sizes), strict=True):
            parameter.grad = part.view_as(parameter)
