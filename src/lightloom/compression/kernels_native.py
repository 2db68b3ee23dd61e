"""The C kernel, loaded with ctypes; its calls run without the interpreter lock."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

_POINTER, _INT64, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_ENCODE = [_POINTER, _INT64, _INT64, _INT64, _POINTER, _INT, _INT, _INT]
_DECODE = [_POINTER, _INT64, _POINTER, _INT64, _INT64, _INT64, _INT, _INT]
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "lightloom_best_path": (_INT, []),
    "lightloom_xxh64": (ctypes.c_uint64, [_POINTER, _INT64, ctypes.c_uint64]),
    "lightloom_encode_frames": (_INT64, _ENCODE),
    "lightloom_encode_frames_leaving": (_INT64, _ENCODE),
    "lightloom_decode_frames": (_INT64, _DECODE),
    "lightloom_decode_frames_adding": (_INT64, _DECODE),
    "lightloom_count_tags": (_INT64, [_POINTER, _INT64, _INT64, _INT64, _POINTER]),
}


@cache
def library() -> ctypes.CDLL | None:
    """The shared object beside this file; None where it was not built or cannot be loaded."""
    if sys.byteorder != "little":
        return None
    for suffix in EXTENSION_SUFFIXES:
        path = Path(__file__).with_name(f"_inceptionn{suffix}")
        if not path.exists():
            continue
        try:
            loaded = ctypes.CDLL(str(path))
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError):
            continue
        return loaded
    return None
