"""Compiled loops of block quantisation: `photonics.block_quantisation`, all servers of a block at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def encode_blocks(gradients: Any, block: int, bits: int, half_up: bool, exponents: Any, codes: Any) -> bool:
    """Agree on each block's exponent over all servers, then write offset-binary codes; False on NaN or Inf.

    ``gradients`` (servers, n) float32, ``exponents`` (blocks,), ``codes`` (servers, n) unsigned.
    """
    servers, count = gradients.shape
    half = 1 << (bits - 1)
    shift = 0.5 if half_up else 0.0
    for index in range(exponents.size):
        start, stop = index * block, min(count, (index + 1) * block)
        largest = np.float32(0.0)
        total = np.float32(0.0)
        for server in range(servers):
            for i in range(start, stop):
                value = abs(gradients[server, i])
                largest = max(largest, value)
                # NaN loses every comparison, but not a sum of zeros.
                total += value * np.float32(0.0)
        if total != np.float32(0.0):
            return False
        exponent = max(math.frexp(float(largest))[1], -127) if largest > 0.0 else -127
        exponents[index] = exponent
        scale = math.ldexp(1.0, bits - 1 - exponent)
        for server in range(servers):
            for i in range(start, stop):
                rounded = math.floor(float(gradients[server, i]) * scale + shift)
                codes[server, i] = min(rounded, half - 1) + half
    return True


@njit(cache=True)
def decode_blocks(means: Any, block: int, bits: int, exponents: Any, values: Any) -> None:
    """Values of mean codes: ``means`` (n,), ``values`` (n,) float32."""
    half = 1 << (bits - 1)
    for index in range(exponents.size):
        scale = math.ldexp(1.0, exponents[index] - bits + 1)
        for i in range(index * block, min(means.size, (index + 1) * block)):
            values[i] = (means[i] - half) * scale
