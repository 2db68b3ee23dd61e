"""How much a search may do, and its results cached on disk under a hash of the request: designs, and whole schedules.

Effort is counted in what a search tries, not in seconds, so that the same question has the same answer. A design is a
few numbers, which several collectives share; a cached schedule saves growing its trees again. Entries carry a digest
(:mod:`lightloom.core.files`), so that what can be read is as it was written.
"""

import json
from dataclasses import asdict
from io import BytesIO
from pathlib import Path

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule.columns import ChunkLists, Folding, Pipeline, Schedule
from lightloom.collectives.synthesis.engine.trees import Design, Level
from lightloom.core.files import cache_directory, read_entry, write_entry
from lightloom.core.results import content_hash

SCALE = 1.0
"""Factor by which every search's effort is multiplied; tests and examples lower it."""
_TRANSFERS = 6_000_000
"""Transfers that a search over schedules may schedule; about five CPU seconds."""
_RANKS = 300
"""Ranks up to which a search has its least effort; it grows with the ranks from there."""


def effort(ranks: int) -> int:
    """Return the number of transfers that a search among so many ranks may schedule: six million up to 300 ranks, above
    in proportion to the ranks, and all of it multiplied by :data:`SCALE`."""
    return scaled(_TRANSFERS * max(1.0, ranks / _RANKS))


def scaled(effort: float) -> int:
    """Return an effort, a number of things that a search may try, multiplied by :data:`SCALE` (1.0 unless changed) and
    rounded down."""
    return int(SCALE * effort)


_VERSION = 16
"""Version of the search; raised when it improves, so that results of an older search are not used."""
_MOST_ROWS = 1 << 23
"""Most rows of a schedule that is cached; a row takes 28 bytes."""
Chords = tuple[tuple[int, ...], int, float]
"""A circulant graph: lengths of chords, pieces, slack."""
_FIELDS = ("algorithm", "chunks", "steps", "queued", "notes")
_LIST_COLUMNS = {f"lists_{column}": column for column in ("chunks", "first", "count")}
"""Columns of lists of chunks by the names under which they are cached."""


def cache_path(request: object, suffix: str = ".json") -> Path:
    """Return the path of the cached result of a request, in the folder ``synthesis`` of the cache: a hash of the
    request and the search's version, with the suffix.

    ``request`` may be any JSON value; ``suffix`` is that of the file.
    """
    return cache_directory() / "synthesis" / f"{content_hash([request, _VERSION])}{suffix}"


def read_design(request: object) -> tuple[Design, Chords | None] | None:
    """Return the design cached under a request, any JSON value, in the file of :func:`cache_path`, and the circulant
    graph that is faster, or None where there is no such graph; None in place of both where nothing is cached or the
    entry is damaged.

    The graph is its lengths of chords, pieces and slack.

    Raises:
        ConfigError: the cache's folder belongs to somebody else or can be written by others.
    """
    content = read_entry(cache_path(request))
    if content is None:
        return None
    document = json.loads(content)
    chords, circulant = tuple(Level(*chord) for chord in document.pop("chords")), document.pop("circulant")
    return Design(chords, **document), circulant and (tuple(circulant[0]), *circulant[1:])


def write_design(request: object, design: Design, circulant: Chords | None) -> None:
    """Cache a design under a request, any JSON value, with the lengths of chords, pieces and slack of the circulant
    graph that is faster, or None; an entry that cannot be written is left out without an error."""
    write_entry(cache_path(request), json.dumps(asdict(design) | {"circulant": circulant}))


def read_schedule(request: object, collective: Collective) -> Schedule | None:
    """Return the schedule cached by :func:`write_schedule` under a request, any JSON value, with ``collective`` as its
    collective, not yet verified; None where nothing is cached or the entry is damaged.

    Raises:
        ConfigError: the cache's folder belongs to somebody else or can be written by others.
    """
    content = read_entry(cache_path(request, ".npz"))
    if content is None:
        return None
    with np.load(BytesIO(content), allow_pickle=False) as arrays:
        columns = {name: arrays[name] for name in arrays.files}
    fields = json.loads(str(columns.pop("fields")))
    folding, pipeline, channel = fields.pop("folding"), fields.pop("pipeline"), columns.pop("channel", None)
    lists = [columns.pop(name) for name in _LIST_COLUMNS if name in columns]
    return Schedule(
        **columns,
        **fields | {"notes": tuple(fields["notes"])},
        collective=collective,
        folding=None if channel is None else Folding(folding[0], channel, tuple(folding[1])),
        pipeline=pipeline and Pipeline(*pipeline),
        lists=ChunkLists(*lists) if lists else None,
    )


def write_schedule(request: object, schedule: Schedule) -> None:
    """Cache a schedule under a request, any JSON value, without its collective, as an ``.npz`` file at
    :func:`cache_path`.

    One of more than eight million stored rows is not written, and one that cannot be written is left out without an
    error.
    """
    if len(schedule) > _MOST_ROWS:
        return
    folding, pipeline, lists = schedule.folding, schedule.pipeline, schedule.lists
    fields = {name: getattr(schedule, name) for name in _FIELDS}
    fields |= {"folding": folding and [folding.period, folding.axes]}
    fields |= {"pipeline": pipeline and [pipeline.pieces, pipeline.interval]}
    arrays = schedule.columns() | {"fields": np.array(json.dumps(fields))}
    arrays |= {} if folding is None else {"channel": folding.channel}
    arrays |= {} if schedule.dependencies is None else {"dependencies": schedule.dependencies}
    arrays |= {} if lists is None else {name: getattr(lists, column) for name, column in _LIST_COLUMNS.items()}
    content = BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_entry(cache_path(request, ".npz"), content.getvalue())
