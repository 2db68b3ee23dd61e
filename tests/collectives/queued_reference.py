"""A second replay of queued schedules, with Python sets alone, and small schedules written row by row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule.columns import COLUMNS, Folding, Schedule
from lightloom.machines.fabrics.wdm_ring import WdmRing

Row = dict[str, int]


def accepted(schedule: Schedule, fabric: WdmRing) -> bool:
    """Whether the circuits never clash and the data ends where it should; nothing folded."""
    rows = [{name: int(getattr(schedule, name)[i]) for name in COLUMNS} for i in range(len(schedule))]
    return _circuits_agree(rows, fabric) and _data_arrives(rows, schedule)


def _circuits_agree(rows: list[Row], fabric: WdmRing) -> bool:
    same: dict[int, tuple[int, ...]] = {}
    ends: dict[int, set[int]] = defaultdict(set)
    holder: dict[tuple[int, int, int], int] = {}
    names = ("source", "route", "fibre", "first_wavelength", "wavelength_count")
    for row in rows:
        beyond = row["first_wavelength"] + row["wavelength_count"] > fabric.wavelengths
        if row["source"] == row["destination"] or beyond:
            return False
        this = tuple(row[name] for name in names)
        if same.setdefault(row["lightpath"], this) != this:
            return False
        ends[row["lightpath"]].add(row["destination"])
    for path, (source, route, _, first, count) in same.items():
        left, at = set(ends[path]), source
        if len(left) > fabric.multicast_taps:
            return False
        while left:
            link = at if route == 0 else (at - 1) % fabric.ranks
            for channel in range(first, first + count):
                if holder.setdefault((route, link, channel), path) != path:
                    return False
            at = (at + (1 if route == 0 else -1)) % fabric.ranks
            left.discard(at)
    return True


def _conditions(schedule: Schedule) -> tuple[dict[tuple[int, int], frozenset[int]], Any]:
    """Contributions held before, and who must hold everything after."""
    ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, str(schedule.collective.kind)
    owner = {c: c // max(chunks // ranks, 1) for c in range(chunks)}
    cells = [(rank, c) for rank in range(ranks) for c in range(chunks)]
    if kind == "all-to-all":
        reader = {c: c % (chunks // ranks) // (chunks // ranks**2) for c in range(chunks)}
        return {(u, c): frozenset([0] if u == owner[c] else []) for u, c in cells}, [(reader[c], c) for c in owner]
    if kind in ("all-gather", "broadcast"):
        root = {c: 0 if kind == "broadcast" else owner[c] for c in owner}
        return {(u, c): frozenset([0] if u == root[c] else []) for u, c in cells}, cells
    ends = {"reduce": [(0, c) for c in owner], "reduce-scatter": [(owner[c], c) for c in owner]}.get(kind, cells)
    return {(u, c): frozenset([u]) for u, c in cells}, ends


def _data_arrives(rows: list[Row], schedule: Schedule) -> bool:
    held, ends = _conditions(schedule)
    whole = frozenset().union(*held.values())
    queues: dict[int, list[Row]] = defaultdict(list)
    owed: dict[tuple[int, int], int] = defaultdict(int)
    for row in sorted(rows, key=lambda each: each["step"]):
        queues[row["lightpath"]].append(row)
        owed[row["destination"], row["chunk"]] += row["reduces"]
    moved = True
    while moved:
        moved = False
        for queue in queues.values():
            while queue:
                row = queue[0]
                cell, to = (row["source"], row["chunk"]), (row["destination"], row["chunk"])
                if owed[cell] or (not row["reduces"] and held[cell] != whole):
                    break
                if not held[cell] or (row["reduces"] and (not held[to] or held[to] & held[cell])):
                    return False
                if row["reduces"]:
                    held[to] |= held[cell]
                    owed[to] -= 1
                    held[cell] = frozenset()
                elif held[to] or owed[to]:
                    return False
                else:
                    held[to] = whole
                queue.pop(0)
                moved = True
    return all(held[cell] == whole for cell in ends) and not any(queues.values())


def of_rows(collective: Collective, chunks: int, rows: Sequence[tuple[int, ...]], folding: Folding | None) -> Schedule:
    """A queued schedule of (lightpath, source, destination, route, wavelength, chunk, reduces), queued as listed."""
    table = np.array(rows, np.int64).reshape(-1, 7)
    path, source, destination, route, channel, chunk, reduces = table.T
    return Schedule(
        algorithm="by hand",
        collective=collective,
        chunks=chunks,
        steps=len(rows),
        step=_places(path, chunk),
        lightpath=path,
        source=source,
        destination=destination,
        route=route,
        fibre=0 * path,
        first_wavelength=channel,
        wavelength_count=1 + 0 * path,
        chunk=chunk,
        reduces=reduces,
        queued=True,
        folding=folding,
    )


def _places(path: Any, chunk: Any) -> Any:
    """A queue place for each row; rows of one chunk that follow each other on a lightpath share theirs."""
    places: list[int] = []
    last: dict[int, tuple[int, int]] = {}
    for i, (on, what) in enumerate(zip(path.tolist(), chunk.tolist(), strict=True)):
        if on not in last or last[on][0] != what:
            last[on] = what, i
        places.append(last[on][1])
    return np.array(places, np.int64)


def exchanged(ranks: int, pieces: int, period: int, nbytes: float) -> Schedule:
    """An all-to-all over unit links, the short way, folded every so many ranks."""
    rows = []
    block, ahead = ranks * pieces, ranks // 2
    for sender in range(period):
        for hop in range(ahead):
            for distance in range(hop + 1, ahead + 1):
                for way in (0, 1):
                    if way == 1 and 2 * distance == ranks:
                        continue
                    sign = 1 - 2 * way
                    owner, to = (sender - sign * hop) % ranks, (sender + sign * (distance - hop)) % ranks
                    on = sender * 2 + way
                    rows += [
                        (on, sender, (sender + sign) % ranks, way, 0, owner * block + to * pieces + piece, 0)
                        for piece in range(pieces)
                    ]
    channel = np.zeros((ranks // period, 2 * period), np.int32)
    return of_rows(Collective("all-to-all", ranks, nbytes), ranks * block, rows, Folding(period, channel))


def tapped(ranks: int, taps: int, nbytes: float) -> Schedule:
    """An all-gather in which every rank's light is tapped by the next ones, one way; the last tap sends it on.

    Needs as many wavelengths as taps, or one more where they do not divide the ranks; folded every rank.
    """
    rows = []
    for hop in range(0, ranks - 1, taps):
        owner = -hop % ranks
        rows += [(0, 0, tap, 0, 0, owner, 0) for tap in range(1, min(taps, ranks - 1 - hop) + 1)]
    blocks = ranks // taps
    starts = np.array([i * ranks // blocks for i in range(blocks)])
    own = np.arange(ranks)
    channel = own - starts[np.searchsorted(starts, own, side="right") - 1]
    folding = Folding(1, channel[:, None].astype(np.int32))
    return of_rows(Collective("all-gather", ranks, nbytes), ranks, rows, folding)


def chained(kind: Any, ranks: int, chunks: int, nbytes: float) -> Schedule:
    """A broadcast down a chain of unit links, or a reduce up the same chain the other way."""
    rows = []
    for rank in range(ranks - 1):
        for chunk in range(chunks):
            down = (rank, rank, rank + 1, 0, 0, chunk, 0)
            rows.append(down if kind == "broadcast" else (rank, rank + 1, rank, 1, 0, chunk, 1))
    return of_rows(Collective(kind, ranks, nbytes), chunks, rows, None)
