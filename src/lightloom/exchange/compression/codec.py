"""The codec interface: float32 values to a byte stream and back, within a stated error.

A codec implements :attr:`Codec.name`, :meth:`Codec.encode` and :meth:`Codec.decode`; the rest has defaults.
The functions below it turn what callers pass into flat NumPy arrays and check it.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, TypeVar, cast, overload

import numpy as np

from lightloom.core.arrays import Bytes, Float32s
from lightloom.core.errors import CodecError, InputError

T = TypeVar("T")


class Codec(ABC):
    """A lossy codec of float32 vectors; immutable and safe to share between threads.

    The same values give the same bytes on every machine. Encoding decoded values again changes nothing, unless the
    codec's documentation says otherwise.
    """

    scales_messages: ClassVar[bool] = False
    """True if all values of a message share a scale: rings then code each tensor in a stream of its own."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name and parameter, as ``exchange.compression.registry.find`` reads them: ``inceptionn:2^-10``."""

    @abstractmethod
    def encode(self, array: object, *, threads: int = 1) -> memoryview:
        """Compress a float32 array (NumPy array or CPU torch tensor) of any shape, in C order, and return the stream,
        read-only; the array is left alone. Codecs with frames encode them in ``threads`` threads; the bytes are the
        same.

        Raises:
            InputError: the array is not float32 or not in CPU memory.
        """

    @overload
    def decode(self, buffer: object, out: None = None, *, threads: int = 1) -> Float32s: ...

    @overload
    def decode(self, buffer: object, out: T, *, threads: int = 1) -> T: ...

    @abstractmethod
    def decode(self, buffer: object, out: object = None, *, threads: int = 1) -> object:
        """Decompress the stream ``buffer`` into ``out`` (contiguous float32 of the right size, returned as given) or a
        new flat array. Codecs with frames decode them in ``threads`` threads.

        Raises:
            CodecError: the stream is malformed, truncated, corrupted, of another codec, or does not fit ``out``, which
                may then hold part of the values.
            InputError: ``out`` is not a writable contiguous float32 array in CPU memory, or ``buffer`` no contiguous
                bytes.
        """

    @property
    def absolute_error(self) -> float | None:
        """Largest difference between a decoded value and its original, in the values' own units; None where no such
        bound holds, as here unless a codec overrides it."""
        return None

    @property
    def relative_error(self) -> float | None:
        """Largest error of a finite value whose size is at least 2^-125, relative to that size; None where no such
        bound holds, as here unless a codec overrides it."""
        return None

    @property
    def largest_ratio(self) -> float | None:
        """Largest compression ratio of a long stream, in bytes of float32 values for each byte of the stream; None
        where nobody knows, as here unless a codec overrides it."""
        return None

    def encode_leaving(self, array: Float32s) -> memoryview:
        """Return the stream of ``array`` (flat, contiguous float32), and replace the array, in place, by the errors
        ``array - decoded``, 0 where they are not finite.

        The sum of decoded values and errors is the original: exactly, if the codec only cuts off low bits.
        """
        encoded = self.encode(array)
        with np.errstate(over="ignore", invalid="ignore"):
            array -= self.decode(encoded)
        array[~np.isfinite(array)] = 0
        return encoded

    def decode_adding(self, buffer: object, out: Float32s) -> None:
        """Add the decoded values of the stream ``buffer`` to ``out`` (flat, contiguous float32), in place.

        Raises:
            CodecError: the stream is malformed, truncated, corrupted, of another codec, or does not fit ``out``, which
                may then hold part of the sum.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            out += self.decode(buffer, out=np.empty_like(out))

    def round_trip(self, array: object) -> Float32s:
        """Return the values that a receiver of ``array`` gets, encoded and decoded, as a new flat float32 array; raises
        InputError as :meth:`encode` does for what is not float32 in CPU memory."""
        return self.decode(self.encode(array))

    def __repr__(self) -> str:
        """Return the codec's name in angle brackets, as messages show it."""
        return f"<codec {self.name}>"


# Float32 arrays in and out without copies: NumPy arrays, CPU torch tensors, anything with the array protocol.


def float32_values(array: object) -> Float32s:
    """Return the values of ``array`` in C order, flat: a view where the memory is contiguous, else a copy.

    Raises:
        InputError: not float32, or not in CPU memory (names the type).
    """
    return np.ascontiguousarray(_as_numpy(array, "to encode")).reshape(-1)


def float32_target(out: object, count: int) -> Float32s:
    """Return a flat view of ``out``, into which a stream is decoded and which must hold exactly ``count`` contiguous
    float32 values.

    Raises:
        InputError: not float32, not contiguous, not writable or not in CPU memory.
        CodecError: ``out`` has another number of values.
    """
    view = _as_numpy(out, "to decode into")
    if not (view.flags.c_contiguous and view.flags.writeable):
        raise InputError("the array to decode into must be C-contiguous and writable")
    if view.size != count:
        raise CodecError(f"the stream holds {count} values, the array to decode into {view.size}")
    return view.reshape(-1)


def byte_target(out: Bytes, size: int) -> Bytes:
    """Return ``out``, checked to be a flat, contiguous, writable uint8 array of at least ``size`` bytes.

    Raises:
        InputError: it is not.
    """
    if not isinstance(out, np.ndarray) or out.dtype != np.uint8 or out.ndim != 1:
        raise InputError(f"the memory to encode into must be a flat uint8 array, not {type(out).__name__}")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise InputError("the memory to encode into must be contiguous and writable")
    if out.size < size:
        raise InputError(f"the memory to encode into holds {out.size} bytes: these values may need {size}")
    return out


def _as_numpy(array: object, purpose: str) -> Float32s:
    """Return a float32 NumPy array of the shape of an array or CPU tensor, a view where that is possible; raises
    InputError for any other type or memory, with ``purpose`` (such as ``to encode``) in its message."""
    source = array.detach() if hasattr(array, "detach") else array
    try:
        view = np.asarray(source)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InputError(f"the array {purpose} must be float32 in CPU memory: {error}") from error
    if view.dtype != np.float32:
        raise InputError(f"the array {purpose} must be float32 in native byte order, not {view.dtype}")
    return view


def stream_bytes(buffer: object) -> Bytes:
    """Return the bytes of a buffer (bytes, bytearray, memoryview, NumPy array, CPU torch tensor) as flat uint8: a view,
    but a copy of an array that is not contiguous.

    Raises:
        InputError: no buffer of contiguous bytes.
    """
    try:
        if isinstance(buffer, np.ndarray) or hasattr(buffer, "detach"):
            array = buffer if isinstance(buffer, np.ndarray) else buffer.detach()
            return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return np.frombuffer(cast(bytes, buffer), np.uint8)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InputError(
            f"a compressed stream must be a contiguous buffer of bytes, not {type(buffer).__name__}: {error}"
        ) from error
