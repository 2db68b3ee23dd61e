"""A program of MSCCL run symbolically: messages pair up, no step waits forever, no two steps race for a chunk.

A connection buffers one message (the runtime has room for more), so what runs here runs there. Vector clocks say which
steps are ordered by threadblocks, dependencies and messages alone; what only happens to come first is a race.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.core.errors import ConfigError
from lightloom.interchange.msccl_program import READS_SOURCE, RECEIVES, SENDS, WRITES, Program, Step, ThreadBlock
from lightloom.interchange.msccl_rules import refuse

Clock = NDArray[np.int32]
Place = tuple[int, str, int]
"""GPU, buffer, chunk; of buffers that share memory in place, the larger."""


class Message(NamedTuple):
    """A message from one send to one receive."""

    sender: int
    receiver: int
    sent: Step
    received: Step


class Access(NamedTuple):
    """A read or a write of one chunk, in the order of the run."""

    place: Place
    writes: bool
    adds: bool
    message: int
    """Number of the message that was sent from or received at this place; -1 for a local step."""
    step: Step


@dataclass(slots=True)
class Run:
    """Messages and accesses of a run, in order."""

    messages: list[Message] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)


@dataclass(slots=True)
class _Block:
    rank: int
    number: int
    index: int
    code: ThreadBlock
    clock: Clock
    at: int = 0
    received: int = -1
    """Message that the current step has received and will forward."""


def run(program: Program, where: str) -> Run:
    """Run a program that keeps the rules.

    Time grows with steps times threadblocks, as clocks do.

    Raises:
        ConfigError: a message of one size is received as another, steps wait forever, or two steps race; names the
            line, or GPU, threadblock and step.
    """
    return _Machine(program, where).run()


class _Machine:
    def __init__(self, program: Program, where: str) -> None:
        self._program, self._where, self._done = program, where, Run()
        self._blocks: list[_Block] = []
        count = sum(len(gpu.blocks) for gpu in program.gpus)
        for rank, gpu in enumerate(program.gpus):
            for number, code in enumerate(gpu.blocks):
                self._blocks.append(_Block(rank, number, len(self._blocks), code, np.zeros(count, np.int32)))
        self._slot: dict[tuple[int, int, int], int] = {}
        """Message under way on a connection (sender, receiver, channel)."""
        self._clock_of: dict[int, Clock] = {}
        self._ended: dict[tuple[int, int, int], Clock] = {}
        """Clocks of awaited steps (GPU, threadblock, step)."""
        self._waiting: dict[object, list[_Block]] = defaultdict(list)
        self._last_write: dict[Place, tuple[int, int, str]] = {}
        self._reads: dict[Place, list[tuple[int, int, str]]] = defaultdict(list)

    def run(self) -> Run:
        ready = deque(self._blocks)
        while ready:
            block = ready.popleft()
            steps = block.code.steps
            while block.at < len(steps):
                needs = self._tried(block, steps[block.at], ready)
                if needs is not None:
                    self._waiting[needs].append(block)
                    break
        for block in self._blocks:
            steps = block.code.steps
            if block.at < len(steps):
                self._refuse(block, steps[block.at], "waits forever")
        if self._slot:
            sender, receiver, channel = next(iter(self._slot))
            raise ConfigError(f"{self._where}: GPU {receiver} leaves a message of GPU {sender} on channel {channel}")
        return self._done

    def _refuse(self, block: _Block, step: Step, complaint: str) -> None:
        refuse(self._where, step.line, self._name(block), complaint)

    def _name(self, block: _Block) -> str:
        return f"GPU {block.rank}, threadblock {block.number}, step {block.at}"

    def _wake(self, what: object, ready: deque[_Block]) -> None:
        ready.extend(self._waiting.pop(what, ()))

    def _tried(self, block: _Block, step: Step, ready: deque[_Block]) -> object | None:
        """What the step still needs; None when it has ended."""
        ends = block.code
        if block.received < 0:
            if step.depends is not None and (block.rank, *step.depends) not in self._ended:
                return (block.rank, *step.depends)
            if step.type in RECEIVES:
                connection = (ends.receive, block.rank, ends.channel)
                if connection not in self._slot:
                    return "full", connection
                self._receive(block, step, connection, ready)
            elif step.depends is not None:
                np.maximum(block.clock, self._ended[(block.rank, *step.depends)], out=block.clock)
        if step.type in SENDS:
            connection = (block.rank, ends.send, ends.channel)
            if connection in self._slot:
                return "free", connection
            self._send(block, step, connection, ready)
        elif step.type not in RECEIVES and step.type != "nop":
            self._touch(block, step, -1)
        self._end(block, step, ready)
        return None

    def _receive(self, block: _Block, step: Step, connection: tuple[int, int, int], ready: deque[_Block]) -> None:
        number = self._slot.pop(connection)
        message = self._done.messages[number]
        if message.sent.count != step.count:
            what = f"receives {step.count} chunks where GPU {connection[0]} sends {message.sent.count}"
            self._refuse(block, step, what)
        np.maximum(block.clock, self._clock_of.pop(number), out=block.clock)
        if step.depends is not None:
            np.maximum(block.clock, self._ended[(block.rank, *step.depends)], out=block.clock)
        self._done.messages[number] = message._replace(received=step)
        self._touch(block, step, number)
        block.received = number
        self._wake(("free", connection), ready)

    def _send(self, block: _Block, step: Step, connection: tuple[int, int, int], ready: deque[_Block]) -> None:
        number = len(self._done.messages)
        self._done.messages.append(Message(block.rank, connection[1], step, step))
        self._slot[connection] = number
        self._read(block, step, step.destination if step.type in WRITES else step.source, number)
        clock = block.clock.copy()
        clock[block.index] += 1
        self._clock_of[number] = clock
        self._wake(("full", connection), ready)

    def _end(self, block: _Block, step: Step, ready: deque[_Block]) -> None:
        block.clock[block.index] += 1
        if step.awaited:
            name = (block.rank, block.number, block.at)
            self._ended[name] = block.clock.copy()
            self._wake(name, ready)
        block.at += 1
        block.received = -1

    def _touch(self, block: _Block, step: Step, message: int) -> None:
        """Record the reads and writes of a receive or a local step."""
        adds = step.type in ("rrs", "rrc", "rrcs", "re")
        if step.type in READS_SOURCE and step.source != step.destination:
            self._read(block, step, step.source, -1)
        target = step.destination if step.type in WRITES else step.source
        for place in self._places(block.rank, *target, step.count):
            self._ordered(block, step, place, [*self._reads.pop(place, ()), *self._previous(place)])
            self._last_write[place] = (block.index, int(block.clock[block.index]) + 1, self._name(block))
            self._done.accesses.append(Access(place, True, adds, message, step))

    def _read(self, block: _Block, step: Step, source: tuple[str, int], message: int) -> None:
        for place in self._places(block.rank, *source, step.count):
            self._ordered(block, step, place, self._previous(place))
            self._reads[place].append((block.index, int(block.clock[block.index]) + 1, self._name(block)))
            self._done.accesses.append(Access(place, False, False, message, step))

    def _previous(self, place: Place) -> list[tuple[int, int, str]]:
        return [self._last_write[place]] if place in self._last_write else []

    def _ordered(self, block: _Block, step: Step, place: Place, before: list[tuple[int, int, str]]) -> None:
        for index, tick, name in before:
            if index != block.index and block.clock[index] < tick:
                what = f"nothing orders it after {name}, which uses the same chunk {place[2]} of {place[1]!r}"
                self._refuse(block, step, what)

    def _places(self, rank: int, buffer: str, first: int, count: int) -> list[Place]:
        return [shared_place(self._program, rank, buffer, chunk) for chunk in range(first, first + count)]


def shared_place(program: Program, rank: int, buffer: str, chunk: int) -> Place:
    """Return the memory of a chunk; in place, the smaller of input and output is a part of the larger."""
    held = program.gpus[rank].chunks
    if program.in_place and buffer in ("i", "o"):
        larger = "i" if held["i"] >= held["o"] else "o"
        if buffer != larger and held[buffer] < held[larger]:
            chunk += rank * held[buffer]
        return rank, larger, chunk
    return rank, buffer, chunk
