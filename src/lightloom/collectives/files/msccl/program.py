"""Programs of MSCCL's runtime: threadblocks of GPUs, each with at most one peer to send to and one to receive from.

    <algo name proto nchannels nchunksperloop ngpus coll inplace outofplace minBytes maxBytes>
      <gpu id i_chunks o_chunks s_chunks>
        <tb id send recv chan>
          <step s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep/>

A threadblock runs its steps in order; before a step it waits for step ``deps`` of threadblock ``depid`` of its GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
READS_SOURCE = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
"""Types that read ``srcbuf``; "rcs" and "rrcs" send on what they have written."""
WRITES = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
ADDS = frozenset({"rrs", "rrc", "rrcs", "re"})
TYPES = SENDS | RECEIVES | READS_SOURCE | {"nop"}
"""Types of steps: s sends, r receives, c copies to the buffer, rr reduces; "re" and "cpy" are local."""
BUFFERS = ("i", "o", "s")


@dataclass(slots=True, kw_only=True)
class Step:
    """One step of a threadblock."""

    type: str
    source: tuple[str, int] = ("i", -1)
    """Buffer and first chunk that it reads."""
    destination: tuple[str, int] = ("o", -1)
    """Buffer and first chunk that it writes."""
    count: int = 1
    depends: tuple[int, int] | None = None
    """Threadblock of the same GPU, and its step that must have ended."""
    awaited: bool = False
    """Whether a step of another threadblock depends on this one."""
    line: int = field(default=0, compare=False)


@dataclass(slots=True, kw_only=True)
class ThreadBlock:
    """Steps that run in order, on one channel, to at most one peer and from at most one."""

    send: int = -1
    receive: int = -1
    channel: int = 0
    steps: list[Step] = field(default_factory=list)
    line: int = field(default=0, compare=False)

    def announced_by(self, number: int) -> int | None:
        """Return the step that tells waiting threadblocks that a step has ended; None if none does.

        A threadblock announces the steps up to one that says ``hasdep``; a nop announces nothing.
        """
        steps = range(number, len(self.steps))
        return next((i for i in steps if self.steps[i].awaited and self.steps[i].type != "nop"), None)


@dataclass(slots=True, kw_only=True)
class Gpu:
    """One GPU: the number of chunks in each buffer, and its threadblocks by id."""

    chunks: dict[str, int]
    blocks: list[ThreadBlock] = field(default_factory=list)
    line: int = field(default=0, compare=False)


@dataclass(slots=True, kw_only=True)
class Program:
    """A program, with its GPUs by id."""

    name: str
    collective: str
    """MSCCL's name of the collective: allgather, allreduce, reduce_scatter, ..."""
    protocol: str = "Simple"
    channels: int = 1
    chunks: int = 1
    """Chunks that a loop of the runtime handles."""
    in_place: bool = True
    """Whether it is right where input and output share memory."""
    out_of_place: bool = False
    """Whether it is right where they do not; programs that say neither are out of place."""
    min_bytes: int = 0
    """Smallest size of the collective for which a runtime chooses the program."""
    max_bytes: int = 1 << 27
    """Size from which microsoft/msccl no longer chooses it; the default is that runtime's where none is given."""
    gpus: list[Gpu] = field(default_factory=list)

    @property
    def modes(self) -> list[bool]:
        """Return the ways in which buffers may lie: in place (True), out of place (False), or both."""
        ways = [way for way, claimed in ((True, self.in_place), (False, self.out_of_place)) if claimed]
        return ways or [False]


# Values of chunks: which chunk of the collective, and the GPUs whose contributions are summed in it.


class Value(NamedTuple):
    """A chunk of the collective, or a partial sum of it."""

    chunk: int
    """Number of the chunk (:mod:`lightloom.collectives.files.msccl.rules`)."""
    contributors: int
    """GPUs whose contributions are in it, as bits."""
    parts: frozenset[int]
    """What was summed on this GPU: numbers of the arrivals, and -1 for the GPU's own data."""


class Fault(NamedTuple):
    """What is left of a value after a sum that means nothing."""

    reason: str


Content = Value | Fault | None
"""What a chunk of a buffer holds; None where nothing has been stored."""
OWN = frozenset({-1})
"""Parts of a value that has not moved."""


def added(held: Content, more: Content, where: str) -> Content:
    """Return the sum of two contents, a fault if it is the sum of no chunk; ``where`` names the step that adds."""
    for content in (held, more):
        if isinstance(content, Fault):
            return content
    if not isinstance(held, Value) or not isinstance(more, Value):
        return Fault(f"{where} adds a chunk in which nothing was stored")
    if held.chunk != more.chunk:
        return Fault(f"{where} adds chunk {more.chunk} to chunk {held.chunk}")
    twice = held.contributors & more.contributors
    if twice:
        return Fault(f"{where} adds the contribution of GPU {twice.bit_length() - 1} for the second time")
    return Value(held.chunk, held.contributors | more.contributors, held.parts | more.parts)


def described(content: Content, ranks: int) -> str:
    """Return a content in words."""
    if content is None:
        return "nothing"
    if isinstance(content, Fault):
        return f"no value of the collective ({content.reason})"
    members = [rank for rank in range(ranks) if content.contributors >> rank & 1]
    if len(members) == 1:
        return f"chunk {content.chunk} of GPU {members[0]}"
    if len(members) == ranks:
        return f"chunk {content.chunk} summed over all {ranks} GPUs"
    missing = [str(rank) for rank in range(ranks) if rank not in members]
    return f"chunk {content.chunk} summed over {len(members)} of {ranks} GPUs, without {_some(missing)}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
