"""Atomic writing of files, reading of those that may be packed, and the cache folder."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import BinaryIO

from lightloom.core.errors import ConfigError


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a temporary file and rename it, so that a reader never sees half a file.

    Raises:
        ConfigError: the file cannot be written.
    """
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears when the block ends, and not if the block raises.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(aside).chmod(0o644)
        Path(aside).replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            Path(aside).unlink()


def is_file(path: Path | str) -> bool:
    """Return whether there is a file of that name; a text that no file can be called by, as it is too long, is none."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def cannot_read(path: Path | str, reason: Exception | str, content: str = "") -> ConfigError:
    """Return the complaint about a file that could not be read.

    Args:
        path: the file.
        reason: the exception, or what is wrong in words.
        content: what the file should hold (``gradients``).
    """
    told = "not UTF-8 text" if isinstance(reason, UnicodeError) else getattr(reason, "strerror", None) or reason
    return ConfigError(f"cannot read {content}{' ' if content else ''}{str(path)!r}: {told}")


def check_writable(path: Path) -> None:
    """Check before the work that a file can be written where a user wants it; leaves nothing behind.

    Raises:
        ConfigError: the path is a folder, or its folder does not exist or cannot be written to.
    """
    folder = path.parent
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if not folder.exists():
            raise ConfigError(
                f"cannot write {str(path)!r}: there is no folder {str(folder)!r}: make it with "
                f"mkdir -p {quote(str(folder))}"
            )
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r}: {error.strerror}") from error


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that move the cursor, colour, ring or reverse the direction of writing; lines and tabs stay."""


def visible(text: str) -> str:
    """Return the text with escapes in the place of characters that would control the terminal."""
    return _CONTROL.sub(lambda match: ascii(match.group())[1:-1], text)
