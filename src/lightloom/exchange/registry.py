"""Methods by name; plug-ins are registered in the group ``lightloom.exchanges``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from lightloom.core.errors import UnknownNameError
from lightloom.core.plugins import plugins_of
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.spelling import split


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Methods that differ in their options."""

    name: str
    summary: str
    """One line that says what the methods do."""
    options: tuple[tuple[str, str], ...]
    """(option, what it means and its default) in the order in which names spell them."""
    build: Callable[[str, dict[str, str]], ExchangeMethod]
    """Builds a method from the text as the user wrote it, for messages, and the options in it."""


@cache
def families() -> dict[str, Family]:
    """Return all families by name, those of plug-ins included.

    Raises:
        ConfigError: a plug-in registered something that is not a :class:`Family`.
    """
    from lightloom.exchange.methods import BUILT_IN

    return {family.name: family for family in [*BUILT_IN, *plugins_of("exchanges", Family)]}


def names() -> list[str]:
    """Return the names of all families."""
    return list(families())


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
    return known[name].build(text, options)
