"""Programs of MSCCL checked: their rules, a symbolic run, and that their buffers hold the result in the end.

In a run messages pair up, no step waits forever, none races, and every value is known. Threadblocks run as the runtime
runs them, on connections that have room for as many messages as their protocol has slots. Vector clocks say which
accesses are ordered by threadblocks, dependencies and messages alone; what only happens to come first is a race.
Without races, values do not depend on the order of the run.
"""

from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.files.msccl.program import (
    ADDS,
    RECEIVES,
    SENDS,
    WRITES,
    Content,
    Program,
    Step,
    ThreadBlock,
    Value,
    added,
    described,
)
from lightloom.collectives.files.msccl.rules import CUSTOM, ROOM, Condition, Place, check_rules, condition_of, refuse
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, attributes
from lightloom.core.units import format_size

Clock = NDArray[np.int32]
Connection = tuple[int, int, int]
"""The GPU that sends, the GPU that receives, and the channel."""


class WaitingError(ConfigError):
    """Steps wait for each other."""


class Arrival(NamedTuple):
    """One chunk that came from another GPU; the position in the list is its number among a value's parts."""

    source: int
    destination: int
    content: Content
    """The value as its sender held it; its parts are those of the sender."""
    line: int


@dataclass(slots=True)
class Run:
    """The outcome of a symbolic run, with the buffers of the program in place or out of place."""

    condition: Condition
    root: int = 0
    """Root of a broadcast or a reduce; 0 in other collectives."""
    messages: int = 0
    copies: int = 0
    """Chunks copied inside a GPU."""
    sums: int = 0
    """Chunks added to others inside a GPU."""
    in_parts: bool = True
    """True when the program also ends at sizes at which the chunks of a message are sent one by one."""
    arrivals: list[Arrival] = field(default_factory=list)
    memory: dict[Place, Content] = field(default_factory=dict)
    """Every chunk that has been stored, at the end."""
    written_on: dict[Place, int] = field(default_factory=dict)
    """Line of the step that stored it last."""

    @property
    def defined(self) -> bool:
        """True when it is known what the collective must compute, of every one but a custom one."""
        return self.condition.collective != CUSTOM

    @property
    def local_work(self) -> list[str]:
        """Counts of chunks copied and added inside GPUs, in words, such as "3 local copies" and "2 local sums"; those
        that are 0 are left out."""
        counts = {"local copies": self.copies, "local sums": self.sums}
        return [f"{count} {what}" for what, count in counts.items() if count]


class _Piece(NamedTuple):
    """One chunk of a message under way."""

    content: Content
    message: int
    number: int
    """Position in its message."""
    chunks: int
    """Chunks of the message."""
    clock: Clock


_Access = tuple[int, int, int]
"""One read or write of a chunk: the threadblock, the tick of its clock, and its step."""


@dataclass(slots=True)
class _Block:
    """A threadblock that runs."""

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
    """True when the dependency of the current step is met."""
    held: list[Content] = field(default_factory=list)
    """The content that the current step has received and still has to forward, at most one."""

    def name(self, step: int) -> str:
        """Return the name of a step of this threadblock for messages: "GPU 0, threadblock 1, step 2"."""
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
        """Take a program with its buffers in place or not, as the condition says, before its first step.

        Args:
            condition: the collective, and where the chunks of its buffers lie.
            where: name of the program or its file, for messages.
            room: messages that a connection holds before its sender must wait.
            in_parts: True where every chunk of a message takes room of its own.
        """
        self._where, self._condition, self._done = where, condition, Run(condition)
        self._room, self._in_parts = room, in_parts
        self._gpus = program.gpus
        codes = [(rank, number, code) for rank, gpu in enumerate(self._gpus) for number, code in enumerate(gpu.blocks)]
        self._blocks = [
            _Block(rank, number, index, code, np.zeros(len(codes), np.int32))
            for index, (rank, number, code) in enumerate(codes)
        ]
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
        """Run all threadblocks to their ends, and return what happened; a machine runs once.

        Raises:
            ConfigError: steps race, sizes differ, or a message is left on a connection.
            WaitingError: steps wait for each other.
        """
        while self._ready:
            block = self._ready.popleft()
            while block.at < len(block.code.steps):
                needs = self._advanced(block, block.code.steps[block.at])
                if needs is not None:
                    self._waiting[needs].append(block)
                    break
        for block in self._blocks:
            if block.at < len(block.code.steps):
                at = block.at
                refuse(self._where, block.code.steps[at].line, block.name(at), "waits forever", WaitingError)
        for (sender, receiver, channel), pieces in self._under_way.items():
            if pieces:
                raise ConfigError(
                    f"{self._where}: GPU {receiver} leaves a message of GPU {sender} on channel {channel}"
                )
        self._done.written_on = {
            place: self._blocks[number].code.steps[step].line for place, (number, _, step) in self._last_write.items()
        }
        return self._done

    def _refuse(self, block: _Block, complaint: str) -> NoReturn:
        """Raise ConfigError that names the file, line, GPU, threadblock and current step of ``block``, and says the
        ``complaint``."""
        refuse(self._where, block.code.steps[block.at].line, block.name(block.at), complaint)

    def _wake(self, what: object) -> None:
        """Make the threadblocks that wait for the event ``what`` ready to go on."""
        self._ready.extend(self._waiting.pop(what, ()))

    def _advanced(self, block: _Block, step: Step) -> object | None:
        """Handle one chunk of the current step of a threadblock, and return None; or the event that the step must wait
        for first.

        An event is a step to be announced (GPU, threadblock, step), ``("full", connection)`` or ``("free",
        connection)``. Where nothing is waited for, ``block`` moves on, chunk by chunk and then to the next step.
        """
        if not block.waited:
            if step.depends is not None:
                number, awaited = step.depends
                event = (block.rank, number, self._gpus[block.rank].blocks[number].announced_by(awaited))
                if event not in self._announced:
                    return event
                np.maximum(block.clock, self._announced[event], out=block.clock)
            block.waited = True
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
            held = self._under_way[connection]
            messages = {piece.message for piece in held} if block.piece == 0 else ()
            if len(held if self._in_parts else messages) >= self._room:
                return "free", connection
            self._send(block, step, connection)
        elif step.type not in RECEIVES:
            self._work(block, step, self._read(block, step.source))
        block.held = []
        block.clock[block.index] += 1
        block.piece += 1
        if block.piece == step.count:
            self._end_step(block, step)
        return None

    def _end_step(self, block: _Block, step: Step) -> None:
        """Announce the end of the current step of a threadblock where others wait for it, waking them, and go to the
        next; a nop announces nothing."""
        if step.awaited and step.type != "nop":
            name = (block.rank, block.number, block.at)
            self._announced[name] = block.clock.copy()
            self._wake(name)
        block.at, block.piece, block.waited = block.at + 1, 0, False

    def _received(self, block: _Block, step: Step, connection: Connection) -> Content:
        """Take a chunk from a connection, add and store it as the type of the step says, and return what a fused step
        sends on: the sum, or the chunk's content where nothing adds.

        The chunk is recorded as an arrival, whose number is then the only part of its value, and its sender may go on.
        Raises ConfigError where sizes of messages differ, or steps race.
        """
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
        """Add a chunk's content, received or read, and store it as the type of the step says, and return the sum, or
        the content itself where nothing adds. Local copies and sums are counted."""
        if step.type in ADDS:
            own = self._read(block, step.destination if step.type == "re" else step.source)
            content = added(own, content, block.name(block.at) + (f" (line {step.line})" if step.line else ""))
        if step.type in WRITES:
            self._write(block, step.destination, content)
        self._done.copies += step.type == "cpy"
        self._done.sums += step.type == "re"
        return content

    def _send(self, block: _Block, step: Step, connection: Connection) -> None:
        """Put the chunk that a threadblock holds, or reads at the source of its step, on a connection, and wake who
        waits for it."""
        content = block.held[0] if block.held else self._read(block, step.source)
        clock = block.clock.copy()
        clock[block.index] += 1
        if block.piece == 0:
            self._done.messages += 1
            block.message = self._done.messages
        self._under_way[connection].append(_Piece(content, block.message, block.piece, step.count, clock))
        self._wake(("full", connection))

    def _read(self, block: _Block, first: tuple[str, int]) -> Content:
        """Return the content of the step's current chunk, in a buffer from ``first`` on (buffer, chunk), or None where
        nothing was stored; ConfigError where nothing orders this read after the last write there. The read is recorded,
        for the check of later writes."""
        place = self._condition.place(block.rank, first[0], first[1] + block.piece)
        self._ordered(block, place, [])
        self._reads[place].append(self._access(block))
        return self._memory.get(place)

    def _write(self, block: _Block, first: tuple[str, int], content: Content) -> None:
        """Store ``content`` in the step's current chunk of a buffer from ``first`` on (buffer, chunk); ConfigError
        where nothing orders this write after the last write there and the reads since."""
        place = self._condition.place(block.rank, first[0], first[1] + block.piece)
        self._ordered(block, place, self._reads.pop(place, []))
        self._last_write[place] = self._access(block)
        self._memory[place] = content

    def _access(self, block: _Block) -> _Access:
        """Return the access of the current step to a chunk.

        It is (threadblock, tick at which the step is done, step).
        """
        return block.index, int(block.clock[block.index]) + 1, block.at

    def _ordered(self, block: _Block, place: Place, before: list[_Access]) -> None:
        """Raise ConfigError about the current step of a threadblock unless vector clocks of the threadblocks order it
        after the accesses ``before``, and after the last write to ``place``, if any."""
        last = self._last_write.get(place)
        for number, tick, step in before if last is None else [*before, last]:
            if number != block.index and block.clock[number] < tick:
                buffer, chunk = place[1:]
                other = self._blocks[number].name(step)
                self._refuse(block, f"nothing orders it after {other}, which uses the same chunk {chunk} of {buffer!r}")


MOST_ROOM = 64
"""Largest room that is tried for a program which waits forever, to say whether more would help."""


def check(program: Program, where: str) -> list[Run]:
    """Check that a program keeps the rules, runs, and computes its collective; of a custom collective what it computes
    is not checked.

    Time grows with chunks moved times threadblocks, as clocks do.

    Args:
        where: name of the program or its file, for messages.

    Returns:
        One run for each way in which the program says that its buffers may lie, in place before out of place; out of
        place alone where it says neither.

    Raises:
        ConfigError: a rule is broken, a message of one size is received as another, steps wait forever or race, or a
            chunk of a result is wrong; names the line, or GPU, threadblock and step.
        UnsupportedError: a collective whose result is not defined.
    """
    conditions = [condition_of(program, in_place, where) for in_place in program.modes]
    check_rules(program, conditions[0], where)
    room = ROOM[program.protocol]
    runs = []
    for condition in conditions:
        try:
            run = Machine(program, condition, where, room).run()
        except WaitingError as error:
            raise ConfigError(f"{error}{_remedy(program, condition, where, room)}") from error
        if run.defined:
            _check_result(run, where)
        run.in_parts = _runs_in_parts(program, condition, where, room)
        runs.append(run)
    return runs


def _remedy(program: Program, condition: Condition, where: str, room: int) -> str:
    """Return a text that says with how much more room in each connection a program that waits forever would end; an
    empty text where none helps.

    ``condition`` says whether the buffers lie in place. ``room`` is the number of messages that a connection holds; it
    is doubled until the program ends, up to 64. The text begins with a space: " where a connection holds 2 messages,
    ...; 8 would do".
    """
    held = room
    while held < MOST_ROOM:
        held *= 2
        with suppress(ConfigError):
            Machine(program, condition, where, held).run()
            holds = f"where a connection holds {room} messages, as NCCL's do in protocol {program.protocol}"
            return f" {holds}; {held} would do"
    return ""


def _runs_in_parts(program: Program, condition: Condition, where: str, room: int) -> bool:
    """Return True if a program also ends where every chunk of a message takes room of its own, as the runtime sends
    chunks that do not fit in a slot together.

    ``condition`` says whether the buffers lie in place. ``room`` is the number of messages that a connection holds.
    True without a run where every step moves one chunk.
    """
    if any(step.count > 1 for gpu in program.gpus for block in gpu.blocks for step in block.steps):
        try:
            Machine(program, condition, where, room, in_parts=True).run()
        except WaitingError:
            return False
    return True


def _check_result(run: Run, where: str) -> None:
    """Find the root, kept as ``run.root`` (0 in kinds without one), and raise ConfigError unless every chunk that must
    be in the output at the end is there, with the contributions of exactly the ranks that it needs.

    ``where`` names the file in messages.

    Raises:
        ConfigError: a chunk of the output is not what the collective needs; names the first one.
    """
    condition = run.condition
    run.root = condition.root(run.memory)
    wrong = []
    for rank, k, chunk, contributors in condition.expected(run.root):
        place = condition.place(rank, "o", k)
        content = run.memory.get(place)
        if not (isinstance(content, Value) and content[:2] == (chunk, contributors)):
            wrong.append((rank, k, place, content, Value(chunk, contributors, frozenset())))
    if wrong:
        rank, k, place, content, expected = wrong[0]
        lying = "in place" if condition.in_place else "out of place"
        more = f"; {len(wrong) - 1} more chunks are wrong" if len(wrong) > 1 else ""
        has, must = described(content, condition.ranks), described(expected, condition.ranks)
        what = f"chunk {k} of the output is {has}: {condition.collective} {lying} needs {must}{more}"
        refuse(where, run.written_on.get(place, 0), f"GPU {rank}", what)


# The outcome of a check, as text for the terminal and as a document for ``--json``.

_RESULTS = {
    "allgather": "every GPU ends with the chunks of all",
    "reduce_scatter": "every GPU ends with its chunks summed over all",
    "allreduce": "every GPU ends with all chunks summed over all",
    "alltoall": "every GPU ends with what all others have for it",
    "broadcast": "every GPU ends with the chunks of GPU {root}",
    "reduce": "GPU {root} ends with all chunks summed over all",
}


def sentence(program: Program, runs: list[Run]) -> str:
    """Return what a program was found to do in its runs, in two or three lines for the terminal: result and counts,
    where it waits forever, and for which sizes it is chosen.

    Counts of messages and of local work are those of the first run.
    """
    run = runs[0]
    lying = " and ".join("in place" if run.condition.in_place else "out of place" for run in runs)
    if run.defined:
        result = _RESULTS[run.condition.collective].format(root=run.root)
    else:
        result = "what a custom collective computes is not in the file, so that values are not checked"
    work = ", ".join([f"{run.messages} messages", *run.local_work])
    lines = [
        f"{program.name}: {program.collective} over {len(program.gpus)} GPUs, {lying}: {result}; {work}, "
        "no step waits forever, none races"
    ]
    if not all(run.in_parts for run in runs):
        lines.append(
            "where messages of several chunks do not fit in a slot of a connection, they go chunk by chunk: "
            "at such sizes this program waits forever"
        )
    lines.append(f"chosen by microsoft/msccl {_chosen_sizes(program)}")
    return "\n".join(lines)


def _chosen_sizes(program: Program) -> str:
    """Return in words for which sizes a runtime chooses a program: "from 1 MiB to less than 2 MiB, where 16 divides the
    number of elements".

    Where both limits read alike it gives them in bytes too, "for 1 MiB (1,048,576 to 1,048,579 bytes)". It begins with
    ``never`` where no size lies between the limits.
    """
    if program.max_bytes <= program.min_bytes:
        limits = f"minBytes={program.min_bytes}, maxBytes={program.max_bytes}"
        return f"never: {limits}, and it asks minBytes <= size < maxBytes"
    smallest, largest = format_size(program.min_bytes), format_size(program.max_bytes)
    sizes = f"from {smallest} to less than {largest}"
    if smallest == largest:
        to = f" to {program.max_bytes - 1:,}" if program.max_bytes > program.min_bytes + 1 else ""
        sizes = f"for {smallest} ({program.min_bytes:,}{to} bytes)"
    return f"{sizes}, where {program.chunks} divides the number of elements"


def document(program: Program, runs: list[Run]) -> Document:
    """Return what a program was found to do, for ``--json``.

    Beside ``schema``, ``name``, ``collective`` (MSCCL's name), ``gpus`` (their number), ``chunks`` (of a loop),
    ``in_place``, ``out_of_place``, ``min_bytes`` and ``max_bytes`` it has ``root``, ``values_checked`` (false of a
    custom collective) and counts (``messages``, ``chunks_sent``, ``local_copies``, ``local_sums``) of the first run;
    ``waits_at_large_sizes`` is true where some run would wait forever with chunks sent one by one.
    """
    run = runs[0]
    return {
        "schema": "lightloom.msccl-check/2",
        **attributes(program, "name collective"),
        "gpus": len(program.gpus),
        "chunks": program.chunks,
        "in_place": any(run.condition.in_place for run in runs),
        "out_of_place": any(not run.condition.in_place for run in runs),
        **attributes(run, "values_checked=defined root"),
        "waits_at_large_sizes": not all(run.in_parts for run in runs),
        "messages": run.messages,
        "chunks_sent": len(run.arrivals),
        **attributes(run, "local_copies=copies local_sums=sums"),
        **attributes(program, "min_bytes max_bytes"),
    }
