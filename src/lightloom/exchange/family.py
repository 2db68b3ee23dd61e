"""A family of methods: the ones that differ in their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lightloom.exchange.method import ExchangeMethod

Find = Callable[[str], ExchangeMethod]
"""Returns the method of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Methods that differ in their options."""

    name: str
    summary: str
    """One line that says what the methods do."""
    options: tuple[tuple[str, str], ...]
    """(option, what it means and its default) in the order in which names spell them."""
    build: Callable[[str, dict[str, str], Find], ExchangeMethod]
    """Builds a method from the text as the user wrote it, for messages, the options in it, and what finds methods that
    are options."""
    compared: tuple[str, ...] | None = None
    """Methods that comparisons and benchmarks run unless others are named; None for the one of the family's name."""
