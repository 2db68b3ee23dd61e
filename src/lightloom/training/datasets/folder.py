"""Where data sets lie, and whether a file is the one that everybody means."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightloom.core.documents import MOST_TRACE_BYTES, read_bytes
from lightloom.core.errors import ConfigError

VARIABLE = "LIGHTLOOM_DATA"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a data set."""

    names: Sequence[str]
    """Relative to the data folder, in the order in which they are tried; ``.gz`` is unpacked."""
    sha256: str
    """Of the unpacked content, so that a re-packed file passes."""
    origin: str
    """Where users get it."""

    def find(self, folder: Path | None = None) -> Path:
        """Where the file is; it is not read.

        Raises:
            ConfigError: no folder, or no such file.
        """
        return find_first(self.names, folder, self.origin)

    def read(self, folder: Path | None = None) -> bytes:
        """The unpacked content.

        Args:
            folder: the data folder; ``$LIGHTLOOM_DATA`` unless given.

        Raises:
            ConfigError: no folder, no such file, unreadable, or not the published content.
        """
        path, content = read_first(self.names, folder, self.origin)
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise ConfigError(f"{str(path)!r} has SHA-256 {digest[:16]}…, expected {self.sha256[:16]}…: {self.origin}")
        return content


def read_first(names: Sequence[str], folder: Path | None, origin: str) -> tuple[Path, bytes]:
    """Return the path and the unpacked content of the first file in the data folder that has one of the names.

    Raises:
        ConfigError: no folder, no such file (says that ``origin`` has it), or unreadable.
    """
    path = find_first(names, folder, origin)
    return path, read_bytes(path, MOST_TRACE_BYTES)


def find_first(names: Sequence[str], folder: Path | None, origin: str) -> Path:
    """Return the path of the first file in the data folder that has one of the names.

    Raises:
        ConfigError: no folder, or no such file (says that ``origin`` has it).
    """
    root = data_folder(folder)
    path = next((root / name for name in names if (root / name).is_file()), None)
    if path is None:
        raise ConfigError(f"{root} has no {' or '.join(names)}: get it from {origin}")
    return path


def data_folder(folder: Path | None = None) -> Path:
    """The given folder, else ``$LIGHTLOOM_DATA``.

    Raises:
        ConfigError: neither is there, or it is no folder.
    """
    chosen = folder if folder is not None else Path(os.environ.get(VARIABLE, ""))
    if folder is None and not os.environ.get(VARIABLE):
        raise ConfigError(f"no data folder: give --data, or set {VARIABLE} to the folder that holds the data sets")
    if not chosen.is_dir():
        raise ConfigError(f"no data folder {str(chosen)!r}: expected the folder that holds the data sets")
    return chosen
