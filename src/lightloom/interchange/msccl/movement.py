"""What moves between GPUs in a run, as rows of a schedule and the order that they must keep.

A schedule knows one value for each rank and chunk, a program any number of copies in three buffers. Every value of a
run is a sum of the GPU's own data and of arrivals; copies are the same value, and a sum made after an arrival is made
when it arrives. What a GPU sends of a chunk, and has of it in the end, then follow each other as versions:

    version 1    own data                      sent by rows ...
    version 2    own data + arrival 4          sent by rows ...
    version 3    arrival 9, which replaces it  in the end

A row that brings a part of a version comes before all rows that send it, and not before those that send the version
before. A GPU that holds two sums of a chunk which do not follow each other has no such order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from lightloom.core.errors import UnsupportedError
from lightloom.interchange.msccl.run import Run
from lightloom.interchange.msccl.values import OWN, Value

Cell = tuple[int, int]
"""GPU and chunk."""
Uses = dict[frozenset[int], tuple[int, list[int]]]
"""Values of a cell by their parts: contributors, and the rows that send it."""


class Row(NamedTuple):
    """One chunk that one GPU sends another."""

    source: int
    destination: int
    chunk: int
    reduces: bool


@dataclass(frozen=True, slots=True)
class Movement:
    """Rows of a run, and edges (before, after, 1 if the row after needs a later step) between nodes.

    The nodes are the rows and, numbered after them, points between the versions of a chunk.
    """

    rows: list[Row]
    edges: list[tuple[int, int, int]]
    nodes: int


class _Version(NamedTuple):
    contributors: int
    brought: frozenset[int]
    """Rows that this version adds to the one before, or that make it from nothing."""
    stored: int
    """Row that replaces the version before; -1 if none does."""
    readers: list[int]


def movement_of(run: Run, where: str) -> Movement:
    """Return what moves in a run.

    Raises:
        UnsupportedError: a GPU uses two sums of one chunk side by side, or sends what no one uses; names the line.
    """
    used, final = _uses(run)
    versions = {cell: _versions(run, cell, uses, final.get(cell), where) for cell, uses in used.items()}
    stored = {version.stored for chain in versions.values() for version in chain}
    brought = {row for chain in versions.values() for version in chain for row in version.brought}
    rows = []
    for number, arrival in enumerate(run.arrivals):
        if number not in brought or not isinstance(arrival.content, Value):
            what = "receives a chunk that it does not use: a schedule brings every value once"
            _refuse(where, arrival.line, arrival.destination, f"{what}; leave this receive and its send out")
        rows.append(Row(arrival.source, arrival.destination, arrival.content.chunk, number not in stored))
    edges: list[tuple[int, int, int]] = []
    nodes = len(rows)
    for chain in versions.values():
        nodes = _order(chain, rows, edges, nodes)
    return Movement(rows, edges, nodes)


def _refuse(where: str, line: int, rank: int, complaint: str) -> NoReturn:
    raise UnsupportedError(f"{where}{f', line {line}' if line else ''}: GPU {rank}: {complaint}")


def _uses(run: Run) -> tuple[dict[Cell, Uses], dict[Cell, int]]:
    """Return the values of each cell that are sent or final, and the contributors of the final ones."""
    used: dict[Cell, Uses] = defaultdict(dict)
    final: dict[Cell, int] = {}
    for number, arrival in enumerate(run.arrivals):
        value = arrival.content
        if isinstance(value, Value):
            readers = used[arrival.source, value.chunk].setdefault(value.parts, (value.contributors, []))[1]
            readers.append(number)
    for rank, k, chunk, contributors in run.condition.expected(run.root):
        value = run.memory[run.condition.place(rank, "o", k)]
        assert isinstance(value, Value)
        used[rank, chunk].setdefault(value.parts, (contributors, []))
        final[rank, chunk] = contributors
    return used, final


def _versions(run: Run, cell: Cell, uses: Uses, final: int | None, where: str) -> list[_Version]:
    """Return what a GPU sends of a chunk, and has of it in the end, in the order in which it must have it."""
    versions: list[_Version] = []
    before, seen = OWN, set[int]()
    for parts in sorted(uses, key=lambda parts: (min(parts), len(parts))):
        contributors, readers = uses[parts]
        if before <= parts:
            brought, stored = parts - before, -1
        else:
            brought, stored = parts, min(parts)
        if brought >= OWN or brought & seen:
            _refuse_side_by_side(run, cell, seen | parts, where)
        if versions and versions[-1].contributors == contributors:
            what = f"receives the same sum of chunk {cell[1]} a second time"
            _refuse(where, run.arrivals[max(parts)].line, cell[0], f"{what}: a schedule brings every value once")
        seen |= brought
        before = parts
        versions.append(_Version(contributors, brought, stored, readers))
    if final is not None and versions[-1].contributors != final:
        _refuse_side_by_side(run, cell, seen, where)
    return versions


def _refuse_side_by_side(run: Run, cell: Cell, arrivals: Collection[int], where: str) -> NoReturn:
    line = run.arrivals[max(arrivals)].line
    what = f"keeps two sums of chunk {cell[1]} side by side, and a schedule has one value for a rank and chunk"
    _refuse(where, line, cell[0], f"{what}: 'schedule check' without --fabric checks such programs")


def _order(chain: list[_Version], rows: list[Row], edges: list[tuple[int, int, int]], nodes: int) -> int:
    """Append the edges that keep the versions of a chunk in order, and return the new number of nodes."""

    def between(before: list[int], after: list[int], later: int) -> None:
        nonlocal nodes
        if len(before) * len(after) <= len(before) + len(after):
            edges.extend((a, b, later) for a in before for b in after)
            return
        edges.extend((a, nodes, 0) for a in before)
        edges.extend((nodes, b, later) for b in after)
        nodes += 1

    previous = None
    for version in chain:
        first = [version.stored] if version.stored >= 0 else list(version.brought)
        added = [row for row in version.brought if row != version.stored] if version.stored >= 0 else []
        between([version.stored], added, 1)
        between(list(version.brought), version.readers, 1)
        if previous is not None:
            reduces = version.stored < 0
            between([row for row in previous.readers if rows[row].reduces == reduces], first, 0)
            between([row for row in previous.readers if rows[row].reduces != reduces], first, 1)
            if version.stored >= 0:
                between(list(previous.brought), first, 1)
        previous = version
    return nodes
