"""Frames of codecs written in NumPy: one payload for each chunk, with length and checksum."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from lightloom.compression.header import FRAME_HEADER
from lightloom.compression.kernels import current
from lightloom.compression.stream import FramedCodec
from lightloom.core.arrays import Bytes


class NumpyCodec(FramedCodec):
    """A codec that turns one chunk into one payload and back; the size depends on the number of values alone."""

    def least_bytes(self, count: int) -> int:
        return self.worst_bytes(count)

    @abstractmethod
    def encode_payload(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the payload of one chunk."""

    @abstractmethod
    def decode_payload(self, payload: NDArray[np.uint8], count: int) -> NDArray[np.float32] | None:
        """Return the values of one payload; None if it is malformed."""

    def encode_frames(self, values: NDArray[np.float32], chunk: int, first: int, out: Bytes) -> int:
        at = 0
        for begin in range(0, values.size, chunk):
            payload = np.ascontiguousarray(self.encode_payload(values[begin : begin + chunk]))
            index = first + begin // chunk
            head = np.array([payload.size, _checksum(payload, index)], "<u4")
            out[at : at + FRAME_HEADER] = head.view(np.uint8)
            at += FRAME_HEADER
            out[at : at + payload.size] = payload
            at += payload.size
        return at

    def decode_frames(self, data: Bytes, out: NDArray[np.float32], chunk: int, first: int) -> int:
        at = 0
        for begin in range(0, out.size, chunk):
            index = first + begin // chunk
            if data.size - at < FRAME_HEADER:
                return -(8 * index + 1)
            length, checksum = (int(word) for word in data[at : at + FRAME_HEADER].copy().view("<u4"))
            at += FRAME_HEADER
            if data.size - at < length:
                return -(8 * index + 1)
            payload = np.ascontiguousarray(data[at : at + length])
            if _checksum(payload, index) != checksum:
                return -(8 * index + 3)
            part = out[begin : begin + chunk]
            values = self.decode_payload(payload, part.size)
            if values is None:
                return -(8 * index + 4)
            part[:] = values
            at += length
        return at


def _checksum(payload: Bytes, index: int) -> int:
    return current().xxh64(payload, index << 32 | payload.size) & 0xFFFFFFFF
