"""All-reduce in two stages: rings of workers, whose leaders exchange sums in a ring or through an aggregator.

    1c      ┌─ 0 ◀──────▶ 4 ─┐                1b         ┌─▶ aggregator ◀─┐
        1   │   3      5  │   7                  ┌─ 0 ◀──┘                └──▶ 4 ─┐
            └── 2         └── 6                  └─ 1, 2, 3            5, 6, 7 ───┘

    1. each group adds up in its ring;
    2. leaders exchange the sums of their groups, slice by slice, in the ring of leaders or through the aggregator;
    3. the finished bytes are passed on around each group, piece by piece, so that all hops work at the same time.

Every hop is compressed. All ranks decode the same finished bytes, so replicas stay bit-identical. Source: INCEPTIONN,
Fig. 1b and 1c; the paper draws them and leaves the steps open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightloom.core.arrays import Float32s
from lightloom.core.errors import ConfigError
from lightloom.exchange.compression.codec import Codec, float32_values
from lightloom.exchange.transport.channel import (
    Payload,
    Traffic,
    decode,
    encode_with_residual,
    payload_limit,
)
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT, Ring
from lightloom.exchange.transport.meeting import Store, ring_from_store
from lightloom.exchange.transport.ring_all_reduce import all_reduce_in_place
from lightloom.exchange.transport.tree import Node, Tree, node_from_store


@dataclass(frozen=True, slots=True)
class Groups:
    """The ranks of each group; the first rank of a group leads it.

    Raises:
        ConfigError: a group is empty, or the ranks are not 0, 1, … each once.
    """

    members: tuple[tuple[int, ...], ...]
    aggregator: int | None = None
    """The rank that adds up what the leaders send (Fig. 1b); without one they form a ring (Fig. 1c)."""

    def __post_init__(self) -> None:
        ranks = [rank for group in self.members for rank in group]
        ranks += [] if self.aggregator is None else [self.aggregator]
        if not self.members or not all(self.members) or sorted(ranks) != list(range(len(ranks))):
            raise ConfigError(f"groups {self.members}, aggregator {self.aggregator}: expected each rank from 0 once")

    @classmethod
    def of(cls, groups: int, size: int, *, aggregator: bool = False) -> Groups:
        """``groups`` groups of ``size`` neighbouring ranks; the aggregator, if any, comes last."""
        members = tuple(tuple(range(group * size, (group + 1) * size)) for group in range(groups))
        return cls(members, groups * size if aggregator else None)

    @property
    def leaders(self) -> tuple[int, ...]:
        """Leader of each group."""
        return tuple(group[0] for group in self.members)

    @property
    def slices(self) -> int:
        """Number of parts of what the leaders exchange; enough to keep every hop of a group busy."""
        return max(len(group) for group in self.members)


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One worker of a hierarchy; created by ``hierarchy_from_store``."""

    groups: Groups
    ring: Ring | None
    """The ring of this worker's group; None in a group of one."""
    above: Ring | Node | None
    """Of a leader, the ring of leaders or the connection to the aggregator."""

    def all_reduce(
        self, values: Float32s, codec: Codec | None = None, residual: Float32s | None = None
    ) -> tuple[Float32s, Traffic]:
        """The sum of all workers' ``values``, the same bits on every rank.

        Without a codec, a group adds up as its ring does, and so do the leaders with the sums of groups in each slice;
        an aggregator adds group 0, 1, … With a codec of absolute error e, each value is within (N + L) e of that sum, N
        workers in L groups: N encodings in the groups and L among the leaders (L + 1 with an aggregator).

        Args:
            values: any length, the same on every rank; left alone.
            residual: overwritten with what this rank's encodings took away (0 where a value is not finite). The sum of
                all residuals, the aggregator's included, is what the result lacks.

        Raises:
            InputError: the values are not float32.
            TransportError: see ``ChannelGroup.transfer``; all ranks are told.
        """
        total = float32_values(values).copy()
        if residual is not None:
            residual[:] = 0
        with ExitStack() as together, np.errstate(over="ignore", invalid="ignore"):
            for peers in (self.above, self.ring):
                if peers is not None:
                    together.enter_context(peers.breaking_off())
            traffic = Traffic(0, 0)
            if self.ring is not None:
                traffic, _ = all_reduce_in_place(self.ring, total, codec, residual)
            if len(self.groups.members) > 1 or self.groups.aggregator is not None:
                traffic += self._finish(total, codec, residual)
        return total, traffic

    def _finish(self, total: Float32s, codec: Codec | None, residual: Float32s | None) -> Traffic:
        """Replace the sum of the group by the sum of all groups."""
        slices, traffic = np.array_split(total, self.groups.slices), Traffic(0, 0)
        pieces = slices
        if self.groups.aggregator is None:
            pieces = [piece for part in slices for piece in np.array_split(part, len(self.groups.members))]
        payloads: list[Payload] = []
        if self.above is not None:
            lost = None if residual is None else np.zeros_like(total)
            losses = _split(lost, len(slices))
            if isinstance(self.above, Ring):
                traffic, payloads = _meet_in_ring(self.above, slices, codec, losses)
            else:
                traffic, payloads = _meet_at_aggregator(self.above, slices, codec, losses)
            if residual is not None and lost is not None:
                residual += lost
        if self.ring is not None:
            traffic += _pass_on(self.ring, pieces, payloads, codec)
        return traffic


def aggregate(
    node: Node, groups: Groups, size: int, codec: Codec | None = None, residual: Float32s | None = None
) -> Traffic:
    """The aggregator's part in one ``all_reduce`` of ``size`` values: add up what leaders send (Fig. 1b).

    Args:
        node: as ``aggregator_from_store`` connects it.
        residual: overwritten with what the encodings of the sum took away.

    Raises:
        TransportError: see ``ChannelGroup.transfer``.
    """
    raw = sent = 0
    parts = np.array_split(np.zeros(size, np.float32), groups.slices)
    losses = _split(residual, len(parts))
    finished: Payload = b""
    with node.breaking_off(), np.errstate(over="ignore", invalid="ignore"):
        for step in range(len(parts) + 1):
            sends = dict.fromkeys(node.children, finished) if step > 0 else {}
            limits = dict.fromkeys(node.children, payload_limit(parts[step].size)) if step < len(parts) else {}
            came = node.transfer(sends, limits, marked=codec is not None)
            sent += len(sends) * memoryview(finished).nbytes
            if step < len(parts):
                part = parts[step]
                for child in node.children:
                    part += decode(codec, came[child], part.size, rank=node.name, peer=child.peer)
                finished = encode_with_residual(codec, part, losses[step])
                raw += len(node.children) * part.nbytes
    return Traffic(raw, sent)


@contextmanager
def hierarchy_from_store(
    store: Store,
    rank: int,
    groups: Groups,
    *,
    name: str = "hierarchy",
    host: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Iterator[Hierarchy]:
    """Connect a worker until the context ends; all ranks call this or ``aggregator_from_store``, equally often.

    Args:
        store, host, timeout: see ``ring_from_store``.

    Raises:
        TransportError: a rank did not come in time, or cannot be reached.
        ConfigError: ``rank`` is in no group.
    """
    own = [(number, group) for number, group in enumerate(groups.members) if rank in group]
    if not own:
        raise ConfigError(f"rank {rank} is in none of the groups {groups.members}")
    number, members = own[0]
    ring: Ring | None = None
    above: Ring | Node | None = None
    options: dict[str, Any] = {"host": host, "timeout": timeout}
    with ExitStack() as opened:
        if len(members) > 1:
            place, label = members.index(rank), f"{name}/{number}"
            ring = ring_from_store(store, place, len(members), name=label, names=members, **options)
            opened.enter_context(ring)
        if rank == members[0] and groups.aggregator is not None:
            above = opened.enter_context(_star(store, number, groups, name, **options))
        elif rank == members[0] and len(groups.members) > 1:
            leaders, label = groups.leaders, f"{name}/leaders"
            above = ring_from_store(store, number, len(leaders), name=label, names=leaders, **options)
            opened.enter_context(above)
        yield Hierarchy(groups, ring, above)


def aggregator_from_store(
    store: Store,
    groups: Groups,
    *,
    name: str = "hierarchy",
    host: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Node:
    """Connect the aggregator of ``groups``, for ``aggregate``; see ``hierarchy_from_store``."""
    if groups.aggregator is None:
        raise ConfigError(f"groups {groups.members} have no aggregator")
    return _star(store, len(groups.members), groups, name, host=host, timeout=timeout)


def _star(store: Store, place: int, groups: Groups, name: str, *, host: str | None, timeout: float) -> Node:
    assert groups.aggregator is not None
    names = (*groups.leaders, groups.aggregator)
    tree = Tree.star(len(groups.members))
    return node_from_store(store, tree, place, name=f"{name}/leaders", host=host, timeout=timeout, names=names)


def _split(values: Float32s | None, parts: int) -> Sequence[Float32s | None]:
    return [None] * parts if values is None else np.array_split(values, parts)


def _meet_in_ring(
    ring: Ring, slices: Sequence[Float32s], codec: Codec | None, residuals: Sequence[Float32s | None]
) -> tuple[Traffic, list[Payload]]:
    traffic, payloads = Traffic(0, 0), []
    for part, lost in zip(slices, residuals, strict=True):
        more, finished = all_reduce_in_place(ring, part, codec, lost)
        traffic += more
        payloads += finished
    return traffic, payloads


def _meet_at_aggregator(
    node: Node, slices: Sequence[Float32s], codec: Codec | None, residuals: Sequence[Float32s | None]
) -> tuple[Traffic, list[Payload]]:
    """Send each slice to the aggregator while the sum of the previous slice arrives."""
    traffic, payloads = Traffic(0, 0), list[Payload]()
    parent = node.parent
    assert parent is not None
    for step in range(len(slices) + 1):
        sends, limits = {}, {}
        if step < len(slices):
            sends[parent] = encode_with_residual(codec, slices[step], residuals[step])
            traffic += Traffic(slices[step].nbytes, memoryview(sends[parent]).nbytes)
        if step > 0:
            limits[parent] = payload_limit(slices[step - 1].size)
        came = node.transfer(sends, limits, marked=codec is not None)
        if step > 0:
            part = slices[step - 1]
            part[:] = decode(codec, came[parent], part.size, rank=node.name, peer=parent.peer)
            payloads.append(came[parent])
    return traffic, payloads


def _pass_on(ring: Ring, pieces: Sequence[Float32s], payloads: list[Payload], codec: Codec | None) -> Traffic:
    """Pass pieces on from the leader to the last rank of its ring, each while the next one arrives."""
    first, last, traffic = ring.rank == 0, ring.rank == ring.size - 1, Traffic(0, 0)
    received: Payload = b""
    for step in range(len(pieces) + 1):
        sends, limits = {}, {}
        if step > 0 and not last:
            sends[ring.next] = payloads[step - 1] if first else received
            traffic += Traffic(pieces[step - 1].nbytes, memoryview(sends[ring.next]).nbytes)
        if step < len(pieces) and not first:
            limits[ring.previous] = payload_limit(pieces[step].size)
        came = ring.transfer(sends, limits, marked=codec is not None)
        if limits:
            received = came[ring.previous]
            pieces[step][:] = decode(codec, received, pieces[step].size, rank=ring.name, peer=ring.previous.peer)
    return traffic
