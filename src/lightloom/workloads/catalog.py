"""The zoo's index, without PyTorch: what each name is, its size, its source, and where the module is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooEntry:
    """One model of the zoo."""

    name: str
    description: str
    parameters: int
    """Published count; where the paper rounds, the exact count of the published layout."""
    source: str
    path: str
    """``module:factory``."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Given to the factory."""
    example: str
    """One sample, as used when nothing else is asked for."""
    sequence_length: int | None = None
    """Tokens in a sample; none for models that do not take tokens."""


_ENTRIES = json.loads((files(__package__) / "zoo.json").read_text(encoding="utf-8"))
ZOO: Mapping[str, ZooEntry] = {entry["name"]: ZooEntry(**entry) for entry in _ENTRIES}
"""Every model of the zoo, by name."""
