"""What every codec does: float32 values to a self-describing byte stream and back, within a stated error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Codec(ABC):
    """A lossy codec of float32 vectors; immutable, safe to share between threads.

    The same values give the same bytes on every machine. Encoding decoded values again loses nothing more, unless the
    codec says otherwise.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that :func:`~lightloom.compression.find` understands, parameter included: ``inceptionn:2^-10``."""

    @property
    @abstractmethod
    def absolute_error(self) -> float | None:
        """No decoded value is farther than this from the original; None where only a relative bound holds."""

    @property
    def relative_error(self) -> float | None:
        """No finite value of 2^-125 or more is off by more than this times its size; None where no such bound holds."""
        return None

    @abstractmethod
    def encode(self, array: Any, *, threads: int = 1) -> memoryview:
        """Compress a float32 array (NumPy, CPU torch tensor) of any shape, in C order.

        Raises:
            InputError: not float32 or not in CPU memory.
        """

    @abstractmethod
    def decode(self, buffer: Any, out: Any = None, *, threads: int = 1) -> Any:
        """Decompress into ``out`` (contiguous float32 of the right size, returned as given) or a new flat array.

        Raises:
            CodecError: the stream is malformed, truncated, corrupted, of another codec, or does not fit ``out``.
            InputError: ``out`` is not a writable contiguous float32 array in CPU memory.
        """

    def encode_leaving(self, array: NDArray[np.float32]) -> memoryview:
        """Encode and leave in ``array`` (flat, contiguous) what the stream lacks: ``array - decoded``, 0 if not finite.

        Decoded and left-over values add up to what was there: exactly, where the codec cuts off bits.
        """
        encoded = self.encode(array)
        with np.errstate(over="ignore", invalid="ignore"):
            array -= self.decode(encoded)
        array[~np.isfinite(array)] = 0
        return encoded

    def decode_adding(self, buffer: Any, out: NDArray[np.float32]) -> None:
        """Add what ``buffer`` holds to ``out`` (flat, contiguous).

        Raises:
            CodecError: as :meth:`decode`; ``out`` may then hold part of the sum.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            out += self.decode(buffer, out=np.empty_like(out))

    def round_trip(self, array: Any) -> NDArray[np.float32]:
        """What a receiver of ``array`` holds, flat."""
        decoded: NDArray[np.float32] = self.decode(self.encode(array))
        return decoded

    def __repr__(self) -> str:
        return f"<codec {self.name}>"
