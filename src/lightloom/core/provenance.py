"""The provenance of a result: version, configuration hash, seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version

from lightloom.core.results import Document


def content_hash(value: object) -> str:
    """Return the first 16 hex digits of the SHA-256 of the value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def provenance_line(origin: Mapping[str, object]) -> str:
    """Return the provenance in one line, for terminals and the metadata of pictures."""
    seed = "none" if origin["seed"] is None else origin["seed"]
    return f"lightloom {origin['lightloom']}, configuration {origin['configuration']}, seed {seed}"


def provenance(configuration: object, seed: int | None = None) -> Document:
    """Return the ``provenance`` entry of an output; ``seed`` is null where nothing is drawn at random."""
    return {
        "lightloom": version("lightloom"),
        "configuration": content_hash(configuration),
        "seed": seed,
    }
