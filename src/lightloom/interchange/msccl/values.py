"""Values of chunks: which chunk of the collective, and the GPUs whose contributions are summed in it."""

from __future__ import annotations

from typing import NamedTuple


class Value(NamedTuple):
    """A chunk of the collective, or a partial sum of it."""

    chunk: int
    """Number of the chunk (:mod:`lightloom.interchange.msccl.conditions`)."""
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
