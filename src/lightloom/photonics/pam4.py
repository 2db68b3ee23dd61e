"""Integers as PAM4 light: two bits a signal, most significant first (OptINC, arXiv 2603.28290, eq. 2).

Signed gradients travel in offset binary: code = value + 2^(bits-1). Its mean is the mean of the values, moved by the
same offset; the digits of two's complement average to nothing useful, as -1 is all ones there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.errors import ConfigError, InputError

LEVELS = 4
MAX_BITS = 32


def symbols_for(bits: int) -> int:
    """PAM4 signals that carry ``bits`` bits: ceil(bits / 2).

    Raises:
        ConfigError: ``bits`` is not a whole number from 1 to 32.
    """
    if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or not 1 <= bits <= MAX_BITS:
        raise ConfigError(f"bits = {bits!r}: expected a whole number from 1 to {MAX_BITS}")
    return -(-int(bits) // 2)


def encode(codes: ArrayLike, bits: int) -> NDArray[np.uint8]:
    """The levels 0..3 of each code, most significant first (eq. 2).

    Args:
        codes: whole numbers in [0, 2^bits), any shape.
        bits: of a code.

    Returns:
        Levels, of the codes' shape with one more axis of ceil(bits / 2).

    Raises:
        InputError: a code does not fit.
    """
    count = symbols_for(bits)
    values = check_codes(codes, bits)
    shifts = 2 * np.arange(count - 1, -1, -1, dtype=np.int64)
    return ((values[..., None] >> shifts) & 3).astype(np.uint8)


def check_codes(codes: ArrayLike, bits: int) -> NDArray[np.int64]:
    """The codes as int64, any shape.

    Raises:
        InputError: a code is no whole number in [0, 2^bits).
    """
    symbols_for(bits)
    return _whole(codes, "codes", 0, (1 << bits) - 1)


def decode(levels: ArrayLike, bits: int) -> NDArray[np.int64]:
    """The codes of levels, eq. 2 inversely: ``decode(encode(x, bits), bits) == x``.

    Raises:
        InputError: another number of signals than ``bits`` needs, or a level outside 0..3.
    """
    count = symbols_for(bits)
    digits = _whole(levels, "levels", 0, LEVELS - 1)
    if digits.ndim == 0 or digits.shape[-1] != count:
        raise InputError(f"levels of shape {digits.shape}: expected {count} signals on the last axis for {bits} bits")
    return digits @ (np.int64(1) << 2 * np.arange(count - 1, -1, -1, dtype=np.int64))


def to_offset_binary(values: ArrayLike, bits: int) -> NDArray[np.int64]:
    """Codes 0..2^bits - 1 of signed values -2^(bits-1)..2^(bits-1) - 1."""
    symbols_for(bits)
    half = 1 << (bits - 1)
    return _whole(values, "values", -half, half - 1) + half


def from_offset_binary(codes: ArrayLike, bits: int) -> NDArray[np.int64]:
    """Signed values of offset-binary codes: the inverse of `to_offset_binary`."""
    return check_codes(codes, bits) - (1 << (bits - 1))


def decide(signals: ArrayLike) -> NDArray[np.uint8]:
    """A receiver's decision: the nearest level of 0..3 for each analogue signal in units of a level."""
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
    """What Gaussian noise at the receivers does to a gradient of uniformly distributed codes."""

    noise: float
    """Standard deviation, in units of a level's spacing."""
    symbol_error: float
    """Probability that one signal is read wrongly."""
    code_error: float
    """Probability that at least one signal of a code is."""
    rms: float
    """Root mean square error of a code, in its least significant unit."""


def receiver_errors(snr: float, bits: int) -> ReceiverErrors:
    """From a signal-to-noise ratio to symbol errors to gradient errors.

    The ratio is the variance of the four levels (1.25 spacings squared) over that of the noise, so the symbol error is
    3/2 Q(sqrt(snr / 5)), with Q the Gaussian tail.

    Args:
        snr: power ratio, not decibel.
        bits: of a code.

    Raises:
        InputError: the ratio is not positive.
    """
    from scipy.stats import norm

    count = symbols_for(bits)
    if not snr > 0:
        raise InputError(f"snr = {snr!r}: expected a positive power ratio")
    noise = float(np.sqrt(1.25 / snr))
    edges = np.array([-np.inf, 0.5, 1.5, 2.5, np.inf])
    sent = np.arange(LEVELS)
    read = np.diff(norm.cdf((edges[None, :] - sent[:, None]) / noise), axis=1)
    offset = sent[None, :] - sent[:, None]
    wrong = 1.5 * float(norm.sf(0.5 / noise))
    # Digits of a uniform code are independent and their errors average to zero, so squares add up.
    variance = float((read * offset**2).sum() / LEVELS * (16.0 ** np.arange(count)).sum())
    return ReceiverErrors(
        noise=noise,
        symbol_error=wrong,
        code_error=float(-np.expm1(count * np.log1p(-wrong))),
        rms=float(np.sqrt(variance)),
    )
