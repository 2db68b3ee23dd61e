"""Rates of this host's kernels for a method: values in large messages, and the seconds of a message however small.

What is timed is what the hooks run on CPU tensors, on one thread: the wire formats of block methods with error feedback
where the method has it, the codecs of rings, the choice of top-k, the products of PowerSGD.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lightloom.core.errors import UnsupportedError, needing_torch
from lightloom.core.files import cache_directory, write_atomically
from lightloom.exchange.compression.profile import Coding, coding_rates
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.methods import BlockExchange, PowerSgdExchange, RingCodecExchange, TopKExchange

# Rates of this host's kernels by method, as ``lightloom exchange measure`` keeps them in the cache.


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRates:
    """How fast one method's kernels run on one thread of this host."""

    encode: float
    """Bytes of float32 per second: of the gradient's values."""
    decode: float
    """Bytes of float32 per second: of the values in messages."""
    encode_message: float
    """Seconds of encoding a message, whatever its size."""
    decode_message: float
    kernel: str
    """Name of the kernels that were measured."""
    flops: float | None = None
    """Floating-point operations per second of products with narrow matrices, for low-rank methods."""


def rates_path() -> Path:
    """Return the path of the file of rates in the cache, ``exchange-rates.json``, which need not exist."""
    return cache_directory() / "exchange-rates.json"


def measured_rates(method: str) -> KernelRates | None:
    """Return the rates stored in the cache for a method, by its full name; None where it was not measured on this host,
    or the file is damaged."""
    row = _stored_rates().get(method)
    try:
        return None if row is None else KernelRates(**row)  # type: ignore[arg-type]
    except TypeError:
        return None


def keep_rates(method: str, rates: KernelRates) -> Path:
    """Write the rates of a method, by its full name, into the cache, in place of earlier ones of that method, and
    return the path of the file.

    Raises:
        ConfigError: the cache cannot be written.
    """
    return write_atomically(rates_path(), json.dumps({**_stored_rates(), method: asdict(rates)}, indent=2))


def _stored_rates() -> dict[str, dict[str, object]]:
    """Return the stored rows of rates, fields of ``KernelRates`` by method; empty where there is no file or it is
    damaged."""
    try:
        rows = json.loads(rates_path().read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return {name: row for name, row in rows.items() if isinstance(row, dict)} if isinstance(rows, dict) else {}


_LARGE, _SMALL = 1 << 22, 256
"""Values of a message whose rate is measured, and of one whose call is."""
_COLUMNS = 1024
_SCALE = 1e-3
"""Standard deviation of the normally distributed values that are coded."""


def measurable(method: ExchangeMethod) -> bool:
    """Return whether the method that codes values, ``method.coding``, is of a family that ``measure_kernels`` times:
    narrow formats, codecs around a ring, top-k or PowerSGD."""
    return isinstance(method.coding, BlockExchange | RingCodecExchange | TopKExchange | PowerSgdExchange)


def measure_kernels(method: ExchangeMethod) -> KernelRates:
    """Return the rates of a method's kernels on one thread of this host, timed now: bytes of float32 a second encoded
    and decoded, and the seconds that a message costs whatever its size; ``flops`` is left None, and nothing is stored.
    PyTorch is left at one thread in this process where its kernels are timed.

    Raises:
        UnsupportedError: the method codes nothing, or nothing here codes it; or PyTorch, whose tensors its kernels
            take, is missing.
    """
    part = method.coding
    with needing_torch(f"exchange {method.name!r}: measuring its kernels"):
        if isinstance(part, BlockExchange):
            return _rates_of(lambda count: _block_kernels(part, count), f"{part.width.name} kernels")
        if isinstance(part, RingCodecExchange):
            return _rates_of(lambda count: _codec_kernels(part, count), f"codec {part.codec}")
        if isinstance(part, TopKExchange):
            return _rates_of(lambda count: _top_k(part, count), "choice of the largest values", part.kept(_LARGE))
        if isinstance(part, PowerSgdExchange):
            return _rates_of(lambda count: _products(part, count), "torch's matrix products")
    raise UnsupportedError(f"exchange {method.name!r} codes nothing that could be measured")


def _rates_of(kernels: Callable[[int], Coding], name: str, decoded: int = _LARGE) -> KernelRates:
    """Return the rates of encoding and decoding, in bytes of float32 a second, timed on messages of 2^22 values, and
    the seconds of a message, taken from messages of 256 values.

    Args:
        kernels: returns the two functions that encode and decode so many values.
        name: what is timed; ``kernel`` of the result is this and "on one thread".
        decoded: number of values that the large message holds for the decoder: all 2^22, or those kept by top-k.
    """
    rates = coding_rates(kernels(_LARGE), kernels(_SMALL), (4 * _LARGE, 4 * decoded))
    return KernelRates(**rates, kernel=f"{name} on one thread")


def _draw_values(count: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return ``count`` normal float32 values of mean 0 and standard deviation 0.001, always the same."""
    return np.random.default_rng(0).normal(0.0, _SCALE, count).astype(np.float32)


def _block_kernels(method: BlockExchange, count: int) -> Coding:
    """Return two functions without arguments that code ``count`` fixed values in blocks on one CPU thread: the first
    encodes them, with feedback where the method has it, the second decodes the message and adds it up."""
    import torch

    from lightloom.exchange.distributed.block_exchange import wire_format
    from lightloom.exchange.distributed.residuals import Geometry, cut_shares

    torch.set_num_threads(1)
    wire = wire_format(method, "cpu")
    (share,) = cut_shares(Geometry.joined([("values", (count,))]), 1, wire.block)
    values = torch.from_numpy(_draw_values(count))
    residual = torch.zeros_like(values) if method.feedback else None
    message, out = torch.empty(share.blocks * wire.block_bytes, dtype=torch.uint8), torch.zeros_like(values)
    return (lambda: wire.encode(values, residual, share, message), lambda: wire.decode(message, share, out, add=True))


def _codec_kernels(method: RingCodecExchange, count: int) -> Coding:
    """Return two functions without arguments that code ``count`` fixed values by the method's codec: the first encodes
    them, leaving errors where the method feeds them back, the second decodes the stream and adds it up."""
    from lightloom.exchange.compression.registry import find

    codec, values, out = find(method.codec), _draw_values(count), np.zeros(count, np.float32)
    message = codec.encode(values)

    def encode() -> object:
        """Encode the values once; with feedback a fresh copy of them, as encoding overwrites it."""
        return codec.encode_leaving(values.copy()) if method.feedback else codec.encode(values)

    return encode, lambda: codec.decode_adding(message, out)


def _top_k(method: TopKExchange, count: int) -> Coding:
    """Return two functions without arguments that stand for encoding and decoding by top-k on one CPU thread: the first
    writes the message of the largest of ``count`` fixed values, with feedback where the method has it, the second adds
    a message's values to a dense buffer."""
    import torch

    from lightloom.exchange.distributed.residuals import Geometry
    from lightloom.exchange.distributed.sparse_exchange import LargestValues

    torch.set_num_threads(1)
    messages = LargestValues(method, Geometry.joined([("values", (count,))]))
    values = torch.from_numpy(_draw_values(count))
    residual = torch.zeros_like(values) if method.feedback else None
    message, out = messages.encode(values, residual), torch.zeros_like(values)
    return lambda: messages.encode(values, residual), lambda: messages.decode_adding(message, out)


def _products(method: PowerSgdExchange, count: int) -> Coding:
    """Return two functions without arguments that stand for encoding and decoding by PowerSGD: the product M Q, and the
    difference M - P Qᵀ, of a matrix M of ``count`` fixed values with 1024 columns, count / 16 where that is fewer; Q
    has as many columns as the method's rank, at most those of M."""
    import torch

    torch.set_num_threads(1)
    columns = min(_COLUMNS, count // 16)
    matrix = torch.from_numpy(_draw_values(count)).view(-1, columns)
    q = torch.ones(columns, min(method.rank, columns))
    p = matrix @ q
    return lambda: matrix @ q, lambda: torch.sub(matrix, p @ q.T)
