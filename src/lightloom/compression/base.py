"""The codec interface: float32 values to a byte stream and back, within a stated error.

A codec implements :attr:`Codec.name`, :meth:`Codec.encode` and :meth:`Codec.decode`; the rest has defaults.
:mod:`lightloom.compression.arrays` turns what callers pass into flat NumPy arrays and checks it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar, overload

import numpy as np

from lightloom.core.arrays import Float32s

T = TypeVar("T")


class Codec(ABC):
    """A lossy codec of float32 vectors; immutable and safe to share between threads.

    The same values give the same bytes on every machine. Encoding decoded values again changes nothing, unless the
    codec's documentation says otherwise.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name and parameter as :func:`~lightloom.compression.find` reads them: ``inceptionn:2^-10``."""

    @abstractmethod
    def encode(self, array: object, *, threads: int = 1) -> memoryview:
        """Compress a float32 array (NumPy array or CPU torch tensor) of any shape, in C order.

        Raises:
            InputError: the array is not float32 or not in CPU memory.
        """

    @overload
    def decode(self, buffer: object, out: None = None, *, threads: int = 1) -> Float32s: ...

    @overload
    def decode(self, buffer: object, out: T, *, threads: int = 1) -> T: ...

    @abstractmethod
    def decode(self, buffer: object, out: object = None, *, threads: int = 1) -> object:
        """Decompress into ``out`` (contiguous float32 of the right size, returned as given) or a new flat array.

        Raises:
            CodecError: the stream is malformed, truncated, corrupted, of another codec, or does not fit ``out``.
            InputError: ``out`` is not a writable contiguous float32 array in CPU memory.
        """

    @property
    def absolute_error(self) -> float | None:
        """Largest difference between a decoded value and its original; None where no such bound holds."""
        return None

    @property
    def relative_error(self) -> float | None:
        """Largest error of a finite value of at least 2^-125, relative to its size; None where no such bound holds."""
        return None

    @property
    def largest_ratio(self) -> float | None:
        """Bytes as float32 for each byte of a long stream, at most; None where nobody knows."""
        return None

    def encode_leaving(self, array: Float32s) -> memoryview:
        """Encode ``array`` (flat, contiguous) and replace it by the error ``array - decoded``, 0 where not finite.

        The sum of decoded values and errors is the original: exactly, if the codec only cuts off low bits.
        """
        encoded = self.encode(array)
        with np.errstate(over="ignore", invalid="ignore"):
            array -= self.decode(encoded)
        array[~np.isfinite(array)] = 0
        return encoded

    def decode_adding(self, buffer: object, out: Float32s) -> None:
        """Add the decoded values of ``buffer`` to ``out`` (flat, contiguous).

        Raises:
            CodecError: see :meth:`decode`; ``out`` may then hold part of the sum.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            out += self.decode(buffer, out=np.empty_like(out))

    def round_trip(self, array: object) -> Float32s:
        """Encode and decode ``array``; the values that its receiver gets, flat."""
        return self.decode(self.encode(array))

    def __repr__(self) -> str:
        return f"<codec {self.name}>"
