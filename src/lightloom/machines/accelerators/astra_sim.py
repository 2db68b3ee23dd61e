"""System files of ASTRA-sim as accelerators: the peak rate and the memory bandwidth that its roofline computes with.

The newer form is JSON, the older one lines of ``name: value``. What they say besides is how that simulator schedules
collectives, of which a plan makes its own; it is listed, not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

from lightloom.core.documents import parse_json, read_text
from lightloom.core.errors import ConfigError

Fields: TypeAlias = dict[str, Any]
"""Fields of a file, as it states them."""

ORIGIN = "ASTRA-sim's system file"
"""How the source of such an accelerator begins."""
_TERA, _GIGA = 1e12, 1e9
_FORMATS = ("fp32", "tf32", "bf16", "fp16")
_ALGORITHMS = {
    "ring": "ring",
    "direct": "one-stage",
    "halvingDoubling": "halving-doubling",
    "doubleBinaryTree": "double-binary-tree",
}
"""Algorithm of this package for each implementation of a collective."""


def system_fields(path: Path) -> Fields:
    """Return the fields of an accelerator that a system file states, with a list of what is left out as its source.

    Raises:
        ConfigError: unreadable, or without a peak rate: most such files leave computing to the trace.
    """
    data = _read_system(path)
    bandwidth = _positive_rate(data, "local-mem-bw", path)
    peak = _positive_rate(data, "peak-perf", path)
    if peak is None:
        stated = "" if bandwidth is None else f" --set accelerator.memory_bandwidth={bandwidth:g}GB/s"
        raise ConfigError(
            f"{path}: {ORIGIN} without peak-perf says no rate of computing{_algorithms_text(data)}: expected an "
            f"accelerator that has one, such as --accelerator h100{stated}"
        )
    source = f"{ORIGIN} {path.name}"
    left = sorted(data.keys() - {"peak-perf", "local-mem-bw"})
    return {
        "name": path.stem,
        "peak": dict.fromkeys(_FORMATS, peak * _TERA),
        "memory_bandwidth": None if bandwidth is None else bandwidth * _GIGA,
        "efficiency": 1.0,
        "sources": {
            "name": f"{source}; not used of the file: {', '.join(left) or 'nothing'}{_algorithms_text(data)}",
            "peak": f"peak-perf of {source}; assumption: the same in every number format, of which it knows none",
            "memory_bandwidth": f"local-mem-bw of {source}",
            "efficiency": "assumption: 1, as ASTRA-sim's roofline has it",
        },
    }


def _read_system(path: Path) -> Fields:
    text = read_text(path)
    if path.suffix != ".json":
        lines = (line.partition(":") for line in text.splitlines() if ":" in line)
        return {name.strip(): _word(value.strip()) for name, _, value in lines}
    data = parse_json(text, str(path))
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected an object, found {type(data).__name__}")
    return data


def _word(text: str) -> float | str:
    return float(text) if re.fullmatch(r"[0-9.]+(e[+-]?[0-9]+)?", text) else text


def _positive_rate(data: Mapping[str, Any], name: str, path: Path) -> float | None:
    """Return a number above 0; None where the file does not state it, or states 0 for it."""
    value = data.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise ConfigError(f"{path}: {name}: {value!r}: expected a number above 0")
    return float(value) or None


def _algorithms_text(data: Mapping[str, Any]) -> str:
    """Say by which algorithms the file carries collectives, and how a plan takes the same ones."""
    words: dict[str, None] = {}
    for name, value in data.items():
        if name.endswith("-implementation"):
            parts = value if isinstance(value, list) else str(value).split("_")
            words |= dict.fromkeys(map(str, parts))
    options = [f"--algorithm {_ALGORITHMS[word]}" for word in words if word in _ALGORITHMS]
    if not words:
        return ""
    return f" (its collectives are {', '.join(words)}{': ' + ' '.join(options) if options else ''})"
