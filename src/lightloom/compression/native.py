"""Shared objects of C kernels, loaded with ctypes, and the choice among their paths and the fallback in Python."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from lightloom.core.errors import ConfigError

PATHS = {"native-avx512": 2, "native-avx2": 1, "native-scalar": 0}
"""Paths through a C kernel, the fastest first, with the numbers that its functions take for them."""
NAMES = (*PATHS, "fallback")
_VARIABLE = "LIGHTLOOM_KERNEL"


def shared_object(stem: Path, signatures: Mapping[str, tuple[Any, list[Any]]]) -> ctypes.CDLL | None:
    """Return the C kernel at ``stem``, whose calls run without the interpreter lock; None where it cannot be loaded.

    ``signatures`` has the result and the arguments of each function.
    """
    if sys.byteorder != "little":
        return None
    # A build of before the stable ABI may still lie beside the one of now.
    for suffix in sorted(EXTENSION_SUFFIXES, key=lambda suffix: "abi3" not in suffix):
        path = stem.with_name(stem.name + suffix)
        if not path.exists():
            continue
        try:
            loaded = ctypes.CDLL(str(path))
            for name, (result, arguments) in signatures.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError):
            continue
        return loaded
    return None


def requested() -> str:
    """What the environment variable LIGHTLOOM_KERNEL asks for; empty where it asks for nothing."""
    return os.environ.get(_VARIABLE, "")


def choose(request: str, load: Callable[[str], object | None]) -> str:
    """Name of the fastest kernel that fits the request; ``load`` returns None for what this machine cannot run.

    Raises:
        ConfigError: the request names no kernel, or one that was not built or that this CPU cannot run.
    """
    if request not in ("", "native", *NAMES):
        raise ConfigError(f"{_VARIABLE}={request}: expected native, {', '.join(NAMES)}, or nothing")
    for name in NAMES:
        if (request == "" or name.startswith(request)) and load(name) is not None:
            return name
    raise ConfigError(f"{_VARIABLE}={request}: that kernel was not built here, or this CPU cannot run it")
