"""Exchanges among ranks as traces record them: collectives, sends and receives, with their bytes, group and time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lightloom.core.units import format_size, format_time

_WORDS: Mapping[str, str] = {
    "allreduce": "all-reduce",
    "reducescatter": "reduce-scatter",
    "allgather": "all-gather",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "sendrecv": "send and receive",
    "barrier": "barrier",
    "gather": "gather",
    "scatter": "scatter",
    "reduce": "reduce",
    "send": "send",
    "recv": "receive",
}
"""Kind by what the name of a kernel or of an operator holds, without marks between words; the first one counts."""
_KERNEL = re.compile(r"^(nccl|rccl|mscclpp|onecc|hccl)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TracedExchange:
    """One exchange of a trace."""

    kind: str
    """``all-reduce``, ``reduce-scatter``, ...; ``send``, ``receive``."""
    nbytes: int | None
    """Bytes that this rank puts in; None where the trace does not say."""
    group: str = ""
    """Name of the group of ranks; empty where the trace does not say."""
    seconds: float = 0.0
    """Time on the accelerator, or on the host; 0 where the trace does not say."""
    ranks: int | None = None
    """Ranks of the group; None where the trace does not say."""


def kind_of_kernel(name: str) -> str:
    """Return the kind of exchange that a kernel of a collective library is for; empty for other kernels."""
    return kind_of_words(name) or "unknown" if _KERNEL.match(name) else ""


def kind_of_words(name: str) -> str:
    """Return the kind of exchange that a name speaks of; empty without one."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return next((kind for word, kind in _WORDS.items() if word in plain), "")


def exchange_lines(exchanges: Iterable[TracedExchange]) -> list[str]:
    """Return a line for each kind and group: how many exchanges, their bytes, their seconds."""
    groups: dict[tuple[str, str, int | None], list[TracedExchange]] = {}
    for exchange in exchanges:
        groups.setdefault((exchange.kind, exchange.group, exchange.ranks), []).append(exchange)
    return [_line(kind, group, ranks, members) for (kind, group, ranks), members in groups.items()]


def unpriced_exchanges(exchanges: Iterable[TracedExchange]) -> list[str]:
    """Return a warning about exchanges of a trace that no plan makes, as tensor groups of the traced run did."""
    listed = "; ".join(exchange_lines(exchanges))
    if not listed:
        return []
    return [f"exchanges within the traced passes take no time in the plan, which has those of its strategy: {listed}"]


def _line(kind: str, group: str, ranks: int | None, members: list[TracedExchange]) -> str:
    known = [exchange.nbytes for exchange in members if exchange.nbytes is not None]
    size = f"{format_size(sum(known))} put in" if len(known) == len(members) else "bytes not recorded"
    seconds = sum(exchange.seconds for exchange in members)
    where = (f" in group {group!r}" if group else "") + (f" of {ranks} ranks" if ranks else "")
    return f"{len(members)} x {kind}{where}: {size}" + (f", {format_time(seconds)}" if seconds else "")
