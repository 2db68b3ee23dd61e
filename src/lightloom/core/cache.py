"""The cache folder, and entries that carry a digest: what was changed or damaged there is named and made again."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically

LOG = logging.getLogger("lightloom")
"""Warnings about what is kept; they go to stderr unless a program that uses the package says otherwise."""
_MARK = b"lightloom-cache "
_BEFORE = (b"PK", b'{"', b"[{", b"[]")
"""How entries of versions before 0.3 begin, which have no digest: they are made again without a word."""


def cache_directory() -> Path:
    """Return ``$LIGHTLOOM_CACHE``, else ``lightloom`` under ``$XDG_CACHE_HOME`` (``~/.cache``).

    Raises:
        ConfigError: the folder belongs to somebody else, or others can write to it: what lies there would be believed.
    """
    own = os.environ.get("LIGHTLOOM_CACHE")
    if own:
        folder = Path(own)
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        folder = (Path(base) if base else Path.home() / ".cache") / "lightloom"
    check_folder(folder)
    return folder


def check_folder(folder: Path) -> None:
    """Check that nobody but the user and root can put entries into a folder; one that is not there passes.

    Raises:
        ConfigError: it belongs to somebody else, or others can write to it.
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


def read_entry(path: Path) -> bytes | None:
    """Return the content of an entry; None where there is none, or where it is not as it was written, which is said.

    Raises:
        ConfigError: the entry's folder can be written by others.
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
    """Write an entry with its digest; a folder that cannot be written costs time, nothing else."""
    payload = content.encode() if isinstance(content, str) else content
    with suppress(ConfigError, OSError):
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, _head(path, payload) + b"\n" + payload)


def _head(path: Path, content: bytes) -> bytes:
    """Return the first line of an entry: the digest of its name, which says what was asked, and of its content."""
    return _MARK + sha256(path.name.encode() + b"\0" + content).hexdigest().encode()
