"""A program of MSCCL run symbolically: messages pair up, no step waits forever, none races, and every value is known.

Threadblocks run as the runtime runs them, on connections that have room for as many messages as their protocol has
slots. Vector clocks say which accesses are ordered by threadblocks, dependencies and messages alone; what only
happens to come first is a race. Without races, values do not depend on the order of the run.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.files.msccl.program import (
    ADDS,
    OWN,
    RECEIVES,
    SENDS,
    WRITES,
    Content,
    Program,
    Step,
    ThreadBlock,
    Value,
    added,
)
from lightloom.collectives.files.msccl.rules import CUSTOM, Condition, Place, refuse
from lightloom.core.errors import ConfigError, UnsupportedError

Clock = NDArray[np.int32]
Connection = tuple[int, int, int]
"""Sender, receiver, channel."""


class WaitingError(ConfigError):
    """Steps wait for each other."""


class Arrival(NamedTuple):
    """One chunk that came from another GPU; the position in the list is its number among a value's parts."""

    source: int
    destination: int
    content: Content
    """What was sent, its parts those of the sender."""
    line: int


@dataclass(slots=True)
class Run:
    """What a program did, for one way in which its buffers lie."""

    condition: Condition
    root: int = 0
    """Root of a broadcast or a reduce; 0 in other collectives."""
    messages: int = 0
    copies: int = 0
    """Chunks copied inside a GPU."""
    sums: int = 0
    """Chunks added to others inside a GPU."""
    in_parts: bool = True
    """Whether it also ends at sizes at which the chunks of a message are sent one by one."""
    arrivals: list[Arrival] = field(default_factory=list)
    memory: dict[Place, Content] = field(default_factory=dict)
    """Every chunk that has been stored, at the end."""
    written_on: dict[Place, int] = field(default_factory=dict)
    """Line of the step that stored it last."""

    @property
    def defined(self) -> bool:
        """Whether it is known what the collective must compute."""
        return self.condition.collective != CUSTOM


class _Piece(NamedTuple):
    """One chunk of a message under way."""

    content: Content
    message: int
    number: int
    """Position in its message."""
    chunks: int
    """Chunks of the message."""
    clock: Clock


class _Access(NamedTuple):
    """One read or write of a chunk by a threadblock."""

    block: int
    tick: int
    step: int


@dataclass(slots=True)
class _Block:
    rank: int
    number: int
    index: int
    code: ThreadBlock
    clock: Clock
    at: int = 0
    piece: int = 0
    """Chunk of the current step."""
    message: int = 0
    """Number of the message that is being sent."""
    waited: bool = False
    """Whether the dependency of the current step is met."""
    held: list[Content] = field(default_factory=list)
    """What the current step has received and has still to forward."""
    announcing: list[int | None] = field(default_factory=list)
    """Step that announces the end of each step."""

    def name(self, step: int) -> str:
        return f"GPU {self.rank}, threadblock {self.number}, step {step}"


class Machine:
    """Threadblocks of all GPUs, for one way in which the buffers of a program lie.

    Raises:
        ConfigError: a message of one size is received as another, or steps race; names the line, or GPU, threadblock
            and step.
        WaitingError: steps wait for each other.
    """

    def __init__(
        self, program: Program, condition: Condition, where: str, room: int, *, in_parts: bool = False
    ) -> None:
        self._where, self._condition, self._done = where, condition, Run(condition)
        self._room, self._in_parts = room, in_parts
        self._blocks: list[_Block] = []
        self._blocks_of: list[list[_Block]] = []
        count = sum(len(gpu.blocks) for gpu in program.gpus)
        for rank, gpu in enumerate(program.gpus):
            self._blocks_of.append([])
            for number, code in enumerate(gpu.blocks):
                block = _Block(rank, number, len(self._blocks), code, np.zeros(count, np.int32))
                block.announcing = [code.announced_by(i) for i in range(len(code.steps))]
                self._blocks.append(block)
                self._blocks_of[rank].append(block)
        self._memory = self._done.memory
        self._memory.update(condition.initial())
        self._under_way: dict[Connection, deque[_Piece]] = defaultdict(deque)
        self._announced: dict[tuple[int, int, int], Clock] = {}
        """Clocks of announced steps (GPU, threadblock, step)."""
        self._waiting: dict[object, list[_Block]] = defaultdict(list)
        self._ready = deque(self._blocks)
        self._last_write: dict[Place, _Access] = {}
        self._reads: dict[Place, list[_Access]] = defaultdict(list)

    def run(self) -> Run:
        while self._ready:
            block = self._ready.popleft()
            while block.at < len(block.code.steps):
                needs = self._advanced(block, block.code.steps[block.at])
                if needs is not None:
                    self._waiting[needs].append(block)
                    break
        for block in self._blocks:
            if block.at < len(block.code.steps):
                line = block.code.steps[block.at].line
                refuse(self._where, line, block.name(block.at), "waits forever", WaitingError)
        for (sender, receiver, channel), pieces in self._under_way.items():
            if pieces:
                raise ConfigError(
                    f"{self._where}: GPU {receiver} leaves a message of GPU {sender} on channel {channel}"
                )
        self._done.written_on = {
            place: self._blocks[last.block].code.steps[last.step].line for place, last in self._last_write.items()
        }
        return self._done

    def _refuse(self, block: _Block, complaint: str) -> NoReturn:
        refuse(self._where, block.code.steps[block.at].line, block.name(block.at), complaint)

    def _wake(self, what: object) -> None:
        self._ready.extend(self._waiting.pop(what, ()))

    def _advanced(self, block: _Block, step: Step) -> object | None:
        """Handle one chunk of a step, and return what it still needs; None when it is done."""
        if not block.waited:
            needs = self._dependency(block, step)
            if needs is not None:
                return needs
        if step.type == "nop":
            self._end_step(block, step)
            return None
        if step.type in RECEIVES and not block.held:
            connection = (block.code.receive, block.rank, block.code.channel)
            if not self._under_way[connection]:
                return "full", connection
            block.held = [self._received(block, step, connection)]
        if step.type in SENDS:
            connection = (block.rank, block.code.send, block.code.channel)
            if self._is_full(connection, block.piece):
                return "free", connection
            self._send(block, step, connection)
        elif step.type not in RECEIVES:
            self._work(block, step, self._read(block, *_nth(step.source, block.piece)))
        block.held = []
        block.clock[block.index] += 1
        block.piece += 1
        if block.piece == step.count:
            self._end_step(block, step)
        return None

    def _is_full(self, connection: Connection, piece: int) -> bool:
        pieces = self._under_way[connection]
        if self._in_parts:
            return len(pieces) >= self._room
        return piece == 0 and len({piece.message for piece in pieces}) >= self._room

    def _dependency(self, block: _Block, step: Step) -> object | None:
        if step.depends is not None:
            number, awaited = step.depends
            name = (block.rank, number, self._blocks_of[block.rank][number].announcing[awaited])
            if name not in self._announced:
                return name
            np.maximum(block.clock, self._announced[name], out=block.clock)
        block.waited = True
        return None

    def _end_step(self, block: _Block, step: Step) -> None:
        if step.awaited and step.type != "nop":
            name = (block.rank, block.number, block.at)
            self._announced[name] = block.clock.copy()
            self._wake(name)
        block.at, block.piece, block.waited = block.at + 1, 0, False

    def _received(self, block: _Block, step: Step, connection: Connection) -> Content:
        """Take a chunk from a connection, do what the step does with it, and return what a fused step sends on."""
        piece = self._under_way[connection].popleft()
        if (piece.number, piece.chunks) != (block.piece, step.count):
            self._refuse(block, f"receives {step.count} chunks where GPU {connection[0]} sends {piece.chunks}")
        np.maximum(block.clock, piece.clock, out=block.clock)
        self._wake(("free", connection))
        content = piece.content
        if isinstance(content, Value):
            content = content._replace(parts=frozenset({len(self._done.arrivals)}))
        self._done.arrivals.append(Arrival(connection[0], block.rank, piece.content, step.line))
        return self._work(block, step, content)

    def _work(self, block: _Block, step: Step, content: Content) -> Content:
        """Add and store as the type of the step says, and return the result."""
        if step.type in ADDS:
            own = step.destination if step.type == "re" else step.source
            content = added(self._read(block, *_nth(own, block.piece)), content, _place_of(block, step))
        if step.type in WRITES:
            self._write(block, *_nth(step.destination, block.piece), content)
        self._done.copies += step.type == "cpy"
        self._done.sums += step.type == "re"
        return content

    def _send(self, block: _Block, step: Step, connection: Connection) -> None:
        content = block.held[0] if block.held else self._read(block, *_nth(step.source, block.piece))
        clock = block.clock.copy()
        clock[block.index] += 1
        if block.piece == 0:
            self._done.messages += 1
            block.message = self._done.messages
        self._under_way[connection].append(_Piece(content, block.message, block.piece, step.count, clock))
        self._wake(("full", connection))

    def _read(self, block: _Block, buffer: str, chunk: int) -> Content:
        place = self._condition.place(block.rank, buffer, chunk)
        self._ordered(block, place, [self._last_write[place]] if place in self._last_write else [])
        self._reads[place].append(self._access(block))
        return self._memory.get(place)

    def _write(self, block: _Block, buffer: str, chunk: int, content: Content) -> None:
        place = self._condition.place(block.rank, buffer, chunk)
        before = self._reads.pop(place, [])
        self._ordered(block, place, [*before, self._last_write[place]] if place in self._last_write else before)
        self._last_write[place] = self._access(block)
        self._memory[place] = content

    def _access(self, block: _Block) -> _Access:
        return _Access(block.index, int(block.clock[block.index]) + 1, block.at)

    def _ordered(self, block: _Block, place: Place, before: list[_Access]) -> None:
        for access in before:
            if access.block != block.index and block.clock[access.block] < access.tick:
                buffer, chunk = place[1:]
                other = self._blocks[access.block].name(access.step)
                what = f"nothing orders it after {other}, which uses the same chunk {chunk} of {buffer!r}"
                self._refuse(block, what)


def _nth(first: tuple[str, int], number: int) -> tuple[str, int]:
    return first[0], first[1] + number


def _place_of(block: _Block, step: Step) -> str:
    return block.name(block.at) + (f" (line {step.line})" if step.line else "")


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
