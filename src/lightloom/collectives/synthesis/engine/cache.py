"""Results of searches, cached on disk under a hash of the request: designs, and whole schedules.

A design is a few numbers, which several collectives share; a cached schedule saves growing its trees again. Files are
written under another name and then renamed, so that processes can share the folder and none reads half a file.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import cast

import numpy as np

from lightloom.collectives.files.document import CollectiveEntry, collective_entry
from lightloom.collectives.schedule.columns import ChunkLists, Folding, Pipeline, Schedule
from lightloom.collectives.synthesis.engine.trees import Design, Level
from lightloom.core.cache import cache_directory, read_entry, write_entry
from lightloom.core.errors import InputError
from lightloom.core.results import content_hash

_VERSION = 14
"""Version of the search; raised when it improves, so that results of an older search are not used."""
_MOST_PIECES = 64
_MOST_ROWS = 1 << 23
"""Most rows of a schedule that is cached; a row takes 28 bytes."""
Chords = tuple[tuple[int, ...], int, float]
"""A circulant graph: lengths of chords, pieces, slack."""
_FIELDS = ("algorithm", "chunks", "steps", "queued", "notes")
_OF_LISTS = ("chunks", "first", "count")


def cache_path(request: object, suffix: str = ".json") -> Path:
    """Return the path of the cached result of a request, which may be any JSON value."""
    return cache_directory() / "synthesis" / f"{content_hash([request, _VERSION])}{suffix}"


def read_design(request: object) -> tuple[Design, Chords | None] | None:
    """Return the cached design, with the circulant graph that is faster if there is one; or None."""
    content = read_entry(cache_path(request))
    if content is None:
        return None
    try:
        document = json.loads(content)
        chords = tuple(Level(*(int(number) for number in chord)) for chord in document.pop("chords"))
        circulant = _circulant(document.pop("circulant"))
        design = Design(chords, **document)
        sound = 1 <= design.pieces <= _MOST_PIECES and (design.longest is None or design.longest >= 1)
        return (design, circulant) if sound and design.walk >= 0 and design.slack > 0 else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _circulant(document: object) -> Chords | None:
    """Return the circulant graph of a cached JSON value, or None for null; raise ValueError where it is unsound."""
    if document is None:
        return None
    skips, pieces, slack = cast(Chords, document)
    lengths = tuple(int(skip) for skip in skips)
    if not lengths or min(lengths) < 1 or not 1 <= pieces <= _MOST_PIECES or slack <= 0:
        raise ValueError(f"{document}: expected lengths of chords, pieces and slack")
    return lengths, pieces, slack


def write_design(request: object, design: Design, circulant: Chords | None) -> None:
    """Cache a design, and the circulant graph that is faster."""
    document = asdict(design) | {"chords": [list(chord) for chord in design.chords], "circulant": circulant}
    write_entry(cache_path(request), json.dumps(document))


def read_schedule(request: object) -> Schedule | None:
    """Return the cached schedule, not yet verified, or None."""
    content = read_entry(cache_path(request, ".npz"))
    if content is None:
        return None
    try:
        with np.load(BytesIO(content), allow_pickle=False) as arrays:
            columns = {name: arrays[name] for name in arrays.files}
        metadata = json.loads(str(columns.pop("fields")))
        period, axes, channel = metadata.pop("period"), metadata.pop("axes"), columns.pop("channel", None)
        pipeline, notes = metadata.pop("pipeline"), tuple(metadata.pop("notes"))
        collective = CollectiveEntry.model_validate(metadata.pop("collective")).collective()
        dependencies = columns.pop("dependencies", None)
        lists = [columns.pop(f"lists_{name}", None) for name in _OF_LISTS]
        return Schedule(
            **columns,
            **metadata,
            collective=collective,
            notes=notes,
            folding=None if channel is None else Folding(period, channel, tuple(axes)),
            dependencies=dependencies,
            pipeline=pipeline and Pipeline(*pipeline),
            lists=None if lists[0] is None else ChunkLists(*lists),
        )
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, InputError):
        return None


def write_schedule(request: object, schedule: Schedule) -> None:
    """Cache a schedule of up to eight million rows."""
    if len(schedule) > _MOST_ROWS:
        return
    folding, lists = schedule.folding, schedule.lists
    metadata = {name: getattr(schedule, name) for name in _FIELDS}
    metadata |= {
        "collective": collective_entry(schedule.collective),
        "period": folding and folding.period,
        "axes": [] if folding is None else list(folding.axes),
        "pipeline": schedule.pipeline and [schedule.pipeline.pieces, schedule.pipeline.interval],
    }
    arrays = schedule.columns() | {"fields": np.array(json.dumps(metadata))}
    arrays |= {} if folding is None else {"channel": folding.channel}
    arrays |= {} if schedule.dependencies is None else {"dependencies": schedule.dependencies}
    arrays |= {} if lists is None else {f"lists_{name}": getattr(lists, name) for name in _OF_LISTS}
    content = BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_entry(cache_path(request, ".npz"), content.getvalue())
