"""Programs of MSCCL as schedules.

A program has no steps for all GPUs. Steps come from what its messages carry and replace
(:mod:`lightloom.interchange.msccl.movement`): a message comes in a later step than those that brought what it carries,
and in no earlier step than those that still send what it replaces. Messages of one step are mapped to the fabric
together, so that a program for switches gets wavelengths on a ring.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective, Kind
from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.interchange.files import verified
from lightloom.interchange.msccl.check import check
from lightloom.interchange.msccl.movement import Movement, Row, movement_of
from lightloom.interchange.msccl.program import Program
from lightloom.interchange.msccl.run import Run
from lightloom.interchange.msccl.xml import read_xml

KINDS: dict[str, Kind] = {
    "allgather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "allreduce": "all-reduce",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
"""Kinds of collectives by the name that programs have for them."""


def check_program(path: Path) -> tuple[Program, list[Run]]:
    """Return the program in a file and its symbolic runs, one for each way in which its buffers may lie.

    Raises:
        ConfigError: the program breaks a rule, does not run, or computes something else; names the line.
        UnsupportedError: a collective whose result is not defined.
    """
    program = read_xml(path)
    return program, check(program, str(path))


def read_program(path: Path, fabric: Fabric, nbytes: float) -> Schedule:
    """Return the verified schedule of a program on a fabric, for ``nbytes`` (:class:`Collective`).

    Raises:
        ConfigError: malformed, breaks a rule, waits forever, races, or does not complete its collective.
        UnsupportedError: a collective of no kind that schedules have, sums that no schedule can express, or a fabric
            that takes no such schedule.
    """
    program, runs = check_program(path)
    run, ranks, where = runs[0], len(program.gpus), str(path)
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
    schedule = assign_wavelengths(
        program.name or path.stem, collective, fabric, chunks, logical, notes=(_note(path, run),)
    )
    verified(schedule, fabric, where)
    return schedule


def _note(path: Path, run: Run) -> str:
    local = [f"{count} {what}" for count, what in ((run.copies, "local copies"), (run.sums, "local sums")) if count]
    if not local:
        return f"read from {path.name}"
    return f"read from {path.name}; its {' and '.join(local)} are work of the GPUs, which a schedule leaves out"


class _Levels(NamedTuple):
    step: Ints
    """Step of each row."""
    part: Ints
    """Part of each row; rows of one part exchange their chunks and must be sent together."""
    place: Ints
    """Position of each part in an order that keeps all edges."""
    bound: frozenset[int]
    """Steps in which some rows must not come after others, so that they cannot be split freely."""


def _levels(movement: Movement, where: str) -> _Levels:
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
    """Return the moves of each step. A step that does not fit the fabric is split between parts, never inside one."""
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
