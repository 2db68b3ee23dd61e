"""Designs that a search has found, kept on disk by the content of what was asked.

A design is a few numbers; its trees grow again in a fraction of a second. Files are written aside and renamed, so that
processes may share the folder and none sees half a file; one that cannot be read is searched for again.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lightloom.collectives.synthesis.hubs import Level
from lightloom.collectives.synthesis.trees import Design
from lightloom.core.errors import ConfigError
from lightloom.core.files import cache_directory, write_atomically
from lightloom.core.provenance import content_hash

_VERSION = 1
"""Of the search: a better one must not find what a worse one has kept."""
_MOST_PIECES = 64


def design_path(question: Any) -> Path:
    """Where the answer to a question, any JSON, is kept."""
    return cache_directory() / "synthesis" / f"{content_hash([question, _VERSION])}.json"


def read_design(question: Any) -> Design | None:
    """The design that was kept, or None."""
    try:
        document = json.loads(design_path(question).read_text())
        chords = tuple(Level(*(int(number) for number in each)) for each in document.pop("chords"))
        design = Design(chords, **document)
        sound = 1 <= design.pieces <= _MOST_PIECES and (design.longest is None or design.longest >= 1)
        return design if sound and design.walk >= 0 and design.slack > 0 else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def keep_design(question: Any, design: Design) -> None:
    """Keep an answer; where the folder cannot be written, it will be searched for again."""
    document = asdict(design) | {"chords": [list(each) for each in design.chords]}
    try:
        write_atomically(design_path(question), json.dumps(document))
    except ConfigError:
        return
