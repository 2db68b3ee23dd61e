"""Methods by name; plug-ins are registered in the group ``lightloom.exchanges``."""

from __future__ import annotations

from functools import cache

from lightloom.core.errors import UnknownNameError
from lightloom.core.plugins import plugins_of
from lightloom.exchange.family import Family
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.methods import BUILT_IN
from lightloom.exchange.spelling import split


@cache
def families() -> dict[str, Family]:
    """Return all families by name, those of plug-ins included.

    Raises:
        ConfigError: a plug-in registered something that is not a :class:`Family`.
    """
    return {family.name: family for family in [*BUILT_IN, *plugins_of("exchanges", Family)]}


def names() -> list[str]:
    """Return the names of all families."""
    return list(families())


def compared() -> tuple[str, ...]:
    """Return the methods that comparisons and benchmarks run unless others are named, those of plug-ins included."""
    chosen = [(family.name,) if family.compared is None else family.compared for family in families().values()]
    return tuple(name for group in chosen for name in group)


def find(text: str) -> ExchangeMethod:
    """Return the method that ``text`` names, for example ``int4:block=128,feedback``.

    Raises:
        UnknownNameError: there is no family of that name.
        ConfigError: an option is unknown or out of range.
    """
    name, options = split(text)
    known = families()
    if name not in known:
        raise UnknownNameError("exchange", name, known)
    return known[name].build(text, options, find)


def method_of(method: ExchangeMethod | str) -> ExchangeMethod:
    """Return a method that is given itself or by name; raises what ``find`` does."""
    return find(method) if isinstance(method, str) else method
