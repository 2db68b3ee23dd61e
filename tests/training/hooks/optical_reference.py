"""What averaging by light must give, in plain integers and one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.photonics.averaging.reference import average
from tests.photonics.quantisation_reference import BlockQuantisation
from tests.training.hooks import workers


def reference_mean(
    gradients: Sequence[np.ndarray], sizes: Sequence[int], bits: int = 16, block: int = 256, rounding: str = "half-up"
) -> np.ndarray:
    """The mean of flat float32 gradients, parameter by parameter and number by number."""
    quantise = BlockQuantisation(bits=bits, block=block)
    result = []
    for pieces in zip(*(np.split(each, np.cumsum(sizes)[:-1]) for each in gradients), strict=True):
        scale = quantise.agree(*(quantise.exponents(piece) for piece in pieces))
        codes = [quantise.encode(piece, scale).tolist() for piece in pieces]
        means = [average(each, half_up=rounding == "half-up") for each in zip(*codes, strict=True)]
        result.append(quantise.decode(np.array(means), scale).astype(np.float32))
    return np.concatenate(result)


def emulated(ranks: int, steps: int, **options: Any) -> str:
    """The digest of the net after steps whose gradients were averaged here."""
    net = workers.net()
    optimizer = workers.sgd(net)
    for step in range(steps):
        everyone = [_gradients(net, rank, step) for rank in range(ranks)]
        sizes = [parameter.numel() for parameter in net.parameters()]
        mean = torch.from_numpy(reference_mean(everyone, sizes, **options))
        for parameter, piece in zip(net.parameters(), torch.split(mean, sizes), strict=True):
            parameter.grad = piece.view_as(parameter).clone()
        optimizer.step()
    return workers.digest(net)


def _gradients(net: nn.Module, rank: int, step: int) -> np.ndarray:
    pieces = torch.autograd.grad(workers.loss_of(net, rank, step), list(net.parameters()))
    return torch.cat([piece.flatten() for piece in pieces]).numpy()
