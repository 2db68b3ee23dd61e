"""What the ranks of a stage do in a step, before ranks and nodes have numbers.

compute      seconds on the accelerator
host         seconds beside it: circuits are set up, gradients are coded
collective   of the rank's group on one axis of parallelism
send         to the rank in the same place of another stage, and its receive there
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from lightloom.collectives.spec import Kind
from lightloom.planner.pricing.stage_exchanges import Axis

Verb = Literal["compute", "host", "collective", "send", "receive"]


class CollectiveUse(NamedTuple):
    """One collective in groups of ranks."""

    axis: Axis
    kind: Kind
    nbytes: float
    """As ``Collective.nbytes``."""
    ranks: int
    stride: int
    """Distance between neighbours of a group, in ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that every rank of a stage does."""

    verb: Verb
    name: str
    data: tuple[int, ...] = ()
    """Places in the stage's list whose results it needs; all of them come before it."""
    control: tuple[int, ...] = ()
    """Places after which it comes, to keep an order."""
    seconds: float = 0.0
    """Duration of a ``compute`` or ``host`` operation."""
    flops: int | None = None
    """Floating-point operations, where they are known."""
    use: CollectiveUse | None = None
    """What a ``collective`` is."""
    stages: tuple[int, ...] = ()
    """Stages whose ranks a collective joins, where these are several."""
    peer: int = 0
    """Stage of the other end of a ``send`` or ``receive``."""
    nbytes: float = 0.0
    """Bytes of a ``send`` or ``receive``."""
    tag: int = 0
    """Number that a ``send`` and its ``receive`` share, and no other message."""


class StageOperations:
    """Builds the list of a stage: computing, and collectives, each one after the other."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._computed: tuple[int, ...] = ()
        self._exchanged: tuple[int, ...] = ()
        self._awaited: tuple[int, ...] = ()

    @property
    def computed(self) -> tuple[int, ...]:
        """The last operation that computes; empty before the first."""
        return self._computed

    @property
    def exchanged(self) -> tuple[int, ...]:
        """The last collective; empty before the first."""
        return self._exchanged

    def compute(self, name: str, seconds: float, *after: int, flops: int | None = None) -> int:
        """Add computing after the one before it; returns its place."""
        data = tuple(dict.fromkeys((*self._computed, *self._awaited, *after)))
        self._awaited = ()
        place = self._add(Operation(verb="compute", name=name, data=data, seconds=seconds, flops=flops))
        self._computed = (place,)
        return place

    def wait_for(self, *places: int) -> None:
        """Make the next computing wait for these operations, too."""
        self._awaited = (*self._awaited, *places)

    def host(self, name: str, seconds: float, *after: int) -> int:
        """Add what happens in the network or on the host between two collectives; returns its place."""
        place = self._add(Operation(verb="host", name=name, data=after, control=self._exchanged, seconds=seconds))
        self._exchanged = (place,)
        return place

    def collective(self, name: str, use: CollectiveUse, *after: int, stages: tuple[int, ...] = ()) -> int:
        """Add a collective behind the one before it: all ranks of a group issue theirs in the same order."""
        data = tuple(dict.fromkeys(after))
        control = tuple(place for place in self._exchanged if place not in data)
        place = self._add(Operation(verb="collective", name=name, data=data, control=control, use=use, stages=stages))
        self._exchanged = (place,)
        return place

    def send(self, name: str, peer: int, nbytes: float, tag: int, *after: int) -> int:
        """Add a send; sends wait for nothing but their data."""
        return self._add(Operation(verb="send", name=name, data=after, peer=peer, nbytes=nbytes, tag=tag))

    def receive(self, name: str, peer: int, nbytes: float, tag: int) -> int:
        """Add a receive, which is posted when the step begins."""
        return self._add(Operation(verb="receive", name=name, peer=peer, nbytes=nbytes, tag=tag))

    def _add(self, operation: Operation) -> int:
        self.operations.append(operation)
        return len(self.operations) - 1
