"""Schedules as programs of MSCCL, which a GPU runtime can run.

Every pair of ranks that exchanges anything has a connection, of several channels where steps would be too many; each
end of a connection is a threadblock of its own. A queued schedule's lightpaths of one pair are channels. Rows keep an
order in which they can be sent one after the other, so that no threadblock waits forever. Programs state neither
wavelengths nor steps, which the runtime does not have.

In place: all-gather in the output, reduce-scatter and all-reduce in the input, chunk c at offset c. An all-to-all is
out of place: blocks for others leave the input, blocks from others come to the output, those that pass through lie in
scratch, and a rank copies what it has for itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from lightloom.collectives.files.msccl.check import check
from lightloom.collectives.files.msccl.program import Gpu, Program, Step, ThreadBlock
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

# Where the program of a schedule holds the chunks of each rank: input, output or scratch.


@dataclass(slots=True)
class Buffers:
    """Where each rank holds each chunk."""

    kind: str
    ranks: int
    chunks: int
    """Chunks of the collective that one rank holds at most, ``nchunksperloop``."""
    scratch: list[dict[int, int]]
    """Chunks that only pass through a rank, with their offset in its scratch buffer."""

    @classmethod
    def of(cls, schedule: Schedule) -> Buffers:
        """Return empty buffers for a schedule."""
        kind, ranks = schedule.collective.kind, schedule.collective.ranks
        chunks = schedule.chunks // ranks if kind == "all-to-all" else schedule.chunks
        return cls(kind, ranks, chunks, [{} for _ in range(ranks)])

    def place(self, rank: int, chunk: int) -> tuple[str, int]:
        """Return buffer and offset of a chunk at a rank."""
        if self.kind == "all-gather":
            return "o", chunk
        if self.kind != "all-to-all":
            return "i", chunk
        own = self.chunks // self.ranks
        source, inner = divmod(chunk, self.chunks)
        if rank == source:
            return "i", inner
        if rank == inner // own:
            return "o", source * own + inner % own
        return "s", self.scratch[rank].setdefault(chunk, len(self.scratch[rank]))

    def sizes(self, rank: int) -> dict[str, int]:
        """Return the number of chunks in each buffer of a rank."""
        own = self.chunks // self.ranks
        inputs = own if self.kind == "all-gather" else self.chunks
        outputs = own if self.kind == "reduce-scatter" else self.chunks
        return {"i": inputs, "o": outputs, "s": len(self.scratch[rank])}

    def kept(self) -> Iterator[tuple[int, tuple[str, int], tuple[str, int]]]:
        """Yield (rank, place, place) of what an all-to-all leaves at its rank, and what is to be copied."""
        own = self.chunks // self.ranks
        for rank in range(self.ranks if self.kind == "all-to-all" else 0):
            for k in range(rank * own, (rank + 1) * own):
                yield rank, ("i", k), ("o", k)


LARGEST_ELEMENT = 8
"""Bytes of the largest element of NCCL's types."""
NAMES = {
    "all-gather": "allgather",
    "reduce-scatter": "reduce_scatter",
    "all-reduce": "allreduce",
    "all-to-all": "alltoall",
}

Block = tuple[int, str, int, int]
"""GPU, "send", "receive" or "copy", peer, channel."""
Place = tuple[Block, int]
"""Threadblock, and the number of one of its steps."""


def program_of(schedule: Schedule, fabric: Fabric, advance: Callable[[int], None] = lambda _: None) -> Program:
    """Return a verified schedule as a program, which is checked against the rules and run symbolically.

    ``advance`` is called with numbers of rows that are done, once when they are ordered and once when they are written.

    Raises:
        UnsupportedError: another kind of collective, a switch that reduces, or more channels, threadblocks, steps or
            chunks than the runtime has.
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
    writer = _Writer(schedule, order, channels, 1, Buffers.of(schedule))
    most_spread = MOST_CHANNELS // (1 + max(channels, default=0))
    writer.write()
    while writer.longest > MOST_STEPS and 2 * writer.spread <= most_spread:
        writer = _Writer(schedule, order, channels, 2 * writer.spread, Buffers.of(schedule))
        writer.write()
    advance(len(schedule))
    program = writer.program()
    _check_fits(program, schedule.algorithm)
    check(program, schedule.algorithm)
    return program


def _check_fits(program: Program, name: str) -> None:
    """Raise UnsupportedError where a program needs more than a runtime has."""
    blocks = [block for gpu in program.gpus for block in gpu.blocks]
    most = {
        "channels": (program.channels, MOST_CHANNELS),
        "threadblocks on a GPU": (max(len(gpu.blocks) for gpu in program.gpus), MOST_BLOCKS),
        "steps in a threadblock": (max((len(block.steps) for block in blocks), default=0), MOST_STEPS),
        "peers on a channel": (max(_peers(gpu) for gpu in program.gpus), MOST_PEERS),
        "chunks in a buffer": (max(max(gpu.chunks.values()) for gpu in program.gpus), MOST_OFFSET + 1),
    }
    for what, (needed, limit) in most.items():
        if needed > limit:
            raise UnsupportedError(f"{name}: the program needs {needed} {what}: MSCCL's runtime has {limit}")


def _peers(gpu: Gpu) -> int:
    """Return the largest number of threadblocks that send on one channel."""
    sends = [(block.send >= 0, block.channel) for block in gpu.blocks]
    return max((sends.count(end) for end in sends), default=0)


def _channels_of_rows(schedule: Schedule) -> list[int]:
    """Return the channel of each row: one per lightpath of a pair in a queued schedule, one per pair otherwise.

    Where a rank has too many peers for one channel, distant peers use further channels.
    """
    ends = (schedule.source.tolist(), schedule.destination.tolist(), schedule.lightpath.tolist())
    numbers: dict[tuple[int, int], dict[int, int]] = {}
    peers: tuple[set[tuple[int, int]], set[tuple[int, int]]] = (set(), set())
    for source, destination, path in zip(*ends, strict=True):
        known = numbers.setdefault((source, destination), {})
        known.setdefault(path if schedule.queued else 0, len(known))
        peers[0].add((source, destination))
        peers[1].add((destination, source))
    most = max((count for side in peers for count in Counter(rank for rank, _ in side).values()), default=0)
    paths = max(map(len, numbers.values()), default=1)
    row_channels = []
    for source, destination, path in zip(*ends, strict=True):
        distance = (destination - source) % schedule.collective.ranks - 1
        far = distance // MOST_PEERS if most > MOST_PEERS else 0
        row_channels.append(far * paths + (numbers[source, destination][path] if schedule.queued else 0))
    return row_channels


@dataclass(slots=True)
class _Writer:
    """Threadblocks of a program while rows become their steps."""

    schedule: Schedule
    order: RowOrder
    channels: list[int]
    spread: int
    """Number of channels over which the chunks of one channel are spread."""
    buffers: Buffers
    steps: dict[Block, list[Step]] = field(default_factory=dict)
    waits: dict[Place, Place] = field(default_factory=dict)
    _waited: dict[tuple[Block, Block], int] = field(default_factory=dict)
    """Step of the second threadblock that the first has waited for."""

    @property
    def longest(self) -> int:
        """Number of steps of the longest threadblock."""
        return max((len(steps) for steps in self.steps.values()), default=0)

    def write(self) -> None:
        """Write every row as a send and a receive."""
        source, destination, chunk, adds = row_lists(self.schedule)
        sent: dict[int, Place] = {}
        arrived: dict[int, Place] = {}
        numbers = {row: number for number, row in enumerate(self.order.rows)}
        for group in self.order.groups:
            for row in group:
                here = self.buffers.place(source[row], chunk[row])
                block = (source[row], "send", destination[row], self._channel(row, chunk[row]))
                sent[row] = self._add(block, "s", here, (arrived[earlier] for earlier in self.order.reads[row][-1:]))
            for row in group:
                here = self.buffers.place(destination[row], chunk[row])
                block = (destination[row], "receive", source[row], self._channel(row, chunk[row]))
                # Sums are added one after the other: the last writer has waited for the earlier ones and their readers.
                before = sorted({*self.order.after_writes[row], *self.order.sums[row]}, key=numbers.__getitem__)[-1:]
                passed = {earlier for last in before for earlier in self.order.after_reads[last]}
                reads = [sent[earlier] for earlier in self.order.after_reads[row] if earlier not in passed]
                waits = [*reads, *(arrived[earlier] for earlier in before)]
                arrived[row] = self._add(block, "rrc" if adds[row] else "r", here, waits)

        for rank, here, there in self.buffers.kept():
            copies = self.steps.setdefault((rank, "copy", -1, 0), [])
            copies.append(Step(type="cpy", source=here, destination=there))

    def _channel(self, row: int, chunk: int) -> int:
        """Return the channel of a row, over which its chunk is spread."""
        return self.channels[row] * self.spread + chunk % self.spread

    def _add(self, block: Block, kind: str, here: tuple[str, int], waits: Iterable[Place]) -> Place:
        """Append a step, after a nop for every dependency but the last."""
        steps = self.steps.setdefault(block, [])
        latest: dict[Block, int] = {}
        for other, step in waits:
            if other != block and step > self._waited.get((block, other), -1):
                latest[other] = max(step, latest.get(other, -1))
        for remaining, (other, step) in zip(reversed(range(len(latest))), latest.items(), strict=True):
            self._waited[block, other] = step
            self.steps[other][step].awaited = True
            self.waits[block, len(steps)] = other, step
            if remaining:
                steps.append(Step(type="nop"))
        steps.append(Step(type=kind, source=here, destination=here))
        return block, len(steps) - 1

    def program(self) -> Program:
        """Return the program: steps in threadblocks, numbered by peers and channel."""
        gpus = []
        for rank in range(self.buffers.ranks):
            mine = sorted(block for block in self.steps if block[0] == rank)
            if len(mine) > MOST_AWAITED + 1:
                mine.sort(key=lambda block: not any(step.awaited for step in self.steps[block]))
            number = {block: i for i, block in enumerate(mine)}
            blocks = []
            for block in mine:
                _, verb, peer, channel = block
                for i, step in enumerate(self.steps[block]):
                    if (block, i) in self.waits:
                        other, awaited = self.waits[block, i]
                        step.depends = number[other], awaited
                ends = {"send": {"send": peer}, "receive": {"receive": peer}}.get(verb, {})
                blocks.append(ThreadBlock(**ends, channel=channel, steps=self.steps[block]))
            gpus.append(Gpu(chunks=self.buffers.sizes(rank), blocks=blocks))
        smallest, largest = _chosen_sizes(self.schedule.collective.nbytes, self.buffers.chunks)
        in_place = self.buffers.kind != "all-to-all"
        return Program(
            name=self.schedule.algorithm,
            collective=NAMES[self.buffers.kind],
            channels=1 + max((block[3] for block in self.steps), default=0),
            chunks=self.buffers.chunks,
            in_place=in_place,
            out_of_place=not in_place,
            min_bytes=smallest,
            max_bytes=largest + 1,
            gpus=gpus,
        )


def _chosen_sizes(nbytes: float, chunks: int) -> tuple[int, int]:
    """Return the smallest and the largest size in bytes for which a runtime should choose a program.

    A runtime takes a program only for numbers of elements that its chunks divide. The sizes are the one that the
    schedule was made for or, where some elements do not divide it, the next below and above that every element of up to
    eight bytes does.
    """
    unit = LARGEST_ELEMENT * chunks
    return math.floor(nbytes / unit) * unit, math.ceil(nbytes / unit) * unit
