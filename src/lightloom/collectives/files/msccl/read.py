"""Programs of MSCCL as schedules.

A program has no steps for all GPUs. Steps come from what its messages carry and replace: a message comes in a later
step than those that brought what it carries, and in no earlier step than those that still send what it replaces.
Messages of one step are mapped to the fabric together, so that a program for switches gets wavelengths on a ring.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from lightloom.collectives.collective import CLASSIC, Collective, Kind
from lightloom.collectives.files.document import verified
from lightloom.collectives.files.msccl.check import Run, check
from lightloom.collectives.files.msccl.program import OWN, Program, Value, read_xml
from lightloom.collectives.files.msccl.rules import refuse
from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric

KINDS: dict[str, Kind] = dict(
    zip(("allgather", "reduce_scatter", "allreduce", "alltoall", "broadcast", "reduce"), CLASSIC, strict=True)
)
"""Kinds of collectives by the name that programs have for them."""


def check_program(path: Path) -> tuple[Program, list[Run]]:
    """Return the program in a file and its symbolic runs: one for each way in which the program says that its buffers
    may lie, in place before out of place, and out of place alone where it says neither.

    Raises:
        ConfigError: the program breaks a rule, does not run, or computes something else; names the line.
        UnsupportedError: a collective whose result is not defined.
    """
    program = read_xml(path)
    return program, check(program, str(path))


def read_program(path: Path, fabric: Fabric, nbytes: float) -> Schedule:
    """Return the verified schedule of a program on a fabric.

    A program that says that it runs in place is read so, else out of place. Copies and sums inside a GPU are left out.

    Args:
        path: XML file of the program.
        fabric: fabric with as many ranks as the program has GPUs.
        nbytes: bytes of the collective, as ``Collective.nbytes`` counts them: all data that each GPU has in its larger
            buffer, input or output.

    Raises:
        ConfigError: malformed, breaks a rule, waits forever, races, sends nothing, does not complete its collective,
            or has another number of GPUs than the fabric has ranks.
        UnsupportedError: a collective of no kind that schedules have, a root other than GPU 0, sums that no schedule
            can express, or a fabric that takes no such schedule.
    """
    program, (run, *_) = check_program(path)
    ranks, where = len(program.gpus), str(path)
    if run.condition.collective not in KINDS:
        raise UnsupportedError(f"{where}: collective {program.collective!r}: expected one of {', '.join(KINDS)}")
    kind = KINDS[run.condition.collective]
    if fabric.in_network_reduction:
        raise UnsupportedError(f"{where}: sends from GPU to GPU, and this fabric only reduces in the network")
    if ranks != fabric.ranks:
        raise ConfigError(f"{where}: {ranks} GPUs: the fabric has {fabric.ranks} ranks")
    if not run.arrivals:
        raise ConfigError(f"{where}: no message at all: expected a program of {program.collective}")
    if run.root:
        raise UnsupportedError(f"{where}: the root is GPU {run.root}: a schedule has it at rank 0; renumber the GPUs")
    movement, chunks = movement_of(run, where), program.chunks * (ranks if kind == "all-to-all" else 1)
    collective = Collective(kind, ranks, nbytes)
    logical = _logical_steps(movement.rows, _levels(movement, where), collective, fabric, chunks, where)
    note = f"read from {path.name}"
    if run.local_work:
        note += f"; its {' and '.join(run.local_work)} are work of the GPUs, which a schedule leaves out"
    schedule = assign_wavelengths(program.name or path.stem, collective, fabric, chunks, logical, notes=(note,))
    verified(schedule, fabric, where)
    return schedule


class _Levels(NamedTuple):
    """Steps of the rows of a run, and the order in which they must keep."""

    step: Ints
    """Step of each row."""
    part: Ints
    """Part of each row; rows of one part exchange their chunks and must be sent together."""
    place: Ints
    """Position of each part in an order that keeps all edges."""
    bound: frozenset[int]
    """Steps in which some rows must not come after others, so that they cannot be split freely."""


def _levels(movement: Movement, where: str) -> _Levels:
    """Return, for each row (one chunk sent from one GPU to another), the earliest step that keeps all edges, from 0,
    and the number of its part.

    A part is a strongly connected component of the edges: rows that must be sent together, as in an exchange. With
    them come the place of each part in an order that keeps all edges, and the steps that have an edge between two of
    their rows, so that these may share the step but not change places.

    Args:
        movement: rows and edges (before, after, 1 if after needs a later step than before, 0 if the same will do).
        where: name of the file, for messages.

    Raises:
        UnsupportedError: an edge within a part needs a later step, as messages overtake each other.
    """
    # Here, as most that import this module read no program.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    nodes, rows = movement.nodes, len(movement.rows)
    table = np.array(movement.edges, dtype=np.int64).reshape(-1, 3)
    graph = coo_array((np.ones(len(table)), (table[:, 0], table[:, 1])), shape=(nodes, nodes))
    count, part = connected_components(graph, directed=True, connection="strong")
    before, after, later = part[table[:, 0]], part[table[:, 1]], table[:, 2]
    if np.any((before == after) & (later == 1)):
        raise UnsupportedError(f"{where}: messages overtake each other: no order of steps is equivalent")
    between = before != after
    followers: dict[int, list[tuple[int, int]]] = defaultdict(list)
    waits = np.bincount(after[between], minlength=count)
    for a, b, more in zip(before[between].tolist(), after[between].tolist(), later[between].tolist(), strict=True):
        followers[a].append((b, more))
    level, place = np.zeros(count, np.int64), np.zeros(count, np.int64)
    ready = np.flatnonzero(waits == 0).tolist()
    for number in range(count):
        place[current := ready.pop()] = number
        for follower, more in followers[current]:
            level[follower] = max(level[follower], level[current] + more)
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(follower)
    step = level[part]
    earlier = step[table[:, 0]]
    tied = (later == 0) & (earlier == step[table[:, 1]]) & (table[:, 1] < rows)
    return _Levels(step[:rows], part[:rows].astype(np.int64), place, frozenset(earlier[tied].tolist()))


def _logical_steps(
    rows: list[Row], levels: _Levels, collective: Collective, fabric: Fabric, chunks: int, where: str
) -> list[Moves]:
    """Return the moves of a schedule, one entry for each of its steps in order: of each step of ``levels`` first the
    rows that add where they arrive, then, as an entry of its own, those that replace.

    Only an entry of a step in ``levels.bound``, whose rows may not be sent in any order, has to fit into one step of
    the fabric: it is halved between parts, never inside one, until it does. The caller has to split the others.

    Args:
        rows: rows of the run.
        levels: step and part of each row, order of the parts, and steps whose rows are tied (``bound``).
        collective: collective that the program runs.
        fabric: fabric whose channels a step must fit.
        chunks: chunks of all the collective's data.
        where: name of the file, for messages.

    Raises:
        UnsupportedError: rows that must be sent together do not fit.
    """
    order = np.lexsort((levels.place[levels.part], np.array([not row.reduces for row in rows]), levels.step))
    adds = np.array([row.reduces for row in rows])[order]
    step = levels.step[order]
    cuts = np.flatnonzero((step[1:] != step[:-1]) | (adds[1:] != adds[:-1])) + 1
    steps: list[Moves] = []
    pending = [part for part in reversed(np.split(order, cuts)) if len(part)]
    while pending:
        members = pending.pop()
        source, destination, chunk, reduces = zip(*(rows[i] for i in members), strict=True)
        step_moves = moves(source, destination, chunk, reduces=reduces[0])
        part = levels.part[members]
        ends = np.flatnonzero(part[1:] != part[:-1]) + 1
        loose = int(levels.step[members[0]]) not in levels.bound
        if loose or assign_wavelengths("", collective, fabric, chunks, [step_moves]).steps == 1:
            steps.append(step_moves)
        elif len(ends):
            middle = int(ends[len(ends) // 2])
            pending += [members[middle:], members[:middle]]
        else:
            raise UnsupportedError(
                f"{where}: {len(members)} messages are sent before any of them is added, too many for one step of this "
                "fabric; a packet switch takes them"
            )
    return steps


# What moves between GPUs in a run, as rows of a schedule and the order that they must keep.
#
# A schedule knows one value for each rank and chunk, a program any number of copies in three buffers. Every value of
# a run is a sum of the GPU's own data and of arrivals; copies are the same value, and a sum made after an arrival is
# made when it arrives. What a GPU sends of a chunk, and has of it in the end, then follow each other as versions:
#
# version 1    own data                      sent by rows ...
# version 2    own data + arrival 4          sent by rows ...
# version 3    arrival 9, which replaces it  in the end
#
# A row that brings a part of a version comes before all rows that send it, and not before those that send the version
# before. A GPU that holds two sums of a chunk which do not follow each other has no such order.

Cell = tuple[int, int]
"""A GPU, and the number of a chunk that it sends or ends with."""
Uses = dict[frozenset[int], tuple[int, list[int]]]
"""Values of a cell by their parts: contributors, and the rows that send it."""


class Row(NamedTuple):
    """One chunk that one GPU sends another."""

    source: int
    destination: int
    chunk: int
    reduces: bool


@dataclass(slots=True)
class Movement:
    """Rows of a run, and edges (before, after, 1 if the row after needs a later step) between nodes.

    The nodes are the rows and, numbered after them, points between the versions of a chunk.
    """

    rows: list[Row]
    edges: list[tuple[int, int, int]]
    nodes: int


class _Version(NamedTuple):
    """Value of a chunk at a GPU between one arrival and the next that changes what it sends."""

    contributors: int
    brought: frozenset[int]
    """Rows that this version adds to the one before, or that make it from nothing."""
    stored: int
    """Row that replaces the version before; -1 if none does."""
    readers: list[int]


def movement_of(run: Run, where: str) -> Movement:
    """Return what moves in a run: a row (source, destination, chunk, adds or not) for each arrival, in their order, and
    the edges (before, after, 1 if after needs a later step) that keep the versions of each chunk in order.

    A row adds unless what arrives replaces what its GPU has of the chunk. ``where`` names the file in messages.

    Raises:
        UnsupportedError: a GPU uses two sums of one chunk side by side, or receives what it does not use; names the
            line.
    """
    used, final = _uses(run)
    versions = {cell: _versions(run, cell, uses, final.get(cell), where) for cell, uses in used.items()}
    stored = {version.stored for chain in versions.values() for version in chain}
    brought = {row for chain in versions.values() for version in chain for row in version.brought}
    rows = []
    for number, arrival in enumerate(run.arrivals):
        if number not in brought or not isinstance(arrival.content, Value):
            what = "receives a chunk that it does not use: a schedule brings every value once; leave this receive"
            refuse(where, arrival.line, f"GPU {arrival.destination}", f"{what} and its send out", UnsupportedError)
        rows.append(Row(arrival.source, arrival.destination, arrival.content.chunk, number not in stored))
    movement = Movement(rows, [], len(rows))
    for chain in versions.values():
        _order(chain, movement)
    return movement


def _uses(run: Run) -> tuple[dict[Cell, Uses], dict[Cell, int]]:
    """Return the values that each GPU sends of each chunk, or must have of it in the end, and the contributors of the
    final ones.

    The first maps (GPU, chunk) to a mapping from the parts of a value (the set of the numbers of the arrivals summed in
    it, and -1 for the GPU's own data) to its contributors as bits (bit r for GPU r) and the numbers of the arrivals
    that carry it away. The second maps (GPU, chunk) to contributors as bits, for what the collective asks of outputs.
    """
    used: dict[Cell, Uses] = defaultdict(dict)
    final: dict[Cell, int] = {}
    for number, arrival in enumerate(run.arrivals):
        value = arrival.content
        if isinstance(value, Value):
            used[arrival.source, value.chunk].setdefault(value.parts, (value.contributors, []))[1].append(number)
    for rank, k, chunk, contributors in run.condition.expected(run.root):
        value = run.memory[run.condition.place(rank, "o", k)]
        assert isinstance(value, Value)
        used[rank, chunk].setdefault(value.parts, (contributors, []))
        final[rank, chunk] = contributors
    return used, final


def _versions(run: Run, cell: Cell, uses: Uses, final: int | None, where: str) -> list[_Version]:
    """Return the versions of a chunk at a GPU that it sends, or has in the end, in the order in which they replace each
    other.

    Each holds the ranks whose data are summed (as bits), the arrivals that it adds to the version before or that make
    it anew, the arrival that replaces the version before (-1 where none does), and the rows that send it.

    Args:
        run: the run, whose arrivals give lines for messages.
        cell: the GPU and the chunk.
        uses: values that it sends or ends with, by their parts (numbers of the arrivals that are summed, -1 for its own
            data): contributors as bits, and the rows that send them.
        final: contributors of what it must have in the end, as bits; None if it need not have the chunk.
        where: name of the file, for messages.

    Raises:
        UnsupportedError: it keeps two sums of the chunk side by side, or receives the same sum twice.
    """
    versions: list[_Version] = []
    before, seen = OWN, set[int]()
    for parts in sorted(uses, key=lambda parts: (min(parts), len(parts))):
        contributors, readers = uses[parts]
        brought, stored = (parts - before, -1) if before <= parts else (parts, min(parts))
        if brought >= OWN or brought & seen:
            _refuse_side_by_side(run, cell, seen | parts, where)
        if versions and versions[-1].contributors == contributors:
            what = f"receives the same sum of chunk {cell[1]} a second time: a schedule brings every value once"
            refuse(where, run.arrivals[max(parts)].line, f"GPU {cell[0]}", what, UnsupportedError)
        seen |= brought
        before = parts
        versions.append(_Version(contributors, brought, stored, readers))
    if final is not None and versions[-1].contributors != final:
        _refuse_side_by_side(run, cell, seen, where)
    return versions


def _refuse_side_by_side(run: Run, cell: Cell, arrivals: Collection[int], where: str) -> NoReturn:
    """Raise UnsupportedError about a GPU that keeps two sums of one chunk, naming the line of the last of some
    arrivals.

    Args:
        cell: the GPU and the chunk.
        arrivals: numbers of arrivals.
        where: name of the file.
    """
    complaint = (
        f"keeps two sums of chunk {cell[1]} side by side, and a schedule has one value for a rank and chunk: "
        "'schedule check' without --fabric checks such programs"
    )
    refuse(where, run.arrivals[max(arrivals)].line, f"GPU {cell[0]}", complaint, UnsupportedError)


def _order(chain: list[_Version], movement: Movement) -> None:
    """Append to ``movement.edges`` the edges (before, after, steps between, 0 or 1) that keep the versions of a chunk
    in order: what makes a version comes before what sends it, and that before what replaces it.

    Where it saves edges, these lead through an added node, and ``movement.nodes`` grows by one. ``chain`` has the
    versions in the order in which they replace each other.
    """
    rows, edges = movement.rows, movement.edges

    def between(before: Collection[int], after: Collection[int], later: int) -> None:
        """Add an edge from every node before to every node after, through a point between where so fewer are needed."""
        if len(before) * len(after) <= len(before) + len(after):
            edges.extend((a, b, later) for a in before for b in after)
        else:
            edges.extend((a, movement.nodes, 0) for a in before)
            edges.extend((movement.nodes, b, later) for b in after)
            movement.nodes += 1

    for previous, version in zip([None, *chain], chain, strict=False):
        reduces = version.stored < 0
        first = version.brought if reduces else [version.stored]
        if not reduces:
            between(first, [row for row in version.brought if row != version.stored], 1)
        between(version.brought, version.readers, 1)
        if previous is not None:
            between([row for row in previous.readers if rows[row].reduces == reduces], first, 0)
            between([row for row in previous.readers if rows[row].reduces != reduces], first, 1)
            between([] if reduces else previous.brought, first, 1)
