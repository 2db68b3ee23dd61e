"""Schedules as programs of MSCCL, which a GPU runtime can run.

Every pair of ranks that exchanges anything has a connection, of several channels where steps would be too many; each
end of a connection is a threadblock of its own, or, where a GPU would need more threadblocks than the runtime has, one
threadblock sends to a peer and receives from it in turn. A queued schedule's lightpaths of one pair are channels. Rows
keep an order in which they can be sent one after the other, so that no threadblock waits forever. Programs state
neither wavelengths nor steps, which the runtime does not have.

In place: all-gather in the output, reduce-scatter and all-reduce in the input, chunk c at offset c. An all-to-all is
out of place: blocks for others leave the input, blocks from others come to the output, those that pass through lie in
scratch, and a rank copies what it has for itself.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from lightloom.collectives.collective import ROOTED
from lightloom.collectives.files.msccl.check import check
from lightloom.collectives.files.msccl.program import RECEIVES, SENDS, Gpu, Program, Step, ThreadBlock
from lightloom.collectives.files.msccl.read import KINDS
from lightloom.collectives.files.msccl.rules import (
    MOST_AWAITED,
    MOST_BLOCKS,
    MOST_CHANNELS,
    MOST_OFFSET,
    MOST_PEERS,
    MOST_STEPS,
)
from lightloom.collectives.files.row_order import RowOrder, row_lists, row_order
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric

LARGEST_ELEMENT = 8
"""Bytes of the largest element of NCCL's types."""
NAMES = {kind: name for name, kind in KINDS.items() if kind not in ROOTED}

Block = tuple[int, str, int, int]
"""GPU, "send", "receive", "both" or "copy", peer, channel."""
Place = tuple[Block, int]
"""Threadblock, and the number of one of its steps."""


def program_of(schedule: Schedule, fabric: Fabric, advance: Callable[[int], None] = lambda _: None) -> Program:
    """Return a verified schedule as a program, which is checked against the rules and run symbolically.

    ``advance`` is called with the number of all rows (of the unfolded schedule) twice: once when they are ordered and
    once when they are written.

    Raises:
        UnsupportedError: a kind other than all-gather, reduce-scatter, all-reduce and all-to-all, a switch that
            reduces, or more channels, threadblocks, steps or chunks than the runtime has.
        ConfigError: the program breaks a rule or fails in its run, which would be a fault of this function.
    """
    kind = schedule.collective.kind
    if kind not in NAMES:
        why = "a runtime chooses a program for any root, permutation and sizes, and one serves only its own"
        raise UnsupportedError(f"{kind} has no MSCCL program, for {why}: expected {', '.join(NAMES)}")
    # A row is a step of its source and one of its destination: what cannot fit is not written out.
    steps, most = 2 * schedule.unfolded_rows, schedule.collective.ranks * MOST_BLOCKS * MOST_STEPS
    if steps > most:
        raise UnsupportedError(
            f"{schedule.algorithm}: the program needs {steps:,} steps: MSCCL's runtime has {most:,} on "
            f"{schedule.collective.ranks} GPUs"
        )
    schedule = schedule.unfolded(fabric.fibre_channels)
    order = row_order(schedule)
    advance(len(schedule))
    channels = _channels_of_rows(schedule)
    most_spread = MOST_CHANNELS // (1 + max(channels))
    spread, shared = 1, False
    while True:
        writer = ProgramWriter(schedule, order, channels, spread, shared)
        writer.write()
        if not shared and writer.too_many_blocks():
            shared = True
        elif max(map(len, writer.steps.values())) > MOST_STEPS and 2 * spread <= most_spread:
            spread *= 2
        else:
            break
    advance(len(schedule))
    program = writer.program()
    _check_fits(program, schedule.algorithm)
    check(program, schedule.algorithm)
    return program


def _check_fits(program: Program, name: str) -> None:
    """Raise UnsupportedError where a program needs more than MSCCL's runtime has: 32 channels, 216 threadblocks on a
    GPU, numbers up to 127 of threadblocks for which others wait, 256 steps in a threadblock, 32 peers on a channel of a
    GPU, 32,768 chunks in a buffer. ``name`` is that of the algorithm, for the message."""
    blocks = [block for gpu in program.gpus for block in gpu.blocks]
    awaited = [step.depends[0] for block in blocks for step in block.steps if step.depends]
    most = {
        "channels": (program.channels, MOST_CHANNELS),
        "threadblocks on a GPU": (max(len(gpu.blocks) for gpu in program.gpus), MOST_BLOCKS),
        "threadblocks for which others wait": (1 + max(awaited, default=-1), MOST_AWAITED + 1),
        "steps in a threadblock": (max(len(block.steps) for block in blocks), MOST_STEPS),
        "peers on a channel": (max(_peers(gpu) for gpu in program.gpus), MOST_PEERS),
        "chunks in a buffer": (max(max(gpu.chunks.values()) for gpu in program.gpus), MOST_OFFSET + 1),
    }
    for what, (needed, limit) in most.items():
        if needed > limit:
            raise UnsupportedError(f"{name}: the program needs {needed} {what}: MSCCL's runtime has {limit}")


def _peers(gpu: Gpu) -> int:
    """Return the most threadblocks of a GPU on one channel, those that send and those that do not counted
    apart."""
    sends = [(block.send >= 0, block.channel) for block in gpu.blocks]
    return max(sends.count(end) for end in sends)


def _channels_of_rows(schedule: Schedule) -> list[int]:
    """Return the channel of each row: the number, from 0, of its lightpath among those of its (source, destination), in
    order of appearance, in a queued schedule; 0 otherwise.

    Where a rank has more than 32 peers, so too many for one channel, pairs are put apart by the sum of their two ranks
    modulo the ranks: each 32 sums get channels of their own, which a pair has in both directions.
    """
    path = schedule.lightpath if schedule.queued else np.zeros_like(schedule.lightpath)
    rows = list(zip(schedule.source.tolist(), schedule.destination.tolist(), path.tolist(), strict=True))
    numbers: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for source, destination, number in rows:
        known = numbers[source, destination]
        known.setdefault(number, len(known))
    peers = Counter(end for source, destination in numbers for end in (("send", source), ("receive", destination)))
    crowded = max(peers.values()) > MOST_PEERS
    paths = max(map(len, numbers.values()))
    ranks = schedule.collective.ranks
    return [
        crowded * ((source + destination) % ranks) // MOST_PEERS * paths + numbers[source, destination][number]
        for source, destination, number in rows
    ]


@dataclass
class ProgramWriter:
    """Threadblocks of a program while rows become their steps."""

    schedule: Schedule
    order: RowOrder
    channels: list[int]
    spread: int
    """Number of channels over which the chunks of one channel are spread."""
    shared: bool = False
    """True where one threadblock sends to a peer and receives from it; both ends of a connection are apart otherwise.

    It does not wait forever either: its steps come in the order of rows, whose messages arrive before they are read.
    """
    scratch: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Chunks that only pass through a rank, with their offset in its scratch buffer."""
    steps: dict[Block, list[Step]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[Place, Place] = field(default_factory=dict)
    """Step that each waiting step waits for, by the place of the waiting one."""
    _waited: dict[tuple[Block, Block], int] = field(default_factory=dict)
    """Step of the second threadblock that the first has waited for."""

    def __post_init__(self) -> None:
        """Take kind and ranks from the schedule, and the chunks that one rank holds at most, ``nchunksperloop``."""
        self.kind, self.ranks = self.schedule.collective.kind, self.schedule.collective.ranks
        self.chunks = self.schedule.chunks // (self.ranks if self.kind == "all-to-all" else 1)

    def place(self, rank: int, chunk: int) -> tuple[str, int]:
        """Return buffer ("i", "o" or "s") and offset of a chunk at a rank.

        All chunks lie in the output in an all-gather, and in the input in a reduce-scatter or an all-reduce. In an
        all-to-all a chunk lies in the input of its source and the output of its destination; at any other rank it gets
        an offset in scratch when it is first asked for.
        """
        if self.kind != "all-to-all":
            return "o" if self.kind == "all-gather" else "i", chunk
        own = self.chunks // self.ranks
        source, inner = divmod(chunk, self.chunks)
        if rank == source:
            return "i", inner
        if rank == inner // own:
            return "o", source * own + inner % own
        return "s", self.scratch[rank].setdefault(chunk, len(self.scratch[rank]))

    def sizes(self, rank: int) -> dict[str, int]:
        """Return the number of chunks in each buffer of a rank: input ("i"), output ("o") and scratch ("s"), the last
        as many as :meth:`place` has put there so far."""
        own = self.chunks // self.ranks
        inputs = own if self.kind == "all-gather" else self.chunks
        outputs = own if self.kind == "reduce-scatter" else self.chunks
        return {"i": inputs, "o": outputs, "s": len(self.scratch[rank])}

    def write(self) -> None:
        """Write every row into :attr:`steps` as a step of a sending threadblock ("s") and one of a receiving
        threadblock ("rrc" where it adds, else "r"), in the order of rows, with what each waits for.

        In an all-to-all each rank also copies the chunks that it has for itself.
        """
        source, destination, chunk, adds = row_lists(self.schedule)
        sent: dict[int, Place] = {}
        arrived: dict[int, Place] = {}
        numbers = {row: number for number, row in enumerate(self.order.rows)}
        ends = ("both", "both") if self.shared else ("send", "receive")
        for group in self.order.groups:
            for row in group:
                here = self.place(source[row], chunk[row])
                block = (source[row], ends[0], destination[row], self._channel(row, chunk[row]))
                sent[row] = self._add(block, "s", here, (arrived[earlier] for earlier in self.order.reads[row][-1:]))
            for row in group:
                here = self.place(destination[row], chunk[row])
                block = (destination[row], ends[1], source[row], self._channel(row, chunk[row]))
                # Sums are added one after the other: the last writer has waited for the earlier ones and their readers.
                before = sorted({*self.order.after_writes[row], *self.order.sums[row]}, key=numbers.__getitem__)[-1:]
                passed = {earlier for last in before for earlier in self.order.after_reads[last]}
                reads = [sent[earlier] for earlier in self.order.after_reads[row] if earlier not in passed]
                waits = [*reads, *(arrived[earlier] for earlier in before)]
                arrived[row] = self._add(block, "rrc" if adds[row] else "r", here, waits)

        # What an all-to-all leaves at its rank.
        own = self.chunks // self.ranks if self.kind == "all-to-all" else 0
        for rank in range(self.ranks):
            for k in range(rank * own, (rank + 1) * own):
                self.steps[rank, "copy", -1, 0].append(Step(type="cpy", source=("i", k), destination=("o", k)))

    def _channel(self, row: int, chunk: int) -> int:
        """Return the channel of a row that carries ``chunk``: each channel of :attr:`channels` is split into ``spread``
        that share the chunks in turn, so channel times ``spread`` plus ``chunk`` modulo ``spread``."""
        return self.channels[row] * self.spread + chunk % self.spread

    def _add(self, block: Block, kind: str, here: tuple[str, int], waits: Iterable[Place]) -> Place:
        """Append a step to a threadblock, after a nop for every dependency but the last, and return its place: the
        threadblock and the step's number.

        Dependencies in its own threadblock, or that it has already waited for, need none; of several steps of one other
        threadblock only the last is waited for. Steps that are waited for are marked as ``awaited``.

        Args:
            block: threadblock: GPU, "send", "receive", "both" or "copy", peer, channel.
            kind: type of the step.
            here: buffer and offset that it reads or writes.
            waits: places of steps that must have ended before.
        """
        steps = self.steps[block]
        latest: dict[Block, int] = {}
        for other, step in waits:
            if other != block and step > self._waited.get((block, other), -1):
                latest[other] = max(step, latest.get(other, step))
        for remaining, (other, step) in zip(reversed(range(len(latest))), latest.items(), strict=True):
            self._waited[block, other] = step
            self.steps[other][step].awaited = True
            self.waits[block, len(steps)] = other, step
            if remaining:
                steps.append(Step(type="nop"))
        steps.append(Step(type=kind, source=here, destination=here))
        return block, len(steps) - 1

    def too_many_blocks(self) -> bool:
        """Return whether a GPU has more threadblocks (216), or more for which others wait (128), than the runtime can
        number."""
        counts = Counter(block[0] for block in self.steps)
        awaited = Counter(block[0] for block in {block for block, _ in self.waits.values()})
        return max(counts.values(), default=0) > MOST_BLOCKS or max(awaited.values(), default=0) > MOST_AWAITED + 1

    def program(self) -> Program:
        """Return the program that :meth:`write` has written: steps in threadblocks, numbered by kind ("both", "copy",
        "receive", "send"), peer and channel, on a GPU with more than 128 those first for which others wait.

        It runs in place, but out of place in an all-to-all. It is chosen for the sizes from ``nbytes`` of the schedule
        rounded down to ``nbytes`` rounded up to a multiple of 8 bytes times the program's chunks (``nchunksperloop``);
        ``max_bytes`` is one more, as runtimes leave it out. Steps get their dependencies here.
        """
        gpus = []
        for rank in range(self.ranks):
            mine = sorted(block for block in self.steps if block[0] == rank)
            if len(mine) > MOST_AWAITED + 1:
                mine.sort(key=lambda block: not any(step.awaited for step in self.steps[block]))
            number = {block: i for i, block in enumerate(mine)}
            blocks = []
            for block in mine:
                for i, step in enumerate(self.steps[block]):
                    if (block, i) in self.waits:
                        other, awaited = self.waits[block, i]
                        step.depends = number[other], awaited
                kinds, (_, _, peer, channel) = {step.type for step in self.steps[block]}, block
                send, receive = (peer if kinds & types else -1 for types in (SENDS, RECEIVES))
                blocks.append(ThreadBlock(send=send, receive=receive, channel=channel, steps=self.steps[block]))
            gpus.append(Gpu(chunks=self.sizes(rank), blocks=blocks))
        # A runtime takes a program only for numbers of elements that its chunks divide: it should choose this one for
        # the size that the schedule was made for or, where some elements do not divide it, from the next below to the
        # next above that every element of up to eight bytes does.
        unit = LARGEST_ELEMENT * self.chunks
        units = self.schedule.collective.nbytes / unit
        in_place = self.kind != "all-to-all"
        return Program(
            name=self.schedule.algorithm,
            collective=NAMES[self.kind],
            channels=1 + max(block[3] for block in self.steps),
            chunks=self.chunks,
            in_place=in_place,
            out_of_place=not in_place,
            min_bytes=math.floor(units) * unit,
            max_bytes=math.ceil(units) * unit + 1,
            gpus=gpus,
        )
