"""The rules that a program of MSCCL must keep, checked without the code that writes programs.

As msccl-tools writes programs, and as microsoft/msccl and Azure's executor read them:

* channels, threadblocks, steps, counts and peers of a channel within the runtime's limits;
* a connection (sender, receiver, channel) belongs to one threadblock at each end; nobody sends to itself;
* steps have a known type and only peers that their threadblock has; chunks lie in their buffers, and buffers hold as
  many chunks as the collective has;
* a dependency names a step that its threadblock announces; a nop waits for something, and what follows a nop too;
* reductions that the runtime merges have the same count.

Class :class:`~lightloom.collectives.files.msccl.check.Machine` checks what happens when it runs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

from lightloom.collectives.files.msccl.program import (
    BUFFERS,
    OWN,
    READS_SOURCE,
    RECEIVES,
    SENDS,
    TYPES,
    WRITES,
    Content,
    Gpu,
    Program,
    Step,
    ThreadBlock,
    Value,
)
from lightloom.core.errors import ConfigError, InputError, UnsupportedError

# What the buffers of a program hold before and must hold after, written down without the code that makes schedules.
#
# ``n`` is ``nchunksperloop``, ``own`` is n / ranks. Chunks are numbered over all GPUs where data moves, and within
# one input where it is summed:
#
# collective      input   output   chunk of input k on GPU r   output k of GPU r must be
# allgather       own     n        r * own + k                 chunk k
# reduce_scatter  n       own      k                           chunk r * own + k summed over all GPUs
# allreduce       n       n        k                           chunk k summed over all GPUs
# alltoall        n       n        r * n + k                   chunk (k // own) * n + r * own + k % own
# broadcast       n       n        r * n + k                   chunk root * n + k
# reduce          n       n        k                           on the root: chunk k summed over all GPUs
#
# In place, the smaller of input and output is the GPU's own part of the larger, as in NCCL. A file does not name its
# root: it is the GPU whose data arrives, or the one that holds the sum.

Place = tuple[int, str, int]
"""GPU, buffer, chunk; of buffers that share memory, the larger."""

SUMMED = ("reduce_scatter", "allreduce", "reduce")
CHECKED = ("allgather", "alltoall", "broadcast", *SUMMED)
"""Collectives whose result is defined."""
CUSTOM = "custom"
"""Collective whose result only its author knows."""
_SYNONYMS = {"reducescatter": "reduce_scatter"}
"""microsoft/msccl reads one name, msccl-tools and Azure's executor write and read the other."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The collective of a program, in place or not."""

    collective: str
    ranks: int
    chunks: int
    in_place: bool
    inputs: tuple[int, ...]
    """Chunks of each GPU's input."""
    outputs: tuple[int, ...]
    """Chunks of each GPU's output."""

    def size(self, rank: int, buffer: str) -> int | None:
        """Return the number of chunks of a GPU's input ("i") or output ("o"); None for scratch ("s")."""
        return {"i": self.inputs[rank], "o": self.outputs[rank]}.get(buffer)

    def place(self, rank: int, buffer: str, chunk: int) -> Place:
        """Return the memory of a chunk of a GPU's buffer ("i", "o" or "s"): GPU, buffer, chunk.

        Scratch, and everything out of place, lies where it is named. In place, a chunk of the smaller of input and
        output lies in the larger, at the GPU's own part of it (``rank`` times the smaller's chunks on), and one of two
        equally large buffers at the same place of the input.
        """
        if not self.in_place or buffer == "s":
            return rank, buffer, chunk
        inputs, outputs = self.inputs[rank], self.outputs[rank]
        larger = "i" if inputs >= outputs else "o"
        moved = buffer != larger and inputs != outputs
        return rank, larger, chunk + moved * rank * min(inputs, outputs)

    def initial(self) -> Iterator[tuple[Place, Value]]:
        """Yield the place and the value of every chunk of all inputs, as they are before the program runs: GPU by GPU,
        with that GPU as the only contributor.

        Chunks are numbered over all GPUs, or within one input where the collective adds.
        """
        first = 0
        for rank, count in enumerate(self.inputs):
            for k in range(count):
                yield self.place(rank, "i", k), Value(first + k, 1 << rank, OWN)
            first += 0 if self.collective in SUMMED else count

    def root(self, memory: Mapping[Place, Content]) -> int:
        """Return the root that a finished program has served; 0 where the collective has none or none can be told.

        Only the first chunk of each output is looked at: of a broadcast the GPU from whose input most of them come, of
        a reduce the first GPU where it is the sum over all. ``memory`` is the content of every chunk at the end.
        """
        values = [memory.get(self.place(rank, "o", 0)) for rank in range(self.ranks)]
        if self.collective == "broadcast":
            chunks = [value.chunk // self.chunks for value in values if isinstance(value, Value)]
            return max(set(chunks), key=chunks.count, default=0)
        whole = [isinstance(value, Value) and value.contributors == (1 << self.ranks) - 1 for value in values]
        return whole.index(True) if self.collective == "reduce" and any(whole) else 0

    def expected(self, root: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (GPU, chunk of its output, chunk number, contributors) of every chunk that must be in an output at the
        end.

        Chunks are numbered as in :meth:`initial`; contributors are bits, bit r for GPU r: all where data is summed,
        else the one of the GPU that the chunk comes from. Nothing is yielded of a custom collective, and in a reduce
        nothing but the output of ``root``.
        """
        everyone, own = (1 << self.ranks) - 1, max(1, self.chunks // self.ranks)
        for rank, count in enumerate(self.outputs):
            for k in range(count):
                if self.collective == "allgather":
                    yield rank, k, k, 1 << k // own
                elif self.collective == "alltoall":
                    yield rank, k, k // own * self.chunks + rank * own + k % own, 1 << k // own
                elif self.collective == "broadcast":
                    yield rank, k, root * self.chunks + k, 1 << root
                elif self.collective == "reduce_scatter":
                    yield rank, k, rank * own + k, everyone
                elif self.collective == "allreduce" or (self.collective == "reduce" and rank == root):
                    yield rank, k, k, everyone


def condition_of(program: Program, in_place: bool, where: str) -> Condition:
    """Return the pre- and postcondition of a program, with its buffers in place or not: its collective, the numbers of
    GPUs and of chunks, and the chunks of each GPU's input and output.

    Sizes of input and output follow from the collective; of a custom one they are those that each GPU states.

    Raises:
        UnsupportedError: a collective whose result is not defined here, or, in an all-gather, a reduce-scatter or an
            all-to-all, chunks (``nchunksperloop``) that are no multiple of the GPUs; ``where`` names the file.
    """
    name = _SYNONYMS.get(program.collective, program.collective)
    ranks, chunks = len(program.gpus), program.chunks
    if name not in (*CHECKED, CUSTOM):
        raise UnsupportedError(
            f"{where}: collective {program.collective!r}: expected one of {', '.join(CHECKED)}, custom"
        )
    if name == CUSTOM:
        inputs, outputs = (tuple(gpu.chunks[buffer] for gpu in program.gpus) for buffer in BUFFERS[:2])
        return Condition(name, ranks, chunks, in_place, inputs, outputs)
    own, uneven = divmod(chunks, ranks)
    if uneven and name in ("allgather", "alltoall", "reduce_scatter"):
        raise UnsupportedError(
            f"{where}: nchunksperloop={chunks} with {ranks} GPUs: expected a multiple of {ranks} chunks, "
            f"for every GPU has as many in an {name}"
        )
    held = (own if name == "allgather" else chunks, own if name == "reduce_scatter" else chunks)
    return Condition(name, ranks, chunks, in_place, (held[0],) * ranks, (held[1],) * ranks)


MOST_CHANNELS = 32
MOST_STEPS = 256
MOST_PEERS = 32
"""Largest number of threadblocks that send, and that receive, on one channel of a GPU."""
MOST_BLOCKS = 216
"""Largest number of threadblocks of a GPU: two on each of an A100's 108 multiprocessors."""
MOST_COUNT = 71
MOST_OFFSET = (1 << 15) - 1
"""Largest offset of a chunk, and largest number of a step: sixteen bits with a sign."""
MOST_AWAITED = (1 << 7) - 1
"""Largest number of a threadblock for which others wait: eight bits with a sign."""
ROOM = {"Simple": 2, "LL": 8, "LL128": 8}
"""Messages that a connection inside a node holds: each takes four of NCCL's eight slots in Simple, else one."""


def check_rules(program: Program, condition: Condition, where: str) -> None:
    """Check every rule that a program must keep, and raise at the first that is broken.

    They are the protocol's name, the runtime's limits (channels, threadblocks, steps, counts, peers on a channel), the
    sizes of buffers, one threadblock at each end of a connection, types, peers and places of steps, and what they wait
    for. What happens in a run is not looked at.

    Args:
        condition: pre- and postcondition of the program, by which buffers are checked.
        where: name of the file, for messages.

    Raises:
        ConfigError: names the line (or GPU, threadblock and step, for a program that was not read).
    """
    if program.protocol not in ROOM:
        raise ConfigError(f"{where}: protocol {program.protocol!r}: expected one of {', '.join(ROOM)}")
    if not 1 <= program.channels <= MOST_CHANNELS:
        raise ConfigError(f"{where}: {program.channels} channels: expected 1 to {MOST_CHANNELS}")
    ends: set[tuple[str, int, int, int]] = set()
    for rank, gpu in enumerate(program.gpus):
        _check_buffers(gpu, rank, condition, where)
        if len(gpu.blocks) > MOST_BLOCKS:
            refuse(where, gpu.line, f"GPU {rank}", f"{len(gpu.blocks)} threadblocks: at most {MOST_BLOCKS}")
        for number, block in enumerate(gpu.blocks):
            name = f"GPU {rank}, threadblock {number}"
            _check_block(program, rank, block, name, where)
            for verb, peer in (("sends to", block.send), ("receives from", block.receive)):
                end = (verb, rank, peer, block.channel)
                if peer >= 0 and end in ends:
                    what = f"{verb} GPU {peer} on channel {block.channel}, as another threadblock does"
                    refuse(where, block.line, name, what)
                ends.add(end)
            for i, step in enumerate(block.steps):
                _check_step(gpu, block, i, step, f"{name}, step {i}", where)
        _check_peers(gpu, f"GPU {rank}", where)


def refuse(where: str, line: int, what: str, complaint: str, error: type[InputError] = ConfigError) -> NoReturn:
    """Raise ``error`` with the message "WHERE, line LINE: WHAT: COMPLAINT": a file, a line of it (0: none is named),
    what stands there, and what is wrong with it."""
    raise error(f"{where}{f', line {line}' if line else ''}: {what}: {complaint}")


def _check_buffers(gpu: Gpu, rank: int, condition: Condition, where: str) -> None:
    """Raise ConfigError unless input and output of GPU number ``rank`` hold as many chunks as ``condition`` says, or
    none; scratch may have any size. ``where`` names the file in messages."""
    over = f"nchunksperloop={condition.chunks} over {condition.ranks} GPUs in an {condition.collective}"
    for buffer in ("i", "o"):
        held, size = gpu.chunks[buffer], condition.size(rank, buffer)
        # A buffer that no step names may be said to hold nothing.
        if held not in (0, size):
            refuse(where, gpu.line, f"GPU {rank}", f"{buffer}_chunks={held}: expected {size}, for {over}")


def _check_block(program: Program, rank: int, block: ThreadBlock, name: str, where: str) -> None:
    """Raise ConfigError where a threadblock of GPU ``rank`` has a peer that is neither -1 nor another GPU of the
    program, a channel outside those of the program, more than 256 steps, a nop at its end, or local reductions that a
    runtime merges (two in a row to the same place from the same buffer, with no dependency between) and that add
    different counts.

    ``name`` names the threadblock, and ``where`` the file, in messages.
    """
    for peer in (block.send, block.receive):
        if not -1 <= peer < len(program.gpus) or peer == rank:
            refuse(where, block.line, name, f"peer {peer}: expected another of the {len(program.gpus)} GPUs, or -1")
    if not 0 <= block.channel < program.channels:
        refuse(where, block.line, name, f"channel {block.channel}: expected 0 to {program.channels - 1}")
    if len(block.steps) > MOST_STEPS:
        refuse(where, block.line, name, f"{len(block.steps)} steps: at most {MOST_STEPS}")
    if block.steps and block.steps[-1].type == "nop":
        refuse(where, block.steps[-1].line, name, "ends with a nop, which only gathers what the next step waits for")
    for i, (step, after) in enumerate(pairwise(block.steps)):
        merged = step.type == after.type == "re" and not step.awaited and after.depends is None
        alike = step.destination == after.destination and step.source[0] == after.source[0]
        if merged and alike and step.count != after.count:
            what = f"adds {after.count} chunks to those to which step {i} adds {step.count}"
            refuse(where, after.line, f"{name}, step {i + 1}", f"{what}: runtimes merge such steps and use one count")


def _check_peers(gpu: Gpu, name: str, where: str) -> None:
    """Raise ConfigError where more than 32 threadblocks of a GPU send, or receive, on one channel; ``name`` is that of
    the GPU, ``where`` of the file, in messages."""
    for kind in ("send", "receive"):
        for channel, count in Counter(block.channel for block in gpu.blocks if getattr(block, kind) >= 0).items():
            if count > MOST_PEERS:
                refuse(where, gpu.line, name, f"{count} threadblocks {kind} on channel {channel}: at most {MOST_PEERS}")


def _check_step(gpu: Gpu, block: ThreadBlock, i: int, step: Step, name: str, where: str) -> None:
    """Check step ``i`` of a threadblock and raise ConfigError where it is wrong: an unknown type, a peer that the
    threadblock lacks, a count outside 1 to 71, chunks outside their buffer or beyond offset 32,767, a source that
    partly overlaps the destination, a dependency that is never announced, or none where a nop or what follows one
    must wait.

    ``name`` names the step, and ``where`` the file, in messages.
    """
    if step.type not in TYPES:
        refuse(where, step.line, name, f"type {step.type!r}: expected one of {', '.join(sorted(TYPES))}")
    for kinds, peer, verb in ((SENDS, block.send, "send"), (RECEIVES, block.receive, "receive")):
        if step.type in kinds and peer < 0:
            refuse(where, step.line, name, f"type {step.type!r} in a threadblock that has no peer to {verb}")
    if step.type != "nop" and not 1 <= step.count <= MOST_COUNT:
        refuse(where, step.line, name, f"{step.count} chunks: expected 1 to {MOST_COUNT}")
    for kinds, place in ((READS_SOURCE, step.source), (WRITES, step.destination)):
        if step.type in kinds:
            buffer, first = place
            held = gpu.chunks[buffer] if buffer in BUFFERS else 0
            if not 0 <= first <= held - step.count:
                what = f"chunks {first} and {step.count - 1} more of buffer {buffer!r}: there are {held}"
                refuse(where, step.line, name, what)
            if first > MOST_OFFSET:
                refuse(where, step.line, name, f"offset {first}: runtimes keep offsets up to {MOST_OFFSET}")
    overlap = step.source[0] == step.destination[0] and 0 < abs(step.source[1] - step.destination[1]) < step.count
    if overlap and step.type in READS_SOURCE & WRITES:
        refuse(where, step.line, name, f"reads and writes overlapping chunks of buffer {step.source[0]!r}")
    if step.depends is not None:
        _check_dependency(gpu, step, name, where)
    elif step.type == "nop" or (i and block.steps[i - 1].type == "nop"):
        refuse(where, step.line, name, "a nop, and what follows one, must wait for a step")


def _check_dependency(gpu: Gpu, step: Step, name: str, where: str) -> None:
    """Raise ConfigError unless the step that a step waits for, in the same GPU, exists, its threadblock's number is at
    most 127, and that step or a later one of the threadblock announces it (``hasdep``).

    A step that waits for nothing is refused too, so ``step.depends`` must be set. ``name`` names the waiting step, and
    ``where`` the file, in messages.
    """
    block, awaited = step.depends or (-1, -1)
    if not 0 <= block < len(gpu.blocks):
        refuse(where, step.line, name, f"waits for threadblock {block}: the GPU has {len(gpu.blocks)}")
    if block > MOST_AWAITED:
        refuse(where, step.line, name, f"waits for threadblock {block}: runtimes keep numbers up to {MOST_AWAITED}")
    if not 0 <= awaited < len(gpu.blocks[block].steps):
        refuse(where, step.line, name, f"waits for step {awaited} of threadblock {block}, which does not exist")
    if gpu.blocks[block].announced_by(awaited) is None:
        what = f"waits for step {awaited} of threadblock {block}, and no step from that one on says hasdep=1"
        refuse(where, step.line, name, what)
