"""Files of float32 to checked streams and back, frame by frame: neither file is ever held in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.compression import FramedCodec, Header, StreamDecoder, codecs, find
from lightloom.compression.header import HEADER_BYTES
from lightloom.core.array_files import read_npy
from lightloom.core.errors import CodecError, ConfigError
from lightloom.core.files import atomic_file, cannot_read, check_writable
from lightloom.reports.progress import progress

_PIECE = 1 << 20


def encode_file(source: Path, target: Path, codec: str) -> tuple[int, int]:
    """Compress ``.npy`` or raw little-endian float32; returns the bytes of values and of the stream.

    Raises:
        ConfigError: not readable as float32, or the target cannot be written.
        UnsupportedError: the codec has no stream of frames.
    """
    chosen = find(codec)
    if not isinstance(chosen, FramedCodec):
        raise ConfigError(f"codec {codec!r} does not write a stream of frames")
    values = _values(source)
    check_writable(target)
    written = 0
    with progress("Values", values.size) as advance, atomic_file(target) as file:
        for piece in chosen.iter_encode(values):
            file.write(piece)
            written += len(piece)
            advance(chosen.chunk)
    return values.nbytes, written


def decode_file(source: Path, target: Path) -> tuple[str, int]:
    """Decompress a stream to ``.npy``, or else raw little-endian float32; returns the codec's name and the values.

    Raises:
        ConfigError: unreadable, or the target cannot be written.
        CodecError: no stream, malformed, corrupted, truncated, or of a codec that is not installed here.
    """
    check_writable(target)
    try:
        stream = source.open("rb")
    except OSError as error:
        raise cannot_read(source, error) from error
    with stream:
        header, codec = _codec_of(stream.read(HEADER_BYTES), source)
        stream.seek(0)
        decoder, done = StreamDecoder(codec), 0
        with progress("Values", header.count) as advance, atomic_file(target) as file:
            if target.suffix == ".npy":
                np.lib.format.write_array_header_1_0(
                    file, {"descr": "<f4", "fortran_order": False, "shape": (header.count,)}
                )
            while piece := stream.read(_PIECE):
                values = decoder.feed(piece)
                file.write(values.astype("<f4", copy=False).data)
                done += values.size
                advance(values.size)
            if not decoder.finished:
                raise CodecError(f"{str(source)!r} ends early: {done} of {header.count} values")
    return codec.name, done


def _values(path: Path) -> NDArray[np.float32]:
    """The values of a file, mapped and not read."""
    try:
        raw = path.suffix != ".npy"
        values = np.memmap(path, "<f4", "r") if raw and path.stat().st_size else np.empty(0, np.float32)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "expected raw float32, four bytes a value"
        raise cannot_read(path, reason) from error
    values = values if raw else read_npy(path, mapped=True)
    if values.dtype != np.float32:
        raise ConfigError(f"{str(path)!r} holds {values.dtype}, expected float32")
    flat: NDArray[np.float32] = values.reshape(-1)
    return flat


def _codec_of(head: bytes, source: Path) -> tuple[Header, FramedCodec]:
    try:
        header = Header.parse(head)
    except CodecError as error:
        raise CodecError(f"{str(source)!r}: {error}") from error
    for family in codecs().values():
        codec = _of_parameter(family, header)
        if codec is not None:
            return header, codec
    raise CodecError(f"{str(source)!r} is of codec {header.codec} with parameter {header.parameter}, unknown here")


def _of_parameter(family: Any, header: Header) -> FramedCodec | None:
    """The family's codec whose streams begin with this header; None where it has none."""
    default = family.build(family.read(family.default))
    if not isinstance(default, FramedCodec) or default.codec_id != header.codec:
        return None
    for value in (header.parameter, 2.0**-header.parameter, 2**header.parameter):
        try:
            codec = family.build(value)
        except ConfigError:
            continue
        if codec.parameter == header.parameter:
            return codec  # type: ignore[no-any-return]
    return None
