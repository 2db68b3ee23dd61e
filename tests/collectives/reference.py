"""A slow, obvious replay of a schedule with Python sets; it shares nothing with the verifier."""

from __future__ import annotations

from collections import defaultdict

from lightloom.collectives.schedule.columns import Schedule
from lightloom.fabrics.base import CLOCKWISE
from lightloom.fabrics.wdm_ring import WdmRing


def is_right(schedule: Schedule, fabric: WdmRing) -> bool:
    """Whether a barrier-stepped schedule on a WDM ring delivers exactly what it promises, legally."""
    schedule = schedule.unfolded(fabric.fibre_channels)
    return (
        _channels_are_exclusive(schedule, fabric) and _transceivers_suffice(schedule, fabric) and data_arrives(schedule)
    )


def _rows(schedule: Schedule) -> list[dict[str, int]]:
    columns = {name: column.tolist() for name, column in schedule.columns().items()}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _channels_are_exclusive(schedule: Schedule, fabric: WdmRing) -> bool:
    n = fabric.ranks
    holder: dict[tuple[int, int, int, int], int] = {}
    for row in _rows(schedule):
        at, stop = row["source"], row["destination"]
        ahead = 1 if row["route"] == CLOCKWISE else -1
        while at != stop:
            link = (at if ahead == 1 else at - 1) % n
            first = row["fibre"] * fabric.wavelengths + row["first_wavelength"]
            for channel in range(first, first + row["wavelength_count"]):
                if channel >= fabric.channels:
                    return False
                if holder.setdefault((row["step"], row["route"], link, channel), row["lightpath"]) != row["lightpath"]:
                    return False
            at = (at + ahead) % n
    return True


def _transceivers_suffice(schedule: Schedule, fabric: WdmRing) -> bool:
    used: dict[tuple[str, int, int], dict[tuple[int, ...], int]] = defaultdict(dict)
    for row in _rows(schedule):
        step, path, count = row["step"], row["lightpath"], row["wavelength_count"]
        used["sends", step, row["source"]][(path,)] = count
        used["receives", step, row["destination"]][path, row["destination"]] = count
    most = max((sum(paths.values()) for paths in used.values()), default=0)
    return fabric.transceivers is None or most <= fabric.transceivers


def data_arrives(schedule: Schedule) -> bool:
    """Whether a barrier-stepped schedule delivers exactly what it promises, legally or not."""
    n, kind = schedule.collective.ranks, schedule.collective.kind
    rooted, stores = kind in ("broadcast", "reduce"), kind in ("all-gather", "all-to-all", "broadcast")
    pieces = schedule.chunks if rooted else max(schedule.chunks // n, 1)
    held: dict[tuple[int, int], frozenset[int]] = defaultdict(frozenset)
    for chunk in range(schedule.chunks):
        for rank in range(n):
            if not stores or rank == chunk // pieces:
                held[rank, chunk] = frozenset([rank])
    everyone = frozenset(range(n))
    steps = defaultdict(list)
    for row in _rows(schedule):
        steps[row["step"]].append(row)
    if stores and schedule.reduces.any():
        return False
    for step in sorted(steps):
        before = dict(held)
        written: dict[tuple[int, int], bool] = {}
        for row in steps[step]:
            came = before.get((row["source"], row["chunk"]), frozenset())
            place = row["destination"], row["chunk"]
            have = held[place]
            if not came or (written.get(place) is not None and not (written[place] and row["reduces"])):
                return False
            if (came & have) if row["reduces"] else (have == came or (have and came != everyone)):
                return False
            held[place] = have | came
            written[place] = bool(row["reduces"])
    for chunk in range(schedule.chunks):
        for rank in range(n):
            wanted = frozenset([chunk // pieces]) if stores else everyone
            due = {
                "reduce-scatter": rank == chunk // pieces,
                "reduce": rank == 0,
                "all-to-all": rank == chunk % pieces // max(pieces // n, 1),
            }
            if due.get(kind, True) and held[rank, chunk] != wanted:
                return False
    return True
