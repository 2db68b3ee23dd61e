"""Studies by name; each is imported only when it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from lightloom.core.errors import UnknownNameError
from lightloom.studies.base import Study


def studies() -> Mapping[str, Callable[[], Study]]:
    """Every study, as the function that runs it, by name."""
    return MappingProxyType({"optree": _optree})


def names() -> list[str]:
    """Names of the studies."""
    return sorted(studies())


def find(name: str) -> Callable[[], Study]:
    """The function that runs a study.

    Raises:
        UnknownNameError: no such study (lists all).
    """
    known = studies()
    if name not in known:
        raise UnknownNameError("study", name, known)
    return known[name]


def _optree() -> Study:
    from lightloom.studies.optree.study import study

    return study()
