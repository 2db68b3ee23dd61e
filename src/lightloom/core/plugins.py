"""Entry points: a user's own package adds algorithms, fabrics, codecs, exchanges, accelerators or models.

The group names are ``lightloom.algorithms``, ``lightloom.fabrics``, ``lightloom.codecs``, ``lightloom.exchanges``,
``lightloom.accelerators`` and ``lightloom.models``.
"""

from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from lightloom.core.errors import ConfigError

T = TypeVar("T")

GROUPS = ("algorithms", "fabrics", "codecs", "exchanges", "accelerators", "models")
"""Names of the groups of entry points, without the package's."""


@cache
def any_installed() -> bool:
    """Return True if an installed package registers any plug-in, whose code no hash of this package's files covers;
    looked up once a process."""
    return any(entry_points(group=f"lightloom.{group}") for group in GROUPS)


def plugins_of(group: str, kind: type[T]) -> list[T]:
    """Return the plug-ins that installed packages register as entry points of the group ``lightloom.<group>``, loaded,
    without their names; each must be an instance of ``kind``.

    Raises:
        ConfigError: one is something else, or loading it raises any exception (names the entry point).
    """
    for name, plugin in load_plugins(group).items():
        if not isinstance(plugin, kind):
            expected = f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
            raise ConfigError(f"plug-in {name!r} in group lightloom.{group}: expected {expected}, got {plugin!r}")
    return list(load_plugins(group).values())


@cache
def load_plugins(group: str) -> dict[str, Any]:
    """Return every object that installed packages register as entry points of the group ``lightloom.<group>``, loaded
    once a process, by the entry point's name; of two with one name the last found.

    Raises:
        ConfigError: loading an object raises any exception (names the entry point).
    """
    plugins: dict[str, Any] = {}
    for point in entry_points(group=f"lightloom.{group}"):
        try:
            plugins[point.name] = point.load()
        except Exception as error:
            raise ConfigError(
                f"plug-in {point.name!r} ({point.value}) in group lightloom.{group} fails: {error}"
            ) from error
    return plugins
