"""Atomic writing of files, and the cache folder, whose entries carry a digest."""

import errno
import json
import logging
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO

from lightloom.core.errors import ConfigError


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write ``content``, text as UTF-8, to a temporary file and rename it to ``path``, which is returned, so that a
    reader never sees half a file. A file that is there is replaced, missing folders are made, and the new file has mode
    0644.

    Raises:
        ConfigError: the file cannot be written.
    """
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file, open for writing bytes, that replaces what is at ``path`` when the block ends, and is
    removed if the block raises; missing folders are made, and the file has mode 0644.

    Raises:
        ConfigError: the file cannot be written, or the block raises an OSError.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            Path(aside).chmod(0o644)
            Path(aside).replace(path)
        finally:
            with suppress(OSError):
                Path(aside).unlink()
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r}: {error.strerror}") from error


def is_file(path: Path | str) -> bool:
    """Return True if there is a file of that name; False for folders, and for a text that no file can be called by,
    such as one that is too long."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def cannot_read(path: Path | str, reason: Exception | str, content: str = "") -> ConfigError:
    """Return the error, not raised, about a file that could not be read: ``cannot read CONTENT 'PATH': REASON``.

    Args:
        path: the file.
        reason: the exception, or what is wrong in words; an OSError without its number and file, and any UnicodeError
            as ``not UTF-8 text``.
        content: what the file should hold (``gradients``), left out by default.
    """
    told = "not UTF-8 text" if isinstance(reason, UnicodeError) else getattr(reason, "strerror", None) or reason
    return ConfigError(f"cannot read {content}{' ' if content else ''}{str(path)!r}: {told}")


def check_writable(path: Path) -> None:
    """Check, before work begins, that a file can be put at ``path``; leaves nothing behind and makes no folder. A file
    that is there already is not looked at, as it is replaced.

    Raises:
        ConfigError: the path is a folder, or its folder does not exist (the message has the ``mkdir`` that makes it) or
            cannot be written to.
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
    """Return the text with Python's escapes, such as ``\\x1b`` or ``\\u202e``, in the place of characters that would
    control the terminal (carriage returns too) or reverse the direction of writing; line feeds and tabs stay."""
    return _CONTROL.sub(lambda match: ascii(match.group())[1:-1], text)


# The cache folder, and entries that carry a digest: what was changed or damaged there is named and made again.

LOG = logging.getLogger("lightloom")
"""Warnings about what is kept; they go to stderr unless a program that uses the package says otherwise."""


@cache
def say_former(spelling: str) -> None:
    """Log a warning, once a process for each ``spelling``, that a former spelling still works; ``spelling`` says how it
    is spelt now: ``a is b now``. Warnings go to stderr by default."""
    LOG.warning("warning: %s; the former spelling works in this release", spelling)


_MARK = b"lightloom-cache "
_BEFORE = (b"PK", b'{"', b"[{", b"[]")
"""How entries of versions before 0.3 begin, which have no digest: they are made again without a word."""


def cache_directory() -> Path:
    """Return the cache folder, which need not exist: ``$LIGHTLOOM_CACHE``, else ``lightloom`` under ``$XDG_CACHE_HOME``
    (``~/.cache``).

    Raises:
        ConfigError: the folder belongs to somebody else, or others can write to it: what lies there would be believed.
    """
    own = os.environ.get("LIGHTLOOM_CACHE")
    folder = Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "lightloom")
    check_folder(folder)
    return folder


def check_folder(folder: Path) -> None:
    """Check that nobody but the user and root can put entries into a folder; one that is not there passes, and so does
    any folder on a system without owners of files.

    Raises:
        ConfigError: it belongs to a user other than this one and root, or others, or a group that is not this process's
            own, can write to it.
    """
    try:
        found = folder.stat()
    except OSError:
        return
    if not hasattr(os, "getuid"):  # no owners on this system
        return
    remedy = "expected a folder of your own: name another in LIGHTLOOM_CACHE"
    if found.st_uid not in (os.getuid(), 0):
        raise ConfigError(f"cache folder {str(folder)!r} belongs to user {found.st_uid}: {remedy}")
    # A user's own group, of whom nobody else is a member, may write as the user does.
    group = found.st_mode & stat.S_IWGRP and found.st_gid != os.getgid()
    if group or found.st_mode & stat.S_IWOTH:
        raise ConfigError(f"cache folder {str(folder)!r} can be written by others: {remedy}, or run chmod go-w on it")


@cache
def source_hash(*parts: str) -> str:
    """Return the SHA-256, in hexadecimal, of the contents of source files, by which cached results are told apart from
    those of other versions. ``parts`` are paths of files or folders below the package's folder, read in this order and
    once a process; of a folder all ``.py`` and ``.yaml`` files in it, at any depth, sorted by path."""
    digest = sha256()
    for path in (Path(__file__).parents[1] / part for part in parts):
        for file in sorted((*path.rglob("*.py"), *path.rglob("*.yaml"))) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def read_entry(path: Path) -> bytes | None:
    """Return the content of a cache entry without its head, the first line, which holds a digest of the file's name and
    the content; None where there is none or it cannot be read, where a version before 0.3 wrote it, or where the digest
    is another, which is logged as a warning.

    Raises:
        ConfigError: the entry's folder belongs to somebody else, or others can write to it.
    """
    check_folder(path.parent)
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    if whole.startswith(_BEFORE):
        return None
    head, _, content = whole.partition(b"\n")
    if head == _head(path, content):
        return content
    LOG.warning("warning: cache entry %s is damaged: it is made again", path)
    return None


def write_entry(path: Path, content: str | bytes) -> None:
    """Write a cache entry that :func:`read_entry` reads: a line with its digest, then ``content``, text as UTF-8. Its
    folder is made where missing, for the user alone. An entry that cannot be written is left out without an error, as
    it only costs time."""
    payload = content.encode() if isinstance(content, str) else content
    with suppress(ConfigError, OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, _head(path, payload) + b"\n" + payload)


def kept(path: Path | None, compute: Callable[[], Any]) -> Any:
    """Return the JSON value of a cache entry, tuples as lists; where there is none that can be read, what ``compute()``
    returns, which is written there. Without a path nothing is read or written. Errors of ``compute`` pass through.

    Raises:
        ConfigError: the entry's folder belongs to somebody else, or others can write to it.
    """
    content = None if path is None else read_entry(path)
    if content is not None:
        return json.loads(content)
    value = compute()
    if path is not None:
        write_entry(path, json.dumps(value))
    return value


def _head(path: Path, content: bytes) -> bytes:
    """Return the first line of a cache entry, without its line feed: a mark of the format, then one SHA-256, in
    hexadecimal, of the file's name (not its folder), which says what was computed, and of ``content``."""
    return _MARK + sha256(path.name.encode() + b"\0" + content).hexdigest().encode()
