"""Programs of MSCCL as schedules.

A program has no steps for all GPUs. Steps come from what its messages carry and replace
(:mod:`lightloom.collectives.files.msccl.run`): a message comes in a later step than those that brought what it carries,
and in no earlier step than those that still send what it replaces. Messages of one step are mapped to the fabric
together, so that a program for switches gets wavelengths on a ring.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from pathlib import Path
from typing import NamedTuple, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

import numpy as np

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.files.document import verified
from lightloom.collectives.files.msccl.check import check
from lightloom.collectives.files.msccl.program import (
    BUFFERS,
    Gpu,
    Program,
    Step,
    ThreadBlock,
)
from lightloom.collectives.files.msccl.run import Movement, Row, Run, movement_of
from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import cannot_read
from lightloom.machines.fabrics.fabric import Fabric

# Programs of MSCCL as XML, written and read; elements and attributes are checked, what a program does is not.

LARGEST_SIZE = (1 << 63) - 1
"""Largest size in bytes that runtimes read."""


def to_xml(program: Program) -> str:
    """Return the program as XML, one element per line."""
    lines = [
        _tag(
            "algo",
            0,
            name=program.name,
            proto=program.protocol,
            nchannels=program.channels,
            nchunksperloop=program.chunks,
            ngpus=len(program.gpus),
            coll=program.collective,
            inplace=int(program.in_place),
            outofplace=int(program.out_of_place),
            minBytes=program.min_bytes,
            maxBytes=program.max_bytes,
        )
    ]
    for rank, gpu in enumerate(program.gpus):
        lines.append(_tag("gpu", 1, id=rank, **{f"{buffer}_chunks": gpu.chunks[buffer] for buffer in BUFFERS}))
        for number, block in enumerate(gpu.blocks):
            lines.append(_tag("tb", 2, id=number, send=block.send, recv=block.receive, chan=block.channel))
            lines.extend(_step(i, step) for i, step in enumerate(block.steps))
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def _step(number: int, step: Step) -> str:
    depid, deps = step.depends or (-1, -1)
    return (
        _tag(
            "step",
            3,
            s=number,
            type=step.type,
            srcbuf=step.source[0],
            srcoff=step.source[1],
            dstbuf=step.destination[0],
            dstoff=step.destination[1],
            cnt=step.count,
            depid=depid,
            deps=deps,
            hasdep=int(step.awaited),
        )[:-1]
        + "/>"
    )


def _tag(element: str, depth: int, **values: object) -> str:
    attributes = " ".join(f"{key}={quoteattr(str(value))}" for key, value in values.items())
    return f"{'  ' * depth}<{element} {attributes}>"


def read_xml(path: Path) -> Program:
    """Return the program in a file; elements and attributes are checked, what the program does is not.

    Raises:
        ConfigError: unreadable, not XML, an unknown or misplaced element, a missing attribute, or one that is no
            number; names the line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    reader = _Reader(path)
    try:
        reader.parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ConfigError(f"{path}, line {error.lineno}: not XML: {expat.ErrorString(error.code)}") from error
    assert reader.program is not None
    return reader.program


class _Reader:
    """Build the program while expat reads, so that errors can name the line."""

    def __init__(self, path: Path) -> None:
        self.program: Program | None = None
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._no_doctype
        self._path, self._open = path, list[str]()
        self._announced = 0
        self._gpus: dict[int, Gpu] = {}
        self._blocks: dict[int, ThreadBlock] = {}

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigError(f"{self._path}, line {self.parser.CurrentLineNumber}: {what}")

    def _no_doctype(self, *_: object) -> None:
        self._refuse("a program has no document type declaration")

    def _start(self, name: str, values: dict[str, str]) -> None:
        inside = {"algo": None, "gpu": "algo", "tb": "gpu", "step": "tb"}
        if name not in inside or inside[name] != (self._open[-1] if self._open else None):
            self._refuse(f"<{name}> inside {self._open[-1] if self._open else 'nothing'}: expected algo, gpu, tb, step")
        self._open.append(name)
        getattr(self, f"_{name}")(values)

    def _end(self, name: str) -> None:
        self._open.pop()
        if name == "gpu":
            gpu = next(reversed(self._gpus.values()))
            gpu.blocks = [self._blocks[number] for number in self._complete(self._blocks, len(self._blocks), "tb")]
        elif name == "algo" and self.program is not None:
            if len(self._gpus) != self._announced:
                self._refuse(f"ngpus={self._announced}, but there are {len(self._gpus)} GPUs")
            self.program.gpus = [self._gpus[rank] for rank in self._complete(self._gpus, self._announced, "gpu")]

    def _complete(self, known: Container[int], count: int, element: str) -> range:
        """Return the ids 0 to count - 1, which elements may have in any order."""
        for number in range(count):
            if number not in known:
                self._refuse(f"no <{element}> has id={number}: expected ids 0 to {count - 1}, each once")
        return range(count)

    def _algo(self, values: dict[str, str]) -> None:
        self._announced = self._whole(values, "ngpus", least=1)
        in_place = self._whole(values, "inplace", least=0, most=1)
        # Older files lack these attributes; the defaults are those of microsoft/msccl.
        values = {"outofplace": str(1 - in_place), "minBytes": "0", "maxBytes": str(1 << 27)} | values
        self.program = Program(
            name=self._text(values, "name"),
            collective=self._text(values, "coll"),
            protocol=self._text(values, "proto"),
            channels=self._whole(values, "nchannels", least=0),
            chunks=self._whole(values, "nchunksperloop", least=1),
            in_place=bool(in_place),
            out_of_place=bool(self._whole(values, "outofplace", least=0, most=1)),
            min_bytes=self._whole(values, "minBytes", least=0, most=LARGEST_SIZE),
            max_bytes=self._whole(values, "maxBytes", least=0, most=LARGEST_SIZE),
        )

    def _gpu(self, values: dict[str, str]) -> None:
        rank = self._new(values, self._gpus)
        chunks = {name: self._whole(values, f"{name}_chunks", least=0) for name in BUFFERS}
        self._gpus[rank] = Gpu(chunks=chunks, line=self.parser.CurrentLineNumber)
        self._blocks = {}

    def _tb(self, values: dict[str, str]) -> None:
        number = self._new(values, self._blocks)
        send, receive, channel = (self._whole(values, name) for name in ("send", "recv", "chan"))
        line = self.parser.CurrentLineNumber
        self._blocks[number] = ThreadBlock(send=send, receive=receive, channel=channel, line=line)

    def _step(self, values: dict[str, str]) -> None:
        block = next(reversed(self._blocks.values()))
        number = self._whole(values, "s")
        if number != len(block.steps):
            self._refuse(f"<step>: s={number}: expected {len(block.steps)}, as steps are numbered in order")
        depends = (self._whole(values, "depid"), self._whole(values, "deps"))
        block.steps.append(
            Step(
                type=self._text(values, "type"),
                source=(self._text(values, "srcbuf"), self._whole(values, "srcoff")),
                destination=(self._text(values, "dstbuf"), self._whole(values, "dstoff")),
                count=self._whole(values, "cnt"),
                depends=None if depends[0] < 0 else depends,
                awaited=bool(self._whole(values, "hasdep", least=0, most=1)),
                line=self.parser.CurrentLineNumber,
            )
        )

    def _text(self, values: dict[str, str], name: str) -> str:
        if name not in values:
            self._refuse(f"<{self._open[-1]}>: attribute {name!r} is missing: expected one, as msccl-tools writes it")
        return values[name]

    def _whole(self, values: dict[str, str], name: str, least: int = -1, most: int = (1 << 31) - 1) -> int:
        text = self._text(values, name)
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            self._refuse(f"<{self._open[-1]}>: {name}={text!r}: expected a whole number from {least} to {most}")
        return value

    def _new(self, values: dict[str, str], known: Container[int]) -> int:
        number = self._whole(values, "id", least=0)
        if number in known:
            self._refuse(f"<{self._open[-1]}>: id={number} occurs twice: expected each id once")
        return number


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
