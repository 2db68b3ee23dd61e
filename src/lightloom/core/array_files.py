"""NumPy's files of arrays from untrusted sources: nothing is executed, and no memory taken for what they only claim."""

import math
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from lightloom.core.arrays import Column
from lightloom.core.errors import ConfigError
from lightloom.core.files import cannot_read

MOST_UNPACKED = 1 << 33
"""Bytes that the arrays of an archive may hold together."""
_DAMAGE = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, SyntaxError, RecursionError, EOFError, MemoryError,
    OverflowError, RuntimeError, NotImplementedError, UnicodeError, struct.error, tokenize.TokenError, zlib.error,
    zipfile.BadZipFile,
)  # fmt: skip
"""Exceptions that NumPy and the archive's reader raise for files that are damaged, or are no files of theirs."""
_ZIP = b"PK"
T = TypeVar("T")


def read_npy(path: Path, *, mapped: bool = False) -> Column:
    """Return the array of numbers (booleans and complex numbers included) in an ``.npy`` file, of its shape and dtype;
    with ``mapped`` as a read-only memory map of the file (``numpy.memmap``).

    Raises:
        ConfigError: unreadable, damaged, shorter or longer than its head says, no such file, an ``.npz`` archive, or
            an array of anything but numbers, such as texts, dates, records or objects.
    """
    return _read_checked(path, "a .npy file of numbers", lambda file: _array(path, file, mapped))


def read_npz(path: Path) -> dict[str, Column]:
    """Return all arrays of an ``.npz`` file, numbers or texts, by name without ``.npy``, read into memory.

    Raises:
        ConfigError: unreadable, damaged, no such file, a member that is no array or holds objects, dates or records,
            or more than :data:`MOST_UNPACKED` bytes (8 GiB) in all arrays together.
    """
    return _read_checked(path, "an .npz file of arrays", lambda file: _archive(path, file))


def _read_checked(path: Path, expected: str, read: Callable[[IO[bytes]], T]) -> T:
    """Return what ``read`` makes of the file, opened for reading bytes.

    Args:
        path: the file.
        expected: what the file should be, for the message: ``a .npy file of numbers``.
        read: function of the open file.

    Raises:
        ConfigError: the file cannot be opened or read (OSError); ``read`` raises a ConfigError, which passes; or it
            raises one of :data:`_DAMAGE` (ValueError, EOFError, zipfile.BadZipFile and others that damaged files
            cause), where the message says that the file is not ``expected``.
    """
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of heads that Python 2 wrote
            return read(file)
    except ConfigError:
        raise
    except OSError as error:
        raise cannot_read(path, error) from error
    except _DAMAGE as error:
        raise ConfigError(f"{str(path)!r}: not {expected}: expected what numpy.save or numpy.savez writes") from error


def _array(path: Path, file: IO[bytes], mapped: bool) -> Column:
    """Return the array of an ``.npy`` file, ``file``, open at its begin; with ``mapped`` as a read-only memory map of
    the same file at ``path``. Raises ConfigError for archives and for anything but numbers, ValueError for a head that
    NumPy cannot read and for another length than the head says."""
    if file.peek(2)[:2] == _ZIP:  # type: ignore[attr-defined]
        raise ConfigError(f"{str(path)!r}: an archive: expected one array, as numpy.save writes it")
    claimed, shape, dtype = _claim(file)
    if dtype.kind not in "biufc":
        raise ConfigError(f"{str(path)!r}: {dtype} of shape {shape}: not a .npy file of numbers")
    if claimed != path.stat().st_size:
        raise ValueError("another length than the head says")
    file.seek(0)
    array: Column = np.load(path, mmap_mode="r") if mapped else np.load(file, allow_pickle=False)
    return array


def _claim(file: IO[bytes]) -> tuple[int, tuple[int, ...], np.dtype[Any]]:
    """Return what the head of an ``.npy`` file, open at its begin, says: (bytes that the whole file must have, head
    included, shape, dtype). The elements are not read; raises ValueError where NumPy cannot read the head."""
    version = np.lib.format.read_magic(file)
    head = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = head(file)
    return file.tell() + math.prod(shape) * dtype.itemsize, shape, dtype


def _archive(path: Path, file: IO[bytes]) -> dict[str, Column]:
    """Return the arrays of an open ``.npz`` file by name, once their heads are found right. Raises ConfigError, which
    names ``path``, where they hold more than :data:`MOST_UNPACKED` bytes together, ValueError where a length is not
    what the head says or an array holds anything but numbers and texts."""
    with zipfile.ZipFile(file) as archive:
        total = 0
        for member in archive.infolist():
            with archive.open(member) as inner:
                claimed, _, dtype = _claim(inner)
            if claimed != member.file_size or dtype.kind not in "biufcSU":
                raise ValueError("another length than the head says, or objects")
            total += claimed
    if total > MOST_UNPACKED:
        raise ConfigError(f"{str(path)!r}: {total:,} bytes of arrays: expected at most {MOST_UNPACKED:,}")
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
