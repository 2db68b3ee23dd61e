"""Global block quantisation of one parameter in plain NumPy: what the compiled passes are checked against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, kw_only=True)
class BlockQuantisation:
    """Offset-binary codes of ``bits`` bits, rounded half-up, with one exponent per block of ``block`` values."""

    bits: int = 16
    block: int = 256

    def exponents(self, gradient: ArrayLike) -> NDArray[np.int16]:
        """Return for each block the least E >= -127 with every |value| < 2^E."""
        values = np.abs(np.asarray(gradient, np.float64))
        blocks = np.split(values, range(self.block, values.size, self.block)) if values.size else []
        return np.array([max(np.frexp(block.max())[1], -127) if block.any() else -127 for block in blocks], np.int16)

    @staticmethod
    def agree(*offers: NDArray[np.int16]) -> NDArray[np.int16]:
        """Return the exponents that all servers use."""
        return reduce(np.maximum, offers)

    def encode(self, gradient: ArrayLike, exponents: NDArray[np.int16]) -> NDArray[np.int64]:
        """Return the codes (n,) of a flat gradient."""
        values, half = np.asarray(gradient, np.float64), 1 << (self.bits - 1)
        scaled = np.ldexp(values, -self._steps(exponents, values.size))
        return np.clip(np.floor(scaled + 0.5), -half, half - 1).astype(np.int64) + half

    def decode(self, codes: ArrayLike, exponents: NDArray[np.int16]) -> NDArray[np.float64]:
        """Return the values (n,) of flat codes."""
        signed = np.asarray(codes, np.int64) - (1 << (self.bits - 1))
        return np.ldexp(signed.astype(np.float64), self._steps(exponents, signed.size))

    def _steps(self, exponents: NDArray[np.int16], count: int) -> NDArray[np.int32]:
        return np.repeat(exponents.astype(np.int32) - self.bits + 1, self.block)[:count]
