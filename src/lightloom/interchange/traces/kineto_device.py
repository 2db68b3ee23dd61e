"""Work of an accelerator in a profile: who launched it, what exchanges data among ranks, how it overlaps.

A launch (category ``cuda_runtime``, ...) belongs to the innermost call that was open on its thread when it began; where
none was, to the call of its external id. The correlation joins a kernel to its launch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lightloom.interchange.traces.exchanges import TracedExchange, kind_of_kernel, kind_of_words

DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset", "mtia_ccp_events"})
"""Categories of an accelerator's work."""
LAUNCHES = ("_runtime", "_driver", "Runtime")
"""Ends of the categories of launches."""
_ELEMENT_BYTES = {
    "Double": 8,
    "Float": 4,
    "Half": 2,
    "BFloat16": 2,
    "Float8_e4m3fn": 1,
    "Float8_e5m2": 1,
    "Long": 8,
    "Int": 4,
    "Short": 2,
    "Char": 1,
    "Byte": 1,
    "Bool": 1,
}
"""Bytes of an element by the name that PyTorch gives its type."""


class DeviceWork(NamedTuple):
    """One piece of work of the accelerator."""

    name: str
    begin: float
    """Seconds on the trace's clock."""
    seconds: float
    exchange: TracedExchange | None
    """The exchange that it carries out, if it does."""

    @property
    def end(self) -> float:
        return self.begin + self.seconds


class Busy(NamedTuple):
    """Seconds of a window in which an accelerator, or a host, computes and exchanges."""

    computing: float
    exposed: float
    """Exchanging and not computing."""
    overlapped: float
    """Exchanging beside computing; a part of ``computing``."""
    idle: float

    @property
    def window(self) -> float:
        """Seconds of the whole window."""
        return self.computing + self.exposed + self.idle


def busy(
    computing: Iterable[tuple[float, float]], exchanging: Iterable[tuple[float, float]], window: tuple[float, float]
) -> Busy:
    """Return what intervals, as begins and ends, fill of a window.

    ``computing + exposed + idle`` is the window; exchanges last ``exposed + overlapped``.
    """
    computed, exchanged = _union(computing, window), _union(exchanging, window)
    either = _length(_union([*computed, *exchanged], window))
    alone, together = _length(computed), _length(exchanged)
    return Busy(alone, either - alone, alone + together - either, window[1] - window[0] - either)


def _union(intervals: Iterable[tuple[float, float]], window: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the same points as disjoint intervals inside the window, in order."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted((max(begin, window[0]), min(end, window[1])) for begin, end in intervals):
        if end <= begin:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def _length(intervals: Sequence[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in intervals)


class OpenCalls:
    """The calls of one thread, by when they are open."""

    def __init__(self, spans: Sequence[tuple[float, float, int]]) -> None:
        """``spans`` are begins, ends and numbers of calls inside each other, in the order of the begins."""
        self._begins = [begin for begin, _, _ in spans]
        self._spans = spans
        self._outer: list[int] = []
        stack: list[int] = []
        for place, (begin, _, _) in enumerate(spans):
            while stack and spans[stack[-1]][1] <= begin:
                stack.pop()
            self._outer.append(stack[-1] if stack else -1)
            stack.append(place)

    def at(self, moment: float) -> int | None:
        """Return the number of the innermost call that is open; None where none is."""
        place = bisect_right(self._begins, moment) - 1
        while place >= 0 and self._spans[place][1] < moment:
            place = self._outer[place]
        return self._spans[place][2] if place >= 0 else None


def exchange_of(name: str, arguments: Mapping[str, Any], seconds: float) -> TracedExchange | None:
    """Return the exchange that a kernel, or a call of a communication library, carries out; None for other work.

    ``torch.profiler`` of PyTorch 2.2 and later states its collective, elements, number format and group.
    """
    stated = arguments.get("Collective name")
    kind = kind_of_words(str(stated)) or str(stated) if stated else kind_of_kernel(name)
    if not kind:
        return None
    elements, size = arguments.get("In msg nelems"), _ELEMENT_BYTES.get(str(arguments.get("dtype")))
    nbytes = elements * size if type(elements) is int and elements >= 0 and size else None
    ranks = arguments.get("Group size")
    group = str(arguments.get("Process Group Description") or arguments.get("Process Group Name") or "")
    return TracedExchange(kind, nbytes, group, seconds, ranks if type(ranks) is int and ranks > 0 else None)
