"""N servers in one process: their gradients one after the other, then one average for all of them.

    batch of server 0 ──▶ gradient ──┐
    batch of server 1 ──▶ gradient ──┤ block quantisation ──▶ codes ──▶ averager ──▶ mean code ──▶ gradient of all
    ...                              ┘

What an optical averager does to training depends on the gradients alone, not on where they were computed: this gives
the same numbers as N processes and a hook, and needs neither the processes nor their memory.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.averaging.averagers import Averager
from lightloom.photonics.block_quantisation import BlockQuantisation, Rounding

Floats = NDArray[np.float32]


def averaged(
    gradients: Floats, averager: Averager, block: int = 256, rounding: Rounding = "half-up"
) -> NDArray[np.float32]:
    """What every server receives: gradients (servers, n) float32 to (n,), equal to the steps of `BlockQuantisation`.

    Args:
        gradients: one row a server.
        averager: of the codes.
        block: values that share a scale.
        rounding: of the servers when they quantise; the averager has its own.

    Raises:
        InputError: another number of servers than the averager has, NaN or Inf.
        ConfigError: more bits than float32 gradients can fill.
    """
    from lightloom.training._block_kernels import decode_blocks, encode_blocks

    quantisation = BlockQuantisation(bits=averager.bits, block=block, rounding=rounding)
    if averager.bits > 24:
        raise ConfigError(f"bits = {averager.bits}: expected at most 24, which fill a float32")
    if gradients.ndim != 2 or len(gradients) != averager.servers:
        raise InputError(f"gradients of shape {gradients.shape}: expected one row for each of {averager.servers}")
    count = gradients.shape[1]
    exponents = np.zeros(quantisation.blocks(count), np.int16)
    codes = np.empty(gradients.shape, np.uint16 if averager.bits <= 16 else np.uint32)
    if not encode_blocks(gradients, block, averager.bits, rounding == "half-up", exponents, codes):
        raise InputError("the gradient holds NaN or Inf: expected finite values, which alone share a scale")
    values = np.empty(count, np.float32)
    decode_blocks(averager(codes), block, averager.bits, exponents, values)
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
        self.gradients = torch.zeros(servers, sum(p.numel() for p in self.parameters), device=device)

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
            mean = averaged(self.gradients.cpu().numpy(), self.averager, self.block)
            self._attach(torch.from_numpy(mean).to(self.gradients.device))
        return losses

    def _attach(self, flat: Tensor) -> None:
        """Let the parameters' gradients lie in ``flat``, so that backward adds up in place."""
        start = 0
        for parameter in self.parameters:
            parameter.grad = flat[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()
