"""Gradient exchanges: how replicas agree on one gradient, or on one set of weights, after each step or less often.

    import lightloom.exchange as exchange

    state = exchange.attach(ddp_model, "int4:block=128,feedback")        # one line, before the first backward pass

A method is written as a name and options. ``exchange.find(text)`` returns what it sends and does, which plans price;
``attach`` and its siblings run it on a process group. Names are loaded when they are first used: ``find`` needs no
torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightloom.exchange.distributed.ddp import ExchangeState as ExchangeState
    from lightloom.exchange.distributed.ddp import attach as attach
    from lightloom.exchange.distributed.factory import ReduceState as ReduceState
    from lightloom.exchange.distributed.factory import all_reduce as all_reduce
    from lightloom.exchange.distributed.fsdp import FsdpState as FsdpState
    from lightloom.exchange.distributed.fsdp import attach_fsdp as attach_fsdp
    from lightloom.exchange.distributed.periodic import Periodic as Periodic
    from lightloom.exchange.distributed.periodic import periodic as periodic
    from lightloom.exchange.method import ExchangeMethod as ExchangeMethod
    from lightloom.exchange.method import Family as Family
    from lightloom.exchange.method import Gradient as Gradient
    from lightloom.exchange.method import Phase as Phase
    from lightloom.exchange.method import Work as Work
    from lightloom.exchange.methods import find as find
    from lightloom.exchange.methods import names as names

_NAMES = {
    "method": ("ExchangeMethod", "Family", "Gradient", "Phase", "Work"),
    "methods": ("find", "names"),
    "distributed.ddp": ("ExchangeState", "attach"),
    "distributed.factory": ("ReduceState", "all_reduce"),
    "distributed.fsdp": ("FsdpState", "attach_fsdp"),
    "distributed.periodic": ("Periodic", "periodic"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Return a name of this package, imported from its own module at the first use; raises AttributeError for any other
    name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
