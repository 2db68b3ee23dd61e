"""Integers as PAM4 signals: two bits per signal, most significant first (OptINC, arXiv 2603.28290, eq. 2).

Signed gradients are sent in offset binary: code = value + 2^(bits-1). The mean of codes is the mean of the values plus
the same offset. Averages of the digits of two's complement are meaningless, as -1 is all ones there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.errors import ConfigError, InputError

LEVELS = 4
MAX_BITS = 32


def symbols_for(bits: int) -> int:
    """Return the number of PAM4 signals that carry ``bits`` bits: ceil(bits / 2).

    Raises:
        ConfigError: ``bits`` is not a whole number from 1 to 32.
    """
    if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or not 1 <= bits <= MAX_BITS:
        raise ConfigError(f"bits = {bits!r}: expected a whole number from 1 to {MAX_BITS}")
    return -(-int(bits) // 2)


def encode(codes: ArrayLike, bits: int) -> NDArray[np.uint8]:
    """Return the levels 0..3 of each code, most significant first (eq. 2).

    Args:
        codes: whole numbers in [0, 2^bits), of any shape.
        bits: bits per code.

    Returns:
        Levels, of the codes' shape with an additional last axis of ceil(bits / 2).

    Raises:
        InputError: a code does not fit into ``bits`` bits.
    """
    count = symbols_for(bits)
    values = check_codes(codes, bits)
    shifts = 2 * np.arange(count - 1, -1, -1, dtype=np.int64)
    return ((values[..., None] >> shifts) & 3).astype(np.uint8)


def check_codes(codes: ArrayLike, bits: int) -> NDArray[np.int64]:
    """Return codes of any shape as int64.

    Raises:
        InputError: a code is not a whole number in [0, 2^bits).
    """
    symbols_for(bits)
    return _whole(codes, "codes", 0, (1 << bits) - 1)


def decode(levels: ArrayLike, bits: int) -> NDArray[np.int64]:
    """Return the codes of levels, the inverse of `encode`: ``decode(encode(x, bits), bits) == x``.

    Raises:
        InputError: the number of signals is not that of ``bits`` bits, or a level is outside 0..3.
    """
    count = symbols_for(bits)
    digits = _whole(levels, "levels", 0, LEVELS - 1)
    if digits.ndim == 0 or digits.shape[-1] != count:
        raise InputError(f"levels of shape {digits.shape}: expected {count} signals on the last axis for {bits} bits")
    return digits @ (np.int64(1) << 2 * np.arange(count - 1, -1, -1, dtype=np.int64))


def decide(signals: ArrayLike) -> NDArray[np.uint8]:
    """Round each analogue signal, in units of a level, to the nearest level 0..3, as a receiver does."""
    return np.clip(np.rint(np.asarray(signals, dtype=np.float64)), 0, LEVELS - 1).astype(np.uint8)


def _whole(values: ArrayLike, what: str, low: int, high: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size and not (np.issubdtype(array.dtype, np.integer) or (array == np.floor(array)).all()):
        raise InputError(f"{what} of type {array.dtype}: expected whole numbers from {low} to {high}")
    if array.size and (array.min() < low or array.max() > high):
        bad = array.min() if array.min() < low else array.max()
        raise InputError(f"{what} hold {bad}: expected whole numbers from {low} to {high}")
    return array.astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverErrors:
    """Errors of uniformly distributed codes due to Gaussian noise at the receivers."""

    noise: float
    """Standard deviation of the noise, in units of the spacing of levels."""
    symbol_error: float
    """Probability that a signal is received wrong."""
    code_error: float
    """Probability that at least one signal of a code is received wrong."""
    rms: float
    """Root mean square error of a code, in units of the last place."""


def receiver_errors(snr: float, bits: int) -> ReceiverErrors:
    """Return symbol and code errors at a signal-to-noise ratio.

    The ratio is the variance of the four levels (1.25 spacings squared) over that of the noise, so the symbol error is
    3/2 Q(sqrt(snr / 5)), with Q the Gaussian tail.

    Args:
        snr: signal-to-noise ratio as a power ratio, not in decibels.
        bits: bits per code.

    Raises:
        InputError: the ratio is not positive.
    """
    from scipy.special import ndtr

    count = symbols_for(bits)
    if not snr > 0:
        raise InputError(f"snr = {snr!r}: expected a positive power ratio")
    noise = float(np.sqrt(1.25 / snr))
    edges = np.array([-np.inf, 0.5, 1.5, 2.5, np.inf])
    sent = np.arange(LEVELS)
    read = np.diff(ndtr((edges[None, :] - sent[:, None]) / noise), axis=1)
    offset = sent[None, :] - sent[:, None]
    wrong = 1.5 * float(ndtr(-0.5 / noise))
    # Digits of a uniform code are independent and their errors average to zero, so squares add up.
    variance = float((read * offset**2).sum() / LEVELS * (16.0 ** np.arange(count)).sum())
    return ReceiverErrors(
        noise=noise,
        symbol_error=wrong,
        code_error=float(-np.expm1(count * np.log1p(-wrong))),
        rms=float(np.sqrt(variance)),
    )
