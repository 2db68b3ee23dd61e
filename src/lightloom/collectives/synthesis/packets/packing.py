"""Trees packed onto the links of any packet fabric: one for every chunk, each where links are least busy.

    chunks ──► a tree for each, then each anew among the others ──► rows, every one after its parent ──► list schedule

A reduce-scatter runs trees backwards that are packed onto the links of the opposite transfers, a reduce likewise, and
an all-reduce does the one and then the other.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.schedule.barriers import lightpaths_of
from lightloom.collectives.schedule.build import Rows, joined
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import ROOTED, Collective
from lightloom.collectives.synthesis.packets.order import listed
from lightloom.collectives.synthesis.packets.transfers import Transfers
from lightloom.core.arrays import Int32s, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric

_SWEEPS = 1
"""Times that every tree is grown anew among the others."""


def packed(collective: Collective, fabric: Fabric, pieces: int, hurry: float) -> Schedule:
    """A queued schedule over packed trees, not yet verified.

    Args:
        pieces: trees for the data of each root, equal parts of which they carry.
        hurry: seconds of a busier link that a second of later arrival counts for.

    Raises:
        UnsupportedError: an all-to-all, which no trees carry, or transfers that do not join all ranks.
    """
    kind, ranks = collective.kind, collective.ranks
    if kind == "all-to-all":
        raise UnsupportedError("trees carry what several ranks receive or add, not an all-to-all")
    roots = 1 if kind in ROOTED else ranks
    nbytes = max(collective.nbytes, 1.0) / (roots * pieces)
    parts: list[Rows] = []
    if kind in ("reduce-scatter", "all-reduce", "reduce"):
        parts.append(_rows(fabric, roots, pieces, nbytes, hurry, backward=True))
    if kind in ("all-gather", "all-reduce", "broadcast"):
        parts.append(_rows(fabric, roots, pieces, nbytes, hurry, backward=False))
    if len(parts) == 2:
        parts[1] = parts[1]._replace(step=parts[1].step + int(parts[0].step.max()) + 1)
    rows = joined(parts)
    schedule = Schedule(
        algorithm="synthesized",
        collective=collective,
        chunks=roots * pieces,
        steps=int(rows.step.max()) + 1,
        step=rows.step,
        lightpath=lightpaths_of(fabric, rows.source, rows.destination, rows.route),
        source=rows.source,
        destination=rows.destination,
        route=rows.route,
        fibre=rows.channel,
        first_wavelength=rows.channel,
        wavelength_count=rows.width,
        chunk=rows.chunk,
        reduces=rows.reduces,
        queued=True,
        notes=(f"{len(parts[0].step) // (ranks - 1)} trees packed onto the links, {_each(pieces, kind)}",),
    )
    return listed(schedule, fabric)


def _each(pieces: int, kind: str) -> str:
    return f"{pieces} for {'all data' if kind in ROOTED else 'every share'}"


def _rows(fabric: Fabric, roots: int, pieces: int, nbytes: float, hurry: float, *, backward: bool) -> Rows:
    """The receptions of trees, or with ``backward`` their sends towards the roots, in steps by depth."""
    from lightloom.collectives.synthesis.packets import _packing_kernels as kernels

    transfers = Transfers.of(fabric, backward=backward)
    # All roots have a tree before one has its second, so that links fill up alike.
    chunk = np.arange(roots * pieces).reshape(roots, pieces).T.ravel()
    tap, load = np.empty((len(chunk), fabric.ranks), np.int32), np.empty(fabric.links)
    if not kernels.pack(transfers, chunk // pieces, nbytes, hurry, _SWEEPS, tap, load):
        raise UnsupportedError(f"transfers do not join all {fabric.ranks} ranks of this {fabric.kind_name}")
    number, rank = np.nonzero(tap >= 0)
    taken = tap[number, rank].astype(np.int64)
    depth = _depths(tap, transfers.source)[number, rank] - 1
    ends = transfers.source[taken], rank
    source, destination = ends[::-1] if backward else ends
    step = int(depth.max()) - depth if backward else depth
    nothing = np.zeros(len(taken), np.int16)
    reduces = np.full(len(taken), backward)
    return Rows(step, nothing, source, destination, transfers.route[taken], nothing, nothing, chunk[number], reduces)


def _depths(tap: Int32s, source: Ints) -> Ints:
    """Links of the tree above each rank: [chunk, rank]."""
    depth = np.where(tap < 0, 0, -1)
    parent = source[np.maximum(tap, 0)]
    while (depth < 0).any():
        above = np.take_along_axis(depth, parent, axis=1)
        depth = np.where((depth < 0) & (above >= 0), above + 1, depth)
    return depth
