"""Methods inside methods: ``inner=(int4:block=128,feedback)``."""

from __future__ import annotations

from lightloom.exchange.family import Find
from lightloom.exchange.method import ExchangeMethod


def written(method: ExchangeMethod) -> str:
    """Return the name of a method as the value of an option."""
    return f"({method.name})" if "," in method.name or ":" in method.name else method.name


def inner_reader(find: Find) -> Find:
    """Return a reader of methods that are options.

    It raises ValueError for one that does not average the same gradient on all ranks at every step.
    """

    def read_inner(text: str) -> ExchangeMethod:
        method = find(text)
        if not method.synchronous:
            raise ValueError("expected a method that exchanges at every step, not localsgd or diloco")
        return method

    return read_inner
