"""Where the program of a schedule holds the chunks of each rank: input, output or scratch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lightloom.collectives.schedule.columns import Schedule


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
