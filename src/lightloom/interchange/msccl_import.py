"""Programs of MSCCL as schedules: all-gather, reduce-scatter and all-reduce in place.

A program has no steps for all GPUs. Steps come from what its messages read and write: a message comes in a later step
than those that brought what it carries, and in no earlier step than those that still read what it replaces. Messages
of one step are mapped to the fabric together, so a program for switches gets wavelengths on a ring.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.interchange.files import verified
from lightloom.interchange.msccl_export import NAMES
from lightloom.interchange.msccl_program import Program, Step, read_xml
from lightloom.interchange.msccl_rules import check_rules, refuse
from lightloom.interchange.msccl_run import Place, Run, run, shared_place

_KINDS = {name: kind for kind, name in NAMES.items()}


class _Row(NamedTuple):
    source: int
    destination: int
    chunk: int
    reduces: bool


def check_program(path: Path) -> tuple[Program, Run]:
    """Return the program in a file and its symbolic run.

    Raises:
        ConfigError: the program breaks a rule or does not run; names the line.
    """
    program = read_xml(path)
    check_rules(program, str(path))
    return program, run(program, str(path))


def read_program(path: Path, fabric: Fabric, nbytes: float) -> Schedule:
    """Return the verified schedule of a program on a fabric, for ``nbytes`` (:class:`Collective`).

    Raises:
        ConfigError: malformed, breaks a rule, waits forever, races, or does not complete its collective.
        UnsupportedError: another collective, scratch buffers or local copies, not in place, or a fabric that
            takes no such schedule.
    """
    program, done = check_program(path)
    if program.collective not in _KINDS:
        raise UnsupportedError(f"{path}: collective {program.collective!r}: expected one of {', '.join(_KINDS)}")
    if not program.in_place:
        raise UnsupportedError(f"{path}: not in place: a schedule has no buffers between which it could copy")
    if fabric.in_network_reduction:
        raise UnsupportedError(f"{path}: sends from GPU to GPU, and this fabric only reduces in the network")
    kind: Any = _KINDS[program.collective]
    if len(program.gpus) != fabric.ranks:
        raise ConfigError(f"{path}: {len(program.gpus)} GPUs: the fabric has {fabric.ranks} ranks")
    collective = Collective(kind, fabric.ranks, nbytes)
    chunks = _chunks(program, kind, str(path))
    rows, edges = _rows(program, done, str(path))
    logical = _logical_steps(rows, _levels(len(rows), edges, str(path)), collective, fabric, chunks, str(path))
    if not logical:
        raise ConfigError(f"{path}: no message at all: expected a program of {program.collective}")
    schedule = assign_wavelengths(
        program.name or path.stem, collective, fabric, chunks, logical, notes=(f"read from {path.name}",)
    )
    verified(schedule, fabric, str(path))
    return schedule


def _chunks(program: Program, kind: str, where: str) -> int:
    larger, smaller = ("o", "i") if kind == "all-gather" else ("i", "o")
    chunks, ranks = program.gpus[0].chunks[larger], len(program.gpus)
    for rank, gpu in enumerate(program.gpus):
        own, uneven = (chunks, 0) if kind == "all-reduce" else divmod(chunks, ranks)
        # A buffer that no step names may be said to hold nothing.
        if gpu.chunks[larger] != chunks or gpu.chunks[smaller] not in (0, own) or uneven:
            what = f"{gpu.chunks['i']} chunks in, {gpu.chunks['o']} out: no {kind} of chunks that {ranks} GPUs share"
            refuse(where, gpu.line, f"GPU {rank}", what)
    return chunks


def _rows(program: Program, done: Run, where: str) -> tuple[list[_Row], list[tuple[int, int, int]]]:
    """Return a row per chunk of each message, and edges (earlier, later, 1 if the later row needs a later step)."""
    first: dict[int, int] = {}
    rows: list[_Row] = []
    for number, message in enumerate(done.messages):
        first[number] = len(rows)
        for i in range(message.received.count):
            place = shared_place(program, message.receiver, *_moved(message.received, i, received=True))
            origin = shared_place(program, message.sender, *_moved(message.sent, i, received=False))
            if place[1] == "s" or place[1:] != origin[1:]:
                what = f"chunk {origin[2]} of {origin[1]!r} comes to chunk {place[2]} of {place[1]!r}"
                refuse(where, message.received.line, f"GPU {message.receiver}", f"{what}: a schedule moves none")
            rows.append(_Row(message.sender, message.receiver, place[2], message.received.type not in ("r", "rcs")))
    return rows, _edges(rows, done, first, where)


def _moved(step: Step, i: int, *, received: bool) -> tuple[str, int]:
    """Return the buffer and index of the i-th chunk that a step receives or sends."""
    from_source = step.type in ("s", "rrs")
    if received and step.type in ("rrc", "rrcs") and step.source != step.destination:
        return "s", step.destination[1] + i
    buffer, chunk = step.source if from_source else step.destination
    return buffer, chunk + i


def _edges(rows: list[_Row], done: Run, first: dict[int, int], where: str) -> list[tuple[int, int, int]]:
    writers: dict[Place, list[int]] = defaultdict(list)
    readers: dict[Place, list[int]] = defaultdict(list)
    unsettled: dict[Place, Step] = {}
    seen: dict[tuple[int, bool], int] = defaultdict(int)
    edges: list[tuple[int, int, int]] = []
    for access in done.accesses:
        place, step = access.place, access.step
        if access.message < 0:
            refuse(where, step.line, f"GPU {place[0]}", f"type {step.type!r} works in one GPU: no part of a schedule")
        key = (access.message, access.writes)
        row = first[access.message] + seen[key]
        seen[key] += 1
        if place in unsettled and not (access.writes and not access.adds) and access.step is not unsettled[place]:
            refuse(where, step.line, f"GPU {place[0]}", "uses a chunk whose sum was sent on and not kept ('rrs')")
        if not access.writes:
            edges.extend((before, row, 1) for before in writers[place])
            readers[place].append(row)
            continue
        unsettled.pop(place, None)
        if step.type == "rrs":
            unsettled[place] = step
        edges.extend((before, row, int(rows[before].reduces != rows[row].reduces)) for before in readers[place])
        unordered = [before for before in writers[place] if access.adds and rows[before].reduces]
        edges.extend((before, row, 1) for before in writers[place] if before not in unordered)
        if access.adds:
            writers[place].append(row)
        else:
            writers[place], readers[place] = [row], []
    return edges


class _Levels(NamedTuple):
    step: Ints
    """Step of each row."""
    part: Ints
    """Part of each row; rows of one part exchange their chunks and must be sent together."""
    place: Ints
    """Position of each part in an order that keeps all edges."""
    bound: frozenset[int]
    """Steps in which some rows must not come after others, so that they cannot be split freely."""


def _levels(rows: int, edges: list[tuple[int, int, int]], where: str) -> _Levels:
    table = np.array(edges, dtype=np.int64).reshape(-1, 3)
    graph = coo_array((np.ones(len(table)), (table[:, 0], table[:, 1])), shape=(rows, rows))
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
    bound = frozenset(earlier[(later == 0) & (earlier == step[table[:, 1]])].tolist())
    return _Levels(step, part.astype(np.int64), place, bound)


def _logical_steps(
    rows: list[_Row], levels: _Levels, collective: Collective, fabric: Fabric, chunks: int, where: str
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
