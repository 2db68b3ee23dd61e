"""Trees become a queued schedule: rows of one period of ranks, on circuits that stand throughout.

A reduce-scatter runs the all-gather backwards on the circuits of the other direction, and an all-reduce queues the one
behind the other on each circuit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.folding import Folding
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.hubs import Circuits, hub_ranks
from lightloom.collectives.synthesis.engine.trees import Trees
from lightloom.fabrics.base import Fabric

_Rows = dict[str, Any]


def ring_schedule(
    name: str, collective: Collective, fabric: Fabric, trees: Trees, notes: tuple[str, ...] = ()
) -> Schedule:
    """The schedule of any of the three kinds, not yet verified."""
    circuits, pieces = trees.circuits, len(trees.parent)
    gather = _gather_rows(trees)
    scatter = _reversed(gather, circuits, pieces)
    parts = {"all-gather": [gather], "reduce-scatter": [scatter], "all-reduce": [scatter, gather]}[collective.kind]
    rows, used, path, step = in_queues(parts)
    channel = copied_channels(circuits, used)
    return Schedule(
        algorithm=name,
        collective=collective,
        chunks=collective.ranks * pieces,
        steps=int(step.max(initial=0)) + 1,
        step=step,
        lightpath=path,
        source=rows["source"],
        destination=rows["destination"],
        route=rows["route"],
        fibre=channel[0, path] // fabric.fibre_channels,
        first_wavelength=channel[0, path] % fabric.fibre_channels,
        wavelength_count=circuits.width[used // (2 * circuits.period)][path],
        chunk=rows["chunk"],
        reduces=rows["reduces"],
        queued=True,
        folding=Folding(circuits.period, channel),
        notes=notes,
    )


def in_queues(parts: Sequence[_Rows]) -> tuple[_Rows, Any, Any, Any]:
    """Rows of parts that follow each other on every circuit, by circuit and by ``when`` in a part; the circuits that
    are used, and of each row the place of its circuit among them and its own place in the queue."""
    rows = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    phase = np.repeat(np.arange(len(parts)), [len(part["when"]) for part in parts])
    order = np.lexsort((rows["when"], phase, rows["lightpath"]))
    rows = {key: column[order] for key, column in rows.items()}
    used, path = np.unique(rows["lightpath"], return_inverse=True)
    return rows, used, path, np.arange(len(path)) - np.searchsorted(path, np.arange(len(used)))[path]


def _gather_rows(trees: Trees) -> _Rows:
    """Rows of senders in the first period, turned there from wherever in the tree they are."""
    circuits, (pieces, period, ranks) = trees.circuits, trees.parent.shape
    piece, root, rank = np.nonzero(trees.parent >= 0)
    sender = trees.parent[piece, root, rank].astype(np.int64)
    turn = sender - sender % period
    lightpath = trees.circuit[piece, root, rank].astype(np.int64)
    return {
        "lightpath": lightpath,
        "source": sender - turn,
        "destination": (rank - turn) % ranks,
        "route": lightpath // period % 2,
        "chunk": (root - turn) % ranks * pieces + piece,
        "reduces": np.zeros(len(piece), np.bool_),
        "when": trees.begin[piece, root, rank],
        "level": lightpath // (2 * circuits.period),
    }


def _reversed(gather: _Rows, circuits: Circuits, pieces: int) -> _Rows:
    """Every send the other way, in the opposite order."""
    period, ranks = circuits.period, circuits.ranks
    source = gather["destination"] % period
    turn = gather["destination"] - source
    owner, piece = np.divmod(gather["chunk"], pieces)
    route = 1 - gather["route"]
    return gather | {
        "lightpath": (gather["level"] * 2 + route) * period + source,
        "source": source,
        "destination": (gather["source"] - turn) % ranks,
        "route": route,
        "chunk": (owner - turn) % ranks * pieces + piece,
        "reduces": np.ones(len(source), np.bool_),
        "when": -gather["when"],
    }


def copied_channels(circuits: Circuits, used: Any) -> Any:
    """First channel of every copy of each lightpath: [copy, lightpath]."""
    ranks, period = circuits.ranks, circuits.period
    copies = ranks // period
    level, way, rank = used // (2 * period), used // period % 2, used % period
    found = np.zeros((copies, len(used)), np.int32)
    for each in np.unique(level):
        hubs = circuits.levels[each].hubs
        number = np.full(ranks, -1, np.int64)
        number[hub_ranks(ranks, hubs)] = np.arange(hubs)
        mine = np.flatnonzero(level == each)
        at = number[(rank[mine] + np.arange(copies)[:, None] * period) % ranks]
        # Counter-clockwise chords lie over the clockwise ones that lead to where they start.
        at = np.where(way[mine] == 1, (at - circuits.levels[each].skip) % hubs, at)
        found[:, mine] = circuits.channel(int(each), at)
    return found
