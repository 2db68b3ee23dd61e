"""Choice of the kernel of blocks."""

from __future__ import annotations

from lightloom.compression.blocks.portable import Portable

_PORTABLE = Portable()


def current() -> Portable:
    """Return the kernel in use."""
    return _PORTABLE
