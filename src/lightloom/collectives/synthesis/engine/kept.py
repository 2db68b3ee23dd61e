"""What searches have found, kept on disk by the content of what was asked: designs, and whole schedules.

A design is a few numbers, which several collectives share; a schedule spares growing its trees again. Files are written
aside and renamed, so that processes may share the folder and none sees half a file; one that cannot be read is searched
for again.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.folding import Folding
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.hubs import Level
from lightloom.collectives.synthesis.engine.trees import Design
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.files import cache_directory, write_atomically
from lightloom.core.provenance import content_hash

_VERSION = 3
"""Of the search: a better one must not find what a worse one has kept."""
_MOST_PIECES = 64
_MOST_ROWS = 1 << 23
"""Of a schedule that is kept; a row takes 28 bytes."""
_FIELDS = ("algorithm", "chunks", "steps", "queued", "notes")


def kept_path(question: Any, suffix: str = ".json") -> Path:
    """Where the answer to a question, any JSON, is kept."""
    return cache_directory() / "synthesis" / f"{content_hash([question, _VERSION])}{suffix}"


def read_design(question: Any) -> Design | None:
    """The design that was kept, or None."""
    try:
        document = json.loads(kept_path(question).read_text())
        chords = tuple(Level(*(int(number) for number in each)) for each in document.pop("chords"))
        design = Design(chords, **document)
        sound = 1 <= design.pieces <= _MOST_PIECES and (design.longest is None or design.longest >= 1)
        return design if sound and design.walk >= 0 and design.slack > 0 else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def keep_design(question: Any, design: Design) -> None:
    """Keep an answer; where the folder cannot be written, it will be searched for again."""
    document = asdict(design) | {"chords": [list(each) for each in design.chords]}
    _keep(kept_path(question), json.dumps(document))


def read_schedule(question: Any) -> Schedule | None:
    """The schedule that was kept, to be verified, or None."""
    try:
        # Opened here, as NumPy leaves a file open that it cannot read.
        with kept_path(question, ".npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            columns = {name: arrays[name] for name in arrays.files}
        said = json.loads(str(columns.pop("fields")))
        period, channel = said.pop("period"), columns.pop("channel", None)
        dependencies = columns.pop("dependencies", None)
        return Schedule(
            **columns,
            **said | {"collective": Collective(*said["collective"]), "notes": tuple(said["notes"])},
            folding=None if channel is None else Folding(period, channel),
            dependencies=dependencies,
        )
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, InputError):
        return None


def keep_schedule(question: Any, schedule: Schedule) -> None:
    """Keep an answer of up to eight million rows; where the folder cannot be written, it will be searched for
    again."""
    if len(schedule) > _MOST_ROWS:
        return
    wanted, folding = schedule.collective, schedule.folding
    said = {name: getattr(schedule, name) for name in _FIELDS}
    said |= {"collective": [wanted.kind, wanted.ranks, wanted.nbytes], "period": folding and folding.period}
    arrays = schedule.columns() | {"fields": np.array(json.dumps(said))}
    arrays |= {} if folding is None else {"channel": folding.channel}
    arrays |= {} if schedule.dependencies is None else {"dependencies": schedule.dependencies}
    content = BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    _keep(kept_path(question, ".npz"), content.getvalue())


def _keep(path: Path, content: str | bytes) -> None:
    try:
        write_atomically(path, content)
    except ConfigError:
        return
