"""What the buffers of a program hold before and must hold after, written down without the code that makes schedules.

``n`` is ``nchunksperloop``, ``own`` is n / ranks. Chunks are numbered over all GPUs where data moves, and within one
input where it is summed:

    collective      input   output   chunk of input k on GPU r   output k of GPU r must be
    allgather       own     n        r * own + k                 chunk k
    reduce_scatter  n       own      k                           chunk r * own + k summed over all GPUs
    allreduce       n       n        k                           chunk k summed over all GPUs
    alltoall        n       n        r * n + k                   chunk (k // own) * n + r * own + k % own
    broadcast       n       n        r * n + k                   chunk root * n + k
    reduce          n       n        k                           on the root: chunk k summed over all GPUs

In place, the smaller of input and output is the GPU's own part of the larger, as in NCCL. A file does not name its
root: it is the GPU whose data arrives, or the one that holds the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lightloom.core.errors import UnsupportedError
from lightloom.interchange.msccl.program import BUFFERS, Program
from lightloom.interchange.msccl.values import OWN, Content, Value

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
        """Return the number of chunks of the input ("i") or output ("o"); None for scratch."""
        return {"i": self.inputs[rank], "o": self.outputs[rank]}.get(buffer)

    def place(self, rank: int, buffer: str, chunk: int) -> Place:
        """Return the memory of a chunk."""
        if not self.in_place or buffer == "s":
            return rank, buffer, chunk
        inputs, outputs = self.inputs[rank], self.outputs[rank]
        larger = "i" if inputs >= outputs else "o"
        smaller = min(inputs, outputs)
        return rank, larger, chunk + (rank * smaller if buffer != larger and inputs != outputs else 0)

    def initial(self) -> Iterator[tuple[Place, Value]]:
        """Yield what is stored before the program runs."""
        first = 0
        for rank, count in enumerate(self.inputs):
            for k in range(count):
                yield self.place(rank, "i", k), Value(first + k, 1 << rank, OWN)
            first += 0 if self.collective in SUMMED else count

    def root(self, memory: Mapping[Place, Content]) -> int:
        """Return the root that a finished program has served; 0 where the collective has none."""
        if self.collective == "broadcast":
            values = (memory.get(self.place(rank, "o", 0)) for rank in range(self.ranks))
            chunks = [value.chunk // self.chunks for value in values if isinstance(value, Value)]
            return max(set(chunks), key=chunks.count, default=0)
        if self.collective == "reduce":
            summed = [self._has_sum(memory.get(self.place(rank, "o", 0))) for rank in range(self.ranks)]
            return summed.index(True) if True in summed else 0
        return 0

    def _has_sum(self, value: Content) -> bool:
        return isinstance(value, Value) and value.contributors == (1 << self.ranks) - 1

    def expected(self, root: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (GPU, chunk of its output, chunk number, contributors) of everything that must be there at the end."""
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


def name_of(program: Program) -> str:
    """Return the collective of a program under the name that this module uses."""
    return _SYNONYMS.get(program.collective, program.collective)


def condition_of(program: Program, in_place: bool, where: str) -> Condition:
    """Return the pre- and postcondition of a program.

    Raises:
        UnsupportedError: a collective whose result is not defined here, or chunks that do not fit it.
    """
    name, ranks, chunks = name_of(program), len(program.gpus), program.chunks
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
