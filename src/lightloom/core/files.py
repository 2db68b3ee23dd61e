"""Files written whole or not at all, and the cache folder."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from lightloom.core.errors import ConfigError


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write aside, then rename, so that a reader never sees half a file.

    Raises:
        ConfigError: the place cannot be written to.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(aside).chmod(0o644)
        Path(aside).replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            Path(aside).unlink()
    return path


def cache_directory() -> Path:
    """``$LIGHTLOOM_CACHE``, else ``lightloom`` under ``$XDG_CACHE_HOME`` (``~/.cache``)."""
    own = os.environ.get("LIGHTLOOM_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "lightloom"
