"""Entry points: a user's own package adds algorithms, fabrics, codecs, accelerators or models.

The group names are ``lightloom.algorithms``, ``lightloom.fabrics``, ``lightloom.codecs``, ``lightloom.accelerators``
and ``lightloom.models``.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from lightloom.core.errors import ConfigError


@cache
def load_plugins(group: str) -> dict[str, Any]:
    """Every object that installed packages registered under ``lightloom.<group>``, by entry-point name.

    Raises:
        ConfigError: a registered object cannot be imported (names the entry point).
    """
    found: dict[str, Any] = {}
    for point in entry_points(group=f"lightloom.{group}"):
        try:
            found[point.name] = point.load()
        except Exception as error:
            raise ConfigError(
                f"plug-in {point.name!r} ({point.value}) in group lightloom.{group} fails: {error}"
            ) from error
    return found
