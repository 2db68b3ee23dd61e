"""Methods inside methods: ``inner=(int4:block=128,feedback)``."""

from __future__ import annotations

from lightloom.exchange.method import ExchangeMethod


def written(method: ExchangeMethod) -> str:
    """Return the name of a method as the value of an option."""
    return f"({method.name})" if "," in method.name or ":" in method.name else method.name


def read_inner(text: str) -> ExchangeMethod:
    """Return the method that an option names.

    Raises:
        ValueError: it does not average the same gradient on all ranks at every step.
        UnknownNameError, ConfigError: see :func:`lightloom.exchange.registry.find`.
    """
    from lightloom.exchange.registry import find

    method = find(text)
    if not method.synchronous:
        raise ValueError("expected a method that exchanges at every step, not localsgd or diloco")
    return method
