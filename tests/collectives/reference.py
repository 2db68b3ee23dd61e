"""A slow, obvious replay of a schedule with Python sets; it shares nothing with the verifier."""

from __future__ import annotations

from collections import defaultdict

from lightloom.collectives.schedule.columns import Schedule
from lightloom.machines.fabrics.fabric import CLOCKWISE
from lightloom.machines.fabrics.wdm_ring import WdmRing


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
    stores = kind not in ("reduce-scatter", "reduce-scatter-v", "all-reduce", "reduce")
    everyone = frozenset(range(n))
    before, after = zip(*(_holders(schedule, chunk) for chunk in range(schedule.chunks)), strict=True)
    held: dict[tuple[int, int], frozenset[int]] = defaultdict(frozenset)
    for chunk in range(schedule.chunks):
        for rank in before[chunk]:
            held[rank, chunk] = frozenset([rank])
    steps = defaultdict(list)
    for row in _rows(schedule):
        steps[row["step"]].append(row)
    if stores and schedule.reduces.any():
        return False
    for step in sorted(steps):
        earlier = dict(held)
        written: dict[tuple[int, int], bool] = {}
        for row in steps[step]:
            came = earlier.get((row["source"], row["chunk"]), frozenset())
            place = row["destination"], row["chunk"]
            have = held[place]
            if not came or (written.get(place) is not None and not (written[place] and row["reduces"])):
                return False
            if (came & have) if row["reduces"] else (have == came or (have and came != everyone)):
                return False
            held[place] = have | came
            written[place] = bool(row["reduces"])
    for chunk in range(schedule.chunks):
        for rank in after[chunk]:
            if held[rank, chunk] != (before[chunk] if stores else everyone):
                return False
    return True


def _holders(schedule: Schedule, chunk: int) -> tuple[frozenset[int], frozenset[int]]:
    """Who holds a chunk before, and who must after."""
    n, kind = schedule.collective.ranks, schedule.collective.kind
    everyone, root = frozenset(range(n)), frozenset([0])
    share = max(schedule.chunks // n, 1)
    own = frozenset([chunk // share % n])
    if kind in ("all-to-all", "all-to-all-v"):
        reader, sizes = chunk % share // max(share // n, 1), schedule.collective.sizes
        # Parts without bytes need not move.
        return own, frozenset([reader]) if sizes is None or sizes.share[min(own), reader] > 0 else own
    if kind == "permute":
        assert schedule.collective.destinations is not None
        return own, frozenset([schedule.collective.destinations[chunk // share]])
    return {
        "all-gather": (own, everyone),
        "barrier": (own, everyone),
        "reduce-scatter": (everyone, own),
        "reduce-scatter-v": (everyone, own),
        "all-reduce": (everyone, everyone),
        "broadcast": (root, everyone),
        "reduce": (everyone, root),
        "gather": (own, root),
        "scatter": (root, own),
    }[kind]
